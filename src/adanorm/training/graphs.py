"""CUDA graphs of a run's updates: the host launches one graph where it launched a thousand kernels.

The first micro-batch of a shape is computed eagerly, the second is recorded as a graph, and later
ones replay it. Kernels, rounding and dropout's counters are those of eager computation, so neither
a resumed run nor a result shows which micro-batches were replayed. On the CPU a stand-in computes
again from the graph's own tensors: tests try everything but CUDA itself.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.tasks import AnyBatch, Loss

MOST_GRAPHS = 1000  # of one run; each holds a few megabytes beside the memory that all share
Work = Callable[[], None]
Key = tuple[Any, ...]


@dataclass
class MicroBatchGraph:
    """A recorded micro-batch: what to copy in, what to run, what comes out."""

    replay: Work
    inputs: list[Tensor]  # of the batch, then what the last batch carried over
    total: Tensor  # the summed loss
    carried: list[Tensor]  # each replay writes them anew
    tables: list[Tensor]  # kept in memory, because a model may replace a table that the graph reads


class Graphs:
    """Computes micro-batches and optimizer steps, and replays what it has recorded.

    Gradients must stay where they are: set them to zero, not to None. `add_gradient` computes a
    micro-batch; `step(scale, lr)` steps along the gradients times `scale`. If a device cannot
    record, all goes on eagerly.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        *,
        add_gradient: Callable[[Any, Sequence[Tensor]], Loss],
        step: Callable[[Tensor, Tensor], None],
    ) -> None:
        self._model, self._optimizer, self._device = model, optimizer, device
        self._add_gradient, self._step = add_gradient, step
        self._recorder = _Recorder(device)
        self._seen: set[Key] = set()
        self._graphs: dict[Key, MicroBatchGraph] = {}
        self._replay_step: Work | None = None
        self._has_stepped = False
        self._scale = torch.ones((), device=device)
        # The CPU's fused optimizers read a rate in double precision, CUDA's in single.
        rate_type = torch.float64 if device.type == "cpu" else torch.float32
        self._rate = torch.zeros(
            (),
            dtype=rate_type,
            device=device,
        )

    @property
    def count(self) -> int:
        """The number of recorded micro-batches."""
        return len(self._graphs)

    def add_gradient(self, batch: AnyBatch, carried: Sequence[Tensor]) -> Loss:
        """Add the gradient of a micro-batch's summed loss; return that loss, detached.

        The next call may overwrite the tensors that are returned.
        """
        key = _key(batch, carried)
        is_new = key in self._seen and key not in self._graphs
        if is_new and self.count < MOST_GRAPHS:
            self._record(key, batch, carried)
        graph = self._graphs.get(key)
        if graph is None:
            self._seen.add(key)
            with self._recorder.beside():
                return self._add_gradient(batch.to(self._device), carried)
        inputs = [*batch.tensors().values(), *carried]
        for static, new in zip(
            graph.inputs,
            inputs,
            strict=True,
        ):
            static.copy_(new, non_blocking=True)
        graph.replay()
        return Loss(graph.total, batch.units, graph.carried)

    def step(self, scale: float, lr: float) -> None:
        """Step along the gradients times `scale` at a rate; the second step is recorded."""
        self._scale.fill_(scale)
        self._rate.fill_(lr)

        def work() -> None:
            self._step(self._scale, self._rate)

        if self._replay_step is None and self._has_stepped:
            self._replay_step = self._record_step(work)
        self._has_stepped = True
        replay = self._replay_step or work
        replay()

    def _record_step(self, work: Work) -> Work | None:
        groups = self._optimizer.param_groups
        for group in groups:  # else Adam refuses; it warns if this is set while it is not recorded
            group["capturable"] = True
        replay = self._recorded(work)
        for group in groups:
            group["capturable"] = False
        return replay

    def _recorded(self, work: Work) -> Work | None:
        """Return a replay of `work`, not computed now; None, and no graph is left, if it fails."""
        replay = self._recorder.record(work)
        if self._recorder.has_failed:
            self._graphs.clear()
            self._replay_step = None
        return replay

    def _record(self, key: Key, batch: AnyBatch, carried: Sequence[Tensor]) -> None:
        """Record a micro-batch of this shape, without computing it."""
        own_batch = batch.moved(lambda tensor: tensor.to(self._device, copy=True))
        own_carried = [tensor.clone() for tensor in carried]
        total = torch.zeros(
            (),
            dtype=torch.float64,
            device=self._device,
        )
        following: list[Tensor] = []

        def work() -> None:
            loss = self._add_gradient(own_batch, own_carried)
            assert loss.units == own_batch.units, "a replay counts the units of its batch"
            total.copy_(loss.total)
            following[:] = loss.carried

        replay = self._recorded(work)
        if replay is not None:
            inputs = [*own_batch.tensors().values(), *own_carried]
            tables = list(_tables(self._model))
            self._graphs[key] = MicroBatchGraph(
                replay,
                inputs,
                total,
                following,
                tables,
            )


