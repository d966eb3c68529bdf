import re
import subprocess
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.paths import PROJECT, choices
from adanorm.config.titles import title
from adanorm.norms import norm_factory
from adanorm.reporting.figures.catalogue import figures
from adanorm.reporting.tables.table import Table
from adanorm.studies.study import load_studies, load_study, plan_runs, study_grid
from scripts.norm_guide import GUIDE
from tests.conftest import Command


@pytest.mark.parametrize("name", choices("study"))
def test_every_study_loads_and_its_runs_compose(name: str) -> None:
    study = load_study(name)
    grid = study_grid(study)
    assert list(grid) == [(norm, task) for task in study.columns for norm in study.rows]
    for (row, task), plan in grid.items():
        only = study.rows[row].only or study.columns
        has_runs = task in only and not study.rows[row].undefined
        assert len(plan.runs) == has_runs * len(study.seeds) * (len(study.budget_of(row)) or 1)
    planned = plan_runs(grid)
    folders = {run.folder() for plan in grid.values() for run in plan.runs}
    assert {run.experiment.folder() for run in planned} == folders
    assert planned[0].experiment.seed == study.seeds[0]
    for run in (planned[0], planned[-1]):
        assert compose_experiment(run.arguments).digest == run.experiment.digest


def test_the_rows_marked_undefined_are_those_that_cannot_be_trained() -> None:
    study = load_study("batch-size")
    for row in (row for row in study.rows.values() if row.at in (1, 2)):
        run = compose_experiment(
            ["task=mnist", f"norm={row.norm}", *row.overrides, study.overrides[-1]]
        )
        assert run.data.model_dump()["batch_size"] == row.at
        trial = norm_factory(run.norm.choice).trial
        assert bool(run.model.sites().why_unsupported(trial, int(row.at or 0))) == bool(
            row.undefined
        )


def test_the_study_of_every_norm_has_every_norm_of_the_guide() -> None:
    sections = set(re.findall(r"<!-- facts: (\S+) -->", GUIDE.read_text()))
    assert {row.norm for row in load_study("beyond").rows.values()} >= sections


def test_two_experiments_never_share_a_name() -> None:
    """A column's title, a row's label and a scale lead to one experiment, whichever tables print them."""
    named: dict[tuple[str, ...], set[str]] = {}
    for study in load_studies().values():
        table = Table(study, study_grid(study))
        for (row, task), plan in table.grid.items():
            if plan.candidates and not study.tries:
                name = (table.columns[task].title, title(row), study.scale)
                run = plan.runs[0].model_copy(update={"seed": 1})
                named.setdefault(name, set()).add(run.digest)
    assert {name for name, digests in named.items() if len(digests) > 1} == set()


def test_one_study_makes_the_readme_and_one_per_scale_the_curves() -> None:
    studies = load_studies()
    assert sum("readme" in study.roles for study in studies.values()) == 1
    drawn = [study for study in studies.values() if "curves" in study.roles]
    scales = sorted(study.scale for study in drawn if study.over is None)
    assert scales == ["mini", "paper", "small"]
    assert {f"curves-de-en-{scale}" for scale in scales} <= figures().keys()
    assert "curves-rt-small" not in figures(), "RT has no such scale"


def test_studies_come_in_the_order_that_they_say_and_then_by_name() -> None:
    names = list(load_studies())
    assert names[:7] == ["overview", "figure1", "figure2", "table1", "table2", "table3", "table4"]
    assert names[7:] == sorted(names[7:])


