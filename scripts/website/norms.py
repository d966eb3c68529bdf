"""A page a norm: formula, parameters, YAML, scores on record."""

from __future__ import annotations

import inspect
import re

from adanorm.config.paths import CONF, PROJECT
from adanorm.config.titles import title
from adanorm.norms.registry import NORMS
from adanorm.reporting.tables.formats import markdown_table
from scripts.website.scores import scores_on_record, scores_table
from scripts.website.settings import yaml_value
from scripts.website.text import Pages, code, contents, docstring, fenced, plain

FOLDER = "docs/reference/norms"


def norm_pages() -> Pages:
    """Return a page for each norm of the suite, and the page that lists them."""
    guide = (PROJECT / "docs" / "norms.md").read_text("utf-8")
    described = set(re.findall(r"^### (\S+)$", guide, re.MULTILINE))
    pages = {f"{FOLDER}/{name}.md": norm_page(name, in_guide=name in described) for name in NORMS}
    lead = "Each with its formula, settings and scores on record. [The guide](../../norms.md) compares them."
    return {f"{FOLDER}/index.md": contents("Norms", lead, list(NORMS)), **pages}


def norm_page(name: str, *, in_guide: bool) -> str:
    """Return the page of a norm in Markdown; `in_guide` says whether docs/norms.md has a section of it."""
    cls = NORMS[name]
    lines = [f"# {title(name)}", "", docstring(cls), ""]
    if in_guide:
        lines += [f"What it does and costs, and when to choose it: [the guide](../../norms.md#{name}).", ""]
    lines += ["## Use it", ""]
    lines += [fenced("sh", "\n".join(norm_commands(name))), ""]
    lines += [f"In Python it is `adanorm.norms.{cls.__name__}`; [in any model](../../any-model.md),"]
    lines += [f'`adanorm.swap(model, "{name}")`.', ""]
    lines += ["## Settings", "", *_parameters(name), ""]
    lines += [f"`conf/norm/{name}.yaml`:", ""]
    lines += [fenced("yaml", (CONF / "norm" / f"{name}.yaml").read_text("utf-8")), ""]
    tasks = {score.task: title(score.task) for score in scores_on_record()}
    found = [score for score in scores_on_record() if score.norm == name]
    lines += ["## On record", "", *scores_table(found, first="task", shown=tasks)]
    return "\n".join([*lines, ""])


def norm_commands(name: str) -> list[str]:
    """Return the commands on a norm's page."""
    return [f"adanorm check-norm norm={name}", f"adanorm run task=mnist norm={name} scale=mini runs=runs"]


def _parameters(name: str) -> list[str]:
    """Return a table of what a norm's class takes."""
    taken = inspect.signature(NORMS[name]).parameters.values()
    rows = [
        [
            code(f"norm.{'' if p.name in ('numerics', 'backend') else 'params.'}{p.name}"),
            plain(str(p.annotation)),
            code(yaml_value(p.default)),
        ]
        for p in taken
        if p.name != "dim"
    ]
    return markdown_table(("setting", "type", "default"), rows) if rows else ["It takes none."]
