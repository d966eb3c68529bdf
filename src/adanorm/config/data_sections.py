"""The sections of a configuration that say what data a run reads, one class a reader."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from adanorm.config.sections import Config, EachOnce, Fraction, Positive
from adanorm.config.user_files import (
    SPLITS,
    batch_files,
    data_bin_files,
    idx_files,
    pair_files,
    penn_files,
    three_files,
)

FULL_SIZE = "full-size"  # the `source` of a dry run's data, which are made up
PositiveFloat = Annotated[float, Field(gt=0)]


class DataConfig(Config):
    """Where data come from; `cache`, `mirror` and `mirrors` are places, which do not identify a run."""

    kind: ClassVar[str]  # of the tasks that these data are for

    reader: str
    source: str
    cache: str | None
    mirror: str | None
    mirrors: tuple[str, ...] = ()  # the default ones

    def own_files(self) -> dict[str, Path]:
        """Return the user's own files by role; empty where the catalogue's source is used.

        Raises ValueError where one is missing.
        """
        return {}

    def local_files(self) -> dict[str, list[Path]]:
        """Return every file that is at a path the user named, by role: they count by content."""
        return {role: [path] for role, path in self.own_files().items()}

    def lacks(self) -> str | None:
        """Return what only the user can give and has not given, or None."""
        return None


class LabelledImagesConfig(DataConfig):
    """Images with labels, in files that the user may have."""

    kind = "classification"
    side: ClassVar[int]  # pixels
    path: str | None
    valid_size: Positive
    batch_size: Positive


class ImagesConfig(LabelledImagesConfig):
    """Grey images of 28 x 28 pixels with labels, in IDX files."""

    side = 28
    reader: Literal["images"]
    mean: float
    std: PositiveFloat

    def own_files(self) -> dict[str, Path]:
        """Return the four IDX files under `path`, with or without `.gz`."""
        return {} if self.path is None else idx_files(Path(self.path))


class ColorImagesConfig(LabelledImagesConfig):
    """Colour images of 32 x 32 pixels with labels, in CIFAR-10's binary form."""

    side = 32
    reader: Literal["colour_images"]
    train_images: Positive | None
    mean: tuple[float, float, float]
    std: tuple[PositiveFloat, PositiveFloat, PositiveFloat]

    def own_files(self) -> dict[str, Path]:
        """Return the files data_batch_*.bin, by number, and test_batch.bin under `path`."""
        return {} if self.path is None else batch_files(Path(self.path))


class GaussianConfig(DataConfig):
    """Inputs drawn from a normal distribution, and a random linear map of them."""

    kind = "regression"
    reader: Literal["gaussian"]
    source: Literal["gaussian"]
    inputs: Positive
    outputs: Positive
    noise: Annotated[float, Field(ge=0)]
    train_size: Positive
    valid_size: Positive
    test_size: Positive
    batch_size: Positive


class ThreeFilesConfig(DataConfig):
    """Data that the user may give as one file per split."""

    train: str | None
    valid: str | None
    test: str | None

    def own_files(self) -> dict[str, Path]:
        """Return the user's three files by split."""
        return three_files(self.named())

    def named(self) -> dict[str, str | None]:
        """Return the paths that the user gave, by split."""
        return {split: getattr(self, split) for split in SPLITS}


class TextConfig(ThreeFilesConfig):
    """Labelled sentences."""

    kind = "classification"
    reader: Literal["text"]
    train_fraction: Annotated[float, Field(gt=0, le=1)]
    batch_tokens: Positive
    lowercase: bool
    min_count: Positive
    words: Literal["alphanumeric"] | None = None  # null: what white space separates


class ParallelConfig(ThreeFilesConfig):
    """Pairs of sentences that translate each other, and how they become subwords."""

    kind = "translation"
    reader: Literal["parallel"]
    languages: Annotated[tuple[str, str], EachOnce]
    path: str | None
    train_pairs: Positive | None
    valid_every: Annotated[int, Field(gt=1)] | None
    normalize: bool
    tokenize: bool
    lowercase: bool
    clean: Literal["words", "subwords"]
    longest: Positive
    ratio: Annotated[float, Field(ge=1)]
    bpe_merges: Positive | None
    joined_dictionary: bool
    dictionary_size: Positive | None
    batch_tokens: Positive

    def own_files(self) -> dict[str, Path]:
        """Return the user's own files by role: six texts, or those of a fairseq data-bin."""
        if self.path is None:
            return pair_files(self.named(), self.languages)
        if any(self.named().values()):
            raise ValueError("data.path (a data-bin) and data.train exclude each other")
        return data_bin_files(Path(self.path), self.languages)


class ByteTextConfig(DataConfig):
    """One text of bytes, cut into training, validation and test parts."""

    kind = "char_lm"
    reader: Literal["bytes"]
    path: str | None
    fractions: tuple[Fraction, Fraction, Fraction]
    streams: Positive
    evaluation_streams: Positive

    @model_validator(mode="after")
    def _fractions_are_of_one(self) -> ByteTextConfig:
        if abs(sum(self.fractions) - 1) > 1e-9 or 0 in self.fractions:
            raise ValueError(f"fractions {list(self.fractions)}: three parts above 0 that add up to 1")
        return self

    def own_files(self) -> dict[str, Path]:
        """Return the user's own text."""
        if self.path is not None and not Path(self.path).is_file():
            raise ValueError(f"data.path={self.path}: no such file")
        return {} if self.path is None else {"text": Path(self.path)}


class TreebankConfig(ThreeFilesConfig):
    """Sentences with their dependency trees, and what a parser is told of them.

    The Penn Treebank under `path` and trees of the user's own count for more than `source`.
    """

    kind = "parsing"
    reader: Literal["trees"]
    path: str | None
    conversion: str | None
    tags: Literal["xpos", "upos"]
    scoring: Literal["penn", "eval07", "ud"]
    non_projective: Literal["skip", "projectivize"]
    lowercase: bool
    min_count: Positive
    vectors: str | None
    batch_size: Positive
    fold: Annotated[int, Field(ge=1, le=5)] | None = None

    @model_validator(mode="after")
    def _source_has_what_is_asked(self) -> TreebankConfig:
        named = {"data.path": self.path, "data.train": self.train, "data.fold": self.fold}
        if len(given := [key for key, value in named.items() if value is not None]) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other: each says which trees are read")
        if self.path is not None and not self.conversion:
            raise ValueError(
                "data.conversion: name what made dependencies of the Penn Treebank, such as"
                " stanford-3.3.0 or penn2malt: it moves UAS"
            )
        return self

    def lacks(self) -> str | None:
        """Return what to name for the Penn Treebank, which is licensed, where it is not named."""
        if self.source != "penn" or self.path is not None or self.train is not None:
            return None
        return (
            "the Penn Treebank is licensed: name the folder of your own, as dependencies, with data.path"
            " and what converted it with data.conversion"
        )

    def local_files(self) -> dict[str, list[Path]]:
        """Return the user's treebank files by split, and the word vectors."""
        files = super().local_files()
        if self.path is not None:
            files = penn_files(Path(self.path))
        if self.vectors is not None:
            if not Path(self.vectors).is_file():
                raise ValueError(f"data.vectors={self.vectors}: no such file")
            files["vectors"] = [Path(self.vectors)]
        return files
