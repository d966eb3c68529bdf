"""A trial: which runs it makes and in which order, and what it says of their records."""

import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import t as student

from adanorm.cli.command import dispatch
from adanorm.config.outside_norms import source_of
from adanorm.config.paths import PROJECT
from adanorm.norms import NormChoice
from adanorm.norms.check import IN_TRIALS, check_norm
from adanorm.stats.sequential import Numbers
from adanorm.trials.arena import arena_page
from adanorm.trials.conduct import BudgetError, ends_after
from adanorm.trials.inequality import Lead, mean_lead, verdict_on
from adanorm.trials.page import headline, page
from adanorm.trials.power import BedNoise, share_better
from adanorm.trials.rules import REFERENCE, load_rules
from adanorm.verdicts.cell import cell_on_record
from tests.faults import command as faults
from tests.reporting.records import edit
from tests.trials.records import (
    BEDS,
    make,
    record_fresh,
    record_trial,
    record_tries,
    trial_in,
    tries,
)


def test_tries_come_before_fresh_runs_and_both_norms_get_as_many(tmp_path: Path) -> None:
    trial = trial_in(tmp_path, "adanorm")
    runs = [run.experiment for run in trial.next_runs(trial.reading())]
    assert len(runs) == 2 * len(trial.rules.rates) * len(trial.rules.tuning)
    assert {run.seed for run in runs} == {*trial.rules.tuning}
    assert {run.task.name for run in runs} == {"mnist"}
    record_tries(trial, best=1)
    fresh = trial.next_runs(trial.reading())
    assert [run.row for run in fresh[:2]] == ["adanorm lr 0.001 C 2", f"{REFERENCE} lr 0.002"]
    seeds = trial.entrant.seeds(3)
    assert [run.experiment.seed for run in fresh] == [*np.repeat(seeds, 2)]
    by_norm = {run.experiment.norm.name: run.experiment for run in fresh}
    rate = trial.rules.beds["mnist"].experiment(REFERENCE).training.lr
    assert by_norm["adanorm"].norm.params["C"] == 2.0
    assert by_norm[REFERENCE].training.lr == 2 * rate


def test_a_second_start_goes_on_and_the_first_line_says_what_an_answer_takes(
    tmp_path: Path,
) -> None:
    trial = trial_in(tmp_path, workers=2)
    runs = trial.next_runs(trial.reading())
    first_line = headline(trial.reading(), trial.missing(trial.reading()))
    assert first_line == (
        "No answer on RMSNorm yet: it takes 10 more runs of MNIST, about 5 min on this machine."
    )
    make(trial, "mnist", trial.norm, None, 201, 80.0)
    assert trial.next_runs(trial.reading()) == runs[1:]


def test_the_end_of_the_budget_cuts_off_the_runs_under_way() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(BudgetError), ends_after(0.05):
        time.sleep(5)
    assert signal.getsignal(signal.SIGALRM) == before
    with ends_after(0.05):
        pass
    time.sleep(0.1)  # no alarm is left


@pytest.mark.parametrize(("lead", "word"), [(2.0, "better"), (-2.0, "worse"), (0.0, "as good")])
def test_the_first_line_has_the_answer_and_a_decided_trial_wants_no_more_runs(
    tmp_path: Path, lead: float, word: str
) -> None:
    trial = record_trial(tmp_path, lead)
    reading = trial.reading()
    assert trial.next_runs(reading) == []
    lines = page(reading, memory={"rt": 1.5}).splitlines()
    assert f"RMSNorm is {word}" in lines[0]
    assert max(map(len, lines[1:])) <= 80
    on_rt, cost = [line for line in lines if line.startswith("| RT ")]
    assert on_rt.startswith("| RT | 5 |")
    assert cost.startswith("| RT | 2 (2) |")
    assert cost.endswith("× 1.00 (5 of 5) | × 1.00 | × 1.50 |")


def test_a_decision_needs_all_beds_and_stands(tmp_path: Path) -> None:
    trial = record_trial(tmp_path, 2.0, seeds=3)
    assert trial.reading().look == 3
    for bed in trial.rules.beds:  # later runs of the norm are bad
        record_fresh(trial, bed, -20.0, trial.entrant.seeds(5)[3:])
    reading = trial.reading()
    assert [row.seeds for row in reading.rows.values()] == [5, 5]
    assert (reading.look, reading.answer) == (3, "better")


def test_on_some_beds_the_answer_says_on_which(tmp_path: Path) -> None:
    trial = trial_in(tmp_path)
    record_tries(trial)
    record_fresh(trial, "mnist", 20.0, trial.entrant.seeds(3))
    reading = trial.reading()
    assert "better than LayerNorm so far, on MNIST (1 of 2 beds)" in headline(reading)
    assert {run.experiment.task.name for run in trial.next_runs(reading)} == {"rt"}


