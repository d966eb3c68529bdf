"""The plug-in under fairseq's own commands."""

import argparse
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import ParallelConfig
from adanorm.data.translation.preparation import prepared_corpus
from tests import commands

pytestmark = pytest.mark.needs("fairseq")
SMALL = [
    f"--{side}-{name}={size}"
    for side in ("encoder", "decoder")
    for name, size in (
        ("layers", 2),
        ("embed-dim", 16),
        ("ffn-embed-dim", 32),
        ("attention-heads", 2),
    )
]


def fairseq_command(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.run(
        f"fairseq_cli.{module}",
        *arguments,
        imported="libraries",
        timeout=200,
    )


def test_fairseq_trains_validates_by_bleu_and_generates_with_a_norm_of_the_suite(
    tmp_path: Path,
) -> None:
    data = compose_experiment(["task=de-en", "scale=smoke", f"data.cache={tmp_path}"]).data
    assert isinstance(data, ParallelConfig)
    folder, _ = prepared_corpus(data)
    plugged = ["--user-dir", "src/adanorm/models/fairseq_plugin", "--cpu"]
    trained = fairseq_command(
        "train", str(folder), *plugged, "--arch", "adanorm_transformer_iwslt_de_en", *SMALL,
        "--norm", "adanorm.norms:AdaNorm", "--norm-params", '{"k": 0.1}', "--norm-placement", "final",
        "--norm-init", "released", "--encoder-normalize-before", "--decoder-normalize-before",
        "--share-all-embeddings", "--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1",
        "--optimizer", "adam", "--lr", "0.005", "--max-tokens", "512", "--max-epoch", "1",
        "--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 4}', "--eval-bleu-remove-bpe",
        "--save-dir", str(tmp_path / "saved"), "--no-progress-bar",
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr[-2000:]
    best = tmp_path / "saved" / "checkpoint_best.pt"
    counts: list[Any] = [
        np.ndarray,
        np.dtype,
        np.dtypes.Int64DType,
        np.zeros(0).__reduce__()[0],
    ]  # n-grams
    with torch.serialization.safe_globals(
        [argparse.Namespace, *counts]
    ):  # all that is not plain data
        weights = torch.load(best, weights_only=True)["model"]
    assert "encoder.layers.0.final_layer_norm.weight" in weights, "the inner norms stay LayerNorm"
    assert "encoder.layer_norm.weight" not in weights, "AdaNorm has no parameters"
    generated = fairseq_command(
        "generate", str(folder), *plugged, "--path", str(best), "--beam", "2"
    )
    assert generated.returncode == 0, generated.stderr[-2000:]
    assert "Translated 32 sentences" in generated.stdout + generated.stderr
    wrong = fairseq_command(
        "train", str(folder), *plugged, "--arch", "adanorm_transformer", "--norm", "adanom",
        "--max-tokens", "512", "--save-dir", str(tmp_path / "other"),
    )  # fmt: skip
    assert wrong.returncode != 0
    assert "unknown norm 'adanom'" in wrong.stderr
