"""A run is named by the content of its files: a file that changes before it is read is refused."""

import gzip
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from adanorm import tasks
from adanorm.config.compose import compose_experiment
from adanorm.data.translation.preparation import prepared_corpus
from tests.data.translation.test_pairs import data_of
from tests.faults.data_files import DATA, write_good_files

Change = Callable[[bytes], bytes]  # from a good file to another good file


def assert_refused(settings: list[str], path: Path, change: Change) -> None:
    """Assert that a run is refused after the change, while one that is named after it is not."""
    run = compose_experiment(settings)
    assert run.digest
    assert tasks.build(run).checksums
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(
        ValueError, match=r"the file for \S+ was changed after the run was named by its"
    ):
        tasks.build(run)
    assert tasks.build(compose_experiment(settings))


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("sentences", "test.tsv", lambda content: content * 2),
        ("trees", "train.conllu", lambda content: content * 2),
        ("bytes", "text", lambda content: content[:-1] + b"\n"),
        (
            "images",
            "t10k-images-idx3-ubyte.gz",
            lambda c: gzip.compress(gzip.decompress(c)[:-1] + b"\1"),
        ),
    ],
)
def test_a_file_that_changes_after_the_run_was_named_is_refused(
    tmp_path: Path, kind: str, name: str, change: Change
) -> None:
    write_good_files(kind, tmp_path)
    assert_refused(["scale=smoke", *DATA[kind].arguments(tmp_path)], tmp_path / name, change)


def test_word_vectors_that_change_are_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("the0 " + " ".join(["1"] * 50) + "\n")
    settings = ["task=ptb", "scale=smoke", f"data.vectors={path}", "model.embedding_dim=50"]
    assert_refused(settings, path, lambda content: content.replace(b" 1", b" 2"))


@pytest.mark.needs("fairseq")
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dict.de.txt", lambda lines: b"\n".join(reversed(lines.split(b"\n")[:-1])) + b"\n"),
        ("valid.de-en.en.bin", lambda ids: ids[2:4] + ids[:2] + ids[4:]),
    ],
)
def test_a_data_bin_that_changes_is_refused_too(tmp_path: Path, name: str, change: Change) -> None:
    folder, _ = prepared_corpus(data_of(f"data.cache={tmp_path}"))
    assert_refused(["task=de-en", "scale=smoke", f"data.path={folder}"], folder / name, change)


@pytest.mark.needs("fairseq")
@pytest.mark.parametrize(("step", "is_refused"), [("read_corpus", True), ("learn_bpe", False)])
def test_a_corpus_that_changes_before_its_raw_lines_are_read_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_refused: bool
) -> None:
    """They are read once: what happens to the files later does not matter."""
    from adanorm.data.translation import preparation

    write_good_files("pairs", tmp_path)
    settings = [
        argument for argument in DATA["pairs"].arguments(tmp_path) if argument != "task=de-en"
    ]
    settings += [f"data.cache={tmp_path / 'cache'}", "data.tokenize=true", "data.bpe_merges=5"]
    before, original = (tmp_path / "test.en").read_bytes(), getattr(preparation, step)

    def edit_and_go_on(*arguments: object) -> object:
        (tmp_path / "test.en").write_bytes(before[::-1].lstrip() + b"\n")
        return original(*arguments)

    refusal = pytest.raises(ValueError, match=r"test\.en: was changed while it was read")
    with monkeypatch.context() as patch, refusal if is_refused else nullcontext():
        patch.setattr(preparation, step, edit_and_go_on)
        prepared_corpus(data_of(*settings), processes=1)
    folders = [
        path for path in (tmp_path / "cache" / "prepared").iterdir() if path.suffix != ".lock"
    ]
    assert len(folders) == (0 if is_refused else 1)
    (tmp_path / "test.en").write_bytes(before)
    folder, _ = prepared_corpus(data_of(*settings), processes=1)
    assert is_refused or folders == [folder]
    assert (folder / "test.text.en").read_bytes() == before
