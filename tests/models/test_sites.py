"""Where norms sit: counted at run time, in training and in evaluation."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from adanorm.models.mnist_cnn import MnistCnn
from adanorm.models.norm_sites import PlacedNorms
from adanorm.models.sentence_encoder import SentenceEncoder
from adanorm.norms import NORMS, AdaNorm, LayerNorm, norm_factory


def encoder(placed: PlacedNorms, *, pre_norm: bool = True, pooling: str = "mean") -> SentenceEncoder:
    torch.manual_seed(0)
    return SentenceEncoder(
        placed,
        vocabulary=20,
        classes=3,
        layers=4,
        dim=16,
        heads=2,
        ffn_dim=24,
        dropout=0.1,
        pre_norm=pre_norm,
        pooling=pooling,  # type: ignore[arg-type]
    )


def cnn(placed: PlacedNorms, norm_axes: str = "all") -> MnistCnn:
    torch.manual_seed(0)
    return MnistCnn(placed, channels=[4, 6], kernel_size=5, norm_axes=norm_axes, classes=10)  # type: ignore[arg-type]


def calls(model: nn.Module, sites: list[str], inputs: torch.Tensor) -> Counter[str]:
    counts: Counter[str] = Counter()

    def count(site: str) -> None:
        model.get_submodule(site).register_forward_hook(lambda *_: counts.update([site]))

    for site in sites:
        count(site)
    model(inputs)
    return counts


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("network", ["encoder", "cnn"])
def test_every_site_holds_the_norm_and_calls_it_once(network: str, name: str, mode: str) -> None:
    placed = PlacedNorms(norm_factory(name), "all")
    if network == "encoder":
        model: nn.Module = encoder(placed)
        inputs, number = torch.randint(1, 20, (3, 5)), 9  # two a layer and the closing one
    else:
        model = cnn(placed)
        inputs, number = torch.randn(3, 1, 28, 28), 2
    model.train(mode == "train")
    placed.check()
    assert len(placed.swapped) == number
    assert placed.kept == []
    assert all(type(model.get_submodule(site)) is NORMS[name] for site in placed.swapped)
    with torch.set_grad_enabled(mode == "train"):
        assert calls(model, placed.swapped, inputs) == Counter(dict.fromkeys(placed.swapped, 1))


def test_final_placement_swaps_the_closing_norm_alone() -> None:
    placed = PlacedNorms(norm_factory("adanorm"), "final")
    model = encoder(placed)
    placed.check()
    assert placed.swapped == ["closing_norm"]
    assert len(placed.kept) == 8
    assert all(isinstance(model.get_submodule(site), LayerNorm) for site in placed.kept)


def test_globs_choose_sites() -> None:
    placed = PlacedNorms(norm_factory("adanorm"), ["layers.*.ffn_norm", "closing_norm"])
    model = encoder(placed)
    placed.check()
    assert placed.swapped == [*(f"layers.{i}.ffn_norm" for i in range(4)), "closing_norm"]
    assert sum(isinstance(module, AdaNorm) for module in model.modules()) == 5


def test_a_glob_that_matches_nothing_is_an_error() -> None:
    placed = PlacedNorms(norm_factory("adanorm"), ["layers.*", "decoder.*"])
    encoder(placed)
    with pytest.raises(ValueError, match=r"placement 'decoder\.\*' matches no site"):
        placed.check()


def test_final_placement_without_a_closing_norm_is_an_error() -> None:
    placed = PlacedNorms(norm_factory("adanorm"), "final")
    cnn(placed)
    with pytest.raises(ValueError, match=r"no norm closes a stack here; the sites are norms\.0, norms\.1"):
        placed.check()


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
@pytest.mark.parametrize("name", NORMS)
def test_padding_changes_nothing(name: str, pooling: str, pre_norm: bool) -> None:
    model = encoder(PlacedNorms(norm_factory(name), "all"), pre_norm=pre_norm, pooling=pooling).eval()
    tokens = torch.randint(1, 20, (3, 5))
    padded = torch.cat([tokens, torch.zeros(3, 4, dtype=torch.long)], 1)
    torch.testing.assert_close(model(padded), model(tokens))


def test_norms_share_their_initial_weights() -> None:
    states = [encoder(PlacedNorms(norm_factory(name), "all")).state_dict() for name in NORMS]
    for state in states:
        assert torch.equal(state["layers.3.ffn_output.weight"], states[0]["layers.3.ffn_output.weight"])


def test_the_norm_over_all_axes_standardizes_an_image_and_over_channels_a_position() -> None:
    images = torch.randn(2, 1, 28, 28)
    for axes, dims in (("all", (1,)), ("channels", (3,))):
        model = cnn(PlacedNorms(norm_factory("layernorm-simple"), "all"), axes)
        seen: list[torch.Tensor] = []
        model.norms[1].register_forward_hook(lambda *call, seen=seen: seen.append(call[2]))
        model(images)
        assert seen[0].shape == ((2, 6 * 8 * 8) if axes == "all" else (2, 8, 8, 6))
        torch.testing.assert_close(
            seen[0].mean(dims), torch.zeros(seen[0].mean(dims).shape), atol=1e-5, rtol=0
        )


def test_a_batch_may_be_empty() -> None:
    """A process whose share of the last batch is empty still takes part in the update."""
    for model, inputs in (
        (cnn(PlacedNorms(norm_factory("adanorm"), "all")), torch.zeros(0, 1, 28, 28)),
        (encoder(PlacedNorms(norm_factory("adanorm"), "all")), torch.zeros(0, 5, dtype=torch.long)),
    ):
        logits = model(inputs)
        logits.sum().backward()
        assert logits.shape[0] == 0
        assert all(p.grad is not None and not p.grad.any() for p in model.parameters())
