"""Bundles: what goes out comes in; what is not as it says, or would do harm, does not."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from adanorm.cli.command import dispatch
from adanorm.config.compose_cache import cached_experiment
from adanorm.records.comparisons import (
    ComparisonRecord,
    comparison_path,
    comparison_text,
    write_comparison,
)
from adanorm.scorecards import bundle
from adanorm.scorecards.bundle import CARD, MANIFEST, export, read_bundle
from adanorm.scorecards.imported import imported_card
from tests.scorecards.test_scorecard import OWN, card, higher, read, recorded

Members = dict[str, bytes]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A bundle of a scorecard over records made by hand."""
    recorded(tmp_path / "runs", higher, seeds=4)
    found = card()
    found = found.model_copy(update={"scores": [read(tmp_path / "runs", found)], "ended": "all is decided"})
    export(found, str(tmp_path / "runs"), tmp_path / "card.zip")
    return tmp_path / "card.zip"


def pack(path: Path, members: Members, *, sealed: bool = True) -> Path:
    """Write members with a manifest of them, so that nothing but what they say is wrong."""
    if sealed:
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
        members = {MANIFEST: json.dumps({"schema": 1, "files": digests}).encode(), **members}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_what_is_exported_is_imported_with_its_source_and_shown_beside_ours(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = read_bundle(exported)
    assert any(name.startswith("source/") and name.endswith("norms.py") for name in members)
    assert sum(name.endswith("result.json") for name in members) == 8
    assert imported_card(members).scores[0].verdicts[0].answer == "better"

    card().model_copy(update={"identity": "11111111"}).write(tmp_path / "here" / "scorecards" / "Ours.json")
    assert dispatch(["scorecard", f"import={exported}", f"runs={tmp_path / 'here'}"]) == 0
    said = capsys.readouterr().out
    assert "none of its code was run" in " ".join(said.split())
    assert max(map(len, said.splitlines()[:-1])) <= 80
    (page,) = (tmp_path / "here" / "scorecards" / "imported").iterdir()
    assert 'id="00000000"' in page.read_text()
    assert 'id="11111111"' in page.read_text()


def test_the_noise_of_examples_goes_with_the_records(tmp_path: Path) -> None:
    """By the seeds alone the norm is better; by examples as noisy as these that is open."""
    recorded(tmp_path / "runs", higher, seeds=4)
    other, own = (
        cached_experiment(["task=mnist", f"norm={norm}", "scale=mini"], runs=str(tmp_path / "runs"))
        for norm in ("layernorm", OWN)
    )
    noise = ComparisonRecord(
        task="mnist", scale="mini", metric="accuracy", norms=("layernorm", OWN), seeds=[1, 2, 3, 4],
        examples=500, gap=2.05, seed_variance=0.0, example_variance=2000.0, rest_variance=0.0,
        seed_error=0.0, example_error=2.0,
    )  # fmt: skip
    write_comparison(comparison_path(other, own), noise)
    found = card().model_copy(update={"scores": [read(tmp_path / "runs", card())], "ended": "all seeds"})
    export(found, str(tmp_path / "runs"), tmp_path / "card.zip")
    members = read_bundle(tmp_path / "card.zip")
    assert imported_card(members).scores[0].verdicts[0].answer == "open"
    (name,) = (name for name in members if name.startswith("comparisons/"))
    with pytest.raises(ValueError, match="says open beside layernorm on mnist, its records better"):
        imported_card({key: content for key, content in members.items() if key != name})
    for update, said in (
        ({"example_error": -1.0}, "has no standard error of examples"),
        ({"seeds": [1, 2, 3]}, "is of other runs than the bundle's"),
        ({"norms": (OWN, "layernorm")}, "is of other runs than the bundle's"),
    ):
        with pytest.raises(ValueError, match=said):
            imported_card({**members, name: comparison_text(noise.model_copy(update=update))})
    with pytest.raises(ValueError, match="it is not what was written"):
        imported_card({**members, name: members[name].replace(b"2.0", b"0.2")})


def test_the_same_scorecard_gives_the_same_bytes(tmp_path: Path, exported: Path) -> None:
    found = card().model_copy(update={"scores": [read(tmp_path / "runs", card())], "ended": "all is decided"})
    export(found, str(tmp_path / "runs"), tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == exported.read_bytes()


@pytest.mark.parametrize("name", ["../out.py", "/etc/out", "a/../../out", "a\\..\\out", ".hidden", "a//b"])
def test_a_name_that_could_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a bundle's file"):
        read_bundle(pack(tmp_path / "bad.zip", {name: b"x"}))


def test_a_link_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("runs")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr(link, "/etc")
    with pytest.raises(ValueError, match="is no name of a bundle's file"):
        read_bundle(tmp_path / "bad.zip")


def test_what_unpacks_to_more_than_a_scorecard_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "MOST_BYTES", 1 << 20)
    with pytest.raises(ValueError, match="unpacks to more than 1 MB"):
        read_bundle(pack(tmp_path / "bad.zip", {"a": bytes(1 << 19), "b": bytes(1 << 20)}))


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({MANIFEST: b'{"schema": 2, "files": {}}'}, "schema 2 is not 1"),
        ({MANIFEST: b"[]"}, "lists no files"),
        ({MANIFEST: b"[" * 100_000}, "is no JSON"),
        ({MANIFEST: b'{"schema": 1, "files": {}}', "more": b""}, "'more' is in the bundle or in"),
        ({MANIFEST: b'{"schema": 1, "files": {"less": "0"}}'}, "'less' is in the bundle or in"),
        ({MANIFEST: b'{"schema": 1, "files": {"a": "0"}}', "a": b""}, "a is not what"),
    ],
)
def test_a_manifest_that_is_not_of_the_bundle_is_refused(tmp_path: Path, members: Members, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_bundle(pack(tmp_path / "bad.zip", members, sealed=False))


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match="no bundle of a scorecard"):
        read_bundle(tmp_path / "bad.zip")


