"""Every command in README and docs is run, at smoke scale and into a temporary folder."""

import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
import yaml

from adanorm.analyses.spec import load_analysis
from adanorm.cli.command import COMMANDS, OTHER_NAMES, command_name, dispatch
from adanorm.config.compose import cached_experiment, compose_experiment
from adanorm.config.data_sections import SPLITS
from adanorm.config.paths import CONF, PROJECT, choices
from adanorm.records import reader
from adanorm.records.environment import numerics_version
from adanorm.records.lines import RECORD
from adanorm.runs.execute import compatible_norm
from adanorm.studies.study import load_study
from tests.faults.data_files import write_good_files

PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted(PROJECT.glob("docs/**/*.md"))]
WRITES_RESULTS = (
    "tables",
    "figures",
    "report",
    "baselines",
)  # committed: they have tests of their own
AT_SMOKE_SCALE = {
    "run", "study", "status", "data", "plan", "compare", "predict", "analyze", "verify",
}  # fmt: skip
TAKES_A_BUDGET = "trial"  # tests/trials has one made in an empty folder
NEEDS_A_CLUSTER = ("launcher=ray", "launcher=slurm")
REPLACED = ("scale", "runs", "workers", "gpus")
# Kept small: a smoke run has few updates.
SMALLER = {"steps": "20", "every": "10", "probes": "2", "length": "20", "samples": "20"}
FEWER = {"1,2,3": "1,2"}  # seeds


def documented() -> list[str]:
    """Return the commands in the shell blocks of the pages, each once, without comments."""
    text = "\n".join(page.read_text() for page in PAGES)
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    lines = (
        re.sub(r"\s+#.*$", "", line).strip() for line in blocks.replace("\\\n", " ").splitlines()
    )
    return list(dict.fromkeys(filter(None, lines)))


@cache
def of_make(line: str) -> list[list[str]]:
    """Return the command lines of `adanorm` that a target of make runs, without running them."""
    command = ["make", "-n", "-s", "PYTHON=python3", *shlex.split(line)[1:]]
    printed = subprocess.check_output(command, cwd=PROJECT, text=True)
    lines = [shlex.split(entry) for entry in printed.splitlines() if " -m adanorm " in entry]
    return [words[words.index("adanorm") + 1 :] for words in lines]


def command_lines() -> list[str]:
    lines = {
        what_runs(*words): shlex.join(words)
        for words in documented_words()[::-1]
        if may_run(*words)
    }
    return list(reversed(lines.values()))


def documented_words() -> list[list[str]]:
    """Return the command lines of `adanorm` that the pages name, those of targets of make among them."""
    lines = []
    for line in documented():
        words = shlex.split(line)
        if words[0] == "make":
            lines += of_make(line)
        elif words[0].endswith("adanorm"):
            lines.append(words[1:])
    return lines


def what_runs(command: str, *arguments: str) -> tuple[str, ...]:
    """Return a key of a command at smoke scale: of commands with equal keys, one runs.

    Studies differ in their grids, but only a corner of a grid runs: one shipped study, and one's
    own. Runs differ by their task and their keys: norms and seeds change no path.
    """
    rest = [entry for entry in arguments if entry.partition("=")[0] not in REPLACED]
    keys = sorted({entry.partition("=")[0] for entry in rest} - {"norm", "seed"})
    if command in ("study", "status") and arguments:
        return command, "own" if arguments[0].endswith(".yaml") else "shipped"
    if command == "compare":
        return command, *keys
    if command in ("predict", "run"):
        tasks = [entry for entry in rest if entry.startswith("task=")]
        return command, *(tasks if "-m" not in rest else ()), *keys
    return command, *rest


