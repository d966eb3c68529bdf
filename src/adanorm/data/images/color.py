"""Colour images: CIFAR-10 in its binary form, from its archive or from a folder of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from adanorm.config.data_sections import ColourImages
from adanorm.config.digest import sha256
from adanorm.data import packed, synthetic
from adanorm.data.examples import PixelExamples, Splits
from adanorm.data.fetch import fetch
from adanorm.data.images.grey import inspect_images

SIDE = 32  # pixels
RECORD = 1 + 3 * SIDE * SIDE  # bytes: the label, then red, green and blue, each row by row
TRAIN, TEST = tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"
CLASSES = 10
Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def load_color_images(data: ColourImages) -> Splits:
    """Return the splits of the configured images.

    Validation is the last `valid_size` of the training images used. Raises ValueError for a file that is
    missing or not in CIFAR-10's form.
    """
    own = list(data.own_files().values())
    if own:
        return _split(
            data, *_read({path.name: path.read_bytes() for path in own}, own[0].parent), files=own, own=True
        )
    if data.source == "synthetic":
        return _split(data, *synthetic.colours(train=256 + data.valid_size, test=128))
    if data.source != "cifar10":
        raise ValueError(f"data.source={data.source!r}: colour images come from cifar10 or synthetic")
    (archive,) = fetch(data.source, data).values()
    return _split(data, *_read(unpacked(archive), archive), files=[archive])


def unpacked(archive: Path) -> dict[str, bytes]:
    """Return the content of CIFAR-10's six files by name; nothing is written to the disk.

    Raises ValueError where one is missing or the archive is broken.
    """
    found = packed.tar_members(archive, (*TRAIN, TEST))
    for name in (*TRAIN, TEST):
        if name not in found:
            raise ValueError(f"{archive}: holds no {name}")
    return {name: found[name] for name in (*TRAIN, TEST)}


def read_records(content: bytes, name: str) -> tuple[Pixels, Pixels]:
    """Return images (N, 3, 32, 32) and labels (N,) of the content of one file.

    Raises ValueError, naming the file, where it is no whole number of records or a label is above 9.
    """
    if not content or len(content) % RECORD:
        raise ValueError(f"{name}: {len(content):,} bytes are no whole number of records of {RECORD:,} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    labels = records[:, 0]
    if labels.max() >= CLASSES:
        raise ValueError(f"{name}: has the label {labels.max()}; CIFAR-10's are 0 to {CLASSES - 1}")
    return records[:, 1:].reshape(-1, 3, SIDE, SIDE), labels


def _read(contents: Mapping[str, bytes], place: Path) -> tuple[Pixels, Pixels, Pixels, Pixels]:
    """Return training images and labels, test images and labels; the last of `contents` is the test's."""
    *train, test = (read_records(content, f"{place}/{name}") for name, content in contents.items())
    images, labels = zip(*train, strict=True)
    return np.concatenate(images), np.concatenate(labels), *test


def _split(
    data: ColourImages,
    train_images: Pixels,
    train_labels: Pixels,
    test_images: Pixels,
    test_labels: Pixels,
    *,
    files: Sequence[Path] = (),
    own: bool = False,
) -> Splits:
    used = len(train_images[: data.train_images])
    cut = used - data.valid_size
    if cut <= 0:
        raise ValueError(f"data.valid_size={data.valid_size}: only {used} training images")
    splits = {
        "train": (train_images[:cut], train_labels[:cut]),
        "valid": (train_images[cut:used], train_labels[cut:used]),
        "test": (test_images, test_labels),
    }
    inspection = inspect_images(splits, data.batch_size, own=own)
    return Splits(
        train=_examples(data, *splits["train"]),
        valid=_examples(data, *splits["valid"]),
        test=_examples(data, *splits["test"]),
        labels=tuple(str(label) for label in range(CLASSES)),
        checksums={path.name: sha256(path) for path in files},
        inspection=inspection,
    )


def _examples(data: ColourImages, images: Pixels, labels: Pixels) -> PixelExamples:
    targets = torch.from_numpy(labels.astype(np.int64))
    mean, std = torch.tensor(data.mean), torch.tensor(data.std)
    return PixelExamples(torch.from_numpy(images.copy()), targets, data.batch_size, mean, std)
