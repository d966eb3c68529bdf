"""BLEU against independent counts."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import sacrebleu
import torch
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from adanorm.data.translation.fairseq_library import fairseq
from adanorm.data.translation.tokenization import own_tokenizer
from adanorm.records.by_example import Counts, by_example, factors
from adanorm.records.by_example import score as score_of
from adanorm.tasks.bleu import (
    bleu,
    chrf,
    length_ratio,
    ngram_counts,
    scorer,
    sides,
    split_compounds,
)

random = np.random.default_rng(0)
WORDS = ["the", "a", "cat", "dog", "ice-cold", "sat", "on", ",", "mat", "."]
REFERENCES = [" ".join(random.choice(WORDS, random.integers(6, 15))) for _ in range(60)]


def _noisy(line: str) -> str:
    words = line.split()
    for index in range(len(words)):
        if random.random() < 0.25:
            words[index] = str(random.choice(WORDS))
    return " ".join(words)


OUTPUTS = [_noisy(line) for line in REFERENCES]


def multi_bleu(outputs: list[str], references: list[str]) -> float:
    """Return BLEU as Papineni et al. 2002 write it, on words as they are, without smoothing."""
    log_precision = 0.0
    for size in range(1, 5):
        matches = count = 0
        for output, reference in zip(outputs, references, strict=True):
            grams = ngrams(output.split(), size)
            matches += (grams & ngrams(reference.split(), size)).total()
            count += grams.total()
        log_precision += math.log(matches / count) / 4
    brevity = min(0.0, 1 - word_count(references) / word_count(outputs))
    return 100 * math.exp(brevity + log_precision)


def ngrams(words: list[str], size: int) -> Counter[str]:
    starts = range(len(words) - size + 1)
    return Counter(" ".join(words[start : start + size]) for start in starts)


def word_count(lines: list[str]) -> int:
    return sum(len(line.split()) for line in lines)


def fairseq_score(outputs: list[str], references: list[str]) -> float:
    """Return the score of fairseq's own scorer, as fairseq-score runs it."""
    module, words = fairseq().scoring.bleu, fairseq().data.Dictionary()
    config = module.BleuConfig(pad=words.pad(), eos=words.eos(), unk=words.unk())
    scorer = module.Scorer(config)
    for reference, output in zip(references, outputs, strict=True):
        ids = words.encode_line(reference, add_if_not_exist=True)
        output_ids = words.encode_line(output, add_if_not_exist=True)
        scorer.add(ids.to(torch.int32), output_ids.to(torch.int32))
    return scorer.score()


@pytest.mark.needs("fairseq")
def test_the_papers_bleu_is_that_of_multi_bleu_and_of_fairseq() -> None:
    score, signature = bleu(
        "bleu",
        OUTPUTS,
        REFERENCES,
        lowercase=True,
    )
    assert score == pytest.approx(multi_bleu(OUTPUTS, REFERENCES), abs=0.01)
    assert score == pytest.approx(fairseq_score(OUTPUTS, REFERENCES), abs=0.01)
    assert "tok:none" in signature


def counted(kind: str, outputs: list[str], references: list[str]) -> Counts:
    return np.array(
        ngram_counts(
            kind,
            outputs,
            references,
            lowercase=False,
        ),
        float,
    )


def test_bleu_is_the_precision_times_the_brevity_penalty() -> None:
    short = [line.rsplit(" ", 2)[0] for line in OUTPUTS]
    parts = factors("bleu", counted("bleu", short, REFERENCES))
    penalty = math.exp(1 - word_count(REFERENCES) / word_count(short))
    assert parts["brevity penalty"] == pytest.approx(penalty)
    assert parts["precision"] * penalty == pytest.approx(multi_bleu(short, REFERENCES))
    longer = factors("bleu", counted("bleu", REFERENCES, short))
    assert longer["brevity penalty"] == 1
    empty = factors("bleu", counted("bleu", [""], ["a b"]))
    assert empty == {"precision": 0, "brevity penalty": 0}


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
    whole, _ = bleu(
        kind,
        outputs,
        references,
        lowercase=False,
    )
    counts = counted(kind, outputs, references)
    assert score_of(kind, counts) == pytest.approx(whole)
    assert np.prod([*factors(kind, counts).values()]) == pytest.approx(whole)
    if len(outputs) == 2:
        first, _ = bleu(
            kind,
            outputs[:1],
            references[:1],
            lowercase=False,
        )
        second, _ = bleu(
            kind,
            outputs[1:],
            references[1:],
            lowercase=False,
        )
        expected = [2 * whole - second, 2 * whole - first]
        assert by_example(kind, counts) == pytest.approx(expected)


