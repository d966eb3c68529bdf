"""Editions of a corpus: one other than the default is used only if it alone is at hand, and is named."""

from pathlib import Path

import pytest

from adanorm.config import sections
from adanorm.config.compose import cached_experiment
from adanorm.data.catalogue import SOURCES
from adanorm.data.fetch import editions_of
from adanorm.files import write_files
from adanorm.runs.auto_scale import resolve_auto


def test_every_edition_has_a_preset_that_reads_it_and_is_another_experiment() -> None:
    tasks = {
        "wmt16-en-de-parts": ("en-de", "paper"),
        "iwslt14-de-en": ("de-en", "paper"),
        "multi30k-de-en": ("de-en", "mini"),
        "iwslt15-en-vi-30k": ("en-vi", "mini"),
        "ptb-sample": ("ptb", "mini"),
    }
    assert {source.edition_of for source in SOURCES.values()} == {None, *tasks}
    for name, (task, scale) in tasks.items():
        chosen = (f"task={task}", f"scale={scale}")
        default = cached_experiment(chosen)
        assert default.data.source == name
        runs = {}
        for other in editions_of(SOURCES[name]):
            runs[other.folder] = cached_experiment([*chosen, f"preset={other.preset}"])
        assert all(SOURCES[run.data.source].folder == folder for folder, run in runs.items())
        assert len({run.digest for run in (default, *runs.values())}) == len(runs) + 1


def test_an_archive_in_a_mirror_is_used_where_the_parts_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ADANORM_MIRROR", str(tmp_path))
    files = {
        name: {f"{name}/{file.name}": b"" for file in source.files}
        for name, source in SOURCES.items()
    }
    write_files(tmp_path, files["wmt16-en-de"] | files["multi30k-de-en"])
    overrides = ["task=en-de", "seed=999", "scale=auto"]
    assert resolve_auto(overrides)[2:] == ["scale=mini"], (
        "the edition is of the paper's scale alone"
    )
    monkeypatch.setattr(sections, "LONGEST_CPU_HOURS", 1e9)
    assert resolve_auto(overrides)[2:] == ["scale=paper", "preset=wmt16-archive"]
    assert "preset=wmt16-archive: that edition of the data lies here" in capsys.readouterr().out
    swept = ["-m", "task=en-de", "norm=adanorm,layernorm", "seed=1,2,3", "scale=auto"]
    assert resolve_auto(swept)[4:] == ["scale=paper", "preset=wmt16-archive"], "as each of its runs"
    assert resolve_auto(["task=en-de", "scale=paper"]) == ["task=en-de", "scale=paper"]
    write_files(tmp_path, files["wmt16-en-de-parts"])
    assert resolve_auto(overrides)[2:] == ["scale=paper"]
