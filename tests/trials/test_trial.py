"""A trial: which runs it makes and in which order, and what it says of their records."""

import re
import signal
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from adanorm.cli.command import dispatch
from adanorm.config.outside_norms import source_of
from adanorm.config.paths import PROJECT
from adanorm.norms import NormChoice
from adanorm.norms.check import IN_TRIALS, check_norm
from adanorm.stats.sequential import Looks
from adanorm.trials.arena import arena_page
from adanorm.trials.conduct import BudgetError, ends_after
from adanorm.trials.inequality import Lead, mean_lead, verdict_on
from adanorm.trials.page import headline, page
from adanorm.trials.power import BedNoise, share_better
from adanorm.trials.rules import REFERENCE, load_rules
from tests.faults import command as faults
from tests.trials.records import BEDS, make, record_trial, record_tries, settings, trial_in

WORDS = {2.0: "better", -2.0: "worse", 0.0: "equivalent"}


def test_tries_come_before_fresh_runs_and_both_norms_get_as_many(tmp_path: Path) -> None:
    trial = trial_in(tmp_path, "adanorm")
    runs = [run.experiment for run in trial.next_runs(trial.reading())]
    assert len(runs) == 2 * len(trial.rules.rates) * len(trial.rules.tuning)
    assert {run.seed for run in runs} == {*trial.rules.tuning}
    assert {run.task.name for run in runs} == {"mnist"}
    record_tries(trial, best=1)
    fresh = trial.next_runs(trial.reading())
    assert [run.row for run in fresh[:2]] == ["adanorm", REFERENCE]
    seeds = trial.entrant.seeds(3)
    assert [run.experiment.seed for run in fresh] == [*np.repeat(seeds, 2)]
    by_norm = {run.row: run.experiment for run in fresh}
    rate = trial.rules.beds["mnist"].experiment(REFERENCE, "adam").training.lr
    assert by_norm["adanorm"].norm.params["C"] == 2.0
    assert by_norm[REFERENCE].training.lr == 2 * rate


def test_a_second_start_goes_on_and_says_what_is_missing_to_an_answer(tmp_path: Path) -> None:
    trial = trial_in(tmp_path, workers=2)
    runs = trial.next_runs(trial.reading())
    assert trial.outlook(trial.reading()) == (
        "The first answer takes 10 runs of MNIST more, about 5 min on this machine."
    )
    make(trial, "mnist", trial.norm, settings(trial, "mnist", trial.norm)[0], 201, 80.0)
    reading = trial.reading()
    assert trial.next_runs(reading) == runs[1:]
    assert "0 of its 2 tries and 0 of LayerNorm's have ended" in headline(reading)
    assert trial.outlook(record_trial(tmp_path, 1.0).reading()) is None