def test_an_examples_part_of_uas_is_its_right_heads_among_all_words() -> None:
    counts = np.array([[3.0, 4.0], [1.0, 2.0], [2.0, 2.0]])
    assert by_example("uas", counts) == pytest.approx(3 * 100 * np.array([3, 1, 2]) / 8)
    assert (score_of("uas", counts), factors("uas", counts)) == (75, {})


def running(line: str) -> str:
    return line.replace(" ,", ",").replace(" .", ".")


def test_bleu_of_running_text_is_sacrebleus() -> None:
    text = [running(line) for line in OUTPUTS]
    references = [running(line) for line in REFERENCES]
    text[::2] = [line.title() for line in text[::2]]
    for lowercase, case in ((False, "mixed"), (True, "lc")):
        score, signature = bleu(
            "sacrebleu",
            text,
            references,
            lowercase=lowercase,
        )
        theirs = sacrebleu.corpus_bleu(text, [references], lowercase=lowercase).score
        assert score == pytest.approx(theirs, abs=0.01)
        assert f"case:{case}" in signature
        assert "tok:13a" in signature
        rows = np.array(
            ngram_counts(
                "sacrebleu",
                text,
                references,
                lowercase=lowercase,
            ),
            float,
        )
        assert score_of("sacrebleu", rows) == pytest.approx(theirs)
        characters, signature = chrf(text, references, lowercase=lowercase)
        assert characters == CHRF(lowercase=lowercase).corpus_score(text, [references]).score
        assert f"case:{case}" in signature
    assert length_ratio(["a b c", "d"], ["a b", "c d e"]) == 4 / 5


@pytest.mark.parametrize(
    ("text", "tokenizer"),
    [
        ("私は赤い本を二冊読んだ。", "ja-mecab"),
        ("我们今天去公园看花。", "zh"),
        ("우리는 오늘 공원에 간다.", "ko-mecab"),
        ("วันนี้เราไปสวนสาธารณะ", "char"),
        ("ມື້ນີ້ພວກເຮົາໄປສວນ", "char"),
        ("ယနေ့ ပန်းခြံသို့", "char"),
        ("ថ្ងៃនេះយើងទៅសួន", "char"),
        ("Heute gehen wir in den Park.", "13a"),
        ("Сегодня мы идём в парк.", "13a"),
    ],
)
def test_text_in_a_language_without_a_known_code_is_counted_by_its_script(
    text: str, tokenizer: str
) -> None:
    assert own_tokenizer("", [text]) == tokenizer
    assert own_tokenizer("tlh", [text, text, "Latin"]) == tokenizer
    assert own_tokenizer("en", [text, "Latin", "Latin"]) == "13a"
    assert own_tokenizer("zh", [text]) == "zh"


