"""Treebanks in their file formats, and sentences that are no trees."""

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import TreebankConfig
from adanorm.config.experiment import Experiment
from adanorm.data.treebanks.conll import load_treebank, read_sample, read_treebank
from adanorm.data.treebanks.encoding import Vocabulary, read_vectors
from adanorm.data.treebanks.trees import is_projective, problem, projectivized
from adanorm.files import write_files
from tests.data.sections import section_of, write_splits
from tests.trees import any_tree, dominates, projective

UD = """\
# sent_id = 1
# text = I can't.
1\tI\tI\tPRON\tPRP\t_\t4\tnsubj\t_\t_
2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\t_
2\tca\tcan\tAUX\tMD\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
4.1\tthere\tthere\tADV\tRB\t_\t_\t_\t4:advmod\t_
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

# sent_id = 2
1\tGo\tgo\tVERB\tVB\tMood=Imp\t0\troot\t_\t_
2\t!\t!\tPUNCT\t.\t_\t1\tpunct\t_\t_
"""


def parser(*overrides: str) -> Experiment:
    return compose_experiment(["task=ptb", "norm=none", *overrides])


def test_multiword_tokens_and_empty_nodes_are_no_words() -> None:
    first, second = read_treebank(UD.encode(), "a.conllu", "upos")
    assert first.words == ("I", "ca", "n't", "go", ".")
    assert first.tags == ("PRON", "AUX", "PART", "VERB", "PUNCT")
    assert first.heads == (4, 4, 4, 0, 4)
    assert first.labels == ("nsubj", "aux", "advmod", "root", "punct")
    assert first.punctuation == (False, False, False, False, True)
    assert second.words == ("Go", "!")
    assert read_treebank(UD.encode(), "a.conllu", "xpos")[0].tags == ("PRP", "MD", "RB", "VB", ".")


def test_files_of_word_tag_and_head_have_no_comments() -> None:
    """`#` is the sign for pounds: in the sample of the Penn Treebank it begins lines."""
    (tree,) = read_treebank(b"costs\tVBZ\t0\n#\t#\t3\n9\tCD\t1\n.\t.\t1\n", "a.dp", "xpos")
    assert (tree.words, tree.heads, tree.labels) == (("costs", "#", "9", "."), (0, 3, 1, 1), None)
    assert tree.punctuation == (False, False, False, True)
    (tree,) = read_treebank(b"Go\tVB\t0\troot\n!\t.\t1\tpunct\n", "a.dp", "xpos")
    assert tree.labels == ("root", "punct")


def test_penn_tags_of_punctuation_count_in_either_column() -> None:
    lines = "1\tGo\t_\tVB\t_\t_\t0\troot\t_\t_\n2\t.\t_\t.\t_\t_\t1\tpunct\t_\t_\n"
    (tree,) = read_treebank(lines.encode(), "a.conllx", "upos")
    assert tree.punctuation == (False, True)


def row(number: int | str, head: int | str) -> str:
    return f"{number}\tw\tw\tX\tX\t_\t{head}\tdep\t_\t_\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.conllu: holds no sentence"),
        (row(1, 0) + "\n" + row(1, 2) + row(2, 1), "a.conllu, sentence 2: a cycle through word 1"),
        (row(1, 0) + row(2, 0), "a.conllu, sentence 1: several roots, words 1 and 2"),
        (row(1, 0) + row(2, 3), "word 2 has the head 3, out of range in a sentence of 2 words"),
        (row(1, 0) + row(2, -1), "word 2 has the head -1, out of range"),
        (row(1, 0) + row(2, "_"), "a word has no head"),
        (row(1, 0) + row(2, "x"), "sentence 1: heads must be whole numbers, found '0 x'"),
        (row(1, 0) + row(3, 1), "word 2 is numbered 3"),
        ("w\tX\t0\n" + 5000 * "w\tX\t1\n", "5,001 words: a sentence has at most 5,000"),
        (row(1, 0).replace("\t_\t_", ""), "has 8 columns: CoNLL has 10"),
        (row(1, 0).rstrip("\n_") + "\n", "the last of the ten columns of 'w' is empty: write _"),
        ("w\tX\t0\nw\tX\t1\tdep\n", "its lines differ in their number of columns"),
        ("w\tX\tzero\n", "heads must be whole numbers, found 'zero'"),
    ],
)
def test_a_sentence_that_is_no_tree_is_named_with_its_file(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"a\.conllu") as caught:
        read_treebank(text.encode(), "a.conllu", "xpos")
    assert message in str(caught.value)