def test_only_planned_settings_are_chosen_and_further_tries_move_no_answer(tmp_path: Path) -> None:
    trial = record_trial(tmp_path, 2.0, seeds=3)
    before = trial.reading()
    for bed in trial.rules.beds:
        planned = tries(trial, bed, REFERENCE)[0]
        further = planned._replace(rate=37 * planned.rate)
        for seed in trial.rules.tuning:
            make(trial, bed, REFERENCE, further, seed, 99.0)
        for seed in trial.entrant.seeds(5):
            make(trial, bed, REFERENCE, further, seed, 50.0)
    reading = trial.reading()
    assert [len(row.reference.tried) for row in reading.rows.values()] == [3, 3]
    assert reading.verdict == before.verdict
    assert [row.seeds for row in reading.rows.values()] == [3, 3]


def test_fresh_runs_without_tries_are_no_trial(tmp_path: Path) -> None:
    trial = trial_in(tmp_path)
    for bed in trial.rules.beds:
        record_fresh(trial, bed, 2.0, trial.entrant.seeds(5))
    assert trial.reading().answer == "not run"


def test_a_norm_whose_runs_broke_has_no_rank(tmp_path: Path) -> None:
    record_trial(tmp_path, 0.0, norm="none")
    trial = record_trial(tmp_path, 2.0, norm="layernorm-simple")
    for bed in trial.rules.beds:
        for seed in trial.entrant.seeds(5):
            run = make(trial, bed, trial.norm, None, seed, 99.0)
            edit(run.folder(), status="diverged", diverged="loss not finite", test=None, valid=None)
    lines = arena_page(load_rules(str(BEDS)), str(tmp_path)).splitlines()
    assert lines[0].startswith("- **1.** w/o Norm +")
    assert lines[1] == "- Without a rank, because runs broke: LayerNorm-simple"
    assert "| LayerNorm-simple | worse | - | - | 5 | 2 (2) |" in lines


def test_runs_that_diverge_make_no_norm_better(tmp_path: Path) -> None:
    trial = record_trial(tmp_path, 2.0)
    for seed in trial.entrant.seeds(5):
        run = make(trial, "rt", trial.norm, None, seed, 99.0)
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


def test_one_bed_has_students_interval() -> None:
    looks = load_rules().plan_of_looks
    bound = student.isf(looks.levels(6).difference / 2, 5) * 0.2
    assert verdict_on([Lead(bound + 1e-6, 0.2, 5)], looks, 6).answer == "better"
    assert verdict_on([Lead(bound - 1e-6, 0.2, 5)], looks, 6).answer == "open"


def gaps_on_record(bed: str) -> Numbers:
    """Return the gaps of two norms that hardly differ, in margins, less their mean: (seeds,).

    On the beds PTB and Enwiki8 there are none on record: normal ones have a margin's deviation.
    """
    if bed not in ("rt", "mnist"):
        return np.asarray(ndtri((np.arange(1000) + 0.5) / 1000))
    rules = load_rules().beds[bed]
    sides = []
    for norm in (REFERENCE, "layernorm-simple"):
        run = rules.experiment(norm).model_copy(update={"seed": 41})
        sides.append(cell_on_record(run, rules.quantity).by_seed)
    gaps = np.array([sides[0][seed] - sides[1][seed] for seed in sides[0] if seed in sides[1]])
    assert len(gaps) >= 10
    return (gaps - gaps.mean()) / rules.margin


def simulated(lead: float, beds: int, draws: int) -> tuple[list[str], list[BedNoise]]:
    """Return the answers on trials drawn from the record, by paired t, and the beds' noise."""
    rules, random = load_rules(), np.random.default_rng(7)
    samples = [gaps_on_record(bed) for bed in [*rules.beds][:beds]]
    answers = []
    for _ in range(draws):
        gaps = np.array([random.choice(sample, rules.looks[-1]) for sample in samples]) + lead
        answer = "open"
        for look in rules.looks:
            read = gaps[:, :look]
            errors = read.std(1, ddof=1) / look**0.5
            leads = [
                Lead(mean, error, look - 1)
                for mean, error in zip(read.mean(1), errors, strict=True)
            ]
            answer = verdict_on(leads, rules.plan_of_looks, look).answer
            if answer != "open":
                break
        answers.append(answer)
    return answers, [BedNoise(float(sample.std()), 0.0) for sample in samples]


@pytest.mark.parametrize("beds", [1, 2, 4])
def test_layernorm_under_another_name_is_seldom_better_in_200_trials(beds: int) -> None:
    answers, _ = simulated(0.0, beds, draws=200)
    assert answers.count("better") <= 10
    assert answers.count("worse") <= 10


@pytest.mark.parametrize("beds", [1, pytest.param(4, marks=pytest.mark.nightly)])
def test_a_norm_half_a_margin_better_is_better_as_often_as_the_page_says(beds: int) -> None:
    answers, noise = simulated(0.5, beds, draws=400)
    promised = share_better(load_rules(), noise, 0.5, 16)
    assert abs(answers.count("better") / 400 - promised) < 3 * (2 * 0.25 / 400) ** 0.5
    assert promised > 0.2


