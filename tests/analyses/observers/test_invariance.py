"""Table 1 of Ba et al. 2016, and what follows from a norm's formula."""

import pytest

from adanorm.analyses.observers.invariance import CHANGES, differences
from adanorm.analyses.spec import load_analysis
from adanorm.config.compose import compose_experiment
from adanorm.norms import NORMS

OPTIONS = load_analysis("invariance").options
TOLERANCE = float(OPTIONS["tolerance"])
EPS = float(OPTIONS["eps"])
LEARNED = float(OPTIONS["learned"])

# Rows of the published table, in the order of its columns. Of the later norms, RMSNorm's row is from
# Zhang & Sennrich 2019, table 1, and the others follow from their formulas.
# Over positions a re-centering is not constant, so GroupNorm is not invariant to it.
INVARIANT = {
    "batchnorm": "yes no yes yes yes no",
    "weightnorm": "yes no yes no no no",
    "layernorm": "yes yes no yes no yes",
    "rmsnorm": "yes no no yes no yes",
    "none": "no no no no no no",
    "adanorm": "yes yes no yes no yes",
    "detachnorm": "yes yes no yes no yes",
    "batchnorm-noisy": "yes no yes yes yes no",
    "instancenorm": "yes no yes yes yes yes",
    "groupnorm": "yes no no yes no yes",
    "scalenorm": "yes no no yes no yes",
    "simple-rmsnorm": "yes no no yes no yes",
    "preaffine-rmsnorm": "yes no no yes no yes",
    "seednorm": "no no no no no no",
    "gatednorm": "yes no no yes no yes",
    "dynamic-tanh": "no no no no no no",
    "derf": "no no no no no no",
    "pointwise": "no no no no no no",
    "layernorm-simple": "yes yes no yes no yes",
    "detach-mean": "yes yes no yes no yes",
    "detach-var": "yes yes no yes no yes",
    "topk": "yes yes no yes no yes",
    "partial-rmsnorm": "yes no no yes no yes",
    "powernorm": "yes no yes yes no no",
    **dict.fromkeys(["gradnorm", "grad-only", "grad-mean", "grad-variance", "grad-scale"], "no" + 5 * " no"),
}


def measured(name: str, *overrides: str, eps: float = EPS, learned: float = LEARNED) -> dict[str, float]:
    norm = compose_experiment([f"norm={name}", *overrides]).norm
    return differences(norm, seed=1, options={"eps": eps, "learned": learned})


@pytest.mark.parametrize("name", sorted(NORMS))
def test_the_measured_invariances_are_the_published_ones(name: str) -> None:
    sizes = measured(name)
    assert list(sizes) == list(CHANGES) == [quantity.name for quantity in load_analysis("invariance").shown]
    assert all(size < TOLERANCE / 100 or size > 0.01 for size in sizes.values())
    answers = " ".join("yes" if size <= TOLERANCE else "no" for size in sizes.values())
    assert answers == INVARIANT.get(name, answers)  # a norm that is added later may have no row


def test_seednorm_is_rmsnorm_until_it_has_learned() -> None:
    is_invariant = [size <= TOLERANCE for size in measured("seednorm", learned=0).values()]
    assert is_invariant == [size <= TOLERANCE for size in measured("rmsnorm").values()]


def test_a_large_eps_breaks_exact_invariance() -> None:
    assert measured("layernorm", eps=1e-2)["matrix_rescaled"] > TOLERANCE


def test_released_numerics_have_the_same_invariances() -> None:
    sizes = measured("layernorm-simple", "norm.numerics=released")
    assert [size <= TOLERANCE for size in sizes.values()] == [True, True, False, True, False, True]
