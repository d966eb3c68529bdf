"""The suite's norms under plain fairseq: `fairseq-train --user-dir src/adanorm/models/fairseq_plugin`.

fairseq imports this package by itself and finds the architectures `adanorm_<architecture>`, which
take --norm, --norm-params, --norm-placement, --norm-numerics and --norm-init.
"""

import argparse
import json
from functools import partial
from typing import Any

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel

from adanorm.config.model_sections import FairseqTransformerConfig
from adanorm.config.sections import NormConfig
from adanorm.models.fairseq_transformer import initialize, replace_norms
from adanorm.models.norm_sites import build_with_norms, why_unsupported
from adanorm.norms import norm_factory

ARCHITECTURES = ("transformer_iwslt_de_en", "transformer_wmt_en_de", "transformer_wmt_en_de_big_t2t")

# fairseq writes its options as a Namespace into checkpoints, and torch loads only what is named safe.
torch.serialization.add_safe_globals([argparse.Namespace])


@register_model("adanorm_transformer")
class AdaNormTransformer(TransformerModel):  # type: ignore[misc]
    """fairseq's Transformer with a norm of the suite at its norm sites."""

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        """Add the norm's options to fairseq's command line."""
        super().add_args(parser)
        add, init = parser.add_argument, "how linear layers are drawn; fairseq: its own way"
        add("--norm", default="layernorm", help="a norm of the suite, or package.module:Class")
        add("--norm-params", default="{}", help="as JSON, such as '{\"k\": 0.1}'")
        add("--norm-placement", default="all", help="all, final or globs over the sites")
        add("--norm-numerics", default="paper", choices=["paper", "released"])
        add("--norm-init", default="fairseq", choices=["fairseq", "km", "xavier", "released"], help=init)

    @classmethod
    def build_model(cls, args: argparse.Namespace, task: Any) -> Any:
        """Return the model; raises ValueError for an unknown norm, parameter or site."""
        model = super().build_model(args, task)
        path, name = args.norm if ":" in args.norm else None, args.norm.rpartition(":")[2]
        try:
            params = dict(json.loads(args.norm_params).items())
        except (ValueError, AttributeError):
            remedy = "must be a JSON object, such as '{\"k\": 0.1}'"
            raise ValueError(f"--norm-params {args.norm_params!r}: {remedy}") from None
        placement, numerics = args.norm_placement, args.norm_numerics
        placement = placement if placement in ("all", "final") else placement.split(",")
        norm = NormConfig(name=name, path=path, params=params, placement=placement, numerics=numerics)
        make_norm = norm_factory(norm.choice)
        if reason := why_unsupported(make_norm.trial, FairseqTransformerConfig.norm_sites):
            raise ValueError(f"--norm {args.norm}: {reason}")
        model, _ = build_with_norms(partial(replace_norms, model), make_norm, placement)
        if args.norm_init != "fairseq":
            initialize(model, args.norm_init)
        return model


for _name in ARCHITECTURES:
    register_model_architecture("adanorm_transformer", f"adanorm_{_name}")(ARCH_CONFIG_REGISTRY[_name])
