"""The trivial baselines of each kind of task, and runs that have learned nothing."""

import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.records import baselines as recorded
from adanorm.tasks.bleu import bleu
from adanorm.tasks.char_lm import CharLm, bits_per_byte
from adanorm.tasks.classification import naive_bayes
from adanorm.tasks.parsing import Parsing
from adanorm.tasks.regression import Regression
from adanorm.tasks.translation import Translation
from tests.data.sections import write_splits
from tests.tasks.test_training_data import task_of


def smoke(task: str, *overrides: str) -> Experiment:
    return compose_experiment([f"task={task}", "scale=smoke", "norm=none", *overrides])


def test_the_majority_class_is_that_of_training_where_the_test_has_another(tmp_path: Path) -> None:
    lines = {
        "train": "x\ta\n" * 5 + "y\tb\n" * 3,
        "valid": "x\ta\ny\tb\n",
        "test": "x\ta\n" + "y\tb\n" * 3,
    }
    task = task_of("task=rt", *write_splits(tmp_path, lines))
    assert task.baselines("test") == {"majority class": {"accuracy": 25.0}}


def test_the_unigram_smooths_frequencies_and_n_grams_go_on_from_the_part_before() -> None:
    task = CharLm(smoke("enwik8"))
    train, valid, test = (part.numpy().astype(np.int64) for part in task.corpus.splits.values())
    unigram, grams = task.baselines("test").values()
    assert unigram["bpc"] == pytest.approx(
        by_counting(
            train.tolist(),
            test.tolist(),
            context=0,
            before=[],
        )
    )
    assert grams["bpc"] < unigram["bpc"]
    after_valid, after_train = (
        bits_per_byte(
            train,
            test,
            context=4,
            before=b,
        )
        for b in (valid, train)
    )
    assert (
        grams["bpc"]
        == pytest.approx(after_valid, rel=1e-12)
        != pytest.approx(after_train, rel=1e-9)
    )
    assert grams["loss"] == pytest.approx(grams["bpc"] * math.log(2))


def by_counting(train: list[int], text: list[int], context: int, before: list[int]) -> float:
    """Return bits per byte by Witten-Bell's interpolation, one byte at a time."""
    grams = Counter(
        tuple(train[i : i + n + 1]) for n in range(context + 1) for i in range(len(train) - n)
    )

    def probability(byte: int, history: tuple[int, ...]) -> float:
        lower = probability(byte, history[1:]) if history else 1 / 256
        following = [count for gram, count in grams.items() if gram[:-1] == history]
        if not following:
            return lower
        return (grams[(*history, byte)] + len(following) * lower) / (
            sum(following) + len(following)
        )

    whole = before + text
    span = range(len(before), len(whole))
    return -sum(
        math.log2(probability(whole[i], tuple(whole[i - context : i]))) for i in span
    ) / len(text)


@pytest.mark.parametrize("context", [0, 1, 3])
def test_bits_per_byte_are_those_of_counting(context: int) -> None:
    draw = random.Random(context)
    train, text, other = ([draw.choice([0, 1, 97, 200]) for _ in range(n)] for n in (60, 40, 5))
    text += [
        7,
        0,
        97,
        255,
        0,
    ]  # bytes that training lacks, one above all of its own, and histories with them
    arrays = (np.array(part, dtype=np.int64) for part in (train, text))
    bits = bits_per_byte(*arrays, context=context, before=np.array(other, dtype=np.int64))
    assert bits == pytest.approx(
        by_counting(
            train,
            text,
            context,
            other,
        ),
        rel=1e-12,
    )


def test_the_baseline_attaches_every_word_to_its_neighbor() -> None:
    task = Parsing(smoke("ptb"))
    baselines = task.baselines("test")
    for name, step in (("left neighbor", -1), ("right neighbor", 1)):
        counted = right = 0
        for tree in task.trees["test"]:
            for word, (head, out) in enumerate(zip(tree.heads, tree.punctuation, strict=True), 1):
                guess = word + step if word + step <= len(tree) else 0
                counted += not out
                right += not out and head == guess
        assert baselines[name]["uas"] == pytest.approx(100 * right / counted)


