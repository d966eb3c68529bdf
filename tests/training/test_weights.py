"""Trained weights: what is written is read, whole, of the run that wrote it, and by others' tools."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from adanorm.training import weights
from adanorm.training.checkpoint import BrokenError

WEIGHTS = {
    "gain": torch.tensor([1.0, -2.0]),
    "matrix": torch.arange(6.0).view(2, 3).T,
    "seen": torch.tensor(7),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    weights.save(path, WEIGHTS, "96d6814b")
    return path


def test_weights_are_read_as_they_were_written_and_name_their_run(path: Path) -> None:
    found = weights.load(path, "96d6814b")
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        name: tensor.tolist() for name, tensor in WEIGHTS.items()
    }
    with safe_open(path, "pt") as file:  # as any other program would
        assert torch.equal(file.get_tensor("matrix"), WEIGHTS["matrix"])
        assert '"run": "96d6814b"' in file.metadata()["adanorm"]


def test_equal_weights_are_equal_files(path: Path) -> None:
    again = path.with_name("again")
    weights.save(again, dict(reversed(WEIGHTS.items())), "96d6814b")
    assert again.read_bytes() == path.read_bytes()


def test_weights_of_another_run_are_refused(path: Path) -> None:
    with pytest.raises(BrokenError, match=r"weights.safetensors: of the run 96d6814b, not of 00000000"):
        weights.load(path, "00000000")


def test_a_changed_bit_anywhere_a_missing_end_or_a_deep_header_is_noticed_in_a_line(path: Path) -> None:
    whole, deep = path.read_bytes(), b"[" * 100_000
    spoiled = [whole[:-1], whole[:20], b"", len(deep).to_bytes(8, "little") + deep]
    spoiled += [_flipped(whole, place) for place in range(len(whole))]
    for content in spoiled:
        path.write_bytes(content)
        if (found := _read(path)) is not None:  # blanks of the header mean nothing
            assert all(torch.equal(found[name], tensor) for name, tensor in WEIGHTS.items())


def _read(path: Path) -> dict[str, torch.Tensor] | None:
    """Return the weights, or None where they are refused in a line that names the file."""
    try:
        return weights.load(path, "96d6814b")
    except BrokenError as error:
        return None if str(error).startswith(f"{path}: ") and "\n" not in str(error) else {}


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
