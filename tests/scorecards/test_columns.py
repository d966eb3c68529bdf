"""Before a scorecard's runs: the columns that a budget has room for, and the norms that compute the same."""

from functools import cache
from pathlib import Path

import pytest

from adanorm.config.sections import NormConfig
from adanorm.norms import NORMS
from adanorm.scorecards.columns import START_SECONDS, budget_seconds, choose_columns
from adanorm.scorecards.observed import computed_alike, norm_configs
from adanorm.verdicts.preregistration import preregistration

THREE = ("rmsnorm", "layernorm", "adanorm")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10min", 600), ("1.5h", 5400), ("2d", 172800)]
)
def test_a_budget_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert budget_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "0s", "-2h", "2 h", "infh", "nanmin", "1e9h", "2hours", "٣min"]
)
def test_a_budget_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write a time above zero such as 90s, 10min"):
        budget_seconds(text)


@pytest.mark.parametrize("budget", [40.0, 300.0, 600.0, 7200.0, 86400.0])
def test_the_planned_seeds_of_the_chosen_columns_fit_the_budget(budget: float) -> None:
    chosen = choose_columns(THREE, budget=budget, workers=2)[0]
    runs = preregistration().stopping.planned * len(THREE)
    assert sum(runs * (3600 * column.hours + START_SECONDS) / 2 for column in chosen) <= budget
    tasks = [column.task for column in chosen]
    assert len({*tasks}) == len(tasks)
    assert [column.hours for column in chosen] == sorted(column.hours for column in chosen)
    has_real_data = ("mnist", "mini") in [(column.task, column.scale) for column in chosen]
    assert has_real_data or budget != 600.0, "ten minutes of two cores have room for them"


def test_a_task_at_whose_sites_a_norm_is_not_defined_is_left_out_with_the_reason() -> None:
    columns, left_out = choose_columns(("instancenorm", "layernorm"), budget=1e9, workers=2)
    assert "enwik8" not in [column.task for column in columns]
    assert any("Enwiki8" in line and "language model" in line for line in left_out)


def test_a_task_without_its_data_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ADANORM_MIRROR", str(tmp_path))
    lines = choose_columns(THREE, budget=1e9, workers=2)[1]
    command = "`adanorm data task=en-de scale=mini` gets them"
    assert f"En-De, scale mini: data are not here; {command}" in lines


@cache
def ours() -> dict[str, NormConfig]:
    return norm_configs(list(NORMS))


# weightnorm does nothing at its own site; topk at its own sigma cuts nothing of so few features.
@pytest.mark.parametrize("norm", [norm for norm in NORMS if norm not in ("weightnorm", "topk")])
def test_a_norm_of_the_suite_computes_like_itself_alone(norm: str) -> None:
    others = [norm, "none", "layernorm", "layernorm-simple", "adanorm", "rmsnorm", "batchnorm"]
    assert computed_alike(ours()[norm], {other: ours()[other] for other in others}) == [norm]


@pytest.mark.parametrize(
    ("own", "alike"),
    [
        ("Renamed", ["adanorm"]),
        ("WrittenOut", ["layernorm", "topk"]),
        ("OtherEps", []),
        ("NoGain", []),
    ],
)
def test_a_norm_under_another_name_is_recognized_by_what_it_computes(
    own: str, alike: list[str]
) -> None:
    path = f"tests.scorecards.norms:{own}"
    assert computed_alike(norm_configs([path])[path], ours()) == alike
