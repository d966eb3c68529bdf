"""Parallel corpora: reading, cleaning, subwords, binary files, batches."""

import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adanorm.config.data_sections import SPLITS, ParallelConfig
from adanorm.data import catalogue, prepared
from adanorm.data.catalogue import Source
from adanorm.data.examples import Batches
from adanorm.data.packed import text_lines
from adanorm.data.translation import preparation
from adanorm.data.translation.corpora import ParallelText, Text, corpus_files, read_corpus
from adanorm.data.translation.pairs import load_pairs
from adanorm.data.translation.preparation import (
    UNHASHED,
    Steps,
    clean,
    prepared_corpus,
    prepared_folder,
)
from adanorm.data.translation.tokenization import Bpe, Tokenizer, learn_bpe
from adanorm.files import write_whole
from adanorm.tasks.bleu import bleu
from tests.data.archives import archive
from tests.data.sections import section_of

pytestmark = pytest.mark.needs("fairseq")
LANGUAGES = ("de", "en")
Capture = pytest.CaptureFixture[str]
PLAIN = ("data.tokenize=false", "data.bpe_merges=null")


def data_of(*overrides: str) -> ParallelConfig:
    return section_of(ParallelConfig, "task=de-en", "scale=smoke", *overrides)


def write_pairs(tmp_path: Path, **texts: str) -> list[str]:
    """Write six files, those of `texts` with other content, and return the overrides naming them."""
    for name in (f"{split}.{language}" for split in SPLITS for language in LANGUAGES):
        content = texts.get(name.replace(".", "_"), "ein Haus\nzwei Worte\n")
        (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    return [
        f"data.cache={tmp_path / 'cache'}",
        *(f"data.{split}={tmp_path / split}" for split in SPLITS),
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"valid_en": "one\n"}, r"valid\.de has 2 lines and valid\.en has 1"),
        # The merges of subwords need a pair of characters that occurs twice.
        (
            {"train_de": "ab cd\n", "train_en": "ef gh\n"},
            r"too little to learn subwords from \(data.bpe_merges",
        ),
        ({"train_de": "a\n", "train_en": "b\n"}, "too little to learn subwords from"),
        ({"test_de": "gut\nschlecht \udcff\n"}, r"test\.de, line 2: not UTF-8"),
        (
            {"test_de": "a\rb\r", "test_en": "a\rb\r"},
            r"test\.de: its lines end in carriage returns alone",
        ),
        (
            {"test_en": " \n\n"},
            r"test\.de, test\.en: every pair has an empty side: there is nothing to score",
        ),
    ],
)
def test_files_that_are_no_parallel_corpus_are_refused_and_leave_nothing(
    tmp_path: Path, texts: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_pairs(data_of(*write_pairs(tmp_path, **texts), "data.bpe_merges=10"))
    assert not [p for p in (tmp_path / "cache" / "prepared").iterdir() if p.suffix != ".lock"]


def test_only_a_line_feed_ends_a_line_and_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    assert text_lines("a\u2028b\x0cc\r\nd\n".encode(), "x") == ["a\u2028b\x0cc\r", "d"]
    assert text_lines(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", "x") == ["a", "\ufeffb"]
    data = data_of(*write_pairs(tmp_path, test_de="\ufeffa\n", test_en="\ufeffa\n"))
    assert [*read_corpus(data, data.own_files(), {})["test"]] == [("a", "a")]


def test_dropped_pairs_are_reported_with_line_and_reason(tmp_path: Path, capsys: Capture) -> None:
    german = f"ein Haus\n\nkurz\n{'wort ' * 2000}\nzwei Worte\n"
    english = "a house\nnothing there\none two three four\nword\ntwo words\n"
    files = write_pairs(
        tmp_path,
        train_de=german,
        train_en=english,
        valid_de="\nx\n",
    )
    data = data_of(*files, "data.ratio=3")
    assert len(load_pairs(data).splits["train"]) == 2
    dropped = "train.de, train.en: dropped 1 of 5 pairs, "
    assert capsys.readouterr().out.splitlines() == [
        "valid.de, valid.en: 1 pairs with an empty side, the first in line 1",
        f"{dropped}a side is empty (the first: line 2, 0 and 2 words)",
        f"{dropped}one side has over 3 times the other's words (the first: line 3, 1 and 4 words)",
        f"{dropped}a side is longer than 175 words (the first: line 4, 2,000 and 1 words)",
    ]
    load_pairs(data)
    assert not capsys.readouterr().out, "a prepared corpus is found again"


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30))
def test_cleaning_keeps_what_the_rule_says(lengths: list[tuple[int, int]]) -> None:
    sides = [[" ".join("w" * n) for n in column] for column in zip(*lengths, strict=True)] or [
        [],
        [],
    ]
    indices, dropped = clean(
        sides[0],
        sides[1],
        longest=9,
        ratio=1.5,
    )
    sizes = [(i, *sorted(pair)) for i, pair in enumerate(lengths)]
    rule = [i for i, less, more in sizes if 1 <= less <= more <= min(9, 1.5 * less)]
    assert indices == rule
    assert sum(count for count, _ in dropped.values()) == len(lengths) - len(rule)


