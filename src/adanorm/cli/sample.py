"""Print bytes that a language model of a run trained here continues a prompt with.

The same seed of the sample, `draw`, gives the same text. top_k=0 draws from all bytes.
"""

from __future__ import annotations

import re
import sys
from contextlib import redirect_stdout

import torch

from adanorm.cli.command import Arguments, Key, Usage
from adanorm.cli.values import whole_number
from adanorm.runs.auto_scale import experiment_of
from adanorm.runs.sample import continued
from adanorm.runs.setup import trained
from adanorm.tasks.char_lm import CharLm, segment_options

USAGE = Usage(
    keys={
        "prompt": Key("the text to go on from", "The "),
        "length": Key("bytes to draw", "500"),
        "temperature": Key("below 1: likelier bytes; above 1: more varied ones", "1.0"),
        "top_k": Key("draw from so many likeliest bytes; 0: from all", "40"),
        "draw": Key("seed of the sample", "1"),
    },
    settings="of the run",
    examples=("task=enwik8 norm=adanorm scale=mini runs=runs length=200",),
)


def main(arguments: Arguments) -> None:
    """Read the command line and print the prompt with its continuation."""
    given = arguments.keys
    length, draw = whole_number("length", given["length"]), whole_number("draw", given["draw"], at_least=0)
    top_k = whole_number("top_k", given["top_k"], at_least=0)
    written = re.fullmatch(r"\d*\.?\d+", given["temperature"], re.ASCII)
    if not written or not 0.001 <= float(given["temperature"]) <= 1000:
        raise ValueError(f"temperature={given['temperature']}: must be a number from 0.001 to 1000")
    with redirect_stdout(sys.stderr):  # progress is no sample
        experiment = experiment_of(arguments.settings, kind="char_lm", otherwise="is no language model")
        _, model = trained(experiment, CharLm)
        assert experiment.segments is not None, "a language model has segments"
        text = continued(
            model,
            given["prompt"].encode("utf-8", "surrogateescape"),
            length=length,
            temperature=float(given["temperature"]),
            top_k=top_k,
            reading=segment_options(experiment.segments.test),
            generator=torch.Generator().manual_seed(draw),
        )
    print(text.decode("utf-8", "replace"))