@pytest.mark.needs("fairseq")
def test_the_source_is_scored_as_its_own_translation() -> None:
    task = Translation(smoke("de-en"))
    dictionary, sources = task.corpus.dictionaries[0], task.corpus.splits["test"].dataset.src
    copied = [dictionary.string(sources[i], bpe_symbol="@@ ") for i in range(len(sources))]
    score, _ = bleu(
        "bleu",
        copied,
        task.corpus.references("test", "words"),
        lowercase=False,
    )
    assert task.baselines("test")["copied source"]["bleu"] == pytest.approx(score)


def test_the_mean_of_training_is_the_baseline_of_regression() -> None:
    task = Regression(smoke("gaussian"))
    errors = task.examples["test"].targets - task.examples["train"].targets.mean(0)
    expected = errors.double().square().mean().item()
    assert task.baselines("test")["mean"]["loss"] == pytest.approx(expected, rel=1e-6)


@pytest.fixture
def own_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A record of baselines that no other test sees."""
    monkeypatch.setattr(recorded, "PATH", tmp_path / "baselines.json")
    recorded._entries.cache_clear()
    yield tmp_path / "baselines.json"
    recorded._entries.cache_clear()


def test_a_run_no_better_than_the_best_baseline_has_not_learned(own_record: Path) -> None:
    run = smoke("enwik8")
    assert recorded.has_learned(run, 9.0), "nothing is known of these data"
    scores = {"unigram": {"bpc": 5.03}, "5-gram": {"bpc": 3.0}}
    recorded.add_baselines(run, {"test": scores, "valid": scores})
    assert recorded.best_baseline(run, "bpc") == ("5-gram", 3.0)
    assert [recorded.has_learned(run, score) for score in (2.9, 3.0, 4.8)] == [True, False, False]


def test_the_committed_baselines_cover_the_data_that_have_records() -> None:
    for chosen in ("rt paper", "mnist paper", "enwik8 mini", "ptb mini", "de-en mini"):
        task, scale = chosen.split()
        run = compose_experiment([f"task={task}", f"scale={scale}"])
        assert recorded.best_baseline(run, run.task.metric) is not None, (
            f"adanorm baselines {chosen}"
        )


def test_baselines_belong_to_one_data_set_and_spoiled_ones_are_refused(own_record: Path) -> None:
    """They say which runs learned: believed, they would change a verdict."""
    recorded.add_baselines(smoke("rt"), {"test": {"majority class": {"accuracy": 50.0}}})
    assert (
        recorded.best_baseline(smoke("rt", "data.batch_tokens=99", "norm=adanorm"), "accuracy")
        is not None
    )
    for other in (smoke("rt", "data.train_fraction=0.5"), smoke("mnist")):
        assert recorded.best_baseline(other, "accuracy") is None
    text = own_record.read_text()
    for spoiled in (text.replace("50.0", "60.0", 1), text[:50], "[1]", "1"):
        own_record.write_text(spoiled)
        recorded._entries.cache_clear()
        with pytest.raises(ValueError, match=r"baselines.json: it has been changed; restore it"):
            recorded.best_baseline(smoke("rt"), "accuracy")


def test_an_outside_model_stands_beside_the_baselines_and_makes_no_run_unlearned() -> None:
    run = compose_experiment(["task=rt", "scale=paper", "norm=layernorm"])
    anchor, trivial = (
        best(run, "accuracy") for best in (recorded.best_anchor, recorded.best_baseline)
    )
    assert anchor is not None
    assert trivial is not None
    assert anchor.name == "naive Bayes"
    assert anchor.score > 77 > trivial.score
    assert recorded.has_learned(run, 60.0)


def test_naive_bayes_is_that_of_counts_written_out() -> None:
    train = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]])
    # Add-one: word shares of label 0 are (3, 2, 2) / 7, of label 1 (1, 2, 2) / 5.
    predicted = naive_bayes(train, np.array([0, 0, 1]), np.array([[1, 0, 0], [0, 1, 1]]))
    assert predicted.tolist() == [int(1 / 5 > 2 * 3 / 7), int(4 / 25 > 2 * 4 / 49)]
