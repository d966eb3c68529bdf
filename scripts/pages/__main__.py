"""Write the pages of this repository that show records: `python -m scripts.pages`.

They are the README's answers and table, docs/norms.md and results/REPORT.md.
"""

from pathlib import Path

from adanorm.config.paths import PROJECT
from adanorm.files import write_whole
from adanorm.records.folder import path_text
from adanorm.reporting.report import read_tables
from adanorm.verdicts.claims import claim_results
from scripts.pages.norm_guide import GUIDE, draw, guide
from scripts.pages.readme import README, readme
from scripts.pages.reproducibility_report import reproducibility_report

RESULTS = PROJECT / "results"


def pages() -> dict[Path, str]:
    """Return the text of every page, by its path."""
    tables = read_tables()
    texts = {README: readme(tables), GUIDE: guide(tables)}
    texts[RESULTS / "REPORT.md"] = reproducibility_report(claim_results(), tables)
    return texts


if __name__ == "__main__":
    for path, text in pages().items():
        write_whole(path, text.encode())
        print(path_text(path))
    draw(RESULTS / "bench" / "norms.csv")
