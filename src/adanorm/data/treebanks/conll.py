"""Treebanks: CoNLL-X, CoNLL-U, and `word tag head` columns, as the sample of the Penn Treebank has."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import conllu
from conllu.exceptions import ParseException
from conllu.parser import DEFAULT_FIELDS, parse_id_value, parse_int_value, parse_sentences

from adanorm.config.data_sections import FULL_SIZE, TreebankConfig
from adanorm.config.digest import sha256
from adanorm.config.user_files import SPLITS, penn_files
from adanorm.data import full_size, packed, synthetic
from adanorm.data.fetch import fetch
from adanorm.data.inspection import Inspection, count_overlaps, overlap_warnings
from adanorm.data.treebanks.trees import Tree, problem

# Chen and Manning 2014, section 4.1: words of these Penn tags count in no score.
PENN_PUNCTUATION = {"``", "''", ":", ",", "."}

Trees = dict[str, list[Tree]]
Made = TypeVar("Made")


def load_treebank(data: TreebankConfig) -> tuple[Trees, dict[str, str]]:
    """Return the trees of each split of the configured treebank, and its files' checksums.

    Raises ValueError where it cannot be had, or for a file that is none: its name, the sentence
    and the reason.
    """
    if lacking := data.lacks():
        raise ValueError(lacking)
    if own := data.own_files():
        trees = {split: _read_file(own[split], data.tags) for split in SPLITS}
        return trees, {f"{split}/{path.name}": sha256(path) for split, path in own.items()}
    if data.path is not None:
        files = penn_files(Path(data.path))
        return (
            {split: [t for path in files[split] for t in _read_file(path, data.tags)] for split in SPLITS},
            {f"penn, {split}, {len(paths)} files": sha256(*paths) for split, paths in files.items()},
        )
    if data.source == "ptb-sample":
        path = fetch("ptb-sample", data)["dependency_treebank.zip"]
        return read_sample(path, data.fold), {path.name: sha256(path)}
    if data.source in ("synthetic", FULL_SIZE):
        drawn = (synthetic if data.source == "synthetic" else full_size).trees()
        return {split: list(map(_unlabelled, trees)) for split, trees in drawn.items()}, {}
    raise ValueError(f"data.source={data.source!r}: trees come from penn, ptb-sample or synthetic")


def inspect_trees(trees: Trees, *, own: bool) -> Inspection:
    """Return what trees say: sentences in two splits, and arcs whose label training lacks.

    Raises ValueError where training lacks every label of another split.
    """
    counts = count_overlaps(
        {split: (" ".join(tree.words).encode() for tree in part) for split, part in trees.items()}
    )
    sizes = {split: len(part) for split, part in trees.items()}
    warnings = overlap_warnings(counts, sizes)
    known = {label for tree in trees["train"] for label in tree.labels or ()}
    for split in ("valid", "test"):
        labels = [label for tree in trees[split] for label in tree.labels or ()]
        unknown = [label for label in labels if label not in known]
        if known and labels and len(unknown) == len(labels):
            raise ValueError(
                f"{split}: label {unknown[0]!r} and all others are not among the training labels"
            )
        if known and unknown:
            counts.setdefault("unknown_labels", {})[split] = len(unknown)
            warnings.append(
                f"{split}: {len(unknown):,} of {len(labels):,} arcs have a label that training lacks, such as"
                f" {unknown[0]!r}: a parser cannot give it"
            )
    return Inspection(counts, tuple(warnings) if own else ())


def _read_file(path: Path, tags: str) -> list[Tree]:
    return read_treebank(packed.content(path), path.name, tags)


def read_treebank(content: bytes, name: str, tags: str) -> list[Tree]:
    """Return the trees of a file in CoNLL-X, CoNLL-U or columns of `word tag head [label]`.

    `tags` is the column of tags in CoNLL: `xpos`, the fifth, or `upos`, the fourth. Raises
    ValueError naming file, sentence and reason where it is no such file or holds no tree.
    """

    def checked(lines: str) -> Tree:
        tree = _tree(lines, tags)
        if reason := problem(tree.heads):
            raise ValueError(reason)
        return tree

    trees = each_sentence(content, name, checked)
    if not trees:
        raise ValueError(f"{name}: holds no sentence")
    return trees


def each_sentence(content: bytes, name: str, make: Callable[[str], Made]) -> list[Made]:
    """Return what is made of the lines of each sentence of a text; a blank line ends one.

    Raises ValueError naming file and sentence where `make` raises it, or conllu's ParseException.
    """
    text = "\n".join(packed.text_lines(content, name))
    made = []
    for number, lines in enumerate(parse_sentences(io.StringIO(text)), 1):
        try:
            made.append(make(lines))
        except (ParseException, ValueError) as error:
            raise ValueError(f"{name}, sentence {number}: {error}") from None
    return made


def _tree(lines: str, tags: str) -> Tree:
    rows = [line.split("\t") for line in lines.split("\n")]
    if len(rows[-1]) in (3, 4):  # a format without comments: `#` is the sign for pounds
        return _tree_of_columns(rows)
    columns = {len(row) for row in rows if not row[0].startswith("#")}
    if columns != {len(DEFAULT_FIELDS)}:
        numbers = ", ".join(map(str, sorted(columns)))
        raise ValueError(f"has {numbers} columns: CoNLL has 10, `word tag head [label]` has 3 or 4")
    words = list(words_of(parse_sentence(lines)))
    if any(word["head"] is None for word in words):
        raise ValueError("a word has no head")
    labels = tuple(str(word["deprel"]) for word in words)
    return Tree(
        words=tuple(word["form"] for word in words),
        tags=tuple(word[tags] for word in words),
        heads=tuple(word["head"] for word in words),
        labels=None if set(labels) == {"_"} else labels,
        punctuation=tuple(word["upos"] == "PUNCT" or word["xpos"] in PENN_PUNCTUATION for word in words),
    )


# The other columns are written again as they are.
_FIELD_PARSERS = {
    **{field: lambda row, i: row[i] for field in DEFAULT_FIELDS},
    "id": lambda row, i: parse_id_value(row[i]),
    "head": lambda row, i: parse_int_value(row[i]),
}


def parse_sentence(lines: str) -> conllu.TokenList:
    """Return a sentence in CoNLL's ten columns; identifiers and heads are numbers, the rest text.

    Raises conllu's ParseException where they are not.
    """
    return conllu.parser.parse_token_and_metadata(
        lines, DEFAULT_FIELDS, _FIELD_PARSERS, {"__fallback__": lambda key, value: (key, value)}
    )


def words_of(tokens: conllu.TokenList) -> Iterator[conllu.Token]:
    """Yield the words that have a head: neither multiword tokens nor empty nodes (CoNLL-U).

    Raises ValueError where they are not numbered 1, 2, ...
    """
    expected = 1
    for token in tokens:
        if not isinstance(token["id"], tuple):
            if token["id"] != expected:
                raise ValueError(f"word {expected} is numbered {token['id']}")
            expected += 1
            yield token


def _tree_of_columns(rows: list[list[str]]) -> Tree:
    if len({len(row) for row in rows}) > 1:
        raise ValueError("its lines differ in their number of columns")
    words, tags, heads, *labels = zip(*rows, strict=True)
    try:
        numbers = tuple(int(head) for head in heads)
    except ValueError:
        raise ValueError(f"heads must be whole numbers, found {' '.join(heads)!r}") from None
    punctuation = tuple(tag in PENN_PUNCTUATION for tag in tags)
    return Tree(words, tags, numbers, labels[0] if labels else None, punctuation)


def read_sample(path: Path, fold: int | None = None) -> Trees:
    """Return the sample of the Penn Treebank, split by file number: 1-159, 160-179, 180-199; or a fold of it.

    The zip is read in place. Raises ValueError where a split has no file.
    """
    count = 199
    numbers: dict[str, Sequence[int]]
    if fold is None:
        numbers = {"valid": range(160, 180), "test": range(180, 200)}
    else:  # the fold's 40 files are the test, the 20 behind them validate
        first, last = 40 * (fold - 1), min(40 * fold, count)
        behind = [number % count + 1 for number in range(last, last + 20)]
        numbers = {"valid": behind, "test": range(first + 1, last + 1)}
    train = [number for number in range(1, count + 1) if number not in {*numbers["valid"], *numbers["test"]}]
    numbers = {"train": train, **numbers}
    names = [f"dependency_treebank/wsj_{number:04}.dp" for number in range(1, count + 1)]
    contents = packed.zip_members(path, names)
    trees = {name: read_treebank(contents[name], Path(name).name, "xpos") for name in names}
    return {split: [tree for n in part for tree in trees[names[n - 1]]] for split, part in numbers.items()}


def _unlabelled(rows: list[tuple[str, str, int]]) -> Tree:
    return _tree_of_columns([[word, tag, str(head)] for word, tag, head in rows])