def test_the_end_of_the_budget_cuts_off_the_runs_under_way(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(BudgetError), ends_after(0.05):
        time.sleep(5)
    assert signal.getsignal(signal.SIGALRM) == before
    with ends_after(0.05):
        pass
    time.sleep(0.1)  # no alarm is left


@pytest.mark.parametrize(("lead", "word"), WORDS.items())
def test_the_first_line_has_the_answer_and_a_decided_trial_wants_no_more_runs(
    tmp_path: Path, lead: float, word: str
) -> None:
    trial = record_trial(tmp_path, lead)
    reading = trial.reading()
    assert reading.answer == word
    assert trial.next_runs(reading) == []
    assert word.replace("equivalent", "as good") in headline(reading)
    text = page(reading, memory={"rt": 1.5})
    assert text.splitlines()[0] == f"**{headline(reading)}**"
    (row,) = re.findall(r"^\| RT .*", text, re.MULTILINE)
    assert f"| {reading.rows['rt'].seeds} |" in row
    assert "| 2 (2) |" in row
    assert "× 1.00 (5 of 5 reach it) | × 1.00 | × 1.50 |" in row


def test_a_decision_needs_all_beds_and_stands(tmp_path: Path) -> None:
    trial = record_trial(tmp_path, 2.0, seeds=3)
    assert trial.reading().decided_at == 3
    for name, side in product(trial.rules.beds, (trial.norm, REFERENCE)):
        for seed in trial.entrant.seeds(5)[3:]:  # later runs of the norm are bad
            score = 85.0 - 9 * (side == trial.norm)
            make(trial, name, side, settings(trial, name, side)[0], seed, score)
    reading = trial.reading()
    assert (reading.at(5).answer, reading.decided_at, reading.answer) == ("open", 3, "better")


def test_on_some_beds_the_answer_says_on_which(tmp_path: Path) -> None:
    trial = trial_in(tmp_path)
    assert headline(trial.reading()).startswith("No answer on RMSNorm yet")
    record_tries(trial)
    for count, seed in enumerate(trial.entrant.seeds(3)):
        if count == 2:
            assert "MNIST has 2 of the first 3 runs of each" in headline(trial.reading())
        for side in (trial.norm, REFERENCE):
            score = 80.0 + seed % 7 / 10 + 3 * (side == trial.norm) + seed % 3 * (side == "rmsnorm")
            make(trial, "mnist", side, settings(trial, "mnist", side)[0], seed, score)
    reading = trial.reading()
    assert "so far, on MNIST (1 of 2 beds)" in headline(reading)
    assert {run.experiment.task.name for run in trial.next_runs(reading)} == {"rt"}


def test_runs_that_diverge_make_no_norm_better(tmp_path: Path) -> None:
    from tests.reporting.records import edit

    trial = record_trial(tmp_path, 2.0)
    for seed in trial.entrant.seeds(5):
        overrides = settings(trial, "rt", trial.norm)[0]
        run = trial.planned("rt", trial.norm, overrides, seed).experiment
        edit(run.folder(), status="diverged", diverged="loss not finite", test=None, valid=None)
    reading = trial.reading()
    assert reading.answer == "worse"
    assert "runs broke on RT (diverged: RMSNorm" in headline(reading)


def test_the_mean_over_three_beds_is_that_of_random_effects() -> None:
    """With equal errors and no spread it is Hartung and Knapp's, its factor 1."""
    mean = mean_lead([Lead(1.0, 0.3, 9), Lead(1.0, 0.3, 9), Lead(1.0, 0.3, 9)])
    assert mean == pytest.approx((1.0, 0.3 / 3**0.5, 2))
    two = mean_lead([Lead(1.0, 0.3, 9), Lead(2.0, 0.4, 9)])
    assert two[:2] == pytest.approx((1.5, 0.25))
    assert 9 < two.df < 18


def simulated(lead: float, beds: int, sd: float, draws: int) -> list[str]:
    """Return the answers on simulated trials, by textbook formulas of paired t."""
    rules, random = load_rules(), np.random.default_rng(7)
    looks = Looks(rules.looks, rules.spending, rules.level)
    answers = []
    for _ in range(draws):
        # A null entry is LayerNorm under another name: both sides have the same scores' noise.
        sides = random.standard_normal((2, beds, looks.after[-1])) * sd / 2**0.5
        gaps = sides[0] + lead - sides[1]
        answer = "open"
        for look in looks.after:
            read = gaps[:, :look]
            errors = read.std(1, ddof=1) / look**0.5
            leads = [Lead(*one, look - 1) for one in zip(read.mean(1), errors, strict=True)]
            answer = verdict_on(leads, looks, look).answer
            if answer != "open":
                break
        answers.append(answer)
    return answers


@pytest.mark.parametrize("beds", [1, 2, 4])
def test_layernorm_under_another_name_is_seldom_better_in_200_trials(beds: int) -> None:
    answers = simulated(0.0, beds, sd=1.2, draws=200)
    assert answers.count("better") <= 10
    assert answers.count("worse") <= 10


@pytest.mark.parametrize("beds", [1, 4])
def test_a_norm_half_a_margin_better_is_found_as_often_as_the_page_says(beds: int) -> None:
    rules = load_rules()
    promised = share_better(rules, [BedNoise(0.8, 0.0)] * beds, 0.5, len(rules.looks))
    found = simulated(0.5, beds, sd=0.8, draws=400).count("better") / 400
    assert abs(found - promised) < 3 * (2 * 0.25 / 400) ** 0.5
    assert found > 0.3


def test_one_bed_has_students_interval() -> None:
    rules = load_rules()
    level = rules.plan_of_looks.levels(6).difference
    bound = student.isf(level / 2, 5) * 0.2
    for value, is_better in ((bound + 1e-6, True), (bound - 1e-6, False)):
        verdict = verdict_on([Lead(value, 0.2, 5)], rules.plan_of_looks, 6)
        assert (verdict.answer == "better") == is_better
        assert verdict.mean == value


SPOILT = {
    "changes its input": (
        "x.mul_(1.0000001); return x * self.w",
        "the norm changes its input in place",
    ),
    "keeps state": ("self.n += 1; return x * self.w * self.n", "another result"),
    "draws": ("return x * self.w * torch.rand(())", "a call draws random numbers"),
    "draws from NumPy": ("numpy.random.rand(); return x * self.w", "a call draws random numbers"),
    "another type": ("return (x * self.w, x)", "gives a tuple, not a tensor"),
    "another shape": ("return (x * self.w)[..., :-1]", "is not kept"),
    "changes torch": (
        "torch.set_default_dtype(torch.float64); return x * self.w",
        "the default dtype",
    ),
}
MODULE = """
import numpy, torch
from torch import nn
class Spoilt(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w, self.n = nn.Parameter(torch.ones(dim)), 0
    def forward(self, x):
        {}
"""


@pytest.mark.parametrize(("body", "problem"), SPOILT.values(), ids=list(SPOILT))
def test_the_contract_tells_what_a_trial_cannot_take(body: str, problem: str) -> None:
    namespace: dict[str, Any] = {}
    exec(MODULE.format(body), namespace)
    choice = NormChoice("Spoilt", outside=namespace["Spoilt"])
    outcomes = [*check_norm(choice, IN_TRIALS)]
    assert any(problem in (outcome.problem or "") for outcome in outcomes)


def test_an_edited_source_ends_the_trial_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "edited_norm.py"
    file.write_text(MODULE.format("return x * self.w"))
    source_of.cache_clear()
    trial = trial_in(tmp_path / "runs", "edited_norm:Spoilt")
    record_tries(trial)
    trial.check_source()
    trial.check_tries()
    file.write_text(MODULE.format("return x * self.w * 2"))
    with pytest.raises(ValueError, match=r"^edited_norm.py: changed since the tries") as error:
        trial.check_source()
    assert "\n" not in str(error.value)
    order = ["trial", "edited_norm:Spoilt", f"beds={BEDS}", "runs=runs"]
    ended = faults.run(order, tmp_path)
    assert ended.is_refusal, ended.summary
    assert ended.stderr.startswith("error: edited_norm.py: changed since the tries")
    file.write_text(MODULE.format("return x * self.w  # the same"))
    source_of.cache_clear()
    assert trial_in(tmp_path / "runs", "edited_norm:Spoilt").entrant == trial.entrant


REFUSED = {
    "budget=0": "write a time above zero",
    "budget=-5": "write a time above zero",
    "budget=abc": "write a time above zero",
    "beds=none.yaml": "no such file",
    "beds=odd.yaml": "rates: must be even in number",
    "runs=odd.yaml": "cannot be written: Not a directory",
    "norm=adanorm": "trial takes one norm, not rmsnorm and norm=adanorm",
    "norm.params.k=3": "has no such parameter",
}


@pytest.mark.parametrize(("argument", "message"), REFUSED.items())
def test_a_wrong_order_is_refused_before_any_work(
    argument: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.yaml").write_text(BEDS.read_text().replace("[1, 2]", "[1, 2, 3]"))
    words = ["trial", "rmsnorm", argument]
    if not argument.startswith("beds="):
        words.append(f"beds={BEDS}")  # whose data need no download
    with pytest.raises(ValueError, match=message) as error:
        dispatch(words)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs" / "trials").exists()


def test_the_page_of_the_arena_shows_the_records() -> None:
    content = (PROJECT / "docs" / "arena.md").read_text("utf-8")
    assert f"-->\n{arena_page(load_rules())}<!-- /arena -->" in content


def test_an_entry_is_contributed_merged_and_contested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for task in ("mnist", "rt"):
        (tmp_path / "here" / task / "rmsnorm").mkdir(parents=True)
    for name, lead in (("first", 2.0), ("second", -2.0)):
        record_trial(tmp_path / name, lead)
        file = tmp_path / f"{name}.gz"
        dispatch(["contribute", str(tmp_path / name), f"output={file}", f"by=Author {name}"])
        dispatch(["merge", str(file), f"runs={tmp_path / 'here'}"])
        capsys.readouterr()
        table = arena_page(load_rules(str(BEDS)), str(tmp_path / "here"))
        rows = [" ".join(row.split()) for row in table.splitlines()]
        assert max(map(len, table.splitlines())) <= 80
        if name == "first":
            assert rows[0] == "- **1.** RMSNorm +2.10"
            (row,) = [row for row in rows if row.startswith("| RMSNorm")]
            assert row.startswith("| RMSNorm | better | +2.10 | +0.")
    assert rows[:2] == ["- **1.** RMSNorm +2.10", "- **2.** RMSNorm -1.90"]
    assert any(row.startswith("| RMSNorm | better, contested | +2.10 |") for row in rows)
    assert any(row.startswith("| RMSNorm | worse, contested | -1.90 |") for row in rows)
    assert "by Author first, 20" in " ".join(rows)
    assert "Not run yet: AdaNorm." in rows


def test_norms_that_are_not_told_apart_share_a_line(tmp_path: Path) -> None:
    for norm, lead in (("rmsnorm", 2.0), ("adanorm", 0.1), ("none", -3.0)):
        record_trial(tmp_path, lead, norm=norm)
    lines = arena_page(load_rules(str(BEDS)), str(tmp_path)).splitlines()
    assert lines[:2] == ["- **1.** RMSNorm +2.10, AdaNorm +0.25", "- **3.** w/o Norm -2.90"]
    # An equivalent norm has the narrow interval, which lies within one margin.
    assert "| AdaNorm  | equivalent | +0.25 | -0.40 to +0.90 | 3 | 2 (2) |" in lines


def test_the_page_of_the_arena_goes_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link, target = tmp_path / "page.md", tmp_path / "disk" / "page.md"
    link.symlink_to(target)
    dispatch(["arena", f"beds={BEDS}", f"runs={tmp_path / 'runs'}", f"output={link}"])
    assert link.is_symlink()
    assert target.read_text()
