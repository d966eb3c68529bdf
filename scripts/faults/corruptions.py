"""Files that the suite writes and reads again, spoiled: the same numbers come out, or a line says why not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from scripts.faults.kills import Case, Verdict, difference, told
from scripts.faults.process import Ended, changes, run

INFERENCE = {"ptb": "parse", "de-en": "translate", "enwik8": "sample"}
SENTENCE = "".join(f"{n}\tnoun{n}\t_\tNN\tNN\t_\t_\t_\t_\t_\n" for n in range(1, 4)) + "\n"
INPUT = {"parse": SENTENCE.encode(), "translate": b"word1 word2\n", "sample": b""}


def corruption_campaign(cases: Sequence[Case], count: int, random: Random, folder: Path) -> Iterator[Verdict]:
    """Yield a verdict for every spoiled file: of an unfinished run, of a finished one, of what it reads."""
    kinds = (_unfinished, _finished, _weights)
    for number in range(count):
        place = folder / f"spoiled-{number}"
        yield from kinds[number % len(kinds)](random.choice(cases), random, place)
        shutil.rmtree(place, ignore_errors=True)


def _spoil(path: Path, random: Random) -> str:
    name, edit = random.choice([*changes(random).items()])
    if name == "removed":
        path.unlink()
    else:
        path.write_bytes(edit(path.read_bytes()))
    return f"{path.name} {name}"


def _spoil_any(place: Path, random: Random) -> str:
    """Spoil some file of a run, and return what was done; nothing where none is written yet."""
    files = sorted(
        path
        for path in place.rglob("*")
        if path.is_file() and path.parent != place and path.suffix != ".lock" and "composed" not in path.parts
    )
    composed = sorted(place.glob("composed/*/*.json"))
    found = [*files, *composed[:1]]
    return _spoil(random.choice(found), random) if found else "nothing written yet"


def _unfinished(case: Case, random: Random, place: Path) -> Iterator[Verdict]:
    """A killed run with a spoiled file goes on or begins anew, and ends as the undisturbed one."""
    run(case.arguments(place), place, kill_at=random.randrange(case.writes // 2, case.writes - 4))
    what = _spoil_any(place, random)
    ended = run(case.arguments(place), place)
    wrong = told(ended) if ended.code else difference(case, place)
    yield Verdict("file of an unfinished run", f"{case.task}, {what}", wrong)


def _finished(case: Case, random: Random, place: Path) -> Iterator[Verdict]:
    """A finished run with a spoiled file is as it was or made again; commands end well or in a line."""
    shutil.copytree(case.place, place)
    arguments = case.arguments(place)
    compared = ["compare", *(f"{a},layernorm" if a.startswith("norm=") else a for a in arguments[1:])]
    what = _spoil_any(place, random)
    for command in (["status", str(_study(case, place)), arguments[-2]], compared):
        said = run(command, place)
        if said.code and not said.is_one_line:
            yield Verdict("file of a finished run", f"{case.task}, {what}, {command[0]}", told(said))
            return
    ended = run(arguments, place)
    wrong = (
        told(ended)
        if ended.code
        else ""
        if what.startswith("weights.safetensors")
        else difference(case, place)
    )
    yield Verdict("file of a finished run", f"{case.task}, {what}", wrong)


def _study(case: Case, place: Path) -> Path:
    path = place / "own.yaml"
    path.write_text(f"title: t\nrows: [adanorm]\ncolumns: [{case.task}]\nscale: smoke\nseeds: [1]\n")
    return path


def _weights(case: Case, random: Random, place: Path) -> Iterator[Verdict]:
    """Spoiled weights are refused in a line that names the file; nothing is made of them."""
    if case.task not in INFERENCE:
        yield from _finished(case, random, place)
        return
    command = INFERENCE[case.task]
    whole, spoiled = (
        _inferred(command, case, random, place / name, name == "spoiled") for name in ("whole", "spoiled")
    )
    what, ended = spoiled
    same = ended.code == 0 and ended.stdout == whole[1].stdout
    refused = ended.is_one_line and "weights.safetensors" in ended.stderr
    yield Verdict("weights", f"{case.task}, {command}, {what}", "" if same or refused else told(ended))


def _inferred(command: str, case: Case, random: Random, place: Path, spoil: bool) -> tuple[str, Ended]:
    shutil.copytree(case.place, place)
    (weights,) = place.glob("runs/*/*/*/weights.safetensors")
    what = _spoil(weights, random) if spoil else ""
    return what, run([command, *case.arguments(place)[1:]], place, stdin=INPUT[command])
