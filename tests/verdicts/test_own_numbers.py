"""The statistics as a library: the examples of the page on verdicts, and what they import."""

import doctest
import subprocess
import sys

from adanorm.config.paths import PROJECT


def test_the_examples_of_the_page_on_verdicts_print_what_it_says() -> None:
    text = (PROJECT / "docs" / "verdicts.md").read_text("utf-8").replace("```", "")
    page = doctest.DocTestParser().get_doctest(
        text,
        {},
        "verdicts.md",
        None,
        0,
    )
    outcome = doctest.DocTestRunner().run(page)
    assert outcome.failed == 0
    assert outcome.attempted > 10


def test_comparing_scores_imports_neither_torch_nor_configuration() -> None:
    heavy = ("torch", "hydra", "omegaconf", "pydantic", "yaml", "adanorm.config", "adanorm.records")
    code = (
        "import sys; from adanorm.verdicts import compare; compare([1.0, 2.0], [0.0, 1.5], 0.1).answer;"
        f" print([name for name in {heavy} if name in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "[]"
