"""Prepared parallel corpora: their pairs, batches and references."""

import hashlib
import io
import json
import struct
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adanorm.config.data_sections import SPLITS, ParallelConfig, data_bin_files
from adanorm.config.values import sha256
from adanorm.data import packed
from adanorm.data.examples import WHOLE, Indices, Movable, Part, batches_within
from adanorm.data.inspection import (
    Counts,
    Inspection,
    batch_warnings,
    count_overlaps,
    overlap_warnings,
)
from adanorm.data.translation.fairseq_library import fairseq
from adanorm.data.translation.preparation import prepared_corpus
from adanorm.data.translation.tokenization import (
    SHARE_OF_MARKS,
    Bpe,
    Tokenizer,
    apparent_cut,
    apparent_marks,
    own_tokenizer,
    tokenizer_of,
    what_cut,
)

BATCH_MULTIPLE = 8  # sentences: fairseq-train's default
ROWS_MULTIPLE = 256  # targets: to so many a batch for a CUDA graph is filled up
# In references the second, a private-use character, replaces the first: no <unk> matches.
UNKNOWN_WORD, NO_WORD = "<unk>", "\ue000"
OTHER_SUBWORDS = {"\u0120": "byte-level BPE", "##": "WordPiece"}  # by how they begin
MOST_COUNTED = 1 << 24  # ids at once: bounds the memory of NumPy, which counts 64-bit numbers
FEW_WORDS = 4  # per line: BLEU counts the matches of four words


@dataclass(frozen=True)
class PairBatch(Movable):
    """Token ids, and facts about them that are known before they move, to save waits."""

    source: Tensor  # (B, S), padded left
    previous: Tensor  # (B, T), padded right
    target: Tensor  # (N,) target ids without padding, row by row
    counted: Tensor  # (2, N) the targets' rows and columns in (B, T)
    has_padding: bool  # whether the source has padding
    weight: Tensor | None = None  # (N,) of each target in the loss; None: all weigh 1
    added: int = 0  # the last targets, which weigh 0
    part: Part = WHOLE

    @property
    def units(self) -> int:  # type: ignore[override]
        """The number of target tokens."""
        return len(self.target) - self.added

    def with_rounded_rows(self) -> "PairBatch":
        """Return the batch with N rounded up; added targets repeat the first and weigh nothing."""
        rows = len(self.target)
        added = -rows % ROWS_MULTIPLE
        chosen = torch.zeros(rows + added, dtype=torch.long)
        chosen[:rows] = torch.arange(rows)
        weight = torch.zeros(rows + added)
        weight[:rows] = 1
        return replace(
            self,
            target=self.target[chosen],
            counted=self.counted[:, chosen],
            weight=weight,
            added=added,
        )


class Pairs:
    """A split: pairs of token id sequences, each with an end-of-sentence token."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self._padding = dataset, dataset.src_dict.pad()
        self.sizes = np.maximum(dataset.src_sizes, dataset.tgt_sizes).astype(np.int64)

    def __len__(self) -> int:
        return len(self.sizes)

    def order(self, batch_tokens: int, random: np.random.Generator | None) -> list[Indices]:
        """Return the indices of each batch's pairs, alike in length, `batch_tokens` a side at most.

        With a generator, batches are in random order, without pairs longer than a batch.
        """
        indices = np.arange(len(self))
        if random is not None:
            indices = random.permutation(indices)
        sources, targets = self.dataset.src_sizes[indices], self.dataset.tgt_sizes[indices]
        indices = indices[np.lexsort((targets, sources))]
        if random is not None:
            indices = indices[self.sizes[indices] <= batch_tokens]
        # Not fairseq's batch_by_size: it drops a last batch whose size is not a multiple.
        batches = batches_within(
            indices,
            self.sizes,
            batch_tokens,
            multiple=BATCH_MULTIPLE,
        )
        if random is not None:
            random.shuffle(batches)
        return batches

    def batch(self, indices: Indices, part: Part = WHOLE) -> PairBatch:
        """Return a part of these pairs' batch; an empty part is the first pair without targets."""
        sources, targets = self._sides
        # The order of fairseq's collater, which sorts with this very call; it is not stable.
        lengths = torch.from_numpy(sources.sizes[indices])
        ordered = indices[lengths.sort(descending=True).indices.numpy()]
        chosen = ordered[part.rows]
        is_empty = len(chosen) == 0
        if is_empty:
            part = Part(0, len(ordered), len(ordered))
            chosen = ordered[part.rows]
        source, is_source = sources.padded(
            chosen,
            self._padding,
            at="left",
            whole=indices,
        )
        target, is_target = targets.padded(
            chosen,
            self._padding,
            at="right",
            whole=indices,
        )
        previous = np.full_like(target, self._padding)
        previous[:, 1:] = np.where(
            is_target[:, 1:],
            target[:, :-1],
            self._padding,
        )
        previous[:, 0] = self.dataset.tgt_dict.eos()
        counted = np.stack(is_target.nonzero())
        if is_empty:
            counted = counted[:, :0]
        return PairBatch(
            torch.from_numpy(source),
            torch.from_numpy(previous),
            torch.from_numpy(target[tuple(counted)]),
            torch.from_numpy(counted),
            has_padding=not is_source.all(),
            part=part,
        )

    @cached_property
    def _sides(self) -> "tuple[_FlatSide, _FlatSide]":
        data = self.dataset
        return _FlatSide(data.src, data.src_sizes), _FlatSide(data.tgt, data.tgt_sizes)

    def apparent_cut(self, *, side: int) -> str | None:
        """Return what seems to have cut the words of a side, judged by all its lines."""
        dictionary = (self.dataset.src_dict, self.dataset.tgt_dict)[side]
        text = self._sides[side]
        counts = text.counts(len(dictionary))
        counts[dictionary.eos()] = 0
        return apparent_cut(dictionary.symbols, counts, text.last())

    def as_bytes(self) -> Iterator[bytes]:
        """Yield each pair's token ids as bytes."""
        for index in range(len(self)):
            source, target = self.dataset.src[index], self.dataset.tgt[index]
            yield bytes(source.numpy()) + b"\n" + bytes(target.numpy())

    def sources(self, indices: Indices) -> list[Tensor]:
        """Return the source ids of these pairs."""
        return [self.dataset.src[int(index)].long() for index in indices]


