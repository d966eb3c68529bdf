"""The settings of a task with what conf/ says of each: its comment, `assumed` or `recollected`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from adanorm.config.compose import cached_experiment
from adanorm.config.paths import CONF
from adanorm.config.yaml_file import dotted
from adanorm.reporting.tables.notes import MARKS

SECTIONS = ("data", "model", "segments", "decoding", "training")  # what tells one task from another
COMMENT = re.compile(r"(?:^|\s)#\s?(.*)$")
INHERITED = re.compile(r"^  - (shared/\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Setting:
    """A setting of a task: its value, and where and with which comment conf/ sets it."""

    value: Any
    note: str = ""
    file: str = ""  # below conf/; empty: the default of the code

    @property
    def mark(self) -> str:
        """The first word of MARKS in the comment: what the paper does not state; empty: none."""
        found = re.search(rf"\b({'|'.join(MARKS)})\b", self.note)
        return found[1] if found else ""

    @property
    def shown(self) -> str:
        """The value as a command line takes it."""
        return yaml_value(self.value)


def yaml_value(value: Any) -> str:
    """Return a value in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.rstrip().removesuffix("...").rstrip()


@cache
def settings_of(task: str) -> Mapping[str, Setting]:
    """Return the settings of a task at the paper's scale by key, such as `training.lr`; nulls too."""
    comments = _comments_of(task)
    values = cached_experiment([f"task={task}"]).model_dump(mode="json")
    found = {}
    for key, value in dotted(values):
        note, file = comments.get(key, ("", ""))
        if value is not None or file:
            found[key] = Setting(value, note, file)
    return found


def files_of(task: str) -> list[Path]:
    """Return the files of conf/task that a task is made of, what it inherits first."""
    path = CONF / "task" / f"{task}.yaml"
    shared = INHERITED.findall(path.read_text("utf-8"))
    return [*(file for name in shared for file in files_of(name)), path]


def heading_of(path: Path) -> str:
    """Return the comment at the head of a YAML file, as one paragraph."""
    lines = path.read_text("utf-8").splitlines()
    head = [line.removeprefix("#").strip() for line in lines if line.startswith("#")]
    return " ".join(line for line in head if not line.startswith("@package"))


def _comments_of(task: str) -> dict[str, tuple[str, str]]:
    """Return comment and file of each key that a file sets; the file that sets it last counts."""
    found: dict[str, tuple[str, str]] = {}
    for path in (CONF / "run.yaml", *files_of(task)):
        text = path.read_text("utf-8")
        notes = comments_by_line(text)
        root = yaml.compose(text)
        for key, line in _keys(root) if isinstance(root, yaml.MappingNode) else ():
            found[key] = (notes.get(line, ""), str(path.relative_to(CONF)))
    return found


def comments_by_line(text: str) -> dict[int, str]:
    """Return the comment of each line that has one, with the lines of comment below it."""
    notes: dict[int, str] = {}
    last = None
    for number, line in enumerate(text.splitlines()):
        comment = COMMENT.search(line)
        if comment and line.lstrip().startswith("#"):
            if last is not None and line[0] == " ":
                notes[last] += f" {comment[1].strip()}"
        elif comment:
            last = number
            notes[number] = comment[1].strip()
        else:
            last = None
    return notes


def _keys(node: yaml.MappingNode, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield each key of a mapping, those of mappings within it too, with its line."""
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        yield name, key.start_mark.line
        if isinstance(value, yaml.MappingNode):
            yield from _keys(value, f"{name}.")
