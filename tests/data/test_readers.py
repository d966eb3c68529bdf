import gzip
import hashlib
import struct
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import (
    SPLITS,
    ColorImagesConfig,
    ImagesConfig,
    ParallelConfig,
    TextConfig,
)
from adanorm.data import catalogue
from adanorm.data.catalogue import File, Source
from adanorm.data.examples import ArrayExamples, Splits, drawn_by_label
from adanorm.data.images import load_images, made_up_images
from adanorm.data.sentences import load_sentences, read_sst
from adanorm.data.translation.corpora import corpus_files
from tests.data.archives import archive
from tests.data.sections import section_of, write_splits

zipped = partial(gzip.compress, mtime=0)


def idx(values: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    header = struct.pack(
        ">HBB",
        0,
        8,
        values.ndim,
    ) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.tobytes()


def write_images(folder: Path, train: Sequence[int], test: Sequence[int]) -> None:
    """Write images with these labels, each of one value: its number in training, that and 100 in the test."""
    for name, labels, first in (("train", train, 0), ("t10k", test, 100)):
        images = np.zeros((len(labels), 28, 28), np.uint8)
        images += np.arange(first, first + len(labels), dtype=np.uint8)[:, None, None]
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(zipped(idx(images)))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(
            zipped(idx(np.array(labels, np.uint8)))
        )


def images_of(*overrides: str) -> ImagesConfig:
    return section_of(ImagesConfig, "task=mnist", *overrides)


def text_of(*overrides: str) -> TextConfig:
    return section_of(TextConfig, "task=rt", *overrides)


def sizes(splits: Splits) -> list[int]:
    return [len(splits[split]) for split in SPLITS]


def test_own_images_validate_by_label_however_they_are_sorted(tmp_path: Path) -> None:
    labels = [0] * 8 + [1] * 8 + [2] * 4
    write_images(tmp_path, labels, [0, 1, 2] * 2)
    splits = load_images(
        images_of(f"data.path={tmp_path}", "data.valid_size=5", "data.mean=0", "data.std=1")
    )
    numbers = {}
    for split in SPLITS:
        batch = splits[split].batch(np.arange(len(splits[split])))
        numbers[split] = (255 * batch.inputs[:, 0, 5, 7]).round().int().tolist()
        if split != "test":
            assert batch.targets.tolist() == [labels[number] for number in numbers[split]]
    assert sorted(numbers["train"] + numbers["valid"]) == list(range(20))
    assert numbers["test"] == list(range(100, 106))
    assert splits["valid"].targets.bincount().tolist() == [2, 2, 1]
    assert numbers["train"] == sorted(numbers["train"]), "the order of the file stays"


def test_the_first_images_of_a_source_validate() -> None:
    whole, *_ = made_up_images(train=266, test=128, shape=(28, 28))
    splits = load_images(images_of("scale=smoke", "data.valid_size=10"))
    valid = splits["valid"]
    assert isinstance(valid, ArrayExamples)
    assert np.array_equal(valid.inputs[:, 0].numpy(), whole[:10])


WHOLE = idx(np.zeros((60, 28, 28), np.uint8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped(b""), "not an IDX file"),
        (zipped(b"not an idx file at all"), "not an IDX file"),
        (zipped(WHOLE)[:-20], r"train-images-idx3-ubyte\.gz: not a whole gzip file"),
        (zipped(WHOLE[:-5]), "holds 47,035 values, its header says 47,040"),
        (zipped(WHOLE + bytes(5)), "holds 47,045 values, its header says 47,040"),
        (zipped(idx(np.zeros((60, 27, 28), np.uint8))), "need N images of 28 x 28"),
        (zipped(idx(np.zeros((59, 28, 28), np.uint8))), "N labels"),
    ],
)
def test_a_broken_image_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    write_images(tmp_path, [0, 1] * 30, [0, 1])
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_images(images_of(f"data.path={tmp_path}", "data.valid_size=10"))


def test_the_packaged_images_are_mnists_and_balanced_over_splits() -> None:
    splits = load_images(images_of("scale=mini"))
    assert sizes(splits) == [4000, 500, 500]
    labels = torch.cat([splits[split].targets for split in SPLITS])
    assert Counter(labels.tolist()) == dict.fromkeys(range(10), 500)
    assert min(Counter(splits["test"].targets.tolist()).values()) > 25


def test_mnist_is_split_as_the_paper_does(mirror: Path) -> None:
    splits = load_images(images_of(f"data.mirror={mirror}"))
    assert sizes(splits) == [55_000, 5_000, 10_000]
    # The published training set starts 5, 0, 4, 1, 9: those are validation images.
    assert splits["valid"].targets[:5].tolist() == [5, 0, 4, 1, 9]
    assert splits["test"].targets[:5].tolist() == [7, 2, 1, 0, 4]