class _FlatSide:
    """The sentences of one language, one after the other in one array of ids."""

    def __init__(self, sentences: Any, sizes: Any) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self._starts = np.cumsum(self.sizes) - self.sizes
        mapped = getattr(sentences, "_bin_buffer", None)  # a file of fairseq's usual format
        if mapped is None:
            self._ids = np.concatenate([sentences[i].numpy() for i in range(len(sentences))])
        else:
            self._ids = np.frombuffer(mapped, sentences._index.dtype)

    def counts(self, size: int) -> Any:
        """Return how often each id below `size` occurs, (size,)."""
        counts = np.zeros(size, dtype=np.int64)
        for start in range(0, len(self._ids), MOST_COUNTED):
            counts += np.bincount(self._ids[start : start + MOST_COUNTED], minlength=size)
        return counts

    def last(self) -> Any:
        """Return the last word's id of each sentence that has a word."""
        has_words = self.sizes > 1  # the last id is the end of the sentence
        return self._ids[self._starts[has_words] + self.sizes[has_words] - 2]

    def padded(self, indices: Indices, padding: int, *, at: str, whole: Indices) -> tuple[Any, Any]:
        """Return the ids (B, width) of sentences, padded at the left or right, and where ids are.

        They are as wide as the longest sentence of their whole batch.
        """
        width = int(self.sizes[whole].max())
        sizes = self.sizes[indices][:, None]
        columns = np.arange(width)
        if at == "left":
            columns = columns - (width - sizes)
        is_id = (columns >= 0) & (columns < sizes)
        numbers = self._starts[indices][:, None] + columns
        rows = np.full(
            is_id.shape,
            padding,
            dtype=np.int64,
        )
        rows[is_id] = self._ids[numbers[is_id]]
        return rows, is_id


