"""What scale=auto means: where the data are, where none can be had, and where there is a record."""

import shlex
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.runs.auto_scale import resolve_auto
from tests.conftest import Command
from tests.reporting.records import record, score

NOWHERE = ("data.mirror=nowhere", "data.mirrors=[]")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses of the network do not answer; a proxy that is not there refuses them at once."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)


@pytest.mark.parametrize(
    ("task", "scale", "others"),
    [
        ("en-de", "mini", ()),
        ("rt", "mini", ()),
        ("rt", "paper", ()),
        ("en-de", "mini", ("-m", "seed=1,2")),
    ],
)
def test_a_record_is_shown_where_no_data_can_be_had(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    task: str,
    scale: str,
    others: tuple[str, ...],
) -> None:
    chosen = [
        f"task={task}",
        "norm=adanorm",
        f"runs={tmp_path}",
        f"data.cache={tmp_path / 'data'}",
        *NOWHERE,
    ]
    scores = {"bleu": 30.0} if task == "en-de" else score(75.0)["test"]
    record(compose_experiment([*chosen, f"scale={scale}"]), test=scores)
    assert f"scale={scale}" in resolve_auto([*chosen, *others, "scale=auto", "device=cpu"])
    assert "its record is here" in capsys.readouterr().out


def test_a_command_that_needs_data_is_shown_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ["task=en-de", f"runs={tmp_path}", f"data.cache={tmp_path / 'data'}", *NOWHERE]
    record(compose_experiment([*chosen, "scale=mini"]), test={"bleu": 30.0})
    settings = [*chosen, "device=cpu", "scale=auto"]
    assert "preset=tatoeba-30k" in resolve_auto(settings, needs_data=True)
    assert "its record is here" not in capsys.readouterr().out


def test_the_committed_record_of_a_translation_is_shown_with_its_place(command: Command) -> None:
    done = command(
        "run",
        "task=en-de",
        "norm=adanorm",
        "scale=auto",
        "device=cpu",
        *NOWHERE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "already completed: results/runs/en-de/adanorm.jsonl, small-seed1-" in done.stdout


def test_the_best_record_of_smaller_scales_is_shown_with_how_to_repeat_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["task=en-de", "norm=adanorm", f"runs={tmp_path}", *NOWHERE]
    for scale in ("mini", "small"):
        record(compose_experiment([*settings, f"scale={scale}"]), test={"bleu": 30.0})
    assert "scale=small" in resolve_auto([*settings, "scale=auto", "device=cpu"])
    reason, *repeats = capsys.readouterr().out.splitlines()
    assert reason.startswith("scale small: at the paper's size a run of en-de takes about")
    for line, scale, span in zip(repeats, ("small", "mini"), ("36", "9"), strict=True):
        command = f"adanorm run task=en-de norm=adanorm {shlex.join(NOWHERE)}"
        assert f"{command} device=cpu scale={scale} runs=runs (about {span} min" in line
    swept = [*settings, "seed=1,2", "scale=auto", "device=cpu", "-m"]
    resolved = resolve_auto(swept)
    assert "scale=mini" in resolved, "seed 2 would train for an hour at small"
    assert resolved.index("scale=mini") == swept.index("scale=auto"), "in front of the flag"
    (_, repeat) = capsys.readouterr().out.splitlines()
    assert "to repeat it: adanorm run -m task=en-de norm=adanorm" in repeat
    assert "seed=1,2 device=cpu scale=mini runs=runs (about" in repeat


@pytest.mark.parametrize("others", [("--cfg", "job"), ("~norm.params.k",)])
def test_a_flags_value_and_a_deleted_setting_stay_as_they_are(others: tuple[str, ...]) -> None:
    chosen = ["task=mnist", "norm=adanorm", "seed=999", "device=cpu"]
    assert resolve_auto([*chosen, "scale=auto", *others])[-len(others) :] == [*others]


@pytest.mark.parametrize(
    ("task", "scale", "why"),
    [
        ("rt", "paper", "scale paper: a run of rt takes about"),
        ("ptb", "mini", "the Penn Treebank is licensed"),
    ],
)
def test_auto_is_the_papers_scale_where_its_data_are_and_mini_where_they_are_licensed(
    mirror: Path, capsys: pytest.CaptureFixture[str], task: str, scale: str, why: str
) -> None:
    chosen = [f"task={task}", "seed=999", "scale=auto", "device=cpu", f"data.mirror={mirror}"]
    assert f"scale={scale}" in resolve_auto(chosen)
    assert why in capsys.readouterr().out


def test_auto_is_mini_where_the_papers_data_cannot_be_had_or_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = ["seed=999", "scale=auto", f"data.cache={tmp_path}", *NOWHERE]
    assert "scale=mini" in resolve_auto(["task=mnist", *others])
    (line,) = capsys.readouterr().out.splitlines()
    assert "train-images-idx3-ubyte.gz cannot be had" in line
    assert "mnist-5k comes with the package, a run takes" in line
    with pytest.raises(ValueError, match=r"rt-polarity.all.train cannot be had .*ADANORM_MIRROR"):
        resolve_auto(["task=rt", *others])
    with pytest.raises(ValueError, match=r"or take scale=mini preset=tatoeba-30k from the package"):
        resolve_auto(["task=de-en", "data.bpe_merges=1000", *others])


def test_a_range_of_seeds_is_a_sweep() -> None:
    sweep = ["-m", "task=mnist", "norm=adanorm"]
    of_range, of_list = (
        resolve_auto([*sweep, seeds, "scale=auto"]) for seeds in ("seed=range(1,3)", "seed=1,2")
    )
    assert of_range[-1] == of_list[-1]
    assert of_range[-1].startswith("scale=")
