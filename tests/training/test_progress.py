"""What a person sees while a run trains: a table, and a bar on a terminal."""

import io
import re
import sys
from types import SimpleNamespace

import pytest

from adanorm.training.progress import Progress, planned_updates
from adanorm.training.state import State
from tests.conftest import Smoke


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True

    def line(self) -> str:
        """Return the line as it stands."""
        return self.getvalue().rpartition("\r")[2]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that is put forward by hand; it has run for a while, as a machine's."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(
        "adanorm.training.progress.time", SimpleNamespace(monotonic=lambda: clock.now)
    )
    return clock


@pytest.mark.parametrize(
    ("epochs", "updates", "planned"), [(3, None, 9), (3, 7, 7), (3, 20, 9), (None, 20, 20)]
)
def test_a_run_ends_after_its_epochs_or_its_updates_whichever_come_first(
    smoke: Smoke, epochs: int | None, updates: int | None, planned: int
) -> None:
    changes = {"max_epochs": epochs, "max_updates": updates, "accumulate": 2}
    settings = smoke().training.model_copy(update=changes)
    assert planned_updates(settings, 5) == planned, (
        "an epoch of 5 batches, two an update, has 3 updates"
    )


def test_a_log_has_a_table_whose_heads_come_once_and_a_row_every_half_minute(
    smoke: Smoke, clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = smoke("training.max_updates=10050").training.model_copy(update={"max_epochs": None})
    with Progress(
        settings,
        6,
        "accuracy",
        shown=True,
    ) as progress:
        clock.now += 60
        progress.show(State(update=40), 20)  # a resumed run: the time of that update is unknown
        for update, seconds in ((41, 20.0), (50, 10.0), (51, 29.0)):
            clock.now += seconds
            state = State(
                epoch=2,
                position=10,
                update=update,
                loss_sum=5.0,
                loss_units=2,
            )
            progress.show(state, 20)
        progress.add_row({"epoch": 3, "update": 60, "train_loss": 0.5, "valid_accuracy": 75.0})
    heads, within, whole = (line.split() for line in capsys.readouterr().out.splitlines())
    assert heads == ["epoch", "update", "train", "loss", "valid", "accuracy", "time", "left"]
    assert within == ["2.50", "50", "2.5000", "8", "hours"], (
        "10 updates in 30 seconds, and 10,000 are left"
    )
    assert whole[:4] == ["3", "60", "0.5000", "75.00"]


def test_a_terminal_has_a_bar_with_the_mean_loss_and_the_best_score_twice_a_second(
    smoke: Smoke,
    clock: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    settings = smoke("training.max_updates=40").training.model_copy(update={"max_epochs": None})
    state = State(update=30)
    with Progress(
        settings,
        6,
        "accuracy",
        shown=True,
    ) as progress:
        progress.show(state, 3)
        assert re.search(r"epoch 1: .* 30/40 \[00:00<\?, \?update/s", terminal.line())
        state.update, state.loss_sum, state.loss_units = 31, 5.0, 2
        clock.now += 0.4
        progress.show(state, 3)
        assert " 30/40 " in terminal.line(), "not yet"
        clock.now += 0.1
        progress.show(state, 3)
        assert " 31/40 " in terminal.line()
        assert terminal.line().rstrip().endswith("loss 2.500]")
        state.best_score, state.loss_sum = 75.0, 3.0
        clock.now += 0.5
        progress.show(state, 3)
        assert terminal.line().rstrip().endswith("loss 1.500, best 75.00]")
        state.loss_sum, state.loss_units = 0.0, 0  # as after an evaluation
        clock.now += 0.5
        progress.show(state, 3)
        assert terminal.line().rstrip().endswith("loss 1.500, best 75.00]"), "the last one is left"
        clock.now += 60
        state.update = 32
        progress.show(state, 3)
        assert all(len(line) <= 80 for line in terminal.getvalue().split("\r"))
    assert terminal.line().strip() == "", "a bar leaves nothing behind"
    assert capsys.readouterr().out == "", "and a terminal needs no line of the time left"
    monkeypatch.setattr(sys, "stderr", other := Terminal())
    with Progress(
        settings,
        6,
        "accuracy",
        shown=False,
    ) as progress:
        progress.show(State(update=1), 3)
    assert other.getvalue() == "", "nor is there a bar where none is shown"
