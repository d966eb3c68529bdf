"""Our parser against plain Python, a sentence at a time: `python -m scripts.benchmarks.parsing`.

Oracle and features of the sample's training trees, and greedy parsing of its test set with one
model, the two taking turns in one process; and what attaching every word to its neighbour gets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import nn

from adanorm.config.compose import compose_experiment
from adanorm.data.treebanks.trees import Tree
from adanorm.metrics.attachment import attachment
from adanorm.models.norm_sites import PlacedNorms
from adanorm.norms import NormChoice, norm_factory
from adanorm.tasks.parsing import Parsing, transitions
from scripts.benchmarks import plain_parser, results
from scripts.benchmarks.memory import peak_mb

ROUNDS = 5
PENN_SENTENCES = 39_832


def main() -> None:
    """Time both, print the ratios and write results/bench/parsing.csv."""
    torch.set_num_threads(1)
    task = Parsing(compose_experiment(["task=ptb", "norm=layernorm", "scale=mini"]))
    for name, scores in baselines(task.trees["test"]).items():
        print(f"head = {name} word: UAS {scores:.2f} on the test set, punctuation left out")
    results.write("parsing", [_extraction(task), _parsing(task)])


def baselines(trees: list[Tree]) -> dict[str, float]:
    """Return the UAS of attaching every word to the word before it and to the word after it."""
    before = [(list(range(len(tree))), ["_"] * len(tree)) for tree in trees]
    after = [([*range(2, len(tree) + 1), 0], ["_"] * len(tree)) for tree in trees]
    parses = {"previous": before, "next": after}
    return {name: attachment(trees, parsed, "penn").metrics["uas"] for name, parsed in parses.items()}


def _extraction(task: Parsing) -> dict[str, Any]:
    trees = task.trees["train"]

    def plain() -> int:
        return sum(1 for tree in trees for _ in plain_parser.transitions(tree, task.vocabulary))

    def ours() -> int:
        return len(transitions(trees, task.vocabulary, batch_size=1024))

    row = _compared("oracle and features", plain, ours)
    whole = row["ours_seconds"] / len(trees) * PENN_SENTENCES
    # Ten times the sample's sentences are as many as the whole treebank has.
    before = peak_mb()
    transitions([*trees] * (PENN_SENTENCES // len(trees)), task.vocabulary, batch_size=1024)
    print(
        f"  {PENN_SENTENCES:,} sentences: about {whole:.0f} s; peak memory {before:.0f} -> {peak_mb():.0f} MB"
    )
    return {**row, "penn_seconds": round(whole, 1), "penn_peak_mb": round(peak_mb())}


def _parsing(task: Parsing) -> dict[str, Any]:
    trees = task.trees["test"]
    model = task.build_model(PlacedNorms(norm_factory(NormChoice("layernorm")), "all")).eval()
    _train(task, model)

    def scores(ids: list[int]) -> list[float]:
        with torch.inference_mode():
            found: list[float] = model(torch.tensor([ids]))[0].tolist()
        return found

    def plain() -> list[list[int]]:
        return [plain_parser.parse(tree, task.vocabulary, scores) for tree in trees]

    def ours() -> list[list[int]]:
        return [heads for heads, _ in task.parse(model, trees)]

    same = sum(a == b for a, b in zip(plain(), ours(), strict=True))
    print(f"greedy parses alike: {same} of {len(trees)}")
    return {**_compared("greedy parsing", plain, ours), "penn_seconds": None, "penn_peak_mb": None}


def _train(task: Parsing, model: nn.Module) -> None:
    """Train a little: a model that knows nothing makes trees as no parser does."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for batch in task.train_batches(0):
        optimizer.zero_grad()
        loss = task.loss(model, batch)
        (loss.total / loss.units).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _compared(what: str, plain: Callable[[], Any], ours: Callable[[], Any]) -> dict[str, Any]:
    ours()
    seconds: dict[str, list[float]] = {"plain": [], "ours": []}
    for _ in range(ROUNDS):
        for name, made in (("plain", plain), ("ours", ours)):
            started = time.perf_counter()
            made()
            seconds[name].append(time.perf_counter() - started)
    ratios = [a / b for a, b in zip(seconds["plain"], seconds["ours"], strict=True)]
    row = {
        "what": what,
        "plain_seconds": round(median(seconds["plain"]), 3),
        "ours_seconds": round(median(seconds["ours"]), 3),
        "ratio": round(median(ratios), 1),
        "lowest": round(min(ratios), 1),
        "highest": round(max(ratios), 1),
    }
    print("{what}: {ratio} times as fast ({lowest} to {highest})".format(**row))
    return row


if __name__ == "__main__":
    main()
