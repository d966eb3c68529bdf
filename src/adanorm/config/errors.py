"""Any mistake in a configuration as one line that names the thing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from adanorm.config.paths import CONF


def one_line(error: Exception, choices: Sequence[str] = ()) -> str:
    """Return an error of Hydra, OmegaConf or our own as one line that names the thing.

    `choices`, such as task=rt, are of the configuration whose keys are suggested for one that it lacks.
    """
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return f"no configuration {error.missing_cfg_file}: choose from {', '.join(error.options or [])}"
    # Theirs wrap what was wrong; ours say it better than what they come of.
    cause = (isinstance(error, HydraException | OmegaConfBaseException) and error.__cause__) or error
    text = str(cause if str(cause) else error)
    unknown = re.search(r"Key '([^']+)' (?:is )?not in \S+\s+full_key: (\S+)", text)
    if unknown:
        return f"unknown key {unknown[2]!r}{_suggestion(unknown[2], choices)}"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.filename or 'a stream or file'}: {cause.strerror}"
    if several := re.search(r"Ambiguous value for argument '([^']*)'", text):
        return f"{several[1]}: several values, where one is taken; a text with a comma stands in quotes"
    return " ".join(text.split())


def mistake(error: Exception) -> str | None:
    """Return the line that tells the user of a mistake, a full disk or memory among them; None for a bug."""
    if is_out_of_memory(error):
        return f"out of memory: {' '.join(str(error).split())[:200]}"
    mistakes = (ValueError, HydraException, OmegaConfBaseException, OSError)
    return one_line(error) if isinstance(error, mistakes) else None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory was lacking, a GPU's or the machine's, for which torch has no exception."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


def _suggestion(key: str, choices: Sequence[str]) -> str:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("run", [*choices])
    known: list[str] = []

    def collect(prefix: str, node: object) -> None:
        if hasattr(node, "items"):
            for name, child in node.items():
                known.append(f"{prefix}{name}")
                collect(f"{prefix}{name}.", child)

    collect("", config)
    close = get_close_matches(key, [other for other in known if other != key], n=3)
    hint = f"did you mean {', '.join(close)}? " if close else ""
    return f": {hint}`adanorm run --cfg job` shows every key"
