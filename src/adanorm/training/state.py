"""How a run is computed, its state and its random numbers; its files of tensors.

The files are checkpoints, weights to average and best weights; they are checked when they are read.
"""

import hashlib
import json
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from adanorm.files import write_whole, writing
from adanorm.tasks import Evaluation
from adanorm.training.distributed import World, broadcast

Row = dict[str, int | float]
FORMAT = 2
_MARK = b"\nsha256 "
_SEAL = len(_MARK) + 64 + 1  # bytes at the end of the file; torch.load does not mind them
KEY = "adanorm"  # in the header's metadata: with one key alone, no order of keys is left to chance

_UNREADABLE = (
    safetensors.SafetensorError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)


class ComputeContext(NamedTuple):
    """Where and how a run is computed; only `precision` changes what is computed."""

    device: torch.device
    precision: str
    world: World
    checkpoint_seconds: float
    batches_ahead: int = 0  # updates whose batches a thread makes ahead; it would slow a CPU
    compile: str | None = None  # layers: torch compiles them for training
    graphs: bool = False  # whether CUDA graphs replay micro-batches

    def autocast(self, *, enabled: bool = True) -> Any:
        """Return the autocast context of a forward pass, or of a backward pass inside it."""
        if self.precision != "bf16":
            return nullcontext()
        return torch.autocast(
            self.device.type,
            torch.bfloat16,
            enabled=enabled,
        )


def set_tf32(precision: str) -> None:
    """Let CUDA round factors to TF32 only under `tf32`; PyTorch's default does in convolutions.

    Sums of bf16 products are kept in float32, which by default PyTorch may round in between.
    """
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = precision == "tf32"
    matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Have this thread, and those it starts, take numbers below 1.2e-38 for zero on the CPU.

    A processor computes with such denormal numbers many times slower. A network's gradients and
    Adam's means reach them where units are dead or training is unstable.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@dataclass
class State:
    """The state of a run; losses in nats per unit, loss_sum and loss_units give the next mean."""

    epoch: int = 0
    position: int = 0  # updates done in this epoch
    update: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # processor time of the first process, all its threads
    first_loss: float | None = None  # of the first update: the untrained model's
    best_score: float | None = None
    best_update: int = 0
    worse_than_start: int = 0  # evaluations in a row whose training loss is above first_loss
    lowest_of_these: float | None = None  # the lowest training loss of these evaluations
    rows: list[dict[str, Any]] = field(default_factory=list)  # logged, by the first process
    test_rows: list[dict[str, Any]] = field(
        default_factory=list
    )  # one per row, if test scores are tracked
    diverged: str | None = None
    loss_sum: float = 0.0  # since the last evaluation
    loss_units: int = 0
    valid: dict[str, float] = field(default_factory=dict)  # at the best update
    kept: list[tuple[float, int]] = field(
        default_factory=list
    )  # (score, update) of the weights to average

    def mean_loss(self, *, diverge_after: int) -> float:
        """Return the mean training loss since the last evaluation, and start a new mean.

        The run has diverged if its loss is above first_loss at `diverge_after` evaluations in a row
        and no longer falls. A loss that falls may yet recover: first_loss is of one update, perhaps
        an easy one.
        """
        assert self.first_loss is not None
        loss = self.loss_sum / self.loss_units
        self.loss_sum, self.loss_units = 0.0, 0
        if loss <= self.first_loss:
            self.worse_than_start, self.lowest_of_these = 0, None
            return loss
        lowest = self.lowest_of_these
        is_falling = lowest is not None and loss < lowest
        self.worse_than_start += 1
        self.lowest_of_these = loss if lowest is None else min(loss, lowest)
        if self.worse_than_start >= diverge_after and not is_falling:
            self.diverged = (
                f"training loss above its start at {self.worse_than_start} evaluations in a row"
                f" and not falling, the last at update {self.update}"
            )
        return loss


class Outcome(NamedTuple):
    """The outcome of training; `test` is None if it diverged, and on processes but the first."""

    state: State
    test: Evaluation | None
    weights: dict[str, Tensor]


def seed_of(*numbers: int) -> int:
    """Return a seed made of numbers, such as a run's seed and a process's rank."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def rng_state(device: torch.device) -> list[Tensor]:
    """Return the states of the generators that a run draws from: the CPU's and its device's."""
    return [
        torch.get_rng_state(),
        *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else []),
    ]


def set_rng_state(states: list[Tensor], device: torch.device) -> None:
    """Set torch's generators to the states that rng_state returned."""
    torch.set_rng_state(states[0])
    if len(states) > 1 and device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)


class BrokenError(ValueError):
    """A file whose content is not what the suite wrote."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a state with a checksum; whatever happens, `path` holds the old or the new state."""
    with writing(path) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # torch raises it on closing a file that it could not write
            raise error.__context__ if isinstance(error.__context__, OSError) else error from None
        size = file.tell()
        file.seek(0)
        file.write(_seal(file, size))


def load(path: Path, device: torch.device) -> dict[str, Any]:
    """Return the state that `save` wrote; raises BrokenError if the file is broken."""
    verify(path)
    try:
        return dict(
            torch.load(
                path,
                map_location=device,
                weights_only=True,
            )
        )
    except (RuntimeError, EOFError, KeyError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0]
        raise BrokenError(f"{path}: not a checkpoint of this suite ({reason})") from None


def verify(path: Path) -> None:
    """Raise BrokenError, naming the file, if its content does not fit the checksum at its end."""
    size = path.stat().st_size - _SEAL
    with path.open("rb") as file:
        if size < 0 or _seal(file, size) != file.read():
            problem = "corrupted or cut off, its content is not what its checksum says"
            raise BrokenError(f"{path}: {problem}")


