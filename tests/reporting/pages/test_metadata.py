"""What describes data and results to other tools says what the catalogue and the records say."""

from __future__ import annotations

import json

import pytest

from adanorm.config.paths import PROJECT
from adanorm.data.catalogue import SOURCES
from adanorm.reporting.pages.metadata import PARTS, croissants, ro_crate
from adanorm.reporting.pages.report import read_records
from adanorm.reporting.pages.reproducibility_report import reproducibility_report

RESULTS = PROJECT / "results"
WITHOUT_ADDRESS = {"enwik8-1m", "iwslt15-en-vi-30k", "mnist-5k"}


def test_every_source_with_addresses_is_described_with_its_checksums() -> None:
    described = croissants()
    assert set(SOURCES) - set(described) == WITHOUT_ADDRESS
    for name, found in described.items():
        files = {entry["@id"]: entry for entry in found["distribution"]}
        assert found["license"] == SOURCES[name].license
        for file in SOURCES[name].files:
            entry = files.pop(file.name)
            assert entry["contentUrl"] in {address.partition("#")[0] for address in file.addresses}
            kind, _, checksum = (file.checksum or "").partition(":")
            expected = {kind: checksum} if kind in ("sha256", "md5") else {}
            assert {key: entry[key] for key in ("sha256", "md5") if key in entry} == expected
            assert expected or found["isLiveDataset"], "Croissant asks for one of the two"
            assert entry.get("contentSize") == (file.size and f"{file.size} B")
        assert not files


def test_the_crate_names_what_there_is_once() -> None:
    crate = ro_crate([part for part in PARTS if (RESULTS / part).exists()])
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert len(entities) == len(crate["@graph"])
    assert entities["ro-crate-metadata.json"]["about"] == {"@id": "./"}
    for part in entities["./"]["hasPart"]:
        assert (RESULTS / part["@id"]).exists()
        assert entities[part["@id"]]["description"]


@pytest.mark.parametrize("name", croissants())
def test_the_committed_descriptions_are_those_of_the_code(name: str) -> None:
    assert json.loads((RESULTS / "metadata" / f"{name}.json").read_text()) == croissants()[name]


def test_the_committed_report_has_every_claim_with_runs() -> None:
    text = (RESULTS / "REPORT.md").read_text()
    records = read_records()
    assert text == reproducibility_report(records.judgements, records.tables)
    for found in records.judgements:
        assert f"| {found.claim.text} |" in text or not found.run
