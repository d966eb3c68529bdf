"""Our parser against plain Python, one sentence at a time: `python -m scripts.benchmarks.parsing`.

Oracle and features of the sample's training trees, and greedy parsing of its test set with one
model. The two sides take turns in one process. The ratio is seconds, plain Python : ours.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from adanorm.config.compose import compose_experiment
from adanorm.runs.execute import prepare
from adanorm.tasks.parsing import Parsing, transitions
from scripts.benchmarks.harness import (
    Options,
    Row,
    peak_mb,
    run_benchmark,
    take_turns,
    timed,
)
from tests import plain_parser

PENN_SENTENCES = 39_832


def measure(options: Options) -> Iterator[Row]:
    """Yield one row for oracle and features and one for greedy parsing."""
    experiment = compose_experiment(["task=ptb", "norm=layernorm", "scale=mini"])
    task = Parsing(experiment)
    yield _extraction(task, options.rounds)
    yield _parsing(task, prepare(experiment, task).model.eval(), options.rounds)


def _extraction(task: Parsing, rounds: int) -> Row:
    trees = task.trees["train"]

    def plain() -> int:
        return sum(1 for tree in trees for _ in plain_parser.transitions(tree, task.vocabulary))

    def ours() -> int:
        return len(transitions(trees, task.vocabulary, batch_size=1024))

    row = _compared("oracle and features", plain, ours, rounds)
    # As many sentences as the whole treebank has, for its peak memory.
    transitions(
        [*trees] * (PENN_SENTENCES // len(trees)),
        task.vocabulary,
        batch_size=1024,
    )
    whole = row["ours_seconds"] / len(trees) * PENN_SENTENCES
    return {
        **row,
        "penn_seconds": round(whole, 1),
        "penn_peak_mb": round(peak_mb()),
    }


def _parsing(task: Parsing, model: nn.Module, rounds: int) -> Row:
    trees = task.trees["test"]
    _train(task, model)

    def scores(ids: list[int]) -> list[float]:
        with torch.inference_mode():
            logits: list[float] = model(torch.tensor([ids]))[0].tolist()
        return logits

    def plain() -> list[list[int]]:
        return [plain_parser.parse(tree, task.vocabulary, scores) for tree in trees]

    def ours() -> list[list[int]]:
        return [heads for heads, _ in task.parse(model, trees)]

    parses = zip(plain(), ours(), strict=True)
    same = sum(expected == heads for expected, heads in parses)
    print(f"greedy parses alike: {same} of {len(trees)}")
    return _compared("greedy parsing", plain, ours, rounds)


def _train(task: Parsing, model: nn.Module) -> None:
    """Train for one epoch: an untrained model makes trees unlike any parser's."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for batch in task.train_batches(0):
        optimizer.zero_grad()
        loss = task.loss(model, batch)
        (loss.total / loss.units).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _compared(
    what: str,
    plain: Callable[[], Any],
    ours: Callable[[], Any],
    rounds: int,
) -> Row:
    spent = take_turns({"plain": timed(plain), "ours": timed(ours)}, rounds)
    seconds = {f"{side}_seconds": round(spent.median(side), 3) for side in ("plain", "ours")}
    return {
        "what": what,
        **seconds,
        "ratio": spent.ratio("plain", "ours"),
    }


if __name__ == "__main__":
    run_benchmark(measure, rounds=5)
