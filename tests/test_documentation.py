"""Every command in README and docs is run, at smoke scale and into a temporary folder."""

from __future__ import annotations

import gzip
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml

from adanorm.analyses.spec import load_analysis
from adanorm.cli.command import COMMANDS, OTHER_NAMES, command_name, dispatch
from adanorm.config.compose import cached_experiment
from adanorm.config.paths import CONF, PROJECT
from adanorm.models.norm_sites import compatible_norm
from adanorm.studies.study import load_study
from tests.trees import projective

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(p.relative_to(PROJECT)) for p in PROJECT.glob("docs/**/*.md")),
]
WRITES_RESULTS = (
    "tables",
    "figures",
    "report",
    "baselines",
)  # their committed outputs have tests of their own
TAKES_MANY_SEEDS = "until=decided"  # tests/launch/test_until.py follows such a plan
TAKES_A_BUDGET = "scorecard"  # tests/scorecards has one made in an empty folder
NEEDS_A_CLUSTER = ("launcher=ray", "launcher=slurm")
REPLACED = ("scale", "runs", "workers", "gpus")
# Kept small: a smoke run has few updates.
SMALLER = {"steps": "20", "every": "10", "probes": "2", "length": "20", "samples": "20"}
FEWER = {"1,2,3": "1,2"}  # seeds
SMALL_CIFAR = ["data.valid_size=20", "data.train_images=null"]


def documented() -> list[str]:
    """Return the commands in the shell blocks of the pages, each once, without comments."""
    found: dict[str, None] = {}
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", (PROJECT / page).read_text(), re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                found.setdefault(re.sub(r"\s+#.*$", "", line).strip())
    return [line for line in found if line]


