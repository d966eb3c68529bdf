"""A scorecard: from the command line in an empty folder, and over records made by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from adanorm.cli.command import dispatch
from adanorm.config.compose_cache import cached_experiment
from adanorm.launch.launchers import choose_launch
from adanorm.norms import NormChoice, norm_factory
from adanorm.records.comparisons import read_comparison
from adanorm.records.folder import RunFolder
from adanorm.scorecards.card import Card, Column, Machine, Observed, Score, read_card
from adanorm.scorecards.contract import check_contract
from adanorm.scorecards.page import card_page
from adanorm.scorecards.scores import alike_on, score
from adanorm.scorecards.summary import summary
from adanorm.scorecards.trial import Trial
from adanorm.verdicts.evidence import evidence
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


def card(*, alike: Sequence[str] = (), scale: str = "mini", budget: float = 600.0) -> Card:
    observed = Observed(
        alike=list(alike),
        changes={"data re-scaling": {OWN: 1e-6, "layernorm": 0.0}},
        tolerance=1e-8,
        costs=[],
        machine=Machine(device="a processor", threads=1, packages={"torch": "2"}, commit=None, dirty=False),
    )
    columns = [Column.model_validate({"task": "mnist", "scale": scale, "hours": 0.01})]
    return Card(
        norm=OWN,
        against=["layernorm"],
        identity="00000000",
        checks=["It holds."],
        observed=observed,
        budget=budget,
        columns=columns,
    )


def recorded(folder: Path, gap: Callable[[int], float], *, seeds: int, scale: str = "mini") -> None:
    """Record LayerNorm's runs, and the norm's with a score so much higher under each seed."""
    for norm in (OWN, "layernorm"):
        first = cached_experiment(["task=mnist", f"norm={norm}", f"scale={scale}"], runs=str(folder))
        for seed in range(1, seeds + 1):
            accuracy = 95 + seed % 3 + (gap(seed) if norm == OWN else 0.0)
            run = first.model_copy(update={"seed": seed})
            records.record(run, **records.score(accuracy), seconds=30.0)


def read(folder: Path, of: Card) -> Score:
    (column,) = of.columns
    return score(of, column, evidence("mnist", column.scale, runs=str(folder), norms=[OWN]), "accuracy")


def higher(seed: int) -> float:
    return 2 + 0.1 * (seed % 2)


@pytest.mark.parametrize(
    ("gap", "alike", "scale", "answer"),
    [
        (higher, (), "mini", "better"),
        (lambda seed: -higher(seed), (), "mini", "worse"),
        (lambda seed: 0.01 * (-1) ** seed, (), "mini", "equivalent"),
        (lambda seed: 3.0 * (-1) ** seed, (), "mini", "open"),
        (higher, ("layernorm",), "mini", "open"),  # chance: it computes the same
        (lambda seed: 0.0, ("layernorm",), "mini", "equivalent"),
        (higher, (), "smoke", "open"),  # synthetic data decide nothing
    ],
)
def test_the_verdict_is_that_of_the_records_but_for_what_they_cannot_say(
    tmp_path: Path, gap: Callable[[int], float], alike: tuple[str, ...], scale: str, answer: str
) -> None:
    recorded(tmp_path, gap, seeds=6, scale=scale)
    (verdict,) = read(tmp_path, card(alike=alike, scale=scale)).verdicts
    assert verdict.answer == answer
    assert bool(verdict.closing) == (answer == "open" and scale == "mini" and not alike)


def test_a_norm_that_a_task_sets_otherwise_is_judged_there_by_its_scores(tmp_path: Path) -> None:
    of = card(alike=["adanorm"])
    assert (alike_on(of, "mnist"), alike_on(of, "rt")) == (["adanorm"], [])
    column = Column(task="rt", scale="mini", hours=0.01)
    for norm in (OWN, "adanorm"):
        first = cached_experiment(["task=rt", f"norm={norm}", "scale=mini"], runs=str(tmp_path))
        for seed in range(1, 7):
            run = first.model_copy(update={"seed": seed})
            accuracy = 60 + seed % 3 + (5 * higher(seed) if norm == OWN else 0.0)
            records.record(run, **records.score(accuracy), seconds=30.0)
    found = evidence("rt", "mini", runs=str(tmp_path), norms=[OWN, "adanorm"])
    of = of.model_copy(update={"against": ["adanorm"]})
    (verdict,) = score(of, column, found, "accuracy").verdicts
    assert verdict.answer == "better"
    assert verdict.remark == "AdaNorm has C = 1.5 on this task"


def test_before_the_planned_seeds_nothing_is_decided(tmp_path: Path) -> None:
    recorded(tmp_path, higher, seeds=2)
    (verdict,) = read(tmp_path, card()).verdicts
    assert (verdict.answer, verdict.remark) == ("open", "2 of 3 planned seeds")


@pytest.mark.parametrize(
    ("gap", "budget", "ended"),
    [
        (higher, 600.0, "every comparison is decided"),
        (lambda seed: 3.0 * (-1) ** seed, 10.0, "the next seed would take more than is left of the budget"),
    ],
)
def test_no_seed_is_added_where_all_is_decided_or_the_budget_is_spent(
    tmp_path: Path, gap: Callable[[int], float], budget: float, ended: str
) -> None:
    recorded(tmp_path, gap, seeds=4)
    launch = choose_launch("local", workers=1, gpus=1, settings=[], on_cpu=True)
    said: list[float] = []
    trial = Trial(card(budget=budget), str(tmp_path), launch, 40, lambda *spent: said.extend(spent))
    assert trial.run().startswith(ended)
    assert not said
    assert not (tmp_path / "studies").exists()


def test_a_trials_evidence_has_the_noise_of_test_examples(tmp_path: Path) -> None:
    column = Column(task="rt", scale="smoke", hours=0.01)
    runs = [
        cached_experiment(["task=rt", f"norm={norm}", "scale=smoke"], runs=str(tmp_path))
        for norm in (OWN, "layernorm")
    ]
    for run, label in zip(runs, "01", strict=True):
        records.record(run, **records.score(60.0), seconds=30.0)
        RunFolder(run.folder()).write_outputs([label] * 32)
    launch = choose_launch("local", workers=1, gpus=1, settings=[], on_cpu=True)
    of = card().model_copy(update={"columns": [column]})
    Trial(of, str(tmp_path), launch, 40, lambda *spent: None).evidence(column)
    found = read_comparison(*runs)
    assert found is not None
    share = 0.5 + found.gap / 200  # of the examples one norm is right about, the other of the rest
    assert found.example_error == pytest.approx(200 * (share * (1 - share) / 31) ** 0.5)


def test_page_and_summary_say_what_the_norm_computes_in_one_file_of_narrow_lines(tmp_path: Path) -> None:
    recorded(tmp_path, higher, seeds=3)
    found = card(alike=["layernorm"])
    found = found.model_copy(update={"scores": [read(tmp_path, found)], "ended": "all is decided"})
    text, page = summary(found), card_page(found)
    assert "WrittenOut computes what LayerNorm computes" in page
    assert "WrittenOut computes what LayerNorm computes." in text
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<(script|link|img|iframe|object)\b|https?:|url\(|@import", page)
    assert "prefers-color-scheme: dark" in page
    anchors = re.findall(r'href="#([^"]+)"', page)
    assert {*anchors} <= {*re.findall(r'id="([^"]+)"', page)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "norm= is missing"),
        ("norm=nonorm", "unknown norm 'nonorm'"),
        ("norm=no_module:Norm", "No module named 'no_module'"),
        ("norm=adanorm,rmsnorm", "a scorecard is of one norm"),
        ("norm=rmsnorm against=nonorm", "unknown norm 'nonorm'"),
        ("norm=rmsnorm against=rmsnorm", "cannot stand beside itself"),
        ("norm=rmsnorm against=none,none", "none is named twice"),
        ("norm=rmsnorm budget=soon", "budget=soon: write a time"),
        ("norm=rmsnorm budget=1s", "too small; 3 seeds of 3 norms"),
        ("norm=rmsnorm workers=none", "workers=none: must be a whole number"),
        ("norm=rmsnorm bugdet=1h", "did you mean budget"),
    ],
)
def test_nonsense_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=said):
        dispatch(["scorecard", *arguments.split()])
    assert not list(tmp_path.iterdir())


def test_a_norm_that_breaks_the_contract_gets_no_scorecard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["scorecard", "norm=tests.scorecards.norms:Broken", f"runs={tmp_path / 'runs'}"]) == 1
    said = capsys.readouterr().out
    assert "FAIL Float64, float32 and bfloat16 are kept" in said
    assert "checks of the contract fail; no scorecard" in said
    assert all(check.claim.isprintable() for check in check_contract(norm_factory(NormChoice("none"))))
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("_quick_start")
def test_a_norm_of_five_lines_in_an_empty_folder_gets_what_its_scorecard_lacks_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "five_lines.py").write_text(FIVE_LINES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    own, runs = "five_lines:MyNorm", tmp_path / "runs"
    for norm, seed in ((own, 1), (own, 2), ("layernorm", 1), ("layernorm", 2), ("layernorm", 3)):
        first = cached_experiment(["task=rt", f"norm={norm}", "scale=smoke"], runs=str(runs))
        records.record(first.model_copy(update={"seed": seed}), **records.score(60.0 + seed), seconds=2.0)
    arguments = ["scorecard", f"norm={own}", "against=layernorm", "budget=5min", "workers=1"]

    first_start = commands.run("adanorm", *arguments, cwd=tmp_path)
    assert first_start.returncode == 0, first_start.stderr
    assert "scorecard: 1 run, about" in first_start.stderr
    assert "RT, scale smoke" in first_start.stdout
    assert max(map(len, first_start.stdout.splitlines()[:-2])) <= 80
    made = {path: path.stat().st_mtime_ns for path in runs.glob("rt/*/*/result.json")}
    assert len(made) == 6  # of two norms, the same three seeds
    page = (runs / "scorecards" / "MyNorm.html").read_text()

    assert dispatch(arguments) == 0
    assert capsys.readouterr().err == ""
    assert {path: path.stat().st_mtime_ns for path in made} == made
    assert (runs / "scorecards" / "MyNorm.html").read_text() == page


def test_a_scorecard_takes_no_other_norms_place(tmp_path: Path) -> None:
    card().write(tmp_path / "scorecards" / "rmsnorm.json")
    with pytest.raises(ValueError, match=rf"rmsnorm\.json: is the scorecard of {OWN}; name another folder"):
        dispatch(["scorecard", "norm=rmsnorm", f"runs={tmp_path}"])


def test_a_card_is_read_as_it_was_written_or_not_at_all(tmp_path: Path) -> None:
    """What it says of alike norms and of the time spent would change a verdict, or the runs that are made."""
    path = tmp_path / "Card.json"
    recorded(tmp_path, higher, seeds=4)
    written = card(alike=["layernorm"]).model_copy(update={"scores": [read(tmp_path, card())]}).write(path)
    assert read_card(path, "00000000") == written
    assert read_card(path, "00000001") is None, "of other norms"
    text = path.read_text()
    for spoiled in (
        text[:200],
        text.replace('"spent": 0.0', '"spent": 9.0'),
        text.replace('"layernorm"', '"none"'),
    ):
        assert spoiled != text
        path.write_text(spoiled)
        assert read_card(path, "00000000") is None
