"""Small data sets of the user's own, one for each reader."""

import gzip
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from adanorm.config.data_sections import SPLITS

WORDS = ("good", "bad", "film", "plot", "dull", "fine", "cast", "very")


@dataclass(frozen=True)
class Kind:
    """A data set: its files' contents by name, and the settings that name them."""

    files: Callable[[Random], dict[str, bytes]]
    settings: Sequence[str]
    is_text: bool = True

    def arguments(self, folder: Path) -> list[str]:
        """Return the settings of a run on the files in a folder."""
        return [setting.format(folder) for setting in self.settings]


def write_good_files(kind: str, folder: Path) -> None:
    """Write the files of a kind of data set."""
    for name, content in DATA[kind].files(Random(kind)).items():
        (folder / name).write_bytes(content)


def _words(random: Random, longest: int) -> list[str]:
    return random.choices(WORDS, k=random.randrange(2, longest + 1))


def _sentences(random: Random) -> dict[str, bytes]:
    def lines() -> str:
        return "".join(f"{random.randrange(2)}\t{' '.join(_words(random, 8))}\n" for _ in range(60))

    return {f"{split}.tsv": lines().encode() for split in SPLITS}


def _pairs(random: Random) -> dict[str, bytes]:
    files = {}
    for split in SPLITS:
        lines = [_words(random, 6) for _ in range(60)]
        files[f"{split}.de"] = "".join(f"{' '.join(line)}\n" for line in lines).encode()
        files[f"{split}.en"] = "".join(f"{' '.join(reversed(line))}\n" for line in lines).encode()
    return files


def _trees(random: Random) -> dict[str, bytes]:
    def tree() -> str:
        rows = (
            f"{n}\t{word}\t_\tNOUN\tNN\t_\t{n - 1}\t{'dep' if n > 1 else 'root'}\t_\t_\n"
            for n, word in enumerate(_words(random, 6), 1)
        )
        return "".join(rows) + "\n"

    return {f"{split}.conllu": "".join(tree() for _ in range(40)).encode() for split in SPLITS}


def _bytes(random: Random) -> dict[str, bytes]:
    return {"text": " ".join(random.choices(WORDS, k=2000)).encode()}


def _images(random: Random) -> dict[str, bytes]:
    files = {}
    for prefix, count in (("train", 120), ("t10k", 40)):
        pixels = struct.pack(
            ">4I",
            2051,
            count,
            28,
            28,
        ) + random.randbytes(count * 784)
        labels = struct.pack(">2I", 2049, count) + bytes(n % 10 for n in range(count))
        files[f"{prefix}-images-idx3-ubyte.gz"] = gzip.compress(
            pixels, 1, mtime=0
        )  # without the time of day
        files[f"{prefix}-labels-idx1-ubyte"] = labels
    return files


def _by_split(end: str) -> list[str]:
    return [f"data.{split}={{}}/{split}{end}" for split in SPLITS]


DATA = {
    "sentences": Kind(_sentences, ["task=rt", *_by_split(".tsv")]),
    "pairs": Kind(_pairs, ["task=de-en", *_by_split("")]),
    "trees": Kind(_trees, ["task=ptb", *_by_split(".conllu")]),
    "bytes": Kind(_bytes, ["task=enwik8", "data.path={}/text"], is_text=False),
    "images": Kind(_images, ["task=mnist", "data.path={}", "data.valid_size=40"], is_text=False),
}
