"""Three kinds of BLEU, and chrF, each with sacrebleu's signature."""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

Lines = Sequence[str]

KINDS = {
    "bleu": "on the corpus's own words, as multi-bleu and fairseq-score count it",
    "sacrebleu": "on running text, sacrebleu's own words",
    "compound_bleu": "on words, compounds split at hyphens",
}


# sacrebleu's tokenizer of each language that its usual one, 13a, does not split into words, by the
# codes of ISO 639-1 and 639-3. Those of Japanese and Korean need packages of their own.
TOKENIZERS = {
    **dict.fromkeys(("zh", "zho", "cmn", "yue"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
    **dict.fromkeys(("th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bo", "bod"), "char"),
}
NEEDED = {"ja-mecab": "MeCab", "ko-mecab": "mecab_ko"}  # the module of each tokenizer
# The scripts of those languages, for text whose language is not named or has another code: kana,
# Han, Hangul, and the scripts of Thai, Lao, Tibetan, Burmese and Khmer.
SCRIPTS = {
    "ja": "[\u3040-\u30ff]",
    "zh": "[\u3400-\u4dbf\u4e00-\u9fff]",
    "ko": "[\uac00-\ud7a3]",
    "th": "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff]",
}


def own_tokenizer(language: str, text: Lines = ()) -> str:
    """Return sacrebleu's tokenizer of a language, `zh` or `zh-CN`, installed here or not.

    Where the language is none of those above, the script of most lines of text decides.
    """
    code = re.split("[-_]", language.lower())[0]
    if code in TOKENIZERS:
        return TOKENIZERS[code]
    for script, characters in SCRIPTS.items():
        lines = [line for line in text if re.search(characters, line)]
        if len(lines) > len(text) / 2:
            return TOKENIZERS[script]
    return "13a"


def tokenizer_of(language: str, text: Lines = ()) -> str:
    """Return sacrebleu's tokenizer of a language; `char` where the language's own is not here."""
    tokenizer = own_tokenizer(language, text)
    needed = NEEDED.get(tokenizer)
    is_here = needed is None or find_spec(needed) is not None
    return tokenizer if is_here else "char"


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
