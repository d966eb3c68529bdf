"""Continue a prompt with the language model of a run that was trained here, and print the text.

The seed `draw` decides the sample: the same seed gives the same text.
"""

import re
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.cli.command import Arguments, Key, Usage, whole_number
from adanorm.runs.auto_scale import experiment_of
from adanorm.runs.setup import trained_model
from adanorm.tasks.char_lm import CharLm, segment_options

USAGE = Usage(
    keys={
        "prompt": Key("the text to continue", "The "),
        "length": Key("bytes to draw", "500"),
        "temperature": Key("below 1: likelier bytes; above 1: more varied ones", "1.0"),
        "top_k": Key("draw from this many likeliest bytes; 0: from all", "40"),
        "draw": Key("seed of the sample", "1"),
    },
    settings="of the run",
    examples=("task=enwik8 norm=adanorm scale=mini runs=runs length=200",),
)


def main(arguments: Arguments) -> None:
    """Print the prompt with its continuation."""
    keys = arguments.keys
    length, draw = (
        whole_number("length", keys["length"]),
        whole_number("draw", keys["draw"], at_least=0),
    )
    top_k = whole_number("top_k", keys["top_k"], at_least=0)
    number = re.fullmatch(r"\d*\.?\d+", keys["temperature"], re.ASCII)
    if not number or not 0.001 <= float(keys["temperature"]) <= 1000:
        raise ValueError(f"temperature={keys['temperature']}: must be a number from 0.001 to 1000")
    with redirect_stdout(sys.stderr):  # progress must not mix with the sample
        experiment = experiment_of(
            arguments.settings, kind="char_lm", otherwise="is not a language model"
        )
        _, model = trained_model(experiment, CharLm)
        assert experiment.segments is not None, "a language model has segments"
        text = continued(
            model,
            keys["prompt"].encode("utf-8", "surrogateescape"),
            length=length,
            temperature=float(keys["temperature"]),
            top_k=top_k,
            reading=segment_options(experiment.segments.test),
            generator=torch.Generator().manual_seed(draw),
        )
    print(text.decode("utf-8", "replace"))


def continued(
    model: nn.Module,
    prompt: bytes,
    *,
    length: int,
    temperature: float,
    top_k: int,
    reading: Mapping[str, Any],  # the model's arguments besides the bytes and its memory
    generator: torch.Generator,
) -> bytes:
    """Return the prompt with `length` bytes drawn after it, each from the `top_k` likeliest (0: all)."""
    device = next(model.parameters()).device
    text = bytearray(prompt)
    remembered: list[Tensor] = []
    segment = torch.tensor([list(prompt)], device=device)
    with torch.inference_mode():
        for _ in range(length):
            logits, remembered = model(segment, remembered, **reading)
            last = logits[0, -1].float().cpu() / temperature
            if top_k:
                last[last < last.topk(min(top_k, len(last))).values[-1]] = -torch.inf
            byte = int(torch.multinomial(last.softmax(0), 1, generator=generator))
            text.append(byte)
            segment = torch.tensor([[byte]], device=device)
    return bytes(text)
