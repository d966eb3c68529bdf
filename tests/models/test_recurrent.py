"""LSTM, GRU and RNN against torch's own, and the sites of their norms."""

from collections import Counter
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.models.norm_sites import PlacedNorms
from adanorm.models.recurrent import LAYERS
from adanorm.norms import AdaNorm, LayerNorm
from tests.defined import norms_of
from tests.networks import network

CELLS = list(LAYERS)
GATES = {cell: [*chain(*layer.GATES)] for cell, layer in LAYERS.items()}


def built(
    cell: str, norm: str = "layernorm", placement: Any = "all", **settings: Any
) -> tuple[Any, PlacedNorms]:
    model, sites = network(
        "recurrent",
        norm,
        placement,
        cell=cell,
        **settings,
    )
    return model.double(), sites


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(
        *shape,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(seed),
    )


TEXT = torch.randint(256, (3, 12), generator=torch.Generator().manual_seed(1))
TORCHS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def as_torchs(cell: str, layer: Any) -> Any:
    """Return torch's own layer with our weights; its second bias is ours where it matters, otherwise 0."""
    torchs = TORCHS[cell](layer.input_weight.shape[2], layer.dim).double()
    second = torch.zeros(layer.bias.numel())
    if cell == "gru":
        second[2 * layer.dim :] = layer.hidden_bias.detach()
    ours = (
        layer.input_weight.flatten(0, 1),
        layer.hidden_weight.flatten(0, 1),
        layer.bias.flatten(),
        second,
    )
    with torch.no_grad():
        for parameter, value in zip(torchs.parameters(), ours, strict=True):
            parameter.copy_(value)
    return torchs


@pytest.mark.parametrize("length", [1, 5, 12])
@pytest.mark.parametrize("cell", CELLS)
def test_the_network_equals_torchs_layers_in_one_segment_or_several(cell: str, length: int) -> None:
    model, _ = built(cell, "none")
    states = 2 * LAYERS[cell].STATES
    x = F.embedding(TEXT, model.embedding.weight).transpose(0, 1)
    for layer in model.layers:
        x, _ = as_torchs(cell, layer)(x)
    expected = (x @ model.embedding.weight.T + model.output_bias).transpose(0, 1)
    memory: list[Tensor] = []
    parts = []
    for segment in torch.split(TEXT, length, 1):
        logits, memory = model(segment, memory)
        parts.append(logits)
        assert len(memory) == states
        assert all(len(state) == 3 and not state.requires_grad for state in memory)
    torch.testing.assert_close(
        torch.cat(parts, 1),
        expected,
        rtol=0,
        atol=1e-10,
    )


@pytest.mark.parametrize("norm", ["layernorm", "layernorm-simple"])
@pytest.mark.parametrize("cell", CELLS)
def test_each_gates_summed_inputs_are_normalized_as_written(cell: str, norm: str) -> None:
    """The equations for one gate and one step at a time, with the gains that belong to the gate."""
    layer = built(
        cell,
        norm,
        layers=1,
        embedding_dim=5,
    )[0].layers[0]
    for seed, (name, parameter) in enumerate(layer.named_parameters()):
        if "norm" in name:  # so that no gate's norm can stand for another's
            parameter.data.copy_(1 + 0.3 * drawn(*parameter.shape, seed=seed))
    x, state = drawn(6, 3, 5), [drawn(3, 5, seed=1), drawn(3, 5, seed=2)]
    ours, _ = layer(x, tuple(state[: layer.STATES]))

    def normalized(gate: int, summed: Tensor) -> Tensor:
        return layer.get_submodule(f"{GATES[cell][gate]}_norm")(summed) + layer.bias[gate]

    h, c = state
    for step, output in zip(x, ours, strict=True):
        from_input = [step @ w.T for w in layer.input_weight]
        from_state = [h @ w.T for w in layer.hidden_weight]
        if cell == "lstm":
            i, f, g, o = (
                normalized(gate, from_input[gate] + from_state[gate]) for gate in range(4)
            )
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        elif cell == "rnn":
            h = torch.tanh(normalized(0, from_input[0] + from_state[0]))
        else:
            r, z = (
                torch.sigmoid(normalized(gate, from_input[gate] + from_state[gate]))
                for gate in range(2)
            )
            n = torch.tanh(normalized(2, from_input[2] + r * (from_state[2] + layer.hidden_bias)))
            h = (1 - z) * n + z * h
        torch.testing.assert_close(
            output,
            h,
            rtol=0,
            atol=1e-10,
        )


