"""What the analyses observe, one file each; torch is needed here and not where records are shown."""

from importlib import import_module
from typing import Any

from adanorm.analyses.along_training import along_training
from adanorm.analyses.spec import AnalysisRecord


def observer(name: str) -> Any:
    """Return the module of an analysis, which has `observe` or, where nothing is trained, `make`."""
    return import_module(f"{__name__}.{name.replace('-', '_')}")


def make(record: AnalysisRecord) -> None:
    """Make the record of an analysis of conf/analysis."""
    if record.analysis.tasks:
        along_training(observer(record.analysis.name).observe, record)
    else:
        observer(record.analysis.name).make(record)
