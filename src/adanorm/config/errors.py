"""Any mistake as one line that names the thing."""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches

from pydantic import ValidationError


def one_line(error: Exception, known: Iterable[str] = ()) -> str:
    """Return any error as one line that names the thing and suggests those of the `known` keys like it."""
    if missing := getattr(error, "missing_cfg_file", None):
        options = ", ".join(getattr(error, "options", None) or [])
        return f"no configuration {missing}" + (options and f": choose from {options}")
    # Hydra's errors wrap what was wrong; ours say it better than the errors that caused them.
    cause = (is_of_hydra(error) and error.__cause__) or error
    text = str(cause if str(cause) else error)
    if unknown := re.search(r"Key '([^']+)' (?:is )?not in \S+\s+full_key: (\S+)", text):
        close = get_close_matches(key := unknown[2], [other for other in known if other != key], n=3)
        hint = f"did you mean {', '.join(close)}? " if close else ""
        return f"unknown key {key!r}: {hint}`adanorm run --cfg job` shows every key"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.filename or 'a stream or file'}: {cause.strerror}"
    if several := re.search(r"Ambiguous value for argument '([^']*)'", text):
        return f"{several[1]} takes one value: `adanorm run -m` runs several; quote a text with a comma"
    return " ".join(text.split())


def check_known(kind: str, names: Iterable[str], known: Collection[str], hint: str = "") -> None:
    """Raise ValueError, with the choices and a hint, for the first of the names that is not known."""
    if unknown := [name for name in names if name not in known]:
        like = alike(unknown[0], known)
        raise ValueError(f"unknown {kind} {unknown[0]!r}: choose from {', '.join(known)}{hint}{like}")


def alike(name: str, known: Iterable[str]) -> str:
    """Return the end of a line on an unknown name that asks whether the known one most like it was meant."""
    spellings = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), spellings, n=1)
    return f"; did you mean {spellings[close[0]]}?" if close else ""


def mistake(error: Exception) -> str | None:
    """Return the line that tells the user of a mistake, a full disk or memory among them; None for a bug."""
    if is_out_of_memory(error):
        return f"out of memory: {' '.join(str(error).split())[:200]}"
    return one_line(error) if isinstance(error, ValueError | OSError) or is_of_hydra(error) else None


def is_of_hydra(error: BaseException) -> bool:
    """Return whether an error is Hydra's or OmegaConf's; neither is imported here."""
    return any(kind.__module__.partition(".")[0] in ("hydra", "omegaconf") for kind in type(error).__mro__)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory was lacking; torch has an exception for it only where its own cache asked."""
    said = re.search(r"can't allocate memory|out of memory|STATUS_ALLOC_FAILED", str(error))
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and said is not None)


def first_problem(error: ValidationError) -> str:
    """Return the first of pydantic's complaints as one line that names the key and its value."""
    problem, *others = error.errors()
    if problem["type"] == "missing" and len(problem["loc"]) == 1:  # an unknown key may be what was meant
        unknown = (one for one in others if one["type"] == "extra_forbidden" and len(one["loc"]) == 1)
        problem = next(unknown, problem)
    parts = [str(part) for part in problem["loc"]]
    if parts[:1] in (["data"], ["model"]):
        del parts[1:2]  # the class of a union that was tried: the key has no such part
    key = ".".join(parts)
    if problem["type"] == "union_tag_invalid":
        told = problem["ctx"]
        name = told["discriminator"].strip("'")
        return f"{key}.{name}={told['tag']}: choose from {told['expected_tags']}".replace("'", "")
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return f"{key}: {message}" if key else message
    if problem["type"] == "missing":
        return f"{key}: is missing"
    tried = [other for other in error.errors() if len(parts) > 1 and other["loc"][:-1] == problem["loc"][:-1]]
    if tried and parts[-1] in ("bool", "int", "float", "str"):  # the types of a union
        kinds = dict.fromkeys(other["msg"].removeprefix("Input should be ") for other in tried)
        return f"{'.'.join(parts[:-1])}={problem['input']!r}: input should be {' or '.join(kinds)}"
    return f"{key}={problem['input']!r}: {message[0].lower()}{message[1:]}"
