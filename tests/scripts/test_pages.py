"""This repository's own pages say what the records and the catalogue of the data say."""

from __future__ import annotations

import re
from pathlib import Path

from adanorm.config.paths import PROJECT
from adanorm.data.catalogue import SOURCES
from adanorm.reporting.tables.table import Table
from scripts.pages.__main__ import pages
from scripts.pages.metadata import croissants, ro_crate
from scripts.pages.readme import summary_table
from scripts.pages.settings import sections, settings
from tests.reporting.records import record, score, scored

RESULTS = PROJECT / "results"
WITHOUT_ADDRESS = {"enwik8-1m", "iwslt15-en-vi-30k", "mnist-5k"}


def test_every_source_with_addresses_is_described_with_its_checksums() -> None:
    described = croissants()
    assert set(SOURCES) - set(described) == WITHOUT_ADDRESS
    for name, found in described.items():
        assert found["license"] == SOURCES[name].license
        for entry, file in zip(found["distribution"], SOURCES[name].files, strict=True):
            assert entry["@id"] == file.name
            assert entry["contentUrl"] in {address.partition("#")[0] for address in file.addresses}
            kind, _, checksum = (file.checksum or "").partition(":")
            expected = {kind: checksum} if kind in ("sha256", "md5") else {}
            assert {key: entry[key] for key in ("sha256", "md5") if key in entry} == expected
            assert expected or found["isLiveDataset"], "Croissant asks for one of the two"
            assert entry.get("contentSize") == (file.size and f"{file.size} B")


def test_the_crate_names_what_there_is_once() -> None:
    crate = ro_crate(RESULTS)
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert len(entities) == len(crate["@graph"])
    assert entities["ro-crate-metadata.json"]["about"] == {"@id": "./"}
    for part in entities["./"]["hasPart"]:
        assert (RESULTS / part["@id"]).exists()
        assert entities[part["@id"]]["description"]


def test_the_committed_pages_are_those_of_the_committed_records() -> None:
    stale = [path.name for path, text in pages().items() if path.read_text("utf-8") != text]
    assert not stale, "run scripts/regenerate"


def test_the_readmes_table_says_how_many_seeds_its_cells_have(tmp_path: Path) -> None:
    table = scored("table4", tmp_path, {("adanorm", "mnist"): [99.1] * 3})
    assert summary_table(table).endswith("\n\nSeeds: 3 per cell.")
    record(table.grid["adanorm", "mnist"].runs[0].model_copy(update={"seed": 4}), **score(99.6))
    more = summary_table(Table(table.study, table.grid))
    assert more.endswith("\n\nSeeds: 3 per cell, but on MNIST AdaNorm 4.")


def test_the_settings_of_the_site_are_those_of_every_section() -> None:
    page = settings()
    assert all(f"| `{key}.{field}" in page for key, section in sections() for field in section.model_fields)
    assert "| `training.clip_norm` | number, above 0, at most 1e+30 or null |" in page


def test_every_page_of_docs_is_in_the_contents_of_the_site() -> None:
    docs = PROJECT / "docs"
    listed = set(re.findall(r"^(?:.*<)?([\w./-]+?)>?$", (docs / "index.md").read_text("utf-8"), re.MULTILINE))
    for path in docs.glob("**/*.md"):
        assert str(path.relative_to(docs).with_suffix("")) in {*listed, "index"}
