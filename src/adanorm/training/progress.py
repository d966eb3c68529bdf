"""What a person sees while a run trains."""

import math
import sys
import time
from typing import Self

from tqdm import tqdm

from adanorm.config.sections import TrainingConfig
from adanorm.config.titles import in_words
from adanorm.metrics.table import METRICS
from adanorm.training.state import Row, State

SECONDS = 0.5  # between two looks of the bar
LOG_SECONDS = 30.0  # between two rows of a log


def updates_per_epoch(settings: TrainingConfig, batches_an_epoch: int) -> int:
    """Return how many updates an epoch has; the last may be of fewer batches."""
    return math.ceil(batches_an_epoch / settings.accumulate)


def planned_updates(settings: TrainingConfig, batches_an_epoch: int) -> int:
    """Return the updates that a run is to have: those of its epochs or its own limit, whichever are fewer."""
    an_epoch, epochs = updates_per_epoch(settings, batches_an_epoch), settings.max_epochs
    limits = settings.max_updates, None if epochs is None else epochs * an_epoch
    return min(limit for limit in limits if limit is not None)


class Progress:
    """A table of evaluations; in between a bar on a terminal, in a log a row every half minute."""

    def __init__(self, settings: TrainingConfig, batches_an_epoch: int, metric: str, *, shown: bool) -> None:
        self._metric, self._shown = metric, shown
        self._has_heads, self._text = False, ""
        self._shown_at: float | None = None
        self._updates = planned_updates(settings, batches_an_epoch)
        self._start: tuple[int, float] | None = None  # update and time that the time left is reckoned from
        self._is_terminal = sys.stderr.isatty()
        hidden = not (shown and self._is_terminal)
        self._bar = tqdm(total=self._updates, unit="update", disable=hidden, ncols=80, leave=False)

    def show(self, state: State, updates_an_epoch: int) -> None:
        """Show how far the run is, its loss, best validation score and time left; after every update."""
        now = time.monotonic()
        if self._start is None:  # without the very first update, which is slower
            self._start, self._bar.initial = (state.update, now), state.update
            self._shown_at = None if self._is_terminal else now
        if not self._shown or now - (self._shown_at or 0.0) < (SECONDS if self._is_terminal else LOG_SECONDS):
            return
        self._shown_at = now
        loss = state.loss_sum / state.loss_units if state.loss_units else None
        if not self._is_terminal:
            epoch = f"{state.epoch + state.position / updates_an_epoch:.2f}"
            self._print_row(epoch, state.update, "-" if loss is None else f"{loss:.4f}", "")
            return
        self._bar.n = state.update
        self._bar.set_description_str(f"epoch {state.epoch + 1}", refresh=False)
        if loss is not None:
            self._text = f"loss {loss:.3f}"
            if state.best_score is not None:
                self._text += f", best {METRICS[self._metric].text(state.best_score)}"
        self._bar.set_postfix_str(self._text)

    def add_row(self, row: Row) -> None:
        """Print what an evaluation came to."""
        valid = METRICS[self._metric].text(row[f"valid_{self._metric}"])
        self._print_row(str(row["epoch"]), int(row["update"]), f"{row['train_loss']:.4f}", valid)

    def _print_row(self, epoch: str, update: int, loss: str, valid: str) -> None:
        """Print a row without breaking the bar; the heads of the columns come before the first."""
        columns = "{:>7}{:>10}{:>12}{:>22}{:>12}".format
        if not self._has_heads:
            self._has_heads = True
            self._bar.write(columns("epoch", "update", "train loss", f"valid {self._metric}", "time left"))
        self._bar.write(columns(epoch, update, loss, valid, self._time_left(update)))
        sys.stdout.flush()

    def _time_left(self, update: int) -> str:
        """Return how long the run still takes at the pace of this start, its evaluations included."""
        first, started = self._start or (update, 0.0)
        if update in (self._updates, first):
            return "-"
        seconds = (time.monotonic() - started) / (update - first) * (self._updates - update)
        return in_words(seconds / 3600)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