OWN = "title: t\nrows: {one: {norm: adanorm, ROW}}\ncolumns: [rt]\nscale: smoke\nseeds: [1]\n"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "overrides: [norm.params.q=1]",
            "row 'one': norm.params.q=1: adanorm has no such parameter",
        ),
        (
            "budget: [norm.params.k=a, norm.params.k=0.1]",
            "row 'one': norm.params.k='a': must be a number",
        ),
        (
            "overrides: [training.lr=-1]",
            "row 'one': training.lr=-1: input should be greater than 0",
        ),
        ("only: [mnist]", "unknown column 'mnist': choose from rt"),
        ("only: [", "own.yaml: while parsing a flow"),
        (
            "budget: [training.lr=0.001, training.lr=1e-3]",
            "training.lr=1e-3 of its budget are one setting",
        ),
    ],
)
def test_a_mistake_in_a_row_is_named_before_any_work(
    tmp_path: Path, command: Command, row: str, message: str
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(OWN.replace("ROW", row))
    done = command("study", str(own), f"runs={tmp_path / 'runs'}")
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert message in done.stderr
    assert not (tmp_path / "runs").exists()


def test_every_cell_gets_its_first_seed_before_any_gets_its_second_and_rows_share_a_run() -> None:
    study = load_study("ablation-k")
    seeds = [run.experiment.seed for run in plan_runs(study_grid(study))]
    assert seeds == [1] * 15 + [2] * 15 + [3] * 15
    twice = study.model_copy(update={"rows": {**study.rows, "again": study.rows["k=0.1"]}})
    assert len(plan_runs(study_grid(twice))) == 45


def test_settings_of_a_column_apply_to_its_runs_alone_and_leave_the_papers_number_out() -> None:
    study = load_study("heirs")
    assert study.column_overrides == {"mnist": ("model.hidden=null",)}
    grid = study_grid(study)
    own = study_grid(study.model_copy(update={"column_overrides": {}}))
    differ = {task for (row, task), plan in grid.items() if plan.runs != own[row, task].runs}
    assert differ == {"mnist"}
    assert grid["layernorm", "mnist"].runs[0].model.hidden is None  # type: ignore[attr-defined]
    # The only setting of a row there is AdaNorm's C.
    C = {
        (row, task): plan.runs[0].norm.params["C"]
        for (row, task), plan in grid.items()
        if row == "adanorm"
    }
    assert C == {("adanorm", "rt"): 1.5, ("adanorm", "sst5"): 0.8, ("adanorm", "mnist"): 1}
    table = Table(study, grid)
    assert [bool(table.paper("layernorm", task)) for task in study.columns] == [True, True, False]
    assert table.verdict("layernorm", "mnist") == ""


RULE = "rows: [adanorm, none]\nrule: {families: {all: [[adanorm, none]]}"


MISSPELLED = "titel: t\nrows: [layernorm]\ncolumns: [gaussian]\nscale: smoke\nseeds: [1]\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *(
            (content, "holds no `key: value`")
            for content in ("", "# nothing\n", "- a\n", "just words", "1")
        ),
        (
            MISSPELLED,
            "titel='t': extra inputs are not permitted",
        ),  # rather than that `title` is missing
    ],
)
def test_a_file_that_is_no_study_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "own.yaml").write_text(content)
    with pytest.raises(ValueError, match=rf"own\.yaml: {message}"):
        load_study(str(tmp_path / "own.yaml"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rows: [layernom]", "unknown norm 'layernom': choose from adanorm"),
        ("column_overrides: {rt: [training.lr=1]}", "unknown column 'rt': choose from mnist"),
        (
            "rows: {a: {norm: adanorm, column_overrides: {rt: [training.lr=1]}}}",
            "unknown column 'rt'",
        ),
        ("column_overrides: {mnist: [seed=1]}", "seed=1: may not change the seed of a run"),
        ("columns: [mnits]", "unknown task 'mnits': choose from cifar10, de-en"),
        ("scale: big", "scale='big': input should be 'paper', 'open', 'small', 'mini' or 'smoke'"),
        ("seed: [1]", "seed=.*extra inputs are not permitted"),
        (
            "improvements: [[none, adanorm]]",
            "unknown row of the improvements 'none': choose from adanorm",
        ),
        ("improvements: [[adanorm, adanorm]]", "improvement of 'adanorm' over itself"),
        ("budget: [training.lr=1, training.lr=1]", "budget: 'training.lr=1' is named twice"),
        ("overrides: ['training.lr=${seed}']", "may not refer to another setting: write its value"),
        ("rows: {'a|b': {norm: adanorm}}", r"'a\|b': \| ends a column of a table"),
        ("rows: {' adanorm': {norm: adanorm}}", "' adanorm': write a word or more, in one line"),
        (
            "rows: {AdaNorm: {norm: none}}",
            "row 'AdaNorm': tables call adanorm this; its norm is none",
        ),
        ("rows: {AdaNorm: {norm: adanorm}, adanorm: {norm: adanorm}}", "'AdaNorm' is named twice"),
        ('title: "a\\nb"', r"title: 'a\\nb': write a word or more, in one line"),
        (
            "rows: {0.1: {norm: adanorm}, 0.10: {norm: none}}",
            "'0.10' is given twice, again in line 5",
        ),
        ("rows: {yes: {norm: adanorm}}", "reads a key as True, not as text: put it in quotes"),
        ("rows: [[adanorm], none]", r"\['adanorm'\] in a list of norms"),
        ("rule: {families: {f: [[adanorm, adanorm]]}}", "compares a row with itself"),
        (
            "rule: {families: {f: [[a, none], [none, a]]}}",
            "compared twice, in one direction or the other",
        ),
        (
            "rows: {u: {norm: none, undefined: why}, a: {norm: adanorm}, b: {norm: none, undefined: why}}\n"
            "rule: {families: {f: [[a, b]]}}",
            "row 'b' of the rule has no runs: it is undefined",
        ),
        ("seeds: [1, 2, 1]", r"study .*own\.yaml: seeds: 1 is named twice"),
        ("seeds: []", r"seeds=\[\]: list should have at least 1 item"),
        ("seeds: [-1]", r"seeds\.0=-1: input should be greater than or equal to 0"),
        ("seeds: [99999999999]", r"seeds\.0=99999999999: input should be less than"),
        ("seeds: [true]", "seeds=true: must be a number"),
        ("seeds: ['1_0']", "seeds='1_0': write numbers without _"),
        ("rows: {a: {norm: adanorm, at: '1_0'}}", "at='1_0': write numbers without _"),
        ("columns: [mnist, mnist]", "columns: 'mnist' is named twice"),
        ("rows: [adanorm, adanorm]", "rows: 'adanorm' is named twice"),
        ("overrides: [updates=2]", "overrides: updates=2: may not change the updates of a run"),
        ("budget: [norm.name=layernorm]", "budget: norm.name=layernorm: may not change"),
        (
            "rows: {a: {norm: adanorm, overrides: [+task=rt]}}",
            r"rows\.a\.overrides: \+task=rt: may not",
        ),
        (
            "rows: {a: {norm: adanorm, at: 2}, b: {norm: adanorm, at: 2}}\nover: size",
            "rows 'a' and 'b': one norm at size 2: give each a panel",
        ),
        ("rows: {a: {norm: adanorm}}\nover: data.batch_size", "lacks `at`, its data.batch_size"),
        (
            "rows: {a: {norm: adanorm}, b: {norm: adanorm}}\nshows: curves",
            "two rows have the same norm",
        ),
        (f"{RULE}, quantities: {{b: last_valid_loss}}}}", "quantities: no family 'b'"),
        (f"{RULE}, looks: [5, 3]}}", r"looks \[5, 3\]: must rise"),
        (
            f"{RULE}, conclusions: [{{says: so, where: [none, adanorm], found: better}}]}}",
            r"conclusion 'so': no family has \['none', 'adanorm'\]",
        ),
        (
            "rule: {families: {all: [[none, adanorm]]}}",
            "unknown row of the rule 'none': choose from adano",
        ),
        (
            "rows: {a: {norm: adanorm, overrides: ['norm=ü']}}",
            "cannot be read; write a value with other",
        ),
    ],
)
def test_a_mistake_in_a_study_is_named(tmp_path: Path, change: str, message: str) -> None:
    base = "title: t\nrows: [adanorm]\ncolumns: [mnist]\nscale: smoke\nseeds: [1]\n"
    key = change.partition(":")[0]
    lines = [line for line in base.splitlines() if not line.startswith(f"{key}:")]
    (tmp_path / "own.yaml").write_text("\n".join([*lines, change]))
    with pytest.raises(ValueError, match=message):
        load_study(str(tmp_path / "own.yaml"))


