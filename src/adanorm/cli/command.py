"""The command line `adanorm COMMAND [NAME] [key=value ...]`: its syntax, help and errors."""

import importlib
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from adanorm.config.errors import check_known, mistake, suggestion, whole_number
from adanorm.config.paths import RUNS, choices, install_command

# Named here, so that the overview imports no command.
COMMANDS = {
    "run": "train one task with one norm, and score it",
    "plan": "print what a run would need: downloads, disk, memory, hours",
    "study": "make the missing runs of a study and print its table",
    "status": "show how many runs of each study are done, and the time left",
    "analyze": "observe what a norm does while runs train, or without a run",
    "compare": "compare norms on the same test examples",
    "verdict": "compare scores of your own, from a CSV file",
    "verify": "repeat a recorded run and say whether this machine reproduces it",
    "trace": "print the runs behind a table's cell and how to repeat them",
    "keep": "add finished records to the store, one line per run",
    "contribute": "write runs into one file that others can merge",
    "merge": "check a file of runs made elsewhere, show it beside ours, add it",
    "export": "write test scores for Every Eval Ever or the Hugging Face Hub",
    "log": "send finished runs to wandb or TensorBoard",
    "list": "show tasks, norms, scales, studies, and what is completed",
    "data": "download, verify and prepare the data of a task",
    "baselines": "score trivial baselines, such as the majority class",
    "check-norm": "test whether a module keeps the contract of a norm",
    "trial": "put a norm on trial beside LayerNorm: one answer",
    "arena": "print the table of norms that have been on trial",
    "tables": "write results/tables from the records",
    "figures": "write results/figures from the records",
    "report": "write the report, one HTML page, from the records",
    "predict": "translate, parse or continue a text with the weights of a run",
}
OTHER_NAMES = {"analyse": "analyze"}
QUICK = ("run", "study", "status", "list", "keep", "trace")  # print within half a second
WIDTH = 80


class Key(NamedTuple):
    """A `key=value` of a command; `also` are other spellings of its name."""

    help: str
    default: str = ""
    also: tuple[str, ...] = ()


class Usage(NamedTuple):
    """What a command takes: names, keys of its own, and perhaps the settings of a run."""

    name: str = ""  # as the help writes it: STUDY, [STUDY] if optional, STUDY... for several
    choices: Callable[[], Sequence[str]] = tuple  # returns the names
    keys: Mapping[str, Key] = MappingProxyType({})
    settings: str = ""  # what any other `key=value` is a setting of; empty: no other is allowed
    examples: tuple[str, ...] = ()


class Arguments(NamedTuple):
    """A parsed command line: names, the command's keys or their defaults, settings `key=value`."""

    names: list[str]
    keys: dict[str, str]
    settings: list[str]


def parse_arguments(command: str, usage: Usage, arguments: Sequence[str]) -> Arguments:
    """Return the parsed command line.

    Raises ValueError for an argument that the command does not take.
    """
    spellings: dict[str, str] = {}
    for key, entry in usage.keys.items():
        spellings |= dict.fromkeys((key, *entry.also), key)
    values = {key: entry.default for key, entry in usage.keys.items()}
    parsed = Arguments([], values, [])
    given = set()
    for argument in arguments:
        spelling, equals, value = argument.partition("=")
        key = spellings.get(spelling, "")
        if argument.startswith("-"):
            word = spelling.lstrip("-")
            hint = f": write {word}=VALUE" if word in spellings else ""
            raise ValueError(
                f"{command} has no flag {spelling!r}{hint}; `adanorm {command} --help` has its keys"
            )
        if not equals:
            parsed.names.append(argument)
            continue
        setting = key or spelling.lstrip("+")
        if setting in given:
            raise ValueError(f"{setting} is given twice")
        given.add(setting)
        if key:
            if not value:
                raise ValueError(f"{spelling}=: needs a value")
            values[key] = value
        elif usage.settings:
            parsed.settings.append(argument)
        elif "/" in spelling and "/" in usage.name:  # a cell's row may be called k=0.2
            parsed.names.append(argument)
        else:
            options = f"the keys of {command} are {', '.join(usage.keys) or 'none'}"
            raise ValueError(
                f"unknown key {spelling!r}: {options}{suggestion(spelling, spellings)}"
            )
    _check_names(command, usage, parsed.names)
    return parsed


