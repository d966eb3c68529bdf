"""Figures as SVG that is small, and that can stand beside others in one page."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from xml.etree.ElementTree import Element, fromstring, register_namespace, tostring

from adanorm.reporting.figures import svg_path

ADDRESS = "http://www.w3.org/2000/svg"
_SVG, _LINK = f"{{{ADDRESS}}}", "{http://www.w3.org/1999/xlink}href"
_PATH, _USE, _GROUP, _TEXT, _TSPAN, _DEFS, _CLIP, _STYLE, _TITLE = (
    f"{_SVG}{tag}" for tag in ("path", "use", "g", "text", "tspan", "defs", "clipPath", "style", "title")
)
_WORDS = {_TEXT, _TSPAN, _STYLE, _TITLE}
_REFERENCE = re.compile(r"(^#|url\(#)([^)]+)")  # a color has no such place
_NUMBER = re.compile(r"-?\d+\.\d+")
_NO_TURN = re.compile(r"rotate\(-?0 [^)]*\)")
_PLACES = ("x", "y", "width", "height")
_EDGE = 0.1  # points by which a clip may cut what is drawn up to it
_SHORT = 30  # characters of a shape that is repeated rather than referred to
_LAYERS = (_PATH, _USE, _TEXT, _GROUP)  # of an axis: the grid, ticks, labels, none of which covers another
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def compact(text: str, *, name: str, label: str) -> str:
    """Return an SVG document as an element for a page: ids begin with a digest of `name`, it reads `label`.

    What is not seen is left out; lines of one style are one path; neighbors of one style are a group. A
    style is a class that is called by its content, so that equal ones of several figures agree.
    """
    register_namespace("", ADDRESS)
    root = fromstring(text)
    for child in root.findall(f"{_SVG}metadata"):
        root.remove(child)
    _Drawing(root).simplify()
    styles = dict[str, str]()
    _rename(root, f"f{_short_digest(name)}")
    size = {key: root.attrib[key] for key in ("width", "height", "viewBox")}
    for node in root.iter():
        _shorten(node, styles)
    rules = "".join(f".{style}{{{content}}}" for style, content in styles.items())
    for sheet in root.iter(_STYLE):
        sheet.attrib, sheet.text = {}, f"{sheet.text}{rules}"
    root.attrib = {"role": "img", "aria-label": label, **size}
    return tostring(root, encoding="unicode").replace(" />", "/>")


class _Drawing:
    """A document, the shapes that it refers to and the frames that cut what it draws."""

    def __init__(self, root: Element) -> None:
        self._root = root
        self._shapes = {node.get("id", ""): node for node in root.iter(_PATH) if "id" in node.attrib}
        uses = (node.get(_LINK, "")[1:] for node in root.iter(_USE))
        self._uses = Counter(uses)
        self._frames = {f"url(#{clip.get('id')})": clip[0] for clip in root.iter(_CLIP)}

    def simplify(self) -> None:
        """Draw the same in fewer elements."""
        title = self._root.findall(_TITLE)
        drawn = [part for group in self._root.findall(_GROUP) for part in self._parts(group, None)]
        every = [node for part in drawn for node in part.iter()]
        kept = {node.get(_LINK, "")[1:] for node in every if node.tag == _USE}
        clips = {node.get("clip-path") for node in every}
        shared = [shape for name, shape in self._shapes.items() if name in kept]
        frames = [clip for clip in self._root.iter(_CLIP) if f"url(#{clip.get('id')})" in clips]
        defs = Element(_DEFS)
        defs.extend([*self._root.iter(_STYLE), *shared, *frames])
        self._root[:] = [*title, defs, *_grouped(_joined(drawn))]

    def _parts(self, node: Element, clip: str | None) -> Iterator[Element]:
        """Yield what an element draws, in order, with the frame that cuts it."""
        if node.tag == _DEFS or (node.tag == _PATH and "id" in node.attrib and not node.get("d")):
            return
        clip = node.get("clip-path", clip)
        if node.tag == _GROUP and "transform" not in node.attrib:
            parts = [part for child in node for part in self._parts(child, clip)]
            if node.get("id", "").startswith("matplotlib.axis"):
                looks = list(dict.fromkeys(map(_look, parts)))
                parts.sort(key=lambda part: (_LAYERS.index(part.tag), looks.index(_look(part))))
            yield from parts
            return
        shown = self._inlined(node) if node.tag == _USE else node
        shown.attrib.pop("id", None)
        if shown.tag == _PATH and not svg_path.draws(svg_path.read(shown.get("d", ""))):
            return
        shown.attrib.pop("clip-path", None)
        if clip is not None and not self._is_inside(shown, clip):
            if "transform" in shown.attrib:  # which would move its own frame too
                shown = _group([shown], {})
            shown.set("clip-path", clip)
        yield shown

    def _inlined(self, node: Element) -> Element:
        """Return the shape that an element refers to in its place, where that takes fewer characters."""
        name = node.get(_LINK, "")[1:]
        shape = self._shapes[name]
        own, outer = _properties(shape.attrib.get("style", "")), _properties(node.get("style", ""))
        shape_path = svg_path.read(shape.get("d", ""))
        if self._uses[name] > 1 and len(svg_path.written(shape_path)) > _SHORT:
            if own.items() <= outer.items():  # it has them of what refers to it
                shape.attrib.pop("style", None)
            return node
        path = svg_path.moved(shape_path, float(node.get("x", 0)), float(node.get("y", 0)))
        style = "; ".join(f"{key}: {value}" for key, value in {**outer, **own}.items())
        return Element(_PATH, {"d": _data(path), "style": style})

    def _is_inside(self, node: Element, clip: str) -> bool:
        """Return whether a frame cuts nothing of a path or of where a shape is put."""
        frame = self._frames[clip]
        left, top, width, height = (float(frame.get(key, 0)) for key in _PLACES)
        if node.tag == _PATH:
            points = [point for _, points in svg_path.read(node.get("d", "")) for point in points]
        elif node.tag == _USE:
            points = [(float(node.get("x", 0)), float(node.get("y", 0)))]
        else:
            return False
        return all(
            -_EDGE <= x - left <= width + _EDGE and -_EDGE <= y - top <= height + _EDGE for x, y in points
        )


def _data(path: Sequence[svg_path.Segment]) -> str:
    """Return a path's data as matplotlib writes it."""
    return " ".join(
        f"{command} {' '.join(f'{x:.6f} {y:.6f}' for x, y in points)}" for command, points in path
    )


