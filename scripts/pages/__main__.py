"""Write the pages of this repository that show records: `python -m scripts.pages`.

They are the README's answers and table, and docs/norms.md.
"""

from pathlib import Path

from adanorm.config.paths import PROJECT
from adanorm.files import write_whole
from adanorm.records.folder import path_text
from adanorm.reporting.report import read_tables
from scripts.pages.norm_guide import GUIDE, draw, guide
from scripts.pages.readme import README, readme


def pages() -> dict[Path, str]:
    """Return the text of every page, by its path."""
    tables = read_tables()
    return {README: readme(tables), GUIDE: guide(tables)}


if __name__ == "__main__":
    for path, text in pages().items():
        write_whole(path, text.encode())
        print(path_text(path))
    draw(PROJECT / "results" / "bench" / "norms.csv")
