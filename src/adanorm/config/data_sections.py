"""Settings of the data that a run reads, one class per reader; and the user's own files by role."""

import gzip
import zlib
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from adanorm.config.paths import without_password
from adanorm.config.sections import Config, EachOnce, Fraction, Positive, Size, Width

SPLITS = ("train", "valid", "test")
IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
PENN_SECTIONS = {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)}
FULL_SIZE = "full-size"  # the `source` of a dry run's made-up data
Files = dict[str, Path]  # by role or name
FileLists = dict[str, list[Path]]  # by split or role
Scoring = Literal["penn", "eval07", "ud"]
PositiveFloat = Annotated[float, Field(gt=0)]


def _named_file(key: str, path: str) -> Path:
    """Return the file that a setting names; raises ValueError if it does not exist."""
    if not Path(path).is_file():
        raise ValueError(f"data.{key}={path}: no such file")
    return Path(path)


def _plain_or_packed(key: str, prefix: str, ending: str) -> Path:
    """Return the file `prefix` + `ending`, .gz preferred.

    Raises ValueError if there is neither, or both differ.
    """
    path = Path(f"{prefix}{ending}")
    packed = path.with_name(f"{path.name}.gz")
    if not packed.is_file():
        if path.is_file():
            return path
        raise ValueError(f"data.{key}={prefix}: there is neither {path.name}.gz nor {path.name}")
    if not path.is_file():
        return packed
    try:
        is_same = gzip.decompress(packed.read_bytes()) == path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{packed}: not a whole gzip file ({error})") from None
    if not is_same:
        raise ValueError(
            f"{packed}: has other data than {path.name} beside it; remove one of the two"
        )
    return packed


def data_bin_files(folder: Path, languages: tuple[str, str]) -> Files:
    """Return the files of a fairseq data-bin by name.

    Their names may have the languages in either order.
    """
    first, second = languages
    pair = f"{first}-{second}"
    if not any(folder.glob(f"train.{pair}.*")) and any(folder.glob(f"train.{second}-{first}.*")):
        pair = f"{second}-{first}"
    for shard in folder.glob(f"train[0-9]*.{pair}.*"):
        raise ValueError(
            f"data.path={folder}: holds {shard.name}; only `train` is read: join the training sets"
        )
    names = []
    for split, language, end in product(
        SPLITS,
        languages,
        ("bin", "idx"),
    ):
        names.append(f"{split}.{pair}.{language}.{end}")
    names += [f"dict.{language}.txt" for language in languages]
    return {name: _existing(folder / name) for name in names}


def _existing(path: Path) -> Path:
    """Return the path unchanged; raises ValueError if no file is there."""
    if not path.is_file():
        text = path.with_suffix("")  # what `fairseq-preprocess --dataset-impl raw` writes
        hint = ""
        if path.suffix == ".bin" and text.is_file():
            hint = f" but {text.name}: make it with `fairseq-preprocess --dataset-impl mmap`"
        raise ValueError(f"data.path={path.parent}: holds no {path.name}{hint}")
    return path


def penn_files(folder: Path) -> FileLists:
    """Return the Penn Treebank's sorted files wsj_SSNN.* by split.

    As in the paper, sections 2 to 21 are for training, 22 for validation and 23 for the test.
    """
    paths = sorted(folder.rglob("wsj_[0-2][0-9][0-9][0-9].*"), key=lambda path: path.name)
    files: FileLists = {split: [] for split in SPLITS}
    seen = set()
    for path in paths:
        section, name = int(path.name[4:6]), path.name[:8]
        for split, sections in PENN_SECTIONS.items():
            if section in sections:
                if name in seen:
                    raise ValueError(f"data.path={folder}: holds {name} more than once")
                seen.add(name)
                files[split].append(path)
    for split in SPLITS:
        if not files[split]:
            raise ValueError(
                f"data.path={folder}: holds no file wsj_SSNN.* of the sections for {split};"
                " files of whole splits go with data.train, data.valid and data.test"
            )
    return files


