"""A dry run: a few updates of the whole model on made-up data in the shape of the real ones."""

from __future__ import annotations

from typing import Any

FULL_SIZE = "full-size"  # the `data.source` of such data
MOST_UPDATES = 2  # that these data have batches for, in every task
MOST_ACCUMULATED = 2  # batches an update: more of them cost time and find nothing more
MOST_VALID = 256  # images to validate on
LONGEST = 20  # subwords of a translation: an untrained model never ends one


def as_dry_run(values: dict[str, Any]) -> None:
    """Change a configuration's values in place into those of a dry run of `values["updates"]` updates.

    Model, batches and vocabularies keep their sizes. Raises ValueError for more updates than there are data.
    """
    updates, data, training = values["updates"], values["data"], values["training"]
    if isinstance(updates, int) and updates > MOST_UPDATES:
        raise ValueError(f"updates={updates}: a dry run has at most {MOST_UPDATES}")
    reader = data["reader"]
    if reader == "parallel":
        data["dictionary_size"] = data["dictionary_size"] or data["bpe_merges"]
        data |= {"bpe_merges": None, "valid_every": None, "clean": "words", "longest": 175, "ratio": 100}
        data |= dict.fromkeys(("tokenize", "normalize", "lowercase"), False)
        values["decoding"] |= {"max_ratio": 0.0, "max_extra": LONGEST}
    if reader in ("parallel", "text", "bytes", "trees"):
        data["source"] = FULL_SIZE
    elif reader != "gaussian":
        data["source"] = "synthetic"  # of images, which have their full size
        data["valid_size"] = min(data["valid_size"], MOST_VALID)
    training |= {
        "max_updates": updates,
        "evaluate_every": None,
        "accumulate": min(training["accumulate"], MOST_ACCUMULATED),
    }
