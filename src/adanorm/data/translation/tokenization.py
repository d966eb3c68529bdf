"""From a corpus's lines to the subwords a model reads, and back."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stderr, suppress
from functools import cached_property
from typing import Any

from adanorm.config.data_sections import ParallelConfig

SEPARATOR = "@@"
SECONDS = 30.0  # between two lines of progress in a log
MOST_CACHED = 1 << 19  # words whose subwords are remembered
Say = Callable[[str], None]
_JOINT = re.compile(r"(@@ )|(@@ ?$)")


class Tokenizer:
    """The words of one language, as the configuration wants them made from a line."""

    def __init__(self, language: str, data: ParallelConfig) -> None:
        self.language = language
        self._data = data

    @cached_property
    def _steps(self) -> list[Callable[[str], str]]:
        import sacremoses

        steps: list[Callable[[str], str]] = []
        if self._data.normalize:
            steps.append(sacremoses.MosesPunctNormalizer(self.language).normalize)
        if self._data.tokenize:
            tokenizer = sacremoses.MosesTokenizer(self.language)
            steps.append(lambda line: str(tokenizer.tokenize(line, return_str=True)))
        else:
            steps.append(lambda line: " ".join(line.split()))
        if self._data.lowercase:
            steps.append(str.lower)
        return steps

    @cached_property
    def _detokenizer(self) -> Any:
        import sacremoses

        return sacremoses.MosesDetokenizer(self.language)

    def split(self, line: str) -> str:
        """Return a line's words, separated by spaces."""
        for step in self._steps:
            line = step(line)
        return line

    def join(self, words: str) -> str:
        """Return words as running text: the Moses detokenizer's."""
        return str(self._detokenizer.detokenize(words.split()))


class Bpe:
    """Byte pair encoding (Sennrich et al. 2016); without merges, words are left as they are."""

    def __init__(self, codes: str | None) -> None:
        self.codes = codes
        self._encoding: Any = None
        if codes is not None:
            from subword_nmt.apply_bpe import BPE

            self._encoding = BPE(io.StringIO(codes), separator=SEPARATOR)

    def split(self, words: str) -> str:
        """Return the subwords of words."""
        if self._encoding is None:
            return words
        if len(self._encoding.cache) > MOST_CACHED:  # it grows by every new word
            self._encoding.cache.clear()
        return str(self._encoding.process_line(words))

    @staticmethod
    def join(subwords: str) -> str:
        """Return the words of subwords."""
        return _JOINT.sub("", subwords).strip()


def learn_bpe(counts: Mapping[str, int], merges: int, say: Say = print) -> str:
    """Return the merges that the words of a training corpus give, in the order of their appearance.

    `say` gets a line of progress now and then. Raises ValueError where they are too few.
    """
    from subword_nmt.learn_bpe import learn_bpe

    codes = io.StringIO()
    with (
        nullcontext()
        if sys.stderr.isatty()
        else redirect_stderr(NowAndThen(lambda line: say(f"merges: {line}"))),
        suppress(ValueError),  # no word has two characters: the maximum of nothing
    ):
        learn_bpe((f"{word} {count}" for word, count in counts.items()), codes, merges, is_dict=True)
    if codes.getvalue().count("\n") < 2:  # its version alone
        raise ValueError(
            "no two characters follow one another twice in the training text: too little to learn"
            " subwords from (data.bpe_merges=null takes words)"
        )
    return codes.getvalue()


class NowAndThen(io.StringIO):
    """A stream that says the last of what is written to it, a progress bar, twice a minute."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say, self._latest = say, time.monotonic()

    def write(self, text: str) -> int:
        """Say the text if the last one is long ago; return its length."""
        if text.strip() and time.monotonic() - self._latest >= SECONDS:
            self._latest = time.monotonic()
            self._say(text.strip())
        return len(text)