def calls(model: nn.Module, sites: list[str]) -> Counter[tuple[str, int]]:
    """Count the calls of each site by their number of rows."""
    counts: Counter[tuple[str, int]] = Counter()
    for site in sites:
        model.get_submodule(site).register_forward_hook(
            lambda _, inputs, __, site=site: counts.update(
                [(site, inputs[0].flatten(0, -2).shape[0])]
            )
        )
    model(TEXT, [])
    return counts


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("lstm", {("input_gate", 12): 12}),
        ("gru", {("reset_gate", 6): 12, ("candidate", 3): 12}),
        ("rnn", {("hidden", 3): 12}),
    ],
)
def test_norms_that_are_one_function_share_a_call(
    cell: str, expected: dict[tuple[str, int], int]
) -> None:
    model, sites = built(cell, "adanorm")
    assert calls(model, sites.swapped) == {
        (f"layers.{index}.{gate}_norm", rows): count
        for index in range(2)
        for (gate, rows), count in expected.items()
    }


@pytest.mark.parametrize("cell", CELLS)
def test_a_shared_call_gives_what_one_call_per_gate_gives(cell: str) -> None:
    model, _ = built(cell, "adanorm")
    together, _ = model(TEXT, [])
    apart, placed = built(cell, "adanorm")
    for site in placed.swapped:
        norm = apart.get_submodule(site)
        norm.register_buffer(
            "own", torch.zeros(1)
        )  # a buffer of its own keeps it from sharing calls
    assert len(calls(apart, placed.swapped)) == len(placed.swapped)
    torch.testing.assert_close(
        apart(TEXT, [])[0],
        together,
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("cell", CELLS)
def test_globs_choose_gates_and_no_gate_closes_a_stack(cell: str) -> None:
    gate = GATES[cell][-1]
    model, placed = built(cell, "adanorm", [f"layers.*.{gate}_norm"])
    assert placed.swapped == [f"layers.0.{gate}_norm", f"layers.1.{gate}_norm"]
    assert all(type(model.get_submodule(site)) is AdaNorm for site in placed.swapped)
    assert all(type(model.get_submodule(site)) is LayerNorm for site in placed.kept)
    assert len(calls(model, [*placed.swapped, *placed.kept])) == 2 * len(GATES[cell])
    with pytest.raises(ValueError, match=r"no norm closes a stack here; the sites are layers.0."):
        built(cell, "adanorm", "final")


@pytest.mark.parametrize("norm", norms_of("enwik8-lstm"))
@pytest.mark.parametrize("cell", CELLS)
def test_no_step_depends_on_a_later_one_or_on_another_stream(cell: str, norm: str) -> None:
    model = built(cell, norm)[0].eval()
    changed = TEXT.clone()
    changed[1, 7] = (changed[1, 7] + 1) % 256
    before, _ = model(TEXT, [])
    after, _ = model(changed, [])
    assert torch.equal(before[:, :7], after[:, :7])
    assert not torch.equal(before[1, 7:], after[1, 7:])
    torch.testing.assert_close(
        before[[0, 2]],
        after[[0, 2]],
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("cell", CELLS)
def test_a_batch_may_be_empty(cell: str) -> None:
    model, _ = built(cell, "adanorm")
    logits, memory = model(TEXT[:0], [])
    logits.sum().backward()
    assert logits.shape == (0, 12, 256)
    assert all(len(state) == 0 for state in memory)
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_dropped_features_are_the_same_at_every_step_and_none_in_evaluation() -> None:
    model, _ = built(
        "lstm",
        "none",
        output_dropout=0.5,
        dim=40,
        embedding_dim=40,
    )
    x = drawn(12, 3, 40)
    dropped = model._dropped(x, 2) / x
    assert all(torch.equal(step, dropped[0]) for step in dropped)
    assert {round(value, 9) for value in dropped.flatten().tolist()} == {0.0, 2.0}
    assert not torch.equal(dropped[0, 0], dropped[0, 1])
    assert torch.equal(model.eval()._dropped(x, 2), x)


def test_dropped_recurrent_weights_are_drawn_once_per_segment() -> None:
    model, _ = built(
        "gru",
        "none",
        weight_dropout=0.5,
        layers=1,
    )
    (layer,) = model.layers
    torch.manual_seed(5)
    first, _ = model(TEXT, [])
    torch.manual_seed(5)
    weight = F.dropout(layer.hidden_weight, 0.5)
    again, _ = model.eval()(TEXT, [])
    assert not torch.equal(first, again)
    with torch.no_grad():
        layer.hidden_weight.copy_(weight)
    torch.testing.assert_close(model(TEXT, [])[0], first)


def test_weights_are_drawn_within_torchs_bounds() -> None:
    model, _ = built(
        "gru",
        dim=100,
        embedding_dim=100,
        layers=1,
    )
    for name, parameter in model.layers[0].named_parameters():
        if "norm" not in name:
            assert 0.09 < parameter.abs().max() <= 0.1, name
            assert parameter.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.15), name
    assert 0.09 < model.embedding.weight.abs().max() <= 0.1
    assert not model.output_bias.any()