def test_rt_is_the_groups_own_split_and_sst5_the_canonical_one(mirror: Path) -> None:
    splits = load_sentences(text_of(f"data.mirror={mirror}"))
    assert sizes(splits) == [8_608, 964, 1_089]
    assert splits.labels == ("0", "1")
    corpora, _ = read_sst(mirror / "sst5" / "trainDevTestTrees_PTB.zip")
    assert [len(corpora[split]) for split in SPLITS] == [8_544, 1_101, 2_210]
    with gzip.open(mirror / "sst5" / "stsa.fine.test.gz", "rt") as file:  # another group's copy
        others = Counter(line.split()[0] for line in file)
    assert Counter(label for label, _ in corpora["test"]) == others


def test_an_unknown_source_is_refused_with_the_choices() -> None:
    with pytest.raises(
        ValueError, match=r"source='mnist': colour images come from cifar10 or synthetic"
    ):
        load_images(colored("data.source=mnist"))
    with pytest.raises(ValueError, match=r"source='x': text comes from rt, sst5 or synthetic"):
        load_sentences(text_of("data.source=x"))
    with pytest.raises(
        ValueError, match=r"pairs of sentences come from .*iwslt14-de-en, .*synthetic"
    ):
        corpus_files(section_of(ParallelConfig, "task=de-en", "data.source=europarl"))


LINES = "pos\ta good film\nneg\ta bad film\npos\tgood , good\nneg\tbad film\n"


def write_corpus(folder: Path, **lines: str) -> list[str]:
    return write_splits(folder, {**dict.fromkeys(SPLITS, LINES), **lines}, ".tsv")


def test_own_text_is_read(tmp_path: Path) -> None:
    splits = load_sentences(text_of(*write_corpus(tmp_path, test="neg\tA bad idea\n")))
    assert splits.labels == ("neg", "pos")
    # Words seen twice or more, by falling count, then by name.
    assert splits.vocabulary == ("<pad>", "<unk>", "film", "good", "a", "bad")
    test = splits["test"]
    assert test.batch(np.array([0])).inputs.tolist() == [[4, 5, 1]]
    assert test.targets.tolist() == [0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({"train": "pos a good film\n"}, r"train.tsv, line 1: expected `label<TAB>sentence`"),
        ({"valid": LINES + "pos\t \n"}, r"valid.tsv, line 5: expected"),
        (
            {"valid": LINES + "pos\ta\tfilm\n"},
            r"valid.tsv, line 5: expected .*, found 'pos.ta.tfilm",
        ),
        ({"test": LINES.replace("\n", "\r")}, r"test.tsv, line 1: a carriage return within a line"),
        ({"valid": ""}, r"valid.tsv: holds no line"),
        ({"train": f"{LINES}pos\tcaf\udce9\n"}, r"train.tsv, line 5: not UTF-8"),
        ({"train": LINES.encode("utf-16-le").decode()}, r"train.tsv, line 1: not UTF-8 \(a NUL"),
        (
            {"test": LINES + "pos\t" + 5001 * "good "},
            r"test.tsv, line 5: 5,001 words: a sentence has at",
        ),
        (
            {"test": "meh\tso so\n"},
            "test: label 'meh' is not among those of the training sentences",
        ),
        ({"train": "pos\tgood\npos\tfine\n"}, "one label, 'pos'"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, lines: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_sentences(text_of(*write_corpus(tmp_path, **lines)))


@pytest.mark.parametrize(("fraction", "count"), [(1.0, 5), (0.3, 2), (0.5, 2), (0.7, 4)])
def test_a_fraction_of_training_is_rounded(tmp_path: Path, fraction: float, count: int) -> None:
    lines = "a\tx\nb\ty\na\tz\nb\tx\na\ty\n"
    files = write_corpus(
        tmp_path,
        train=lines,
        valid="a\tx\n",
        test="a\ty\n",
    )
    data = text_of(*files, f"data.train_fraction={fraction}", "data.min_count=1")
    assert len(load_sentences(data)["train"]) == count
    with pytest.raises(
        ValueError, match=r"data\.min_count=9: no word of the training data is so frequent"
    ):
        load_sentences(data.model_copy(update={"min_count": 9}))


def test_a_single_label_left_by_a_fraction_is_blamed_on_the_fraction(tmp_path: Path) -> None:
    files = write_corpus(
        tmp_path,
        train="a\tx\nb\ty\n",
        valid="a\tx\n",
        test="b\ty\n",
    )
    with pytest.raises(
        ValueError, match=r"sentences \(data\.train_fraction=0\.5\) have one label, '[ab]'"
    ):
        load_sentences(text_of(*files, "data.train_fraction=0.5", "data.min_count=1"))


Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
NAMES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]


def records(count: int, seed: int) -> Bytes:
    random = np.random.default_rng(seed)
    rows = random.integers(0, 256, (count, 3073)).astype(np.uint8)
    rows[:, 0] = (np.arange(count) + seed) % 3  # every file has every label
    return rows


def colored(*overrides: str) -> ColorImagesConfig:
    return section_of(ColorImagesConfig, "task=cifar10", *overrides)


def test_the_archive_of_cifar10_is_read_in_order_and_validation_is_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cifar-10" / "cifar-10-binary.tar.gz"
    path.parent.mkdir()
    contents = {name: records(4, seed) for seed, name in enumerate(NAMES)}
    members = {name: contents[name].tobytes() for name in reversed(NAMES)} | {
        "../outside.bin": b"x"
    }
    archive(path, {f"cifar-10-batches-bin/{name}": content for name, content in members.items()})
    source = Source(
        "cifar-10",
        "none",
        (
            File(
                path.name,
                None,
                None,
                (),
            ),
        ),
    )
    monkeypatch.setitem(catalogue.SOURCES, "cifar10", source)
    folders = (f"data.mirror={tmp_path}", f"data.cache={tmp_path / 'cache'}")
    splits = load_images(colored(*folders, "data.valid_size=6"))
    assert sizes(splits) == [14, 6, 4]
    every = np.concatenate([contents[name] for name in NAMES])
    targets = torch.cat([splits[split].targets for split in SPLITS])
    assert targets.tolist() == every[:, 0].tolist()
    # A record is its label, then 1,024 bytes of each colour, row by row.
    pixel = splits["valid"].batch(np.array([1])).inputs[0, 2, 5, 7]
    expected = (every[15, 1 + 2 * 1024 + 5 * 32 + 7] / 255 - 0.4465) / 0.2616
    assert pixel.item() == pytest.approx(expected, abs=1e-6)
    assert splits["train"].batch(np.arange(3)).inputs.shape == (3, 3, 32, 32)
    assert splits.checksums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}


