"""Treebanks in CoNLL-X, CoNLL-U, or columns `word tag head` (as the Penn Treebank's sample)."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from adanorm.config.data_sections import FULL_SIZE, SPLITS, TreebankConfig
from adanorm.config.values import sha256
from adanorm.data import inspection, packed, synthetic
from adanorm.data.fetch import fetch
from adanorm.data.inspection import Inspection, count_overlaps, overlap_warnings, without_copies
from adanorm.data.treebanks.kept import LARGE, Treebank, Trees, folder_for, kept_trees
from adanorm.data.treebanks.trees import Tree, problem

# Chen and Manning 2014, section 4.1: words with these Penn tags count in no score.
PENN_PUNCTUATION = {"``", "''", ":", ",", "."}
ID, FORM, UPOS, XPOS, HEAD, LABEL, DEPS = 0, 1, 3, 4, 6, 7, 8  # of CoNLL's ten columns
TAG_COLUMNS = {"upos": UPOS, "xpos": XPOS}
# CRAFT's own split by articles (articles/ids/craft-ids-*.txt): its name, and the number of articles.
CRAFT_SPLITS = {"train": ("train", 60), "valid": ("dev", 7), "test": ("test", 30)}

# What decides which trees are read.
CODE = (Path(__file__), Path(__file__).with_name("trees.py"), Path(inspection.__file__))

Files = Mapping[str, Sequence[Path]]  # by split
Result = TypeVar("Result")


def load_treebank(data: TreebankConfig) -> Treebank:
    """Return the configured trees by split and the files' checksums.

    A large treebank is kept as it was read, for the next start. Raises ValueError for missing or
    wrong data.
    """
    if fault := data.lacks():
        raise ValueError(fault)
    files = _files(data)
    if sum(path.stat().st_size for path in chain(*files.values())) < LARGE:
        return _read(data, files)
    settings = data.model_dump(include={"source", "tags", "fold"})
    contents = _contents(files)

    def read() -> Treebank:
        result = _read(data, files)
        if _contents(files) != contents:
            raise ValueError("the treebank was changed while it was read; start again")
        return result

    folder = folder_for(data, "treebank", {"files": contents, **settings}, CODE)
    return kept_trees(folder, read)


def _contents(files: Files) -> dict[str, list[str]]:
    """Return by split the files' names, and the SHA-256 of all of them."""
    contents = {}
    for split, paths in files.items():
        names = [path.name for path in paths]
        contents[split] = [*names, sha256(*paths)]
    return contents


def _files(data: TreebankConfig) -> dict[str, list[Path]]:
    """Return the files of the user or of a source by split; of the sample its only file."""
    own = data.local_files()
    if "train" in own:
        return {split: own[split] for split in SPLITS}
    if data.source == "craft":
        return _craft_files(data)
    if data.source in ("craft-3k", "ptb-sample"):
        files = fetch(data.source, data)
        return {name.partition(".")[0]: [path] for name, path in files.items()}
    return {}


def _read(data: TreebankConfig, files: Files) -> Treebank:
    is_own = "train" in data.local_files()
    if is_own or data.source == "craft-3k":
        return _of_files(data, files, is_own=is_own)
    if data.source == "ptb-sample":
        ((path,),) = files.values()
        trees, checksum = read_sample(path, data.fold)
        return trees, {path.name: checksum}
    if data.source == "craft":
        return _craft(data, files)
    if data.source == "synthetic":
        return _trees_of(synthetic.trees()), {}
    if data.source == FULL_SIZE:
        return _trees_of(synthetic.full_size_trees()), {}
    raise ValueError(
        f"data.source={data.source!r}: trees come from penn, ptb-sample, craft, craft-3k or"
        " synthetic"
    )