def crossing(heads: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the length and the word of each arc over a word that its head does not dominate."""
    return [
        (abs(word - head), word)
        for word, head in enumerate(heads, 1)
        for between in range(min(word, head) + 1, max(word, head))
        if head and not dominates(heads, head, between)
    ]


@given(st.integers(1, 14), st.integers(0, 10**6))
def test_a_tree_is_projective_if_every_head_dominates_the_words_between(
    count: int, seed: int
) -> None:
    for tree in (any_tree(count, seed), projective(count, seed)):
        assert problem(tree.heads) is None
        covered = not crossing(tree.heads)
        # The arc to the root comes from the left of the sentence: no arc may cross it either.
        assert is_projective(tree.heads) == covered
        lifted = projectivized(tree)
        assert problem(lifted.heads) is None
        assert is_projective(lifted.heads)
        assert (lifted == tree) == covered


def test_the_shortest_of_several_crossing_arcs_is_lifted_first() -> None:
    other_order = 0
    for seed in range(60):
        tree = any_tree(9, seed)
        heads = tree.heads
        while arcs := crossing(heads):
            _, word = min(arcs)
            other_order += max(arcs)[0] > min(arcs)[0]
            heads = (*heads[: word - 1], heads[heads[word - 1] - 1], *heads[word:])
        assert projectivized(tree).heads == heads
    assert other_order > 60


def test_a_treebank_without_tags_in_the_chosen_column_is_refused_naming_the_other(
    tmp_path: Path,
) -> None:
    files = write_splits(tmp_path, (row(1, 0) + row(2, 1)).replace("\tX\tX\t", "\tX\t_\t"))
    with pytest.raises(ValueError, match=r"has no tags in the column xpos: data\.tags=upos reads"):
        load_treebank(section_of(TreebankConfig, "task=ptb", *files))
    assert load_treebank(section_of(TreebankConfig, "task=ptb", *files, "data.tags=upos"))
    without = write_splits(tmp_path, (row(1, 0) + row(2, 1)).replace("\tX\tX\t", "\t_\t_\t"))
    assert load_treebank(section_of(TreebankConfig, "task=ptb", *without)), (
        "of a treebank without any tags"
    )


def test_trees_that_the_oracle_cannot_follow_are_counted_and_stay_in_the_evaluation(
    tmp_path: Path,
) -> None:
    from adanorm.tasks.parsing import Parsing

    crossing = "a\tX\t0\nb\tX\t4\nc\tX\t1\nd\tX\t1\n\n"
    plain = "a\tX\t0\nb\tX\t1\n\n"
    files = write_splits(tmp_path, crossing + 2 * plain)
    skipping = Parsing(parser(*files))
    counts = {
        "sentences": 3,
        "words": 8,
        "non_projective": 1,
        "without_transitions": 1,
        "transitions": 8,
    }
    assert skipping.inspection.counts["train"] == counts
    lifting = Parsing(parser(*files, "data.non_projective=projectivize"))
    transitions = [lifting.inspection.counts[split]["transitions"] for split in ("train", "valid")]
    assert transitions == [16, 8]
    assert [len(skipping.trees[split]) for split in ("valid", "test")] == [3, 3]


def penn(folder: Path, *, skip: str = "") -> Path:
    for section in {"00", "01", "02", "21", "22", "23", "24"} - {skip}:
        text = row(1, 0) + row(2, 1) + int(section) * "\n"
        write_files(folder, {f"{section}/wsj_{section}01.conllu": text})
    return folder


@pytest.mark.parametrize("scale", [(), ("scale=mini",), ("scale=smoke",)])
def test_the_penn_treebank_is_split_by_section_and_its_conversion_is_part_of_the_run(
    tmp_path: Path, scale: tuple[str, ...]
) -> None:
    """This holds at every scale: a smaller one has other trees only if no files are named."""
    folder = penn(tmp_path / "wsj")
    chosen = parser(f"data.path={folder}", "data.conversion=stanford-3.3.0", *scale)
    trees, checksums = load_treebank(chosen.data)  # type: ignore[arg-type]
    assert {split: len(part) for split, part in trees.items()} == {
        "train": 2,
        "valid": 1,
        "test": 1,
    }
    assert list(checksums) == [
        "penn, train, 2 files",
        "penn, valid, 1 files",
        "penn, test, 1 files",
    ]
    assert not chosen.own_data, "it stands beside the paper's number"
    digest = chosen.digest
    assert parser(f"data.path={folder}", "data.conversion=penn2malt", *scale).digest != digest
    moved = folder.rename(tmp_path / "elsewhere")
    assert parser(f"data.path={moved}", "data.conversion=stanford-3.3.0", *scale).digest == digest
    next(moved.rglob("wsj_2101*")).write_text(row(1, 2) + row(2, 0))
    assert parser(f"data.path={moved}", "data.conversion=stanford-3.3.0", *scale).digest != digest


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], "the Penn Treebank is licensed: name the folder of your own"),
        (["data.path={}"], "data.conversion: name the program that converted"),
        (
            ["data.path={}", "data.conversion=x"],
            "holds no file wsj_SSNN.* of the sections for valid",
        ),
        (["data.path={}", "data.train={}/a"], "data.path and data.train exclude each other"),
        (
            ["scale=mini", "data.fold=2", "data.train={}/a"],
            "data.train and data.fold exclude each other",
        ),
        (["data.source=wsj"], "trees come from penn, ptb-sample, craft, craft-3k or synthetic"),
        (["data.vectors={}/v"], "no such file"),
    ],
)
def test_a_treebank_that_cannot_be_had_is_named(
    tmp_path: Path, overrides: list[str], message: str
) -> None:
    folder = penn(tmp_path / "wsj", skip="22")
    with pytest.raises(ValueError, match=r".") as caught:  # noqa: PT012
        chosen = parser(*(override.format(folder) for override in overrides))
        assert chosen.digest
        load_treebank(chosen.data)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_sample_of_the_penn_treebank_is_split_by_file_number_or_into_five_folds(
    tmp_path: Path,
) -> None:
    path = tmp_path / "dependency_treebank.zip"
    with zipfile.ZipFile(path, "w") as file:
        for number in range(1, 200):  # each file has a word, its number
            file.writestr(f"dependency_treebank/wsj_{number:04}.dp", f"{number}\tNN\t0\n")
    whole, *folds = (
        {
            split: [int(tree.words[0]) for tree in trees]
            for split, trees in read_sample(path, fold)[0].items()
        }
        for fold in (None, 1, 2, 3, 4, 5)
    )
    assert whole == {
        "train": [*range(1, 160)],
        "valid": [*range(160, 180)],
        "test": [*range(180, 200)],
    }
    assert sorted(number for fold in folds for number in fold["test"]) == [*range(1, 200)]
    for fold in folds:
        assert sorted(fold["train"] + fold["valid"] + fold["test"]) == [*range(1, 200)]
        assert len(fold["valid"]) == 20
    assert folds[4]["valid"] == [*range(1, 21)], "behind the last file comes the first"


def test_word_vectors_are_read_and_their_width_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("2 3\nthe 1 2 3\nof -1 0.5 2e-1\n")
    vectors, _ = read_vectors(path, {"of": 7, "a": 8}, 3)
    assert {index: vector.tolist() for index, vector in vectors.items()} == {
        7: pytest.approx([-1, 0.5, 0.2])
    }
    with pytest.raises(
        ValueError, match=r"vectors.txt, line 2: 3 numbers, model.embedding_dim is 50"
    ):
        read_vectors(path, {"of": 7}, 50)
    path.write_text(". . 1 2 3\nof 1 2 3\n")
    assert read_vectors(path, {"of": 7, ". .": 8}, 3)[0].keys() == {7, 8}, (
        "GloVe has words with spaces"
    )
    path.write_text("the x y z\n")
    with pytest.raises(ValueError, match=r"line 1: not `word v1 v2"):
        read_vectors(path, {}, 3)


def test_words_and_tags_that_training_lacks_have_ids_of_their_own() -> None:
    training, other = (
        read_treebank(text, "a.dp", "xpos") for text in (b"a\tX\t0\nb\tY\t1\n", b"c\tZ\t0\n")
    )
    vocabulary = Vocabulary.of(training, lowercase=False, min_count=1)
    encoded, encoded_other = vocabulary.encode(training), vocabulary.encode(other)
    ids = [*encoded_other.words, *encoded.words[2:], *encoded_other.tags, *encoded.tags[2:]]
    assert sorted(map(int, ids)) == list(range(len(vocabulary)))