@cache
def of_make(line: str) -> list[list[str]]:
    """Return the command lines of `adanorm` that a target of make runs, without running them."""
    printed = subprocess.run(
        ["make", "-n", "-s", "PYTHON=python3", *shlex.split(line)[1:]],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = [shlex.split(found) for found in printed.splitlines() if " -m adanorm " in found]
    return [words[words.index("adanorm") + 1 :] for words in lines]


def command_lines() -> list[str]:
    lines = []
    for line in documented():
        words = shlex.split(line)
        if words[0] == "make":
            lines += [shlex.join(found) for found in of_make(line)]
        elif words[0].endswith("adanorm"):
            lines.append(shlex.join(words[1:]))
    different = {what_runs(line): line for line in reversed(lines) if may_run(line)}
    return list(reversed(different.values()))


def what_runs(line: str) -> tuple[str, ...]:
    """Return what tells a command from others once it is at smoke scale.

    Studies differ in their grids, of which a corner is run: one study of each choice of keys.
    """
    command, *arguments = shlex.split(line)
    if command in ("study", "status") and arguments:
        return command, "STUDY", *sorted(keys_of(line))
    return command, *(entry for entry in arguments if entry.partition("=")[0] not in REPLACED)


def may_run(line: str) -> bool:
    """Return whether a command leaves the committed results alone and takes a few runs."""
    command, *arguments = shlex.split(line)
    if TAKES_MANY_SEEDS in arguments or command == TAKES_A_BUDGET:
        return False
    return command not in WRITES_RESULTS or any(entry.startswith("metric=") for entry in arguments)


def keys_of(line: str) -> set[str]:
    """Return the keys that a command line sets."""
    keys = {word.partition("=")[0] for word in shlex.split(line) if "=" in word}
    return {key for key in keys if not key.startswith("launcher") and key not in REPLACED}


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files that the pages name: a norm, and data of every format."""
    (tmp_path / "my").mkdir()
    for page in ("docs/howto/your-norm.md", "docs/tutorial.md"):
        text = (PROJECT / page).read_text()
        ((name, norm),) = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        (tmp_path / name).write_text(norm)
    studies = (PROJECT / "docs" / "studies.md").read_text()
    (study,) = re.findall(r"^```yaml\n(# my-study.yaml\n.*?)^```", studies, re.MULTILINE | re.DOTALL)
    (tmp_path / "my-study.yaml").write_text(study)
    write_sentences(tmp_path)
    write_images(tmp_path / "my")
    write_trees(tmp_path)
    (tmp_path / "my" / "text.txt").write_bytes(random.Random(0).randbytes(20_000))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("my_norms", "centered"):
        sys.modules.pop(name, None)


def write_sentences(folder: Path) -> None:
    source = random.Random(0)
    words = ["alpha", "beta", "gamma", "delta", "omega"]
    texts = [" ".join(source.choice(words) for _ in range(6)) for _ in range(200)]
    for name, part in (("a", texts[:100]), ("b", texts[100:150]), ("c", texts[150:])):
        (folder / f"{name}.tsv").write_text(
            "".join(f"{'ad'[i % 2]}\t{text}\n" for i, text in enumerate(part))
        )
    for split, part in (("train", texts[:100]), ("valid", texts[100:150]), ("test", texts[150:])):
        for language in ("de", "en"):
            (folder / "my" / f"{split}.{language}").write_text("".join(f"{text}\n" for text in part))
    (folder / "in.txt").write_text("a b c\nd e\n")


def write_images(folder: Path) -> None:
    (folder / "fashion-mnist").mkdir()
    random_numbers = np.random.default_rng(0)
    for name, count in (("train", 400), ("t10k", 64)):
        pixels = random_numbers.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = random_numbers.integers(0, 4, count, dtype=np.uint8)
        for kind, values in (("images-idx3", pixels), ("labels-idx1", labels)):
            header = bytes([0, 0, 8, values.ndim]) + b"".join(
                size.to_bytes(4, "big") for size in values.shape
            )
            path = folder / "fashion-mnist" / f"{name}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(header + values.tobytes()))
    (folder / "cifar-10-batches-bin").mkdir()
    for name in ("data_batch_1", "test_batch"):
        rows = random_numbers.integers(0, 256, (200, 3073), dtype=np.uint8)
        rows[:, 0] %= 10
        (folder / "cifar-10-batches-bin" / f"{name}.bin").write_bytes(rows.tobytes())


def write_trees(folder: Path) -> None:
    def sentence(seed: int) -> str:
        tree = projective(5, seed, labels=("nsubj", "obj"))
        rows = enumerate(zip(tree.words, tree.tags, tree.heads, tree.labels or (), strict=True), 1)
        return "".join(
            f"{i}\t{word}\t_\tNOUN\t{tag}\t_\t{head}\t{label if head else 'root'}\t_\t_\n"
            for i, (word, tag, head, label) in rows
        )

    for name, seeds in (("a", range(40)), ("b", range(40, 50)), ("c", range(50, 60)), ("in", range(60, 62))):
        (folder / f"{name}.conllu").write_text("".join(f"{sentence(seed)}\n" for seed in seeds))
    (folder / "my" / "wsj").mkdir()
    for section in (*range(2, 22), 22, 23):
        (folder / "my" / "wsj" / f"wsj_{section:02}01.conllx").write_text(f"{sentence(section)}\n" * 2)


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


@pytest.mark.usefixtures("_quick_start")
@pytest.mark.parametrize("line", command_lines())
def test_a_documented_command_runs(workplace: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *arguments = shlex.split(line)
    command = command_name(command)
    if any(launcher in arguments for launcher in NEEDS_A_CLUSTER):
        arguments = [entry for entry in arguments if not entry.startswith("launcher")]
    if line == "status":
        arguments = [f"runs={workplace / 'runs'}"]
    elif command in ("study", "status"):
        arguments[0] = small_study(workplace, arguments[0])
        arguments = ["task=mnist" if entry.startswith("task=") else entry for entry in arguments]
    if line != "status" and command in (
        "run",
        "study",
        "status",
        "data",
        "plan",
        "compare",
        "translate",
        "parse",
        "sample",
        "analyze",
        "verify",
    ):
        arguments = at_smoke_scale(arguments, workplace)
    if command == "data":
        arguments.pop()
    if command == "keep":
        assert dispatch(["open", "/".join(Path(arguments[0]).parts[1:]), "opened"]) == 0
        arguments.append(f"into={workplace / 'store'}")
    if command == "verify":  # a record of this machine
        assert dispatch(["run", *arguments]) == 0
        arguments.append(f"into={workplace / 'repeated'}")
    if "data.path=my/cifar-10-batches-bin" in arguments:
        arguments += SMALL_CIFAR
    if command in ("translate", "parse", "sample", "compare"):
        complete_what_is_needed(command, arguments)
    assert dispatch([command, *arguments]) == 0
    assert capsys.readouterr().out or any(entry.startswith("output=") for entry in arguments)


def small_study(folder: Path, name: str) -> str:
    """Return a study of the first row and column of another."""
    path = folder / name if name.endswith(".yaml") else CONF / "study" / f"{name}.yaml"
    study = yaml.safe_load(path.read_text())
    rows = study["rows"]
    study["rows"] = rows[:1] if isinstance(rows, list) else dict(list(rows.items())[:1])
    study |= {"columns": ["mnist"], "seeds": [1], "improvements": []}
    (folder / "small.yaml").write_text(yaml.safe_dump({k: v for k, v in study.items() if k != "overrides"}))
    return str(folder / "small.yaml")


def complete_what_is_needed(command: str, arguments: list[str]) -> None:
    """Complete the runs whose weights or outputs a command needs."""
    own = ("input", "output", "norm", "seed", "samples", "length", "metric")
    settings = [entry for entry in arguments if entry.partition("=")[0] not in own]
    given = dict(entry.split("=", 1) for entry in arguments if "=" in entry)
    for norm in given["norm"].split(","):
        for seed in given.get("seed", "1").split(","):
            dispatch(["run", *settings, f"norm={norm}", f"seed={seed}"])


def test_every_command_is_documented() -> None:
    named = {command_name(line.split()[1]) for line in documented() if line.startswith("adanorm ")}
    named |= {
        command_name(found[0]) for line in documented() if line.startswith("make ") for found in of_make(line)
    }
    assert named == {*COMMANDS, *OTHER_NAMES.values()}


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (PROJECT / page).read_text()):
            if not target.startswith("http"):
                assert (PROJECT / page).parent.joinpath(target).exists(), f"{page}: {target}"


DECIMAL = re.compile(r"(?<![\w.])[-+]?\d*\.\d+")
RESULTS_PAGE = (PROJECT / "docs" / "results.md").read_text("utf-8")
RESULT = re.compile(r"\.\./(results/[\w/-]+)\.(?:md|svg)")  # a figure's caption lies beside it


@pytest.mark.parametrize("section", RESULTS_PAGE.split("\n## "), ids=lambda text: text.partition("\n")[0])
def test_numbers_of_a_section_of_the_results_stand_in_what_it_links(section: str) -> None:
    links = RESULT.findall(
        RESULTS_PAGE if section.startswith("# ") else section
    )  # it opens with all findings
    linked = "".join((PROJECT / f"{path}.md").read_text("utf-8") for path in links)
    known = [abs(float(number)) for number in DECIMAL.findall(linked)]
    prose = re.sub(r"`[^`]*`|arXiv \S+|\]\([^)]*\)", "", section)
    for number in DECIMAL.findall(prose):
        decimals = len(number.partition(".")[2])
        assert any(round(value, decimals) == abs(float(number)) for value in known), number


def ideas() -> list[list[str]]:
    """Return the cells of the lines of the tables in docs/ideas.md: idea, module, test, command."""
    lines = (PROJECT / "docs" / "ideas.md").read_text().splitlines()
    rows = [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in lines if line[:2] == "| "]
    return [row for row in rows if row[0] not in ("idea", "---")]


def test_every_idea_has_the_module_the_test_and_the_command_that_its_line_names() -> None:
    assert len(ideas()) > 40
    for idea, module, test, command in ideas():
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
