"""Translation against fairseq itself, and under each norm: `python -m scripts.benchmarks.translation`.

The mini model on Multi30k, with the same weights, batches and optimizer and with one thread. The
sides take turns update by update in one process. fairseq's side is an update of `fairseq-train`
(Trainer.train_step) or a batch of `fairseq-generate` (its task's inference_step and
post-processing). Ratios: speed by processor time, ours : fairseq's; peak memory, fairseq's : ours;
then each norm's speed : LayerNorm's. `updates` are the rounds of training, `trained` the updates
before decoding, as an untrained model decodes to the limit.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from adanorm.config.compose import compose_experiment
from adanorm.config.errors import whole_number
from adanorm.config.experiment import Experiment
from adanorm.data.examples import Indices, batches_within
from adanorm.process import CACHES
from adanorm.runs.execute import prepare, start_trainer
from adanorm.tasks.translation import Translation
from adanorm.training.loop import Trainer
from scripts.benchmarks.harness import (
    Options,
    Rounds,
    Row,
    fresh_process,
    peak_mb,
    run_benchmark,
    take_turns,
    timed,
)
from tests.fairseq_side import DECODED_TOKENS, FairseqSide

NORMS = (
    "layernorm",
    "none",
    "layernorm-simple",
    "detachnorm",
    "detach-mean",
    "detach-var",
    "adanorm",
)
SENTENCES = 200
WARM_UP = 5  # updates that are not counted
processor_time = partial(
    timed, clock=time.process_time
)  # one thread per side; others may use the machine
PEAKS = 3  # at most so many processes are measured for their peak memory


def measure(options: Options) -> Iterator[Row]:
    """Yield the rows of training, its peak memory, decoding, and training under each norm."""
    updates, trained = (whole_number(key, options.keys[key]) for key in ("updates", "trained"))
    experiment = _experiment("layernorm")
    task = Translation(experiment)
    yield _training(experiment, task, updates)
    yield _memory(updates, min(options.rounds, PEAKS))
    yield _decoding(experiment, task, options.rounds, trained=trained)
    yield from _norms(task, updates)


def _experiment(norm: str) -> Experiment:
    return compose_experiment(["task=de-en", "scale=mini", f"norm={norm}"])


def _train_ours(trainer: Trainer, task: Translation, order: Sequence[Indices]) -> None:
    """Make one update per batch, as our loop does; this process collates the data."""
    pairs = task.corpus.splits["train"]
    for indices in order:
        trainer.update([pairs.batch(indices)])


def _row(what: str, unit: str, rounds: Rounds[str], ours: str, other: str, *, amount: float) -> Row:
    """Return speeds (amount per second) of the sides `ours` and `other`, and their ratio."""
    mine, theirs = (round(amount / rounds.median(name), 1) for name in (ours, other))
    return {
        "what": what,
        "unit": unit,
        "ours": mine,
        "other": theirs,
        "ratio": rounds.ratio(other, ours),
    }


def _training(experiment: Experiment, task: Translation, updates: int) -> Row:
    trainer = start_trainer(experiment, prepare(experiment, task))
    other = FairseqSide(experiment, task, trainer.model.state_dict())
    dataset = task.corpus.splits["train"].dataset
    orders = [iter(task.train_batches(0).order) for _ in range(2)]
    sides = {
        "fairseq": processor_time(lambda: other.train(dataset, [next(orders[0])])),
        "ours": processor_time(lambda: _train_ours(trainer, task, [next(orders[1])])),
    }
    spent = take_turns(sides, updates, warm_up=WARM_UP)
    return _row(
        "training", "tokens/s", spent, "ours", "fairseq", amount=_tokens_per_update(task, updates)
    )


def _tokens_per_update(task: Translation, updates: int) -> float:
    batches = islice(iter(task.train_batches(0)), WARM_UP, WARM_UP + updates)
    return sum(batch.units for batch in batches) / updates


def _memory(updates: int, rounds: int) -> Row:
    """Return the peak memory of a training process of each side, and the ratio fairseq's : ours."""
    start = partial(fresh_process, environment=CACHES)  # as the `adanorm` command sets them
    sides = {name: partial(start, _peak, name, updates) for name in ("ours", "fairseq")}
    memory = take_turns(sides, rounds, warm_up=0)
    ours, other = (round(memory.median(name), 1) for name in ("ours", "fairseq"))
    ratio = memory.ratio("fairseq", "ours")
    return {
        "what": "peak memory of training",
        "unit": "MB",
        "ours": ours,
        "other": other,
        "ratio": ratio,
    }


def _peak(name: str, updates: int) -> float:
    experiment = _experiment("layernorm")
    task = Translation(experiment)
    order = task.train_batches(0).order[:updates]
    if name == "ours":
        _train_ours(start_trainer(experiment, prepare(experiment, task)), task, order)
    else:
        FairseqSide(experiment, task).train(task.corpus.splits["train"].dataset, order)
    return peak_mb()


def _decoding(experiment: Experiment, task: Translation, rounds: int, *, trained: int) -> Row:
    trainer = start_trainer(experiment, prepare(experiment, task))
    model = trainer.model
    _train_ours(trainer, task, task.train_batches(0).order[:trained])
    other = FairseqSide(experiment, task, model.state_dict())
    pairs = task.corpus.splits["test"]
    dataset = pairs.dataset
    chosen = dataset.ordered_indices()[:: len(pairs) // SENTENCES]

    def ours() -> dict[int, str]:
        model.eval()
        texts: dict[int, str] = {}
        for indices in batches_within(chosen, pairs.sizes, DECODED_TOKENS):
            texts |= dict(
                zip(indices.tolist(), task.translate(model, pairs.sources(indices)), strict=True)
            )
        return texts

    theirs = partial(other.generate, dataset, chosen, experiment)
    mine = ours()
    same = sum(mine[number] == translation for number, translation in theirs().items())
    spent = take_turns(
        {"fairseq": processor_time(theirs), "ours": processor_time(ours)}, rounds, warm_up=0
    )
    row = _row("decoding", "sentences/s", spent, "ours", "fairseq", amount=len(chosen))
    return row | {"same_translations": same, "sentences": len(chosen)}


def _norms(task: Translation, updates: int) -> Iterator[Row]:
    """Yield a row per norm of the paper: its speed of training against LayerNorm's."""

    def side(norm: str) -> Callable[[], float]:
        trainer = start_trainer(run := _experiment(norm), prepare(run, task))
        order = iter(task.train_batches(0).order)
        return processor_time(lambda: _train_ours(trainer, task, [next(order)]))

    spent = take_turns({norm: side(norm) for norm in NORMS}, updates, warm_up=WARM_UP)
    amount = _tokens_per_update(task, updates)
    for norm in NORMS[1:]:
        yield _row(f"{norm} against layernorm", "tokens/s", spent, norm, "layernorm", amount=amount)


if __name__ == "__main__":
    run_benchmark(measure, rounds=7, keys={"updates": "55", "trained": "250"})
