"""The verdict on a file of scores: the page's example, the committed tables, and files that are refused."""

import json
import os
import random
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest

from adanorm.cli.command import dispatch
from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.reporting.text import plain

PAGE = (PROJECT / "docs" / "verdicts.md").read_text("utf-8")
(EXAMPLE,), (PRINTED,) = (
    re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S) for kind in ("csv", "text")
)
TWO = "name,seed,score\na,1,1\na,2,2\na,3,4\nb,1,1.5\nb,2,2\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("name,", "\ufeffname,"),
        ("\n", "\r\n"),
        ("\n", "\r"),
        ("\n", "\n\n"),
        (",", ";"),
        (",", "\t"),
    ],
)
def test_the_example_prints_what_the_page_says_in_every_format_of_the_file(
    old: str,
    new: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = EXAMPLE.replace(old, new) if old else EXAMPLE
    (tmp_path / "scores.csv").write_bytes(text.encode())
    monkeypatch.chdir(tmp_path)
    assert dispatch(["verdict", "scores.csv", "margin=0.5"]) == 0
    assert capsys.readouterr().out == PRINTED


@pytest.mark.parametrize(("task", "margin"), [("mnist", "0.1"), ("rt", "0.5")])
def test_the_committed_scores_give_the_committed_league(
    task: str, margin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = PROJECT / "results" / "tables"
    line = [
        f"{tables}/league.csv",
        f"task={task}",
        f"margin={margin}",
        "plan=fresh",
        "against=layernorm",
    ]
    assert dispatch(["verdict", *line]) == 0
    printed = capsys.readouterr().out
    section = (
        (tables / "league.md")
        .read_text("utf-8")
        .partition(f"## {title(task)} ")[2]
        .partition("P(")[0]
    )
    rows = [
        plain(row).strip("| ").split(" | ")
        for row in section.splitlines()
        if re.search(r"\d ±", row)
    ]
    assert len(rows) == 7
    assert "README's answers on these runs may differ" in printed
    for name, (label, mean, seeds, letters, *_) in zip(
        re.findall(r"^  (\S+) .*\d ±", printed, re.MULTILINE), rows, strict=True
    ):
        assert label == title(name)
        assert re.search(rf"^  {name} +{mean} +{seeds} +{letters}$", printed, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,seed,score\n", ": has no row of scores"),
        ("", ", row 1: needs one column 'name', has ''"),
        ("name,seed,score\na,1,1\na,2,2\n", ", row 2, column name: 1 name, and 2 to 50 can be compared"),
        ("model,seed,score\n", ", row 1: needs one column 'name', has 'model,seed,score'"),
        (TWO + "b,3.0,3\n", ", row 7, column seed: '3.0' is not a whole number"),
        (TWO + "b,2,3\n", ", row 7, column seed: 2 of b occurs twice, first in row 6"),
        *((f"{TWO}b,3,{x}\n", f", row 7, column score: '{x}' is") for x in ("high", "nan", "1e99", "")),
        *((f"{TWO}b,3,{x}\n", f", row 7, column score: '{x}' is") for x in ("1e-310", "-2e-131", "1e-400")),
        (TWO.replace(",", ";") + "b;3;1,5\n", ", row 7, column score: '1,5' is not a number such as 75.8"),
        (TWO + "b,3\n", ", row 7: not the 3 fields of row 1"),
        (TWO + "\x1b[31m,3,1\n", ", row 7, column name: '\\x1b[31m' must have 1 to"),
        (TWO + '"b,3,1\n', ", row 7: unexpected end of data"),
        (TWO + "b" * 140_000 + ",3,1\n", ", row 7: field larger than field limit (131072)"),
        (TWO + "\udce9,3,1\n", ", row 7: not UTF-8"),
        (TWO + "\n" * (1 << 21), ": has more than 2,097,152 bytes"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_compared_is_refused_by_row_and_column(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=re.escape(f"own.csv{message}")):
        dispatch(["verdict", str(tmp_path / "own.csv"), "margin=0.5"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("plan", "seed", "reads"), [("fresh", 30, "41 to 80"), ("first", 41, "1 to 40"), ("small", 11, "1 to 10")]
)  # fmt: skip
def test_a_plan_reads_no_seeds_of_another(plan: str, seed: int, reads: str, tmp_path: Path) -> None:
    rows = [f"{name},{seed + k},{k * (1 + (name == 'b'))}" for name in "ab" for k in range(4)]
    (tmp_path / "own.csv").write_text("\n".join(["name,seed,score", *rows]))
    message = rf"own.csv, row 2, column seed: {seed}: plan={plan} reads seeds {reads}"
    with pytest.raises(ValueError, match=message):
        dispatch(["verdict", str(tmp_path / "own.csv"), "margin=0.5", f"plan={plan}"])


@pytest.mark.parametrize("column", ["", ",example"])
def test_a_plan_of_the_suite_refuses_what_it_would_not_read(column: str, tmp_path: Path) -> None:
    rows = []
    for name, k, example in product("ab", range(10), (1, 2) if column else ("",)):
        rows.append(f"{name},{41 + k},{k}{column and f',{example}'}")
    (tmp_path / "own.csv").write_text("\n".join([f"name,seed,score{column}", *rows]))
    line = ["verdict", str(tmp_path / "own.csv"), "margin=0.5", "plan=fresh"]
    with pytest.raises(ValueError, match="plan=fresh: pairs seeds, and reads one score of each"):
        dispatch([*line, *([] if column else ["paired=false"])])


def lines_of(scores: dict[str, list[float]], *, with_seed: bool = True) -> str:
    header = "name,seed,score" if with_seed else "name,score"
    lines = [header]
    for name, values in scores.items():
        for seed, score in enumerate(values):
            lines.append(f"{name},{seed},{score}" if with_seed else f"{name},{score}")
    return "\n".join(lines)


BASE = [75.0, 75.6, 74.8, 75.3, 75.1, 75.5]
ANSWERS = {"better": (2.0, 0), "worse": (-2.0, 3), "equivalent": (0.02, 4), "open": (0.4, 5)}


@pytest.mark.parametrize(("answer", "lead", "status"), [(k, *v) for k, v in ANSWERS.items()])
@pytest.mark.parametrize("with_seed", [True, False])
def test_a_gate_ends_with_the_status_of_its_answer_and_json_keeps_its_schema(
    answer: str,
    lead: float,
    status: int,
    with_seed: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    noise = 1.0 if answer == "open" else 0.02
    scores = [lead + score + noise * (-1) ** k for k, score in enumerate(BASE)]
    table = {"base": BASE, "mine": scores, "flat": [1.0]}
    (tmp_path / "own.csv").write_text(lines_of(table, with_seed=with_seed))
    margin = "margin=0.6" if answer in ("equivalent", "better") else "margin=0.5"
    line = ["verdict", str(tmp_path / "own.csv"), margin, "gate=mine", "format=json", "detect=1"]
    assert dispatch(line) == status
    answers = json.loads(capsys.readouterr().out)
    schema = PROJECT / "src" / "adanorm" / "reporting" / "verdict.schema.json"
    jsonschema.validate(answers, json.loads(schema.read_text("utf-8")))
    (pair,) = answers["tasks"][0]["pairs"]
    assert (pair["first"], pair["second"], pair["answer"]) == ("mine", "base", answer)
    assert pair["method"] == ("paired" if with_seed else "independent")
    assert answers["gate"] == {"name": "mine", "status": status}
    assert [entry["reason"] for entry in answers["tasks"][0]["left_out"]] == [
        "flat has 1 score, and needs 2"
    ] * 2
    assert dispatch([*line[:3], "gate=flat"]) == 5, "what is left out is open"


def test_lower_is_better_turns_every_lead_around(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.csv").write_text(lines_of({"base": BASE, "mine": [s + 2 for s in BASE[:5]]}))
    line = ["verdict", str(tmp_path / "own.csv"), "margin=0.5", "gate=mine"]
    assert [dispatch([*line, f"better={better}"]) for better in ("higher", "lower")] == [0, 3]
    printed = capsys.readouterr().out
    assert "5 shared seeds of 5 and 6, partly paired" in printed
    assert "P(mine > base) = 1.00" in printed
    assert "P(mine < base) = 0.00" in printed


def test_equal_gaps_are_left_out_and_the_rest_of_the_file_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {
        "base": BASE,
        "same": [s + 1 for s in BASE],
        "mine": [77.0, 78.0, 77.2, 77.9, 77.1, 78.3],
    }
    (tmp_path / "own.csv").write_text(lines_of(table))
    assert dispatch(["verdict", str(tmp_path / "own.csv"), "margin=0.5"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Left out: same and base: they differ by the same with every seed" in printed
    assert "mine over base: 6 seeds, paired" in printed


def test_a_plan_of_ones_own_reads_the_last_look_that_both_have_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.csv").write_text(lines_of({"base": BASE, "mine": [*reversed(BASE)]}))
    line = ["verdict", str(tmp_path / "own.csv"), "margin=0.5"]
    assert dispatch([*line, "plan=3,5,9"]) == 0
    assert "mine over base: 5 seeds, paired" in capsys.readouterr().out
    assert dispatch([*line, "plan=8,9"]) == 0
    assert "needs 8" in capsys.readouterr().out
    for wrong in ("plan=1,3", "plan=5,3", "plan=3,,5", "plan=3,99999", "spending=0", "paired=yes"):
        with pytest.raises(ValueError, match=wrong.partition("=")[0]):
            dispatch([*line, wrong])


def test_examples_and_clusters_add_their_noise_and_seeds_stay_the_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = random.Random(0)
    rows = ["name,seed,example,cluster,score"]
    of_cluster = [source.gauss(0, 3) for _ in range(10)]
    for name, sign in (("base", 0), ("mine", 1)):
        for seed in range(5):
            level = source.gauss(0, 1)
            for example in range(30):
                score = level + sign * of_cluster[example % 10] + source.gauss(0, 1)
                rows.append(f"{name},{seed},e{example},c{example % 10},{score}")
    errors = []
    for dropped in (None, "cluster", "example"):
        text = "\n".join(rows).replace(dropped, "ignored") if dropped else "\n".join(rows)
        (tmp_path / "own.csv").write_text(text)
        dispatch(["verdict", str(tmp_path / "own.csv"), "margin=0.5", "format=json"])
        (pair,) = json.loads(capsys.readouterr().out)["tasks"][0]["pairs"]
        assert pair["seeds"] == {"first": 5, "second": 5, "shared": 5}
        errors.append(pair["example_error"])
    by_cluster, by_example, by_cluster_alone = errors
    assert by_cluster == pytest.approx(by_cluster_alone)
    assert by_cluster > 1.2 * by_example, "examples of one cluster are alike"
    other_cluster = [*rows[:-1], rows[-1].replace(",c9,", ",c8,")]
    other_cluster[-2] = other_cluster[-2].replace(",c8,", ",c9,")
    for changed in (rows[:-1], other_cluster):
        (tmp_path / "own.csv").write_text("\n".join(changed))
        with pytest.raises(ValueError, match="mine has other examples than the first run"):
            dispatch(["verdict", str(tmp_path / "own.csv"), "margin=0.5"])


def test_columns_of_an_export_are_named_and_a_figure_shows_every_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = lines_of({"base": BASE, "a<b": [s + 0.3 for s in reversed(BASE)]})
    header = "config.norm,config.seed,summary.acc"
    (tmp_path / "own.csv").write_text(text.replace("name,seed,score", header))
    line = ["verdict", str(tmp_path / "own.csv"), "margin=0.5", f"figure={tmp_path}/league.svg"]
    columns = "columns=name:config.norm,seed:config.seed,score:summary.acc"
    assert dispatch([*line, columns]) == 0
    assert "a<b over base: 6 seeds, paired" in capsys.readouterr().out
    drawn = ElementTree.parse(tmp_path / "league.svg").getroot()
    texts = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert {"base", "a<b"} <= {*texts}
    with pytest.raises(ValueError, match="needs one column 'score'"):
        dispatch([*line, "columns=name:config.norm"])
    with pytest.raises(ValueError, match="unknown column 'model'"):
        dispatch([*line, "columns=model:config.norm"])


def test_seeds_are_planned_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["verdict", "detect=1", "deviation=1"]) == 0
    assert "17 of each show a difference of 1," in capsys.readouterr().out
    with pytest.raises(ValueError, match="needs a FILE of scores, or detect= and deviation="):
        dispatch(["verdict"])
    for setting in ("gate=a", "format=json", "figure=a.svg", "task=rt", "plan=fresh", "spending=2"):
        with pytest.raises(ValueError, match=f"^{setting.partition('=')[0]}="):
            dispatch(["verdict", "detect=1", "deviation=1", setting])


def test_the_loop_of_the_page_keeps_drops_or_goes_on(tmp_path: Path) -> None:
    (loop,) = re.findall(r"```bash\n(.*?)```", PAGE, re.S)
    assert len(loop.splitlines()) == 10
    folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    printed = []
    for shift in ("- 2", "+ 2"):
        script = f'[ $1 = change ] && echo "$(( 10 {shift} )).$2" || echo "10.$2"\n'
        (tmp_path / "train.sh").write_text(script)
        done = subprocess.run(
            ["sh", "-c", loop],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        printed.append(done.stdout.strip())
    assert printed == ["keep", "drop"]
    assert json.loads((tmp_path / "answer.json").read_text())["schema"] == 1


def test_the_command_needs_neither_torch_nor_what_the_suite_needs(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text(EXAMPLE)
    absent = "torch,pydantic,yaml,hydra,omegaconf,matplotlib,numba,requests,filelock,tqdm"
    absent += ",scipy.stats,scipy.optimize,urllib.request"  # slow to import
    environment = os.environ | {"ADANORM_WITHOUT": absent}
    paths = [str(PROJECT / "tests" / "without"), str(PROJECT / "src")]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    line = [sys.executable, "-m", "adanorm", "verdict", "scores.csv", "margin=0.5"]
    done = subprocess.run(
        line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == PRINTED, done.stderr
    norms = [sys.executable, "-c", "import adanorm.norms"]
    failed = subprocess.run(norms, env=environment, capture_output=True, text=True, check=False)
    assert "the norms need PyTorch" in failed.stderr


def test_a_file_of_scores_is_explained_within_one_screen() -> None:
    section = PAGE.partition("## A file of scores\n")[2].partition("\n## ")[0].splitlines()
    assert len(section) <= 45
    assert max(map(len, section)) <= 80


@pytest.mark.parametrize("number", ["1e300", "1e-310", "0", "1e-400", "-1"])
@pytest.mark.parametrize("key", ["margin", "detect", "deviation", "spending"])
def test_a_number_out_of_range_is_refused_with_its_bounds(key: str, number: str) -> None:
    line = {"detect": "1", "deviation": "1", key: number}
    with pytest.raises(ValueError, match=f"^{key}={number}: .* from 1e-130 to 1e\\+12$"):
        dispatch(["verdict", *(f"{name}={value}" for name, value in line.items())])


def test_a_figure_goes_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text(TWO)
    (tmp_path / "disk").mkdir()
    link, target = tmp_path / "league.svg", tmp_path / "disk" / "league.svg"
    link.symlink_to(target)
    line = ["verdict", str(tmp_path / "scores.csv"), "margin=1", f"figure={link}"]
    dispatch(line)
    assert link.is_symlink()
    assert target.read_text().startswith("<")
    dispatch(line)  # its own figure again
    for text in ("my notes", '<svg xmlns="http://www.w3.org/2000/svg"><text>mine</text></svg>'):
        target.write_text(text)
        with pytest.raises(ValueError, match=f"^figure={link}: exists, .* name another file$"):
            dispatch(line)
        assert target.read_text() == text