def _of_files(data: TreebankConfig, files: Files, *, is_own: bool) -> Treebank:
    """Return the trees of the user's files, or of those in the package, and their checksums."""
    trees = {}
    checksums = {}
    for split, paths in files.items():
        trees[split], checksum = _read_files(paths, data.tags)
        name = f"{split}/{paths[0].name}"
        if not is_own:
            name = f"craft-3k/{paths[0].name}"
        elif data.path is not None:
            name = f"penn, {split}, {len(paths)} files"
        checksums[name] = checksum
    return trees, checksums


def _read_files(paths: Sequence[Path], tags: str) -> tuple[list[Tree], str]:
    """Return the trees of files and their checksum.

    Raises ValueError where the other column has the tags.
    """
    contents, checksum = packed.contents(paths)
    trees = []
    for content, path in zip(
        contents,
        paths,
        strict=True,
    ):
        trees += read_treebank(content, path.name, tags)
    (other_column,) = {*TAG_COLUMNS} - {tags}
    name = paths[0].name
    if not _have_tags(trees) and _have_tags(
        read_treebank(
            contents[0],
            name,
            other_column,
        )
    ):
        raise ValueError(
            f"{name}: has no tags in the column {tags}:"
            f" data.tags={other_column} reads those that it has"
        )
    return trees, checksum


def _craft(data: TreebankConfig, files: Files) -> Treebank:
    """Return CRAFT's trees, and the checksums of their text.

    Headings such as "Results" repeat: a sentence that stands in the test set too is left out of
    training and validation, one that stands in validation is left out of training.
    """
    trees = {}
    checksums = {}
    for split, paths in files.items():
        contents, _ = packed.contents(paths)
        text = b"".join(contents)
        name = f"craft-{CRAFT_SPLITS[split][0]}.conllu"
        checksums[name] = hashlib.sha256(text).hexdigest()
        trees[split] = read_treebank(text, name, data.tags)
    return without_copies("craft", trees, lambda tree: [" ".join(tree.words)]), checksums


def _craft_files(data: TreebankConfig) -> dict[str, list[Path]]:
    """Return CRAFT's files by split: a mirror's three files, or else the corpus's own 97 articles."""
    files = fetch("craft", data)
    by_split = {}
    articles = iter(files.values())
    for split, (name, count) in CRAFT_SPLITS.items():
        joined = files.get(f"craft-{name}.conllu.gz")
        by_split[split] = [joined] if joined else [*islice(articles, count)]
    return by_split


def _trees_of(rows_by_split: dict[str, list[synthetic.Rows]]) -> Trees:
    trees = {}
    for split, sentences in rows_by_split.items():
        trees[split] = [_tree_of_columns(rows) for rows in sentences]
    return trees


def _have_tags(trees: Sequence[Tree]) -> bool:
    return any({*tree.tags} - {"_"} for tree in trees)


def inspect_trees(trees: Trees) -> Inspection:
    """Return counts and warnings.

    Raises ValueError where training lacks all labels of another split.
    """
    counts = count_overlaps({split: map(_as_bytes, part) for split, part in trees.items()})
    warnings = overlap_warnings(counts, trees)
    train_labels = {*_labels(trees["train"])}
    for split in ("valid", "test") if train_labels else ():
        labels = _labels(trees[split])
        unknown = [label for label in labels if label not in train_labels]
        if unknown and len(unknown) == len(labels):
            raise ValueError(
                f"{split}: label {unknown[0]!r} and all others are not training labels"
            )
        if unknown:
            counts.setdefault("unknown_labels", {})[split] = len(unknown)
            warnings.append(
                f"{split}: {len(unknown):,} of {len(labels):,} arcs have a label that training"
                f" lacks, such as {unknown[0]!r}: a parser cannot give it"
            )
    return Inspection(counts, tuple(warnings))


def _as_bytes(tree: Tree) -> bytes:
    return " ".join(tree.words).encode()


def _labels(trees: Sequence[Tree]) -> list[str]:
    return [*chain.from_iterable(tree.labels or () for tree in trees)]