def may_run(command: str, *arguments: str) -> bool:
    """Return whether a command leaves the committed results alone and takes a few runs."""
    if command == TAKES_A_BUDGET:
        return False
    return command not in WRITES_RESULTS or any(entry.startswith("metric=") for entry in arguments)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files that the pages name: a norm, and data of every format."""
    for page, language in (
        ("howto/your-norm", "python"),
        ("tutorial", "python"),
        ("studies", "yaml"),
    ):
        text = (PROJECT / "docs" / f"{page}.md").read_text()
        ((own, name),) = re.findall(
            rf"^```{language}\n(# ([\w-]+\.\w+)\n.*?)^```", text, re.MULTILINE | re.DOTALL
        )
        (tmp_path / name).write_text(own)
    write_data(tmp_path, tmp_path / "my", random.Random(0))
    scores = (
        (PROJECT / "docs" / "verdicts.md").read_text().partition("```csv\n")[2].partition("```")[0]
    )
    (tmp_path / "scores.csv").write_text(scores)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("my_norms", "centered"):
        sys.modules.pop(name, None)


def write_data(folder: Path, my: Path, source: random.Random) -> None:
    for name in ("fashion-mnist", "cifar-10-batches-bin", "wsj"):
        (my / name).mkdir(parents=True)
    write_good_files("images", my / "fashion-mnist")
    for kind in ("pairs", "sentences", "trees"):
        write_good_files(kind, my)
    for split, name in zip(SPLITS, "abc", strict=True):
        for end in ("tsv", "conllu"):
            (my / f"{split}.{end}").rename(folder / f"{name}.{end}")
    trees = (folder / "a.conllu").read_text().partition("\n\n")[0] + "\n\n"
    for section in range(2, 24):
        (my / "wsj" / f"wsj_{section:02}01.conllx").write_text(2 * trees)
    for name in ("data_batch_1", "test_batch"):
        images = [bytes([n % 10]) + source.randbytes(3072) for n in range(200)]
        (my / "cifar-10-batches-bin" / f"{name}.bin").write_bytes(b"".join(images))
    (my / "text.txt").write_bytes(source.randbytes(20_000))
    (folder / "in.conllu").write_text(2 * trees)
    (folder / "in.txt").write_text("a b c\nd e\n")


def at_smoke_scale(arguments: list[str], folder: Path) -> list[str]:
    """Return a command line with scale, folder of the records and sizes replaced."""
    changed = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if key in REPLACED:
            continue
        smaller = FEWER.get(value, value) if key == "seed" else SMALLER.get(key, value)
        changed.append(f"{key}={smaller}" if equals else argument)
    return [*changed, "scale=smoke", f"runs={folder / 'runs'}"]


def as_if_ended(runs: Path) -> Path:
    """Write a kept run's line into its folder in `runs`, where it is when the run has just ended."""
    name = Path("rt", "adanorm", "paper-seed47-c675299e")
    line = reader.record(PROJECT / "results" / "runs" / name).line
    assert line is not None
    (runs / name).mkdir(parents=True)
    (runs / name / RECORD).write_bytes(line.as_text())
    return runs / name