def _check_names(command: str, usage: Usage, names: Sequence[str]) -> None:
    """Raise ValueError if a command takes more names than these, or fewer."""
    count = len(usage.name.split())
    if len(names) > count and "..." not in usage.name:
        limit = {0: "no name", 1: "one name"}.get(count, f"{count} names")
        name, hint = names[count], ""
        takes_a_norm = usage.settings or "norm" in usage.keys
        if takes_a_norm and (":" in name or name in choices("norm")):
            hint = f": write norm={name}"
        elif usage.settings:
            hint = ": write settings as key=value"
        raise ValueError(f"{command} takes {limit}, not {name!r}{hint}")
    is_optional = usage.name.startswith("[")
    if len([*filter(None, names)]) < count and not is_optional:
        options = ", ".join(usage.choices())
        hint = f": choose from {options}" if options else ""
        raise ValueError(f"{command} needs {usage.name}{hint}")


def name_list(key: str, text: str) -> list[str]:
    """Return the names in a key's value `a,b`; raises ValueError if one is named twice."""
    names = text.split(",")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{key}={text}: {name} is named twice")
    return names


def seed_list(text: str) -> list[int]:
    """Return the seeds in the text `1,2,3`.

    Raises ValueError if one is not a whole number or is named twice, or if they are of several series.
    """
    seeds = []
    for word in text.split(","):
        if not (word.isascii() and word.isdecimal()):
            raise ValueError(f"seeds={text}: write whole numbers, such as seeds=1,2,3")
        seeds.append(whole_number("seeds", word, at_least=0))
    name_list("seeds", ",".join(map(str, seeds)))
    from adanorm.config.sections import one_series

    return one_series(seeds)


def folder_of(text: str) -> str | None:
    """Return the absolute path of a `runs=` folder, None if it is empty or results/runs.

    Refuses `${`.
    """
    if "${" in text:
        hint = "a folder's name cannot hold ${, which stands for another setting"
        raise ValueError(f"runs={text}: {hint}")
    path = os.path.abspath(os.path.expanduser(text))
    if not text or os.path.realpath(path) == os.path.realpath(RUNS):
        return None
    return path


def output_path(output: str, key: str = "output", *, is_replaced: Callable[[Path], object]) -> Path:
    """Return the path in `output=`, ~ being the home folder.

    Raises ValueError if nothing can be written there, or if it is a file, not empty, that the
    command does not replace.
    """
    from adanorm.files import descriptor_of

    path = Path(os.path.expanduser(output))
    target = Path(os.path.realpath(path))  # still a link in a loop of links
    descriptor = descriptor_of(path)
    is_closed = descriptor is not None and not _is_writable(descriptor)
    is_nowhere = is_closed or not (path.exists() or target.parent.is_dir())
    if path.is_dir() or target.is_symlink() or is_nowhere:
        raise ValueError(f"{key}={output}: no file can be written there")
    is_file = descriptor is None and path.is_file() and path.stat().st_size > 0
    if is_file and not is_replaced(path):
        raise ValueError(
            f"{key}={output}: exists, and this command does not replace it;"
            " remove it or name another file"
        )
    return path


def _is_writable(descriptor: int) -> bool:
    try:
        os.write(descriptor, b"")
    except (OSError, OverflowError):
        return False
    return True


def true_or_false(key: str, text: str) -> bool:
    """Return a key's value as a bool; raises ValueError if it is neither true nor false."""
    if text not in ("true", "false"):
        raise ValueError(f"{key}={text}: choose true or false")
    return text == "true"


