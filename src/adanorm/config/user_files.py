"""Finding the user's own data files by role."""

from __future__ import annotations

from pathlib import Path

SPLITS = ("train", "valid", "test")


IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _idx_file(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise ValueError(f"data.path={folder}: holds neither {name}.gz nor {name}")


def _none_or_all(given: dict[str, str | None]) -> dict[str, str]:
    """Return what is given of each split; raises ValueError where some are and some are not."""
    named = {split: path for split, path in given.items() if path is not None}
    if named and len(named) < len(given):
        missing = ", ".join(f"data.{split}" for split in given if split not in named)
        raise ValueError(f"own text needs data.train, data.valid and data.test: {missing} is not set")
    return named


def _three_files(given: dict[str, str | None]) -> dict[str, Path]:
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
            return path
    raise ValueError(f"data.{split}={prefix}: there is no {prefix}.{language}, nor with .gz")


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
