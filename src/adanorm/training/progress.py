"""What a person sees while a run trains."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from tqdm import tqdm

from adanorm.config.sections import TrainingConfig
from adanorm.metrics.table import METRICS
from adanorm.training.state import State

SECONDS = 0.5  # between two looks of the bar
MEASURED = 30.0  # seconds of updates that tell the time left
LONG = 1800.0  # seconds left that a log says


def planned_updates(settings: TrainingConfig, batches_an_epoch: int) -> int:
    """Return the updates that a run is to have."""
    updates_an_epoch = -(-batches_an_epoch // settings.accumulate)
    by_epochs = [settings.max_epochs * updates_an_epoch] if settings.max_epochs is not None else []
    return min(by_epochs + ([settings.max_updates] if settings.max_updates is not None else []))


class Progress:
    """A bar of updates on a terminal; in a log file nothing (rows are printed there)."""

    def __init__(self, settings: TrainingConfig, batches_an_epoch: int, metric: str, *, shown: bool) -> None:
        self._metric = metric
        self._text = ""
        self._shown_at = 0.0
        self._updates = planned_updates(settings, batches_an_epoch)
        self._start: tuple[int, float] | None = None  # update and time that the time left is reckoned from
        self._says = shown and not sys.stderr.isatty()
        self._bar = tqdm(
            total=self._updates,
            unit="update",
            disable=not (shown and sys.stderr.isatty()),
            ncols=80,
            leave=False,
        )

    def show(self, state: State, updates_an_epoch: int) -> None:
        """Show the updates done, the loss and the best validation score so far, twice a second.

        The training loop calls this after every update; `state.position` updates of the epoch's are done.
        """
        if self._says:
            self._say_once(state.update)
        if self._bar.disable or time.monotonic() - self._shown_at < SECONDS:
            return
        if self._shown_at == 0:
            self._bar.initial = state.update  # the time left is reckoned from this start's updates
        self._shown_at = time.monotonic()
        self._bar.n = state.update
        if state.loss_units:
            best = (
                ""
                if state.best_score is None
                else f", best {self._metric} {METRICS[self._metric].text(state.best_score)}"
            )
            self._text = f"loss {state.loss_sum / state.loss_units:.3f}{best}"
        self._bar.set_postfix_str(self._text)

    def _say_once(self, update: int) -> None:
        """Print in a log what the first updates, without the very first, say of a long time left."""
        now = time.monotonic()
        if self._start is None:
            self._start = (update, now)
        first, started = self._start
        if now - started < MEASURED or update == first:
            return
        self._says = False
        seconds = (now - started) / (update - first)
        left = seconds * (self._updates - update)
        if left > LONG:
            count = f"{self._updates - update:,} updates"
            self.print(f"about {left / 3600:.1f} hours left: {count} of {seconds:.3g} s, and evaluations")

    def print(self, line: str) -> None:
        """Print a line without breaking the bar."""
        self._bar.write(line)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
