"""The training loop of all tasks: accumulate, clip, step, evaluate, keep the best, checkpoint."""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from adanorm.config.sections import TrainingConfig
from adanorm.config.titles import METRICS
from adanorm.models.draws import part_of_batch
from adanorm.tasks import AnyBatch, EpochBatches, Evaluation, Loss, TrainingTask
from adanorm.training.distributed import (
    all_gather,
    all_reduce,
    broadcast,
    reshard,
    share,
    ties_rows,
    wrap,
)
from adanorm.training.graphs import Graphs
from adanorm.training.optimizer import learning_rate, make_optimizer
from adanorm.training.progress import Progress, updates_per_epoch
from adanorm.training.state import (
    ComputeContext,
    Outcome,
    Row,
    RunCheckpoints,
    State,
    keep_weights,
    mean_weights,
    rng_state,
    seed_of,
    set_rng_state,
)

T = TypeVar("T")
Log = Callable[[Row], None]
CHECK_EVERY = 20  # updates between two fetches of the loss, to see whether it is finite


class Trainer:
    """The model, optimizer and state of one run. The best weights are the best in `metric`."""

    def __init__(
        self,
        task: TrainingTask,
        model: nn.Module,
        metric: str,
        settings: TrainingConfig,
        context: ComputeContext,
    ) -> None:
        self.task, self.model, self.metric = task, model, metric
        self.settings, self.context = settings, context
        self.shared_model = wrap(model, context.world)
        if context.compile is not None:
            if context.world.size > 1:
                raise ValueError(f"compile={context.compile}: works with one process")
            compile_layers(model)
        self.optimizer = make_optimizer(model, settings)
        self.graphs = self.make_graphs() if context.graphs else None
        self.state = State()
        self.best: dict[str, Tensor] = {}
        self.carried: Sequence[Tensor] = ()  # what the next batch's loss starts from
        # Sums since the last fetch. The loss is on the device, so that no update waits for it.
        self._pending_loss = torch.zeros(
            (),
            dtype=torch.float64,
            device=context.device,
        )
        self._pending_units = 0
        self.checkpoints = RunCheckpoints(context)
        # Processes on a CPU draw the masks of each whole batch and take their rows of them.
        self._shares_masks = context.world.size > 1 and context.device.type == "cpu"
        # Whether processes take parts of each batch.
        self._divides = task.carries or ties_rows(model) or self._shares_masks
        self._updates_per_epoch = 0  # until an epoch's batches are counted

    def make_graphs(self) -> Graphs | None:
        """Return what replays updates; None with norms of a batch or Muon, which read on the host."""
        if ties_rows(self.model) or self.settings.optimizer == "muon":
            return None
        return Graphs(
            self.model,
            self.optimizer,
            self.context.device,
            add_gradient=self._add_gradient,
            step=self._step_scaled,
        )

    def train(
        self, path: Path, log: Log, progress: Progress, *, log_test: Log | None = None
    ) -> Outcome:
        """Train to the end, with checkpoints at `path`; return the outcome, with the test's score.

        On the first process, each evaluation calls `log` with a row and `log_test`, if any, with a
        test row.
        """
        self.model.train()
        state = self.state
        saved = time.monotonic()
        started = saved - state.seconds
        busy = time.process_time() - state.cpu_seconds
        with closing(self.batches()) as updates:
            while not self.finished():
                self.update(next(updates))
                if state.update % CHECK_EVERY == 0:
                    self._fetch_loss()
                progress.show(state, self._updates_per_epoch)
                state.seconds = time.monotonic() - started
                state.cpu_seconds = time.process_time() - busy
                due = self._evaluation_due()
                if due:
                    self._evaluate(log, log_test, path.parent)
                if due or self._checkpoint_due(saved):
                    self.save(path)
                    saved = time.monotonic()
        return self._score(path.parent)

    def batches(self) -> Generator[list[AnyBatch], None, None]:
        """Yield this process's batches of each update, from the run's position on, without end."""
        count = self.context.batches_ahead
        while True:
            batches = self.task.train_batches(self.state.epoch)
            self._updates_per_epoch = updates_per_epoch(self.settings, len(batches))
            first = self.state.position * self.settings.accumulate
            updates = self._updates_of_epoch(batches, first)
            yield from ahead(map(_pinned, updates), count=count) if count else updates

    def _updates_of_epoch(self, batches: EpochBatches, first: int) -> Iterator[list[AnyBatch]]:
        """Yield this process's batches of each update of an epoch, from the batch `first` on."""
        indices, size = range(len(batches)), self.settings.accumulate
        for start in indices[first::size]:
            indices_of_update = indices[start : start + size]
            parts = share(
                batches,
                indices_of_update,
                self.context.world,
                whole=not self._divides,
            )
            if self.graphs is not None:
                parts = [part.with_rounded_rows() for part in parts]
            yield parts

    def update(self, micro_batches: list[AnyBatch]) -> Loss:
        """Do one update on the mean loss over all processes; return this process's summed loss."""
        self.optimizer.zero_grad(set_to_none=self.graphs is None)
        loss = self.backward(micro_batches)
        self._pending_loss += loss.total
        self._pending_units += loss.units
        self._step(loss.units)
        return loss

    def backward(self, micro_batches: list[AnyBatch]) -> Loss:
        """Add the gradient of these batches' summed loss to the parameters'; return the sum.

        The returned tensors are detached.
        """
        context = self.context
        model: Any = self.shared_model
        total = torch.zeros(
            (),
            dtype=torch.float64,
            device=context.device,
        )
        units = 0
        # Entered once per update, autocast rounds each weight once. A graph must round them itself.
        with context.autocast() if self.graphs is None else nullcontext():
            for index, micro_batch in enumerate(micro_batches, 1):
                # The last batch averages gradients over the processes.
                is_last = index == len(micro_batches) or context.world.size == 1
                with nullcontext() if is_last else model.no_sync():
                    if self.graphs is None:
                        loss = self._add_gradient(micro_batch.to(context.device), self.carried)
                    else:
                        loss = self.graphs.add_gradient(micro_batch, self.carried)
                self.carried = loss.carried
                total += loss.total
                units += loss.units
        return Loss(total, units)

    def _add_gradient(self, micro_batch: AnyBatch, carried: Sequence[Tensor]) -> Loss:
        """Add the gradient of a micro-batch's summed loss to the parameters'; return that loss."""
        shared = part_of_batch(micro_batch.part) if self._shares_masks else nullcontext()
        with self.context.autocast(), shared:
            loss = self.task.loss(
                self.shared_model,
                micro_batch,
                carried,
            )
        with self.context.autocast(enabled=False):
            loss.total.backward()  # type: ignore[no-untyped-call]
        return loss._replace(total=loss.total.detach())

    def _step(self, units: int) -> None:
        """Step along the gradient of the mean loss over all units of all processes."""
        state, world = self.state, self.context.world
        state.update += 1
        state.position += 1
        lr = learning_rate(self.settings, state.update)
        if self.graphs is not None:
            self.graphs.step(1 / units, lr)
        elif world.size == 1:
            self._step_scaled(1 / units, lr)
        else:  # the gradients are averaged over the processes; the count stays on the device
            count = torch.full(
                (),
                float(units),
                device=self.context.device,
            )
            self._step_scaled(world.size / all_reduce(count, world), lr)
        if state.position == self._updates_per_epoch:
            state.epoch += 1
            state.position = 0
        if state.first_loss is None:
            self._fetch_loss()
            state.first_loss = 0.0
            if state.diverged is None:
                state.first_loss = state.loss_sum / state.loss_units

    def _step_scaled(self, scale: float | Tensor, lr: float | Tensor) -> None:
        """Step along the gradients times `scale`, clipped, with a learning rate."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch._foreach_mul_(gradients, scale)
        if self.settings.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()

    def _fetch_loss(self, *, decides: bool = True) -> None:
        """Fetch the sum of the losses since the last fetch; a sum not finite means divergence.

        Unless it `decides`, such a sum stays for the next fetch: when a run has diverged must not
        depend on the clock, which decides on checkpoints.
        """
        state = self.state
        pending_units = torch.full_like(self._pending_loss, self._pending_units)
        pending = torch.stack([self._pending_loss, pending_units])
        total, units = all_reduce(pending, self.context.world).tolist()
        if not decides and not math.isfinite(total):
            return
        self._pending_loss.zero_()
        self._pending_units = 0
        if math.isfinite(total):
            state.loss_sum += total
            state.loss_units += int(units)
        elif state.diverged is None:
            state.diverged = f"loss not finite at update {state.update}"

    def _evaluation_due(self) -> bool:
        every = self.settings.evaluate_every
        if self.finished():
            return True
        if every is None:  # at the end of each epoch
            return self.state.position == 0
        return self.state.update % every == 0

    def _checkpoint_due(self, saved: float) -> bool:
        world = self.context.world
        if world.size > 1 and self.state.update % CHECK_EVERY:
            return False  # the processes must agree, which costs a message
        return broadcast(time.monotonic() - saved > self.context.checkpoint_seconds, world)

    def _evaluate(self, log: Log, log_test: Log | None, folder: Path) -> None:
        """Validate, keep the best weights, and log; a loss that is not finite has diverged."""
        state, world = self.state, self.context.world
        self._fetch_loss()
        if state.diverged is not None:
            return
        train_loss = state.mean_loss(diverge_after=self.settings.diverge_after)
        scores = self.measure("valid").metrics if world.is_main else {}
        scores = broadcast(scores, world)
        if not all(map(math.isfinite, scores.values())):
            state.diverged = f"validation loss not finite at update {state.update}"
            return
        self._keep_best(scores, folder)
        if not world.is_main:
            return
        state.rows.append(self._row(train_loss, scores))
        log(state.rows[-1])
        if log_test is not None:
            test_row: Row = {"update": state.update, "epoch": state.epoch}
            for name, score in self.measure("test").metrics.items():
                test_row[f"test_{name}"] = score
            state.test_rows.append(test_row)
            log_test(test_row)

    def _keep_best(self, scores: dict[str, float], folder: Path) -> None:
        """Keep the weights if their validation scores are the best, and those to average."""
        state, average = self.state, self.settings.average
        score, sign = scores[self.metric], METRICS[self.metric].sign
        if state.best_score is None or sign * score > sign * state.best_score:
            state.best_score = score
            state.best_update = state.update
            state.valid = scores
            for name, tensor in self.model.state_dict().items():
                self.best[name] = tensor.detach().clone()
        if average is None:
            return
        state.kept.append((score, state.update))
        if self.context.world.is_main:
            keep_weights(self.model, state.update, folder)
        if len(state.kept) > average.count:
            oldest = state.kept[0]
            worst = min(state.kept, key=lambda entry: (sign * entry[0], sign * entry[1]))
            state.kept.remove(oldest if average.of == "last" else worst)

    def _row(self, train_loss: float, scores: dict[str, float]) -> Row:
        """Return the row of an evaluation."""
        state = self.state
        row: Row = {"update": state.update, "epoch": state.epoch, "train_loss": train_loss}
        for name, value in self.task.derived(train_loss).items():
            row[f"train_{name}"] = value
        for name, value in scores.items():
            row[f"valid_{name}"] = value
        row["lr"] = learning_rate(self.settings, state.update)
        row["seconds"] = round(state.seconds, 1)
        return row

    def measure(self, split: str) -> Evaluation:
        """Return the evaluation of the model, with its present weights, on `valid` or `test`."""
        self.model.eval()
        # Compiled layers would be compiled once more.
        eager = torch.compiler.set_stance("force_eager") if self.context.compile else nullcontext()
        with eager, self.context.autocast():
            evaluation = self.task.evaluate(self.model, split)
        self.model.train()
        return evaluation

    def finished(self) -> bool:
        """Return whether the run has done its last update or has diverged."""
        state, settings = self.state, self.settings
        if state.diverged is not None:
            return True
        if settings.max_epochs is not None and state.epoch >= settings.max_epochs:
            return True
        return settings.max_updates is not None and state.update >= settings.max_updates

    def _score(self, folder: Path) -> Outcome:
        """Return the outcome, the best weights or the kept ones' average tested."""
        state, context = self.state, self.context
        if not self.best or state.diverged is not None or not context.world.is_main:
            return Outcome(state, None, self.best)
        if state.kept:
            self.best = mean_weights(
                state.kept,
                folder,
                context.device,
            )
        self.model.load_state_dict(self.best)
        if state.kept:
            state.valid = self.measure("valid").metrics
        return Outcome(
            state,
            self.measure("test"),
            self.best,
        )

    def save(self, path: Path) -> None:
        """Write a checkpoint, from which `resume` goes on."""
        self._fetch_loss(decides=False)
        world = self.context.world
        random_states = all_gather(rng_state(self.context.device), world)
        carried = all_gather([rows.cpu() for rows in self.carried], world)
        if world.is_main:
            saved = {
                "state": asdict(self.state),
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "best": self.best,
                "random": random_states,
                "carried": carried,
            }
            self.checkpoints.write(path, saved)

    def resume(self, path: Path) -> None:
        """Load the checkpoint at `path`, or the previous one; without one the run starts anew."""
        saved = self.checkpoints.latest(path)
        if saved is None:
            return
        self.state = State(**saved["state"])
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.best = saved["best"]
        world, random_states = self.context.world, saved["random"]
        is_cpu = self.context.device.type == "cpu"
        if is_cpu or len(random_states) == world.size:
            states = random_states[0 if is_cpu else world.rank]
            set_rng_state([state.cpu() for state in states], self.context.device)
        else:  # another number of GPUs: none repeats what another has drawn
            torch.manual_seed(seed_of(torch.initial_seed(), self.state.update))
        self.carried = reshard(saved["carried"], world)


def compile_layers(model: nn.Module) -> None:
    """Let torch compile each layer of a model's stacks, one program for all lengths of a batch.

    Raises ValueError if the model has no stack of layers.
    """
    layers: list[nn.Module] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and name.endswith("layers"):
            layers.extend(module)
    if not layers:
        raise ValueError("compile=layers: this model has no layers that could be compiled")
    for layer in layers:
        layer.compile(dynamic=True)


def ahead(items: Iterator[T], *, count: int) -> Iterator[T]:
    """Yield items in their order; a thread makes them, up to `count` ahead.

    An exception in the thread is raised here in its turn. The thread ends with the items, or when
    the iterator is closed.
    """
    end: Any = object()
    thread = ThreadPoolExecutor(1, "batches-ahead")
    try:
        ready = deque(
            thread.submit(
                next,
                items,
                end,
            )
            for _ in range(count)
        )
        while True:
            item = ready.popleft().result()
            if item is end:
                return
            ready.append(thread.submit(next, items, end))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)


def _pinned(batches: list[AnyBatch]) -> list[AnyBatch]:
    """Return batches in pinned memory, from which a GPU copies while it computes."""
    if not torch.cuda.is_available():
        return batches
    return [batch.moved(Tensor.pin_memory) for batch in batches]
