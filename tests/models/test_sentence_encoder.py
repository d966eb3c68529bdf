"""The encoder's settings that the paper leaves open."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from adanorm.config.experiment import Experiment
from adanorm.models.sentence_encoder import PADDING, EncoderLayer, SentenceEncoder
from adanorm.runs.setup import prepare

Smoke = Callable[..., Experiment]


def test_glorots_initialization_fills_its_interval_and_leaves_padding_and_biases_at_zero(
    smoke: Smoke,
) -> None:
    model = prepare(smoke("model.init=xavier", "model.dim=64", "model.ffn_dim=256")).model
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            bound = math.sqrt(6 / sum(weight.shape))
            assert 0.9 * bound < weight.abs().max() <= bound, name
    assert not model.get_parameter("embedding.weight")[PADDING].any()
    assert torch.equal(
        model.get_parameter("layers.0.ffn_input.bias"),
        prepare(smoke("model.dim=64", "model.ffn_dim=256")).model.get_parameter("layers.0.ffn_input.bias"),
    )


def test_dropout_in_attention_is_of_training_alone(smoke: Smoke) -> None:
    prepared = prepare(smoke("model.attention_dropout=0.5", "model.dropout=0"))
    tokens = torch.tensor([[3, 4, 5, 6, 7, 8]])
    model = prepared.model.eval()
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))


def test_label_smoothing_adds_the_mean_loss_of_all_labels(smoke: Smoke) -> None:
    smoothed = prepare(smoke("training.label_smoothing=0.1"))
    (batch, *_) = smoothed.task.train_batches(0)
    log_p = smoothed.model.eval()(batch.inputs).log_softmax(1).double()
    at_label = -log_p[torch.arange(len(batch.targets)), batch.targets]
    expected = (0.9 * at_label - 0.1 * log_p.mean(1)).sum()
    torch.testing.assert_close(smoothed.task.loss(smoothed.model, batch).total.double(), expected)


def test_a_score_of_classification_has_the_plain_loss_however_training_smooths_it(smoke: Smoke) -> None:
    prepared = prepare(smoke("training.label_smoothing=0.3"))
    task, model = prepared.task, prepared.model.eval()
    valid = task.splits.valid  # type: ignore[attr-defined]
    nats = [
        -model(torch.from_numpy(sentence)[None]).log_softmax(1)[0, target].item()
        for sentence, target in zip(valid.sentences, valid.targets, strict=True)
    ]
    assert task.evaluate(model, "valid").metrics["loss"] == pytest.approx(sum(nats) / 32, rel=1e-5)


@pytest.mark.parametrize("pre_norm", [True, False])
def test_the_encoder_is_that_of_vaswani_2017_in_torchs_layers(smoke: Smoke, pre_norm: bool) -> None:
    pooled = ("model.pooling=mean", f"model.pre_norm={str(pre_norm).lower()}")
    ours = prepare(smoke("norm=layernorm", "model.dropout=0", *pooled)).model.train().double()
    assert isinstance(ours, SentenceEncoder)
    weights = {name: torch.randn_like(value) / 4 for name, value in ours.state_dict().items()}
    ours.load_state_dict(weights)
    (first, *_) = ours.layers
    assert isinstance(first, EncoderLayer)
    count, dim = weights["embedding.weight"].shape
    heads, ffn_dim = first.heads, first.ffn_input.out_features
    names = {
        "self_attn.in_proj_": "query_key_value.", "self_attn.out_proj.": "attention_output.",
        "linear1.": "ffn_input.", "linear2.": "ffn_output.",
        "norm1.": "attention_norm.", "norm2.": "ffn_norm.",
    }  # fmt: skip
    tokens = torch.tensor([[3, 1, 4, 1, 5], [count - 1, 2, 6, 0, 0]])
    positions = torch.tensor(
        [
            [math.sin(t / 10000 ** (2 * i / dim)) for i in range(dim // 2)]
            + [math.cos(t / 10000 ** (2 * i / dim)) for i in range(dim // 2)]
            for t in range(5)
        ]
    )
    x = weights["embedding.weight"][tokens] * dim**0.5 + positions
    for index in range(len(ours.layers)):
        layer = nn.TransformerEncoderLayer(
            dim, heads, ffn_dim, dropout=0, batch_first=True, norm_first=pre_norm
        ).double()
        layer.load_state_dict(
            {
                f"{theirs}{kind}": weights[f"layers.{index}.{mine}{kind}"]
                for theirs, mine in names.items()
                for kind in ("weight", "bias")
            }
        )
        x = layer(x, src_key_padding_mask=tokens == PADDING)
    if pre_norm:
        x = nn.functional.layer_norm(x, (dim,), weights["closing_norm.weight"], weights["closing_norm.bias"])
    mean = torch.stack([x[0].mean(0), x[1, :3].mean(0)])
    expected = mean @ weights["output.weight"].T + weights["output.bias"]
    torch.testing.assert_close(ours(tokens), expected, rtol=1e-4, atol=1e-4)
