"""Every norm does as torch's LayerNorm does with whatever else torch's modules meet."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adanorm.norms import NORMS, NormChoice, norm_factory
from adanorm.norms.closed_form import Member, closed_form
from adanorm.norms.rowwise import RmsNorm

H = 16


def made(name: str) -> Any:
    return norm_factory(NormChoice(name))(H, site="a")


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", NORMS)
def test_torchs_encoder_layer_does_not_pass_a_norm_by_in_evaluation(name: str) -> None:
    """Without gradients its fast path would compute LayerNorm by the weights of whatever norm it has."""
    layer = nn.TransformerEncoderLayer(H, 2, 32, dropout=0.0, batch_first=True)
    layer.norm1, layer.norm2 = made(name), made(name)
    x = rows(3, 5, H).double()
    expected = layer.double().eval()(x)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("name", [name for name in NORMS if name not in ("batchnorm-noisy", "powernorm")])
def test_an_encoders_padding_may_be_taken_away(name: str) -> None:
    """In evaluation nn.TransformerEncoder hands nested tensors to norms that were put in place later."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(H, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    for place in encoder.layers:
        place.norm1, place.norm2 = made(name).eval(), made(name).eval()
    x, padding = rows(2, 5, H).double(), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    encoder.double()
    with torch.no_grad():
        found = encoder(x, src_key_padding_mask=padding)
        for example, length in ((0, 5), (1, 3)):
            alone = encoder(x[example : example + 1, :length])
            torch.testing.assert_close(found[example, :length], alone[0])


@pytest.mark.parametrize("name", NORMS)
def test_in_a_graph_of_fx_a_norm_is_one_node(name: str) -> None:
    model = nn.Sequential(nn.Linear(H, H), made(name)).eval()
    traced = torch.fx.symbolic_trace(model)
    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]
    x = rows(2, 3, H)
    assert torch.equal(traced(x), model(x))


@pytest.mark.parametrize("name", NORMS)
def test_integers_are_refused(name: str) -> None:
    with pytest.raises(NotImplementedError, match=r"torch\.int64: x must be floating-point"):
        made(name)(torch.ones(2, 3, H, dtype=torch.long))


@pytest.mark.parametrize("name", [name for name in NORMS if name != "none"])
def test_rows_of_another_width_are_refused(name: str) -> None:
    """Each with its width, so that a mistake is found."""
    if name != "weightnorm":  # whose norm is in the layer before
        with pytest.raises((ValueError, RuntimeError), match=rf"{H}.*\b{H - 1}\b"):
            made(name)(rows(3, 2, H - 1))


def test_a_gain_elsewhere_is_refused() -> None:
    with pytest.raises(RuntimeError, match="device"):
        RmsNorm(H).to("meta")(torch.ones(2, H))


def test_the_function_refuses_integers_too() -> None:
    with pytest.raises(NotImplementedError, match="must be floating-point"):
        closed_form(torch.ones(2, H, dtype=torch.int32), Member())
