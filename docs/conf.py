"""How Sphinx builds the site from what `python -m scripts.website` has written: `make docs`."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml

import adanorm

project = "AdaNorm, reproduced"
author = "The authors of the AdaNorm reproduction suite"
version = release = adanorm.__version__
root_doc = "docs/index"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # the anchors that GitHub gives headings
html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sphinx = html_show_copyright = False
html_static_path, html_css_files = ["_static"], ["site.css"]
html_extra_path = ["../outputs/site-source/index.html"]
html_math_renderer = "mathml"
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "monokai"
autodoc_typehints = "signature"
autodoc_default_options = {"members": False}
CODE = re.compile(r"`([^`]+)`")


def _as_rst(*event: Any) -> None:
    """Have docstrings, in which `code` has one backtick and * is a star, read so by Sphinx."""
    lines: list[str] = event[-1]
    for index, line in enumerate(lines):
        parts = CODE.split(line)
        lines[index] = "".join(
            f"``{part}``" if number % 2 else re.sub(r"([\\*_|])", r"\\\1", part)
            for number, part in enumerate(parts)
        )


def _inline(translator: Any, node: nodes.Element) -> None:
    translator.body.append(latex2mathml.tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.Element) -> None:
    translator.body.append(latex2mathml.tex2mathml(node.astext(), as_block=True))
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Register what the site adds: docstrings as they are written, and formulas that browsers set."""
    app.connect("autodoc-process-docstring", _as_rst)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
