"""The encoder's settings that the paper leaves open."""

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from adanorm.models.sentence_encoder import PADDING, sinusoids
from adanorm.runs.execute import prepare
from adanorm.tasks.classification import Classification
from tests.conftest import Smoke
from tests.networks import smoke_run


def test_glorots_initialization_fills_its_interval_and_leaves_padding_and_biases_at_0(
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
        prepare(smoke("model.dim=64", "model.ffn_dim=256")).model.get_parameter(
            "layers.0.ffn_input.bias"
        ),
    )


def test_dropout_in_attention_acts_in_training_alone(smoke: Smoke) -> None:
    prepared = prepare(smoke("model.attention_dropout=0.5", "model.dropout=0"))
    tokens = torch.tensor([[3, 4, 5, 6, 7, 8]])
    model = prepared.model.eval()
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))


def test_word_dropout_makes_words_unknown_in_training_alone(smoke: Smoke) -> None:
    model = prepare(smoke("model.word_dropout=0.5", "model.dropout=0")).model
    tokens = torch.randint(2, 20, (40, 50))
    tokens[:, 45:] = PADDING
    read: list[torch.Tensor] = []
    model.get_submodule("embedding").register_forward_pre_hook(
        lambda module, inputs: read.append(inputs[0])
    )
    model.eval()(tokens)
    model.train()(tokens)
    assert torch.equal(read[0], tokens)
    changed = read[1] != tokens
    assert torch.all(read[1][changed] == 1)
    assert not changed[:, 45:].any()
    share = changed[:, :45].double().mean().item()
    assert abs(share - 0.5) < 4 * (0.25 / 1800) ** 0.5


def test_label_smoothing_adds_the_mean_loss_of_all_labels(smoke: Smoke) -> None:
    smoothed = prepare(smoke("training.label_smoothing=0.1"))
    (batch, *_) = smoothed.task.train_batches(0)
    log_p = smoothed.model.eval()(batch.inputs).log_softmax(1).double()
    at_label = -log_p[torch.arange(len(batch.targets)), batch.targets]
    expected = (0.9 * at_label - 0.1 * log_p.mean(1)).sum()
    torch.testing.assert_close(smoothed.task.loss(smoothed.model, batch).total.double(), expected)


def test_a_score_of_classification_has_the_plain_loss_and_the_label_of_each_sentence_alone() -> (
    None
):
    task, model = smoke_run(Classification, "task=rt", "training.label_smoothing=0.3")
    valid: Any = task.splits["valid"]
    log_p = torch.cat(
        [model(torch.from_numpy(sentence)[None]) for sentence in valid.sentences]
    ).log_softmax(1)
    evaluation = task.evaluate(model, "valid")
    assert evaluation.metrics["loss"] == pytest.approx(
        F.nll_loss(log_p, valid.targets).item(), rel=1e-5
    )
    assert evaluation.outputs == [task.splits.labels[label] for label in log_p.argmax(1).tolist()]


def test_positions_are_encoded_by_sines_then_cosines() -> None:
    for t, row in enumerate(sinusoids(5, 8, torch.device("cpu"))):
        angles = [t / 10000 ** (i / 4) for i in range(4)]
        assert row.tolist() == pytest.approx(
            [*map(math.sin, angles), *map(math.cos, angles)], abs=1e-6
        )
