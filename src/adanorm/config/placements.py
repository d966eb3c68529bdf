"""Where norms sit in a stack of residual layers: positions by name, and each layer's placement."""

from typing import Literal, NamedTuple

Heads = Literal["head", "all"]


class Branch(NamedTuple):
    """The norms of a branch F: z = P(a x + O(F(s N(x)))); N, O and P are norms or nothing."""

    front: bool = False  # N, on the branch's input
    output: bool = False  # O, on the branch's output
    after: bool = False  # P, on the sum


PRE, POST, SANDWICH = Branch(front=True), Branch(after=True), Branch(front=True, output=True)
OUTPUT, BARE = Branch(output=True), Branch()


class Position(NamedTuple):
    """The norms of all layers of a stack; in some positions they depend on the layer's depth."""

    attention: Branch
    ffn: Branch
    first: Branch | None = None  # both branches of the first layers, if these differ
    by_depth: bool = False  # s is 1/sqrt(layer), layers counted from 1; else s is 1
    deepnorm: bool = False  # a and the initial weights are DeepNorm's; else a is 1
    in_heads: tuple[str, ...] = ()  # which of query, key and value are normalized in attention


POSITIONS: dict[str, Position] = {
    # Wang et al. 2019, Xiong et al. 2020: x + F(N(x))
    "pre": Position(PRE, PRE),
    # Vaswani et al. 2017: N(x + F(x))
    "post": Position(POST, POST),
    # Ding et al. 2021 (CogView); Peri-LN of Kim et al. 2025, arXiv 2502.02732: x + N(F(N(x)))
    "sandwich": Position(SANDWICH, SANDWICH),
    # OLMo 2, arXiv 2501.00656, there "reordered": x + N(F(x))
    "output": Position(OUTPUT, OUTPUT),
    # Mix-LN, Li et al. 2024, arXiv 2412.13795: post in the first layers, pre after them
    "mix": Position(PRE, PRE, first=POST),
    # LayerNorm Scaling, Sun et al. 2025, arXiv 2502.05795: x + F(N(x)/sqrt(layer))
    "scaled": Position(PRE, PRE, by_depth=True),
    # DeepNorm, Wang et al. 2022, arXiv 2203.00555: N(a x + F(x))
    "deepnorm": Position(POST, POST, deepnorm=True),
    # HybridNorm, Zhuo et al. 2025, arXiv 2503.04598: y = x + A(x) with normalized queries, keys and
    # values, then N(y) + F(N(y)). So its norm N is on attention's sum, as in the code of its
    # authors (attn_norm: false, ffn_norm: true, ffn_residual_after_norm: true).
    "hybrid": Position(
        POST,
        BARE,
        in_heads=("query", "key", "value"),
    ),
}


class Placement(NamedTuple):
    """The norms and factors of one layer of a stack."""

    attention: Branch
    ffn: Branch
    norm_scale: float  # s
    skip_scale: float  # a
    init_gain: float | None  # DeepNorm's beta
    in_heads: tuple[str, ...]
    over: Heads  # norms of queries, keys or values are over one head, or all heads


def placements(
    position: str, layers: int, *, post_layers: int | None = None, qk_norm: Heads | None = None
) -> list[Placement]:
    """Return the placement of each layer of a stack, which is an encoder or a decoder alone.

    `post_layers` is the number of post layers in `mix`. `qk_norm` normalizes queries and keys too,
    over each head or over all heads. Raises ValueError if `mix` has no layer that is pre.
    """
    sites = POSITIONS[position]
    first = (post_layers or quarter(layers)) if sites.first else 0
    if sites.first and first >= layers:
        raise ValueError(
            f"norm_position={position}: {first} post layers of {layers} leave no pre-norm layer"
        )
    skip_scale, init_gain = deepnorm(layers) if sites.deepnorm else (1.0, None)
    in_heads = sites.in_heads or (("query", "key") if qk_norm else ())
    stack = []
    for index in range(layers):
        early = sites.first if index < first else None
        branches = (early or sites.attention, early or sites.ffn)
        norm_scale = (index + 1) ** -0.5 if sites.by_depth else 1.0
        stack.append(
            Placement(
                *branches,
                norm_scale,
                skip_scale,
                init_gain,
                in_heads,
                qk_norm or "head",
            )
        )
    return stack


def quarter(layers: int) -> int:
    """Return the default number of post layers in `mix`: its authors' quarter, at least one."""
    return max(1, layers // 4)


def deepnorm(layers: int) -> tuple[float, float]:
    """Return DeepNorm's alpha and beta for an encoder or a decoder alone (its table 2)."""
    return (2 * layers) ** 0.25, (8 * layers) ** -0.25


def deepnorm_of_pair(encoder: int, decoder: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return DeepNorm's (alpha, beta) for an encoder and its decoder (the same table)."""
    root = (encoder**4 * decoder) ** (1 / 16)
    return (0.81 * root, 0.87 / root), ((3 * decoder) ** 0.25, (12 * decoder) ** -0.25)
