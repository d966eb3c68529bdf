"""Print text from a trained language model: `python -m adanorm.sample task=enwik8 norm=adanorm`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

import torch
from torch import Tensor, nn

from adanorm import compose
from adanorm.config import Experiment
from adanorm.execution import choose_device, trained
from adanorm.scale import resolve_auto
from adanorm.tasks.char_lm import CharLm, told

LANGUAGE_MODELS = "enwik8, enwik8-lstm or enwik8-gru"

DESCRIPTION = """Print bytes that a language model of a run made here continues a prompt with.

  python -m adanorm.sample task=enwik8 norm=adanorm scale=mini [KEY=VALUE ...]
                           [prompt="The "] [length=500] [temperature=1.0] [top_k=40] [draw=1]

task, norm, scale, seed and the other keys name the run as `adanorm.run` does; the same draw
gives the same text. top_k=0 draws from all bytes."""


def main() -> None:
    """Read the command line and print the prompt with its continuation."""
    if {"--help", "-h"} & {*sys.argv[1:]}:
        print(DESCRIPTION)
        return
    given, overrides = _arguments(sys.argv[1:])
    with redirect_stdout(sys.stderr):  # what is said on the way is no sample
        experiment = compose.experiment(resolve_auto(compose.prepare(overrides)))
        if experiment.segments is None:
            raise ValueError(f"task={experiment.task.name} is no language model: choose {LANGUAGE_MODELS}")
        text = _sample(experiment, given)
    print(text.decode("utf-8", "replace"))


def _arguments(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    defaults = {"prompt": "The ", "length": "500", "temperature": "1.0", "top_k": "40", "draw": "1"}
    given, overrides = compose.own_keys(arguments, defaults)
    for key, lowest in (("length", 1), ("top_k", 0), ("draw", 0)):
        if not given[key].isdecimal() or int(given[key]) < lowest:
            raise ValueError(f"{key}={given[key]}: must be a whole number of {lowest} or more")
    if not re.fullmatch(r"\d*\.?\d+", given["temperature"]) or float(given["temperature"]) == 0:
        raise ValueError(f"temperature={given['temperature']}: must be a number above 0")
    if not given["prompt"]:
        raise ValueError("prompt: must hold at least one byte")
    return given, overrides


def _sample(experiment: Experiment, given: dict[str, str]) -> bytes:
    task = CharLm(experiment)
    device = choose_device(experiment)
    model = trained(experiment, task, device)
    assert experiment.segments is not None
    generator = torch.Generator().manual_seed(int(given["draw"]))
    return continued(
        model,
        given["prompt"].encode("utf-8", "surrogateescape"),
        length=int(given["length"]),
        temperature=float(given["temperature"]),
        top_k=int(given["top_k"]),
        reading=told(experiment.segments.test),
        generator=generator,
    )


def continued(
    model: nn.Module,
    prompt: bytes,
    *,
    length: int,
    temperature: float,
    top_k: int,
    reading: Mapping[str, Any],
    generator: torch.Generator,
) -> bytes:
    """Return the prompt with `length` bytes drawn after it, each from the `top_k` likeliest (0: all).

    `reading` is what the model is told beside the bytes and its memory.
    """
    device = next(model.parameters()).device
    made = bytearray(prompt)
    remembered: list[Tensor] = []
    segment = torch.tensor([list(prompt)], device=device)
    with torch.inference_mode():
        for _ in range(length):
            logits, remembered = model(segment, remembered, **reading)
            last = logits[0, -1].float().cpu() / temperature
            if top_k:
                last[last < last.topk(min(top_k, len(last))).values[-1]] = -torch.inf
            drawn = int(torch.multinomial(last.softmax(0), 1, generator=generator))
            made.append(drawn)
            segment = torch.tensor([[drawn]], device=device)
    return bytes(made)


if __name__ == "__main__":
    compose.door(main)
