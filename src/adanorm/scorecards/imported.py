"""A scorecard from a bundle of somebody else's: its records checked, its scores and verdicts made here."""

from __future__ import annotations

import gzip
import hashlib
import math
import warnings
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from pydantic import ValidationError

from adanorm.config.compose_cache import cached_experiment
from adanorm.config.experiment import Experiment, first_problem
from adanorm.config.paths import choices
from adanorm.config.yaml_file import read_yaml
from adanorm.records import reader
from adanorm.records.check import NAME
from adanorm.records.comparisons import (
    ComparisonRecord,
    comparison_of,
    comparison_path,
    write_comparison,
)
from adanorm.scorecards.bundle import CARD, MOST_BYTES, RUNS, SOURCE, comparison_name, plain_json
from adanorm.scorecards.card import Card, Column, Score, short
from adanorm.scorecards.scores import score
from adanorm.verdicts.evidence import Evidence, NormRuns, grouped
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.variance import TaskVariance

LONGEST = 2000  # characters of a text on a card
ROUNDING = 1e-9  # of what is computed here and there


def imported_card(members: Mapping[str, bytes]) -> Card:
    """Return the card of a bundle, its scores and verdicts computed from the bundle's records.

    Raises ValueError, in one line, where a record is not whole, has other settings than this version's,
    or says something else than the card.
    """
    card = _card(members)
    with TemporaryDirectory(prefix="adanorm-scorecard-") as folder:
        for name, content in members.items():
            if name.startswith(f"{RUNS}/"):
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        scores = [_score(card, said.column, Path(folder, RUNS), members) for said in card.scores]
    for own, found in zip(card.scores, scores, strict=True):
        _check_alike(own, found)
    return card.model_copy(update={"scores": scores})


def _card(members: Mapping[str, bytes]) -> Card:
    values = plain_json(members.get(CARD, b""), CARD)
    for text in _texts(values):
        if not text.isprintable() or len(text) > LONGEST:
            raise ValueError(f"{CARD}: {text[:40]!r} is no text of a card")
    try:
        card = Card.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"{CARD}: {first_problem(error)}") from None
    for column in card.columns:
        if column.task not in choices("task") or preregistration().margin(column.task, "test") is None:
            raise ValueError(f"{CARD}: {column.task!r} is no task of a scorecard")
    for norm in card.against:
        if norm not in choices("norm"):
            raise ValueError(f"{CARD}: against={norm!r}: only norms of the suite are known here")
    for found in card.scores:
        if found.column not in card.columns or len(found.verdicts) != len(card.against):
            raise ValueError(f"{CARD}: its scores are of other columns or norms than it names")
    return card


def _texts(values: Any) -> Iterator[str]:
    """Yield every text in plain values."""
    if isinstance(values, str):
        yield values
    elif isinstance(values, dict):
        for key, value in values.items():
            yield str(key)
            yield from _texts(value)
    elif isinstance(values, list):
        for value in values:
            yield from _texts(value)


def _score(card: Card, column: Column, runs: Path, members: Mapping[str, bytes]) -> Score:
    chosen = [f"task={column.task}", f"scale={column.scale}"]
    norms, step = {}, 0.0
    for norm in (card.norm, *card.against):
        ours = norm if norm in choices("norm") else "none"
        expected = cached_experiment([*chosen, f"norm={ours}"], runs=str(runs))
        source = None if norm in choices("norm") else {"path": norm, "code": _source(members)}
        folder = runs / column.task / short(norm)
        norms[norm] = _runs(folder, expected, source)
        step = max(step, _resolution(folder, expected))
    scores = {norm: side.scores for norm, side in norms.items() if side.scores}
    variance = TaskVariance(scores, preregistration().prior_df_at_most, step)
    metric = cached_experiment(chosen[:1]).task.metric
    for other in card.against:
        if (name := comparison_name(column, other)) in members:
            compared = _comparison(name, members[name], column, (other, card.norm), norms, metric)
            first, second = (norms[norm].runs[0] for norm in (other, card.norm))
            write_comparison(comparison_path(first, second), compared)
    return score(card, column, Evidence(column.task, column.scale, "test", norms, variance), metric)


