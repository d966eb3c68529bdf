"""torchvision's models, which need none of its compiled operators."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import torch

LIBRARY = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]


@cache
def torchvision_models() -> Any:
    """The module torchvision.models.

    Operators built for another PyTorch, such as one with CUDA, do not load; torchvision cannot be
    imported then before two of them are declared.
    """
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:
        for operator in ("nms", "qnms"):
            schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            LIBRARY.define(schema)  # type: ignore[no-untyped-call]
        return importlib.import_module("torchvision.models")
