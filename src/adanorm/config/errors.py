"""Turns any error into one line that names the setting, name or file at fault."""

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

DECIMAL = r"[-+]?(\.\d+|\d+(\.\d*)?)"
NUMBER = re.compile(rf"{DECIMAL}([eE][-+]?\d+)?", re.ASCII)  # as YAML 1.2 reads decimal digits


def one_line(error: Exception, keys: Iterable[str] = ()) -> str:
    """Return an error as one line that names what is at fault, with `keys` like an unknown key."""
    missing = getattr(error, "missing_cfg_file", None)
    if missing:
        options = ", ".join(
            getattr(
                error,
                "options",
                None,
            )
            or []
        )
        return f"no configuration {missing}" + (f": choose from {options}" if options else "")
    unknown = unknown_key(error)
    if unknown:
        similar = get_close_matches(
            unknown,
            [key for key in dict.fromkeys(keys) if key != unknown],
            n=3,
        )
        hint = f"did you mean {', '.join(similar)}? " if similar else ""
        return f"unknown key {unknown!r}: {hint}`adanorm run --cfg job` shows every key"
    cause = _cause(error)
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.filename or 'a stream or file'}: {cause.strerror}"
    text = _text(error)
    ambiguous = re.search(r"Ambiguous value for argument '([^']*)'", text)
    if ambiguous:
        hint = "`adanorm run -m` runs several; quote a text with a comma"
        return f"{ambiguous[1]} takes one value: {hint}"
    return " ".join(text.split())


def _cause(error: Exception) -> BaseException:
    """Return the cause of a Hydra error, which says what was wrong; our own errors are clear."""
    return (error.__cause__ if is_of_hydra(error) else None) or error


def _text(error: Exception) -> str:
    return str(_cause(error)) or str(error)


def unknown_key(error: Exception) -> str | None:
    """Return the dotted key that Hydra's error says does not exist, None for any other error."""
    match = re.search(r"Key '([^']+)' (?:is )?not in \S+\s+full_key: (\S+)", _text(error))
    return match[2] if match else None


def check_known(kind: str, names: Iterable[str], choices: Collection[str], hint: str = "") -> None:
    """Raise ValueError, with the choices and a hint, for the first name that is not among them."""
    for name in names:
        if name not in choices:
            known = f"{', '.join(choices)}{hint}{suggestion(name, choices)}"
            raise ValueError(f"unknown {kind} {name!r}: choose from {known}")


def suggestion(name: str, choices: Iterable[str]) -> str:
    """Return '; did you mean NAME?' with the choice most similar to `name`, or ''."""
    spellings = {choice.lower(): choice for choice in choices}
    similar = get_close_matches(
        name.lower(),
        spellings,
        n=1,
    )
    return f"; did you mean {spellings[similar[0]]}?" if similar else ""


def mistake(error: Exception) -> str | None:
    """Return one line on what the user can mend: a mistake, a full disk, lack of memory.

    None for a bug.
    """
    if is_out_of_memory(error):
        return f"out of memory: {' '.join(str(error).split())[:200]}"
    if isinstance(error, ValueError | OSError) or is_of_hydra(error):
        return one_line(error)
    return None


def is_of_hydra(error: BaseException) -> bool:
    """Return whether an error is Hydra's or OmegaConf's, without importing either."""
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return not packages.isdisjoint(("hydra", "omegaconf"))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out; torch has an exception for its caching allocator only."""
    if isinstance(error, RuntimeError):
        pattern = r"can't allocate memory|out of memory|STATUS_ALLOC_FAILED"
        return re.search(pattern, str(error)) is not None
    return isinstance(error, MemoryError)


def first_problem(error: "ValidationError") -> str:
    """Return pydantic's first error as one line that names the key and its value."""
    problems: list[Mapping[str, Any]] = [*error.errors()]
    problem = problems[0]
    if _is_top_level(problem, "missing"):
        # An unknown key may be the missing one, misspelled.
        unknown = [entry for entry in problems if _is_top_level(entry, "extra_forbidden")]
        problem = unknown[0] if unknown else problem
    parts = [str(part) for part in problem["loc"]]
    if parts[:1] in (["data"], ["model"]):
        del parts[1:2]  # pydantic adds the tag of the union: the value of data.reader or model.name
    key = ".".join(parts)
    kind, message = problem["type"], problem["msg"].removeprefix("Value error, ")
    if kind == "union_tag_invalid":
        choice = "{discriminator}={tag}: choose from {expected_tags}".format_map(problem["ctx"])
        return f"{key}.{choice}".replace("'", "")
    if kind == "value_error":
        return f"{key}: {message}" if key else message
    if kind == "missing":
        return f"{key}: is missing"
    if len(parts) > 1 and parts[-1] in ("bool", "int", "float", "str"):
        # pydantic has an error for each type of a union that it tried.
        tries = [entry for entry in problems if entry["loc"][:-1] == problem["loc"][:-1]]
        kinds = dict.fromkeys(entry["msg"].removeprefix("Input should be ") for entry in tries)
        key = ".".join(parts[:-1])
        message = f"input should be {' or '.join(kinds)}"
    return f"{key}={problem['input']!r}: {message[0].lower()}{message[1:]}"


def _is_top_level(problem: Mapping[str, Any], kind: str) -> bool:
    """Return whether a problem is of a kind and of a key that is in no section."""
    return problem["type"] == kind and len(problem["loc"]) == 1


def whole_number(key: str, text: str, *, at_least: int = 1, at_most: int = 2**31 - 1) -> int:
    """Return a key's value as a whole number; raises ValueError if it is none or out of bounds."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 20) or int(text) < at_least:
        raise ValueError(f"{key}={text}: must be a whole number of at least {at_least}")
    if int(text) > at_most:
        raise ValueError(f"{key}={text}: must be at most {at_most}")
    return int(text)