def test_a_folder_of_own_files_is_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name, seed in (("data_batch_10.bin", 10), ("data_batch_2.bin", 2), ("test_batch.bin", 0)):
        records(4, seed).tofile(tmp_path / name)
    splits = load_images(
        colored(f"data.path={tmp_path}", "data.valid_size=2", "data.train_images=7")
    )
    assert sizes(splits) == [5, 2, 4]
    labels = np.concatenate([records(4, 2)[:, 0], records(4, 10)[:, 0]])
    chosen = drawn_by_label(labels, 7)
    train = drawn_by_label(labels[chosen], 5)
    assert splits["train"].targets.tolist() == labels[chosen][train].tolist()


@pytest.mark.parametrize("count", [2, 3, 10, 33, 100])
def test_a_drawn_part_has_each_label_in_its_share_and_at_least_once(count: int) -> None:
    labels = ["a"] * 60 + ["b"] * 39 + ["c"]
    chosen = drawn_by_label(labels, count)
    assert len({*chosen}) == count
    assert chosen.tolist() == sorted(chosen)
    assert chosen.tolist() == drawn_by_label(labels, count).tolist(), "the seed is fixed"
    numbers = Counter(labels[index] for index in chosen)
    if count >= 3:
        assert numbers["c"] == 1
        assert abs(numbers["a"] - 0.6 * count) <= 1
    backwards = Counter(labels[::-1][index] for index in drawn_by_label(labels[::-1], count))
    assert all(abs(numbers[label] - backwards[label]) <= 1 for label in "abc")


def test_a_share_of_own_sentences_is_drawn_by_label(tmp_path: Path) -> None:
    lines = "".join(f"{label}\tword{label} w{number}\n" for label in "ab" for number in range(50))
    files = write_corpus(tmp_path, train=lines, valid="a\tx\n", test="b\ty\n")
    data = text_of(*files, "data.train_fraction=0.5", "data.min_count=1")
    targets = load_sentences(data)["train"].targets
    assert targets.bincount().tolist() == [25, 25]


def test_what_is_drawn_is_part_of_the_identity_where_something_is(tmp_path: Path) -> None:
    files = write_corpus(tmp_path, train="a\tx\nb\ty\n", valid="a\tx\n", test="b\ty\n")
    write_images(tmp_path, [0, 1], [0, 1])
    drawn = (
        ["task=rt", *files, "data.train_fraction=0.5"],
        ["task=mnist", f"data.path={tmp_path}"],
    )
    ranges = (["task=rt", *files], ["task=rt", "data.train_fraction=0.5"], ["task=mnist"])
    for overrides in drawn:
        assert compose_experiment(overrides).identity["data"]["parts"] == "drawn"
    for overrides in ranges:
        assert "parts" not in compose_experiment(overrides).identity["data"]


FOUR = records(4, 0)


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (None, None, r"data\.path=\S+: holds no data_batch_1\.bin"),
        (FOUR, None, r"holds no test_batch\.bin"),
        (FOUR[:, :-1], FOUR, "12,288 bytes are not a whole number of records"),
        (FOUR[:0], FOUR, "0 bytes are not a whole"),
        (FOUR | 128, FOUR, "has the label 1[23]"),
        (FOUR, FOUR, r"data\.valid_size=5000: only 4 training images"),
    ],
)
def test_a_bad_folder_is_named(
    tmp_path: Path, train: Bytes | None, test: Bytes | None, message: str
) -> None:
    for name, content in (("data_batch_1", train), ("test_batch", test)):
        if content is not None:
            (tmp_path / f"{name}.bin").write_bytes(content.tobytes())
    with pytest.raises(ValueError, match=message):
        load_images(colored(f"data.path={tmp_path}"))