Sides = tuple[list[str], list[str]]  # translations, references


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus, ready for a model, and the tokenizers that undo its preparation."""

    data: ParallelConfig
    folder: Path
    dictionaries: tuple[Any, Any]
    splits: dict[str, Pairs]
    words: tuple[Tokenizer, Tokenizer]
    subwords: Bpe
    cuts: tuple[str | None, str | None]  # what cut the words of source and target
    checksums: dict[str, str]
    counted: Counts | None  # overlaps counted by the preparation; None for a data-bin

    @cached_property
    def inspection(self) -> Inspection:
        """Counts and warnings: pairs in two splits or too long, unknown target subwords."""
        counts = self.counted or count_overlaps(
            {name: part.as_bytes() for name, part in self.splits.items()}
        )
        sizes, batch_tokens = self.splits["train"].sizes, self.data.batch_tokens
        too_long = int((sizes > batch_tokens).sum())
        counts["too_long"] = {"train": too_long}
        warnings = [
            *overlap_warnings(counts, self.splits),
            *batch_warnings(
                int(sizes.sum()),
                "data.batch_tokens",
                batch_tokens,
            ),
        ]
        if too_long:
            warnings.append(
                f"data.batch_tokens={batch_tokens}: {too_long:,} of {len(sizes):,} training pairs"
                " are longer than a batch and are not trained on"
            )
        warnings += self._remarks_on_words()
        references = self.splits["test"].dataset.tgt
        ids = np.concatenate([references[index].numpy() for index in range(len(references))])
        unknown = int((ids == self.dictionaries[1].unk()).sum())
        total = len(ids) - len(references)  # without the ends of sentences
        if unknown:
            warnings.append(
                f"test: {unknown:,} of {total:,} target subwords ({unknown / total:.1%}) are"
                " unknown to the dictionary: no translation matches them"
            )
        return Inspection(counts, tuple(warnings))

    def _remarks_on_words(self) -> list[str]:
        """Return warnings on what is joined before it is scored, and on what scores count."""
        references = self.references("test", "words")
        lines = self._remarks_on_subwords(references)
        language = self.words[1].language
        tokenizer = own_tokenizer(language, references)
        if tokenizer != tokenizer_of(language, references):
            lines.append(
                f"sacreBLEU counts characters of {language}; with"
                f" `pip install sacrebleu[{tokenizer[:2]}]` it counts {tokenizer}'s words"
            )
        words = sum(len(line.split()) for line in references)
        if tokenizer != "13a" and words < FEW_WORDS * len(references):
            lines.append(
                f"target: spaces separate {words / len(references):.1f} words per line of"
                f" {language}: BLEU on words shows little; task.metric=sacrebleu counts characters"
                " or words of its own"
            )
        return lines

    def _remarks_on_subwords(self, references: list[str]) -> list[str]:
        """Return warnings on a guess that subwords are joined, and on subwords that are not."""
        lines = []
        cut = self.cuts[1]
        if cut is not None and _known_cut(self.data, self.subwords) is None:
            lines.append(
                f"target: the words look like subwords of {cut} and are joined to be scored;"
                f" data.subwords={cut} states that they are, data.subwords=words that they are not"
            )
        words = self.dictionaries[1].symbols
        if cut is not None:
            words = set(" ".join(references).split())
        marks = apparent_marks(words)
        if marks is not None and cut != "words":
            settings = f"data.subwords={marks}"
            if self.data.path is None and self.data.bpe_merges is not None:
                settings = f"data.bpe_merges=null {settings}"
            lines.append(
                "target: the words look like subwords, which are not joined to be scored; if they"
                f" are, set {settings}"
            )
        return lines

    def words_of(self, ids: Tensor, *, side: int) -> str:
        """Return a sentence's words, its subwords joined; `side` is 0 for the source, else 1."""
        subwords = self.dictionaries[side].string(ids)
        return Bpe.join(subwords, self.cuts[side])

    def sentences(self, split: str, *, side: int) -> list[str]:
        """Return the words of each of a split's sentences on a side, as `words_of` does."""
        dataset = self.splits[split].dataset
        texts = dataset.tgt if side else dataset.src
        return [self.words_of(texts[index], side=side) for index in range(len(texts))]

    def references(self, split: str, kind: str) -> list[str]:
        """Return a split's references as words (`kind="words"`) or running text ("text")."""
        if self.data.path is None:  # beside a data-bin, a file with this name may have other pairs
            path = self.folder / f"{split}.{kind}.{self.words[1].language}"
            lines = packed.text_lines(path.read_bytes(), path.name)
        else:
            lines = self.sentences(split, side=1)
            if kind == "text":
                lines = [self.words[1].join(line) for line in lines]
        return [line.replace(UNKNOWN_WORD, NO_WORD) for line in lines]

    def beside_references(self, split: str, outputs: list[str]) -> tuple[Sides, Sides]:
        """Return a split's (translations, references) as words, like `outputs`, and as text."""
        text = [self.words[1].join(line) for line in outputs]
        words = outputs, self.references(split, "words")
        return words, (text, self.references(split, "text"))