def _properties(style: str) -> dict[str, str]:
    pairs = (part.partition(":") for part in style.split(";") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _joined(nodes: Iterable[Element]) -> list[Element]:
    """Return elements with neighboring paths of one style as one path, where that looks the same."""
    found = list[Element]()
    for node in nodes:
        last = found[-1] if found else None
        if last is not None and node.tag == _PATH and _is_plain(node) and _look(node) == _look(last):
            last.set("d", f"{last.get('d')} {node.get('d')}")
        else:
            found.append(node)
    return found


def _look(node: Element) -> tuple[str | None, ...]:
    """Return what neighbors that can stand in one element have in common."""
    return node.tag, node.get("style"), node.get("clip-path")


def _is_plain(node: Element) -> bool:
    """Return whether two such paths that overlap look as one: of one color that hides what is below."""
    style = _properties(node.get("style", ""))
    fill, stroke = style.get("fill"), style.get("stroke")
    return not any("opacity" in key or "dash" in key for key in style) and fill in ("none", None, stroke)


def _grouped(nodes: Sequence[Element]) -> Iterator[Element]:
    """Yield elements, neighbors of one style in a group that has it."""
    for (tag, style, clip), run in groupby(nodes, _look):
        found = list(run)
        if len(found) == 1 or tag not in (_PATH, _USE, _TEXT):
            yield from found
            continue
        shared = {"style": style, "clip-path": clip}
        yield _group(found, {key: value for key, value in shared.items() if value is not None})


def _group(nodes: Sequence[Element], shared: dict[str, str]) -> Element:
    """Return a group of elements that has the attributes that they share."""
    group = Element(_GROUP, shared)
    for node in nodes:
        for key in shared:
            del node.attrib[key]
    group.extend(nodes)
    return group


def _short_digest(text: str) -> str:
    """Return five digits of base 36."""
    left = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return "".join(_DIGITS[left // 36**place % 36] for place in range(5))


def _rename(root: Element, prefix: str) -> None:
    """Give ids that something refers to short names, and leave out the others."""
    values = [value for node in root.iter() for value in node.attrib.values()]
    used = dict.fromkeys(found for value in values for _, found in _REFERENCE.findall(value))
    ids: Mapping[str, str] = {old: f"{prefix}{place}" for place, old in enumerate(used)}
    for node in root.iter():
        for key, value in list(node.attrib.items()):
            if key == "id" and value in ids:
                node.set(key, ids[value])
            elif key == "id":
                del node.attrib[key]
            elif key == _LINK:
                del node.attrib[key]
                node.set("href", f"#{ids[value[1:]]}" if value.startswith("#") else value)
            else:
                node.set(key, _REFERENCE.sub(lambda found: found[1] + ids[found[2]], value))


def _shorten(node: Element, styles: dict[str, str]) -> None:
    """Leave digits and spaces out that nobody sees, and put an element's style into `styles`."""
    for key, value in list(node.attrib.items()):
        if key == "d":
            node.set(key, svg_path.written(svg_path.read(value)))
        elif key in _PLACES:
            node.set(key, _rounded(value))
        elif key == "transform":
            turned = _NO_TURN.sub("", value).strip()
            node.set(key, _rounded(turned))
            if not turned:
                del node.attrib[key]
        elif key == "style":
            style = f"s{_short_digest(value)}"
            styles[style] = value.replace("; ", ";").replace(": ", ":").replace(", ", ",")
            del node.attrib[key]
            node.set("class", style)
    if node.tag not in _WORDS:
        node.text = None
    if node.tag != _TSPAN:
        node.tail = None  # a line's end


def _rounded(text: str) -> str:
    return _NUMBER.sub(lambda found: svg_path.number(float(found[0]), 1), text)