def _comparison(
    name: str,
    content: bytes,
    column: Column,
    pair: tuple[str, str],
    norms: Mapping[str, NormRuns],
    metric: str,
) -> ComparisonRecord:
    """Return a comparison by example; raises ValueError where it is of other runs than the bundle's."""
    try:
        found = comparison_of(content)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    other, own = (norms[norm].scores for norm in pair)
    seeds = sorted(other.keys() & own.keys())
    said = (found.task, found.scale, found.metric, found.norms, found.seeds)
    if not seeds or said != (column.task, column.scale, metric, pair, seeds):
        raise ValueError(f"{name}: is of other runs than the bundle's")
    if not (found.example_error >= 0 and math.isfinite(found.example_error) and found.examples > 0):
        raise ValueError(f"{name}: has no standard error of examples")
    return found


def _resolution(folder: Path, run: Experiment) -> float:
    """Return the step of an accuracy, a hundred over the test examples; 0 of another metric."""
    path = next(folder.glob(f"{run.scale}-seed*/predictions.txt.gz"), None)
    if run.task.metric != "accuracy" or path is None:
        return 0.0
    try:
        with gzip.open(path) as file:
            text = file.read(MOST_BYTES)  # of a bomb no more
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path.parent.name}: its predictions cannot be read ({error})") from None
    return 100 / max(1, text.count(b"\n"))


def _source(members: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of the norm's source files by relative path; they are read by nobody but people."""
    prefix = f"{SOURCE}/"
    return {
        name.removeprefix(prefix): hashlib.sha256(content).hexdigest()
        for name, content in members.items()
        if name.startswith(prefix)
    }


def _runs(folder: Path, expected: Experiment, source: Mapping[str, Any] | None) -> NormRuns:
    """Return the checked runs of a norm; `source` is the path and the code of a norm from outside."""
    read = []
    for path in sorted(folder.glob(f"{expected.scale}-seed*")):
        run = _run(path, expected, source)
        result = reader.result(path)
        assert result is not None, "it was read just now"
        read.append((run, result))
    return grouped(read)


def _run(folder: Path, expected: Experiment, source: Mapping[str, Any] | None) -> Experiment:
    """Return the run of a record, which must be whole and have the settings that this version gives it."""
    name = "/".join(folder.parts[-3:])
    named = NAME.fullmatch(folder.name)
    if named is None:
        raise ValueError(f"{name}: is named as no run")
    run = expected.model_copy(update={"seed": int(named[2])})
    ours, theirs = run.identity(), _identity(folder, name)
    ours["norm"] |= {} if source is None else {"name": folder.parent.name, **source}
    if key := next((key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)), None):
        other = f"this version's, or than that of {SOURCE}/" if key == "norm" else "this version's"
        raise ValueError(f"{name}: another {key} than {other}: a scorecard's runs have no settings")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if reader.result(folder) is None:
            wrong = str(said[0].message).partition("not counted: ")[2] if said else "no result"
            raise ValueError(f"{name}: {wrong}")
    return run


def _identity(folder: Path, name: str) -> dict[str, Any]:
    """Return what a record's config.yaml says; it may have no aliases, which could stand for gigabytes."""
    try:
        text = (folder / "config.yaml").read_text("utf-8")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise ValueError("has aliases")
        found = read_yaml(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{name}/config.yaml: {' '.join(str(error).split())[:200]}") from None
    return found if isinstance(found, dict) else {}


def _check_alike(theirs: Score, ours: Score) -> None:
    """Raise ValueError where a card says other scores or verdicts than its records."""
    for said, found in zip(theirs.sides, ours.sides, strict=True):
        if said.scores.keys() != found.scores.keys() or any(
            abs(said.scores[seed] - value) > ROUNDING * max(1.0, abs(value))
            for seed, value in found.scores.items()
        ):
            raise ValueError(f"{CARD}: other scores of {said.norm} on {ours.column.task} than its records")
    for claimed, read in zip(theirs.verdicts, ours.verdicts, strict=True):
        if (claimed.other, claimed.answer) != (read.other, read.answer):
            raise ValueError(
                f"{CARD}: says {claimed.answer} beside {claimed.other} on {ours.column.task}, its records"
                f" {read.answer}"
            )
