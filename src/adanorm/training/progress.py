"""What a person sees while a run trains: a table of evaluations, and on a terminal a bar."""

import math
import sys
import time
from contextlib import AbstractContextManager

from tqdm import tqdm

from adanorm.config.sections import TrainingConfig
from adanorm.config.titles import METRICS, in_words
from adanorm.training.state import Row, State

SECONDS = 0.5  # between two updates of the bar
LOG_SECONDS = 30.0  # between two rows of a log


def updates_per_epoch(settings: TrainingConfig, epoch_batches: int) -> int:
    """Return the number of updates per epoch; the last may have fewer batches."""
    return math.ceil(epoch_batches / settings.accumulate)


def planned_updates(settings: TrainingConfig, epoch_batches: int) -> int:
    """Return the number of updates of a run: those of its epochs, or its limit if that is less."""
    per_epoch, epochs = updates_per_epoch(settings, epoch_batches), settings.max_epochs
    limits = settings.max_updates, None if epochs is None else epochs * per_epoch
    return min(limit for limit in limits if limit is not None)


class Progress(AbstractContextManager["Progress"]):
    """A table of evaluations; between them a terminal's bar, or a row every half minute."""

    def __init__(
        self, settings: TrainingConfig, epoch_batches: int, metric: str, *, shown: bool
    ) -> None:
        self._metric, self._shown = metric, shown
        self._has_heads, self._text = False, ""
        self._shown_at: float | None = None
        self._updates = planned_updates(settings, epoch_batches)
        self._start: tuple[int, float] | None = (
            None  # update and time from which the time left is computed
        )
        self._is_terminal = sys.stderr.isatty()
        hidden = not (shown and self._is_terminal)
        self._bar = tqdm(
            total=self._updates,
            unit="update",
            disable=hidden,
            ncols=80,
            leave=False,
        )

    def show(self, state: State, epoch_updates: int) -> None:
        """Show progress, loss, best validation score and time left; called after every update."""
        now = time.monotonic()
        if self._start is None:  # after the first update, which is slower
            self._start = state.update, now
            self._bar.initial = state.update
            self._shown_at = None if self._is_terminal else now
        pause = SECONDS if self._is_terminal else LOG_SECONDS
        if not self._shown or now - (self._shown_at or 0.0) < pause:
            return
        self._shown_at = now
        loss = None
        if state.loss_units:
            loss = state.loss_sum / state.loss_units
        if not self._is_terminal:
            epoch = state.epoch + state.position / epoch_updates
            self._print_row(f"{epoch:.2f}", state.update, loss, "")
            return
        self._bar.n = state.update
        self._bar.set_description_str(f"epoch {state.epoch + 1}", refresh=False)
        if loss is not None:
            self._text = f"loss {loss:.3f}"
            if state.best_score is not None:
                self._text += f", best {METRICS[self._metric].text(state.best_score)}"
        self._bar.set_postfix_str(self._text)

    def add_row(self, row: Row) -> None:
        """Print the row of an evaluation."""
        valid = METRICS[self._metric].text(row[f"valid_{self._metric}"])
        self._print_row(
            str(row["epoch"]),
            int(row["update"]),
            row["train_loss"],
            valid,
        )

    def _print_row(self, epoch: str, update: int, loss: float | None, valid: str) -> None:
        """Print a row without breaking the bar, before the first one the heads of the columns."""
        columns = "{:>7}{:>10}{:>12}{:>22}{:>12}".format
        if not self._has_heads:
            self._has_heads = True
            heads = "epoch", "update", "train loss", f"valid {self._metric}", "time left"
            self._bar.write(columns(*heads))
        text = "-" if loss is None else f"{loss:.4f}"
        self._bar.write(
            columns(
                epoch,
                update,
                text,
                valid,
                self._time_left(update),
            )
        )
        sys.stdout.flush()

    def _time_left(self, update: int) -> str:
        """Return the time left, as text, at the pace since this start, evaluations included."""
        first, started = self._start or (update, 0.0)
        if update in (self._updates, first):
            return "-"
        pace = (time.monotonic() - started) / (update - first)
        return in_words(pace * (self._updates - update) / 3600)

    def __exit__(self, *_: object) -> None:
        self._bar.close()
