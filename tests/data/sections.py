"""Sections of data as a command line gives them."""

from typing import TypeVar

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import DataConfig

Section = TypeVar("Section", bound=DataConfig)


def section_of(kind: type[Section], *overrides: str) -> Section:
    """Return the data of an experiment, which are of this kind."""
    data = compose_experiment(overrides).data
    assert isinstance(data, kind)
    return data
