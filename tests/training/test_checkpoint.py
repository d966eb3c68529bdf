"""Checkpoints and trained weights are trusted only as they were written."""

import hashlib
import pickle
import resource
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors import safe_open

from adanorm.training import state as checkpoint
from adanorm.training.state import BrokenError
from tests.faults.spoiling import OF_BYTES, REMOVED, spoil

CPU = torch.device("cpu")


@pytest.mark.parametrize("how", [how for how in OF_BYTES if how not in ("zeros", REMOVED)])
def test_a_corrupted_checkpoint_is_refused_by_name(tmp_path: Path, how: str) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"weights": torch.arange(1000.0), "update": 3})
    loaded = checkpoint.load(path, CPU)
    assert loaded["update"] == 3
    assert torch.equal(loaded["weights"], torch.arange(1000.0))
    spoil(path, how, Random(0))
    with pytest.raises(BrokenError, match=r"checkpoint.pt: corrupted or cut off"):
        checkpoint.load(path, CPU)


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, (2 << 20) + 1])
def test_a_checksum_is_of_all_that_stands_before_it(tmp_path: Path, size: int) -> None:
    path, content = tmp_path / "checkpoint.pt", bytes(size)
    path.write_bytes(content + f"\nsha256 {hashlib.sha256(content).hexdigest()}\n".encode())
    checkpoint.verify(path)
    path.write_bytes(content + f"\nsha256 {hashlib.sha256(content + b'x').hexdigest()}\n".encode())
    with pytest.raises(BrokenError, match=r"checkpoint.pt: corrupted"):
        checkpoint.verify(path)


def test_a_full_disk_is_named_and_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"update": 3})
    limit, whole = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, whole))  # stands in for the disk
    try:
        with pytest.raises(OSError, match=r"File too large: '.*checkpoint.pt'"):
            checkpoint.save(path, {"weights": torch.arange(10_000.0), "update": 4})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, whole))
    assert checkpoint.load(path, CPU) == {"update": 3}
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


class Code:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("executed",)


def test_a_checkpoint_with_code_in_it_is_refused_even_with_a_right_checksum(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"weights": Code()})
    with pytest.raises(BrokenError, match=r"checkpoint.pt: not a checkpoint of this suite"):
        checkpoint.load(path, CPU)
    assert capfd.readouterr().out == ""
    assert pickle.loads(pickle.dumps(Code())) is None, "it would have been"
    assert "executed" in capfd.readouterr().out


WEIGHTS = {
    "gain": torch.tensor([1.0, -2.0]),
    "matrix": torch.arange(6.0).view(2, 3).T,
    "seen": torch.tensor(7),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    checkpoint.save_weights(path, WEIGHTS, "96d6814b")
    return path


def test_weights_are_read_as_they_were_written_and_name_their_run(path: Path) -> None:
    loaded = checkpoint.load_weights(path, "96d6814b")
    assert {name: tensor.tolist() for name, tensor in loaded.items()} == {
        name: tensor.tolist() for name, tensor in WEIGHTS.items()
    }
    with safe_open(path, "pt") as file:  # as any other program would
        assert torch.equal(file.get_tensor("matrix"), WEIGHTS["matrix"])
        assert '"run": "96d6814b"' in file.metadata()["adanorm"]


def test_equal_weights_are_equal_files(path: Path) -> None:
    again = path.with_name("again")
    checkpoint.save_weights(again, dict(reversed(WEIGHTS.items())), "96d6814b")
    assert again.read_bytes() == path.read_bytes()


def test_weights_of_another_run_are_refused(path: Path) -> None:
    with pytest.raises(
        BrokenError, match=r"weights.safetensors: of the run 96d6814b, not of 00000000"
    ):
        checkpoint.load_weights(path, "00000000")


def test_a_changed_bit_a_missing_end_or_a_deep_header_is_noticed_in_one_line(path: Path) -> None:
    whole, deep = path.read_bytes(), b"[" * 100_000
    spoiled = [whole[:-1], whole[:20], b"", len(deep).to_bytes(8, "little") + deep]
    spoiled += [whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :] for n in range(len(whole))]
    for content in spoiled:
        path.write_bytes(content)
        if (loaded := _read(path)) is not None:  # a changed blank of the header means nothing
            assert all(torch.equal(loaded[name], tensor) for name, tensor in WEIGHTS.items())


def _read(path: Path) -> dict[str, torch.Tensor] | None:
    """Return the weights, or None where they are refused in a line that names the file."""
    try:
        return checkpoint.load_weights(path, "96d6814b")
    except BrokenError as error:
        return None if str(error).startswith(f"{path}: ") and "\n" not in str(error) else {}
