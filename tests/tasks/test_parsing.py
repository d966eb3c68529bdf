"""The parser's scores against other evaluators, its loss, and the `parse` command."""

import io
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path

import numpy as np
import pytest
import regex
import torch
from conllu import parse_incr
from torch.nn import functional as F

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import SPLITS
from adanorm.data.treebanks import conll
from adanorm.data.treebanks.conll import read_treebank
from adanorm.data.treebanks.trees import Tree, attachment
from adanorm.records import reader
from adanorm.records.by_example import by_example, score
from adanorm.tasks.parsing import Parsing
from tests import plain_parser
from tests.conftest import Command
from tests.data.sections import write_splits
from tests.data.treebanks.test_conll import UD
from tests.networks import smoke_run
from tests.trees import projective
from tests.verdicts import not_none

LABELS = ("nsubj", "nsubj:pass", "obj", "root")


built = partial(smoke_run, Parsing, "task=ptb")


def ud_tree(count: int, seed: int) -> Tree:
    """A random tree with the label `root` at the root's word alone, as that evaluation wants it."""
    tree = projective(count, seed, labels=LABELS)
    labels = ["dep" if label == "root" else label for label in tree.labels or ()]
    labels[tree.heads.index(0)] = "root"
    return replace(tree, labels=tuple(labels))


def conllu(tree: Tree) -> str:
    """A tree in CoNLL-U; every second word is punctuation, by its Penn tag, its universal tag or both."""
    tags = ("X\tNN", "PUNCT\t.", "X\tNN", "X\t:", "X\tNN", "PUNCT\tNN")
    rows = enumerate(
        zip(
            tree.words,
            tree.heads,
            tree.labels or (),
            strict=True,
        ),
        1,
    )
    lines = (
        f"{n}\t{word}\t_\t{tags[n % 6]}\t_\t{head}\t{label}\t_\t_\n"
        for n, (word, head, label) in rows
    )
    return "".join([*lines, "\n"])


