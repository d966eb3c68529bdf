"""What a person sees while a run trains."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from tqdm import tqdm

from adanorm.config import Training

if TYPE_CHECKING:
    from adanorm.training.loop import Progressed


class Progress:
    """A bar of updates on a terminal; in a log file nothing (rows are printed there)."""

    def __init__(self, settings: Training, batches_an_epoch: int, metric: str, *, shown: bool) -> None:
        updates_an_epoch = -(-batches_an_epoch // settings.accumulate)
        epochs = settings.max_epochs
        totals = [epochs * updates_an_epoch] if epochs is not None else []
        totals += [settings.max_updates] if settings.max_updates is not None else []
        self._metric = metric
        self._bar = tqdm(
            total=min(totals), unit="update", disable=not (shown and sys.stderr.isatty()), ncols=80
        )

    def show(self, state: Progressed) -> None:
        """Show the updates done, the loss and the best validation score so far."""
        self._bar.n = state.update
        texts = [f"loss {state.loss_sum / state.loss_units:.3f}"] if state.loss_units else []
        if state.best_score is not None:
            texts.append(f"best {self._metric} {state.best_score:.2f}")
        self._bar.set_postfix_str(", ".join(texts))

    def print(self, line: str) -> None:
        """Print a line without breaking the bar."""
        self._bar.write(line)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()
