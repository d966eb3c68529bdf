"""The target of a domain shift against a model called by hand."""

import copy

import pytest
import torch
from torch.nn import functional as F

from adanorm.analyses.observers.domain_shift import distance, observe
from tests.analyses.conftest import Records, first_step


def test_losses_and_errors_are_those_of_the_model_on_shifted_images(record: Records) -> None:
    step = first_step(record("domain-shift", "task=mnist", "norm=batchnorm"))
    values = observe(step, contrast=0.5, brightness=2.0, examples=16)
    model = copy.deepcopy(step.model).eval()
    valid = step.task.splits["valid"]  # type: ignore[attr-defined]
    batch = valid.batch(next(iter(valid.order(None)))[:16])
    for name, inputs in (("source", batch.inputs), ("target", 0.5 * batch.inputs + 2)):
        logits = model(inputs)
        loss = F.cross_entropy(logits, batch.targets).item()
        errors = (logits.argmax(-1) != batch.targets).sum().item()
        assert values[""][f"{name}_loss"] == pytest.approx(loss, rel=1e-5)
        assert values[""][f"{name}_error"] == pytest.approx(errors / len(batch.targets))
    assert step.model.training


@pytest.mark.parametrize("norm", ["none", "batchnorm", "adanorm"])
def test_outputs_move_with_the_inputs_and_stay_without_a_shift(norm: str, record: Records) -> None:
    moved = []
    for contrast in (1.0, 0.2):
        step = first_step(record("domain-shift", "task=mnist", f"norm={norm}"))
        values = observe(step, contrast=contrast, brightness=0.0, examples=16)
        moved.append([values[site]["distance"] for site in step.sites])
    assert max(moved[0]) < 1e-6
    assert min(moved[1]) > 0.01


def test_a_distance_is_in_deviations_of_the_source_and_leaves_out_constant_features() -> None:
    source = torch.tensor([[0.0, 5.0], [2.0, 5.0]])
    assert distance(source, source + 3) == pytest.approx(3.0)


def test_a_task_without_images_is_refused(record: Records) -> None:
    step = first_step(record("domain-shift", "task=rt", "norm=none"))
    with pytest.raises(ValueError, match=r"^domain-shift: this task has no labelled images$"):
        observe(step, contrast=0.5, brightness=0.5, examples=8)
