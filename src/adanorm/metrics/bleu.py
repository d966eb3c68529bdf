"""BLEU, counted three ways, each with sacrebleu's signature."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_HYPHEN = re.compile(r"(?<=\S)-(?=\S)")

KINDS = {
    "bleu": "on the corpus's own words, as multi-bleu and fairseq-score count it",
    "sacrebleu": "on running text, sacrebleu's own words",
    "compound_bleu": "on words, compounds split at hyphens",
}


def scorer(kind: str, *, lowercase: bool) -> Any:
    """Return sacrebleu's metric for a kind of BLEU."""
    from sacrebleu.metrics.bleu import BLEU

    if kind == "sacrebleu":
        return BLEU(lowercase=lowercase)
    return BLEU(tokenize="none", smooth_method="none", force=True)


def split_compounds(words: str) -> str:
    """Return words with every hyphen inside one as a word of its own (Vaswani et al. 2017)."""
    return _HYPHEN.sub(" ##AT##-##AT## ", words)


def sides(
    kind: str, words: tuple[Sequence[str], Sequence[str]], text: tuple[Sequence[str], Sequence[str]]
) -> tuple[list[str], list[str]]:
    """Return the outputs and references, given as words and as text, that a kind of BLEU compares."""
    if kind == "sacrebleu":
        return list(text[0]), list(text[1])
    if kind == "compound_bleu":
        return [split_compounds(line) for line in words[0]], [split_compounds(line) for line in words[1]]
    return list(words[0]), list(words[1])


def bleu(
    kind: str, outputs: Sequence[str], references: Sequence[str], *, lowercase: bool
) -> tuple[float, str]:
    """Return the corpus BLEU of outputs against one reference each, in percent, and its signature."""
    metric = scorer(kind, lowercase=lowercase)
    score: float = metric.corpus_score(list(outputs), [list(references)]).score
    split = "|compounds:split at hyphens" if kind == "compound_bleu" else ""  # before sacrebleu counts
    return score, f"{metric.get_signature()}{split}"


def paired_bootstrap(
    kind: str,
    systems: Mapping[str, list[str]],
    references: list[str],
    *,
    samples: int,
    lowercase: bool,
) -> list[str]:
    """Return a line a system: its score, 95 % interval and p against the first (Koehn 2004)."""
    from sacrebleu.significance import PairedTest, Result

    test = PairedTest(
        list(systems.items()),
        {"BLEU": scorer(kind, lowercase=lowercase)},
        [references],
        test_type="bs",
        n_samples=samples,
    )
    signatures, table = test()
    lines = []
    for index, name in enumerate(table["System"]):
        result = table["BLEU"][index]
        assert isinstance(result, Result)
        p = "" if result.p_value is None else f"  p = {result.p_value:.4f}"
        lines.append(f"  {name:<18} {result.score:6.2f}  [{result.mean:.2f} ± {result.ci:.2f}]{p}")
    return [*lines, f"  signature {signatures['BLEU']}"]
