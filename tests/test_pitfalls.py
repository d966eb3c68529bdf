"""The failing examples of docs/pitfalls.md fail as the page says."""

import re

import pytest

from adanorm.config.paths import PROJECT

PAGE = (PROJECT / "docs" / "pitfalls.md").read_text("utf-8")
BLOCKS = re.findall(r"^## ([^\n]*)\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_mistake_has_one_example() -> None:
    assert [title for title, _ in BLOCKS] == re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert len(BLOCKS) == PAGE.count("```python")


@pytest.mark.parametrize("code", [code for _, code in BLOCKS], ids=[title for title, _ in BLOCKS])
def test_an_example_prints_what_its_comments_say(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(code, {})
    assert re.findall(r"^# (.*)$", code, re.MULTILINE) == capsys.readouterr().out.splitlines()