def read_treebank(content: bytes, name: str, tags: str) -> list[Tree]:
    """Return trees in CoNLL-X, CoNLL-U (tags in column "upos" or "xpos") or `word tag head [label]`.

    Raises ValueError, naming file and sentence, for another format, a wrong tree or an empty file.
    """

    def parsed(lines: Sequence[str]) -> Tree | None:
        for line in lines:
            cells = line.rstrip("\r\n ").split("\t")
            if len(cells) == 10 and not cells[-1] and not line.startswith("#"):
                raise ValueError(f"the last of the ten columns of {cells[1]!r} is empty: write _")
        lines = [line.rstrip() for line in lines if line.strip()]
        if all(line.startswith("#") and line.count("\t") < 2 for line in lines):
            return None
        tree = _tree(lines, tags)
        if reason := problem(tree.heads):
            raise ValueError(reason)
        return tree

    trees = [
        tree
        for tree in each_sentence(
            packed.text_lines(content, name),
            name,
            parsed,
        )
        if tree
    ]
    if not trees:
        raise ValueError(f"{name}: holds no sentence")
    return trees


def each_sentence(
    lines: Iterable[str], name: str, make: Callable[[list[str]], Result]
) -> Iterator[Result]:
    """Yield `make(lines)` for each sentence of a text, as soon as a blank line ends it.

    No line is lost: a sentence has the blank lines before it and one after it; lines behind the
    last sentence count as one more. Where `make` raises ValueError, it is raised with file and
    sentence.
    """
    for number, block in enumerate(_blocks(lines), 1):
        try:
            yield make(block)
        except ValueError as error:
            raise ValueError(f"{name}, sentence {number}: {error}") from None


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    block = []
    has_text = False
    for line in lines:
        block.append(line)
        if line.strip():
            has_text = True
        elif has_text:
            yield block
            block, has_text = [], False
    if block:
        yield block


def rows_of(lines: Sequence[str], other_format: str = "") -> dict[int, list[str]]:
    """Return the ten columns of a sentence's lines by line index, without comments and blank lines.

    Raises ValueError for another number of columns; the message ends in `other_format`.
    """
    rows = {}
    for index, line in enumerate(lines):
        if line.strip() and not line.startswith("#"):
            rows[index] = line.rstrip("\r\n").split("\t")
    sizes = {len(row) for row in rows.values()}
    if sizes - {10}:
        numbers = ", ".join(map(str, sorted(sizes)))
        raise ValueError(f"has {numbers} columns: CoNLL has 10{other_format}")
    return rows


def words_of(rows: Iterable[list[str]]) -> list[list[str]]:
    """Return the rows of words, without ranges and empty nodes.

    Raises ValueError if not numbered 1, 2, ...
    """
    words = [row for row in rows if not re.fullmatch(r"[0-9]+(-|\.)[0-9]+", row[ID])]
    for number, row in enumerate(words, 1):
        if row[ID] != str(number):
            raise ValueError(f"word {number} is numbered {row[ID]}")
    return words


class Sentence(NamedTuple):
    """A sentence to be parsed: its lines as read, the columns of those that have them, a tree."""

    lines: list[str]
    rows: dict[int, list[str]]  # by the index of the line
    tree: Tree  # the words and tags; every head is the root

    def parsed(self, heads: Sequence[int], labels: Sequence[str]) -> str:
        """Return the lines with a parse.

        Enhanced dependencies go, which belong to another parse.
        """
        for row in self.rows.values():
            row[DEPS] = "_"
        for row, head, label in zip(
            words_of(self.rows.values()),
            heads,
            labels,
            strict=True,
        ):
            row[HEAD], row[LABEL] = str(head), label
        lines = list(self.lines)
        for index, row in self.rows.items():
            end = lines[index][len(lines[index].rstrip("\r\n")) :]
            lines[index] = "\t".join(row) + end
        return "".join(lines)


