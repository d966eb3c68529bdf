"""CIFAR-10's binary form, on files and archives made here."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from adanorm.config.data_sections import SPLITS, ColorImagesConfig
from adanorm.data import catalogue
from adanorm.data.catalogue import File, Source
from adanorm.data.examples import Splits
from adanorm.data.images import load_images
from tests.data.archives import archive
from tests.data.sections import section_of

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
NAMES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]


def records(count: int, seed: int) -> Bytes:
    random = np.random.default_rng(seed)
    made = random.integers(0, 256, (count, 3073)).astype(np.uint8)
    made[:, 0] = (np.arange(count) + seed) % 3  # every file has every label
    return made


def cifar(path: Path) -> dict[str, Bytes]:
    """Write an archive laid out as CIFAR-10's, the test set first, and return the records of each file."""
    made = {name: records(4, seed) for seed, name in enumerate(NAMES)}
    contents = {name: made[name].tobytes() for name in reversed(NAMES)}
    contents |= {"batches.meta.txt": b"airplane\n", "../outside.bin": b"x"}
    archive(path, {f"cifar-10-batches-bin/{name}": content for name, content in contents.items()})
    return made


def section(*overrides: str) -> ColorImagesConfig:
    return section_of(ColorImagesConfig, "task=cifar10", *overrides)


def sizes(splits: Splits) -> list[int]:
    return [len(splits[split]) for split in SPLITS]


def test_the_archive_is_verified_and_split_with_validation_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cifar-10").mkdir()
    path = tmp_path / "cifar-10" / "cifar-10-binary.tar.gz"
    made = cifar(path)
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    source = Source("cifar-10", "none", (File(path.name, None, f"md5:{md5}", ()),))
    monkeypatch.setitem(catalogue.SOURCES, "cifar10", source)
    places = (f"data.mirror={tmp_path}", f"data.cache={tmp_path / 'cache'}")
    splits = load_images(section(*places, "data.valid_size=6"))
    assert sizes(splits) == [14, 6, 4]
    every = np.concatenate([made[name] for name in NAMES])
    targets = torch.cat([splits[split].targets for split in SPLITS])
    assert targets.tolist() == every[:, 0].tolist()
    # A record is its label, then 1,024 bytes of each colour, row by row.
    pixel = splits["valid"].batch(np.array([1])).inputs[0, 2, 5, 7]
    expected = (every[15, 1 + 2 * 1024 + 5 * 32 + 7] / 255 - 0.4465) / 0.2616
    assert pixel.item() == pytest.approx(expected, abs=1e-6)
    assert splits["train"].batch(np.arange(3)).inputs.shape == (3, 3, 32, 32)
    assert splits.checksums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} == {path.name}, "nothing is unpacked"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ValueError, match="md5 is"):
        load_images(section(*places))


def test_ones_own_folder_is_read_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    for name, seed in (("data_batch_10.bin", 10), ("data_batch_2.bin", 2), ("test_batch.bin", 0)):
        records(4, seed).tofile(tmp_path / name)
    splits = load_images(section(f"data.path={tmp_path}", "data.valid_size=2", "data.train_images=7"))
    assert sizes(splits) == [5, 2, 4]
    labels = [*records(4, 2)[:, 0], *records(4, 10)[:3, 0]]
    assert [*splits["train"].targets, *splits["valid"].targets] == labels


FOUR = records(4, 0)


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (None, None, r"data\.path=\S+: holds no data_batch_1\.bin"),
        (FOUR, None, r"holds no test_batch\.bin"),
        (FOUR[:, :-1], FOUR, "12,288 bytes are no whole number of records"),
        (FOUR[:0], FOUR, "0 bytes are no whole"),
        (FOUR | 128, FOUR, "has the label 1[23]"),
        (FOUR, FOUR, r"data\.valid_size=5000: only 4 training images"),
    ],
)
def test_a_broken_folder_is_named(
    tmp_path: Path, train: Bytes | None, test: Bytes | None, message: str
) -> None:
    for name, content in (("data_batch_1", train), ("test_batch", test)):
        if content is not None:
            (tmp_path / f"{name}.bin").write_bytes(content.tobytes())
    with pytest.raises(ValueError, match=message):
        load_images(section(f"data.path={tmp_path}"))
