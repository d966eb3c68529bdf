"""The report over a folder with runs of every kind."""

import json
import re
from pathlib import Path

import pytest

from adanorm.cli.command import dispatch
from adanorm.config.compose import compose_experiment
from adanorm.records.lines import RECORD
from adanorm.reporting.report import build_report
from tests.reporting.records import contents_of, put, record


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report on runs done, diverged, failed, half-written, of an older schema, and one of no study."""
    tmp_path = tmp_path_factory.mktemp("runs")
    for seed, score in ((1, 75.0), (2, 76.0), (3, 77.0)):
        run = compose_experiment(
            [
                "task=rt",
                "norm=layernorm",
                f"seed={seed}",
                f"runs={tmp_path}",
            ]
        )
        record(
            run,
            test={"accuracy": score},
            seconds=12.5,
            data={"rt.train": "ab" * 32},
        )
        facts = {
            "commit": "c0ffee",
            "dirty": True,
            "device": "CPU",
            "precision": "fp32",
            "packages": {},
        }
        put(run.folder(), "environment.json", json.dumps(facts).encode())
    diverged = compose_experiment(["task=rt", "norm=none", f"runs={tmp_path}"])
    record(diverged, status="diverged", test=None)
    config = contents_of(diverged.folder())["config.yaml"]
    put(diverged.folder(), "config.yaml", b"# <rt>\n" + config)
    failed = compose_experiment(["task=rt", "norm=adanorm", f"runs={tmp_path}"])
    record(failed, status="failed", error="<b>broke</b>")
    half = compose_experiment(["task=rt", "norm=detachnorm", f"runs={tmp_path}"])
    record(half, test={"accuracy": 99.0})
    (half.folder() / RECORD).write_text('{"run": "paper-seed1-')
    old = compose_experiment(["task=rt", "norm=detach-var", f"runs={tmp_path}"])
    record(old, test={"accuracy": 98.0}, schema=0)
    record(
        compose_experiment(["task=rt", "training.lr=0.9", f"runs={tmp_path}"]),
        test={"accuracy": 97.0},
    )
    for odd in (
        "smoke-seedX-0",
        "mini-seed2",
        "paper-seed٣-00000000",
        "paper-seedX-00000000",
    ):
        (failed.folder().parent / odd).mkdir()
    with pytest.warns(UserWarning, match="not counted"):
        return build_report(str(tmp_path))


def test_every_number_leads_to_its_runs_and_nothing_leads_outside(
    text: str,
) -> None:
    assert not re.search(r"<[^>]* (href|src)=\"(?!#)", text)
    assert "http" not in re.sub(r"http://www.w3.org/\S+", "", text)
    ids, links = (re.findall(rf"<[^>]* {key}([^\"]+)\"", text) for key in ('id="', 'href="#'))
    assert 0 < len(ids) == len({*ids})
    assert {*links} <= {*ids}
    assert text.count(">76.00 ± 1.00</a>") >= 2, "in the overview and in tables of the paper"
    for fact in ("c0ffee and uncommitted changes", "rt.train " + "ab" * 8):
        assert text.count(fact) == 1, "what the runs of a cell have in common stands once"
    assert "adanorm run task=rt norm=layernorm scale=paper seed=2" in text
    assert "# &lt;rt&gt;" in text
    assert all(
        part in text
        for part in (
            "3 runs done, 1 diverged,\n1 failed",
            "Diverge (1/1)",
        )
    )
    assert not re.search(r"<b>broke|>9[789]\.0", text), "half-written, foreign, of another schema"


def test_the_question_is_answered_first(text: str) -> None:
    start = text.index('id="answer"')
    assert start < text.index('id="claims"')
    answer = text[start : text.index("</table>", start)]
    assert "<strong>AdaNorm is better than LayerNorm on none of eight data sets." in answer
    assert answer.count("<tr>") == 1 + 2 + 8, "a title for each size, and one row per data set"
    assert not re.search(r"<td(?![^>]*data-label=)", text), "fields are read where heads are hidden"
    assert answer.count("no answer yet") == 8, "AdaNorm's only run failed"


def test_a_configuration_is_whole_once_per_task_and_scale_and_otherwise_a_difference(
    text: str,
) -> None:
    texts = dict(
        re.findall(
            r'data-norm="(.*?)".*?<summary>configuration of .*?<pre>(.*?)</pre>',
            text,
            re.S,
        )
    )
    assert "warmup_updates" in texts["w/o Norm"]
    assert texts["LayerNorm"].splitlines()[0] == "norm.name: layernorm"
    assert "training" not in texts["LayerNorm"]


def test_the_report_says_what_is_missing(tmp_path: Path) -> None:
    text = build_report(str(tmp_path))
    assert "<code>make study STUDY=table4</code>" in text
    assert "0 runs done" in text


def test_a_folder_that_others_alone_contributed_to_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "runs-contributed").mkdir()
    assert dispatch(["report", f"runs={tmp_path / 'runs'}"]) == 0
    assert (tmp_path / "runs" / "report" / "index.html").is_file()
