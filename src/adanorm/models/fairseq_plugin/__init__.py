"""The suite's norms under plain fairseq: `fairseq-train --user-dir .../models/fairseq_plugin`.

Each architecture NAME of its Transformer is also there as `adanorm_NAME`, with the options of
`add_args`.
"""

import argparse
import json
from functools import partial
from typing import Any

import numpy as np
import torch
from fairseq import models
from fairseq.models.transformer import TransformerModel

from adanorm.config.model_sections import FairseqTransformerConfig
from adanorm.config.sections import NormConfig
from adanorm.models.fairseq_transformer import initialize, replace_norms
from adanorm.models.norm_sites import build_with_norms
from adanorm.norms import norm_factory

# torch loads only types declared safe; fairseq's checkpoints hold options and, with --eval-bleu,
# counts.
ARRAYS: list[Any] = [np.ndarray, np.dtype, np.dtypes.Int64DType, np.zeros(0).__reduce__()[0]]
torch.serialization.add_safe_globals([argparse.Namespace, *ARRAYS])


@models.register_model("adanorm_transformer")
class AdaNormTransformer(TransformerModel):  # type: ignore[misc]
    """fairseq's Transformer with a norm of the suite at the sites of its norms."""

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        """Add the norm's options to fairseq's command line."""
        super().add_args(parser)
        add, init = parser.add_argument, "how linear layers are drawn; fairseq: its own way"
        add("--norm", default="layernorm", help="a norm of the suite, or package.module:Class")
        add("--norm-params", default="{}", help="as JSON, such as '{\"k\": 0.1}'")
        add("--norm-placement", default="all", help="all, final or globs over the sites")
        add(
            "--norm-numerics",
            default="paper",
            choices=["paper", "released"],
        )
        add(
            "--norm-init",
            default="fairseq",
            choices=["fairseq", "km", "xavier", "released"],
            help=init,
        )

    @classmethod
    def build_model(cls, args: argparse.Namespace, task: Any) -> Any:
        """Return the model; raises ValueError for an unknown norm, parameter or site."""
        path, name = args.norm if ":" in args.norm else None, args.norm.rpartition(":")[2]
        try:
            params = dict(json.loads(args.norm_params).items())
        except (ValueError, AttributeError):
            remedy = "must be a JSON object, such as '{\"k\": 0.1}'"
            raise ValueError(f"--norm-params {args.norm_params!r}: {remedy}") from None
        placement, numerics = args.norm_placement, args.norm_numerics
        placement = placement if placement in ("all", "final") else placement.split(",")
        norm = NormConfig(
            name=name, path=path, params=params, placement=placement, numerics=numerics
        )
        make_norm = norm_factory(norm.choice)
        if reason := FairseqTransformerConfig.norm_sites.why_unsupported(make_norm.trial):
            raise ValueError(f"--norm {args.norm}: {reason}")
        replace = partial(replace_norms, super().build_model(args, task))
        model, _ = build_with_norms(replace, make_norm, placement)
        if args.norm_init != "fairseq":
            initialize(model, args.norm_init)
        return model


for _name in models.ARCH_MODEL_INV_REGISTRY["transformer"]:
    _defaults = models.ARCH_CONFIG_REGISTRY[_name]
    models.register_model_architecture("adanorm_transformer", f"adanorm_{_name}")(_defaults)
