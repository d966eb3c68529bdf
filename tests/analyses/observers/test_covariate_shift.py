"""Internal covariate shift against gradients of functional calls at the weights the definition names."""

from itertools import chain

import pytest
import torch
from torch import Tensor, nn

from adanorm.analyses.observers.covariate_shift import calls, layers, observe
from tests.analyses.conftest import Records, count_passes, first_step, flat, functional_loss, grad

CASES = [  # overrides, and the modules with parameters in the order of the forward pass
    (("task=gaussian", "norm=none"), ["linears.0", "linears.1", "linears.2", "linears.3"]),
    (
        ("task=gaussian", "norm=layernorm", "model.layers=3"),
        ["linears.0", "norms.0", "linears.1", "norms.1", "linears.2"],
    ),
    (("task=mnist", "norm=layernorm"), ["convs.0", "norms.0", "convs.1", "norms.1", "output"]),
    (("task=mnist", "norm=adanorm", "training.clip_norm=1e-3"), ["convs.0", "convs.1", "output"]),
    (("task=mnist", "norm=batchnorm"), ["convs.0", "norms.0", "convs.1", "norms.1", "output"]),
    (("task=cifar10", "norm=layernorm"), ["convs.0", "norms.0", "convs.1", "norms.1", "output"]),
]


@pytest.mark.parametrize(("overrides", "order"), CASES)
def test_the_shift_is_that_of_its_written_out_definition(
    overrides: tuple[str, ...], order: list[str], record: Records
) -> None:
    step = first_step(record("covariate-shift", *overrides))
    model, loss = step.model, functional_loss(step)
    old = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    shifts = observe(step)
    new = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    assert any(not torch.equal(old[name], new[name]) for name in old)
    measured = [layer for layer in order[1:] if not layer.startswith("norms")]
    assert list(shifts) == measured
    for layer in measured:
        earlier = tuple(f"{name}." for name in order[: order.index(layer)])
        mixed = {name: (new if name.startswith(earlier) else old)[name] for name in old}
        G = flat(grad(loss)(old), f"{layer}.")
        G_after = flat(grad(loss)(mixed), f"{layer}.")
        shift, size = (G - G_after).norm().item(), G.norm().item()
        cosine = torch.cosine_similarity(G.double(), G_after.double(), dim=0).item()
        observed = shifts[layer]
        assert observed["shift"] == pytest.approx(shift, rel=1e-3)
        assert observed["relative"] == pytest.approx(shift / size, rel=1e-3)
        assert observed["cosine"] == pytest.approx(cosine, abs=1e-6)
        assert observed["shift"] > 1e-5


@pytest.mark.parametrize("task", ["rt", "enwik8", "de-en", "ptb"])
def test_without_a_step_nothing_shifts(task: str, record: Records) -> None:
    """Dropout and memory are the same in every pass; weights that hardly move give the same gradient."""
    dropout = {"de-en": ["model.dropout=0.3"], "rt": ["model.dropout=0.3"]}.get(task, [])
    entry = record(
        "covariate-shift", f"task={task}", "norm=layernorm", "training.lr=1e-12", *dropout
    )
    shifts = observe(first_step(entry))
    assert len(shifts) >= 1
    assert all(values["relative"] < 1e-3 for values in shifts.values()), shifts
    assert all(values["cosine"] > 0.99999 for values in shifts.values())


def test_a_layer_costs_one_forward_pass_and_the_gradient_of_its_own_weights(
    record: Records,
) -> None:
    step = first_step(record("covariate-shift", "task=gaussian", "norm=layernorm"))
    passes = count_passes(step.model)
    observe(step)
    assert passes["forward"] == [4] * 4  # the update, and a pass for each layer after the first
    assert passes["backward"] == [1, 2, 2, 2]  # the update, and one for the layer itself


class Backwards(nn.Module):
    """Modules defined in the reverse order of their calls; one lies in another, one is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 1)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.first = nn.Linear(2, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x) * self.scale
        return self.last(self.attention(x, x, x)[0])


def test_layers_come_in_the_order_of_their_calls() -> None:
    model = Backwards()
    with calls(model) as called:
        model(torch.randn(3, 5, 2))
    layer_parameters = layers(model, called)
    assert list(layer_parameters) == ["", "first", "attention", "last"]
    assert layer_parameters[""] == ["scale"]
    assert (
        "attention.out_proj.weight" in layer_parameters["attention"]
    )  # its own module is never called
    assert sorted(chain(*layer_parameters.values())) == sorted(dict(model.named_parameters()))
