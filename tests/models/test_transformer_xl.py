"""Transformer-XL against its equations, written out in float64."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from adanorm.config.compose import compose_experiment
from adanorm.models import relative_attention as module
from adanorm.models.norm_sites import build_model
from adanorm.models.relative_attention import forbidden_keys, relative_attention
from adanorm.models.transformer_xl import distance_encoding
from tests.defined import norms_of
from tests.networks import network, placed
from tests.plain_attention import straightforward

CPU = torch.device("cpu")
FURTHER = [norm for norm in norms_of("enwik8") if norm != "adanorm"]


def drawn(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("chunk", [1, 2**26])
@pytest.mark.parametrize(("time", "memory"), [(1, 0), (1, 4), (4, 0), (3, 5), (5, 2), (6, 6)])
@pytest.mark.parametrize("same_length", [False, True])
def test_attention_and_its_gradients_follow_the_equations(
    monkeypatch: pytest.MonkeyPatch, time: int, memory: int, same_length: bool, chunk: int
) -> None:
    monkeypatch.setitem(module.CHUNK_BYTES, "cpu", chunk)
    keys = time + memory
    shapes = (2, 3, time, 4), (2, 3, keys, 4), (2, 3, keys, 4), (3, keys, 4), (3, 4), (3, 4)
    inputs = [drawn(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    forbidden = forbidden_keys(
        time, keys, memory=max(1, memory), same_length=same_length, device=CPU
    )
    q, k, value, distance, u, v = inputs
    ours, expected = (
        attention(
            q,
            k,
            value,
            distance,
            u,
            v,
            forbidden,
        )
        for attention in (relative_attention, straightforward)
    )
    torch.testing.assert_close(
        ours,
        expected,
        rtol=0,
        atol=1e-9,
    )
    weight = drawn(*ours.shape, seed=6).detach()
    gradients, theirs = (torch.autograd.grad((z * weight).sum(), inputs) for z in (ours, expected))
    torch.testing.assert_close(
        gradients,
        theirs,
        rtol=0,
        atol=1e-9,
    )


def test_same_length_lets_every_query_see_as_many_keys() -> None:
    seen = ~forbidden_keys(
        4,
        10,
        memory=6,
        same_length=True,
        device=CPU,
    )
    assert seen.sum(1).tolist() == [6] * 4
    full = ~forbidden_keys(
        4,
        10,
        memory=6,
        same_length=False,
        device=CPU,
    )
    assert full.sum(1).tolist() == [7, 8, 9, 10]


@pytest.mark.parametrize("clamp", [None, 3])
def test_distances_are_encoded_from_far_to_near(clamp: int | None) -> None:
    encoding = distance_encoding(6, 4, clamp, CPU)
    for row, gap in zip(encoding, [5, 4, 3, 2, 1, 0], strict=True):
        d = torch.tensor(float(gap if clamp is None else min(gap, clamp)))
        expected = [d.sin(), (d / 100).sin(), d.cos(), (d / 100).cos()]
        torch.testing.assert_close(row, torch.stack(expected))


@pytest.mark.parametrize(
    ("norm", "pre_norm"),
    [
        *((norm, False) for norm in norms_of("enwik8")),
        ("adanorm", True),
        *(pytest.param(norm, True, marks=pytest.mark.nightly) for norm in FURTHER),
    ],
)
def test_segments_with_memory_give_what_one_long_segment_gives(norm: str, pre_norm: bool) -> None:
    model = network("transformer_xl", norm, pre_norm=pre_norm)[0].double().eval()
    text = torch.randint(256, (2, 24), generator=torch.Generator().manual_seed(1))
    whole, _ = model(text, [], remember=24)
    for length in (1, 5, 24):
        parts: list[Tensor] = []
        memory: list[Tensor] = []
        for start in range(0, 24, length):
            logits, memory = model(text[:, start : start + length], memory, remember=24)
            parts.append(logits)
        torch.testing.assert_close(
            torch.cat(parts, 1),
            whole,
            rtol=0,
            atol=1e-9,
        )
    assert not any(t.requires_grad for t in memory)


def test_memory_holds_the_last_positions() -> None:
    model, _ = network("transformer_xl")
    memory: list[Tensor] = []
    for length, expected in zip((3, 3, 3), (3, 5, 5), strict=True):
        _, memory = model(torch.zeros(2, length, dtype=torch.long), memory, remember=5)
        assert [tuple(t.shape) for t in memory] == [(2, expected, 16)] * 2


def test_weights_are_drawn_as_in_the_original() -> None:
    model, _ = network(
        "transformer_xl",
        dim=256,
        heads=4,
        head_dim=64,
        ffn_dim=512,
    )
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert abs(parameter.mean().item() - 1) < 0.01
            assert 0.015 < parameter.std().item() < 0.025
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.15), name


class Kernels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators that would start a kernel: all but those that make another view."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


def test_an_update_at_the_papers_size_starts_few_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting kernels limits a GPU: with chunks sized for a CPU's cache they would be 42,647."""
    monkeypatch.setattr(
        torch, "autocast", lambda *_, **__: nullcontext()
    )  # the meta device has none
    run = compose_experiment(["task=enwik8", "norm=layernorm", "scale=paper"])
    with torch.device("meta"):
        model = build_model(run.model, placed())
        batch, time, memory = 22, 512, 512
        segment = torch.zeros(batch, time, dtype=torch.long)
        remembered = [torch.zeros(batch, memory, 512) for _ in range(12)]
        with Kernels() as kernels:
            logits, _ = model(segment, remembered, remember=memory)
            torch.nn.functional.cross_entropy(logits.flatten(0, -2), segment.flatten()).backward()  # type: ignore[no-untyped-call]
    assert kernels.count <= 2000
