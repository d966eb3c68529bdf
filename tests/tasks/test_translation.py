"""Translation against fairseq itself: loss, gradient, schedule, plug-in; and its own commands."""

import copy
import json
import math
from itertools import chain, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import NUMERICS
from adanorm.data.translation.fairseq_library import fairseq
from adanorm.records.by_example import by_example
from adanorm.tasks.bleu import bleu
from adanorm.tasks.translation import Translation, label_smoothed_loss
from tests.conftest import Command
from tests.defined import norms_of
from tests.fairseq_side import FairseqSide
from tests.networks import smoke_run


def built(*overrides: str) -> tuple[Translation, Any]:
    """Return the smoke task and a model of random weights, in evaluation mode."""
    task, model = smoke_run(Translation, "task=de-en", *overrides)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape) * 0.3 + (weight.dim() == 1))
    return task, model


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_the_label_smoothed_loss_is_its_formula(smoothing: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = (
        5
        * torch.randn(
            7,
            11,
            generator=generator,
            dtype=torch.float64,
        )
    ).requires_grad_()
    target = torch.randint(11, (7,), generator=generator)
    distribution = torch.full((7, 11), smoothing / 10, dtype=torch.float64)
    distribution[torch.arange(7), target] = 1 - smoothing
    expected = -(distribution * logits.log_softmax(1)).sum()
    (expected_gradient,) = torch.autograd.grad(3 * expected, logits)
    ours = label_smoothed_loss(logits, target, smoothing=smoothing)
    (gradient,) = torch.autograd.grad(3 * ours, logits)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.needs("fairseq")
@pytest.mark.parametrize(
    ("preset", "norm"), [*product(["none"], norms_of("de-en")), *product(["released"], NUMERICS)]
)
def test_loss_and_gradient_are_those_of_fairseq_through_the_plug_in(norm: str, preset: str) -> None:
    """fairseq's own criterion on a model that its own registry built, with the same weights."""
    from adanorm.models.fairseq_plugin import AdaNormTransformer

    # At this width 6.25 % are one feature: a division by it, near zero in some rows, is all
    # rounding.
    wider = ["norm.params.p=0.5"] if norm == "partial-rmsnorm" else []
    settings = "task=de-en", f"norm={norm}", f"preset={preset}", *wider
    task, model = smoke_run(Translation, *settings)
    ours, chosen = model.train(), compose_experiment(["scale=smoke", *settings]).norm
    arguments = copy.copy(ours.args)
    arguments.norm, arguments.norm_params = chosen.name, json.dumps(chosen.params)
    arguments.norm_placement, arguments.norm_numerics = chosen.placement, chosen.numerics
    arguments.norm_init = "fairseq"
    source, target = task.corpus.dictionaries
    plugged = AdaNormTransformer.build_model(
        arguments, SimpleNamespace(source_dictionary=source, target_dictionary=target)
    )
    plugged.load_state_dict(ours.state_dict())
    criterion = (
        fairseq().criterions.label_smoothed_cross_entropy.LabelSmoothedCrossEntropyCriterion(
            SimpleNamespace(target_dictionary=target), sentence_avg=False, label_smoothing=0.1
        )
    )
    train = task.corpus.splits["train"]
    indices = train.order(256, None)[3]
    sample: Any = train.dataset.collater([train.dataset[int(i)] for i in indices])
    theirs, units, _ = criterion(plugged, sample)
    theirs.backward()
    loss = task.loss(ours, train.batch(indices))
    loss.total.backward()  # type: ignore[no-untyped-call]
    assert loss.units == units
    torch.testing.assert_close(
        loss.total,
        theirs,
        rtol=1e-6,
        atol=0,
    )
    for (name, weight), other in zip(ours.named_parameters(), plugged.parameters(), strict=True):
        tolerance = 1e-5 * max(other.grad.abs().max().item(), 1)
        torch.testing.assert_close(
            weight.grad,
            other.grad,
            rtol=0,
            atol=tolerance,
            msg=name,
        )


@pytest.mark.needs("fairseq")
def test_validation_has_the_smoothed_loss_the_plain_loss_and_its_perplexity() -> None:
    task, model = built("training.label_smoothing=0.2")
    smoothed, plain, units = 0.0, 0.0, 0
    pairs = task.corpus.splits["valid"]
    for index in range(len(pairs)):
        batch = pairs.batch(np.array([index]))
        with torch.no_grad():
            logits = model(
                batch.source,
                batch.previous,
                batch.counted,
                has_padding=False,
            )
        log_p = logits.double().log_softmax(1)
        at_target = log_p.gather(1, batch.target[:, None]).sum().item()
        plain -= at_target
        smoothed -= 0.8 * at_target + 0.2 / (log_p.shape[1] - 1) * (log_p.sum().item() - at_target)
        units += batch.units
    expected = {
        "loss": smoothed / units,
        "nll": plain / units,
        "perplexity": math.exp(plain / units),
    }
    assert task.evaluate(model, "valid").metrics == pytest.approx(expected, rel=1e-5)


@pytest.mark.needs("fairseq")
def test_a_run_is_made_translated_and_compared_by_commands(
    tmp_path: Path, command: Command
) -> None:
    base = ["task=en-de", "scale=smoke", f"runs={tmp_path}", f"data.cache={tmp_path / 'cache'}"]
    base += ["training.max_epochs=12", "training.average={of: best, count: 2}"]
    for norm in ("layernorm", "adanorm"):
        done = command("run", *base, f"norm={norm}")
        assert done.returncode == 0, done.stderr
        assert "compound_bleu" in next(tmp_path.glob(f"en-de/{norm}/*/record.jsonl")).read_text()
        assert not list(tmp_path.glob("en-de/*/*/kept-*.pt"))
    odd = [" ".join(f"word{n % 9}" for n in range(500)), "x" * 1000, "  "]
    (tmp_path / "in.txt").write_text("\n".join(["word1 word2 word3", "", "word4 word5", *odd]))
    files = (f"input={tmp_path / 'in.txt'}", f"output={tmp_path / 'out.txt'}")
    done = command("predict", *base, "norm=adanorm", *files)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert [bool(line) for line in lines] == [True, False, True, True, True, False]
    done = command("compare", *base, "norm=layernorm,adanorm")
    assert done.returncode == 0, done.stderr
    assert "en-de smoke, test BLEU\n  adanorm over layernorm, seed 1, 32 examples\n" in done.stdout


@pytest.mark.needs("fairseq")
@pytest.mark.parametrize(
    ("beam", "length_penalty", "max_extra"),
    [(2, 1.0, 5), (1, 1.0, 5), (5, 0.0, 3), (4, 3.0, 30), (70, 1.0, 9)],
)
def test_translations_are_those_of_fairseqs_own_model_and_generator(
    beam: int, length_penalty: float, max_extra: int
) -> None:
    """Beams share their source, sentences end at different steps, and beams change places."""
    settings = {"beam": beam, "length_penalty": length_penalty, "max_extra": max_extra}
    overrides = [f"decoding.{key}={value}" for key, value in settings.items()]
    experiment = compose_experiment(["task=de-en", "scale=smoke", "norm=layernorm", *overrides])
    task, model = built(*overrides)
    if length_penalty != 1:  # ends are likely, so that the penalty chooses between hypotheses
        with torch.no_grad():
            model.decoder.output_projection.weight.mul_(0.3)[
                task.corpus.dictionaries[1].eos()
            ] *= -3
    other = FairseqSide(experiment, task, model.state_dict())
    pairs = task.corpus.splits["test"]
    chosen = pairs.dataset.ordered_indices()
    theirs = other.generate(pairs.dataset, chosen, experiment)
    ours = task.translate(model, pairs.sources(chosen))
    assert beam > 2 or len({translation.count(" ") for translation in ours}) > 1
    assert dict(zip(chosen.tolist(), ours, strict=True)) == theirs
    plain = task.translate(model, pairs.sources(chosen), length_penalty=1.0)
    assert (ours == plain) == (length_penalty == 1)


@pytest.mark.needs("fairseq")
@pytest.mark.parametrize("max_ratio", [0.0, 1.0, 2.0])
def test_a_line_has_the_translation_that_it_has_alone(max_ratio: float) -> None:
    """Random weights seldom end a translation, so its length says which limit it had."""
    task, model = built(f"decoding.max_ratio={max_ratio}", "decoding.max_extra=3")
    lines = [" ".join(f"word{n}" for n in range(count)) for count in (3, 8, 1, 3, 0, 15)]
    together = task.predict(model, lines)
    assert together == [*chain.from_iterable(task.predict(model, [line]) for line in lines)]
    for line, translation in zip(lines[:4], together, strict=False):
        limit = max_ratio * len(task.encode(line)) + 3
        assert len(translation.split()) <= limit
    assert (len(together[0].split()) < len(together[1].split())) == (max_ratio > 0)


@pytest.mark.needs("fairseq")
def test_translations_are_scored_in_the_order_of_their_sources_however_they_are_batched() -> None:
    # A fixed limit, whatever else is in a batch: a ratio would follow the longest source of the
    # batch.
    settings = {"batch_tokens": 30, "beam": 1, "max_ratio": 0, "max_extra": 12}
    task, model = built(*(f"decoding.{key}={value}" for key, value in settings.items()))
    pairs = task.corpus.splits["test"]
    expected = task.translate(model, pairs.sources(np.arange(len(pairs))))
    evaluation = task.evaluate(model, "test")
    assert evaluation.outputs == expected
    assert len({*expected}) > 2
    score, _ = bleu(
        "bleu",
        expected,
        task.corpus.references("test", "words"),
        lowercase=False,
    )
    assert evaluation.metrics["bleu"] == pytest.approx(score)


@pytest.mark.needs("fairseq")
@pytest.mark.parametrize("kind", ["bleu", "sacrebleu"])
def test_the_score_of_a_pair_is_the_jackknife_of_the_chosen_kind_of_bleu(kind: str) -> None:
    task = Translation(compose_experiment(["task=de-en", "scale=smoke"]))
    outputs = [
        f"{line}." for line in task.corpus.references("test", "words")
    ]  # the point is its own word
    words, text = task.corpus.beside_references("test", outputs)
    (ours, references), other = (text, words) if kind == "sacrebleu" else (words, text)
    whole, _ = bleu(
        kind,
        ours,
        references,
        lowercase=False,
    )
    without, _ = bleu(
        kind,
        ours[1:],
        references[1:],
        lowercase=False,
    )
    pseudo = by_example(kind, np.array(task.counted(outputs)[kind]))
    assert pseudo[0] == pytest.approx(len(ours) * whole - (len(ours) - 1) * without)
    (other_kind,) = {"bleu", "sacrebleu"} - {kind}
    assert whole != pytest.approx(bleu(other_kind, *other, lowercase=False)[0], rel=0.01)
