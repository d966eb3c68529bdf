"""The verdict on a file of scores: the page's example, the committed tables, and files that are refused."""

import re
from pathlib import Path

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
