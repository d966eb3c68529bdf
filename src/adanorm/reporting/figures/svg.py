"""Figures as SVG that is small, and that can stand beside others in one page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from xml.etree import ElementTree

NAMESPACES = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}
_SVG = f"{{{NAMESPACES['']}}}"
_WORDS = {f"{_SVG}{tag}" for tag in ("text", "tspan", "title", "style")}
_REFERENCE = re.compile(r"(^#|url\(#)([^)]+)")  # a color has no such place
_DIGITS = re.compile(r"(\.\d\d)\d+")  # of a point, a hundredth is nothing
_SPACES = re.compile(r"\s*([MLQCz])\s*")
_NO_TURN = re.compile(r"rotate\(-?0 [^)]*\)")


def compact(text: str, *, name: str, label: str) -> str:
    """Return an SVG document as an element for a page: ids begin with a digest of `name`, it reads `label`.

    Ids that nothing refers to, groups that say nothing and digits that nobody sees are left out. A style
    is a class that is called by its content, so that equal ones of several figures agree.
    """
    for space, address in NAMESPACES.items():
        ElementTree.register_namespace(space, address)
    root = ElementTree.fromstring(text)
    for child in root.findall(f"{_SVG}metadata"):
        root.remove(child)
    values = [value for node in root.iter() for value in node.attrib.values()]
    used = dict.fromkeys(found for value in values for _, found in _REFERENCE.findall(value))
    prefix = f"f{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    ids = {old: f"{prefix}-{number}" for number, old in enumerate(used)}
    styles: dict[str, str] = {}
    for node in root.iter():
        _shorten(node, ids, styles)
    rules = "".join(f".{style}{{{content}}}" for style, content in styles.items())
    for sheet in root.iter(f"{_SVG}style"):
        sheet.text = f"{sheet.text}{rules}"
    _dissolve(root)
    root.attrib = {"role": "img", "aria-label": label, **root.attrib}
    return ElementTree.tostring(root, encoding="unicode")


def _shorten(node: ElementTree.Element, ids: Mapping[str, str], styles: dict[str, str]) -> None:
    """Leave out of an element what is not seen, give it its new ids and put its style into `styles`."""
    for key, value in list(node.attrib.items()):
        if key == "id":
            short = ids.get(value, "")
        elif key in ("d", "x", "y"):
            short = _SPACES.sub(r"\1", _DIGITS.sub(r"\1", value)).strip()
        elif key == "transform":
            short = _NO_TURN.sub("", value).strip()
        else:
            short = _REFERENCE.sub(lambda found: found[1] + ids[found[2]], value)
        if key == "style":
            style = f"s{hashlib.sha256(short.encode()).hexdigest()[:7]}"
            styles[style] = short.replace("; ", ";").replace(": ", ":")
            node.set("class", style)
            del node.attrib[key]
        elif short:
            node.set(key, short)
        else:
            del node.attrib[key]
    if node.tag not in _WORDS:
        node.text = None
    if node.tag != f"{_SVG}tspan":
        node.tail = None  # a line's end


def _dissolve(node: ElementTree.Element) -> None:
    """Put the children of groups without attributes in their place."""
    kept: list[ElementTree.Element] = []
    for child in node:
        _dissolve(child)
        kept += list(child) if child.tag == f"{_SVG}g" and not child.attrib else [child]
    node[:] = kept
