"""Translate, parse or continue a text with the weights of a run that was trained here.

A translation task translates each line, as it would alone. A translation has at most
`decoding.max_ratio` x length of its line + `decoding.max_extra` subwords; in the test of a run the
length is that of the longest line translated with it, as in fairseq. A parser reads sentences in
CoNLL-U (or CoNLL-X) and fills in heads and labels from words and tags; enhanced dependencies are
removed, since they would belong to another parse, and all else stays as it is, to the byte. A
language model continues `prompt`; the seed `draw` decides the text. On a terminal each line or
sentence is answered at once.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from tqdm import tqdm

from adanorm.cli.command import Arguments, Key, Usage, output_path
from adanorm.config.errors import whole_number
from adanorm.config.experiment import Experiment
from adanorm.data.treebanks import conll
from adanorm.files import writing_to
from adanorm.runs.auto_scale import experiment_of
from adanorm.runs.execute import trained_model
from adanorm.tasks import TrainingTask

KINDS = ("translation", "parsing", "char_lm")
MARK = "\ufeff"  # the byte order mark
TOGETHER = 1024  # lines or sentences that are answered together; on a terminal, one
Entry = TypeVar("Entry")

USAGE = Usage(
    keys={
        "input": Key("a file; default: the standard input"),
        "output": Key("a new file; default: the standard output"),
        "prompt": Key("the text that a language model continues", "The "),
        "length": Key("bytes that a language model draws", "500"),
        "temperature": Key("below 1: likelier bytes; above 1: more varied ones", "1.0"),
        "draw": Key("seed of the bytes", "1"),
    },
    settings="of the run",
    examples=(
        "task=de-en scale=mini runs=runs input=a.de output=a.en",
        "task=ptb scale=mini runs=runs input=a.conllu output=b.conllu",
        "task=enwik8 norm=adanorm scale=mini runs=runs length=200",
    ),
)


def main(arguments: Arguments) -> None:
    """Write what a run's model makes of the input."""
    keys = arguments.keys
    drawing = drawing_of(keys)
    output = None
    if keys["output"]:
        # A text has no mark that would tell ours from a user's.
        output = output_path(keys["output"], is_replaced=lambda path: False)
    with (
        input_of(os.path.expanduser(keys["input"])) as file,
        output_of(output) as target,
        redirect_stdout(sys.stderr),  # what is printed must not mix with the text
    ):
        experiment = experiment_of(arguments.settings)
        kind, name = experiment.task.kind, keys["input"] or "input"
        if kind not in KINDS:
            raise ValueError(
                f"task={experiment.task.name} predicts no text:"
                " choose a translation task, a parser or a language model"
            )

        def write(text: str) -> None:
            target.write(text.encode())
            target.flush()

        head: list[str] = []  # a byte order mark, which stays in front of parses
        lines = lines_of(file, name, head.append if kind == "parsing" else lambda mark: None)
        is_hidden = file.isatty() or target.isatty() or not sys.stderr.isatty()
        entries = entries_of(
            experiment,
            tqdm(lines, unit=" lines", disable=is_hidden),
            name,
        )
        options = {}
        if kind == "char_lm":
            entries, options = iter([keys["prompt"]]), drawing
        parts = parts_of(entries, 1 if file.isatty() else TOGETHER)
        first = next(parts, [])  # a mistake in it ends the command before any work
        task, model = trained_model(experiment, TrainingTask)  # type: ignore[type-abstract]
        for part in chain([first], parts):
            texts = task.predict(model, part, **options)
            write("".join([*head, *texts]))
            head.clear()


def drawing_of(keys: dict[str, str]) -> dict[str, Any]:
    """Return how a language model draws; raises ValueError for a number out of bounds."""
    temperature = keys["temperature"]
    is_number = re.fullmatch(r"\d*\.?\d+", temperature, re.ASCII)
    if not is_number or not 0.001 <= float(temperature) <= 1000:
        raise ValueError(f"temperature={temperature}: must be a number from 0.001 to 1000")
    length = whole_number("length", keys["length"])
    draw = whole_number("draw", keys["draw"], at_least=0)
    return {"length": length, "temperature": float(temperature), "draw": draw}


@contextmanager
def input_of(name: str) -> Iterator[BinaryIO]:
    """Yield a file or the standard input; raises ValueError where there is none."""
    if not name:
        if sys.stdin is None:
            raise ValueError("the standard input is closed: name a file with input=FILE")
        yield sys.stdin.buffer
        return
    if not Path(name).exists() or Path(name).is_dir():  # a pipe is an input too
        raise ValueError(f"input={name}: no such file")
    with open(name, "rb") as file:
        yield file


def output_of(path: Path | None) -> AbstractContextManager[BinaryIO]:
    """Return the standard output, or the file at a path, to be written in a block.

    A regular file has its old content until the block has ended.
    """
    if path is None:
        return nullcontext(sys.stdout.buffer)
    return writing_to(path)


def lines_of(file: BinaryIO, name: str, take_mark: Callable[[str], object]) -> Iterator[str]:
    """Yield lines with their line feeds, without a byte order mark, which `take_mark` gets.

    Raises ValueError at a line that is not UTF-8.
    """
    for number, line in enumerate(file, 1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}, line {number}: not UTF-8 ({error.reason})") from None
        if number == 1 and text.startswith(MARK):
            take_mark(MARK)
        yield text.removeprefix(MARK)  # a later one began a file that was joined to the first


def entries_of(experiment: Experiment, lines: Iterable[str], name: str) -> Iterator[Any]:
    """Return what a task predicts from: the sentences of CoNLL for a parser, else lines."""
    if experiment.task.kind == "parsing":
        read = partial(conll.sentence_of, tags=experiment.data.tags)  # type: ignore[attr-defined]
        return conll.each_sentence(lines, name, read)
    return (line.removesuffix("\n") for line in lines)


def parts_of(entries: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    """Return the entries in lists of `size`."""
    rest = iter(entries)
    return iter(lambda: list(islice(rest, size)), [])
