from __future__ import annotations

from functools import cache

import pytest

from adanorm.config.sections import NormConfig
from adanorm.norms import NORMS
from adanorm.scorecards.observed import computed_alike, norm_configs

IN_LAYERS = ("weightnorm",)  # at their site they do nothing
# topk at its own sigma cuts one feature, to its own value, of fewer than 400: it is layernorm here.


@cache
def ours() -> dict[str, NormConfig]:
    return norm_configs(list(NORMS))


@pytest.mark.parametrize("norm", [norm for norm in NORMS if norm not in (*IN_LAYERS, "topk")])
def test_a_norm_of_the_suite_is_like_itself_alone(norm: str) -> None:
    others = [norm, "none", "layernorm", "layernorm-simple", "adanorm", "rmsnorm", "batchnorm"]
    assert computed_alike(ours()[norm], {other: ours()[other] for other in others}) == [norm]


@pytest.mark.parametrize(
    ("own", "alike"),
    [("Renamed", ["adanorm"]), ("WrittenOut", ["layernorm", "topk"]), ("OtherEps", []), ("NoGain", [])],
)
def test_a_norm_under_another_name_is_known_by_what_it_computes(own: str, alike: list[str]) -> None:
    path = f"tests.scorecards.norms:{own}"
    assert computed_alike(norm_configs([path])[path], ours()) == alike
