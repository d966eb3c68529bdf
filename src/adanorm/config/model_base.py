"""What the section of every model has: the data that it takes, and what its norm sites offer."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

from adanorm.config.data_sections import DataConfig
from adanorm.config.sections import Config


class Sites(NamedTuple):
    """What a model's norm sites offer a norm; the defaults are those of most models."""

    positions: bool = True  # an example has several positions, each a row; else it is one row
    positions_with: str | None = None  # the setting under which it has, where it has not
    padding_known: bool = True  # a site says which positions are padding, or has none
    causal: bool = False  # no position may know of those behind it
    after_layers: bool = True  # some site has a layer of its own before it


class ModelConfig(Config):
    """Settings of a model, and what the data and the norms must be that it takes."""

    reads: ClassVar[type[DataConfig] | tuple[type[DataConfig], ...]]
    carries: ClassVar[Literal["positions", "state"] | None] = None  # from segment to segment of a text
    norm_sites: ClassVar[Sites] = Sites()

    name: str

    @classmethod
    def data_sections(cls) -> tuple[type[DataConfig], ...]:
        """Return the sections of data that it reads."""
        return cls.reads if isinstance(cls.reads, tuple) else (cls.reads,)

    def misfit(self, data: DataConfig) -> str | None:
        """Return why data of a section that it reads do not suit these settings, None where they do."""
        return None

    def sites(self) -> Sites:
        """Return what the norm sites offer under these settings."""
        return self.norm_sites
