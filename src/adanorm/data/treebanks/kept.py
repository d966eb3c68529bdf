"""Large treebanks kept as they were read: a second start takes seconds, and unpickles nothing."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adanorm.config.data_sections import DataConfig
from adanorm.data.fetch import cache_of
from adanorm.data.prepared import prepared
from adanorm.data.treebanks.trees import Tree
from adanorm.files import sha256

LARGE = 2 << 20  # bytes of files: a smaller treebank is read in a second or two
TREES = "trees.json"

Trees = dict[str, list[Tree]]
Arrays = dict[str, NDArray[np.integer[Any]]]


def folder_for(
    data: DataConfig, kind: str, identity: Mapping[str, Any], code: Sequence[Path]
) -> Path:
    """Return the folder of what `code` makes from inputs of this identity.

    Edited code has another folder, so it never reads what older code wrote.
    """
    text = json.dumps([identity, sha256(*code)], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return cache_of(data) / "prepared" / f"{kind}-{digest}"


def kept_trees(
    folder: Path, read: Callable[[], tuple[Trees, dict[str, str]]]
) -> tuple[Trees, dict[str, str]]:
    """Return what `read` returns, trees by split and checksums, from the folder if it is there.

    Where nothing can be written the treebank is read at every start.
    """
    try:
        prepared(folder, lambda part: _write_trees(part / "out" / TREES, *read()))
    except OSError:
        return read()
    content = json.loads((folder / TREES).read_bytes())
    trees = {}
    for split, rows in content["trees"].items():
        trees[split] = [_tree(*row) for row in rows]
    return trees, content["checksums"]


def _write_trees(path: Path, trees: Trees, checksums: dict[str, str]) -> None:
    rows = {split: [_row(tree) for tree in part] for split, part in trees.items()}
    content = {"checksums": checksums, "trees": rows}
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")


def _row(tree: Tree) -> list[Any]:
    return [
        tree.words,
        tree.tags,
        tree.heads,
        tree.labels,
        tree.punctuation,
    ]


def _tree(
    words: list[str],
    tags: list[str],
    heads: list[int],
    labels: list[str] | None,
    punctuation: list[bool],
) -> Tree:
    return Tree(
        words=tuple(words),
        tags=tuple(tags),
        heads=tuple(heads),
        labels=None if labels is None else tuple(labels),
        punctuation=tuple(punctuation),
    )


def kept_arrays(folder: Path, make: Callable[[], Arrays]) -> Arrays:
    """Return what `make` returns, arrays by name, from the folder if it is there."""
    try:
        prepared(folder, lambda part: _write_arrays(part / "out", make()))
    except OSError:
        return make()
    arrays = {}
    for path in folder.glob("*.npy"):
        # Pages are read when they are needed, and runs beside each other share them.
        arrays[path.stem] = np.load(path, mmap_mode="c", allow_pickle=False)
    return arrays


def _write_arrays(folder: Path, arrays: Arrays) -> None:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
