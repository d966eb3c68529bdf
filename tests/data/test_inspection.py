"""What the data alone say about a score, for every kind of data."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adanorm import tasks
from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import SPLITS, ByteTextConfig, ParallelConfig, TreebankConfig
from adanorm.data.byte_streams import load_streams
from adanorm.data.examples import Splits
from adanorm.data.images import load_images
from adanorm.data.inspection import Inspection, count_overlaps
from adanorm.data.sentences import load_sentences
from adanorm.data.translation.pairs import load_pairs
from adanorm.data.treebanks.conll import inspect_trees, load_treebank
from adanorm.runs.execute import _inspected
from tests.data import sections
from tests.data.sections import section_of
from tests.data.test_readers import images_of, text_of, write_corpus, write_images
from tests.data.translation.test_pairs import data_of, write_pairs


@given(
    st.tuples(*(st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=6) for _ in SPLITS))
)
def test_overlaps_and_copies_are_those_of_counting_by_hand(
    parts: Sequence[Sequence[bytes]],
) -> None:
    train, valid, test = parts
    counts = count_overlaps(dict(zip(SPLITS, parts, strict=True)))
    assert counts["overlap"] == {
        "valid in train": sum(example in train for example in valid),
        "test in train": sum(example in train for example in test),
        "test in valid": sum(example in valid for example in test),
    }
    copies = {split: len(part) - len(set(part)) for split, part in zip(SPLITS, parts, strict=True)}
    assert counts["copies"] == copies


GOOD = [f"{'pos' if number % 2 else 'neg'}\tfilm number {number}" for number in range(40)]


def sentences(folder: Path, *splits: list[str]) -> Inspection:
    texts = {
        split: "".join(f"{line}\n" for line in part)
        for split, part in zip(SPLITS, splits, strict=True)
    }
    return load_sentences(
        text_of(*write_corpus(folder, **texts), "data.batch_tokens=60")
    ).inspection


def test_own_sentences_in_two_splits_are_reported_in_one_line(tmp_path: Path) -> None:
    assert (
        sentences(
            tmp_path,
            GOOD[:20],
            GOOD[20:30],
            GOOD[30:],
        ).warnings
        == ()
    )
    leak = sentences(
        tmp_path,
        GOOD[:20],
        GOOD[18:30],
        GOOD[:10],
    )
    assert leak.counts["overlap"] == {"valid in train": 2, "test in train": 10, "test in valid": 0}
    assert leak.warnings == (
        "examples in two splits: 2 of 12 of valid are also in train, 10 of 10 of test are also in train;"
        " a score on them measures memory",
    )


def test_copies_a_single_label_and_a_single_batch_are_reported(tmp_path: Path) -> None:
    inspection = sentences(
        tmp_path,
        GOOD[:2] * 8,
        GOOD[20:30],
        GOOD[31:40:2],
    )
    assert inspection.warnings == (
        "copies of other examples: 14 of 16 in train",
        "test: every example has the label 'pos', so that one answer to all would score 100 %",
        "data.batch_tokens=60: an epoch is one batch of 48, all of train",
    )
    assert inspection.counts["copies"] == {"train": 14, "valid": 0, "test": 0}


@pytest.mark.parametrize("label", ["neg\u200b", "Neg", "n\uff45g"])
def test_labels_that_look_alike_are_reported(tmp_path: Path, label: str) -> None:
    train = [*GOOD[:20], f"{label}\tanother film", f"{label}\tone more film"]
    alike = ", ".join(map(ascii, sorted(["neg", label])))
    assert sentences(
        tmp_path,
        train,
        GOOD[20:30],
        GOOD[30:],
    ).warnings == (f"labels that look alike: {alike}; each is a class of its own",)


def test_a_header_read_as_a_class_is_reported(tmp_path: Path) -> None:
    header = ["label\tsentence"]
    for valid, named in ((GOOD[20:30], "train"), (header + GOOD[20:30], "train, valid")):
        (warning,) = sentences(
            tmp_path,
            header + GOOD[:20],
            valid,
            GOOD[30:],
        ).warnings[-1:]
        assert warning.startswith(
            f"the label 'label' stands in the first line alone ({named}), and is a"
        )


def own_images(folder: Path, train: list[int], test: list[int]) -> Splits:
    write_images(folder, train, test)
    return load_images(images_of(f"data.path={folder}", "data.valid_size=4", "data.batch_size=4"))


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([1] * 12, [1] * 4, "the training images have one label, 1: nothing to learn"),
        ([0, 1] * 6, [200] * 4, "test: label 200 is not among those of the training images"),
    ],
)
def test_images_with_one_label_or_labels_unseen_in_training_are_refused(
    tmp_path: Path, train: list[int], test: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        own_images(tmp_path, train, test)


def test_labels_of_images_need_not_be_a_range(tmp_path: Path) -> None:
    splits = own_images(tmp_path, [3, 255] * 6, [255, 3, 3])
    assert splits.labels == ("3", "255")
    assert splits["test"].targets.tolist() == [1, 0, 0]


def own_text(folder: Path, lines: list[str]) -> Inspection:
    (folder / "text").write_text("".join(f"{line}\n" for line in lines))
    data = section_of(ByteTextConfig, "task=enwik8", "scale=smoke", f"data.path={folder / 'text'}")
    return load_streams(data).inspection


def test_repeated_lines_and_parts_of_a_text_are_reported(tmp_path: Path) -> None:
    lines = [f"{number:05} is a line of some forty bytes, not less" for number in range(100)]
    inspection = own_text(tmp_path, lines)
    assert inspection.warnings == ()
    assert sum(inspection.counts["lines"].values()) in (98, 99, 100), "a line may be cut in two"
    inspection = own_text(tmp_path, [*lines[:90], *lines[:10]])
    assert inspection.counts["overlap"]["test in train"] in (4, 5)
    assert inspection.warnings[0] == "valid: the whole of it also stands in the training part"
    assert "of test are also in train" in inspection.warnings[-1]


def own_pairs(folder: Path, texts: dict[str, list[str]], *overrides: str) -> ParallelConfig:
    names = [f"{split}_{language}" for split in SPLITS for language in ("de", "en")]
    lines = {name: "".join(f"{name[-2:]}{line}\n" for line in texts[name[:-3]]) for name in names}
    return data_of(*write_pairs(folder, **lines), *overrides)


@pytest.mark.needs("fairseq")
def test_pairs_in_two_splits_are_reported_and_counted_alike_in_a_data_bin(tmp_path: Path) -> None:
    lines = [f"{a} {b}" for a in "abcdefgh" for b in "abcdefgh"]
    texts = {
        "train": lines[:40],
        "valid": [*lines[40:50], lines[0]],
        "test": [*lines[50:], *lines[:5]],
    }
    data = own_pairs(tmp_path, texts, "data.batch_tokens=30")
    corpus = load_pairs(data)
    overlap = {"valid in train": 1, "test in train": 5, "test in valid": 1}
    assert corpus.inspection.counts["overlap"] == overlap
    assert corpus.inspection.counts["too_long"] == {"train": 0}
    assert corpus.inspection.warnings[1:] == (
        "test: 14 of 52 target subwords (26.9%) are unknown to the dictionary: no translation matches them",
    )
    none = dict.fromkeys(SPLITS)
    as_data_bin = data.model_copy(update={"path": str(corpus.folder), **none})
    assert load_pairs(as_data_bin).inspection == corpus.inspection


@pytest.mark.needs("fairseq")
def test_pairs_too_long_for_a_batch_are_reported_and_refused_if_none_is_left(
    tmp_path: Path,
) -> None:
    texts = {split: ["x y z", "u v w x y", "a b c"] for split in SPLITS}
    data = own_pairs(tmp_path, texts, "data.bpe_merges=null", "data.batch_tokens=4")
    inspection = load_pairs(data).inspection
    assert inspection.counts["too_long"] == {"train": 1}
    assert (
        "1 of 3 training pairs are longer than a batch and are not trained on"
        in inspection.warnings[-1]
    )
    with pytest.raises(
        ValueError, match=r"data\.batch_tokens=3: no training pair fits into a batch.* has 4"
    ):
        load_pairs(data.model_copy(update={"batch_tokens": 3}))


def treebank(folder: Path, labels: dict[str, str], *, root: str = "root") -> Inspection:
    at_root = {"train": "root", "valid": root, "test": "root"}
    texts = {
        split: "".join(
            f"1\t{split}{n}\t_\tX\tX\t_\t0\t{at_root[split]}\t_\t_\n2\tw\t_\tX\tX\t_\t1\t{label}\t_\t_\n\n"
            for n in range(3)
        )
        for split, label in labels.items()
    }
    data = section_of(TreebankConfig, "task=ptb", *sections.write_splits(folder, texts))
    return inspect_trees(load_treebank(data)[0])


def test_arcs_with_labels_unseen_in_training_are_reported(tmp_path: Path) -> None:
    assert treebank(tmp_path, dict.fromkeys(SPLITS, "obj")).warnings == ()
    inspection = treebank(tmp_path, {"train": "obj", "valid": "obj", "test": "nsubj"})
    assert inspection.counts["unknown_labels"] == {"test": 3}
    assert inspection.warnings == (
        "test: 3 of 6 arcs have a label that training lacks, such as 'nsubj': a parser cannot give it",
    )
    with pytest.raises(
        ValueError, match="valid: label 'other' and all others are not training labels"
    ):
        treebank(tmp_path, {"train": "obj", "valid": "other", "test": "obj"}, root="other")


def test_the_papers_data_overlap_as_their_corpora_do(mirror: Path) -> None:
    rt = load_sentences(text_of(f"data.mirror={mirror}")).inspection
    assert set(rt.counts["overlap"].values()) == {0}
    run = compose_experiment(["task=sst5", f"data.mirror={mirror}"])
    task = tasks.build(run)
    sst5 = task.inspection
    others = {}  # another group's copy
    for split in ("train", "dev", "test"):
        with gzip.open(mirror / "sst5" / f"stsa.fine.{split}.gz", "rt") as file:
            others[split] = [line.split(" ", 1)[1].strip() for line in file]
    for split, name in (("test", "test"), ("valid", "dev")):
        shared = sum(line in set(others["train"]) for line in others[name])
        assert sst5.counts["overlap"][f"{split} in train"] == shared == 2
    data = section_of(TreebankConfig, "task=ptb", "scale=mini", f"data.mirror={mirror}")
    assert inspect_trees(load_treebank(data)[0]).counts["overlap"]["test in train"] == 3
    assert sst5.warnings
    assert _inspected(run, task, 1000).warnings == (), "they are as published"