@pytest.mark.usefixtures("_quick_start")
def test_a_study_runs_what_is_missing_and_prints_its_table(
    tmp_path: Path, command: Command
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "title: t\nrows: [none, adanorm]\ncolumns: [mnist, rt]\nscale: paper\nseeds: [1]\n"
    )
    arguments = (str(own), "scale=smoke", "seeds=1", "workers=2", f"runs={tmp_path}")
    done = command("study", *arguments)
    assert done.returncode == 0, done.stderr
    assert (
        "4 runs, 0 completed before, 4 to run\n2 workers of 1 thread each, about 1 min on"
        in done.stdout
    )
    assert "AdaNorm" in (tmp_path / "tables" / "own-own-smoke.md").read_text()
    again = command("study", *arguments)
    assert "4 runs, 4 completed before, 0 to run" in again.stdout
    *lines, files = again.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert files == f"{tmp_path / 'tables' / 'own-own-smoke.md'} and .csv"


def test_help_is_what_plain_make_prints() -> None:
    text = subprocess.run(
        ["make", "-s"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout
    for target in (
        "reproduce",
        "data",
        "list",
        "study",
        "status",
        "tables",
        "check-norm",
        "check",
        "clean",
    ):
        assert f"\n  {target} " in text
    assert max(len(line) for line in text.splitlines()) <= 80