def test_scores_of_universal_dependencies_are_those_of_the_official_script(tmp_path: Path) -> None:
    gold = [ud_tree(count, count) for count in range(1, 30)]
    parsed = [replace(ud_tree(len(tree), 99 - len(tree)), words=tree.words) for tree in gold]
    for name, trees in (("gold", gold), ("found", parsed)):
        (tmp_path / name).write_text("".join(map(conllu, trees)))
    start = "from udtools.cli import main_eval; main_eval()"
    script = [
        sys.executable,
        "-c",
        start,
        "--verbose",
        *(str(tmp_path / name) for name in ("gold", "found")),
    ]
    printed = subprocess.run(
        script,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = {row[0].strip(): row for row in (line.split("|") for line in printed.splitlines())}
    gold_read = read_treebank((tmp_path / "gold").read_bytes(), "gold", "upos")
    assert sum(map(sum, (tree.punctuation for tree in gold_read))) > 100
    metrics, signatures = attachment(
        gold_read, [(list(tree.heads), list(tree.labels or ())) for tree in parsed], "ud"
    )
    assert 5 < metrics["las"] < metrics["uas"] < 95
    for name in ("UAS", "LAS"):
        assert f"{metrics[name.lower()]:.2f}" == rows[name][3].strip()
        assert metrics[name.lower()] == metrics[f"{name.lower()}_all"]
        assert signatures[name.lower()].startswith("every word counts; labels without subtypes")
        assert signatures[name.lower()].endswith("435 of 435 words")


def test_scores_are_those_of_eval07_token_for_token() -> None:
    words = [
        "Mr.",
        "--",
        "said",
        ",",
        "$",
        "5",
        "%",
        "``",
        "...",
        "-LRB-",
        "&",
        "#",
        "«",
        "x.",
        "_",
    ]
    heads = [((index * 7) % 5) + 1 for index in range(len(words))]
    parsed = [((index * 3) % 5) + 1 for index in range(len(words))]
    tree = Tree(
        tuple(words),
        ("X",) * 15,
        tuple(heads),
        ("a",) * 15,
        (False,) * 15,
    )
    labels = ["a" if index % 2 else "b" for index in range(15)]
    counted = [not regex.fullmatch(r"\p{P}+", word) for word in words]
    assert counted.count(False) == 8
    uas = [
        a == b
        for a, b, counts in zip(
            heads,
            parsed,
            counted,
            strict=True,
        )
        if counts
    ]
    las = [r and c == "a" for r, c in zip(uas, compress(labels, counted), strict=True)]
    metrics, signatures = attachment([tree], [(parsed, labels)], "eval07")
    assert metrics["uas"] == pytest.approx(100 * sum(uas) / len(uas))
    assert metrics["las"] == pytest.approx(100 * sum(las) / len(las))
    assert "7 of 15 words" in signatures["uas"]


def test_words_with_penn_punctuation_tags_count_only_in_scores_over_all_words() -> None:
    rows = b"Go\tVB\t0\n%\tNN\t1\n-LRB-\t-LRB-\t1\n--\t:\t1\n.\t.\t1\n\nGo\tVB\t0\n.\t.\t1\n"
    tree, alone = read_treebank(rows, "a.dp", "xpos")
    scores = attachment([tree], [([0, 1, 2, 3, 4], ["_"] * 5)], "penn")[0]
    assert scores == {"uas": pytest.approx(100 * 2 / 3), "uas_all": pytest.approx(100 * 2 / 5)}
    assert attachment([alone], [([0, 2], ["_"] * 2)], "penn")[0] == {"uas": 100, "uas_all": 50}
    labelled = replace(projective(3, 0), heads=(0, 1, 1), labels=("root", "prt", "punct"))
    labelled = replace(labelled, punctuation=(False, False, True))
    unlabelled = attachment([labelled], [([0, 1, 2], ["_"] * 3)], "penn")[0]
    assert unlabelled.keys() == {"uas", "uas_all"}, "a parser that gives no labels has no LAS"
    scores = attachment([labelled], [([0, 1, 2], ["root", "obj", "punct"])], "penn")[0]
    assert scores == pytest.approx({"uas": 100, "uas_all": 200 / 3, "las": 50, "las_all": 100 / 3})


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_split_in_which_no_word_counts_is_refused(tmp_path: Path, split: str) -> None:
    texts = dict.fromkeys(SPLITS, "w1\tNN\t0\nw2\tVB\t1\n") | {split: "w1\t.\t0\nw2\t:\t1\n"}
    with pytest.raises(
        ValueError, match=rf"^{split}: data\.scoring=penn leaves out every word as punct"
    ):
        built(*write_splits(tmp_path, texts))


def test_greedy_parsing_is_that_of_plain_python_one_sentence_at_a_time() -> None:
    task, model = built()
    model = model.double()  # no ties that rounding could break

    def scores(ids: list[int]) -> list[float]:
        with torch.inference_mode():
            logits: list[float] = model(torch.tensor([ids]))[0].tolist()
        return logits

    trees = task.trees["test"]
    ours = [heads for heads, _ in task.parse(model, trees)]
    assert ours == [plain_parser.parse(tree, task.vocabulary, scores) for tree in trees]
    assert [tuple(heads) for heads in ours] != [tree.heads for tree in trees]


def test_a_validation_loss_is_the_mean_over_transitions_in_any_batches(tmp_path: Path) -> None:
    short, long = "go\tX\t0\n\n", "go\tX\t0\nthe\tY\t3\nend\tZ\t1\n\n"
    texts = {"train": short + long, "valid": 700 * long + 30 * short, "test": short}
    task, model = built(*write_splits(tmp_path, texts))
    transitions = task.examples["valid"]
    assert len(transitions) == 2 * (3 * 700 + 30)
    with torch.inference_mode():
        mean = F.cross_entropy(
            model(transitions.inputs).double(), transitions.targets.long()
        ).item()
    assert task.evaluate(model, "valid").metrics["loss"] == pytest.approx(mean, rel=1e-5)


def test_training_starts_from_given_vectors(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("noun1 1 2 3 4 5 6 7 8\nelsewhere 0 0 0 0 0 0 0 0\n")
    vectors = f"data.vectors={tmp_path / 'v.txt'}"
    task, model = built(vectors)
    index = task.vocabulary.word_ids["noun1"]
    assert model.get_parameter("embedding.weight")[index].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert task.inspection.counts["vectors"] == {"words": len(task.vocabulary.words), "found": 1}
    smoke = ["task=ptb", "scale=smoke"]
    assert compose_experiment([*smoke, vectors]).digest != compose_experiment(smoke).digest


def test_scores_by_sentence_average_to_the_score_and_leave_punctuation_out() -> None:
    task, model = built()
    evaluation = task.evaluate(model, "test")
    counts = np.array(task.counted(evaluation.outputs)["uas"])
    assert score("uas", counts) == pytest.approx(evaluation.metrics["uas"])
    assert by_example("uas", counts).mean() == pytest.approx(evaluation.metrics["uas"])
    words = [len(tree) - sum(tree.punctuation) for tree in task.trees["test"]]
    assert sum(words) < sum(map(len, task.trees["test"])), "some words are punctuation"
    outputs = [" ".join(map(str, tree.heads)) for tree in task.trees["test"]]
    assert task.counted(outputs)["uas"] == [[n, n] for n in words]


def test_a_parser_of_ones_own_treebank_writes_heads_and_labels(
    tmp_path: Path, command: Command
) -> None:
    files = write_splits(tmp_path, (UD + "\n") * 20)
    chosen = [
        "task=ptb",
        "norm=adanorm",
        "scale=smoke",
        "preset=ud",
        *files,
        f"runs={tmp_path / 'runs'}",
    ]
    chosen += ["training.max_epochs=40", "training.lr=0.01"]
    trained = command("run", *chosen)
    assert trained.returncode == 0, trained.stderr
    folder = next((tmp_path / "runs").glob("ptb/adanorm/*"))
    result = not_none(reader.record(folder).values)
    assert result["test"]["las_all"] == 100, "two sentences, learned by heart"
    assert result["prepared"]["train"]["transitions"] == 20 * 14
    assert "CoNLL 2018" in result["signatures"]["las"]
    bare = UD.replace("\t4\tnsubj", "\t_\t_").replace("\t0\troot", "\t_\t_") + "\n# newdoc\n" + UD
    (tmp_path / "bare.conllu").write_text(bare)
    done = command(
        "predict", *chosen, f"input={tmp_path / 'bare.conllu'}", f"output={tmp_path / 'out'}"
    )
    assert done.returncode == 0, done.stderr
    assert "4:advmod" in UD
    expected = (UD + "\n# newdoc\n" + UD).replace("4:advmod", "_")
    assert (tmp_path / "out").read_text() == expected, "no column keeps another parse"
    assert len(list(parse_incr((tmp_path / "out").open()))) == 4


ROWS = ("1\tthe\tthe\tDET\tDT\t_\t_\t_\t_\tSpace=1", "2\tdog\tdog\tNOUN\tNN\t_\t1\tx\t0:y\t_")


@pytest.mark.parametrize(
    "lines",
    [
        ("# note = one", "# note = two", "# free", "# free", "# text = a  b ", ROWS[0], "# in", ROWS[1], ""),
        (*ROWS, ""),  # no line end behind the last line
        (*ROWS, "", "# behind the last sentence"),
        ("", "", "# first", *ROWS, "", "", "  ", *ROWS, "", ""),
        ("1-2\tthedog" + "\t_" * 8, *ROWS, "2.1\tso" + "\t_" * 7 + "\t\u2028", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_parse_changes_no_byte_outside_the_columns_that_it_fills(
    lines: tuple[str, ...], end: str
) -> None:
    text = end.join(lines)
    of_lines = partial(conll.sentence_of, tags="xpos")
    sentences = list(conll.each_sentence(io.StringIO(text, newline="\n"), "a", of_lines))
    task, model = built()
    ours = "".join(task.predict(model, sentences))
    filled = re.compile(r"(?m)^(\d+\t.*\t)(\d|_)\t(x|_|dep|root)\t(0:y|_)(\t[^\t]*)$")
    assert filled.sub(r"\1\5", ours) == filled.sub(r"\1\5", text)
    assert {match[4] for match in filled.finditer(ours)} == {"_"}
    assert "_" not in {match[2] for match in filled.finditer(ours)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task=rt", "input={}/empty"], "task=rt predicts no text: choose a translation task, a"),
        (["task=ptb", "input={}/a"], "no tags in the column xpos, which the parser was trained on"),
        (["task=ptb", "input={}/empty"], "holds no weights.safetensors: make the run here first"),
    ],
)
def test_parse_says_what_is_wrong_in_one_line(
    tmp_path: Path, command: Command, arguments: list[str], message: str
) -> None:
    (tmp_path / "a").write_text("1\tGo\t_\tVERB\t_\t_\t_\t_\t_\t_\n")
    (tmp_path / "empty").touch()
    settings = [argument.format(tmp_path) for argument in arguments]
    done = command("predict", *settings, "norm=none", "scale=smoke", f"runs={tmp_path}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
