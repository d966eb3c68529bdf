"""BLEU against independent counts."""

import math
from collections import Counter

import numpy as np
import pytest
import sacrebleu
import torch
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from adanorm.data.translation.fairseq_library import fairseq
from adanorm.metrics.bleu import (
    bleu,
    chrf,
    length_ratio,
    ngram_counts,
    scorer,
    sides,
    split_compounds,
)
from adanorm.metrics.by_example import Counts, by_example, factors
from adanorm.metrics.by_example import score as score_of

random = np.random.default_rng(0)
WORDS = ["the", "a", "cat", "dog", "ice-cold", "sat", "on", ",", "mat", "."]
REFERENCES = [" ".join(random.choice(WORDS, random.integers(6, 15))) for _ in range(60)]


def _noisy(line: str) -> str:
    return " ".join(
        str(random.choice(WORDS)) if random.random() < 0.25 else word for word in line.split()
    )


OUTPUTS = [_noisy(line) for line in REFERENCES]


def multi_bleu(outputs: list[str], references: list[str]) -> float:
    """Return BLEU as Papineni et al. 2002 write it, on words as they are, without smoothing."""
    matches, counts, lengths = [0] * 4, [0] * 4, [0, 0]
    for output, reference in zip(outputs, references, strict=True):
        here, there = output.split(), reference.split()
        lengths[0] += len(here)
        lengths[1] += len(there)
        for n in range(4):
            grams = [
                Counter(tuple(w[i : i + n + 1]) for i in range(len(w) - n)) for w in (here, there)
            ]
            matches[n] += sum((grams[0] & grams[1]).values())
            counts[n] += sum(grams[0].values())
    precision = sum(math.log(m / c) for m, c in zip(matches, counts, strict=True)) / 4
    return 100 * math.exp(min(0.0, 1 - lengths[1] / lengths[0]) + precision)


def fairseq_score(outputs: list[str], references: list[str]) -> float:
    """Return the score of fairseq's own scorer, as fairseq-score runs it."""
    module, words = fairseq().scoring.bleu, fairseq().data.Dictionary()
    scorer = module.Scorer(module.BleuConfig(pad=words.pad(), eos=words.eos(), unk=words.unk()))
    for pair in zip(references, outputs, strict=True):
        scorer.add(
            *(words.encode_line(line, add_if_not_exist=True).to(torch.int32) for line in pair)
        )
    return scorer.score()


@pytest.mark.needs("fairseq")
def test_the_papers_bleu_is_that_of_multi_bleu_and_of_fairseq() -> None:
    score, signature = bleu("bleu", OUTPUTS, REFERENCES, lowercase=True)
    assert score == pytest.approx(multi_bleu(OUTPUTS, REFERENCES), abs=0.01)
    assert score == pytest.approx(fairseq_score(OUTPUTS, REFERENCES), abs=0.01)
    assert "tok:none" in signature


def counted(kind: str, outputs: list[str], references: list[str]) -> Counts:
    return np.array(ngram_counts(kind, outputs, references, lowercase=False), float)


def test_bleu_is_the_precision_times_the_brevity_penalty() -> None:
    short = [" ".join(line.split()[:-2]) for line in OUTPUTS]
    lengths = [sum(len(line.split()) for line in side) for side in (short, REFERENCES)]
    parts = factors("bleu", counted("bleu", short, REFERENCES))
    assert parts["brevity penalty"] == pytest.approx(math.exp(1 - lengths[1] / lengths[0]))
    assert parts["precision"] * parts["brevity penalty"] == pytest.approx(
        multi_bleu(short, REFERENCES)
    )
    assert factors("bleu", counted("bleu", REFERENCES, short))["brevity penalty"] == 1, (
        "longer ones"
    )
    assert factors("bleu", counted("bleu", [""], ["a b"])) == {"precision": 0, "brevity penalty": 0}


@pytest.mark.parametrize("kind", ["bleu", "sacrebleu"])
@pytest.mark.parametrize(
    ("outputs", "references"),
    [
        (OUTPUTS, REFERENCES),
        (["a b c d"], ["a b x y"]),
        (["a b"], ["a b c d e f"]),
        (["x y z w v"], ["a b c d e"]),
        (["a x b y c"], ["a b c d e"]),
        (["", "a b c d e"], ["a", "a b c d f"]),
        (["a b x y", "a x b y"], ["a b c d", "a b c d"]),
    ],
)
def test_bleu_from_counts_is_sacrebleus_score_of_the_texts(
    kind: str, outputs: list[str], references: list[str]
) -> None:
    whole, counts = (
        bleu(kind, outputs, references, lowercase=False)[0],
        counted(kind, outputs, references),
    )
    assert score_of(kind, counts) == pytest.approx(whole)
    assert np.prod([*factors(kind, counts).values()]) == pytest.approx(whole)
    if len(outputs) == 2:
        rest = [
            bleu(kind, outputs[i : i + 1], references[i : i + 1], lowercase=False)[0]
            for i in (1, 0)
        ]
        assert by_example(kind, counts) == pytest.approx(2 * whole - np.array(rest))


