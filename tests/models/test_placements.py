"""Every position of norms against its formula, written out in float64, in both models that have them all."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.placements import POSITIONS, deepnorm, deepnorm_of_pair, placements
from adanorm.models.sentence_encoder import PADDING, sinusoids
from adanorm.models.transformer_xl import distance_encoding
from adanorm.tasks.translation import Translation
from tests.networks import network, smoke_run
from tests.plain_attention import straightforward

Function = Callable[[Tensor], Tensor]
LAYERS, DIM, HEADS = 3, 8, 2
SIZES: dict[str, Any] = {"layers": LAYERS, "dim": DIM, "heads": HEADS, "ffn_dim": 12}
QK = (None, "head", "all")
# The output of a branch f with input norm n and output norm o for x; layers are counted from 1.
Branch = Callable[[Function, Function, Function, Tensor, int], Tensor]
FORMULAS: dict[str, Branch] = {
    "pre": lambda n, o, f, x, layer: x + f(n(x)),
    "post": lambda n, o, f, x, layer: n(x + f(x)),
    "sandwich": lambda n, o, f, x, layer: x + o(f(n(x))),
    "output": lambda n, o, f, x, layer: x + o(f(x)),
    "mix": lambda n, o, f, x, layer: n(x + f(x)) if layer <= 2 else x + f(n(x)),
    "scaled": lambda n, o, f, x, layer: x + f(n(x) / math.sqrt(layer)),
    "deepnorm": lambda n, o, f, x, layer: n(math.sqrt(math.sqrt(2 * LAYERS)) * x + f(x)),
    "hybrid": lambda n, o, f, x, layer: n(x + f(x)),
}
FFN_FORMULAS: dict[str, Branch] = {**FORMULAS, "hybrid": lambda n, o, f, x, layer: x + f(x)}
IN_HEADS = {"hybrid": {"query", "key", "value"}}
CASES = [(position, None) for position in FORMULAS] + [
    (p, q) for p in ("pre", "hybrid") for q in QK[1:]
]


def built(model: str, position: str, qk_norm: str | None = None, norm: str = "layernorm") -> Any:
    """Return the network in float64; gains and biases of norms are drawn, so that no two sites are alike."""
    where: dict[str, Any] = {"qk_norm": qk_norm, "post_layers": 2 if position == "mix" else None}
    network_, _ = network(
        model,
        norm,
        **SIZES,
        norm_position=position,
        **where,
    )
    for name, parameter in network_.named_parameters():
        if "norm" in name:
            nn.init.normal_(parameter, 1.0, 0.5)
    return network_.double()


def layernorm(w: dict[str, Tensor], site: str) -> Function:
    return lambda x: F.layer_norm(
        x,
        x.shape[-1:],
        w[f"{site}.weight"],
        w[f"{site}.bias"],
    )


def heads_of(w: dict[str, Tensor], site: str, x: Tensor, over: str | None) -> Tensor:
    """Queries, keys or values (B, N, T, D) of x (B, T, N * D), normalized per head, over all, or not."""
    if over == "all":
        x = layernorm(w, site)(x)
    parts = x.chunk(HEADS, -1)
    return torch.stack([layernorm(w, site)(part) if over == "head" else part for part in parts], 1)


def over_of(position: str, qk_norm: str | None) -> dict[str, str | None]:
    parts = IN_HEADS.get(position, {"query", "key"} if qk_norm else set())
    return {
        part: (qk_norm or "head") if part in parts else None for part in ("query", "key", "value")
    }


def through_layers(
    w: dict[str, Tensor], position: str, x: Tensor, attend: Callable[[str, int, Tensor], Tensor]
) -> Tensor:
    def feed(at: str, t: Tensor) -> Tensor:
        hidden = (t @ w[at + "ffn_input.weight"].T + w[at + "ffn_input.bias"]).clamp(min=0)
        return hidden @ w[at + "ffn_output.weight"].T + w[at + "ffn_output.bias"]

    for index in range(LAYERS):
        at = f"layers.{index}."
        branches = (
            (FORMULAS, "attention", partial(attend, at, index)),
            (FFN_FORMULAS, "ffn", partial(feed, at)),
        )
        for formulas, name, branch in branches:
            n = layernorm(w, f"{at}{name}_norm")
            o = layernorm(w, f"{at}{name}_output_norm")
            x = formulas[position](
                n,
                o,
                branch,
                x,
                index + 1,
            )
    return x if position in ("post", "deepnorm") else layernorm(w, "closing_norm")(x)


def encoders_formula(
    w: dict[str, Tensor], position: str, qk_norm: str | None, tokens: Tensor
) -> Tensor:
    over = over_of(position, qk_norm)

    def attend(at: str, _: int, t: Tensor) -> Tensor:
        rows = (t @ w[at + "query_key_value.weight"].T + w[at + "query_key_value.bias"]).chunk(
            3, -1
        )
        q, k, v = (
            heads_of(
                w,
                f"{at}{p}_norm",
                r,
                over[p],
            )
            for p, r in zip(over, rows, strict=True)
        )
        p = (q @ k.mT / math.sqrt(DIM / HEADS)).softmax(-1)
        mixed = torch.cat((p @ v).unbind(1), -1)
        return mixed @ w[at + "attention_output.weight"].T + w[at + "attention_output.bias"]

    positions = sinusoids(tokens.shape[1], DIM, tokens.device)
    x = w["embedding.weight"][tokens] * math.sqrt(DIM) + positions
    pooled = through_layers(
        w,
        position,
        x,
        attend,
    ).mean(1)
    return pooled @ w["output.weight"].T + w["output.bias"]


TOKENS = torch.randint(
    1,
    20,
    (3, 5),
    generator=torch.Generator().manual_seed(0),
)


def test_every_position_has_a_formula_here() -> None:
    assert set(FORMULAS) == set(POSITIONS)


@pytest.mark.parametrize(("position", "qk_norm"), CASES)
def test_the_encoder_computes_the_formula_of_its_norm_position(
    position: str, qk_norm: str | None
) -> None:
    encoder = built("sentence_encoder", position, qk_norm)
    weights: dict[str, Tensor] = dict(encoder.named_parameters())
    logits = encoder(TOKENS)
    expected = encoders_formula(weights, position, qk_norm, TOKENS)
    torch.testing.assert_close(
        logits,
        expected,
        rtol=0,
        atol=1e-10,
    )
    direction = torch.randn(logits.shape, dtype=torch.float64)
    gradients, expected_gradients = (
        torch.autograd.grad((z * direction).sum(), list(weights.values()))
        for z in (logits, expected)
    )
    for name, gradient, expected_gradient in zip(
        weights, gradients, expected_gradients, strict=True
    ):
        torch.testing.assert_close(
            gradient,
            expected_gradient,
            rtol=0,
            atol=1e-9,
            msg=name,
        )


@pytest.mark.parametrize(("position", "qk_norm"), CASES)
def test_transformer_xl_computes_the_formula_of_its_norm_position(
    position: str, qk_norm: str | None
) -> None:
    """The second of two segments, which reads the first from memory."""
    model = built("transformer_xl", position, qk_norm)
    text = torch.randint(256, (2, 7), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        _, memory = model(text[:, :3], [], remember=3)
        logits, _ = model(text[:, 3:], memory, remember=3)
    w: dict[str, Tensor] = {
        name: parameter.detach() for name, parameter in model.named_parameters()
    }
    over = over_of(position, qk_norm)
    encoding = distance_encoding(
        7,
        DIM,
        None,
        text.device,
    ).double()
    forbidden = torch.ones(4, 7, dtype=torch.bool).triu(4)

    def attend(at: str, index: int, t: Tensor) -> Tensor:
        past = memory[index]
        # The branch reads normalized inputs, the past like the present.
        if position in ("pre", "sandwich", "scaled") or (position == "mix" and index >= 2):
            past = layernorm(w, at + "attention_norm")(past)
            past = past / math.sqrt(index + 1) if position == "scaled" else past
        seen = torch.cat([past, t], 1)
        keys, values = (seen @ w[at + "key_value.weight"].T).chunk(2, -1)
        rows = {"query": t @ w[at + "query.weight"].T, "key": keys, "value": values}
        q, k, v = (
            heads_of(
                w,
                f"{at}{part}_norm",
                rows[part],
                over[part],
            )
            for part in rows
        )
        distance = torch.stack((encoding @ w[at + "distance.weight"].T).chunk(HEADS, -1))
        mixed = straightforward(
            q,
            k,
            v,
            distance,
            w["u"],
            w["v"],
            forbidden,
        )
        return torch.cat(mixed.unbind(1), -1) @ w[at + "attention_output.weight"].T

    x = w["embedding.weight"][text[:, 3:]] * math.sqrt(DIM)
    expected = (
        through_layers(
            w,
            position,
            x,
            attend,
        )
        @ w["embedding.weight"].T
        + w["output_bias"]
    )
    torch.testing.assert_close(
        logits,
        expected,
        rtol=0,
        atol=1e-10,
    )


@pytest.mark.parametrize("over", ["head", "all"])
def test_statistics_of_queries_and_keys_over_the_batch_leave_padding_out(over: str) -> None:
    padded = torch.cat([TOKENS, torch.full((3, 4), PADDING)], 1)
    states = []
    for tokens in (TOKENS, padded):
        encoder = built("sentence_encoder", "pre", over, "batchnorm")
        encoder(tokens)
        states.append({n: b for n, b in encoder.named_buffers() if "query" in n or "key_norm" in n})
    assert len(states[0]) == LAYERS * 2 * 2
    for name, state in states[0].items():
        assert len(state) == (DIM // HEADS if over == "head" else DIM)
        torch.testing.assert_close(states[1][name], state, msg=name)


@pytest.mark.parametrize("over", ["head", "all"])
def test_normalized_queries_and_keys_keep_their_type_under_autocast(over: str) -> None:
    model, _ = network(
        "transformer_xl",
        "adanorm",
        **SIZES,
        norm_position="pre",
        qk_norm=over,
    )
    text = torch.randint(256, (2, 7), generator=torch.Generator().manual_seed(1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits, _ = model(text, [], remember=3)
    logits.float().logsumexp(-1).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("position", "qk_norm", "parts"),
    [
        ("pre", "head", ["query", "key"]),
        ("post", "all", ["query", "key"]),
        ("hybrid", None, [*over_of("hybrid", None)]),
    ],
)
def test_norms_in_heads_have_sites_of_their_own(
    position: str, qk_norm: str | None, parts: list[str]
) -> None:
    settings = {**SIZES, "norm_position": position, "qk_norm": qk_norm}
    _, sites = network(
        "sentence_encoder",
        "layernorm",
        ["layers.*.query_norm"],
        **settings,
    )
    assert sites.swapped == [f"layers.{i}.query_norm" for i in range(LAYERS)]
    in_heads = {site for site in sites.kept if site.endswith(("key_norm", "value_norm"))}
    assert in_heads == {f"layers.{i}.{part}_norm" for i in range(LAYERS) for part in parts[1:]}


def test_deepnorms_constants_are_the_papers() -> None:
    """Wang et al. 2022, table 2, at depths where the roots are plain numbers."""
    assert deepnorm(8) == pytest.approx((2.0, 64**-0.25))
    (alpha_encoder, beta_encoder), (alpha_decoder, beta_decoder) = deepnorm_of_pair(2, 2**12)
    assert (alpha_encoder, beta_encoder) == pytest.approx(
        (0.81 * 2, 0.87 / 2)
    )  # (2^4 2^12)^(1/16) = 2
    assert alpha_decoder**4 == pytest.approx(3 * 2**12)
    assert beta_decoder**-4 == pytest.approx(12 * 2**12)


def test_deepnorm_draws_values_and_outputs_narrower() -> None:
    wide: dict[str, Any] = {"dim": 128, "ffn_dim": 256, "layers": 2, "norm_position": "deepnorm"}
    layer = network("sentence_encoder", "none", **wide)[0].layers[1]
    query, key, value = layer.query_key_value.weight.chunk(3)
    narrow = [value, layer.attention_output.weight, layer.ffn_input.weight, layer.ffn_output.weight]
    gains = [(query, 1.0), (key, 1.0), *((weight, 16**-0.25) for weight in narrow)]
    for weight, gain in gains:
        expected = gain * math.sqrt(2 / sum(weight.shape))
        assert weight.std().item() == pytest.approx(expected, rel=0.03)


def test_mix_is_post_in_a_quarter_of_the_layers_by_default() -> None:
    for layers, post, expected in ((12, None, 3), (4, None, 1), (2, None, 1), (4, 3, 3)):
        stack = placements("mix", layers, post_layers=post)
        assert [layer.ffn.after for layer in stack] == [True] * expected + [False] * (
            layers - expected
        )


@pytest.mark.needs("fairseq")
@pytest.mark.parametrize("position", ["mix", "deepnorm"])
def test_fairseqs_layers_sum_as_their_position_says(position: str) -> None:
    settings = "model.layers=2", f"model.norm_position={position}"
    task, model = smoke_run(Translation, "task=de-en", *settings)
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    for name, module in model.named_modules():
        if name.endswith(("layer_norm", "fc1", "fc2", "layers.0", "layers.1")):
            module.register_forward_hook(
                lambda _, x, y, name=name: seen.update(
                    {name: (x[0], y[0] if isinstance(y, tuple) else y)}
                )
            )
    task.loss(model, next(iter(task.train_batches(0))))
    pair = dict(zip(("encoder", "decoder"), deepnorm_of_pair(2, 2), strict=True))
    for stack, (alpha, _) in pair.items():
        for index in range(2):
            at = f"{stack}.layers.{index}."
            (normed, norm_output), (x, _) = seen[at + "final_layer_norm"], seen[at + "fc1"]
            y = seen[at + "fc2"][1]
            if position == "mix" and index == 1:  # pre: fc1 reads the norm
                torch.testing.assert_close(x, norm_output)
                torch.testing.assert_close(seen[f"{stack}.layers.1"][1], normed + y)
            else:
                torch.testing.assert_close(
                    normed, (alpha if position == "deepnorm" else 1.0) * x + y
                )
    assert ("encoder.layer_norm" in seen) == (position == "mix")
