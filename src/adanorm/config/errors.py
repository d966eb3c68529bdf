"""Turns any error into one line that names the setting, name or file at fault."""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches

from pydantic import ValidationError


def one_line(error: Exception, keys: Iterable[str] = ()) -> str:
    """Return an error as one line that names what is at fault, with `keys` similar to an unknown key."""
    if missing := getattr(error, "missing_cfg_file", None):
        options = ", ".join(getattr(error, "options", None) or [])
        return f"no configuration {missing}" + (options and f": choose from {options}")
    # The cause of a Hydra error says what was wrong; our own errors are clearer than their causes.
    cause = (is_of_hydra(error) and error.__cause__) or error
    text = str(cause if str(cause) else error)
    if unknown := re.search(r"Key '([^']+)' (?:is )?not in \S+\s+full_key: (\S+)", text):
        similar = get_close_matches(
            key := unknown[2], [other for other in keys if other != key], n=3
        )
        hint = f"did you mean {', '.join(similar)}? " if similar else ""
        return f"unknown key {key!r}: {hint}`adanorm run --cfg job` shows every key"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.filename or 'a stream or file'}: {cause.strerror}"
    if ambiguous := re.search(r"Ambiguous value for argument '([^']*)'", text):
        return f"{ambiguous[1]} takes one value: `adanorm run -m` runs several; quote a text with a comma"
    return " ".join(text.split())


def check_known(kind: str, names: Iterable[str], choices: Collection[str], hint: str = "") -> None:
    """Raise ValueError, with the choices and a hint, for the first name that is not among them."""
    if unknown := [name for name in names if name not in choices]:
        hint += suggestion(unknown[0], choices)
        raise ValueError(f"unknown {kind} {unknown[0]!r}: choose from {', '.join(choices)}{hint}")


def suggestion(name: str, choices: Iterable[str]) -> str:
    """Return '; did you mean NAME?' with the choice most similar to `name`, or '' if none is close."""
    spellings = {other.lower(): other for other in choices}
    similar = get_close_matches(name.lower(), spellings, n=1)
    return f"; did you mean {spellings[similar[0]]}?" if similar else ""


def mistake(error: Exception) -> str | None:
    """Return one line on a mistake, full disk or lack of memory, which the user can mend; None for a bug."""
    if is_out_of_memory(error):
        return f"out of memory: {' '.join(str(error).split())[:200]}"
    return (
        one_line(error) if isinstance(error, ValueError | OSError) or is_of_hydra(error) else None
    )


def is_of_hydra(error: BaseException) -> bool:
    """Return whether an error is Hydra's or OmegaConf's, without importing either."""
    return any(
        kind.__module__.partition(".")[0] in ("hydra", "omegaconf") for kind in type(error).__mro__
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out; torch has an exception of its own only for its caching allocator."""
    message = re.search(r"can't allocate memory|out of memory|STATUS_ALLOC_FAILED", str(error))
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and message is not None
    )


def first_problem(error: ValidationError) -> str:
    """Return pydantic's first error as one line that names the key and its value."""
    problem, *others = error.errors()
    if (
        problem["type"] == "missing" and len(problem["loc"]) == 1
    ):  # an unknown key may be this one misspelled
        unknown = (
            one for one in others if one["type"] == "extra_forbidden" and len(one["loc"]) == 1
        )
        problem = next(unknown, problem)
    parts = [str(part) for part in problem["loc"]]
    if parts[:1] in (["data"], ["model"]):
        del parts[1:2]  # pydantic adds the tag of the union: the value of data.reader or model.name
    key = ".".join(parts)
    if problem["type"] == "union_tag_invalid":
        choice = "{discriminator}={tag}: choose from {expected_tags}".format_map(problem["ctx"])
        return f"{key}.{choice}".replace("'", "")
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return f"{key}: {message}" if key else message
    if problem["type"] == "missing":
        return f"{key}: is missing"
    tries = [
        other
        for other in error.errors()
        if len(parts) > 1 and other["loc"][:-1] == problem["loc"][:-1]
    ]
    if tries and parts[-1] in ("bool", "int", "float", "str"):  # each type of a union was tried
        kinds = dict.fromkeys(other["msg"].removeprefix("Input should be ") for other in tries)
        return f"{'.'.join(parts[:-1])}={problem['input']!r}: input should be {' or '.join(kinds)}"
    return f"{key}={problem['input']!r}: {message[0].lower()}{message[1:]}"
