"""Table 1 of Ba et al. 2016, and what follows from a norm's formula."""

import pytest

from adanorm.analyses.observers.invariance import CHANGES, differences
from adanorm.analyses.spec import load_analysis
from adanorm.config.compose import compose_experiment
from adanorm.norms import NORMS

OPTIONS = load_analysis("invariance").options
TOLERANCE = float(OPTIONS["tolerance"])

# Norms by their rows in the published table, in the order of its columns. Of the later norms,
# RMSNorm's row is from Zhang & Sennrich 2019, table 1, and the others follow from their formulas.
# Over positions a re-centering is not constant, so GroupNorm is not invariant to it.
ROWS = {
    "yes yes no yes no yes": "layernorm layernorm-simple detachnorm detach-mean detach-var adanorm topk",
    "yes no no yes no yes": """rmsnorm partial-rmsnorm simple-rmsnorm preaffine-rmsnorm scalenorm gatednorm
        groupnorm""",
    "yes no yes yes yes no": "batchnorm batchnorm-noisy",
    "yes no yes yes yes yes": "instancenorm",
    "yes no yes yes no no": "powernorm",
    "yes no yes no no no": "weightnorm",
    "no no no no no no": """none seednorm dynamic-tanh derf pointwise gradnorm grad-only grad-mean
        grad-variance grad-scale""",
}
INVARIANT = {norm: row for row, norms in ROWS.items() for norm in norms.split()}


def measured(name: str, *overrides: str, **options: float) -> dict[str, float]:
    norm = compose_experiment([f"norm={name}", *overrides]).norm
    return differences(
        norm,
        seed=1,
        options={**OPTIONS, **options},
    )


@pytest.mark.parametrize("name", sorted(NORMS))
def test_the_measured_invariances_are_the_published_ones(name: str) -> None:
    sizes = measured(name)
    assert (
        list(sizes)
        == list(CHANGES)
        == [quantity.name for quantity in load_analysis("invariance").shown]
    )
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