class DataConfig(Config):
    """The source of the data; the places `cache`, `mirror` and `mirrors` do not identify a run."""

    kind: ClassVar[str]  # the `kind` of the tasks that these data are for

    reader: str
    source: str
    cache: str | None
    mirror: str | None
    mirrors: tuple[str, ...] = ()  # used if no `mirror` is set

    @field_validator("mirror", "mirrors")
    @classmethod
    def _without_password(cls, value: str | tuple[str, ...] | None) -> Any:
        """Raise ValueError for an address with a password: sweeps and studies keep settings."""
        for address in (value,) if isinstance(value, str) else value or ():
            shown = without_password(address)
            if shown != address:
                raise ValueError(f"{shown} with a name or password belongs into ADANORM_MIRROR")
        return value

    def own_files(self) -> Files:
        """Return the user's own files by role, {} for data of the catalogue.

        Raises ValueError if one is missing.
        """
        return {}

    def local_files(self) -> FileLists:
        """Return all files at paths that the user named, by role.

        Their content identifies the run.
        """
        return {role: [path] for role, path in self.own_files().items()}

    @property
    def draws_parts(self) -> bool:
        """Whether parts of the user's own files are drawn; parts of a source are fixed ranges."""
        return False

    def lacks(self) -> str | None:
        """Return a message on data that only the user can provide and has not named, or None."""
        return None


class LabelledImagesConfig(DataConfig):
    """Images with labels; the user may name a folder `path` of own files."""

    kind = "classification"
    side: ClassVar[int]  # pixels
    path: str | None
    valid_size: Size
    batch_size: Size
    label_noise: Fraction | None = None

    @property
    def draws_parts(self) -> bool:
        """Whether validation images are drawn."""
        return self.path is not None


class ImagesConfig(LabelledImagesConfig):
    """Grey images of 28 x 28 pixels with labels, in IDX files."""

    side = 28
    reader: Literal["images"]
    mean: float
    std: PositiveFloat

    def own_files(self) -> Files:
        """Return the four IDX files under `path` by name, each with or without `.gz`."""
        names = () if self.path is None else IDX_NAMES
        return {
            name: _plain_or_packed(
                "path",
                str(self.path),
                f"/{name}",
            )
            for name in names
        }


class ColorImagesConfig(LabelledImagesConfig):
    """Colour images of 32 x 32 pixels with labels, in CIFAR-10's binary form."""

    side = 32
    reader: Literal["colour_images"]
    train_images: Positive | None
    mean: tuple[float, float, float]
    std: tuple[PositiveFloat, PositiveFloat, PositiveFloat]

    def own_files(self) -> Files:
        """Return data_batch_*.bin, in order of their numbers, and test_batch.bin under `path`."""
        if self.path is None:
            return {}
        folder = Path(self.path)
        batches = [*folder.glob("data_batch_*.bin")] or [folder / "data_batch_1.bin"]
        batches.sort(key=lambda path: (len(path.name), path.name))  # 2 before 10
        files = [*batches, folder / "test_batch.bin"]
        return {path.stem: _existing(path) for path in files}


class GaussianConfig(DataConfig):
    """Inputs drawn from a normal distribution.

    The targets are a random linear map of them, plus noise.
    """

    kind = "regression"
    reader: Literal["gaussian"]
    source: Literal["gaussian"]
    inputs: Width
    outputs: Width
    noise: Annotated[float, Field(ge=0)]
    train_size: Size
    valid_size: Size
    test_size: Size
    batch_size: Size


class ThreeFilesConfig(DataConfig):
    """Data for which the user may name one file per split."""

    train: str | None
    valid: str | None
    test: str | None

    def own_files(self) -> Files:
        """Return the user's three files by split, or {}."""
        return {split: _named_file(split, path) for split, path in self.named().items()}

    def named(self) -> dict[str, str]:
        """Return the user's path for each split, or {}.

        Raises ValueError if only some splits have one.
        """
        paths = {"train": self.train, "valid": self.valid, "test": self.test}
        named = {split: path for split, path in paths.items() if path}
        missing = [f"data.{split}" for split in SPLITS if split not in named]
        if named and missing:
            needed = "own text needs data.train, data.valid and data.test"
            raise ValueError(f"{needed}: set {' and '.join(missing)} too")
        return named