@given(st.lists(st.text(alphabet="abcdeß", min_size=1, max_size=8), min_size=1, max_size=8))
@settings(max_examples=50)
def test_subwords_join_to_the_words_they_were_split_from(words: list[str]) -> None:
    subwords = Bpe(learn_bpe({"abc": 2, "abd": 1, "ead": 1, "ßab": 1, "cab": 1, "dab": 1}, 10))
    line = " ".join(words)
    assert Bpe.join(subwords.split(line)) == line


@given(st.lists(st.text(alphabet="ab@\ue001", min_size=1, max_size=8), min_size=1, max_size=8))
@settings(max_examples=200)
def test_words_that_hold_the_separator_are_cut_and_joined_to_themselves(words: list[str]) -> None:
    from subword_nmt.apply_bpe import BPE

    codes = learn_bpe({"a@@": 3, "ab": 2, "b@": 2, "@a": 2, "\ue001a": 2}, 10)
    line = " ".join(words)
    assert Bpe.join(Bpe(codes).split(line)) == line
    plain = line.replace("@", "")
    assert Bpe(codes).split(plain) == BPE(io.StringIO(codes)).process_line(plain)


def test_references_of_own_text_keep_words_that_end_as_subwords_do(tmp_path: Path) -> None:
    lines = "write a@@ dog tree write\nemail x@@y @@ here\nthe end@@\n"
    texts = {f"{split}_en": lines for split in SPLITS}
    german = {f"{split}_de": "ein Hund am Baum\nPost an x\ndas Ende\n" for split in SPLITS}
    settings = write_pairs(tmp_path, **texts, **german)
    corpus = load_pairs(data_of(*settings, "data.tokenize=false", "data.bpe_merges=20"))
    assert corpus.references("test", "words") == lines.splitlines()
    assert corpus.sentences("test", side=1) == lines.splitlines()
    again = load_pairs(data_of(f"data.path={corpus.folder}"))
    assert again.sentences("test", side=1) == lines.splitlines()


def test_words_are_those_of_moses() -> None:
    words = Tokenizer(
        "en", data_of("data.tokenize=true", "data.normalize=true", "data.lowercase=true")
    )
    # As Moses's tokenizer.perl splits and escapes.
    split = words.split("Don't say «no» -- it costs $1,000.50!")
    assert split == "don &apos;t say &quot; no &quot; -- it costs $ 1,000.50 !"
    assert words.join("don &apos;t say &quot; no &quot; !") == 'don\'t say "no"!'


@pytest.mark.parametrize(
    "how",
    [
        "a bit flipped",
        *(pytest.param(how, marks=pytest.mark.nightly) for how in ("cut", "missing")),
    ],
)
def test_a_corpus_with_a_corrupted_file_is_prepared_again(
    tmp_path: Path, how: str, capsys: Capture
) -> None:
    data = data_of(f"data.cache={tmp_path}", "data.bpe_merges=20")
    folder, _ = prepared_corpus(data)
    before = contents(folder)
    assert {
        "codes",
        "dict.de.txt",
        "train.de-en.de.bin",
        "test.text.en",
        "report.json",
    } < before.keys()
    for name, content in sorted(before.items()):
        (folder / name).unlink()
        if how != "missing":
            end = content[-2:] if how == "cut" else bytes([content[-2] ^ 1]) + content[-1:]
            (folder / name).write_bytes(content[:-2] + end[: 1 if how == "cut" else 2])
        capsys.readouterr()
        assert prepared_corpus(data)[0] == folder
        # Of the list of checksums itself any file may seem the wrong one.
        (line,) = capsys.readouterr().out.splitlines()
        assert line.endswith(": has been changed: the corpus is prepared again")
        assert name == "checksums.json" or f"{folder.name}/{name}: " in line
        assert contents(folder) == before
        prepared_corpus(data)
        assert not capsys.readouterr().out


def test_a_corpus_prepared_in_chunks_by_two_processes_is_that_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("data.clean=subwords", "data.longest=6")  # so that chunks of one step differ
    whole, _ = prepared_corpus(data_of(f"data.cache={tmp_path / '1'}", *settings), processes=1)
    monkeypatch.setattr(preparation, "PAIRS", 100)
    parts, _ = prepared_corpus(data_of(f"data.cache={tmp_path / '2'}", *settings), processes=2)
    assert contents(parts) == contents(whole)
    assert json.loads((whole / "report.json").read_bytes())["dropped"]


