"""Write the pages of this repository that show records: `python -m scripts.pages`.

They are the README's answers and table, docs/norms.md and results/REPORT.md; and, for other tools,
a Croissant description of each data source in results/metadata, and an RO-Crate of the results.
"""

import json
from pathlib import Path

from adanorm.config.paths import PROJECT
from adanorm.files import write_whole
from adanorm.records.folder import path_text
from adanorm.reporting.report import read_tables
from adanorm.verdicts.claims import claim_results
from scripts.pages.metadata import croissants, ro_crate
from scripts.pages.norm_guide import GUIDE, draw, guide
from scripts.pages.readme import README, readme
from scripts.pages.reproducibility_report import reproducibility_report

RESULTS = PROJECT / "results"


def pages() -> dict[Path, str]:
    """Return the text of every page, by its path."""
    tables = read_tables()
    texts = {README: readme(tables), GUIDE: guide(tables)}
    texts[RESULTS / "REPORT.md"] = reproducibility_report(claim_results(), tables)
    entries = {RESULTS / "metadata" / f"{name}.json": entry for name, entry in croissants().items()}
    entries[RESULTS / "ro-crate-metadata.json"] = ro_crate(RESULTS)
    for path, entry in entries.items():
        texts[path] = json.dumps(entry, indent=1, ensure_ascii=False) + "\n"
    return texts


if __name__ == "__main__":
    for path, text in pages().items():
        write_whole(path, text.encode())
        print(path_text(path))
    draw(RESULTS / "bench" / "norms.csv")
