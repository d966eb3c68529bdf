"""Write the sources of the site, with pages generated from settings and records: `make docs` builds it."""

from __future__ import annotations

import sys

from adanorm.config.paths import PROJECT
from adanorm.records.folder import shown
from adanorm.verdicts.claims import claim_results
from scripts.command_line import ended_by_mistakes, parse_keys
from scripts.website.api import api_pages
from scripts.website.claims import claim_pages
from scripts.website.configuration import configuration_pages
from scripts.website.norms import norm_pages
from scripts.website.stage import stage
from scripts.website.tasks import task_pages
from scripts.website.text import Pages, contents

TO_THE_INDEX = (
    "<!doctype html><title>AdaNorm, reproduced</title>"
    '<meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">The pages</a>\n'
)


def main() -> None:
    """Write them to `outputs/site-source`, which is emptied first."""
    with ended_by_mistakes():
        parse_keys(sys.argv[1:], {})
        into = PROJECT / "outputs" / "site-source"
        pages = stage(generated_pages(), into)
        (into / "index.html").write_text(TO_THE_INDEX)
        print(f"{len(pages)} pages in {shown(into)}")


def generated_pages() -> Pages:
    """Return every page that is generated."""
    claims = claim_pages(claim_results())
    return {**norm_pages(), **task_pages(), **claims, **_tables(), **configuration_pages(), **api_pages()}


def _tables() -> Pages:
    """Return the page that lists the committed tables and figures."""
    lead = "Written from the records by `make tables` and `make figures`."
    entries = ["../../results/tables/*", "../../results/figures/*"]
    return {
        "docs/reference/tables.md": contents("Tables and figures", lead, entries, [":maxdepth: 1", ":glob:"])
    }


if __name__ == "__main__":
    main()
