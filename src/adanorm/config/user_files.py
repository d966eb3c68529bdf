"""Finding the user's own data files by role; each raises ValueError where one is missing."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

SPLITS = ("train", "valid", "test")
IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def idx_files(folder: Path) -> dict[str, Path]:
    """Return the four IDX files of images and labels by name, each with or without `.gz`."""
    files = {name: _plain_or_packed(folder / name) for name in IDX_NAMES}
    for name, path in files.items():
        if path is None:
            raise ValueError(f"data.path={folder}: holds neither {name}.gz nor {name}")
    return {name: path for name, path in files.items() if path}


def _plain_or_packed(path: Path) -> Path | None:
    """Return the file `path`.gz, else `path`, else None; raises ValueError where they have other data."""
    packed = path.with_name(f"{path.name}.gz")
    if not packed.is_file():
        return path if path.is_file() else None
    if not path.is_file():
        return packed
    try:
        is_same = gzip.decompress(packed.read_bytes()) == path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{packed}: not a whole gzip file ({error})") from None
    if not is_same:
        raise ValueError(f"{packed}: has other data than {path.name} beside it; remove one of the two")
    return packed


def _none_or_all(given: dict[str, str | None]) -> dict[str, str]:
    """Return what is given of each split; raises ValueError where some are and some are not."""
    named = {split: path for split, path in given.items() if path}
    if named and len(named) < len(given):
        missing = ", ".join(f"data.{split}" for split in given if split not in named)
        raise ValueError(f"own text needs data.train, data.valid and data.test: {missing} is not set")
    return named


def three_files(given: dict[str, str | None]) -> dict[str, Path]:
    """Return the user's files by split, none or all three."""
    files = {split: Path(path) for split, path in _none_or_all(given).items()}
    for split, path in files.items():
        if not path.is_file():
            raise ValueError(f"data.{split}={path}: no such file")
    return files


def pair_files(given: dict[str, str | None], languages: tuple[str, str]) -> dict[str, Path]:
    """Return the six texts of a user's PREFIX of each split, PREFIX.<language>, by `split.language`."""
    files: dict[str, Path] = {}
    for split, prefix in _none_or_all(given).items():
        for language in languages:
            path = _plain_or_packed(Path(f"{prefix}.{language}"))
            if path is None:
                raise ValueError(f"data.{split}={prefix}: there is no {prefix}.{language}, nor with .gz")
            files[f"{split}.{language}"] = path
    return files


def data_bin_files(folder: Path, languages: tuple[str, str]) -> dict[str, Path]:
    """Return the files of a fairseq data-bin by name, of its languages in either order."""
    pairs = ["-".join(languages), "-".join(languages[::-1])]
    pair = next((pair for pair in pairs if any(folder.glob(f"train.{pair}.*"))), pairs[0])
    ends = [f"{pair}.{language}.{end}" for language in languages for end in ("bin", "idx")]
    names = [f"{split}.{end}" for split in SPLITS for end in ends]
    files = {name: folder / name for name in [*(f"dict.{language}.txt" for language in languages), *names]}
    if lacking := next((name for name in (*names, *files) if not files[name].is_file()), None):
        raise ValueError(f"data.path={folder}: holds no {lacking}")
    return files


def batch_files(folder: Path) -> dict[str, Path]:
    """Return the files data_batch_*.bin of a folder, by number, and test_batch.bin."""
    batches = sorted(folder.glob("data_batch_*.bin"), key=lambda path: (len(path.name), path.name))
    files = [*(batches or [folder / "data_batch_1.bin"]), folder / "test_batch.bin"]
    if lacking := next((path.name for path in files if not path.is_file()), None):
        raise ValueError(f"data.path={folder}: holds no {lacking}")
    return {path.stem: path for path in files}


def penn_files(folder: Path) -> dict[str, list[Path]]:
    """Return the files wsj_SSNN.* of the Penn Treebank under a folder by split, in their order.

    Sections 2 to 21 are for training, 22 for validation, 23 for the test (paper, PTB). A file that is there
    twice is a ValueError too.
    """
    paths = sorted(folder.rglob("wsj_[0-2][0-9][0-9][0-9].*"), key=lambda path: path.name)
    sections = {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)}
    files = {split: [p for p in paths if int(p.name[4:6]) in wanted] for split, wanted in sections.items()}
    for split, of_split in files.items():
        names = [path.name[:8] for path in of_split]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"data.path={folder}: holds {twice} more than once")
        if not names:
            raise ValueError(
                f"data.path={folder}: holds no file wsj_SSNN.* of the sections for {split};"
                " files of whole splits go with data.train, data.valid and data.test"
            )
    return files