class TextConfig(ThreeFilesConfig):
    """Labelled sentences."""

    kind = "classification"
    reader: Literal["text"]
    train_fraction: Annotated[float, Field(gt=0, le=1)]
    batch_tokens: Size
    lowercase: bool
    min_count: Positive
    words: Literal["alphanumeric"] | None = None  # null: words are separated by white space
    label_noise: Fraction | None = None

    @property
    def draws_parts(self) -> bool:
        """Whether a share of the training sentences is drawn."""
        return bool(self.train) and self.train_fraction < 1


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
    # What cut the user's text; words: nothing; null: nothing, or what a data-bin shows.
    subwords: Literal["bpe", "sentencepiece", "words"] | None = None
    joined_dictionary: bool
    dictionary_size: Positive | None
    batch_tokens: Size

    @property
    def draws_parts(self) -> bool:
        """Whether some of the training pairs are drawn."""
        return bool(self.train) and self.train_pairs is not None

    def own_files(self) -> Files:
        """Return the files of a fairseq data-bin, or six texts named PREFIX.<language>, by role."""
        if self.path is not None:
            if self.train or self.valid or self.test:
                raise ValueError("data.path (a data-bin) and data.train exclude each other")
            return data_bin_files(Path(self.path), self.languages)
        files = {}
        for split, path in self.named().items():
            for language in self.languages:
                files[f"{split}.{language}"] = _plain_or_packed(split, path, f".{language}")
        return files


class ByteTextConfig(DataConfig):
    """One text of bytes, cut into training, validation and test parts."""

    kind = "char_lm"
    reader: Literal["bytes"]
    path: str | None
    fractions: tuple[Fraction, Fraction, Fraction]
    streams: Width
    evaluation_streams: Width

    @model_validator(mode="after")
    def _fractions_add_up_to_one(self) -> Self:
        if abs(sum(self.fractions) - 1) > 1e-9 or 0 in self.fractions:
            raise ValueError(
                f"fractions {list(self.fractions)}: three parts above 0 that add up to 1"
            )
        return self

    def own_files(self) -> Files:
        """Return the user's own text."""
        return {} if self.path is None else {"text": _named_file("path", self.path)}


class TreebankConfig(ThreeFilesConfig):
    """Sentences with their trees, and how a parser reads them.

    `path` or own files replace `source`.
    """

    kind = "parsing"
    reader: Literal["trees"]
    path: str | None
    conversion: str | None
    tags: Literal["xpos", "upos"]
    scoring: Scoring
    non_projective: Literal["skip", "projectivize"]
    lowercase: bool
    min_count: Positive
    vectors: str | None
    batch_size: Size
    fold: Annotated[int, Field(ge=1, le=5)] | None = None

    @model_validator(mode="after")
    def _trees_have_one_source(self) -> Self:
        settings = {"data.path": self.path, "data.train": self.train, "data.fold": self.fold}
        keys = [key for key, value in settings.items() if value is not None]
        if len(keys) > 1:
            raise ValueError(
                f"{' and '.join(keys)} exclude each other: each says which trees are read"
            )
        if self.path is not None and not self.conversion:
            raise ValueError(
                "data.conversion: name the program that converted the Penn Treebank to"
                " dependencies, such as stanford-3.3.0 or penn2malt: UAS depends on it"
            )
        return self

    def lacks(self) -> str | None:
        """Return what the user must name for the licensed Penn Treebank, or None."""
        if self.source != "penn" or self.path is not None or self.train is not None:
            return None
        return (
            "the Penn Treebank is licensed: name the folder of your own copy, converted to"
            " dependencies, with data.path, and the program that converted it with data.conversion"
        )

    def local_files(self) -> FileLists:
        """Return the user's treebank files by split, and the word vectors."""
        files = super().local_files()
        if self.path is not None:
            files = penn_files(Path(self.path))
        if self.vectors is not None:
            files["vectors"] = [_named_file("vectors", self.vectors)]
        return files