def load_pairs(data: ParallelConfig) -> Corpus:
    """Return the configured corpus, prepared if need be; ValueError where it cannot be had."""
    checksums: dict[str, str] = {}
    counts: Counts | None = None
    if data.path is not None:
        folder = Path(data.path)
    else:
        folder, checksums = prepared_corpus(data)
        report = json.loads((folder / "report.json").read_bytes())
        names = ["overlap", "copies"]
        if "published" in report:
            names += ["pairs", "published"]
        counts = {name: report[name] for name in names}
    files = data_bin_files(folder, data.languages)
    texts = {}
    for language in data.languages:
        name = f"dict.{language}.txt"
        texts[name] = files[name].read_bytes()
    first, second = (_dictionary(text, name) for name, text in texts.items())
    splits = {
        split: _split(
            split,
            files,
            (first, second),
        )
        for split in SPLITS
    }
    if data.path is not None:  # hashed after they are mapped: the bytes in use are the bytes hashed
        checksums = {name: sha256(path) for name, path in files.items()}
        for name, text in texts.items():
            checksums[name] = hashlib.sha256(text).hexdigest()
    shortest = splits["train"].sizes.min()
    if shortest > data.batch_tokens:
        raise ValueError(
            f"data.batch_tokens={data.batch_tokens}:"
            f" no training pair fits into a batch, the shortest has {shortest} tokens"
        )
    codes = folder / "codes"
    try:
        with redirect_stderr(io.StringIO()):  # hides subword-nmt's message before its sys.exit
            subwords = Bpe(codes.read_text("utf-8") if codes.exists() else None)
    except (ValueError, LookupError, SystemExit):
        raise ValueError(f"{codes}: no merges of subword-nmt") from None
    source, target = (Tokenizer(language, data) for language in data.languages)
    return Corpus(
        data,
        folder,
        dictionaries=(first, second),
        splits=splits,
        words=(source, target),
        subwords=subwords,
        cuts=_cuts(data, splits["train"], subwords),
        checksums=checksums,
        counted=counts,
    )


def _cuts(data: ParallelConfig, train: Pairs, subwords: Bpe) -> tuple[str | None, str | None]:
    """Return what cut the words of source and target."""
    known = _known_cut(data, subwords)
    if known is not None or data.path is None:
        return known, known
    return train.apparent_cut(side=0), train.apparent_cut(side=1)


def _known_cut(data: ParallelConfig, subwords: Bpe) -> str | None:
    """Return what cut the words, as the user or the files of the corpus state."""
    if data.path is None:
        return what_cut(data)
    merged = "bpe" if subwords.codes else None
    return data.subwords or merged


def _dictionary(text: bytes, name: str) -> Any:
    """Return fairseq's dictionary; ValueError for other text or subwords that cannot be joined."""
    dictionary = fairseq().data.Dictionary()
    try:
        dictionary.add_from_file(io.StringIO(text.decode("utf-8-sig")))
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"{name}: no dictionary of fairseq ({error})") from None
    for mark, kind in OTHER_SUBWORDS.items():
        marked = [word for word in dictionary.symbols if word.startswith(mark)]
        if len(marked) > SHARE_OF_MARKS * len(dictionary):
            raise ValueError(
                f"{name}: holds subwords of {kind}, such as {marked[0]!r}: those with @@,"
                " sentencepiece's and whole words are scored here; give the text with data.train,"
                " data.valid and data.test"
            )
    return dictionary


def _split(split: str, files: dict[str, Path], dictionaries: tuple[Any, Any]) -> Pairs:
    paths = []
    for name, path in files.items():
        if name.startswith(f"{split}.") and name.endswith(".bin"):
            paths.append(path)
    source, target = map(_side, paths, dictionaries)
    if len(source) != len(target):
        raise ValueError(
            f"{paths[0]}: {len(source):,} sentences, {paths[1].name} has {len(target):,}"
        )
    dataset = fairseq().data.LanguagePairDataset(
        source,
        source.sizes,
        dictionaries[0],
        target,
        target.sizes,
        dictionaries[1],
        shuffle=False,
    )
    return Pairs(dataset)


def _side(path: Path, dictionary: Any) -> Any:
    """Return fairseq's dataset of a split's language; ValueError, naming its file, if not whole."""
    index, library = path.with_suffix(".idx").read_bytes(), fairseq().data
    if index.startswith(b"TNTIDX"):
        raise ValueError(
            f"{path} with its .idx: of --dataset-impl cached or lazy;"
            " make it with `fairseq-preprocess --dataset-impl mmap`"
        )
    try:
        if index.startswith(b"MMIDIDX"):  # fairseq's older formats are not checked
            kind, count = struct.unpack_from("<BQ", index, 17)
            ids = np.memmap(
                path,
                library.indexed_dataset._code_to_dtype[kind],
                "r",
            )
            sizes = np.frombuffer(
                index,
                np.int32,
                count,
                26,
            )
            starts = np.frombuffer(
                index,
                np.int64,
                count,
                26 + 4 * count,
            )
            expected = (np.cumsum(sizes) - sizes) * ids.itemsize
            is_whole = np.array_equal(starts, expected) and sizes.sum() == len(ids)
            if sizes.min() < 1 or not is_whole:
                raise ValueError("the .idx is of another file")
            least, most = ids.min(), ids.max()
            if least < 0 or most >= len(dictionary):
                raise ValueError(
                    f"ids of {least} to {most}, its dictionary has {len(dictionary):,}"
                )
        return library.data_utils.load_indexed_dataset(str(path.with_suffix("")), dictionary)
    except (AssertionError, ValueError, LookupError, OverflowError, struct.error) as error:
        raise ValueError(f"{path} with its .idx: no data of fairseq ({error})") from None
