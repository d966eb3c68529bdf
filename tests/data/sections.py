"""Sections of data, and files of one's own, as a command line gives them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import SPLITS, DataConfig

Section = TypeVar("Section", bound=DataConfig)


def section_of(kind: type[Section], *overrides: str) -> Section:
    """Return the data section of an experiment, which is of this kind."""
    data = compose_experiment(overrides).data
    assert isinstance(data, kind)
    return data


def write_splits(folder: Path, texts: Mapping[str, str] | str, end: str = "") -> list[str]:
    """Write a text for each split, or one text for all, and return the overrides that name the files."""
    for split in SPLITS:
        text = texts if isinstance(texts, str) else texts[split]
        (folder / f"{split}{end}").write_bytes(text.encode("utf-8", "surrogateescape"))
    return [f"data.{split}={folder / split}{end}" for split in SPLITS]
