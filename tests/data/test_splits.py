"""Each split is the files that the paper's recipe names: no two are swapped, none leaks into another."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import ParallelConfig
from adanorm.data.translation.corpora import Splits, read_corpus
from adanorm.data.translation.steps import Shard
from adanorm.data.treebanks.conll import read_sample
from tests.data.archives import archive
from tests.data.sections import section_of


def first_words(splits: Splits) -> dict[str, str]:
    return {split: next(iter(pairs))[0] for split, pairs in splits.items()}


def corpus(task: str, source: str, files: dict[str, Path]) -> Splits:
    data = section_of(ParallelConfig, f"task={task}", f"data.source={source}")
    return read_corpus(data, files)


def test_english_vietnamese_validates_on_2012_and_tests_on_2013(tmp_path: Path) -> None:
    files = {}
    for stem in ("train", "tst2012", "tst2013"):
        for language in ("en", "vi"):
            files[f"{stem}.{language}"] = tmp_path / f"{stem}.{language}"
            files[f"{stem}.{language}"].write_text(f"{stem}\n")
    words = first_words(corpus("en-vi", "iwslt15-en-vi", files))
    assert words == {"train": "train", "valid": "tst2012", "test": "tst2013"}


@pytest.mark.parametrize("source", ["wmt16-en-de", "wmt16-en-de-parts", "wmt14-en-de"])
def test_english_german_validates_on_2013_and_tests_on_2014(tmp_path: Path, source: str) -> None:
    def news(stem: str) -> dict[str, str]:
        sides = (f"{stem}-src.en.sgm", f"{stem}-ref.de.sgm")
        return dict.fromkeys(sides, f'<seg id="1">{stem}</seg>\n')

    if source == "wmt16-en-de":
        stems = ("train.tok.clean", "newstest2013.tok", "newstest2014.tok")
        members = {f"{stem}.bpe.32000.{side}": f"{stem}\n" for stem in stems for side in ("en", "de")}
        files = {"wmt16_en_de.tar.gz": archive(tmp_path / "wmt16_en_de.tar.gz", members)}
    elif source == "wmt16-en-de-parts":
        corpora = {
            "de-en.tgz": "europarl-v7",
            "training-parallel-commoncrawl.tgz": "commoncrawl",
            "training-parallel-nc-v11.tgz": "training-parallel-nc-v11/news-commentary-v11",
        }
        packed = {
            file: {f"{stem}.de-en.{side}": "train\n" for side in ("en", "de")}
            for file, stem in corpora.items()
        }
        test = "dev/newstest2014-deen"
        packed["dev.tgz"] = {
            **{f"dev/newstest2013.{side}": "newstest2013\n" for side in ("en", "de")},
            f"{test}-src.de.sgm": '<seg id="1">German</seg>\n',
            f"{test}-ref.en.sgm": '<seg id="1">newstest2014’s</seg>\n',
        }
        files = {name: archive(tmp_path / name, members) for name, members in packed.items()}
    else:
        parts = {
            f"training-parallel-{name}.tgz": {f"{stem}.de-en.{side}": "train\n" for side in ("en", "de")}
            for name, stem in (
                ("europarl-v7", "europarl-v7"),
                ("commoncrawl", "commoncrawl"),
                ("nc-v9", "news-commentary-v9"),
            )
        }
        parts |= {"test.tgz": news("newstest2013"), "test-full.tgz": news("newstest2014-deen")}
        files = {name: archive(tmp_path / name, members) for name, members in parts.items()}
    words = first_words(corpus("en-de", source, files))
    assert words["valid"].startswith("newstest2013")
    assert words["test"].startswith("newstest2014")
    assert words["train"].startswith("train")


def test_pairs_taken_out_for_validation_are_trained_on_no_more(tmp_path: Path) -> None:
    data = section_of(ParallelConfig, "task=de-en")
    assert data.valid_every == 23
    lines: dict[str, list[str]] = {"train": [], "valid": []}
    for number, (start, count) in enumerate(((0, range(1, 31)), (30, range(31, 47)))):
        for split in lines:
            shard = Shard(tmp_path, "words", split, number, start, data.valid_every)
            shard.path.write_text(json.dumps({"sides": [[f"{side}{n}" for n in count] for side in "st"]}))
            lines[split] += [line for side in shard.sides() for line in side]
    assert lines["valid"] == ["s23", "t23", "s46", "t46"]
    assert not {*lines["valid"]} & {*lines["train"]}
    assert len(lines["train"]) == 88


def sample_of_the_penn_treebank(folder: Path) -> Path:
    """The sample's files with a word each, its number."""
    path = folder / "dependency_treebank.zip"
    with zipfile.ZipFile(path, "w") as made:
        for number in range(1, 200):
            made.writestr(f"dependency_treebank/wsj_{number:04}.dp", f"{number}\tNN\t0\n")
    return path


def test_the_sample_of_the_penn_treebank_is_split_by_file_number(tmp_path: Path) -> None:
    splits = read_sample(sample_of_the_penn_treebank(tmp_path))
    numbers = {split: [int(tree.words[0]) for tree in trees] for split, trees in splits.items()}
    bounds = {"train": (1, 159), "valid": (160, 179), "test": (180, 199)}
    assert numbers == {split: list(range(a, b + 1)) for split, (a, b) in bounds.items()}


def test_every_file_of_the_sample_is_tested_in_one_fold_of_five(tmp_path: Path) -> None:
    path = sample_of_the_penn_treebank(tmp_path)
    folds = [
        {split: [int(tree.words[0]) for tree in trees] for split, trees in read_sample(path, fold).items()}
        for fold in range(1, 6)
    ]
    assert sorted(number for fold in folds for number in fold["test"]) == list(range(1, 200))
    for fold in folds:
        assert sorted(fold["train"] + fold["valid"] + fold["test"]) == list(range(1, 200)), (
            "in one split each"
        )
        assert len(fold["valid"]) == 20
    assert folds[4]["valid"] == list(range(1, 21)), "behind the last file comes the first"
    with pytest.raises(ValueError, match=r"data.fold=2: nothing reads it .* data.source=ptb-sample"):
        compose_experiment(["task=ptb", "data.fold=2"])