def sentence_of(lines: list[str], *, tags: str) -> Sentence:
    """Return the sentence.

    Raises ValueError if it lacks CoNLL's ten columns, words, or tags in column `tags`.
    """
    rows = rows_of(lines)
    words = words_of(rows.values())
    if rows and not words:
        raise ValueError("has no word")
    word_tags = tuple(row[TAG_COLUMNS[tags]] for row in words)
    if set(word_tags) == {"_"}:
        raise ValueError(f"no tags in the column {tags}, which the parser was trained on")
    forms, count = tuple(row[FORM] for row in words), len(words)
    return Sentence(
        lines,
        rows,
        Tree(forms, word_tags, (0,) * count, None, (False,) * count),
    )


def _tree(lines: Sequence[str], tags: str) -> Tree:
    columns = [tuple(line.split("\t")) for line in lines]
    if len(columns[-1]) in (3, 4):  # a format without comments: its `#` is a pound sign
        return _tree_of_columns(columns)
    words = words_of(rows_of(lines, ", `word tag head [label]` has 3 or 4").values())
    if any(row[HEAD] == "_" for row in words):
        raise ValueError("a word has no head")
    labels = tuple(row[LABEL] for row in words)
    return Tree(
        words=tuple(row[FORM] for row in words),
        tags=tuple(row[TAG_COLUMNS[tags]] for row in words),
        heads=_whole_numbers([row[HEAD] for row in words]),
        labels=None if set(labels) == {"_"} else labels,
        punctuation=tuple(_is_punctuation(row[UPOS], row[XPOS]) for row in words),
    )


def _is_punctuation(upos: str, xpos: str) -> bool:
    """Return whether tags are of punctuation; a file may have Penn tags in either column."""
    return upos == "PUNCT" or upos in PENN_PUNCTUATION or xpos in PENN_PUNCTUATION


def _tree_of_columns(rows: Sequence[tuple[str | int, ...]]) -> Tree:
    if len({len(row) for row in rows}) > 1:
        raise ValueError("its lines differ in their number of columns")
    columns = zip(*rows, strict=True)
    words, tags, heads, *labels = ([*map(str, column)] for column in columns)
    punctuation = tuple(tag in PENN_PUNCTUATION for tag in tags)
    arc_labels = tuple(labels[0]) if labels else None
    return Tree(
        tuple(words),
        tuple(tags),
        _whole_numbers(heads),
        arc_labels,
        punctuation,
    )


def _whole_numbers(heads: Sequence[str]) -> tuple[int, ...]:
    if not all(re.fullmatch("-?[0-9]{1,9}", head) for head in heads):
        raise ValueError(f"heads must be whole numbers, found {' '.join(heads)!r}")
    return tuple(map(int, heads))


def read_sample(path: Path, fold: int | None = None) -> tuple[Trees, str]:
    """Return the Penn Treebank's sample and its file's checksum.

    It is split by file number (1-159, 160-179, 180-199), or into one of 5 folds: a fold's 40 files
    (39 in fold 5) are the test, the next 20 the validation. Raises ValueError for a zip archive
    that lacks a file or cannot be read.
    """
    count = 199
    valid, test = [*range(160, 180)], range(180, 200)
    if fold is not None:
        test = range(40 * fold - 39, min(40 * fold, count) + 1)
        valid = [number % count + 1 for number in range(test[-1], test[-1] + 20)]
    names = [f"dependency_treebank/wsj_{number:04}.dp" for number in range(1, count + 1)]
    contents, checksum = packed.zip_members(path, names)
    splits: Trees = {split: [] for split in SPLITS}
    for number, name in enumerate(names, 1):
        split = "train"
        if number in valid:
            split = "valid"
        elif number in test:
            split = "test"
        splits[split] += read_treebank(contents[name], Path(name).name, "xpos")
    return splits, checksum
