"""Small data sets of one's own, one a reader, and how their files are spoiled."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from scripts.faults.process import changes

SPLITS = ("train", "valid", "test")
WORDS = ("good", "bad", "film", "plot", "dull", "fine", "cast", "very")
TOKENS = ("-1", "0", "999", "x", "", "\u00fc", "\x00", "1e9", "\t", " ", "nan", "_", "\u2028", "a" * 500)


@dataclass(frozen=True)
class Kind:
    """A data set of one's own: its files' contents by name, and the settings that name them."""

    files: Callable[[Random], dict[str, bytes]]
    settings: Sequence[str]
    is_text: bool = True

    def arguments(self, place: Path) -> list[str]:
        """Return the settings of a run on the files in a folder."""
        return [setting.format(place) for setting in self.settings]

    def spoil(self, path: Path, random: Random) -> str:
        """Spoil a file and return how."""
        spoiled = {**changes(random), **(_text_changes(random) if self.is_text else {})}
        what, edit = random.choice([*spoiled.items()])
        if what == "removed":
            path.unlink()
        else:
            path.write_bytes(edit(path.read_bytes()))
        return what


def good_files(kind: str, place: Path) -> list[Path]:
    """Write the files of a kind of data set and return them."""
    paths = []
    for name, content in DATA[kind].files(Random(kind)).items():
        paths.append(place / name)
        paths[-1].write_bytes(content)
    return paths


def _text_changes(random: Random) -> dict[str, Callable[[bytes], bytes]]:
    def by_line(edit: Callable[[list[bytes]], object]) -> Callable[[bytes], bytes]:
        def edited(content: bytes) -> bytes:
            lines = content.split(b"\n")
            edit(lines)
            return b"\n".join(lines)

        return edited

    def other_field(lines: list[bytes]) -> None:
        number = random.randrange(len(lines))
        fields = lines[number].split(b"\t")
        fields[random.randrange(len(fields))] = random.choice(TOKENS).encode()
        lines[number] = b"\t".join(fields)

    return {
        "a line less": by_line(lambda lines: lines.pop(random.randrange(len(lines)))),
        "a line twice": by_line(lambda lines: lines.insert(0, random.choice(lines))),
        "lines shuffled": by_line(random.shuffle),
        "another field": by_line(other_field),
        "one more field": by_line(lambda lines: lines.insert(1, lines[0] + b"\tx")),
        "one line": by_line(lambda lines: lines.__delitem__(slice(1, None))),
        "an endless word": by_line(lambda lines: lines.insert(1, b"x" * 20000)),
        "other line ends": lambda content: content.replace(b"\n", b"\r"),
        "UTF-16": lambda content: content.decode().encode("utf-16"),
        "blank lines": lambda content: b"\n" * 50,
    }


def _sentences(random: Random) -> dict[str, bytes]:
    def line() -> str:
        return f"{random.randrange(2)}\t{' '.join(random.choices(WORDS, k=random.randrange(2, 9)))}\n"

    return {f"{split}.tsv": "".join(line() for _ in range(60)).encode() for split in SPLITS}


def _pairs(random: Random) -> dict[str, bytes]:
    files = {}
    for split in SPLITS:
        lines = [random.choices(WORDS, k=random.randrange(2, 7)) for _ in range(60)]
        files[f"{split}.de"] = "".join(f"{' '.join(line)}\n" for line in lines).encode()
        files[f"{split}.en"] = "".join(f"{' '.join(reversed(line))}\n" for line in lines).encode()
    return files


def _trees(random: Random) -> dict[str, bytes]:
    def tree() -> str:
        count = random.randrange(2, 7)
        rows = (
            f"{n}\t{random.choice(WORDS)}\t_\tNOUN\tNN\t_\t{n - 1}\t{'dep' if n > 1 else 'root'}\t_\t_\n"
            for n in range(1, count + 1)
        )
        return "".join(rows) + "\n"

    return {f"{split}.conllu": "".join(tree() for _ in range(40)).encode() for split in SPLITS}


def _bytes(random: Random) -> dict[str, bytes]:
    return {"text": " ".join(random.choices(WORDS, k=2000)).encode()}


def _images(random: Random) -> dict[str, bytes]:
    files = {}
    for prefix, count in (("train", 120), ("t10k", 40)):
        pixels = struct.pack(">4I", 2051, count, 28, 28) + random.randbytes(count * 784)
        labels = struct.pack(">2I", 2049, count) + bytes(n % 10 for n in range(count))
        files[f"{prefix}-images-idx3-ubyte.gz"] = gzip.compress(pixels, 1, mtime=0)  # without the time of day
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
