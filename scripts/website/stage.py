"""The sources of the site in one folder, laid out as the repository is, so that its links hold in both.

A link to a page leads to that page, to another file to a copy of it; one to a folder becomes text.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from adanorm.config.paths import PROJECT
from scripts.website.text import Pages

TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)#\s]*)(?:#[^)\s]*)?\)")
BLOCK = re.compile(r"(^```.*?^```[ ]*$)", re.MULTILINE | re.DOTALL)


def hand_written() -> list[str]:
    """Return the pages of the repository that the site shows, by path."""
    found = [*PROJECT.glob("docs/**/*.md"), *PROJECT.glob("results/tables/*.md")]
    return [*TOP, *sorted(str(path.relative_to(PROJECT)) for path in found)]


def stage(generated: Pages, into: Path) -> list[str]:
    """Write the site's sources into an empty folder, and return the paths of its pages.

    Pages that others link to, such as those of figures, come along. Raises ValueError for a link that
    leads nowhere.
    """
    shutil.rmtree(into, ignore_errors=True)
    waiting = [*hand_written(), *generated]
    done: list[str] = []
    while waiting:
        path = waiting.pop()
        if path in done:
            continue
        done.append(path)
        text = generated[path] if path in generated else (PROJECT / path).read_text("utf-8")
        text, linked = _with_links(text, path, generated)
        target = into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
        for other in linked:
            if other.endswith(".md"):
                waiting.append(other)
            else:
                (into / other).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(PROJECT / other, into / other)
    return sorted(done)


def _with_links(text: str, page: str, generated: Pages) -> tuple[str, list[str]]:
    """Return a page whose links to folders are text, and the files that the others lead to."""
    linked: list[str] = []

    def replaced(link: re.Match[str]) -> str:
        words, target = link.groups()
        if not target or "://" in target or target.startswith("mailto:"):
            return link[0]
        found = (PROJECT / page).parent.joinpath(target).resolve()
        if not found.is_relative_to(PROJECT):
            raise ValueError(f"{page}: {target} is outside of the repository")
        path = str(found.relative_to(PROJECT))
        if found.is_dir():
            return words
        if path not in generated and not found.exists():
            raise ValueError(f"{page}: {target} leads nowhere")
        linked.append(path)
        return link[0]

    parts = BLOCK.split(text)  # every other part is a block of code
    parts[::2] = [LINK.sub(replaced, part) for part in parts[::2]]
    return "".join(parts), linked
