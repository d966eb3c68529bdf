"""The language model's evaluation, against one stream at a time, and its data."""

import gzip
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import SPLITS, ByteTextConfig
from adanorm.data.byte_streams import IGNORED, Segments, load_streams
from adanorm.tasks.char_lm import CharLm, segment_options
from tests.conftest import Command
from tests.networks import smoke_run


def built(*overrides: str, cell: str = "") -> tuple[CharLm, nn.Module]:
    """Return the smoke task and a model far from uniform predictions: Transformer-XL, or a recurrent one."""
    task, model = smoke_run(CharLm, f"task=enwik8{cell}", *overrides)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not cell or name == "embedding.weight":
                parameter.mul_(30 if cell else 3)
    return task, model


def stream_bpc(
    task: CharLm, model: nn.Module, split: str, count: int, length: int, **options: Any
) -> float:
    """Return bits per byte, one stream and one segment at a time; other tests cover the equations."""
    text: list[int] = task.corpus.splits[split].tolist()
    stream_length, bits = math.ceil(len(text) / count), 0.0
    for start in range(0, len(text), stream_length):
        target = text[start : start + stream_length]
        inputs = [text[start - 1] if start else task.corpus.before(split), *target[:-1]]
        memory: list[Tensor] = []
        for offset in range(0, len(target), length):
            part = slice(offset, offset + length)
            logits, memory = model(torch.tensor([inputs[part]]), memory, **options)
            chosen = (
                logits[0].double().log_softmax(1).gather(1, torch.tensor(target[part])[:, None])
            )
            bits -= chosen.sum().item() / math.log(2)
    return bits / len(text)


@pytest.mark.parametrize(
    ("split", "length", "options"),
    [
        ("test", 8, {"memory": 12, "clamp": 5, "same_length": True}),
        ("test", 7, {"memory": 7}),
        ("test", 5, {"memory": 30, "clamp": 9}),
        ("valid", 5, {"memory": 9}),
    ],
)
@pytest.mark.parametrize("count", [1, 3])
def test_bits_per_character_are_those_of_one_stream_at_a_time(
    split: str, length: int, options: dict[str, Any], count: int
) -> None:
    settings = ", ".join(f"{key}: {value}" for key, value in {"length": length, **options}.items())
    overrides = f"segments.{split}={{{settings}}}", f"data.evaluation_streams={count}"
    task, model = built(*overrides, "data.fractions=[0.96,0.02,0.02]")
    reading = segment_options(getattr(task._segments, split))
    expected = stream_bpc(
        task,
        model,
        split,
        count,
        length,
        **reading,
    )
    assert task.evaluate(model, split).metrics["bpc"] == pytest.approx(expected, abs=1e-5)
    assert expected > 4, "the model says something"


@pytest.mark.parametrize(("count", "length"), [(1, 8), (3, 7)])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_recurrent_model_scores_every_byte_after_all_before_it_in_its_stream(
    cell: str, count: int, length: int
) -> None:
    overrides = f"data.evaluation_streams={count}", f"segments.test.length={length}"
    task, model = built(*overrides, cell=f"-{cell}")
    expected = stream_bpc(task, model, "test", count, 1_000_000)  # one segment, one stream
    bpc = task.evaluate(model, "test").metrics["bpc"]
    assert bpc == pytest.approx(expected, abs=1e-5)
    assert abs(bpc - 8) > 0.2, "the model says something"


@pytest.mark.parametrize(
    ("streams_", "length"), [(1, 1), (1, 7), (3, 4), (5, 100), (7, 13), (50, 3)]
)
def test_every_byte_is_a_target_once_after_the_byte_before_it(streams_: int, length: int) -> None:
    text = torch.randint(
        256,
        (37,),
        dtype=torch.uint8,
        generator=torch.Generator().manual_seed(0),
    )
    pairs: list[tuple[int, int]] = []
    segments = Segments(text, 99, streams_, length)
    for index, batch in enumerate(segments):
        counted = batch.target != IGNORED
        assert batch.units == int(counted.sum())
        pairs += zip(batch.segment[counted].tolist(), batch.target[counted].tolist(), strict=True)
        parts = [segments.part(index, rank, 2) for rank in range(2)]
        assert sum(part.units for part in parts) == batch.units
        # Memory pinned for a GPU would, for a view, also hold all that lies between its rows.
        assert all(
            x.is_contiguous() for part in (batch, *parts) for x in (part.segment, part.target)
        )
    whole = [99, *text.tolist()]
    assert sorted(pairs) == sorted(pairwise(whole))


