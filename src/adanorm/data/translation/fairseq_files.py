"""Dictionaries and files of token ids, as fairseq's own code makes and reads them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adanorm.config.data_sections import ParallelConfig
from adanorm.data.translation.fairseq_library import fairseq
from adanorm.data.translation.shards import Shard


def make_dictionaries(counts: Sequence[Counter[str]], data: ParallelConfig) -> tuple[Any, Any]:
    """Return the dictionaries of the two languages, perhaps one, of how often their subwords occur."""
    if data.joined_dictionary:
        joined = _dictionary(counts, data.dictionary_size)
        return joined, joined
    return _dictionary(counts[:1], data.dictionary_size), _dictionary(counts[1:], data.dictionary_size)


def _dictionary(counts: Sequence[Counter[str]], size: int | None) -> Any:
    dictionary = fairseq().data.Dictionary()
    for side in counts:
        for word, count in side.items():
            dictionary.add_symbol(word, n=count)
    dictionary.finalize(nwords=size or -1, padding_factor=8)
    return dictionary


def merge_ids(parts: Sequence[Shard], language: str, stem: Path, dtype: Any) -> None:
    """Write the shards' token ids as fairseq's two files."""
    with Path(f"{stem}.bin").open("wb") as out:
        for part in parts:
            with part.file(f"{language}.bin").open("rb") as file:
                shutil.copyfileobj(file, out)
    sizes = np.concatenate([np.fromfile(part.file(f"{language}.sizes"), np.int32) for part in parts])
    indexed = fairseq().data.indexed_dataset.MMapIndexedDataset
    with indexed.Index.writer(f"{stem}.idx", dtype) as index:
        index.write(sizes.tolist())
