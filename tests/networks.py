"""Small networks of every model section, for tests of their norms and settings; and those of smoke runs."""

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import torch

from adanorm.config.compose import compose_experiment
from adanorm.config.model_sections import MODELS
from adanorm.models.norm_sites import PlacedNorms, build_model, build_with_norms
from adanorm.norms import NormChoice, norm_factory
from adanorm.runs.execute import prepare
from adanorm.tasks import TrainingTask

Kind = TypeVar("Kind", bound=TrainingTask)
RESIDUAL = {"layers": 2, "dim": 16, "heads": 2, "ffn_dim": 24, "dropout": 0.0}
NO_DROPOUT = {f"{part}_dropout": 0.0 for part in ("input", "hidden", "output", "weight")}
SETTINGS: dict[str, dict[str, Any]] = {
    "sentence_encoder": {**RESIDUAL, "pre_norm": True, "pooling": "mean"},
    "transformer_xl": {**RESIDUAL, "pre_norm": False, "head_dim": 6},
    "recurrent": {"layers": 2, "dim": 10, "embedding_dim": 6, "embedding_bound": 0.1, **NO_DROPOUT},
    "transition_parser": {
        "embedding_dim": 5,
        "embedding_sd": 1.0,
        "layers": 2,
        "dim": 16,
        "activation": "relu",
        "dropout": 0.0,
    },
    "mnist_cnn": {"channels": [4, 6], "kernel_size": 5, "norm_axes": "all"},
    "vgg": {"blocks": [[4], [6, 8]], "norm_axes": "channels"},
    "deep_linear": {"layers": 6, "dim": 8, "init": "xavier"},
}
OF_DATA = {
    "sentence_encoder": {"vocabulary": 20, "classes": 3},
    "transformer_xl": {},
    "recurrent": {},
    "transition_parser": {"vocabulary": 30, "features": 36, "actions": 7},
    "mnist_cnn": {"classes": 10},
    "vgg": {"classes": 5},
    "deep_linear": {"inputs": 5, "outputs": 2},
}
SECTIONS = {section.model_fields["name"].annotation.__args__[0]: section for section in MODELS}  # type: ignore[union-attr]


LIBRARY = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]


@cache
def torchvision_models() -> Any:
    """Return torchvision.models; if it was built for another PyTorch, declare two operators first."""
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:
        for operator in ("nms", "qnms"):
            schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            LIBRARY.define(schema)  # type: ignore[no-untyped-call]
        return importlib.import_module("torchvision.models")


def placed(norm: str = "layernorm", placement: str | Sequence[str] = "all") -> PlacedNorms:
    """Return the make_norm of a norm by its name."""
    return PlacedNorms(norm_factory(NormChoice(norm)), placement)


def network(
    model: str, norm: str = "layernorm", placement: str | Sequence[str] = "all", **settings: Any
) -> tuple[Any, PlacedNorms]:
    """Return a network of a section, with the given settings replaced, and the sites of its norms."""
    sizes = {name: settings.pop(name, size) for name, size in OF_DATA[model].items()}
    section = SECTIONS[model].model_validate({"name": model, **SETTINGS[model], **settings})
    make_norm = norm_factory(NormChoice(norm, {"groups": 2} if norm == "groupnorm" else {}))
    torch.manual_seed(0)
    return build_with_norms(
        lambda placed: build_model(section, placed, **sizes), make_norm, placement
    )


def smoke_run(kind: type[Kind], *overrides: str) -> tuple[Kind, Any]:
    """Return the task of a run at smoke scale and its model, with initial weights, in evaluation mode."""
    prepared = prepare(compose_experiment(["scale=smoke", "device=cpu", *overrides]))
    assert isinstance(prepared.task, kind)
    return prepared.task, prepared.model.eval()