SPOILT = {
    "x.mul_(1.0000001); return x * self.w": "the norm changes its input in place",
    "self.n += 1; return x * self.w * self.n": "another result",
    "return x * self.w * torch.rand(())": "a call draws random numbers",
    "numpy.random.rand(); return x * self.w": "a call draws random numbers",
    "return (x * self.w, x)": "gives a tuple, not a tensor",
    "return (x * self.w)[..., :-1]": "is not kept",
    "torch.set_default_dtype(torch.float64); return x * self.w": "the default dtype",
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


@pytest.mark.parametrize(("body", "problem"), SPOILT.items())
def test_the_contract_says_what_a_trial_cannot_take(body: str, problem: str) -> None:
    namespace: dict[str, Any] = {}
    exec(MODULE.format(body), namespace)
    choice = NormChoice("Spoilt", outside=namespace["Spoilt"])
    assert any(problem in str(outcome) for outcome in check_norm(choice, IN_TRIALS))


def test_an_edited_source_ends_the_trial_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "edited_norm.py"
    file.write_text(MODULE.format("return x * self.w"))
    source_of.cache_clear()
    trial = trial_in(tmp_path / "runs", "edited_norm:Spoilt")
    record_tries(trial)
    before = trial.config.code
    trial.check_source(before)
    trial.check_tries()
    file.write_text(MODULE.format("return x * self.w * 2"))
    with pytest.raises(ValueError, match=r"^edited_norm.py: changed since the tries"):
        trial.check_source(before)
    order = ["trial", "edited_norm:Spoilt", f"beds={BEDS}", "runs=runs"]
    ended = faults.run(order, tmp_path)
    assert ended.is_refusal, ended.summary
    assert ended.stderr.startswith("error: edited_norm.py: changed since the tries")
    file.write_text(MODULE.format("return x * self.w  # the same"))
    source_of.cache_clear()
    assert trial_in(tmp_path / "runs", "edited_norm:Spoilt").entrant == trial.entrant


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"cannot be written: Not a directory$"):
        dispatch(["trial", "rmsnorm", f"beds={BEDS}", f"runs={tmp_path / 'file'}"])


@pytest.mark.records
def test_the_page_of_the_arena_shows_the_records() -> None:
    content = (PROJECT / "docs" / "arena.md").read_text("utf-8")
    assert f"-->\n{arena_page(load_rules())}<!-- /arena -->" in content


def test_an_entry_is_contributed_merged_and_contested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for task in ("mnist", "rt"):
        (tmp_path / "here" / task / "rmsnorm").mkdir(parents=True)
    tables = []
    for name, lead in (("first", 2.0), ("second", -2.0)):
        record_trial(tmp_path / name, lead)
        file = tmp_path / f"{name}.gz"
        dispatch(["contribute", str(tmp_path / name), f"output={file}", f"by=Author {name}"])
        dispatch(["merge", str(file), f"runs={tmp_path / 'here'}"])
        capsys.readouterr()
        tables.append(arena_page(load_rules(str(BEDS)), str(tmp_path / "here")))
    assert max(map(len, tables[1].splitlines())) <= 80
    assert tables[0].startswith("- **1.** RMSNorm +2.10\n\n")
    assert "| RMSNorm | better | +2.10 | +0." in tables[0]
    assert tables[1].startswith("- **1.** RMSNorm +2.10\n- **2.** RMSNorm -1.90\n")
    assert "| RMSNorm | better, contested | +2.10 |" in tables[1]
    assert "| RMSNorm | worse, contested | -1.90 |" in tables[1]
    assert re.search(r"by Author\s+first, 20", tables[1])
    assert "\nNot run yet: AdaNorm.\n" in tables[1]
    again = f"output={tmp_path / 'again.gz'}"
    with pytest.raises(ValueError, match="came with the contribution"):
        dispatch(["contribute", str(tmp_path / "here"), again])
    with pytest.raises(ValueError, match="'this repository' is taken"):
        dispatch(["contribute", str(tmp_path / "first"), again, "by=this repository"])


def test_norms_that_are_not_told_apart_share_a_line(tmp_path: Path) -> None:
    for norm, lead in (("rmsnorm", 2.0), ("adanorm", 0.1), ("none", -3.0)):
        record_trial(tmp_path, lead, norm=norm)
    lines = arena_page(load_rules(str(BEDS)), str(tmp_path)).splitlines()
    assert lines[:2] == ["- **1.** RMSNorm +2.10, AdaNorm +0.25", "- **3.** w/o Norm -2.90"]
    # An equivalent norm has the narrow interval, which lies within one margin.
    assert "| AdaNorm | equivalent | +0.25 | -0.40 to +0.90 | 3 | 2 (2) |" in lines
