"""The pages that `make docs` adds to those of docs/: made by the functions that make the site's."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import pytest

from adanorm.cli.command import COMMANDS
from adanorm.config.overrides import prepare_overrides
from adanorm.config.paths import PROJECT, choices
from adanorm.config.titles import task_metric, title
from adanorm.norms.registry import NORMS
from adanorm.reporting.tables.notes import MARKS, marked_lines
from adanorm.verdicts.claims import SCALES, ClaimResult, TaskResult
from adanorm.verdicts.findings import load_findings
from adanorm.verdicts.preregistration import preregistration
from scripts.website.api import api_pages
from scripts.website.claims import claim_pages
from scripts.website.configuration import configuration_pages, sections
from scripts.website.norms import norm_commands, norm_pages
from scripts.website.settings import comments_by_line, files_of, settings_of
from scripts.website.stage import hand_written, stage
from scripts.website.tasks import task_commands, task_pages
from scripts.website.text import Pages, plain


@pytest.fixture(scope="module")
def pages() -> Pages:
    """Every generated page, of claims without runs: to read all records takes seconds."""
    unrun = [
        ClaimResult(claim, scale, tuple(TaskResult(claim, task, None) for task in claim.tasks))
        for scale in SCALES
        for claim in preregistration().claims
    ]
    return {**norm_pages(), **task_pages(), **claim_pages(unrun), **configuration_pages(), **api_pages()}


def test_a_norm_has_a_page_with_its_formula_and_its_scores(pages: Pages) -> None:
    for name, cls in NORMS.items():
        page = pages[f"docs/reference/norms/{name}.md"]
        formula = (inspect.getdoc(cls) or "").partition("\n")[0]
        assert page.startswith(f"# {title(name)}\n")
        assert re.sub(r"\\(.)", r"\1", page.splitlines()[2]) == formula
        assert f"conf/norm/{name}.yaml" in page
        assert name in re.findall(r"^([\w-]+)$", pages["docs/reference/norms/index.md"], re.MULTILINE)
    (row,) = [
        row
        for row in pages["docs/reference/norms/adanorm.md"].splitlines()
        if "[overview]" in row and row.startswith("| RT |  |")
    ]
    of_table = [
        row
        for row in (PROJECT / "results/tables/overview.md").read_text("utf-8").splitlines()
        if row.startswith("| AdaNorm |")
    ]
    assert row.split("|")[4].strip().removesuffix(" accuracy") in of_table[0]


def test_a_task_has_a_page_with_its_metric_settings_and_checksums(pages: Pages) -> None:
    for name in choices("task"):
        page = pages[f"docs/reference/tasks/{name}.md"]
        assert page.startswith(f"# {title(name)} (`{name}`)\n")
        assert f"Score: **{task_metric(name).label}**" in page
        assert "| `training.lr` |" in page
    assert (
        "sha256:5fbbc96ef266f14f563f91d1b7d48242a42a7cd587bdc15f4f479a4040ce6a97"
        in pages["docs/reference/tasks/rt.md"]
    )


def test_a_claim_has_a_page_with_its_text_and_its_hypothesis(pages: Pages) -> None:
    for claim in preregistration().claims:
        page = pages[f"docs/reference/claims/{claim.id}.md"]
        assert page.startswith(f"# {plain(claim.text)}\n")
        assert f"at least {claim.needed('paper')} of {len(claim.tasks)} data sets" in page
        assert page.count("../tasks/") == len(claim.tasks)
        assert page.count("Not run: no task has runs of both norms.") == len(SCALES)
    for finding in load_findings():
        assert plain(finding.text) in pages[f"docs/reference/claims/earlier-{finding.id}.md"]


def test_the_reference_has_every_setting_of_every_section(pages: Pages) -> None:
    page = pages["docs/reference/configuration.md"]
    for key, section in sections():
        for field in section.model_fields:
            assert f"| `{key}.{field}" in page
    assert "| `training.clip_norm` | number, above 0, at most 1e+30 or null |" in page


def test_no_mark_of_a_setting_is_missed() -> None:
    for task in choices("task"):
        comments = [comments_by_line(path.read_text("utf-8")) for path in files_of(task)]
        for mark in MARKS:
            found = sum(mark in comment for lines in comments for comment in lines.values())
            assert found == marked_lines(task, mark), (task, mark)


def test_a_value_has_the_comment_of_the_file_that_sets_it_last() -> None:
    found = settings_of("rt")["model.pooling"]
    assert (found.value, found.mark, found.file) == ("max", "assumed", "task/shared/sentences.yaml")
    assert found.note.startswith(
        "assumed: mean | max | first, over the words; max beat mean on RT validation accuracy"
    )
    assert settings_of("rt")["data.source"].mark == ""
    assert settings_of("enwik8-lstm")["model.layers"].mark == ""
    assert settings_of("enwik8-lstm")["segments.train.length"].mark == "assumed"


def test_the_commands_of_generated_pages_name_what_there_is() -> None:
    lines = [line for name in NORMS for line in norm_commands(name)]
    for line in [*lines, *(line for name in choices("task") for line in task_commands(name))]:
        adanorm, command, *arguments = shlex.split(line)
        assert (adanorm, command in COMMANDS) == ("adanorm", True)
        prepare_overrides(arguments)  # that every task and norm composes has a test


def test_every_link_of_the_site_leads_to_a_page_or_a_file(pages: Pages, tmp_path: Path) -> None:
    staged = stage(pages, tmp_path)
    assert {*hand_written(), *pages} <= {*staged}
    for page in staged:
        text = (tmp_path / page).read_text("utf-8")
        for target in re.findall(
            r"\]\(([^)#\s]+)", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        ):
            if "://" not in target:
                assert (tmp_path / page).parent.joinpath(target).is_file(), f"{page}: {target}"


def test_every_page_of_docs_is_in_the_contents() -> None:
    docs = PROJECT / "docs"
    listed = set(re.findall(r"^(?:.*<)?([\w./-]+?)>?$", (docs / "index.md").read_text("utf-8"), re.MULTILINE))
    for path in docs.glob("**/*.md"):
        assert str(path.relative_to(docs).with_suffix("")) in {*listed, "index"}


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"docs/a.md: nowhere.md leads nowhere"):
        stage({"docs/a.md": "[a](nowhere.md)"}, tmp_path)