def test_streams_are_read_on_from_segment_to_segment() -> None:
    task, _ = built()
    batches = list(task.train_batches(0))
    joined = torch.cat([batch.target for batch in batches], 1)
    text = task.corpus.splits["train"]
    assert torch.equal(joined.flatten(), text[: joined.numel()].long())
    assert [batch.first for batch in batches] == [True] + [False] * (len(batches) - 1)


def test_training_carries_a_memory_of_the_set_length_and_starts_an_epoch_without_one() -> None:
    task, model = built("segments.train={length: 8, memory: 24}")
    carried: Sequence[Tensor] = ()
    memory: list[Tensor] = []
    for batch, _ in zip(task.train_batches(0), range(6), strict=False):
        logits, memory = model(batch.segment, memory, remember=24)
        summed = F.cross_entropy(logits.flatten(0, 1), batch.target.flatten(), reduction="sum")
        loss = task.loss(model, batch, carried)
        assert loss.total.item() == pytest.approx(summed.item(), rel=1e-6)
        carried = loss.carried
    first = next(iter(task.train_batches(0)))
    assert task.loss(model, first, carried).total.item() == task.loss(model, first).total.item()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            bytes(range(60)),
            r"54 bytes to train on, shorter than one segment of every stream \(4 x 16\)",
        ),
        (b"abc", r"3 bytes in parts .* leave valid empty"),
        (b"a" * 20_000, r"short\.txt: the training part has one byte, 97: nothing to learn"),
    ],
)
def test_a_text_too_short_or_of_one_byte_is_named(
    tmp_path: Path, text: bytes, message: str
) -> None:
    (tmp_path / "short.txt").write_bytes(text)
    with pytest.raises(ValueError, match=message):
        built(f"data.path={tmp_path / 'short.txt'}")


def test_any_file_of_bytes_is_read_as_it_is(tmp_path: Path) -> None:
    content = bytes(range(256)) * 20
    (tmp_path / "own.bin").write_bytes(content)
    (tmp_path / "own.gz").write_bytes(gzip.compress(content))
    for name in ("own.bin", "own.gz"):
        corpus = built(f"data.path={tmp_path / name}")[0].corpus
        assert b"".join(bytes(corpus.splits[split].tolist()) for split in SPLITS) == content
        assert corpus.before("valid") == int(corpus.splits["train"][-1])


def test_the_mini_text_is_the_first_million_bytes(mirror: Path) -> None:
    data = compose_experiment(["task=enwik8", "scale=mini", f"data.mirror={mirror}"]).data
    assert isinstance(data, ByteTextConfig)
    corpus = load_streams(data)
    assert [len(corpus.splits[split]) for split in SPLITS] == [900_000, 50_000, 50_000]
    assert bytes(corpus.splits["train"][:10].tolist()) == b"<mediawiki"


def test_a_sample_is_drawn_from_a_run_made_here(tmp_path: Path, command: Command) -> None:
    base = ("task=enwik8", "scale=smoke", "norm=adanorm", f"runs={tmp_path}")
    assert command("run", *base).returncode == 0
    drawn = [
        command(
            "predict",
            *base,
            "length=40",
            f"draw={draw}",
        )
        for draw in (1, 1, 2)
    ]
    first, again, other = (done.stdout for done in drawn)
    assert first.startswith("The ")
    assert 4 + 40 // 4 < len(first) <= 4 + 40 + 1
    assert first == again != other


def test_a_low_temperature_takes_the_likeliest_byte() -> None:
    task, model = built()
    (line,) = task.predict(
        model,
        ["the cat"],
        length=5,
        temperature=0.001,
        draw=0,
    )
    text = list(b"the cat")
    for _ in range(5):
        logits, _ = model(torch.tensor([text]), [], remember=32)
        text.append(int(logits[0, -1].argmax()))
    assert line == bytes(text).decode("utf-8", "replace") + "\n"
