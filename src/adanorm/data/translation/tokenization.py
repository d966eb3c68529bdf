"""From lines of a corpus to the subwords that a model reads, and back."""

import io
import re
import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stderr, suppress
from functools import cached_property
from typing import Any

from adanorm.config.data_sections import ParallelConfig

SEPARATOR, PIECE = "@@", "\u2581"  # a subword's end within a word; a word's start in sentencepiece
MOST_CACHED = 1 << 19  # words in the cache of subwords
_JOINT = re.compile(r"(@@ )|(@@ ?$)")


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
        return str(self._encoding.process_line(words))

    @staticmethod
    def join(subwords: str, cut: str | None = "bpe") -> str:
        """Return subwords joined to words as in fairseq, by the rule of what `cut` the words."""
        if cut == "sentencepiece":
            return "".join(subwords.split()).replace(PIECE, " ").strip()
        if cut == "bpe":
            return _JOINT.sub("", subwords).strip()
        return subwords.strip()


def what_cut(data: ParallelConfig) -> str | None:
    """Return what cut the words of a text, `bpe` or `sentencepiece`; None for whole words.

    No line tells: a word may contain the marks of subwords.
    """
    if data.bpe_merges is not None or data.source == "wmt16-en-de":
        return "bpe"
    return data.subwords


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
            (f"{word} {count}" for word, count in counts.items()), codes, merges, is_dict=True
        )
    if codes.getvalue().count("\n") < 2:  # only the line with its version
        raise ValueError(
            "no two characters follow one another twice in the training text: too little to learn"
            " subwords from (data.bpe_merges=null takes words)"
        )
    return codes.getvalue()