def _key(batch: AnyBatch, carried: Sequence[Tensor]) -> Key:
    """Return what a graph is for: the shapes of its inputs, and the facts that choose its path."""
    tensors = [*batch.tensors().values(), *carried]
    shapes = [(tensor.shape, tensor.dtype) for tensor in tensors]
    facts = [(name, value) for name, value in vars(batch).items() if isinstance(value, bool)]
    return *shapes, *facts


def _tables(model: nn.Module) -> Iterator[Tensor]:
    """Yield a model's tensors that are no parameters, such as fairseq's positions and future mask.

    fairseq makes a larger one for a longer sentence and drops the old one. What the old one holds
    is right for the sentences that it was made for.
    """
    for module in model.modules():
        for value in [*vars(module).values(), *module.buffers(recurse=False)]:
            if isinstance(value, Tensor):
                yield value


class _Recorder:
    """Records work as CUDA graphs; they share one pool of memory, since one runs at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.has_failed = False
        if device.type == "cuda":
            self._pool = torch.cuda.graph_pool_handle()
            stream: Any = torch.cuda.Stream
            self._stream = stream(device)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Compute a block on the stream that records; the present stream waits for it.

        A stream other than the default one can record, and what a library keeps for each stream,
        such as cuBLAS's workspace, is there before.
        """
        if self._device.type == "cpu":
            yield
            return
        present = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(present)
        with torch.cuda.stream(self._stream):
            yield
        present.wait_stream(self._stream)

    def record(self, work: Work) -> Work | None:
        """Return a replay of `work`, which is not computed now; None if that is not possible."""
        if self.has_failed:
            return None
        random_state = self._random_state()
        try:
            return self._capture(work)
        except RuntimeError as error:
            self.has_failed = True
            reason = str(error).strip().partition("\n")[0]
            print(
                f"graphs=on: not on this device, the run goes on without ({reason})",
                file=sys.stderr,
            )
            self._restart_generator(random_state)
            return None

    def _capture(self, work: Work) -> Work:
        if self._device.type == "cpu":
            return work
        graph = torch.cuda.CUDAGraph()
        with self.beside():
            # The thread that makes batches ahead allocates memory meanwhile.
            graph.capture_begin(self._pool, capture_error_mode="thread_local")
            try:
                work()
            finally:
                graph.capture_end()
        return graph.replay

    def _random_state(self) -> Tensor:
        return self._generator().get_state()

    def _generator(self) -> torch.Generator:
        if self._device.type == "cpu":
            return torch.default_generator
        index = self._device.index
        return torch.cuda.default_generators[
            torch.cuda.current_device() if index is None else index
        ]

    def _restart_generator(self, state: Tensor) -> None:
        """Let the device's generator go on from a state.

        After a failure it would wait for the end of the record, so its state moves to another.
        """
        if self._device.type == "cpu":
            return
        fresh = torch.Generator(self._device)
        fresh.set_state(state)
        self._generator().graphsafe_set_state(fresh.graphsafe_get_state())
