"""A configuration that was kept is believed only as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm.config import compose_cache
from adanorm.config.compose import compose_experiment

OVERRIDES = ("task=rt", "scale=smoke", "training.lr=0.125")


@pytest.mark.parametrize("spoil", [lambda text: text.replace("0.125", "0.25"), lambda text: text[:-9], None])
def test_a_kept_configuration_that_was_changed_is_composed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: object
) -> None:
    monkeypatch.setattr(compose_cache, "FOLDER", tmp_path)
    expected = compose_experiment(OVERRIDES)
    for _ in range(2):
        compose_cache._folder.cache_clear()
        compose_cache._values.cache_clear()
        assert compose_cache.cached_experiment(OVERRIDES) == expected
        (path,) = tmp_path.glob("*/*.json")
        assert "0.125" in path.read_text()
        if callable(spoil):
            path.write_text(spoil(path.read_text()))
    compose_cache._folder.cache_clear()
    compose_cache._values.cache_clear()
