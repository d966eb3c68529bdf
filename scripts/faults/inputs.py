"""Malformed command lines, studies and data files, made from good ones by a grammar of mistakes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from omegaconf import OmegaConf

from adanorm.cli.command import COMMANDS
from adanorm.config.compose import compose_config
from adanorm.config.yaml_file import dotted
from scripts.faults.data_files import DATA, good_files
from scripts.faults.kills import Verdict, told
from scripts.faults.mistakes import NONSENSE, OWN, STUDY_LINES, VALUES
from scripts.faults.process import Ended, changes, run

LIMIT = 20  # seconds; what is accepted and takes longer is interrupted, and must end in a line
RUN = ("norm=adanorm", "scale=smoke", "runs={runs}")
GOOD: dict[str, tuple[str, ...]] = {
    "run": ("task=rt", *RUN),
    "plan": ("task=rt", *RUN[:1], "probe=false"),
    "study": ("own.yaml", "runs={runs}"),
    "status": ("own.yaml", "runs={runs}"),
    "analyze": (
        "gradients",
        "task=gaussian",
        "norm=adanorm",
        "scale=smoke",
        "steps=3",
        "every=1",
        "runs={runs}",
    ),
    "compare": ("task=rt", "norm=layernorm,adanorm", "scale=smoke", "runs={runs}"),
    "verify": ("task=mnist", "norm=adanorm", "scale=mini"),
    "trace": ("table4/AdaNorm/RT",),
    "list": (),
    "data": ("task=rt", "scale=smoke"),
    "baselines": ("task=rt", "scale=smoke"),
    "check-norm": ("norm=adanorm",),
    "scorecard": ("norm=adanorm", "budget=1min", "runs={runs}"),
    "tables": ("nosuch",),
    "figures": ("nosuch",),
    "report": ("runs={runs}", "nosuch=1"),
    "translate": ("task=de-en", *RUN),
    "parse": ("task=ptb", *RUN),
    "sample": ("task=enwik8", *RUN, "length=3"),
}


def input_campaign(count: int, random: Random, folder: Path) -> Iterator[Verdict]:
    """Yield a verdict for every malformed input."""
    kinds: list[Callable[[Random, Path], Verdict]] = [_line, _value, _study, _file, _file]
    folder.mkdir(parents=True)
    for number in range(count):
        place = folder / f"input-{number}"
        place.mkdir()
        yield kinds[number % len(kinds)](random, place)
        shutil.rmtree(place, ignore_errors=True)


def _command(name: str, place: Path) -> list[str]:
    (place / "own.yaml").write_text(OWN)
    return [name, *(argument.format(runs=place / "runs") for argument in GOOD[name])]


def _line(random: Random, place: Path) -> Verdict:
    """A command line with something that no command takes."""
    name = random.choice([*COMMANDS])
    arguments, nonsense = _command(name, place), random.choice(NONSENSE)
    key = nonsense.partition("=")[0]
    kept = (
        [a for a in arguments[1:] if not a.startswith(f"{key}=")]
        if "=" in nonsense and key
        else arguments[1:]
    )
    if random.random() < 0.5 or name in ("run", "tables", "figures", "report"):
        kept.insert(random.randrange(len(kept) + 1), nonsense)
    else:
        kept.append(nonsense)
    if "\x00" in nonsense:  # no system passes that on
        kept = [argument.replace("\x00", "\ufffd") for argument in kept]
    ended = run([name, *kept], place, limit=LIMIT)
    return Verdict("command line", f"{name} {' '.join(kept)}", _not_refused(ended, place))


def _value(random: Random, place: Path) -> Verdict:
    """A setting of a run with a value of another kind or out of all bounds, which may be one it takes."""
    task = random.choice(("rt", "mnist", "gaussian", "ptb", "enwik8", "de-en"))
    config: Any = OmegaConf.to_container(compose_config([f"task={task}", "norm=adanorm", "scale=smoke"]))
    key = random.choice(
        [key for key, _ in dotted(config) if not key.startswith(("runs", "data.cache", "cost"))]
    )
    setting = f"{key}={random.choice(VALUES)}"
    base = [f"task={task}", *(argument.format(runs=place / "runs") for argument in RUN)]
    cache = f"data.cache={place.parent / 'cache'}"
    ended = run(["run", *base, cache, setting], place, limit=LIMIT)
    return Verdict("setting", f"run task={task} {setting}", _no_good_end(ended, place))


def _study(random: Random, place: Path) -> Verdict:
    """A study with a line that it cannot have, or with bytes that are none of it."""
    command = random.choice(("status", "status", "study"))
    arguments = _command(command, place)
    path = place / "own.yaml"
    if random.random() < 0.7:
        line = random.choice(STUDY_LINES)
        lines = [text for text in OWN.splitlines() if text.partition(":")[0] != line.partition(":")[0]]
        lines.insert(random.randrange(len(lines) + 1), line)
        path.write_text("\n".join(lines))
        return Verdict("study", f"{command}, {line}", _not_refused(run(arguments, place, limit=LIMIT), place))
    what, edit = random.choice([*changes(random).items()])
    path.write_bytes(edit(path.read_bytes()))
    ended = run(["status", *arguments[1:]], place, limit=LIMIT)
    return Verdict("study", f"status, {what}: {path.read_bytes()!r}", _no_good_end(ended, place))


def _file(random: Random, place: Path) -> Verdict:
    """A data set of the user's with a spoiled file, which may still be one."""
    kind = random.choice([*DATA])
    files = good_files(kind, place)
    path = random.choice(files)
    what = DATA[kind].spoil(path, random)
    arguments = [
        "run",
        *DATA[kind].arguments(place),
        *(argument.format(runs=place / "runs") for argument in RUN),
    ]
    ended = run([*arguments, f"data.cache={place / 'cache'}"], place, limit=LIMIT)
    return Verdict("data file", f"{kind}, {path.name}: {what}", _no_good_end(ended, place))


def _not_refused(ended: Ended, place: Path) -> str:
    """Return what is wrong with what had to be refused; empty: nothing."""
    if ended.is_one_line and not _written(place):
        return ""
    return told(ended) + (f", wrote {', '.join(_written(place))}" if _written(place) else "")


def _no_good_end(ended: Ended, place: Path) -> str:
    """Return what is wrong with what was refused or came to its end or was interrupted; empty: nothing."""
    if ended.code in (0, 130) and "Traceback" not in ended.stderr:
        return ""
    return _not_refused(ended, place)


def _written(place: Path) -> Sequence[str]:
    return [str(path.relative_to(place)) for path in place.glob("runs/**/*") if path.is_file()]
