"""Images with labels: MNIST, files of its shape, 5,000 of its digits, CIFAR-10's binary form."""

import io
import math
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from adanorm.config.data_sections import ColorImagesConfig, ImagesConfig
from adanorm.data import packed
from adanorm.data.examples import ArrayExamples, Splits, drawn_by_label
from adanorm.data.inspection import batch_warnings, inspect_labeled

SIDE, COLOR_SIDE = ImagesConfig.side, ColorImagesConfig.side  # pixels
RECORD = (
    1 + 3 * COLOR_SIDE * COLOR_SIDE
)  # bytes: the label, then red, green and blue, each row by row
MEMBERS = (
    *(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test_batch.bin",
)  # of CIFAR-10's archive
CLASSES = 10  # of CIFAR-10
Pixels = np.typing.NDArray[np.uint8]
Arrays = tuple[Pixels, Pixels, Pixels, Pixels]  # training images and labels, test images and labels


def load_images(data: ImagesConfig | ColorImagesConfig) -> Splits:
    """Return the splits of the configured images.

    Validation is the first `valid_size` grey training images (PAPER: MNIST has 55,000/5,000), or
    the last of the coloured training images in use. Of the user's own images, which may be sorted,
    both are drawn by label. Raises ValueError for a file that is missing,
    corrupted or unfit.
    """
    if isinstance(data, ImagesConfig):
        (images, labels, *test), checksums = _grey_arrays(data)
        names = np.unique(labels)
        valid, train = np.split(np.arange(len(images)), [data.valid_size])
    else:
        (images, labels, *test), checksums = _color_arrays(data)
        count = min(data.train_images or len(images), len(images))
        chosen = drawn_by_label(labels, count) if data.draws_parts else np.arange(count)
        images, labels = images[chosen], labels[chosen]
        names = np.arange(CLASSES, dtype=np.uint8)
        train, valid = np.split(np.arange(count), [-data.valid_size])
    if len(images) <= data.valid_size:
        raise ValueError(f"data.valid_size={data.valid_size}: only {len(images)} training images")
    if data.draws_parts:
        train = drawn_by_label(labels, len(images) - data.valid_size)
        valid = np.delete(np.arange(len(images)), train)
    splits = {
        "train": (images[train], labels[train]),
        "valid": (images[valid], labels[valid]),
        "test": test,
    }
    inspection = inspect_labeled(
        {split: map(bytes, pixels) for split, (pixels, _) in splits.items()},
        {split: targets.tolist() for split, (_, targets) in splits.items()},
        kind="images",
        remarks=batch_warnings(
            len(train),
            "data.batch_size",
            data.batch_size,
        ),
    )
    mean, std = (
        torch.tensor(values).reshape(
            -1,
            1,
            1,
        )
        for values in (data.mean, data.std)
    )
    examples = {}
    for split, (pixels, targets) in splits.items():
        planes = pixels.reshape(
            len(pixels),
            -1,
            *pixels.shape[-2:],
        ).copy()
        classes = np.searchsorted(names, targets)
        examples[split] = ArrayExamples(
            torch.from_numpy(planes), torch.from_numpy(classes), data.batch_size, (mean, std)
        )
    return Splits(
        examples,
        tuple(map(str, names.tolist())),
        checksums,
        inspection,
    )


def _grey_arrays(data: ImagesConfig) -> tuple[Arrays, dict[str, str]]:
    """Return images and labels, and the checksums of their files by name."""
    files = data.own_files()
    if not files:
        if data.source == "synthetic":
            shape = (SIDE, SIDE)
            return made_up_images(train=256 + data.valid_size, test=128, shape=shape), {}
        if data.source not in ("mnist", "mnist-5k"):
            raise ValueError(
                f"data.source={data.source!r}: images come from mnist, mnist-5k or synthetic"
            )
        from adanorm.data.fetch import fetch  # reads the catalogue

        files = fetch(data.source, data)
    contents, checksums = _read_files(files)
    if len(contents) == 1:
        (content,) = contents.values()
        return read_digits(content, data.valid_size), checksums
    train, labels, test, test_labels = (read_idx(text, path) for path, text in contents.items())
    for split, pixels, targets in (("training", train, labels), ("test", test, test_labels)):
        are_images = pixels.shape[1:] == (SIDE, SIDE) and len(pixels) > 0
        if not are_images or targets.shape != pixels.shape[:1]:
            raise ValueError(
                f"{split}: images {pixels.shape} and labels {targets.shape}:"
                f" need N images of {SIDE} x {SIDE}, N labels"
            )
    return (train, labels, test, test_labels), checksums


def _read_files(paths: Mapping[str, Path]) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the unpacked contents of files by path, and the files' checksums by name."""
    contents, checksums = {}, {}
    for path in paths.values():
        contents[str(path)], checksums[path.name] = packed.content(path)
    return contents, checksums


def read_idx(content: bytes, name: str) -> Pixels:
    """Return the array of an IDX file of bytes, (N, rows, columns) or (N,).

    Raises ValueError for another file.
    """
    try:
        zeros, kind, axes = struct.unpack_from(">HBB", content)
        if zeros != 0 or kind != 8 or axes not in (1, 3):
            raise ValueError(f"{name}: not an IDX file of images or labels in bytes")
        shape = struct.unpack_from(f">{axes}I", content, 4)
    except struct.error as error:
        raise ValueError(f"{name}: not an IDX file ({error})") from None
    size, count = len(content) - 4 - 4 * axes, math.prod(shape)
    if size != count:
        raise ValueError(f"{name}: holds {size:,} values, its header says {count:,}")
    return np.frombuffer(
        content,
        np.uint8,
        offset=4 + 4 * axes,
    ).reshape(shape)


def read_digits(content: bytes, test_size: int) -> Arrays:
    """Return the arrays of the shipped digits in a fixed shuffle.

    The last `test_size` are the test. Each row of the CSV is an image and its label; rows are
    sorted by label.
    """
    rows = np.loadtxt(io.BytesIO(content), delimiter=",").astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(rows))
    rows = rows[order]
    images = rows[:, :-1].reshape(
        -1,
        SIDE,
        SIDE,
    )
    labels = rows[:, -1]
    cut = len(rows) - test_size
    return images[:cut], labels[:cut], images[cut:], labels[cut:]


