"""Large treebanks are read once: a second start gives the same trees and transitions from a folder."""

import hashlib
import json
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.data.treebanks import conll
from adanorm.data.treebanks.conll import load_treebank
from adanorm.tasks import parsing
from adanorm.tasks.parsing import Parsing

SENTENCE = "the\tDT\t2\tdet\ncat\tNN\t3\tnsubj\nsleeps\tVBZ\t0\troot\n.\t.\t3\tpunct\n\n"
CROSSING = "a\tDT\t3\tdet\nb\tNN\t4\tdep\nc\tNN\t4\tdep\nd\tVB\t0\troot\n\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def every_treebank_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conll, "LARGE", 0)
    monkeypatch.setattr(parsing, "MANY", 0)


def task_of(folder: Path, *settings: str) -> Parsing:
    """Return the task on three small files in a folder, which are written if they are not there."""
    chosen = ["task=ptb", "scale=paper", "preset=ud", "data.scoring=penn"]
    for split in ("train", "valid", "test"):
        path = folder / f"{split}.tsv"
        if not path.exists():
            path.write_text(SENTENCE + CROSSING + SENTENCE.replace("cat", split))
        chosen.append(f"data.{split}={path}")
    where = f"data.cache={folder / 'cache'}"
    return Parsing(compose_experiment([*chosen, where, "data.min_count=1", *settings]))


def content(task: Parsing) -> tuple[object, ...]:
    steps = {}
    for split, examples in task.examples.items():
        steps[split] = (examples.inputs.tolist(), examples.targets.tolist())
    return task.trees, task.checksums, steps, task.inspection


def kept(folder: Path, kind: str) -> list[Path]:
    folders = (folder / "cache" / "prepared").glob(f"{kind}-*")
    return sorted(path for path in folders if path.is_dir())


@pytest.mark.parametrize("rule", ["skip", "projectivize"])
def test_a_second_start_gives_what_reading_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    setting = f"data.non_projective={rule}"
    first, second = (content(task_of(tmp_path, setting)) for _ in range(2))
    assert [len(kept(tmp_path, kind)) for kind in ("treebank", "transitions")] == [1, 2]
    monkeypatch.setattr(conll, "LARGE", 1 << 30)
    monkeypatch.setattr(parsing, "MANY", 1 << 30)
    small = content(task_of(tmp_path, setting))
    assert first == second == small


def test_a_second_start_reads_the_folder_and_not_the_files(tmp_path: Path) -> None:
    task_of(tmp_path)
    (folder,) = kept(tmp_path, "treebank")
    text = (folder / "trees.json").read_text().replace("sleeps", "dreams")
    (folder / "trees.json").write_text(text)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    (folder / "checksums.json").write_text(json.dumps({"trees.json": checksum}))
    assert task_of(tmp_path).trees["train"][0].words == ("the", "cat", "dreams", ".")


@pytest.mark.parametrize("kind", ["treebank", "transitions"])
def test_a_damaged_folder_is_made_again(tmp_path: Path, capsys: Capture, kind: str) -> None:
    before = content(task_of(tmp_path))
    capsys.readouterr()
    for folder in kept(tmp_path, kind):
        path = max(folder.iterdir(), key=lambda path: path.stat().st_size)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert content(task_of(tmp_path)) == before
    assert "has been changed: the corpus is prepared again" in capsys.readouterr().out


def test_another_text_or_setting_has_its_own_folder(tmp_path: Path) -> None:
    content(task_of(tmp_path))
    content(task_of(tmp_path, "data.min_count=2"))
    assert [len(kept(tmp_path, kind)) for kind in ("treebank", "transitions")] == [1, 4]
    train = tmp_path / "train.tsv"
    train.write_text(train.read_text().replace("sleeps", "wakes"))
    assert task_of(tmp_path).trees["train"][0].words == ("the", "cat", "wakes", ".")
    load_treebank(task_of(tmp_path, "data.lowercase=false")._data)
    assert len(kept(tmp_path, "treebank")) == 2


def test_where_nothing_can_be_written_the_treebank_is_read_each_time(tmp_path: Path) -> None:
    before = content(task_of(tmp_path))
    (tmp_path / "file").write_text("no folder")
    assert content(task_of(tmp_path, f"data.cache={tmp_path / 'file'}")) == before


def test_a_wrong_treebank_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("a\tDT\t7\tdet\n")
    with pytest.raises(ValueError, match=r"test\.tsv, sentence 1: word 1 has the head 7"):
        task_of(tmp_path)
    assert not [*(tmp_path / "cache").rglob("*.json")]