def in_card(old: str, new: str) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        assert old.encode() in members[CARD]
        members[CARD] = members[CARD].replace(old.encode(), new.encode(), 1)

    return change


def in_every(ending: str, old: bytes, new: bytes) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        for name in [name for name in members if name.endswith(ending)]:
            members[name] = members[name].replace(old, new)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            in_card('"answer": "better"', '"answer": "equivalent"'),
            "says equivalent beside layernorm on mnist",
        ),
        (in_card("98.1", "99.1"), f"other scores of {OWN} on mnist than its records"),
        (in_card('"task": "mnist"', '"task": "../mnist"'), "is no task of a scorecard"),
        (in_card('"closing": ""', '"closing": "\\u001b[2J"'), "is no text of a card"),
        (in_card('"spent"', '"sold"'), "card.json: .*sold"),
        (in_card('"layernorm": 0.0', '"none": 0.0'), "of other norms than the card's"),
        (
            in_every("norms.py", b"AdaNorm", b"BadNorm"),
            "another norm than this version's, or than that of source/",
        ),
        (in_every("config.yaml", b"lr: 0.001", b"lr: 0.002"), "another training than this version's"),
        (in_every("config.yaml", b"task:", b"a: &a [1]\nb: *a\ntask:"), "config.yaml: has aliases"),
        (
            in_every("config.yaml", b"task:", b"a: !!python/name:os.system\ntask:"),
            "could not determine a con",
        ),
        (in_every("result.json", b'"test"', b'"tset"'), "it is not what was written"),
        (in_every("result.json", b'"checksum"', b'"seal"'), "it has no checksum"),
    ],
)
def test_a_bundle_that_says_other_than_its_records_is_refused(
    exported: Path, change: Callable[[Members], None], said: str
) -> None:
    members = read_bundle(exported)
    change(members)
    with pytest.raises(ValueError, match=said):
        imported_card(members)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("import=none.zip", "none.zip"),
        ("import=none.zip norm=adanorm", "norm=adanorm: import= takes no other key"),
        ("norm=rmsnorm export=a.zip", "no finished scorecard of rmsnorm"),
    ],
)
def test_what_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, OSError), match=said):
        dispatch(["scorecard", *arguments.split()])
    assert not list(tmp_path.iterdir())
