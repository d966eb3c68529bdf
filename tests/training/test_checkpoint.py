"""Checkpoints that are believed only as they were written."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from adanorm.training import checkpoint
from adanorm.training.checkpoint import BrokenError

CPU = torch.device("cpu")


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "broken",
    [
        flipped,
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: b"garbage" * 100,
        lambda content: bytes(len(content)),
        lambda content: content + b"x",
    ],
    ids=["one bit", "cut by a byte", "cut in half", "empty", "garbage", "zeros", "longer"],
)
def test_a_corrupted_checkpoint_is_refused_with_its_name(
    tmp_path: Path, broken: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"weights": torch.arange(1000.0), "update": 3})
    found = checkpoint.load(path, CPU)
    assert found is not None
    assert found["update"] == 3
    assert torch.equal(found["weights"], torch.arange(1000.0))
    path.write_bytes(broken(path.read_bytes()))
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


class Code:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("executed",)


def test_a_checkpoint_with_code_in_it_is_refused_even_with_a_right_checksum(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"weights": Code()})
    with pytest.raises(BrokenError, match=r"checkpoint.pt: no checkpoint of this suite"):
        checkpoint.load(path, CPU)
    assert capfd.readouterr().out == ""
    assert pickle.loads(pickle.dumps(Code())) is None, "it would have been"
    assert "executed" in capfd.readouterr().out