@pytest.mark.parametrize(
    ("language", "tokenizers"),
    [
        ("zh", ("zh",)),
        ("zh-TW", ("zh",)),
        ("yue", ("zh",)),
        ("ja", ("ja-mecab", "char")),
        ("ko_KR", ("ko-mecab", "char")),
        ("th", ("char",)),
        ("wuu", ("zh",)),  # no code of ours: the text is written in Han
        ("", ("zh",)),
    ],
)
def test_running_text_is_counted_by_the_tokenizer_of_its_language(
    language: str, tokenizers: tuple[str, ...]
) -> None:
    outputs, references = ["我们今天去公园看花。"], ["我们今天去公园看书。"]
    score, signature = bleu(
        "sacrebleu",
        outputs,
        references,
        lowercase=False,
        language=language,
    )
    (tokenizer,) = [name for name in tokenizers if f"tok:{name}|" in signature]
    theirs = sacrebleu.corpus_bleu(outputs, [references], tokenize=tokenizer).score
    assert score == pytest.approx(theirs, abs=0.01)
    assert score > 50
    counts = ngram_counts(
        "sacrebleu",
        outputs,
        references,
        lowercase=False,
        language=language,
    )
    assert score_of("sacrebleu", np.array(counts, float)) == pytest.approx(score)


def test_the_signature_says_when_words_were_lowercased() -> None:
    for kind in ("bleu", "compound_bleu"):
        score, signature = bleu(kind, ["A b c d"], ["a B c d"], lowercase=True)
        assert score == pytest.approx(100)
        assert "case:lc" in signature


def test_compound_splitting_counts_the_parts() -> None:
    parts = "ice ##AT##-##AT## cold - well ##AT##-##AT## to ##AT##-##AT## do"
    assert split_compounds("ice-cold - well-to-do") == parts
    both = sides("compound_bleu", (OUTPUTS, REFERENCES), ([], []))
    score, signature = bleu("compound_bleu", *both, lowercase=False)
    assert "compounds" in signature
    assert (
        "compounds"
        not in bleu(
            "bleu",
            OUTPUTS,
            REFERENCES,
            lowercase=False,
        )[1]
    )
    split = [split_compounds(line) for line in OUTPUTS]
    split_references = [split_compounds(line) for line in REFERENCES]
    assert score == pytest.approx(multi_bleu(split, split_references), abs=0.01)
    assert score != pytest.approx(multi_bleu(OUTPUTS, REFERENCES), abs=0.01)
    words, text = (["it 's x-y ."], ["it is x-y ."]), (["it's x-y."], ["it is x-y."])
    assert sides("bleu", words, text) == words
    assert sides("sacrebleu", words, text) == text
    assert sides("compound_bleu", words, text)[0] != words[0], "each kind counts its own side"


def test_bleu_is_zero_without_a_match_of_four_words_as_in_multi_bleu() -> None:
    # Matches of one to three words and none of four: any smoothing makes that more than zero.
    assert (
        bleu(
            "bleu",
            ["a b c x d e"],
            ["a b c y d e"],
            lowercase=False,
        )[0]
        == 0
    )
    assert (
        bleu(
            "sacrebleu",
            ["a b c x d e"],
            ["a b c y d e"],
            lowercase=False,
        )[0]
        > 10
    )


def test_the_jackknife_agrees_with_sacrebleus_paired_bootstrap() -> None:
    systems: list[tuple[str, Sequence[str]]] = [
        ("first", OUTPUTS),
        ("alike", [_noisy(line) for line in REFERENCES]),
    ]
    metric = {"BLEU": scorer("bleu", lowercase=False)}
    test = PairedTest(
        systems,
        metric,
        [REFERENCES],
        test_type="bs",
        n_samples=1000,
    )
    results = test()[1]["BLEU"]
    count = len(REFERENCES)
    for (_, outputs), result in zip(systems, results, strict=True):
        assert isinstance(result, Result)
        scores = by_example("bleu", counted("bleu", [*outputs], REFERENCES))
        assert np.mean(scores) == pytest.approx(result.score, abs=0.6), "less its bias"
        half = 1.96 * np.std(scores, ddof=1) / count**0.5
        assert half == pytest.approx(result.ci, rel=0.25)
    whole, _ = bleu(
        "bleu",
        OUTPUTS,
        REFERENCES,
        lowercase=False,
    )
    without, _ = bleu(
        "bleu",
        OUTPUTS[1:],
        REFERENCES[1:],
        lowercase=False,
    )
    scores = by_example("bleu", counted("bleu", OUTPUTS, REFERENCES))
    assert scores[0] == pytest.approx(count * whole - (count - 1) * without)