def _seal(file: BinaryIO, size: int) -> bytes:
    """Return the bytes that end a file: the checksum of its first `size` bytes."""
    digest = hashlib.sha256()
    while size:
        part = file.read(min(size, 1 << 20))
        digest.update(part)
        size -= len(part)
    return _MARK + digest.hexdigest().encode() + b"\n"


def keep_weights(model: nn.Module, update: int, folder: Path) -> None:
    """Write the model's weights for the average; the file stays while a checkpoint names it."""
    save(_weights_file(folder, update), {"model": model.state_dict()})


def mean_weights(
    kept: Sequence[tuple[float, int]], folder: Path, device: torch.device
) -> dict[str, Tensor]:
    """Return the mean of the weights `kept` at (score, update); a boolean is true if any is."""
    total: dict[str, Tensor] = {}
    for _, update in kept:
        saved = load(_weights_file(folder, update), device)  # there until the run has ended
        for name, weights in saved["model"].items():
            total[name] = weights if name not in total else total[name] + weights
    for name, weights in total.items():
        if weights.is_floating_point():
            total[name] = weights / len(kept)
        elif weights.dtype != torch.bool:
            total[name] = weights // len(kept)
    return total


def _weights_file(folder: Path, update: int) -> Path:
    return folder / f"kept-{update}.pt"


class RunCheckpoints:
    """Writes and reads the latest two checkpoints of a run; only the first process writes."""

    def __init__(self, context: ComputeContext) -> None:
        self._context = context
        # What computed each start so far; the last is this start's.
        self.writers: list[dict[str, Any]] = [{}]
        self._previous: list[
            tuple[float, int]
        ] = []  # evaluations to average, in the last checkpoint

    def write(self, path: Path, saved: dict[str, Any]) -> None:
        """Write the next checkpoint; remove weights that neither it nor the previous one names."""
        if path.exists():
            path.replace(_previous_path(path))
        folder = path.parent
        save(path, {"format": FORMAT, "run": folder.name, "writers": self.writers, **saved})
        to_average = list(saved["state"]["kept"])
        named = [_weights_file(folder, update) for _, update in [*to_average, *self._previous]]
        for file in folder.glob("kept-*.pt"):
            if file not in named:
                file.unlink(missing_ok=True)
        self._previous = to_average

    def latest(self, path: Path) -> dict[str, Any] | None:
        """Return the latest whole checkpoint or None; the first process finds it."""
        device, world = self._context.device, self._context.world
        latest, source = None, None
        if world.is_main:
            latest, source = _latest_whole(path, device)
        source = broadcast(source, world)
        if source is None:
            return None
        if latest is None:  # the first process has just read it
            latest = load(source, device)
        self._previous = list(latest["state"]["kept"])
        writers = latest.get("writers", [{}])
        if writers[-1:] == self.writers:
            self.writers = writers
        else:
            self.writers = [*writers, *self.writers]
        return latest


def _latest_whole(path: Path, device: torch.device) -> tuple[dict[str, Any] | None, Path | None]:
    """Return the checkpoint at `path` or the previous one, and its file; remove broken ones."""
    for file in filter(Path.exists, (path, _previous_path(path))):
        try:
            return _load_checked(file, device), file
        except BrokenError as error:
            remedy = "the run goes on from the checkpoint before or from its start"
            print(f"warning: {error}; {remedy}", file=sys.stderr)
            file.unlink(missing_ok=True)
    return None, None


def _previous_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}-before{path.suffix}")


def _load_checked(path: Path, device: torch.device) -> dict[str, Any]:
    """Return a run's checkpoint; raises BrokenError for it or weights that it names."""
    saved = load(path, device)
    if saved.get("format") != FORMAT:
        raise BrokenError(f"{path}: written by another version of the suite")
    folder = path.parent.name  # has the run's digest
    run = saved.get("run", folder)
    if run != folder:
        raise BrokenError(f"{path}: of the run {run}")
    for _, update in saved["state"]["kept"]:
        file = _weights_file(path.parent, update)
        if not file.exists():
            raise BrokenError(f"{file}: is missing")
        verify(file)
    return saved


def save_weights(path: Path, weights: Mapping[str, Tensor], run: str) -> None:
    """Write a run's best weights, its digest and a checksum as safetensors, which hold no code."""
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    label = json.dumps({"run": run, "sha256": _checksum(safetensors.torch.save(tensors))})
    write_whole(path, safetensors.torch.save(tensors, {KEY: label}))


def load_weights(path: Path, run: str) -> dict[str, Tensor]:
    """Return a run's weights on the CPU; BrokenError if the file is broken or another run's."""
    content = path.read_bytes()
    try:
        label = json.loads(_header(content)["__metadata__"][KEY])
        is_whole = label["sha256"] == _checksum(content)
        owner, weights = label["run"], safetensors.torch.load(content)
    except _UNREADABLE as error:
        reason = str(error).splitlines()[0]
        raise BrokenError(f"{path}: not weights of this suite ({reason})") from None
    if not is_whole:
        raise BrokenError(f"{path}: corrupted, its content is not what its checksum says")
    if owner != run:
        raise BrokenError(f"{path}: of the run {owner}, not of {run}")
    return weights


def _header(content: bytes) -> dict[str, dict[str, str]]:
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def _checksum(content: bytes) -> str:
    """Return the SHA-256 of a safetensors file's tensors: the header's entries and the values."""
    entries = {name: entry for name, entry in _header(content).items() if name != "__metadata__"}
    digest = hashlib.sha256(json.dumps(entries, sort_keys=True).encode())
    digest.update(content[8 + int.from_bytes(content[:8], "little") :])
    return digest.hexdigest()