@pytest.mark.usefixtures("_quick_start")
@pytest.mark.parametrize("line", command_lines())
def test_a_documented_command_runs(
    workplace: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *arguments = shlex.split(line)
    command = command_name(command)
    if any(launcher in arguments for launcher in NEEDS_A_CLUSTER):
        arguments = [entry for entry in arguments if not entry.startswith("launcher")]
    if line == "status":
        arguments = [f"runs={workplace / 'runs'}"]
    elif command in ("study", "status"):
        arguments[0] = small_study(workplace, arguments[0])
        arguments = ["task=mnist" if entry.startswith("task=") else entry for entry in arguments]
    if line != "status" and command in AT_SMOKE_SCALE:
        arguments = at_smoke_scale(arguments, workplace)
    if command == "data":
        arguments.pop()
    if command in ("keep", "contribute", "merge"):
        ended = as_if_ended(workplace / "runs")
    if command == "keep":
        is_one_run = "/" in arguments[0]
        arguments = [str(ended) if is_one_run else "runs", f"into={workplace / 'store'}"]
    if command == "merge":
        assert dispatch(["contribute", "runs", f"output={arguments[0]}"]) == 0
        arguments.append(f"runs={workplace / 'store'}")
    if command == "verify":  # a record of this machine
        assert dispatch(["run", *arguments]) == 0
        arguments.append(f"into={workplace / 'repeated'}")
    if "data.path=my/cifar-10-batches-bin" in arguments:
        arguments += ["data.valid_size=20", "data.train_images=null"]
    if command in ("predict", "compare"):
        complete_what_is_needed(command, arguments)
    assert dispatch([command, *arguments]) == 0
    assert capsys.readouterr().out or any(entry.startswith("output=") for entry in arguments)


def test_the_run_that_the_pages_repeat_has_the_numerics_of_this_code() -> None:
    """Otherwise no machine could repeat it to the bit."""
    (line,) = {line for line in documented() if line.startswith("adanorm verify ")}
    run = compose_experiment([*shlex.split(line)[2:], f"runs={PROJECT / 'results/runs'}"])
    recorded = reader.record(run.folder()).environment["numerics_version"]
    assert recorded == numerics_version(run.norm.name, run.model.name, torch.device("cpu"))


def small_study(folder: Path, name: str) -> str:
    """Return a study of the first row and column of another."""
    path = folder / name if name.endswith(".yaml") else CONF / "study" / f"{name}.yaml"
    study = yaml.safe_load(path.read_text())
    rows = study["rows"]
    study["rows"] = rows[:1] if isinstance(rows, list) else dict(list(rows.items())[:1])
    study |= {"columns": ["mnist"], "seeds": [1], "improvements": []}
    (folder / "small.yaml").write_text(
        yaml.safe_dump({k: v for k, v in study.items() if k != "overrides"})
    )
    return str(folder / "small.yaml")


def complete_what_is_needed(command: str, arguments: list[str]) -> None:
    """Complete the runs whose weights or outputs a command needs."""
    own = ("input", "output", "norm", "seed", "samples", "length", "metric")
    settings = [entry for entry in arguments if entry.partition("=")[0] not in own]
    values = dict(entry.split("=", 1) for entry in arguments if "=" in entry)
    for norm in values["norm"].split(","):
        for seed in values.get("seed", "1").split(","):
            dispatch(["run", *settings, f"norm={norm}", f"seed={seed}"])


def test_every_command_is_documented() -> None:
    named = {command_name(words[0]) for words in documented_words()}
    assert named == {*COMMANDS, *OTHER_NAMES.values()}


def test_every_study_has_a_row_in_the_page_of_studies() -> None:
    page = (PROJECT / "docs" / "studies.md").read_text()
    first_cells = "".join(re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE))
    assert set(re.findall(r"`([^`]+)`", first_cells)) == {*choices("study")}


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(((?!http)[^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert page.parent.joinpath(target).exists(), f"{page}: {target}"


DECIMAL = re.compile(r"(?<![\w.])[-+]?\d*\.\d+")
RESULTS_PAGE = (PROJECT / "docs" / "results.md").read_text("utf-8")
RESULT = re.compile(r"\.\./(results/[\w/-]+)\.(?:md|svg)")  # a figure's caption lies beside it


@pytest.mark.parametrize(
    "section", RESULTS_PAGE.split("\n## "), ids=lambda text: text.partition("\n")[0]
)
def test_numbers_in_a_section_of_the_results_stand_in_what_it_links(section: str) -> None:
    links = RESULT.findall(
        RESULTS_PAGE if section.startswith("# ") else section
    )  # opens with all findings
    linked = "".join((PROJECT / f"{path}.md").read_text("utf-8") for path in links)
    numbers = [abs(float(number)) for number in DECIMAL.findall(linked)]
    prose = re.sub(r"`[^`]*`|arXiv \S+|\]\([^)]*\)", "", section)
    for number in DECIMAL.findall(prose):
        decimals = len(number.partition(".")[2])
        assert any(round(value, decimals) == abs(float(number)) for value in numbers), number


def test_every_idea_has_the_module_the_test_and_the_command_that_its_line_names() -> None:
    lines = (PROJECT / "docs" / "ideas.md").read_text().splitlines()
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines if line[:2] == "| "
    ]
    ideas = [row for row in rows if row[0] not in ("idea", "---")]
    assert len(ideas) > 40
    for idea, module, test, command in ideas:
        assert (PROJECT / "src" / "adanorm" / module).is_file(), idea
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in (PROJECT / "tests" / file).read_text(), idea
        _, verb, *arguments = shlex.split(command)
        if verb == "run":
            compatible_norm(cached_experiment(arguments))
        elif verb == "study":
            load_study(*arguments)
        elif verb == "analyze":
            load_analysis(arguments[0])
            cached_experiment([entry for entry in arguments[1:] if "," not in entry])
        else:
            assert verb in ("check-norm", "list"), command