SCRIPT = """
from multiprocessing import get_context
from adanorm.config.compose import compose_experiment
from adanorm.data.translation import preparation

print("the script runs")
preparation.PAIRS = 100
data = compose_experiment(["task=de-en", "scale=smoke", "data.cache=cache"]).data


def start():
    preparation.prepared_corpus(data, processes=2)


"""


@pytest.mark.parametrize(
    "preparing",
    [
        "start()",
        pytest.param(
            "get_context('fork').Pool(1).apply(start)", marks=pytest.mark.nightly, id="in a pool"
        ),
    ],
)
def test_a_script_without_a_main_guard_prepares_a_corpus_and_runs_once(
    tmp_path: Path, preparing: str
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT + preparing)
    command = [sys.executable, "script.py"]
    process = subprocess.run(command, cwd=tmp_path, timeout=200, capture_output=True, check=False)
    assert process.returncode == 0, process.stderr.decode()
    assert process.stdout == b"the script runs\n"
    assert list(tmp_path.rglob("train.de-en.de.bin"))


def test_a_preparation_that_waits_for_another_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(prepared, "PATIENCE", 0.01)
    file = (tmp_path / "corpus.lock").open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    threading.Timer(0.3, file.close).start()
    folder = prepared.prepared(tmp_path / "corpus", lambda part: (part / "out" / "text").touch())
    assert (folder / "text").exists()
    line = f"{folder}: waiting for another process that prepares it\n"
    assert capsys.readouterr().out == line


STEPS = ["raw.train", "raw.valid", "raw.test", "words.train", "words.valid", "words.test", "codes"]
STEPS += ["subwords.train", "subwords.valid", "subwords.test", "checksums"]


