"""Three kinds of BLEU, and chrF, each with sacrebleu's signature."""

import re
from collections.abc import Sequence
from typing import Any

from adanorm.data.translation.tokenization import tokenizer_of

Lines = Sequence[str]

KINDS = {
    "bleu": "on the corpus's own words, as multi-bleu and fairseq-score count it",
    "sacrebleu": "on running text, sacrebleu's own words",
    "compound_bleu": "on words, compounds split at hyphens",
}


def scorer(kind: str, *, lowercase: bool, language: str = "", references: Lines = ()) -> Any:
    """Return sacrebleu's metric object for a kind of BLEU of text in a language."""
    from sacrebleu.metrics.bleu import BLEU

    if kind == "sacrebleu":
        return BLEU(lowercase=lowercase, tokenize=tokenizer_of(language, references))
    return BLEU(lowercase=lowercase, tokenize="none", smooth_method="none", force=True)


def split_compounds(words: str) -> str:
    """Return words with each hyphen inside a word made a separate word (Vaswani et al. 2017)."""
    return re.sub(r"(?<=\S)-(?=\S)", " ##AT##-##AT## ", words)


def sides(
    kind: str, words: tuple[Lines, Lines], text: tuple[Lines, Lines]
) -> tuple[list[str], list[str]]:
    """Return outputs and references for a kind of BLEU, from those as words and as text."""
    convert = split_compounds if kind == "compound_bleu" else str
    outputs, references = text if kind == "sacrebleu" else words
    return [*map(convert, outputs)], [*map(convert, references)]


def bleu(
    kind: str, outputs: Lines, references: Lines, *, lowercase: bool, language: str = ""
) -> tuple[float, str]:
    """Return the corpus BLEU of outputs with one reference each, in percent, and its signature."""
    metric = scorer(kind, lowercase=lowercase, language=language, references=references)
    score: float = metric.corpus_score(list(outputs), [list(references)]).score
    split = (
        "|compounds:split at hyphens" if kind == "compound_bleu" else ""
    )  # not in sacrebleu's signature
    return score, f"{metric.get_signature()}{split}"


def chrf(outputs: Lines, references: Lines, *, lowercase: bool) -> tuple[float, str]:
    """Return chrF2 of running text (Popovic 2015), in percent, and sacrebleu's signature."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF(lowercase=lowercase)
    return metric.corpus_score(list(outputs), [list(references)]).score, str(metric.get_signature())


def length_ratio(outputs: Lines, references: Lines) -> float:
    """Return the number of words in the outputs divided by that in the references."""
    return sum(len(line.split()) for line in outputs) / sum(
        len(line.split()) for line in references
    )


def ngram_counts(
    kind: str, outputs: Lines, references: Lines, *, lowercase: bool, language: str = ""
) -> list[list[int]]:
    """Return per pair how many 1- to 4-grams are right, and both sides' lengths, (E, 6)."""
    metric = scorer(kind, lowercase=lowercase, language=language, references=references)
    # sacrebleu's rows are: both lengths, then right n-grams, then all n-grams.
    rows = metric._extract_corpus_statistics(list(outputs), [list(references)])
    return [[*row[2:6], *row[:2]] for row in rows]
