"""From lines of a corpus to the subwords that a model reads, and back."""

import io
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext, redirect_stderr, suppress
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np

from adanorm.config.data_sections import ParallelConfig

SEPARATOR, PIECE = "@@", "\u2581"  # a subword's end within a word; a word's start in sentencepiece
MOST_CACHED = 1 << 19  # words in the cache of subwords
SHARE_OF_MARKS = 0.02  # of a dictionary; so many of its words may look like subwords by chance
SHARE_OF_ENDS = 0.01  # of lines; so many may end in a word that looks like a part of a word
SHARE_OF_STARTS = 0.1  # of words after a line's first; of letters, about 0.15 start a word
_JOINT = re.compile(r"(@@ )|(@@ ?$)")
# Within words of the text a private-use character parts the separator: `join` knows it from ours.
# If the text has this character there, it gets another one, which `join` takes out.
_PARTING = "\ue001"
_UNPARTED = re.compile(f"@(?={_PARTING}*@)")
_PARTED = re.compile(f"@{_PARTING}(?={_PARTING}*@)")


class Tokenizer:
    """Splits lines of one language into words, and joins them, as configured."""

    def __init__(self, language: str, data: ParallelConfig) -> None:
        self.language, self._data = language, data

    @cached_property
    def _moses(self) -> list[Any]:  # normalizer, tokenizer, detokenizer
        import sacremoses

        kinds = (
            sacremoses.MosesPunctNormalizer,
            sacremoses.MosesTokenizer,
            sacremoses.MosesDetokenizer,
        )
        return [kind(self.language) for kind in kinds]

    def split(self, line: str) -> str:
        """Return a line's words, separated by spaces."""
        if self._data.normalize:
            line = self._moses[0].normalize(line)
        if self._data.tokenize:
            line = str(self._moses[1].tokenize(line, return_str=True))
        else:
            line = " ".join(line.split())
        return line.lower() if self._data.lowercase else line

    def join(self, words: str) -> str:
        """Return words as running text, joined by the Moses detokenizer."""
        return str(self._moses[2].detokenize(words.split()))


class Bpe:
    """Byte pair encoding (Sennrich et al. 2016); without `codes`, words stay whole."""

    def __init__(self, codes: str | None) -> None:
        self.codes = codes
        self._encoding: Any = None
        if codes is not None:
            from subword_nmt.apply_bpe import BPE

            self._encoding = BPE(io.StringIO(codes), separator=SEPARATOR)

    def split(self, words: str) -> str:
        """Return words as subwords, separated by spaces."""
        if self._encoding is None:
            return words
        if len(self._encoding.cache) > MOST_CACHED:  # every new word is added to it
            self._encoding.cache.clear()
        return str(self._encoding.process_line(_parted(words)))

    @staticmethod
    def join(subwords: str, cut: str | None = "bpe") -> str:
        """Return subwords joined to words as in fairseq, by the rule of what `cut` the words."""
        if cut == "sentencepiece":
            return "".join(subwords.split()).replace(PIECE, " ").strip()
        if cut == "bpe":
            return _PARTED.sub("@", _JOINT.sub("", subwords)).strip()
        return subwords.strip()


def _parted(words: str) -> str:
    """Return words without the separator of subwords."""
    return _UNPARTED.sub(f"@{_PARTING}", words)


def what_cut(data: ParallelConfig) -> str | None:
    """Return what cut the words of a text, `bpe` or `sentencepiece`; None for whole words.

    No line tells: a word may contain the marks of subwords.
    """
    is_cut_archive = data.source == "wmt16-en-de" and not data.train
    if data.bpe_merges is not None or is_cut_archive:
        return "bpe"
    return data.subwords


def apparent_marks(words: Collection[str]) -> str | None:
    """Return the kind of subwords whose marks a noticeable share of distinct words have."""
    marked = {
        "sentencepiece": sum(word.startswith(PIECE) for word in words),
        "bpe": sum(word.endswith(SEPARATOR) for word in words),
    }
    for kind, count in marked.items():
        if count and count >= SHARE_OF_MARKS * len(words):
            return kind
    return None


def apparent_cut(symbols: Sequence[str], counts: Any, last: Any) -> str | None:
    """Return what seems to have cut a text into the symbols (V) of its dictionary.

    `counts` (V,) says how often each occurs, `last` (lines,) which one ends each line. All is
    judged by shares: a few lines may hold anything.
    """
    lines = len(last)
    is_start = np.array([symbol.rfind(PIECE) == 0 for symbol in symbols])
    is_piece = is_start & np.array([symbol != PIECE for symbol in symbols])
    starts = counts[is_start].sum()
    has_pieces = is_piece.mean() >= SHARE_OF_MARKS and starts > lines / 2
    # Marks that stand alone, as letters have them; a line's first may be a bullet.
    has_starts = starts - lines > SHARE_OF_STARTS * (counts.sum() - lines)
    if has_pieces or has_starts:
        return "sentencepiece"
    is_within = np.array([symbol.endswith(SEPARATOR) for symbol in symbols])
    is_whole = is_within[last].sum() <= SHARE_OF_ENDS * lines
    return "bpe" if is_whole and is_within.mean() >= SHARE_OF_MARKS else None


def learn_bpe(counts: Mapping[str, int], merges: int) -> str:
    """Return the merges learned from word counts, in order.

    Raises ValueError for too little text.
    """
    from subword_nmt.learn_bpe import learn_bpe

    codes = io.StringIO()
    with (
        nullcontext()
        if sys.stderr.isatty()
        else redirect_stderr(io.StringIO()),  # no progress bar in logs
        suppress(ValueError),  # raised where no word has two characters
    ):
        learn_bpe(
            (f"{_parted(word)} {count}" for word, count in counts.items()),
            codes,
            merges,
            is_dict=True,
        )
    if codes.getvalue().count("\n") < 2:  # only the line with its version
        raise ValueError(
            "no two characters follow one another twice in the training text: too little to learn"
            " subwords from (data.bpe_merges=null takes words)"
        )
    return codes.getvalue()


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


def own_tokenizer(language: str, text: Sequence[str] = ()) -> str:
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


def tokenizer_of(language: str, text: Sequence[str] = ()) -> str:
    """Return sacrebleu's tokenizer of a language; `char` where the language's own is not here."""
    tokenizer = own_tokenizer(language, text)
    needed = NEEDED.get(tokenizer)
    is_here = needed is None or find_spec(needed) is not None
    return tokenizer if is_here else "char"
