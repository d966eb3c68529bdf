"""Finding the user's own data files by role."""

from __future__ import annotations

import gzip
from pathlib import Path

SPLITS = ("train", "valid", "test")

IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def idx_files(folder: Path) -> dict[str, Path]:
    """Return the four IDX files of images and labels by name, each with or without `.gz`.

    Raises ValueError where one is missing.
    """
    return {name: _idx_file(folder, name) for name in IDX_NAMES}


def _idx_file(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            _check_twin(folder / name)
            return path
    raise ValueError(f"data.path={folder}: holds neither {name}.gz nor {name}")


def _check_twin(path: Path) -> None:
    """Raise ValueError where a file has other data than that with .gz beside it."""
    packed = path.with_name(f"{path.name}.gz")
    if path.is_file() and packed.is_file() and gzip.decompress(packed.read_bytes()) != path.read_bytes():
        raise ValueError(f"{packed}: has other data than {path.name} beside it; remove one of the two")


def _none_or_all(given: dict[str, str | None]) -> dict[str, str]:
    """Return what is given of each split; raises ValueError where some are and some are not."""
    named = {split: path for split, path in given.items() if path is not None}
    if named and len(named) < len(given):
        missing = ", ".join(f"data.{split}" for split in given if split not in named)
        raise ValueError(f"own text needs data.train, data.valid and data.test: {missing} is not set")
    return named


def three_files(given: dict[str, str | None]) -> dict[str, Path]:
    """Return the user's files by split, none or all three.

    Raises ValueError where only some are given or one does not exist.
    """
    named = {split: Path(path) for split, path in _none_or_all(given).items()}
    for split, path in named.items():
        if not path.is_file():
            raise ValueError(f"data.{split}={path}: no such file")
    return named


def _text_file(split: str, prefix: str, language: str) -> Path:
    for path in (Path(f"{prefix}.{language}"), Path(f"{prefix}.{language}.gz")):
        if path.is_file():
            _check_twin(Path(f"{prefix}.{language}"))
            return path
    raise ValueError(f"data.{split}={prefix}: there is no {prefix}.{language}, nor with .gz")


def pair_files(given: dict[str, str | None], languages: tuple[str, str]) -> dict[str, Path]:
    """Return the six texts of a user's PREFIX of each split, PREFIX.<language>, by `split.language`.

    Raises ValueError where only some are given or one does not exist.
    """
    named = _none_or_all({split: prefix or None for split, prefix in given.items()})
    return {
        f"{split}.{language}": _text_file(split, prefix, language)
        for split, prefix in named.items()
        for language in languages
    }


def data_bin_files(folder: Path, languages: tuple[str, str]) -> dict[str, Path]:
    """Return the files of a fairseq data-bin by name.

    Raises ValueError where one is missing.
    """
    first, second = languages
    pair = next(
        (p for p in (f"{first}-{second}", f"{second}-{first}") if any(folder.glob(f"train.{p}.*"))), None
    )
    if pair is None:
        raise ValueError(f"data.path={folder}: holds no train.{first}-{second}.{first}.bin")
    names = [f"dict.{language}.txt" for language in languages]
    for split in SPLITS:
        names += [f"{split}.{pair}.{language}.{end}" for language in languages for end in ("bin", "idx")]
    for name in names:
        if not (folder / name).is_file():
            raise ValueError(f"data.path={folder}: holds no {name}")
    return {name: folder / name for name in names}


def batch_files(folder: Path) -> dict[str, Path]:
    """Return the files data_batch_*.bin of a folder, by number, and test_batch.bin.

    Raises ValueError where there is none.
    """
    found = sorted(folder.glob("data_batch_*.bin"), key=lambda path: (len(path.name), path.name))
    for name, paths in (("data_batch_1.bin", found), ("test_batch.bin", [*folder.glob("test_batch.bin")])):
        if not paths:
            raise ValueError(f"data.path={folder}: holds no {name}")
    return {path.stem: path for path in [*found, folder / "test_batch.bin"]}


def penn_files(folder: Path) -> dict[str, list[Path]]:
    """Return the files wsj_SSNN.* of the Penn Treebank under a folder by split, in their order.

    Sections 2 to 21 are for training, 22 for validation, 23 for the test (paper, PTB). Raises
    ValueError where a split has none, or one is there twice.
    """
    found = sorted(folder.rglob("wsj_[0-2][0-9][0-9][0-9].*"), key=lambda path: path.name)
    sections = {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)}
    files = {
        split: [path for path in found if int(path.name[4:6]) in wanted] for split, wanted in sections.items()
    }
    for split, paths in files.items():
        names = [path.name[:8] for path in paths]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"data.path={folder}: holds {twice} more than once")
        if not paths:
            raise ValueError(
                f"data.path={folder}: holds no file wsj_SSNN.* of the sections for {split};"
                " files of whole splits go with data.train, data.valid and data.test"
            )
    return files