def overview() -> str:
    """Return the help of `adanorm`: one line per command."""
    commands = "\n".join(f"  {name:<11} {about}" for name, about in COMMANDS.items())
    return (
        "usage: adanorm COMMAND [NAME] [key=value ...]\n\n"
        "Reproduces 'Understanding and Improving Layer Normalization' (NeurIPS 2019).\n\n"
        f"{commands}\n\n"
        "`adanorm COMMAND --help` shows what a command takes. Start with\n"
        "  adanorm run task=mnist norm=adanorm scale=mini"
    )


def help_text(command: str, usage: Usage, about: str) -> str:
    """Return the help of a command in lines of at most 80 columns."""
    words = ["usage: adanorm", command]
    if usage.name:
        words.append(usage.name)
    if usage.keys or usage.settings:
        words.append("[key=value ...]")
    lines = [" ".join(words), ""]
    for paragraph in about.strip().split("\n\n"):
        lines += [*textwrap.wrap(" ".join(paragraph.split()), WIDTH), ""]
    names = ", ".join(usage.choices())
    if names:
        lines += [*hanging(f"{usage.name.strip('.[]')}: ", names), ""]
    width = max(map(len, usage.keys), default=0) + 3
    for key, entry in usage.keys.items():
        default = f" (default: {entry.default})" if entry.default else ""
        lines += hanging(f"  {key + '=':<{width}}", entry.help + default)
    if usage.keys:
        lines.append("")
    if usage.settings:
        hint = "they are listed below" if command == "run" else "`adanorm run --help` has them"
        text = f"Any other key=value is a setting {usage.settings}; {hint}."
        lines += [*textwrap.wrap(text, WIDTH), ""]
    if usage.examples:
        lines.append("Examples")
        for example in usage.examples:
            lines.append(f"  adanorm {command} {example}".rstrip())
    return "\n".join(lines)


def hanging(start: str, text: str) -> list[str]:
    """Return a text in lines of at most 80 columns; `start` begins the first."""
    indent = " " * len(start)
    return textwrap.wrap(
        text, WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False
    )


def show(text: str, indent: int = 2) -> None:
    """Print a text in lines of at most 80 columns; those after the first are indented."""
    lines = textwrap.wrap(
        text,
        WIDTH,
        subsequent_indent=" " * indent,
    )
    print(
        *lines,
        sep="\n",
        flush=True,
    )


def command_name(text: str) -> str:
    """Return the command that a word names.

    Raises ValueError, with the choices, if there is none.
    """
    name = OTHER_NAMES.get(text, text)
    if name not in COMMANDS:
        check_known("command", [text], COMMANDS)
    return name


def dispatch(arguments: Sequence[str]) -> int:
    """Run a command line, without the program's name, and return its exit code.

    Raises ValueError for a mistake.
    """
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    command, rest = command_name(arguments[0]), list(arguments[1:])
    if command not in QUICK and sys.stderr.isatty():
        # Its imports may take seconds.
        print(f"adanorm {command}: loading", file=sys.stderr, flush=True)
    module = importlib.import_module(f"adanorm.cli.{command.replace('-', '_')}")
    if command == "run":  # takes Hydra's own flags
        return int(module.main(rest) or 0)
    usage: Usage = module.USAGE
    if "-h" in rest or "--help" in rest:
        about = module.__doc__ or ""
        print(
            help_text(
                command,
                usage,
                about,
            )
        )
        return 0
    with no_early_end():
        parsed = parse_arguments(
            command,
            usage,
            rest,
        )
        return int(module.main(parsed) or 0)


def mistake_line(error: Exception) -> str | None:
    """Return one line on what the user can mend, such as a missing package; None for a bug."""
    if not isinstance(error, ModuleNotFoundError):
        return mistake(error)
    if str(error.name).partition(".")[0] in ("adanorm", *sys.stdlib_module_names):
        return None
    command = install_command("suite")
    return f"{error.name} is not installed; what the suite needs comes with: {command}"


@contextmanager
def no_early_end() -> Iterator[None]:
    """Raise ValueError if code that runs within, such as a norm's, ends the process."""
    try:
        yield
    except SystemExit as end:
        if end.code in (None, 0):
            raise ValueError("ended early: a norm or other code called sys.exit()") from end
        raise
