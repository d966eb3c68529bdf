"""The training loop of all tasks: accumulate, clip, step, evaluate, keep the best, checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn

from adanorm.config.sections import Task, Training
from adanorm.tasks.base import Batches, Evaluation, Loss, Shareable, TrainingTask
from adanorm.training import checkpoint
from adanorm.training.distributed import agreed, gathered, shared_rows, summed, wrap
from adanorm.training.progress import Progress
from adanorm.training.seeding import random_state, restore_random_state
from adanorm.training.state import Outcome, Place, Row, State

CHECK_EVERY = 20  # updates between looks at whether the loss is still finite


class Trainer:
    """One run's model and optimizer, and their state."""

    def __init__(
        self, task: TrainingTask, model: nn.Module, target: Task, settings: Training, place: Place
    ) -> None:
        self.task, self.target, self.settings, self.place = task, target, settings, place
        self.model = model
        self.shared_model = wrap(model, place.world)
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=settings.lr,
            betas=settings.betas,
            eps=settings.eps,
            weight_decay=settings.weight_decay,
        )
        self.state = State()
        self.best: dict[str, Tensor] = {}
        # The loss since the last look, kept on the device so that no update waits for it.
        self._pending = torch.zeros((), dtype=torch.float64, device=place.device)
        self._pending_units = 0
        self._updates_an_epoch: int | None = None  # known once an epoch's batches are

    def train(self, path: Path, log: Callable[[Row], None], progress: Progress) -> Outcome:
        """Train from where the run is to its end, with checkpoints at `path`; score the best weights.

        `log` gets a row at each evaluation, on the first process.
        """
        self.model.train()
        state, saved = self.state, time.monotonic()
        started = saved - state.seconds
        rest = self.batches()
        while not self.finished():
            self.update(next(rest))
            if state.update % CHECK_EVERY == 0:
                self._look()
            progress.show(state)
            state.seconds = time.monotonic() - started
            due = self._evaluation_due()
            if due:
                self._evaluate(log, path.parent)
            if due or self._checkpoint_due(saved):
                self.save(path)
                saved = time.monotonic()
        return self._score(path.parent)

    def batches(self) -> Iterator[list[Shareable]]:
        """Yield the micro-batches of each update from where the run is, epoch after epoch, without end."""
        while True:
            batches = self.task.train_batches(self.state.epoch)
            self._updates_an_epoch = math.ceil(len(batches) / self.settings.accumulate)
            yield from self._from_position(batches)

    def _from_position(self, batches: Batches) -> Iterator[list[Shareable]]:
        """Yield the micro-batches of each update that this epoch still has."""
        size = self.settings.accumulate
        rest = islice(iter(batches), self.state.position * size, None)
        while group := list(islice(rest, size)):
            yield group

    def update(self, micro_batches: list[Shareable]) -> Loss:
        """Do one update on the sum of these batches' losses, and return it as this process sees it."""
        self.optimizer.zero_grad()
        loss = self.backward(micro_batches)
        self._pending += loss.total
        self._pending_units += loss.units
        self._step(loss.units)
        return loss

    def backward(self, micro_batches: list[Shareable]) -> Loss:
        """Add the gradient of the sum of these batches' losses to the parameters'; return it, detached."""
        world, device = self.place.world, self.place.device
        total, units = torch.zeros_like(self._pending), 0
        for index, micro_batch in enumerate(micro_batches):
            batch = micro_batch.share(world.rank, world.size).to(device)
            last = index == len(micro_batches) - 1
            silent = nullcontext() if last or world.size == 1 else self.shared_model.no_sync()  # type: ignore[operator]
            with silent:
                with self.place.autocast():
                    loss = self.task.loss(self.shared_model, batch)
                loss.total.backward()  # type: ignore[no-untyped-call]
            total += loss.total.detach()
            units += loss.units
        return Loss(total, units)

    def _step(self, units: int) -> None:
        """Step along the gradient of the mean loss over all units of all processes."""
        state, settings, world = self.state, self.settings, self.place.world
        if world.size > 1:
            units = int(summed(torch.tensor(units, device=self.place.device), world).item())
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        # Gradients are of the sum, averaged over the processes.
        torch._foreach_mul_(gradients, world.size / units)
        if settings.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm)
        state.update += 1
        state.position += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(settings, state.update)
        self.optimizer.step()
        if state.position == self._updates_an_epoch:
            state.epoch, state.position = state.epoch + 1, 0
        if state.first_loss is None:
            self._look()
            state.first_loss = state.loss_sum / state.loss_units if state.diverged is None else 0.0

    def _look(self) -> None:
        """Fetch the losses since the last look, and see whether they are finite."""
        state, world = self.state, self.place.world
        pending = torch.stack([self._pending, torch.full_like(self._pending, self._pending_units)])
        total, units = summed(pending, world).tolist()
        self._pending.zero_()
        self._pending_units = 0
        if math.isfinite(total):
            state.loss_sum += total
            state.loss_units += int(units)
        elif state.diverged is None:
            state.diverged = f"loss not finite at update {state.update}"

    def _evaluation_due(self) -> bool:
        every, state = self.settings.evaluate_every, self.state
        return self.finished() or (state.position == 0 if every is None else state.update % every == 0)

    def _checkpoint_due(self, saved: float) -> bool:
        world = self.place.world
        if world.size > 1 and self.state.update % CHECK_EVERY:
            return False  # the processes must agree, and asking costs a message
        return agreed(time.monotonic() - saved > self.place.checkpoint_seconds, world)

    def _evaluate(self, log: Callable[[Row], None], folder: Path) -> None:
        state, world = self.state, self.place.world
        self._look()
        if state.diverged is not None:
            return
        train_loss = state.loss_sum / state.loss_units
        state.loss_sum, state.loss_units = 0.0, 0
        assert state.first_loss is not None
        worse = train_loss > state.first_loss
        state.worse_than_start = state.worse_than_start + 1 if worse else 0
        if state.worse_than_start >= self.settings.diverge_after:
            state.diverged = (
                f"training loss above its start at {state.worse_than_start} evaluations in a row,"
                f" the last at update {state.update}"
            )
        valid = agreed(self.measure("valid").metrics if world.is_main else {}, world)
        if not all(math.isfinite(value) for value in valid.values()):
            state.diverged = f"validation loss not finite at update {state.update}"
            return
        score = valid[self.target.criterion]
        if self._is_best(score):
            state.best_score, state.best_update = score, state.update
            state.valid = valid
            self.best = {name: t.detach().clone() for name, t in self.model.state_dict().items()}
        self._keep(score, folder)
        state.rows += 1
        if world.is_main:
            row: Row = {"update": state.update, "epoch": state.epoch, "train_loss": train_loss}
            row |= {f"train_{name}": value for name, value in self.task.derived(train_loss).items()}
            row |= {f"valid_{name}": value for name, value in valid.items()}
            row |= {"lr": learning_rate(self.settings, state.update), "seconds": round(state.seconds, 1)}
            log(row)

    def _is_best(self, score: float) -> bool:
        best = self.state.best_score
        if best is None:
            return True
        return score > best if self.target.selects_highest else score < best

    def _keep(self, score: float, folder: Path) -> None:
        """Keep these weights while they are among those the average is over: the last or the best."""
        average, state = self.settings.average, self.state
        if average is None:
            return
        state.kept.append((score, state.update))
        if self.place.world.is_main:
            checkpoint.save(_kept(folder, state.update), {"model": self.model.state_dict()})
        if len(state.kept) > average.count:
            worst = min if self.target.selects_highest else max
            out = state.kept[0] if average.of == "last" else worst(state.kept)
            state.kept.remove(out)
            if self.place.world.is_main:
                _kept(folder, out[1]).unlink(missing_ok=True)

    def _averaged(self, folder: Path) -> dict[str, Tensor]:
        """Return the mean of the kept weights."""
        total: dict[str, Tensor] = {}
        for _, update in self.state.kept:
            saved = checkpoint.load(_kept(folder, update), self.place.device)
            assert saved is not None, "kept weights stay until the run has ended"
            for name, weights in saved["model"].items():
                total[name] = weights if name not in total else total[name] + weights
        count = len(self.state.kept)
        return {name: t / count if t.is_floating_point() else t // count for name, t in total.items()}

    def measure(self, split: str) -> Evaluation:
        """Return the score of the model as it is, on `valid` or `test`."""
        self.model.eval()
        with self.place.autocast():
            evaluation = self.task.evaluate(self.model, split)
        self.model.train()
        return evaluation

    def finished(self) -> bool:
        """Return whether the run has come to its last update, or has diverged."""
        state, settings = self.state, self.settings
        epochs_done = settings.max_epochs is not None and state.epoch >= settings.max_epochs
        updates_done = settings.max_updates is not None and state.update >= settings.max_updates
        return state.diverged is not None or epochs_done or updates_done

    def _score(self, folder: Path) -> Outcome:
        """Score the best weights, or the average of those kept for it."""
        if not self.best or self.state.diverged is not None:
            return Outcome(self.state, None, self.best)
        is_main = self.place.world.is_main
        if self.state.kept and is_main:
            self.best = self._averaged(folder)
        self.model.load_state_dict(self.best)
        if self.state.kept and is_main:
            self.state.valid = self.measure("valid").metrics
        test = self.measure("test") if is_main else None
        return Outcome(self.state, test, self.best)

    def save(self, path: Path) -> None:
        """Write a checkpoint that `resume` takes up."""
        self._look()
        random_states = gathered(random_state(), self.place.world)
        carried = gathered([rows.cpu() for rows in self.task.carried], self.place.world)
        if self.place.world.is_main:
            saved = {
                "state": asdict(self.state),
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "best": self.best,
                "random": random_states,
                "carried": carried,
            }
            checkpoint.save(path, saved)

    def resume(self, path: Path) -> None:
        """Take up the state of the checkpoint at `path`, if there is one."""
        saved = checkpoint.load(path, self.place.device)
        if saved is None:
            return
        self.state = State(**saved["state"])
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.best = saved["best"]
        mine = saved["random"][self.place.world.rank % len(saved["random"])]
        restore_random_state([generator.cpu() for generator in mine])
        self.task.carried = shared_rows(saved["carried"], self.place.world)


def _kept(folder: Path, update: int) -> Path:
    return folder / f"kept-{update}.pt"


def learning_rate(settings: Training, update: int) -> float:
    """Return the learning rate of an update, counted from 1.

    A linear warm-up, then constant, or falling with the inverse square root of the updates done
    before (Vaswani et al. 2017, in fairseq's form), or along half a cosine to zero at max_updates.
    """
    if settings.schedule == "cosine" and update > settings.warmup_updates:
        assert settings.max_updates is not None, "checked with the configuration"
        return settings.lr * (1 + math.cos(math.pi * (update - 1) / settings.max_updates)) / 2
    if settings.schedule in (None, "cosine"):
        before_end = update < settings.warmup_updates
        return settings.lr * update / settings.warmup_updates if before_end else settings.lr
    done, warmup = update - 1, settings.warmup_updates
    if done < warmup:
        start = settings.warmup_from or 0.0
        return start + (settings.lr - start) * done / warmup
    return settings.lr * math.sqrt(max(1, warmup) / max(1, done))
