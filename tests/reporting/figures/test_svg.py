"""What a figure loses where it becomes small, on drawings by matplotlib, read by fontTools."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
from fontTools.pens.recordingPen import RecordingPen
from fontTools.svgLib.path import parse_path
from matplotlib.figure import Figure

from adanorm.reporting.figures.style import figure_style
from adanorm.reporting.figures.svg import compact
from adanorm.reporting.figures.svg_path import read, written
from adanorm.reporting.pages.drawings import Figure as Drawing
from adanorm.reporting.pages.drawings import in_one_page

Style = tuple[tuple[str, str], ...]


@pytest.fixture(scope="module")
def drawn() -> str:
    with figure_style():
        figure = Figure()
        axes, other = figure.subplots(1, 2)
        axes.plot([0, 1, 2], [1.23456, 2.5, 3.0], "o-", label="a & b")
        axes.plot([0, 1, 2], [2, 1, 5], "s--", label="dashed")
        axes.plot([0.5], [2], "D-")  # a line of one point is not seen, its marker is
        axes.fill_between([0, 1, 2], [1, 2, 3], [2, 3, 4], alpha=0.2)
        axes.set_yscale("log")
        axes.set_xlim(0, 1.5)  # cuts lines and the band
        axes.legend()
        other.imshow([[0, 1], [1, 0]])
        other.set_ylabel("turned")
        file = io.BytesIO()
        figure.savefig(file, format="svg")
    return file.getvalue().decode()


def what_is_seen(text: str) -> dict[Any, list[list[float]]]:
    """The points of lines and shapes by style, frame and commands; the places of texts; in order."""
    root = fromstring(text)
    rules = dict(re.findall(r"\.(s\w+)\{([^}]*)\}", text))
    known = {node.get("id"): node for node in root.iter() if node.get("id")}
    seen = defaultdict[Any, list[list[float]]](list)

    def look(node: Element, style: dict[str, str]) -> dict[str, str]:
        given = re.sub(r"([;:,]) +", r"\1", node.get("style") or rules.get(node.get("class", ""), ""))
        return {**style, **dict(part.split(":") for part in given.split(";") if part)}

    def see(node: Element, style: dict[str, str], at: tuple[float, float]) -> None:
        tag, style = node.tag.rpartition("}")[2], look(node, style)
        if tag in ("defs", "metadata"):
            return
        if tag == "use":
            (name,) = (value for key, value in node.attrib.items() if key.endswith("href"))
            see(known[name[1:]], style, (float(node.get("x", 0)), float(node.get("y", 0))))
        elif tag == "path":
            pen = RecordingPen()
            parse_path(node.get("d"), pen)
            parts: list[tuple[str, list[float]]] = []
            for command, points in pen.value:
                if command == "moveTo":
                    parts.append(("", []))
                numbers = [x + o for p in points for x, o in zip(p, at, strict=True)]
                commands, before = parts[-1]
                if command != "lineTo" or [round(x, 3) for x in numbers] != [
                    round(x, 3) for x in before[-2:]
                ]:
                    parts[-1] = (commands + command[0], before + numbers)
            for commands, numbers in parts:
                if commands not in ("m", "me"):
                    seen[tuple(sorted(style.items())), commands].append(numbers)
        elif tag == "text":
            place = re.sub(r"rotate\(-?0 [^)]*\)", "", node.get("transform", "")).partition(" ")[0]
            seen[tuple(sorted(style.items())), node.text, place].append(
                [float(node.get("x", 0)), float(node.get("y", 0))]
            )
        elif tag == "image":
            (data,) = (value for key, value in node.attrib.items() if key.endswith("href"))
            seen["image", data].append([float(node.get(key, 0)) for key in ("x", "y", "width", "height")])
        for child in node:
            see(child, style, at)

    see(root, {}, (0.0, 0.0))
    return dict(seen)


def test_everything_seen_stays_with_its_style_to_a_tenth_of_a_point(drawn: str) -> None:
    before, after = what_is_seen(drawn), what_is_seen(compact(drawn, name="figure", label="A & B"))
    assert set(before) == set(after)
    assert sum(map(len, before.values())) > 40
    for key, lines in before.items():
        assert [len(line) for line in lines] == [len(line) for line in after[key]], key
        for line, other in zip(lines, after[key], strict=True):
            assert max(abs(a - b) for a, b in zip(line, other, strict=True)) <= 0.06


def test_a_drawing_is_a_third_of_matplotlibs_and_says_what_it_shows(drawn: str) -> None:
    small = compact(drawn, name="figure", label="A & B")
    assert len(small) < 0.35 * len(drawn)
    assert fromstring(small).get("aria-label") == "A & B"
    assert "a &amp; b" in small


def test_what_a_frame_cuts_is_cut_and_nothing_else_has_one(drawn: str) -> None:
    small = fromstring(compact(drawn, name="figure", label=""))
    cut = [node for node in small.iter() if node.get("clip-path")]
    assert {node.tag.rpartition("}")[2] for node in cut} == {"path", "g", "use"}
    assert len(cut) < 8 < drawn.count("clip-path=")
    assert not [node for node in cut if "transform" in node.attrib], "it would move its frame"


def test_every_reference_finds_its_element_and_no_id_is_anothers(drawn: str) -> None:
    pages = [compact(drawn, name=name, label="") for name in ("one", "two")]
    ids = [re.findall(r' id="([^"]+)"', page) for page in pages]
    for page, known in zip(pages, ids, strict=True):
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) == set(known)
        assert len(known) == len(set(known))
    assert not set(ids[0]) & set(ids[1])


def test_rounding_does_not_add_up_along_a_path() -> None:
    points = [(round(20.04 + 0.33 * step, 2), round(0.149 * step, 3)) for step in range(1000)]
    text = " ".join(f"{'L' if place else 'M'} {x} {y}" for place, (x, y) in enumerate(points))
    pen = RecordingPen()
    parse_path(written(read(text)), pen)
    found = [point for _, line in pen.value for point in line]
    assert abs(found[-1][0] - points[-1][0]) <= 0.051
    assert abs(found[-1][1] - points[-1][1]) <= 0.051


def test_in_a_page_a_style_stands_once_and_a_caption_names_its_figure(drawn: str) -> None:
    figures = [Drawing(name, compact(drawn, name=name, label="words"), "words") for name in ("one", "two")]
    bare, sheet = in_one_page(figures)
    rules = re.findall(r"\.(s\w+)\{", sheet)
    assert len(rules) == len(set(rules)) > 5
    for figure in bare:
        assert "<style" not in figure.svg
        assert "words" not in figure.svg
        assert f'aria-labelledby="caption-{figure.name}"' in figure.svg
        assert set(re.findall(r'class="(\w+)"', figure.svg)) <= set(rules)
