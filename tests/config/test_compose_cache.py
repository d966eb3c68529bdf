"""A configuration that was kept is believed only as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from adanorm.config import compose_cache
from adanorm.config.compose import compose_experiment

OVERRIDES = ("task=rt", "scale=smoke", "training.lr=0.125")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of what is kept, which does not exist yet."""
    folder = tmp_path / "data" / "composed"
    monkeypatch.setattr(compose_cache, "FOLDER", folder)
    forget()
    yield folder
    forget()


def forget() -> None:
    """Know no more than another process would."""
    compose_cache._folder.cache_clear()
    compose_cache._values.cache_clear()


@pytest.mark.parametrize("spoil", [lambda text: text.replace("0.125", "0.25"), lambda text: text[:-9], None])
def test_a_kept_configuration_that_was_changed_is_composed_again(folder: Path, spoil: object) -> None:
    expected = compose_experiment(OVERRIDES)
    for _ in range(2):
        forget()
        assert compose_cache.cached_experiment(OVERRIDES) == expected
        (path,) = folder.glob("*/*.json")
        assert "0.125" in path.read_text()
        if callable(spoil):
            path.write_text(spoil(path.read_text()))


def test_what_was_composed_from_this_code_is_kept_and_from_other_code_removed(folder: Path) -> None:
    compose_cache.cached_experiment(OVERRIDES)
    (first,) = folder.glob("*/*.json")
    written = first.stat().st_mtime_ns
    (folder / "of other code").mkdir()
    (folder / "of other code" / "one.json").touch()
    forget()
    for overrides in (OVERRIDES, (*OVERRIDES, "seed=2")):
        assert compose_cache.cached_experiment(overrides) == compose_experiment(overrides)
    assert [*folder.iterdir()] == [first.parent]
    assert len([*first.parent.iterdir()]) == 2
    assert first.stat().st_mtime_ns == written, "read, not composed again"


def test_tasks_are_known_by_their_kind_and_sources_of_the_papers_data_by_task() -> None:
    assert compose_cache.tasks_of_kind("char_lm") == ["enwik8", "enwik8-gru", "enwik8-lstm", "enwik8-rnn"]
    presets = {"iwslt14-de-en-tokenized", "wmt14-en-de", "wmt16-en-de"}
    for task, own in (("rt", "rt"), ("de-en", "iwslt14-de-en")):
        assert compose_cache.papers_sources(task) == {own, *presets}
