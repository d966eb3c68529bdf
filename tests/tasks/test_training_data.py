"""What training sees: the training part alone, all of it, in an order of each epoch and seed."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adanorm.config.compose import compose_experiment
from adanorm.tasks import build

SPLITS = ("train", "valid", "test")


def task_of(*overrides: str) -> Any:
    return build(compose_experiment(["scale=smoke", *overrides]))


def order(task: Any, epoch: int) -> list[list[int]]:
    return [indices.tolist() for indices in task.train_batches(epoch).order]


@pytest.mark.parametrize("name", ["rt", "mnist", "gaussian", "ptb", "de-en"])
def test_every_epoch_has_an_order_of_its_own_that_the_seed_draws(name: str, tmp_path: Path) -> None:
    settings = (f"task={name}", f"data.cache={tmp_path}")
    task, again, other = (task_of(*settings, f"seed={seed}") for seed in (1, 1, 2))
    first, second = order(task, 0), order(task, 1)
    everything = sorted(itertools.chain(*first))
    assert everything == sorted(itertools.chain(*second)) == list(range(len(everything)))
    assert order(again, 0) == first, "the same seed and epoch"
    batches = [{frozenset(batch) for batch in found} for found in (first, second, order(other, 0))]
    assert batches[0] != batches[1], "another epoch mixes other batches"
    assert batches[0] != batches[2], "another seed"
    if name in ("rt", "de-en"):  # whose batches are of sentences of about one length
        sentences = (
            task.splits["train"].sentences if name == "rt" else task.corpus.splits["train"].dataset.src
        )
        lengths = [max(len(sentences[index]) for index in batch) for batch in first]
        assert lengths != sorted(lengths), "nor do they come by length"
    by_place = [np.mean(np.abs(np.diff(batch))) for batch in first if len(batch) > 1]
    assert np.mean(by_place) > 1.5, "shuffled"


def write(folder: Path, end: str, lines: dict[str, str]) -> list[str]:
    for split, text in lines.items():
        (folder / f"{split}{end}").write_text(text)
    return [f"data.{split}={folder / split}{end}" for split in SPLITS]


def test_words_tags_and_labels_of_a_parser_are_those_of_training(tmp_path: Path) -> None:
    def treebank(split: str) -> str:
        rows = ["1\tgo\t_\tX\tX\t_\t0\troot\t_\t_", f"2\t{split}\t_\tX\tX\t_\t1\tdep\t_\t_"]
        return ("\n".join(rows) + "\n\n") * 3

    files = write(tmp_path, ".conllu", {split: treebank(split) for split in SPLITS})
    vocabulary = task_of("task=ptb", "data.min_count=1", *files).vocabulary
    assert "train" in vocabulary.words
    assert not {"valid", "test"} & {*vocabulary.words}


def test_words_of_sentences_are_those_of_the_share_of_training_that_is_asked_for(tmp_path: Path) -> None:
    lines = {split: "".join(f"{n % 2}\tsame {split}{n}\n" for n in range(8)) for split in SPLITS}
    files = write(tmp_path, ".tsv", lines)
    whole, half = (task_of("task=rt", f"data.train_fraction={share}", *files) for share in (1, 0.5))
    assert (whole.sizes["train"], half.sizes["train"]) == (8, 4)
    assert half.sizes["valid"] == whole.sizes["valid"] == 8, "validation and test stay whole"
    assert {*whole.splits.vocabulary} >= {"same", *(f"train{n}" for n in range(8))}
    assert not any(word.startswith(("valid", "test")) for word in whole.splits.vocabulary)
    assert not {f"train{n}" for n in range(4, 8)} & {*half.splits.vocabulary}


@pytest.mark.needs("fairseq")
def test_subwords_and_dictionaries_are_learned_from_training_alone(tmp_path: Path) -> None:
    words = {"train": "abab", "valid": "cdcd", "test": "efef"}
    for language in ("de", "en"):
        write(tmp_path, f".{language}", {split: f"{word} {word}\n" * 20 for split, word in words.items()})
    files = [f"data.{split}={tmp_path / split}" for split in SPLITS]
    task = task_of("task=de-en", f"data.cache={tmp_path / 'cache'}", *files)
    merged = task.corpus.subwords.codes.replace("</w>", "").splitlines()[1:]
    assert {*"".join(merged)} == {*"ab "}
    symbols = {*task.corpus.dictionaries[0].symbols}
    assert any(symbol.startswith("a") for symbol in symbols)
    assert not any(symbol[0] in "cdef" for symbol in symbols if not symbol.startswith(("<", "madeup")))
    assert set(task.corpus.references("test", "words")) == {"efef efef"}, "of the test, not of validation"
    assert set(task.corpus.references("valid", "text")) == {"cdcd cdcd"}
