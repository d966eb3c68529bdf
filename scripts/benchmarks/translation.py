"""Translation against fairseq itself, and under each norm: `python -m scripts.benchmarks.translation`.

The mini model on Multi30k: the same weights, batches, optimizer and one thread, the two taking turns update
by update in one process. fairseq's side is what `fairseq-train` calls an update (its Trainer.train_step) and
what `fairseq-generate` calls a batch (its task's inference_step and post-processing). The ratio is of speeds
by processor time, ours : fairseq's, and of peak memory fairseq's : ours; then of each norm's speed :
LayerNorm's. `updates` are the rounds of training, `trained` the updates before decoding: an untrained model
decodes to the limit.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from adanorm.cli.command import whole_number
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.data.examples import Indices, batches_within
from adanorm.process import CACHES
from adanorm.runs.setup import prepare, start_trainer
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

NORMS = ("layernorm", "none", "layernorm-simple", "detachnorm", "detach-mean", "detach-var", "adanorm")
SENTENCES = 200
WARM_UP = 5  # updates that are not counted
processor_time = partial(timed, clock=time.process_time)  # a side of one thread; the machine may be shared
PEAKS = 3  # processes whose peak memory is taken, at most


def measure(options: Options) -> Iterator[Row]:
    """Yield the rows of training, its memory, decoding, and training under each norm."""
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
    """Update on each batch, as our loop does; data are collated in this process."""
    pairs = task.corpus.splits["train"]
    for indices in order:
        trainer.update([pairs.batch(indices)])


def _row(what: str, unit: str, rounds: Rounds[str], ours: str, other: str, *, amount: float) -> Row:
    """Return speeds, amount over seconds, and the ratio of `ours` to `other`."""
    mine, theirs = (round(amount / rounds.median(name), 1) for name in (ours, other))
    return {"what": what, "unit": unit, "ours": mine, "other": theirs, "ratio": rounds.ratio(other, ours)}


def _training(experiment: Experiment, task: Translation, updates: int) -> Row:
    trainer = start_trainer(experiment, prepare(experiment, task))
    other = FairseqSide(experiment, task, trainer.model.state_dict())
    dataset = task.corpus.splits["train"].dataset
    orders = [iter(task.train_batches(0).order) for _ in range(2)]
    sides = {
        "fairseq": processor_time(lambda: other.train(dataset, [next(orders[0])])),
        "ours": processor_time(lambda: _train_ours(trainer, task, [next(orders[1])])),
    }
    found = take_turns(sides, updates, warm_up=WARM_UP)
    return _row("training", "tokens/s", found, "ours", "fairseq", amount=_tokens_an_update(task, updates))


def _tokens_an_update(task: Translation, updates: int) -> float:
    counted = islice(iter(task.train_batches(0)), WARM_UP, WARM_UP + updates)
    return sum(batch.units for batch in counted) / updates


def _memory(updates: int, rounds: int) -> Row:
    """Return the peak memory of a process of each that trains; the ratio is fairseq's over ours."""
    start = partial(fresh_process, environment=CACHES)  # as the command sets them
    sides = {name: partial(start, _peak, name, updates) for name in ("ours", "fairseq")}
    memory = take_turns(sides, rounds, warm_up=0)
    ours, other = (round(memory.median(name), 1) for name in ("ours", "fairseq"))
    ratio = memory.ratio("fairseq", "ours")
    return {"what": "peak memory of training", "unit": "MB", "ours": ours, "other": other, "ratio": ratio}


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
        found: dict[int, str] = {}
        for indices in batches_within(chosen, pairs.sizes, DECODED_TOKENS):
            found |= dict(zip(indices.tolist(), task.translate(model, pairs.sources(indices)), strict=True))
        return found

    theirs = partial(other.generate, dataset, chosen, experiment)
    mine = ours()
    same = sum(mine[number] == translation for number, translation in theirs().items())
    found = take_turns({"fairseq": processor_time(theirs), "ours": processor_time(ours)}, rounds, warm_up=0)
    row = _row("decoding", "sentences/s", found, "ours", "fairseq", amount=len(chosen))
    return row | {"same_translations": same, "sentences": len(chosen)}


def _norms(task: Translation, updates: int) -> Iterator[Row]:
    """Yield the speed of training under each of the paper's norms against LayerNorm's."""

    def side(norm: str) -> Callable[[], float]:
        trainer = start_trainer(run := _experiment(norm), prepare(run, task))
        order = iter(task.train_batches(0).order)
        return processor_time(lambda: _train_ours(trainer, task, [next(order)]))

    found = take_turns({norm: side(norm) for norm in NORMS}, updates, warm_up=WARM_UP)
    amount = _tokens_an_update(task, updates)
    for norm in NORMS[1:]:
        yield _row(f"{norm} against layernorm", "tokens/s", found, norm, "layernorm", amount=amount)


if __name__ == "__main__":
    run_benchmark(measure, rounds=7, keys={"updates": "55", "trained": "250"})