@pytest.mark.parametrize("moment", [0, 4, 6, 8, 10, "ids"])
def test_an_interrupted_preparation_goes_on_from_the_last_finished_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, moment: int | str
) -> None:
    monkeypatch.setattr(preparation, "PAIRS", 100)
    data = data_of(f"data.cache={tmp_path}", "data.bpe_merges=20")
    finished: list[str] = []

    def write(path: Path, content: bytes) -> None:
        if len(finished) == moment:
            raise KeyboardInterrupt
        finished.append(path.name.removesuffix(".json"))
        write_whole(path, content)

    monkeypatch.setattr(preparation, "write_whole", write)
    monkeypatch.setattr(prepared, "write_whole", write)
    with monkeypatch.context() as patch:
        if moment == "ids":
            patch.setattr(preparation, "ids", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            prepared_corpus(data, processes=1)
    (part,) = tmp_path.rglob("*.part")
    assert {*finished} <= {path.name.removesuffix(".json") for path in part.rglob("*")}
    moment = -1
    folder, _ = prepared_corpus(data, processes=1)
    (line, *_) = capsys.readouterr().out.splitlines()
    assert line.endswith("goes on from what an interrupted preparation had finished")
    assert finished == STEPS, "each step once"
    assert not list(tmp_path.rglob("*.part"))
    monkeypatch.undo()
    whole, _ = prepared_corpus(data_of(f"data.cache={tmp_path / 'whole'}", "data.bpe_merges=20"))
    assert contents(folder) == contents(whole)


def test_published_numbers_of_pairs_are_compared_recorded_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    published = Source(
        "x",
        "none",
        (),
        counts=(401, 32, 32),
        tolerance=0.9,
    )
    monkeypatch.setitem(catalogue.SOURCES, "synthetic", published)
    corpus = load_pairs(data_of(f"data.cache={tmp_path}"))
    size = len(corpus.splits["train"])
    line = f"synthetic: {size:,} pairs for train, published are 401 ({size - 401:+,})\n"
    assert capsys.readouterr().out == line
    assert corpus.inspection.counts["published"] == {"train": 401, "valid": 32, "test": 32}
    assert corpus.inspection.counts["pairs"]["train"] == size


def test_a_prepared_corpus_is_used_where_nothing_can_be_written(tmp_path: Path) -> None:
    data = data_of(f"data.cache={tmp_path}")
    folder, _ = prepared_corpus(data)
    folder.with_suffix(".lock").unlink()
    folder.with_suffix(".lock").mkdir()  # so that no lock can be had
    assert prepared_corpus(data)[0] == folder


def test_dictionaries_and_files_are_those_of_fairseq_preprocess(tmp_path: Path) -> None:
    from fairseq import options
    from fairseq_cli import preprocess

    corpus = load_pairs(data_of(f"data.cache={tmp_path / 'cache'}"))
    for split, pairs in corpus.splits.items():
        sides = zip(
            LANGUAGES, corpus.dictionaries, (pairs.dataset.src, pairs.dataset.tgt), strict=True
        )
        for language, dictionary, lines in sides:
            texts = [f"{dictionary.string(lines[i])}\n" for i in range(len(lines))]
            (tmp_path / f"{split}.{language}").write_text("".join(texts))
    parser = options.get_preprocessing_parser()
    arguments = [
        "--source-lang",
        "de",
        "--target-lang",
        "en",
        "--joined-dictionary",
        "--workers",
        "1",
    ]
    arguments += [f"--{split}pref={tmp_path / split}" for split in SPLITS]
    preprocess.main(parser.parse_args([*arguments, "--destdir", str(tmp_path / "bin")]))
    files = [path for end in ("txt", "bin", "idx") for path in (tmp_path / "bin").glob(f"*.{end}")]
    assert len(files) == 14
    for path in files:
        assert (corpus.folder / path.name).read_bytes() == path.read_bytes(), path.name


def test_references_are_the_targets_of_their_split_and_those_of_a_data_bin(tmp_path: Path) -> None:
    texts = {"valid_en": "one house\ntwo words\n", "test_en": "a tree\nmany trees\n"}
    training = {
        "train_en": "".join(texts.values()),
        "train_de": "a b\n" * 4,
    }  # so that all words are known
    corpus = load_pairs(data_of(*write_pairs(tmp_path, **texts, **training)))
    data = data_of(f"data.path={corpus.folder}")
    for loaded, kind in ((corpus, "words"), (corpus, "text"), (load_pairs(data), "words")):
        for split in ("valid", "test"):
            assert loaded.references(split, kind) == texts[f"{split}_en"].splitlines()
    (corpus.folder / "train1.de-en.de.bin").touch()
    with pytest.raises(ValueError, match=r"holds train1\.de-en\.de\.bin; only `train` is read"):
        data.own_files()


BROKEN: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "ids of 2 to 65535, its dictionary has 8": (
        "test.de-en.en.bin",
        lambda ids: b"\xff\xff" + ids[2:],
    ),
    "the .idx is of another file": ("valid.de-en.de.bin", lambda content: content[:-2]),
    "no data of fairseq \\(buffer is smaller": ("train.de-en.de.idx", lambda content: content[:-1]),
    "match expected format": ("train.de-en.en.idx", lambda _: b""),
    "its dictionary has 4": ("dict.de.txt", lambda _: b""),
    "codes: no merges": ("codes", lambda content: content + b"a b c\n"),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_a_data_bin_that_is_not_whole_is_named_before_any_work(
    tmp_path: Path, capsys: Capture, problem: str
) -> None:
    folder = load_pairs(data_of(*write_pairs(tmp_path))).folder
    capsys.readouterr()
    name, spoil = BROKEN[problem]
    (folder / name).write_bytes(spoil((folder / name).read_bytes()))
    with pytest.raises(ValueError, match=f"{folder}.*{problem}"):
        load_pairs(data_of(f"data.path={folder}"))
    assert capsys.readouterr() == ("", "")


def test_a_data_bin_whose_sides_differ_in_length_is_refused(tmp_path: Path) -> None:
    texts = {f"valid_{language}": "a b\n" for language in LANGUAGES}
    folder = load_pairs(data_of(*write_pairs(tmp_path, **texts))).folder
    for end in ("bin", "idx"):
        (folder / f"train.de-en.de.{end}").write_bytes(
            (folder / f"valid.de-en.de.{end}").read_bytes()
        )
    with pytest.raises(
        ValueError, match=r"train.de-en.de.bin: 1 sentences, train.de-en.en.bin has 2"
    ):
        load_pairs(data_of(f"data.path={folder}"))


@pytest.mark.parametrize("is_data_bin", [False, True])
def test_an_unknown_word_in_a_reference_matches_no_output_and_is_counted(
    tmp_path: Path, *, is_data_bin: bool
) -> None:
    texts = {"train_en": "a b\nc d\n", "test_en": "a <unk> c d\n<unk> b, e\n", "test_de": "x\ny\n"}
    data = data_of(*write_pairs(tmp_path, **texts), *PLAIN)
    corpus = load_pairs(data)
    if is_data_bin:
        corpus = load_pairs(data_of(f"data.path={corpus.folder}"))
        for kind in ("words", "text"):
            (corpus.folder / f"test.{kind}.en").write_text("of other pairs\n")
    for kind in ("words", "text"):
        assert not any(
            mark in line for line in corpus.references("test", kind) for mark in ("<", "unk")
        )
        assert "of other pairs" not in corpus.references("test", kind)
    assert corpus.inspection.warnings[-1].startswith(
        "test: 4 of 7 target subwords (57.1%) are unknown"
    )
    outputs, references = corpus.beside_references("test", ["<unk> <unk> <unk> <unk>"] * 2)[1]
    assert (
        bleu(
            "sacrebleu",
            outputs,
            references,
            lowercase=False,
        )[0]
        == 0
    )


@pytest.mark.parametrize(("mark", "kind"), [("\u0120", "byte-level BPE"), ("##", "Word")])
def test_subwords_of_another_kind_are_refused_not_scored(
    tmp_path: Path, mark: str, kind: str
) -> None:
    pieces = f"a {mark}b\n{mark}c d\n"
    settings = write_pairs(
        tmp_path,
        train_en=pieces,
        valid_en=pieces,
        test_en=pieces,
    )
    with pytest.raises(ValueError, match=f"holds subwords of {kind}"):
        load_pairs(data_of(*settings, *PLAIN, "data.lowercase=false"))


def test_pieces_of_sentencepiece_are_joined_where_the_setting_states_them(tmp_path: Path) -> None:
    texts = {"train_en": "\u2581a b\n\u2581c d\n", "test_en": "\u2581a b \u2581c d\n\u2581c\n"}
    settings = [*write_pairs(tmp_path, **texts), *PLAIN]
    corpus = load_pairs(data_of(*settings, "++data.subwords=sentencepiece"))
    assert corpus.references("test", "words") == ["ab cd", "c"]
    assert not any("joined" in line for line in corpus.inspection.warnings)
    whole = load_pairs(data_of(*settings))
    assert whole.references("test", "words") == ["\u2581a b \u2581c d", "\u2581c"]
    assert any("set data.subwords=sentencepiece" in line for line in whole.inspection.warnings)


MARKED = "the \u2581\u2581 dog a@@\na@@ b \u2581\u2581\n"  # words with the marks of subwords


@pytest.mark.parametrize("data_bin", [False, True])
def test_words_that_were_never_cut_are_not_joined(tmp_path: Path, data_bin: bool) -> None:
    texts = {f"{split}_{language}": MARKED for split in SPLITS for language in LANGUAGES}
    settings = [*write_pairs(tmp_path, **texts), *PLAIN]
    corpus = load_pairs(data_of(*settings))
    if data_bin:
        corpus = load_pairs(data_of(f"data.path={corpus.folder}"))
    assert corpus.references("test", "words") == MARKED.splitlines()
    outputs = corpus.sentences("test", side=1)
    assert outputs == MARKED.splitlines(), "a translation of the same subwords has the same words"
    assert any("are not joined" in line for line in corpus.inspection.warnings)
    files = [f"data.path={corpus.folder}"] if data_bin else settings
    stated = load_pairs(data_of(*files, "++data.subwords=words"))
    assert stated.references("test", "words") == MARKED.splitlines()
    assert not any("joined" in line for line in stated.inspection.warnings)


def test_a_data_bin_is_joined_by_what_its_lines_show_and_a_text_by_what_is_said(
    tmp_path: Path,
) -> None:
    cut = "a@@ b c\nd c@@ a\n"
    texts = {f"{split}_{language}": cut for split in SPLITS for language in LANGUAGES}
    settings = [*write_pairs(tmp_path, **texts), *PLAIN]
    whole = load_pairs(data_of(*settings))
    assert whole.references("test", "words") == cut.splitlines()
    assert any("set data.subwords=bpe" in line for line in whole.inspection.warnings)
    shown = load_pairs(data_of(f"data.path={whole.folder}"))
    told = load_pairs(data_of(*settings, "++data.subwords=bpe"))
    for corpus in (shown, told):
        assert corpus.references("test", "words") == ["ab c", "d ca"]


WORDS = [f"{first}{last}" for first in "abcdefgh" for last in ("lpha", "eta", "amma", "elta")]
LINES = [" ".join(WORDS[(7 * line + word) % 32] for word in range(6)) for line in range(200)]
MARKS = [" ".join(f"{word[0]}@@ {word[1:]}" for word in line.split()) for line in LINES]
PIECES = [" ".join(f"\u2581{word[0]} {word[1:]}" for word in line.split()) for line in LINES]
CHINESE = [" ".join(["\u2581" + line[0], *line[1:].replace(" ", "")]) for line in LINES]
LETTERS = [" ".join(f"\u2581{line}".replace(" ", "\u2581")) for line in LINES]
BULLETS = [f"\u2581 {line}" for line in LINES]
ENDED = ["d elta@@", *MARKS[1:]]  # one of 200 lines ends in a mark
SHOWN = {
    "bpe": ("bpe", MARKS, LINES),
    "a line ends in a mark": ("bpe", ENDED, ["d elta", *LINES[1:]]),
    "sentencepiece": ("sentencepiece", PIECES, LINES),
    "no mark begins a line": ("sentencepiece", [line[1:] for line in PIECES], LINES),
    "a tag begins each line": (
        "sentencepiece",
        [f"<2en> {line}" for line in PIECES],
        [f"<2en> {line}" for line in LINES],
    ),
    "no spaces but between sentences": (
        "sentencepiece",
        CHINESE,
        [line.replace(" ", "") for line in LINES],
    ),
    "letters": ("sentencepiece", LETTERS, LINES),
    "bullets": (None, BULLETS, BULLETS),
    "many lines end in a mark": (None, MARKS[:-9] + ["d elta@@"] * 9, None),
}


@pytest.mark.parametrize("case", SHOWN)
def test_shares_of_a_data_bins_words_show_what_cut_them_and_a_line_names_the_setting(
    tmp_path: Path, case: str
) -> None:
    cut, lines, words = SHOWN[case]
    text = "\n".join(lines) + "\n"
    texts = {f"{split}_{language}": text for split in SPLITS for language in LANGUAGES}
    folder = load_pairs(data_of(*write_pairs(tmp_path, **texts), *PLAIN)).folder
    corpus = load_pairs(data_of(f"data.path={folder}"))
    assert corpus.cuts == (cut, cut)
    assert corpus.references("test", "words") == (words or lines)
    joined = [line for line in corpus.inspection.warnings if "joined" in line]
    assert len(joined) == 1
    assert f"data.subwords={cut or ''}" in joined[0]
    assert ("are not joined" in joined[0]) == (cut is None)


def test_what_the_user_states_goes_before_the_merges_beside_a_data_bin(tmp_path: Path) -> None:
    folder = load_pairs(data_of(*write_pairs(tmp_path))).folder
    assert load_pairs(data_of(f"data.path={folder}")).cuts == ("bpe", "bpe")
    stated = load_pairs(data_of(f"data.path={folder}", "++data.subwords=words"))
    assert stated.cuts == ("words", "words")


def test_own_text_that_is_cut_twice_is_told_which_settings_join_it(tmp_path: Path) -> None:
    text = "\n".join(MARKS) + "\n"
    texts = {f"{split}_{language}": text for split in SPLITS for language in LANGUAGES}
    settings = [*write_pairs(tmp_path, **texts), "data.tokenize=false", "data.bpe_merges=30"]
    warnings = load_pairs(data_of(*settings)).inspection.warnings
    assert any("set data.bpe_merges=null data.subwords=bpe" in line for line in warnings)


@pytest.mark.parametrize("kind", ["cached or lazy", "raw"])
def test_a_data_bin_of_another_kind_is_refused_in_a_line_that_names_it(
    tmp_path: Path, kind: str
) -> None:
    folder, _ = prepared_corpus(data_of(f"data.cache={tmp_path}"))
    copy = tmp_path / "bin"
    shutil.copytree(folder, copy)
    for path in copy.glob("train.de-en.*"):
        if kind == "raw":
            path.rename(path.with_suffix(""))
        elif path.suffix == ".idx":
            path.write_bytes(b"TNTIDX\x00\x00" + path.read_bytes()[8:])
    with pytest.raises(ValueError, match="make it with `fairseq-preprocess --dataset-impl mmap`"):
        load_pairs(data_of(f"data.path={copy}"))


def test_some_pairs_of_own_text_are_from_all_of_it(tmp_path: Path) -> None:
    lines = "".join(f"{'short ' * (1 + number // 5)}\n" for number in range(20))
    settings = write_pairs(tmp_path, train_de=lines, train_en=lines)
    corpus = load_pairs(data_of(*settings, *PLAIN, "data.train_pairs=8"))
    sizes = corpus.splits["train"].dataset.src_sizes - 1
    assert sizes.tolist() == [1, 1, 2, 2, 3, 3, 4, 4]


def test_a_corpus_without_spaces_is_told_which_score_shows_little(tmp_path: Path) -> None:
    lines = "我们今天去公园看花。\n你好吗?\n"
    texts = {f"{split}_zh": lines for split in SPLITS}
    german = {f"{split}_de": "Haus\nWort\n" for split in SPLITS}
    settings = [*write_pairs(tmp_path, **german), *PLAIN, "data.languages=[de,zh]"]
    for split in SPLITS:
        (tmp_path / f"{split}.zh").write_text(texts[f"{split}_zh"], "utf-8")
    warnings = load_pairs(data_of(*settings)).inspection.warnings
    assert any("words per line of zh: BLEU on words shows little" in line for line in warnings)


def test_every_setting_of_a_preparation_names_another_folder() -> None:
    data = data_of("data.tokenize=true")
    other = {"languages": ("en", "de"), "source": "x", "clean": "subwords"}
    numbers = {
        name: not value if isinstance(value, bool) else (value or 1) + 1
        for name, value in data
        if name not in {*UNHASHED, *other, "reader"}
    }
    changed = {**other, **numbers}
    folders = {
        prepared_folder(data.model_copy(update={name: value}), {})
        for name, value in changed.items()
    }
    assert {"lowercase", "normalize", "train_pairs"} < changed.keys()
    assert (
        len({*folders, prepared_folder(data, {}), prepared_folder(data, {"a": "b"})})
        == len(changed) + 2
    )


def test_old_leftovers_of_an_interrupted_preparation_are_removed(tmp_path: Path) -> None:
    parts = [tmp_path / "prepared" / f"de-en-{age}.part" for age in ("old", "new")]
    for part in parts:
        part.mkdir(parents=True)
    os.utime(parts[0], (0, 0))
    prepared_corpus(data_of(f"data.cache={tmp_path}"))
    assert [part.exists() for part in parts] == [False, True]


def test_batches_hold_every_pair_once_within_their_tokens(tmp_path: Path) -> None:
    train = load_pairs(data_of(f"data.cache={tmp_path}")).splits["train"]
    order = train.order(100, np.random.default_rng(1))
    assert sorted(np.concatenate(order)) == list(range(len(train)))
    batches = Batches(train.batch, order)
    for index, indices in enumerate(order):
        batch = batches.part(index)
        assert max(batch.source.numel(), batch.previous.numel()) <= 100
        assert len(indices) <= 8 or len(indices) % 8 == 0
        assert batch.units == train.dataset.tgt_sizes[indices].sum()
        for world in (3, len(indices) + 1):
            parts = [batches.part(index, rank, world) for rank in range(world)]
            assert sum(part.units for part in parts) == batch.units
            assert all(len(part.source) for part in parts), (
                "a process without pairs has one, of no target"
            )
    again = train.order(100, np.random.default_rng(2))
    assert np.concatenate(order).tolist() != np.concatenate(again).tolist()
    tokens = int(np.median(train.sizes))
    assert train.sizes.max() > tokens
    evaluated, trained = (
        np.concatenate(train.order(tokens, r)) for r in (None, np.random.default_rng(0))
    )
    assert sorted(evaluated) == list(range(len(train)))
    assert sorted(trained) == np.flatnonzero(train.sizes <= tokens).tolist(), (
        "longer ones are not trained on"
    )


def test_the_classic_iwslt14_recipe_is_read_from_its_archive(tmp_path: Path) -> None:
    members = {}
    for language, word in (("de", "Satz"), ("en", "sentence")):
        talk = "".join(f"{word} {i}\n" for i in range(1, 47))
        members[f"de-en/train.tags.de-en.{language}"] = (
            f"<url>http://x</url>\n<title>{word} title</title>\n<keywords>k</keywords>\n{talk}"
        )
        for part in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
            members[f"de-en/IWSLT14.{part}.de-en.{language}.xml"] = (
                f'<doc>\n<seg id="1"> {word}’s {part} </seg>\n</doc>\n'
            )
    path = archive(tmp_path / "de-en.tgz", members)
    data = section_of(ParallelConfig, "task=de-en", f"data.cache={tmp_path}")
    splits = read_corpus(data, {"de-en.tgz": path}, {})
    train, test = list(splits["train"]), list(splits["test"])
    assert train[:2] == [("Satz title", "sentence title"), ("Satz 1", "sentence 1")]
    assert test[1] == ("Satz's TEDX.dev2012", "sentence's TEDX.dev2012")
    assert (len(train), len(test)) == (47, 5)
    (tmp_path / "mirror" / "iwslt14-de-en").mkdir(parents=True)
    path.rename(tmp_path / "mirror" / "iwslt14-de-en" / "de-en.tgz")
    with pytest.raises(ValueError, match="not the same archive"):
        prepared_corpus(data.model_copy(update={"mirror": str(tmp_path / "mirror")}))


def test_english_vietnamese_validates_on_2012_and_tests_on_2013(tmp_path: Path) -> None:
    stems = {"train": "train", "valid": "tst2012", "test": "tst2013"}
    files = {
        f"{stem}.{end}": tmp_path / f"{stem}.{end}"
        for stem in stems.values()
        for end in ("en", "vi")
    }
    for path in files.values():
        path.write_text(f"{path.name}\n")
    splits = read_corpus(
        section_of(ParallelConfig, "task=en-vi", "data.source=iwslt15-en-vi"), files, {}
    )
    assert {split: [*texts] for split, texts in splits.items()} == {
        split: [(f"{stem}.en", f"{stem}.vi")] for split, stem in stems.items()
    }


BPE = "newstest2013.tok.bpe.32000.{0} newstest2014.tok.bpe.32000.{0} train.tok.clean.bpe.32000.{0}"
ARCHIVES = {
    "wmt16-en-de": {"wmt16_en_de.tar.gz": BPE},
    "wmt16-en-de-parts": {
        "de-en.tgz": "train/europarl-v7.de-en.{0}",
        "training-parallel-commoncrawl.tgz": "commoncrawl.de-en.{0}",
        "training-parallel-nc-v11.tgz": "training-parallel-nc-v11/news-commentary-v11.de-en.{0}",
        "dev.tgz": "newstest2013.{0} newstest2014-deen-src.de.sgm newstest2014-deen-ref.en.sgm",
    },
    "wmt14-en-de": {
        "training-parallel-europarl-v7.tgz": "europarl-v7.de-en.{0}",
        "training-parallel-commoncrawl.tgz": "commoncrawl.de-en.{0}",
        "training-parallel-nc-v9.tgz": "news-commentary-v9.de-en.{0}",
        "test.tgz": "newstest2013-src.en.sgm newstest2013-ref.de.sgm",
        "test-full.tgz": "newstest2014-deen-src.en.sgm newstest2014-deen-ref.de.sgm",
    },
}


@pytest.mark.parametrize("source", ARCHIVES)
def test_english_german_validates_on_2013_and_tests_on_2014(tmp_path: Path, source: str) -> None:
    files = {}
    for file, patterns in ARCHIVES[source].items():
        names = {pattern.format(language) for pattern in patterns.split() for language in LANGUAGES}
        members = {
            name: f'<seg id="1">{name}’s</seg>\n' if "sgm" in name else f"{name}\n"
            for name in names
        }
        files[file] = archive(tmp_path / file, members)
    splits = read_corpus(
        section_of(ParallelConfig, "task=en-de", f"data.source={source}"), files, {}
    )
    ((english, german),) = splits["test"]
    assert english.rpartition("/")[2].startswith("newstest2014")
    assert ".en" in english
    assert ".de" in german
    assert ("’" in english) == (source == "wmt16-en-de-parts"), (
        "fairseq's recipe has plain apostrophes"
    )
    assert [pair[0].rpartition("/")[2][:12] for pair in splits["valid"]] == ["newstest2013"]
    corpora = [pair[0].rpartition("/")[2].partition(".")[0] for pair in splits["train"]]
    whole = ["europarl-v7", "commoncrawl", f"news-commentary-v{11 if 'parts' in source else 9}"]
    assert corpora == (["train"] if source == "wmt16-en-de" else whole)


def test_pairs_taken_out_for_validation_are_not_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert section_of(ParallelConfig, "task=de-en").valid_every == 23
    monkeypatch.setattr(preparation, "PAIRS", 30)
    sides = [[f"{side}{number}" for number in range(1, 47)] for side in "st"]
    pairs = ParallelText([(Text("s", sides[0].__iter__), Text("t", sides[1].__iter__))])
    (tmp_path / "out").mkdir()
    data = data_of(*PLAIN).model_copy(update={"valid_every": 23})
    Steps(data, {"train": pairs, "test": pairs}, tmp_path).run(1)
    valid, train = (
        [line for end in LANGUAGES for line in (tmp_path / f"words.{split}.{end}").open()]
        for split in ("valid", "train")
    )
    assert valid == ["s23\n", "s46\n", "t23\n", "t46\n"]
    assert not {*valid} & {*train}
    assert len(train) == 88


@pytest.mark.parametrize(
    ("task", "sizes"), [("de-en", (29_000, 1_014, 1_000)), ("en-vi", (30_000, 1_553, 1_268))]
)
def test_the_mini_corpora_are_read_from_the_mirror(
    mirror: Path, task: str, sizes: tuple[int, ...]
) -> None:
    data = section_of(ParallelConfig, f"task={task}", "scale=mini", f"data.mirror={mirror}")
    splits = read_corpus(data, corpus_files(data), {})
    assert tuple(len(list(splits[s])) for s in ("train", "valid", "test")) == sizes


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_a_batch_has_the_rows_of_fairseqs_collater_in_its_order(is_shuffled: bool) -> None:
    train = load_pairs(data_of()).splits["train"]
    random = np.random.default_rng(3) if is_shuffled else None
    batches = train.order(300, random)
    assert len(batches) > 5
    for indices in [*batches, np.arange(len(train)), np.array([4])]:
        sample = train.dataset.collater([train.dataset[int(index)] for index in indices])
        inputs, target = sample["net_input"], sample["target"]
        batch = train.batch(indices)
        is_target = target != train.dataset.tgt_dict.pad()
        assert torch.equal(batch.source, inputs["src_tokens"])
        assert torch.equal(batch.previous, inputs["prev_output_tokens"])
        assert torch.equal(batch.target, target[is_target])
        assert torch.equal(batch.counted, is_target.nonzero().t())
        assert batch.has_padding == bool((batch.source == train.dataset.src_dict.pad()).any())
        assert batch.source.dtype == inputs["src_tokens"].dtype


def test_rounded_rows_add_targets_that_weigh_nothing() -> None:
    train = load_pairs(data_of()).splits["train"]
    batch = train.batch(np.arange(20))
    rounded = batch.with_rounded_rows()
    units = batch.units
    assert len(rounded.target) % 256 == 0
    assert rounded.units == units
    assert rounded.weight is not None
    assert rounded.weight.tolist() == [1] * units + [0] * (len(rounded.target) - units)
    assert torch.equal(rounded.target[:units], batch.target)
    assert torch.equal(rounded.counted[:, :units], batch.counted)
    assert bool((rounded.counted[:, units:] == batch.counted[:, :1]).all())
