"""A scorecard from its norm to its page: every part that is not there yet, in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from adanorm.config.compose import compose_experiment
from adanorm.config.compose_cache import cached_experiment
from adanorm.config.digest import digest_of
from adanorm.config.titles import title
from adanorm.files import write_whole
from adanorm.launch.launchers import Launch
from adanorm.norms import norm_factory
from adanorm.records.folder import shown
from adanorm.scorecards.card import Card, any_card, read_card, short
from adanorm.scorecards.columns import choose_columns, span
from adanorm.scorecards.observed import observe, observe_gradients
from adanorm.scorecards.page import card_page
from adanorm.scorecards.scores import score
from adanorm.scorecards.summary import summary
from adanorm.scorecards.trial import Trial, say
from adanorm.verdicts.preregistration import preregistration


class Request(NamedTuple):
    """What is asked for: a norm beside others, within a budget in seconds; records go into `runs`."""

    norm: str
    against: tuple[str, ...]
    budget: float
    runs: str
    launch: Launch

    @property
    def place(self) -> Path:
        """The path of the scorecard's files, less their endings."""
        return Path(self.runs) / "scorecards" / short(self.norm)


def prepare(request: Request) -> Card:
    """Return the card as far as it is, its columns chosen; nothing is written.

    Raises ValueError for a norm that does not exist, and where the budget has room for nothing.
    """
    norms = [request.norm, *request.against]
    identity = _identity(norms)
    file = request.place.with_suffix(".json")
    if (there := any_card(file)) is not None and there.norm != request.norm:
        raise ValueError(f"{shown(file)}: is the scorecard of {there.norm}; name another folder, runs=FOLDER")
    found = read_card(file, identity)
    if found is not None and found.budget == request.budget and found.columns:
        return found
    columns, left_out = choose_columns(norms, budget=request.budget, workers=request.launch.workers)
    fresh = Card(
        norm=request.norm, against=list(request.against), identity=identity, checks=[], budget=request.budget
    )
    return (found or fresh).model_copy(
        update={"budget": request.budget, "columns": columns, "left_out": left_out}
    )


def _identity(norms: Sequence[str]) -> str:
    """Return a digest of norms; raises ValueError where one does not exist or cannot be made."""
    found: list[Any] = []
    for norm in norms:
        run = compose_experiment([f"norm={norm}"])
        norm_factory(run.norm)
        found.append(run.identity()["norm"])
    return digest_of({"norms": found})


def conduct(request: Request, card: Card) -> tuple[Card, bool]:
    """Return the finished card, every part of it written as it is there, and whether a run failed."""
    path, norms = request.place.with_suffix(".json"), [request.norm, *request.against]
    if card.observed is None:
        say("what the norms compute and cost")
        card = card.model_copy(update={"observed": observe(request.norm, request.against)}).write(path)
    if card.gradients is None:
        say("gradients")
        seen = observe_gradients(norms, card.columns[0], request.runs)
        card = card.model_copy(update={"gradients": seen}).write(path)

    def save(spent: float, pace: float) -> None:
        card.model_copy(update={"spent": spent, "pace": pace}).write(path)

    most = preregistration().stopping.most
    trial = Trial(card, request.runs, request.launch, most, save)
    ended = trial.run()
    found = {column.task: trial.evidence(column) for column in card.columns}
    begun = [
        column for column in card.columns if any(side.runs for side in found[column.task].norms.values())
    ]
    scores = [score(card, column, found[column.task], _metric(column.task)) for column in begun]
    lacking = [
        f"{title(column.task)}, scale {column.scale}: the planned seeds that are lacking take about"
        f" {span(trial.lacking[column.task])} here"
        for column in card.columns
        if column.task in trial.lacking
    ]
    known = {"spent": trial.spent, "pace": trial.pace, "ended": ended, "scores": scores, "lacking": lacking}
    card = card.model_copy(update=known).write(path)
    write_whole(request.place.with_suffix(".md"), summary(card).encode())
    write_whole(request.place.with_suffix(".html"), card_page(card).encode())
    return card, bool(trial.failed)


def _metric(task: str) -> str:
    return cached_experiment([f"task={task}"]).task.metric