def test_an_examples_part_of_uas_is_its_right_heads_among_all_words() -> None:
    counts = np.array([[3.0, 4.0], [1.0, 2.0], [2.0, 2.0]])
    assert by_example("uas", counts) == pytest.approx(3 * 100 * np.array([3, 1, 2]) / 8)
    assert (score_of("uas", counts), factors("uas", counts)) == (75, {})


def test_bleu_of_running_text_is_sacrebleus() -> None:
    both = (OUTPUTS, REFERENCES)
    text, references = (
        [line.replace(" ,", ",").replace(" .", ".") for line in side] for side in both
    )
    text[::2] = [line.title() for line in text[::2]]
    for lowercase, case in ((False, "mixed"), (True, "lc")):
        score, signature = bleu("sacrebleu", text, references, lowercase=lowercase)
        theirs = sacrebleu.corpus_bleu(text, [references], lowercase=lowercase).score
        assert score == pytest.approx(theirs, abs=0.01)
        assert f"case:{case}" in signature
        assert "tok:13a" in signature
        rows = np.array(ngram_counts("sacrebleu", text, references, lowercase=lowercase), float)
        assert score_of("sacrebleu", rows) == pytest.approx(theirs)
        characters, signature = chrf(text, references, lowercase=lowercase)
        assert characters == CHRF(lowercase=lowercase).corpus_score(text, [references]).score
        assert f"case:{case}" in signature
    assert length_ratio(["a b c", "d"], ["a b", "c d e"]) == 4 / 5


def test_compound_splitting_counts_the_parts() -> None:
    parts = "ice ##AT##-##AT## cold - well ##AT##-##AT## to ##AT##-##AT## do"
    assert split_compounds("ice-cold - well-to-do") == parts
    both = sides("compound_bleu", (OUTPUTS, REFERENCES), ([], []))
    score, signature = bleu("compound_bleu", *both, lowercase=False)
    assert "compounds" in signature
    assert "compounds" not in bleu("bleu", OUTPUTS, REFERENCES, lowercase=False)[1]
    split = ([split_compounds(line) for line in side] for side in (OUTPUTS, REFERENCES))
    assert score == pytest.approx(multi_bleu(*split), abs=0.01)
    assert score != pytest.approx(multi_bleu(OUTPUTS, REFERENCES), abs=0.01)
    words, text = (["it 's x-y ."], ["it is x-y ."]), (["it's x-y."], ["it is x-y."])
    assert sides("bleu", words, text) == words
    assert sides("sacrebleu", words, text) == text
    assert sides("compound_bleu", words, text)[0] != words[0], "each kind counts its own side"


def test_bleu_is_zero_without_a_match_of_four_words_as_in_multi_bleu() -> None:
    # Matches of one to three words and none of four: any smoothing makes that more than zero.
    assert bleu("bleu", ["a b c x d e"], ["a b c y d e"], lowercase=False)[0] == 0
    assert bleu("sacrebleu", ["a b c x d e"], ["a b c y d e"], lowercase=False)[0] > 10


def test_the_jackknife_agrees_with_sacrebleus_paired_bootstrap() -> None:
    alike = [_noisy(line) for line in REFERENCES]
    both, bleus = {"first": OUTPUTS, "alike": alike}, {"BLEU": scorer("bleu", lowercase=False)}
    scores = {
        name: by_example("bleu", counted("bleu", side, REFERENCES)) for name, side in both.items()
    }
    test = PairedTest([*both.items()], bleus, [REFERENCES], test_type="bs", n_samples=1000)
    for name, result in zip(scores, test()[1]["BLEU"], strict=True):
        assert isinstance(result, Result)
        assert np.mean(scores[name]) == pytest.approx(result.score, abs=0.6), "less its bias"
        half = 1.96 * np.std(scores[name], ddof=1) / len(REFERENCES) ** 0.5
        assert half == pytest.approx(result.ci, rel=0.25)
    count, (whole, _) = len(OUTPUTS), bleu("bleu", OUTPUTS, REFERENCES, lowercase=False)
    without, _ = bleu("bleu", OUTPUTS[1:], REFERENCES[1:], lowercase=False)
    assert scores["first"][0] == pytest.approx(count * whole - (count - 1) * without)
