"""What training sees: the whole training part and nothing else, in an order of each epoch and seed."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import SPLITS
from adanorm.tasks import build
from tests.data.sections import write_splits
from tests.networks import placed


def task_of(*overrides: str) -> Any:
    return build(compose_experiment(["scale=smoke", *overrides]))


def order(task: Any, epoch: int) -> list[list[int]]:
    return [indices.tolist() for indices in task.train_batches(epoch).order]


def batches(epoch: list[list[int]]) -> set[frozenset[int]]:
    return {frozenset(batch) for batch in epoch}


@pytest.mark.parametrize("name", ["rt", "mnist", "gaussian", "ptb", "de-en"])
def test_every_epoch_has_an_order_of_its_own_that_the_seed_draws(name: str, tmp_path: Path) -> None:
    settings = (f"task={name}", f"data.cache={tmp_path}")
    task = task_of(*settings, "seed=1")
    first, second = order(task, 0), order(task, 1)
    everything = sorted(itertools.chain(*first))
    assert everything == sorted(itertools.chain(*second)) == list(range(len(everything)))
    again = task_of(*settings, "seed=1")
    assert order(again, 0) == first, "the same seed and epoch"
    assert batches(second) != batches(first), "another epoch mixes other batches"
    another_seed = task_of(*settings, "seed=2")
    assert batches(order(another_seed, 0)) != batches(first)
    if name in ("rt", "de-en"):  # whose batches are of sentences of about one length
        if name == "rt":
            sentences = task.splits["train"].sentences
        else:
            sentences = task.corpus.splits["train"].dataset.src
        lengths = []
        for batch in first:
            lengths.append(max(len(sentences[index]) for index in batch))
        assert lengths != sorted(lengths), "nor do they come by length"
    distances = [np.mean(np.abs(np.diff(batch))) for batch in first if len(batch) > 1]
    assert np.mean(distances) > 1.5, "shuffled"


def test_words_tags_and_labels_of_a_parser_are_those_of_training(tmp_path: Path) -> None:
    def treebank(split: str) -> str:
        rows = ["1\tgo\t_\tX\tX\t_\t0\troot\t_\t_", f"2\t{split}\t_\tX\tX\t_\t1\tdep\t_\t_"]
        return ("\n".join(rows) + "\n\n") * 3

    files = write_splits(tmp_path, {split: treebank(split) for split in SPLITS})
    vocabulary = task_of("task=ptb", "data.min_count=1", *files).vocabulary
    assert "train" in vocabulary.words
    assert not {"valid", "test"} & {*vocabulary.words}


def test_the_vocabulary_has_the_words_of_the_chosen_share_of_training_alone(tmp_path: Path) -> None:
    lines = {}
    for split in SPLITS:
        lines[split] = "".join(f"{n % 2}\tsame {split}{n}\n" for n in range(8))
    files = write_splits(tmp_path, lines)
    whole = task_of("task=rt", "data.train_fraction=1", *files)
    half = task_of("task=rt", "data.train_fraction=0.5", *files)
    assert (whole.sizes["train"], half.sizes["train"]) == (8, 4)
    assert half.sizes["valid"] == whole.sizes["valid"] == 8, "validation and test stay whole"
    assert {*whole.splits.vocabulary} >= {"same", *(f"train{n}" for n in range(8))}
    assert not any(word.startswith(("valid", "test")) for word in whole.splits.vocabulary)
    chosen = {f"train{n}" for n in range(8)} & {*half.splits.vocabulary}
    assert len(chosen) == 4, "the words of the drawn half alone"


@pytest.mark.needs("fairseq")
def test_subwords_and_dictionaries_are_learned_from_training_alone(tmp_path: Path) -> None:
    words = {"train": "abab", "valid": "cdcd", "test": "efef"}
    for language in ("de", "en"):
        texts = {split: f"{word} {word}\n" * 20 for split, word in words.items()}
        write_splits(tmp_path, texts, f".{language}")
    files = [f"data.{split}={tmp_path / split}" for split in SPLITS]
    task = task_of("task=de-en", f"data.cache={tmp_path / 'cache'}", *files)
    merged = task.corpus.subwords.codes.replace("</w>", "").splitlines()[1:]
    assert {*"".join(merged)} == {*"ab "}
    symbols = {*task.corpus.dictionaries[0].symbols}
    assert any(symbol.startswith("a") for symbol in symbols)
    assert not any(symbol.startswith(("c", "d", "e", "f")) for symbol in symbols)
    assert {*task.corpus.references("test", "words")} == {"efef efef"}
    assert {*task.corpus.references("valid", "text")} == {"cdcd cdcd"}


@pytest.mark.parametrize("name", ["rt", "mnist"])
def test_wrong_labels_are_a_share_of_training_alone_that_the_seed_draws(name: str) -> None:
    clean = task_of(f"task={name}")
    task = task_of(f"task={name}", "data.label_noise=0.4")
    truth = clean.splits["train"].targets
    labels = task.splits["train"].targets
    wrong = labels != truth
    assert int(wrong.sum()) == round(0.4 * len(truth)), "each of them is another class"
    again = task_of(f"task={name}", "data.label_noise=0.4")
    assert labels.equal(again.splits["train"].targets)
    another_seed = task_of(f"task={name}", "data.label_noise=0.4", "seed=2")
    assert not labels.equal(another_seed.splits["train"].targets)
    fewer = task_of(f"task={name}", "data.label_noise=0.1")
    is_fewer = fewer.splits["train"].targets != truth
    assert (wrong & is_fewer).equal(is_fewer), "a smaller share is within the larger one"
    for split in ("valid", "test"):
        assert task.splits[split].targets.equal(clean.splits[split].targets)
    assert order(task, 0) == order(clean, 0)

    torch.manual_seed(0)
    model = task.build_model(placed()).eval()
    batch = task.splits["train"].batch(np.flatnonzero(wrong.numpy()))
    predicted = model(batch.inputs).argmax(1)
    expected = {
        "memorized": 100 * (predicted == labels[wrong]).double().mean().item(),
        "recovered": 100 * (predicted == truth[wrong]).double().mean().item(),
    }
    clean_scores = {split: clean.evaluate(model, split).metrics for split in ("valid", "test")}
    assert task.evaluate(model, "valid").metrics == clean_scores["valid"]
    assert task.evaluate(model, "test").metrics == pytest.approx(clean_scores["test"] | expected)


def test_too_small_a_share_of_wrong_labels_and_a_task_without_labels_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"label_noise=0.001: rounds to none of 160 training examples"
    ):
        task_of("task=rt", "data.label_noise=0.001")
    with pytest.raises(
        ValueError, match=r"'data.label_noise': .*; it is a key of task=cifar10, .*sst5$"
    ):
        task_of("task=ptb", "data.label_noise=0.2")
    clean = compose_experiment(["task=rt", "data.label_noise=0"])
    assert clean.digest == compose_experiment(["task=rt"]).digest
