"""A scorecard: from the command line in an empty folder, and over records made by hand."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from adanorm.cli.command import dispatch
from adanorm.launch.launch import choose_launch
from adanorm.norms import NormChoice, norm_factory
from adanorm.norms.check import check_contract
from adanorm.records.integrity import packed
from adanorm.scorecards.columns import Column
from adanorm.scorecards.observed import Observed, costs_at, norm_configs
from adanorm.scorecards.page import SAME, card_page, summary
from adanorm.scorecards.trial import Card, Run, Trial
from tests import commands
from tests.reporting import records

OWN = "tests.scorecards.norms:WrittenOut"
FIVE_LINES = """\
from torch import nn
class MyNorm(nn.Module):
    def __init__(self, dim): super().__init__()
    def forward(self, x):
        return x / (x.abs().mean(-1, keepdim=True) + 1e-5)
"""


def recorded(
    folder: Path, gap: str, *, seeds: int, scale: str = "mini", other: str = "layernorm"
) -> None:
    """Record runs of MNIST with scores of 60 to 62; the norm on trial scores higher by a gap."""
    for norm in (OWN, other):
        for seed in range(1, seeds + 1):
            accuracy = 60 + seed % 3 + (GAPS[gap](seed) if norm == OWN else 0.0)
            run = records.run_in(
                folder,
                "task=mnist",
                f"norm={norm}",
                f"scale={scale}",
                seed=seed,
            )
            records.record(run, **records.score(accuracy), seconds=30.0)


def trial(
    folder: Path, *, scale: Any = "mini", other: str = "layernorm", budget: float = 600.0
) -> Trial:
    launch = choose_launch(
        "local",
        workers=1,
        gpus=1,
        settings=[],
        on_cpu=True,
    )
    return Trial(
        OWN, (other,), budget, str(folder), launch, [Column("mnist", scale, 0.01)], spent=1.0
    )


def card(of: Trial, *alike: str) -> Card:
    changes, machine = (
        {"data re-scaling": {OWN: 1e-6, of.against[0]: 0.0}},
        {"device": "any", "commit": None},
    )
    observed = Observed(
        alike,
        changes,
        tolerance=1e-8,
        costs=[],
        environment=machine,
    )
    return Card(
        of,
        ["It holds."],
        observed,
        "all is decided",
        of.scores(),
    )


GAPS: dict[str, Callable[[int], float]] = {
    "higher": lambda seed: 2 + 0.1 * (seed % 2),
    "lower": lambda seed: -2 - 0.1 * (seed % 2),
    "close": lambda seed: 0.01 - 0.02 * (seed % 2),
    "apart": lambda seed: 3.0 - 6.0 * (seed % 2),
}


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("higher 6 rmsnorm mini", "beside RMSNorm: **better** (+2.05, 6 seeds; interval +"),
        ("lower 6 rmsnorm mini", "**worse** (-2.05, 6 seeds; interval -"),
        ("close 6 rmsnorm mini", "**equivalent** (+0.00, 6 seeds; interval -0.0"),
        ("apart 6 rmsnorm mini", "MNIST, scale mini, beside RMSNorm: it would take "),
        (
            "higher 2 rmsnorm mini",
            "beside RMSNorm: **open** (+2.05, 2 seeds; 2 of 3 planned seeds)",
        ),
        ("higher 6 layernorm mini", f"beside LayerNorm: **{SAME}** (computes the same"),
        ("higher 6 layernorm smoke", "Nothing is judged yet."),
        ("higher 6 layernorm smoke", "it shows that the norm trains, and no more"),
    ],
)
def test_the_verdict_is_that_of_the_records_and_has_the_interval_that_decides_it(
    tmp_path: Path, case: str, text: str
) -> None:
    gap, seeds, other, scale = case.split()
    recorded(
        tmp_path,
        gap,
        seeds=int(seeds),
        other=other,
        scale=scale,
    )
    assert text in " ".join(summary(card(trial(tmp_path, other=other, scale=scale))).split())


def test_a_scorecard_says_if_one_test_example_is_more_than_the_margin(tmp_path: Path) -> None:
    recorded(tmp_path, "close", seeds=6, other="rmsnorm")
    first = records.run_in(tmp_path, "task=mnist", f"norm={OWN}", "scale=mini")
    records.put(first.folder(), "predictions.txt.gz", packed(b"1\n" * 500))
    text = " ".join(summary(card(trial(tmp_path, other="rmsnorm"))).split())
    assert "one test example is 0.2)" in text


def test_the_times_of_forward_and_backward_are_not_swapped(tmp_path: Path) -> None:
    path = "tests.scorecards.norms:SlowBackward"
    (cost,) = costs_at(
        8,
        16,
        norm_configs([path]),
        torch.device("cpu"),
    )
    assert cost.backward[1] > cost.forward[1], "its backward pass does a thousand times the work"
    fixed = cost._replace(forward=[1.0, 2.0, 3.0], backward=[4.0, 5.0, 6.0], norm=OWN)
    of = card(trial(tmp_path))
    text = " ".join(summary(of._replace(observed=of.observed._replace(costs=[fixed]))).split())
    assert "forward 2.00 (1.00 to 3.00) times, backward 5.00 (4.00 to 6.00) times" in text


def test_a_norm_with_other_settings_on_a_task_is_another_norm_there(tmp_path: Path) -> None:
    of = replace(trial(tmp_path, other="adanorm"), norm="tests.scorecards.norms:Renamed")
    tasks = ("ptb", "rt")  # on RT AdaNorm has a C of its own
    assert [of.alike(Column(task, "mini", 0.01)) for task in tasks] == [["adanorm"], []]


def test_no_seed_is_added_where_all_is_decided_or_the_budget_is_spent(tmp_path: Path) -> None:
    for gap, budget, ended in (
        ("higher", 600.0, "every comparison is decided"),
        ("apart", 10.0, "the next seed would take more than is left of the budget"),
    ):
        recorded(tmp_path, gap, seeds=4, other="rmsnorm")
        assert trial(tmp_path, budget=budget, other="rmsnorm").run().startswith(ended)
        assert not (tmp_path / "studies").exists()


def test_how_long_runs_take_is_learned_from_those_on_record(tmp_path: Path) -> None:
    of = trial(tmp_path)
    of.columns.append(Column("rt", "mini", 0.02))
    runs = [Run("mnist", OWN, 1)], [Run("rt", OWN, 1)]
    assert [round(of.seconds(chosen)) for chosen in runs] == [36 + 5, 72 + 5], "as declared"
    for seed in (1, 2):
        run = records.run_in(
            tmp_path,
            "task=mnist",
            "norm=layernorm",
            "scale=mini",
            seed=seed,
        )
        records.record(run, **records.score(60.0), seconds=72.0)
    assert [round(of.seconds(chosen)) for chosen in runs] == [72 + 5, 144 + 5], (
        "this machine is half as fast"
    )


def test_page_and_summary_say_what_the_norm_computes_in_one_file_of_narrow_lines(
    tmp_path: Path,
) -> None:
    recorded(tmp_path, "higher", seeds=3)
    text, page = (show(card(trial(tmp_path), "layernorm")) for show in (summary, card_page))
    assert "WrittenOut computes what LayerNorm computes" in page
    assert "WrittenOut computes what LayerNorm computes." in text
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<(script|link|img|iframe|object)\b|https?:|url\(|@import", page)
    assert "prefers-color-scheme: dark" in page
    assert {*re.findall(r'href="#([^"]+)"', page)} <= {*re.findall(r'id="([^"]+)"', page)}


def test_a_norm_that_breaks_the_contract_gets_no_scorecard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        dispatch(["scorecard", "norm=tests.scorecards.norms:Broken", f"runs={tmp_path / 'runs'}"])
        == 1
    )
    output = capsys.readouterr().out
    assert "FAIL Float64, float32 and both half precisions are kept" in output
    assert "checks of the contract fail; no scorecard" in output
    outcomes = check_contract(norm_factory(NormChoice("none")))
    assert all(outcome.claim.isprintable() for outcome in outcomes)
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("_quick_start")
def test_a_scorecard_in_an_empty_folder_makes_the_runs_that_it_lacks_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "five_lines.py").write_text(FIVE_LINES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    own, runs = "five_lines:MyNorm", tmp_path / "runs"
    for norm, seed in ((own, 1), (own, 2), ("layernorm", 1), ("layernorm", 2), ("layernorm", 3)):
        run = records.run_in(
            runs,
            "task=rt",
            f"norm={norm}",
            "scale=smoke",
            seed=seed,
        )
        records.record(run, **records.score(60.0 + seed), seconds=2.0)
    arguments = ["scorecard", f"norm={own}", "against=layernorm", "budget=5min", "workers=1"]

    first_start = commands.run("adanorm", *arguments, cwd=tmp_path)
    assert first_start.returncode == 0, first_start.stderr
    assert "scorecard: 1 run to make; 5 min left of the budget" in first_start.stderr
    assert "RT, scale smoke" in first_start.stdout
    assert max(map(len, first_start.stdout.splitlines()[:-2])) <= 80
    times = {path: path.stat().st_mtime_ns for path in runs.glob("rt/*/*/record.jsonl")}
    assert len(times) == 6  # of two norms, the same three seeds
    spent = json.loads((runs / "scorecards" / "MyNorm.json").read_text())["spent"]
    assert spent > 0

    assert dispatch(arguments) == 0
    assert "to make" not in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert json.loads((runs / "scorecards" / "MyNorm.json").read_text())["spent"] == spent


def test_a_scorecard_replaces_no_scorecard_of_another_norm(tmp_path: Path) -> None:
    trial(tmp_path).keep()
    (tmp_path / "scorecards" / "WrittenOut.json").rename(tmp_path / "scorecards" / "rmsnorm.json")
    with pytest.raises(
        ValueError, match=rf"rmsnorm\.json: is the scorecard of {OWN}; choose another"
    ):
        dispatch(["scorecard", "norm=rmsnorm", f"runs={tmp_path}"])
