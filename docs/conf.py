"""How Sphinx builds the site from the repository's pages, laid out as they are here: `make docs`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.util.matching import Matcher

import adanorm
from scripts.settings import settings

project = "AdaNorm, reproduced"
author = "The authors of the AdaNorm reproduction suite"
version = release = adanorm.__version__
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "results/tables/*.md", "results/figures/*.md"]
exclude_patterns = [
    ".*",
    "conf",
    "data",
    "mutants",
    "outputs",
    "results/[ra]*",
    "runs",
    "src",
    "tests",
]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # the anchors that GitHub gives headings
html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sphinx = html_show_copyright = False
html_static_path, html_css_files = ["_static"], ["site.css"]
html_extra_path = ["_root"]
html_math_renderer = "mathml"
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "monokai"
autodoc_typehints = "signature"
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[([^\]]*)\]\(([^)#:]+)\)")


def _as_rst(*event: Any) -> None:
    """Have docstrings, in which `code` has one backtick and * is a star, read so by Sphinx."""
    lines: list[str] = event[-1]
    for index, line in enumerate(lines):
        parts = CODE.split(line)
        lines[index] = "".join(
            f"``{part}``" if number % 2 else re.sub(r"([\\*_|])", r"\\\1", part)
            for number, part in enumerate(parts)
        )


def _read(app: Any, docname: str, source: list[str]) -> None:
    """Have links to folders and to pages outside the site be text, and the settings on their page."""
    folder = Path(app.srcdir, docname).parent
    source[0] = LINK.sub(
        lambda link: link[0] if _is_in_site(folder / link[2]) else link[1], source[0]
    )
    source[0] = source[0].replace("```csv", "```text")  # Pygments has no lexer for it
    source[0] += settings() if docname == "docs/settings" else ""


def _is_in_site(path: Path) -> bool:
    """Return whether a link leads to a file that the site has: no folder, no page that is left out."""
    page = str(path.resolve().relative_to(Path(__file__).parents[1].resolve()))
    is_included = Matcher(include_patterns)(page) and not Matcher(exclude_patterns)(page)
    return path.is_file() and (path.suffix != ".md" or is_included)


def _inline(translator: Any, node: nodes.Element) -> None:
    translator.body.append(latex2mathml.tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.Element) -> None:
    translator.body.append(latex2mathml.tex2mathml(node.astext(), as_block=True))
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Register what the site adds: docstrings as they are written, and formulas that browsers set."""
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _as_rst)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
