"""Large treebanks kept as they were read: a second start takes seconds, and unpickles nothing."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adanorm.config.data_sections import DataConfig
from adanorm.config.values import sha256
from adanorm.data.fetch import cache_of
from adanorm.data.prepared import prepared
from adanorm.data.treebanks.trees import Tree

LARGE = 2 << 20  # bytes of files: a smaller treebank is read in a second or two
TREES = "trees.json"

Trees = dict[str, list[Tree]]
# Trees by split, and checksums of their files by name.
Treebank = tuple[Trees, dict[str, str]]
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


def kept_trees(folder: Path, read: Callable[[], Treebank]) -> Treebank:
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
        trees[split] = [_tree(row) for row in rows]
    return trees, content["checksums"]


def _write_trees(path: Path, trees: Trees, checksums: dict[str, str]) -> None:
    """Write trees by split, one row per tree, and the checksums."""
    rows = {}
    # `vars` has the fields in the order in which `_tree` takes them.
    for split, part in trees.items():
        rows[split] = [[*vars(tree).values()] for tree in part]
    content = {"checksums": checksums, "trees": rows}
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")


def _tree(row: list[Any]) -> Tree:
    """Return the tree of a row.

    A row has the fields of a tree as JSON has them: lists, and None for labels that are not there.
    """
    fields: list[Any] = []
    for field in row:
        fields.append(None if field is None else tuple(field))
    return Tree(*fields)


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
