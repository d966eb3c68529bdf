"""What a figure loses where it becomes small, on drawings by matplotlib."""

from __future__ import annotations

import io
import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from adanorm.reporting.figures.style import figure_style
from adanorm.reporting.figures.svg import compact

SEEN = ("path", "use", "text", "rect", "clipPath")


@pytest.fixture(scope="module")
def drawn() -> str:
    with figure_style():
        figure = Figure()
        axes = figure.subplots()
        axes.plot([0, 1, 2], [1.23456, 2.5, 3.0], "o-", label="a & b")
        axes.fill_between([0, 1, 2], [1, 2, 3], [2, 3, 4], alpha=0.2)
        axes.set_yscale("log")
        axes.legend()
        file = io.BytesIO()
        figure.savefig(file, format="svg")
    return file.getvalue().decode()


def elements(text: str) -> Counter[str]:
    return Counter(node.tag.rpartition("}")[2] for node in ElementTree.fromstring(text).iter())


def styles(text: str) -> Counter[str]:
    """The styles that elements have, of their own or by their class."""
    root = ElementTree.fromstring(text)
    rules = dict(re.findall(r"\.(s\w{7})\{([^}]*)\}", text))
    own = (node.get("style") or rules.get(node.get("class", "")) or "" for node in root.iter())
    return Counter(style.replace(" ", "").partition("url(")[0] for style in own if style)


def test_everything_seen_stays_and_looks_as_it_did(drawn: str) -> None:
    small = compact(drawn, name="figure", label="A & B")
    assert len(small) < 0.7 * len(drawn)
    assert {tag: elements(small)[tag] for tag in SEEN} == {tag: elements(drawn)[tag] for tag in SEEN}
    assert styles(small) == styles(drawn)
    assert ElementTree.fromstring(small).get("aria-label") == "A & B"
    assert "a &amp; b" in small


def test_every_reference_finds_its_element_and_no_id_is_anothers(drawn: str) -> None:
    pages = [compact(drawn, name=name, label="") for name in ("one", "two")]
    ids = [re.findall(r' id="([^"]+)"', page) for page in pages]
    for page, known in zip(pages, ids, strict=True):
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) == set(known)
        assert len(known) == len(set(known))
    assert not set(ids[0]) & set(ids[1])


def test_a_place_keeps_a_hundredth_of_a_point(drawn: str) -> None:
    def numbers(text: str) -> list[float]:
        paths = re.findall(r' d="([^"]*)"', text)
        return [float(number) for path in paths for number in re.findall(r"-?\d+(?:\.\d+)?", path)]

    before, after = numbers(drawn), numbers(compact(drawn, name="figure", label=""))
    assert len(before) == len(after) > 100
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) < 0.01
