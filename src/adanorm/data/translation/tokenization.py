"""From a corpus's lines to the subwords a model reads, and back."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext, redirect_stderr, suppress
from functools import cached_property
from typing import Any

from adanorm.config.data_sections import Parallel

SEPARATOR = "@@"
_JOINT = re.compile(r"(@@ )|(@@ ?$)")


class Words:
    """The words of one language, as the configuration wants them made from a line."""

    def __init__(self, language: str, data: Parallel) -> None:
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


class Subwords:
    """Byte pair encoding (Sennrich et al. 2016); without merges, words are left as they are."""

    def __init__(self, codes: str | None) -> None:
        self.codes = codes
        self._encode: Callable[[str], str] = str
        if codes is not None:
            from subword_nmt.apply_bpe import BPE

            self._encode = BPE(io.StringIO(codes), separator=SEPARATOR).process_line

    def split(self, words: str) -> str:
        """Return the subwords of words."""
        return self._encode(words)

    @staticmethod
    def join(subwords: str) -> str:
        """Return the words of subwords."""
        return _JOINT.sub("", subwords).strip()


def learn_subwords(words: Iterable[str], merges: int | None) -> Subwords:
    """Return the encoding that the words of a training corpus give; none without merges.

    Raises ValueError where they are too few.
    """
    if merges is None:
        return Subwords(None)
    from subword_nmt.learn_bpe import learn_bpe

    codes = io.StringIO()
    corpus = io.StringIO("".join(f"{line}\n" for line in words))
    # Its progress bar belongs on a terminal only.
    with (
        nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO()),
        suppress(ValueError),  # no word has two characters: the maximum of nothing
    ):
        learn_bpe(corpus, codes, merges)
    if codes.getvalue().count("\n") < 2:  # its version alone
        raise ValueError(
            "no two characters follow one another twice in the training text: too little to learn"
            " subwords from (data.bpe_merges=null takes words)"
        )
    return Subwords(codes.getvalue())