def _color_arrays(data: ColorImagesConfig) -> tuple[Arrays, dict[str, str]]:
    """Return images and labels, and the checksums of their files by name."""
    files = data.own_files()
    if files:
        contents, checksums = _read_files(files)
        return _arrays_of_records(contents), checksums
    if data.source == "synthetic":
        shape = (3, COLOR_SIDE, COLOR_SIDE)
        return made_up_images(train=256 + data.valid_size, test=128, shape=shape), {}
    if data.source != "cifar10":
        raise ValueError(
            f"data.source={data.source!r}: colour images come from cifar10 or synthetic"
        )
    from adanorm.data.fetch import fetch

    (archive,) = fetch(data.source, data).values()
    members, checksum = packed.tar_members(archive, MEMBERS)
    contents = {f"{archive}/{name}": content for name, content in members.items()}
    return _arrays_of_records(contents), {archive.name: checksum}


def _arrays_of_records(contents: Mapping[str, bytes]) -> Arrays:
    """Return images (N, 3, 32, 32) and labels of CIFAR-10's files.

    The last file is the test set.
    """
    parts = []
    for path, content in contents.items():
        if not content or len(content) % RECORD:
            size = f"{len(content):,} bytes"
            raise ValueError(
                f"{path}: {size} are not a whole number of records of {RECORD:,} bytes"
            )
        largest = max(content[::RECORD])
        if largest >= CLASSES:
            raise ValueError(f"{path}: has the label {largest}; CIFAR-10's are 0 to {CLASSES - 1}")
        parts.append(np.frombuffer(content, np.uint8).reshape(-1, RECORD))
    train, test = np.concatenate(parts[:-1]), parts[-1]
    return _images(train), train[:, 0], _images(test), test[:, 0]


def _images(records: Pixels) -> Pixels:
    return records[:, 1:].reshape(
        -1,
        3,
        COLOR_SIDE,
        COLOR_SIDE,
    )


def made_up_images(*, train: int, test: int, shape: tuple[int, ...]) -> Arrays:
    """Return images (N, *shape) and labels (N,), train then test, equal on every machine.

    An image is noise and a bright square, whose place tells the class; the class also chooses the
    colour.
    """
    random = np.random.default_rng(0)
    count = train + test
    labels = random.integers(
        0,
        10,
        count,
    ).astype(np.uint8)
    pixels = random.integers(
        0,
        100,
        (count, *shape),
    ).astype(np.uint8)
    height = shape[-1] // 2 - 6
    width = height - 2
    for image, label in zip(
        pixels,
        labels,
        strict=True,
    ):
        plane = image
        if image.ndim == 3:
            plane = image[label % len(image)]
        row, column = divmod(int(label), 4)
        top, left = 2 + height * row, 1 + width * column
        plane[top : top + height - 2, left : left + 6] += 120
    return pixels[:train], labels[:train], pixels[train:], labels[train:]
