"""`adanorm verify` on a run made here."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Command

RUN = ("task=gaussian", "norm=adanorm", "scale=smoke")


def test_a_run_made_here_is_reproduced_to_the_bit_in_a_folder_of_its_own(
    tmp_path: Path, command: Command
) -> None:
    records, into = tmp_path / "records", tmp_path / "repeated"
    assert command("run", *RUN, "seed=2", f"runs={records}").returncode == 0
    before = {path: path.read_bytes() for path in records.rglob("*") if path.is_file()}
    done = command("verify", *RUN, f"runs={records}", f"into={into}")
    assert done.returncode == 0, done.stderr
    assert "gaussian adanorm smoke, seed 2: test" in done.stdout, "the only seed on record"
    assert "reproduced to the bit\ncomputed alike\n" in done.stdout
    assert {path: path.read_bytes() for path in records.rglob("*") if path.is_file()} == before
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_without_a_record_or_into_the_records_nothing_is_run(tmp_path: Path, command: Command) -> None:
    lacking = command("verify", *RUN, f"runs={tmp_path}", f"into={tmp_path / 'into'}")
    assert (lacking.returncode, lacking.stderr.count("\n")) == (2, 1)
    assert "no record of gaussian adanorm at scale smoke" in lacking.stderr
    assert not (tmp_path / "into").exists()
    assert command("run", *RUN, f"runs={tmp_path}").returncode == 0
    assert command("run", *RUN, "seed=2", f"runs={tmp_path}").returncode == 0
    second = command("verify", *RUN, "++seed=2", f"++runs={tmp_path}", f"into={tmp_path / 'into'}")
    assert "gaussian adanorm smoke, seed 2: test" in second.stdout, "whatever its spelling"
    onto = command("verify", *RUN, f"runs={tmp_path}", f"into={tmp_path}")
    assert (onto.returncode, onto.stderr.count("\n")) == (2, 1)
    assert "is where the record is" in onto.stderr
