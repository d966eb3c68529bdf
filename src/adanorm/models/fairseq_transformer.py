"""fairseq's Transformer, with its norms replaced by site and its weights drawn by a stated rule."""

import argparse
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.model_sections import FairseqTransformerConfig
from adanorm.config.placements import deepnorm_of_pair, placements
from adanorm.data.translation.fairseq_library import fairseq
from adanorm.models.beam_search import Beams
from adanorm.models.draws import attention
from adanorm.models.fast_layers import Dropout
from adanorm.models.norm_sites import PlacedNorms
from adanorm.norms.swap import is_norm, shape_of

CLOSING_SITES = ("encoder.layer_norm", "decoder.layer_norm")  # pre-norm only


def build(
    make_norm: PlacedNorms, settings: FairseqTransformerConfig, *, dictionaries: tuple[Any, Any]
) -> nn.Module:
    """Return the encoder-decoder; its call returns the logits (N, V) of N target ids.

    Raises ValueError if embeddings are shared without a shared dictionary.
    """
    source, target = dictionaries
    if settings.share_embeddings == "all" and source != target:
        raise ValueError("model.share_embeddings=all needs data.joined_dictionary=true")
    task = SimpleNamespace(source_dictionary=source, target_dictionary=target)
    model = _transformer().build_model(_arguments(settings), task)
    replace_norms(model, make_norm)
    initialize(model, settings.init)
    place_norms(model, settings.position, settings.post_layers)
    replace_modules(model)
    for layer in model.decoder.layers:
        layer.need_attn = False  # else evaluation averages weights that nothing reads
    return model


@cache
def _transformer() -> Any:
    """Return a subclass of fairseq's model whose call leaves out what training does not need."""

    class Transformer(fairseq().models.transformer.TransformerModel):  # type: ignore[misc]
        def forward(
            self, source: Tensor, previous: Tensor, counted: Tensor, *, has_padding: bool
        ) -> Tensor:
            """Return logits (N, V) at `counted` (2, N), the counted ids' rows and columns.

            fairseq's encoder and decoder wait at every layer for the device to tell whether there
            is padding. Nothing waits here, and no attention is averaged for alignments. A target's
            padding needs no mask, because it stands behind all that counts.
            """
            decoder = self.decoder
            padding = source.eq(self.encoder.padding_idx) if has_padding else None
            hidden = _hidden(padding, decoder.embed_tokens.weight)
            encoded = self.encode(source, padding, hidden)
            encoded = encoded.to(_type_of_scores(encoded))  # once for all layers that read it
            x = decoder.embed_scale * decoder.embed_tokens(previous) + decoder.embed_positions(
                previous
            )
            x = decoder.dropout_module(x).transpose(0, 1)
            later = decoder.buffered_future_mask(x).to(_type_of_scores(x))
            for layer in decoder.layers:
                x, *_ = layer(
                    x,
                    encoded,
                    hidden,
                    self_attn_mask=later,
                )
            x = x if decoder.layer_norm is None else decoder.layer_norm(x)
            return decoder.output_layer(x.transpose(0, 1)[tuple(counted)])

        def encode(self, source: Tensor, padding: Tensor | None, hidden: Tensor | None) -> Tensor:
            """Return the encoded source (S, B, H) of ids (B, S), with `hidden` from _hidden."""
            x, _ = self.encoder.forward_embedding(source)
            if padding is not None:
                x = x * (1 - padding[..., None].type_as(x))
            x = x.transpose(0, 1)
            for layer in self.encoder.layers:
                x = layer(x, encoder_padding_mask=hidden)
            return x if self.encoder.layer_norm is None else self.encoder.layer_norm(x)

        def start_beams(self, source: Tensor) -> Beams:
            """Return the state from which `extend_beams` decodes source ids (B, S)."""
            is_padding = source.eq(self.encoder.padding_idx)
            padding = is_padding if is_padding.any() else None
            hidden = _hidden(padding, self.decoder.embed_tokens.weight)
            return Beams(
                self.encode(
                    source,
                    padding,
                    hidden,
                ),
                padding,
            )

        def extend_beams(self, words: Tensor, beams: Beams) -> Tensor:
            """Return the logits (B, K, V) of the word after the words (B, K, T) of each beam."""
            decoder = self.decoder
            position = decoder.embed_positions(words[:1, 0], incremental_state={})
            newest = words[..., -1].flatten()[None]
            x = decoder.embed_scale * decoder.embed_tokens(newest) + position
            for layer in decoder.layers:
                x, *_ = layer(
                    x,
                    beams.encoded,
                    beams.padding,
                    beams,
                )
            if decoder.layer_norm is not None:
                x = decoder.layer_norm(x)
            logits: Tensor = decoder.output_layer(x[0])
            return logits.float().view(*words.shape[:2], -1)

    return Transformer


def _arguments(settings: FairseqTransformerConfig) -> argparse.Namespace:
    """Return the arguments that fairseq's command line would give for the settings."""
    sizes = {
        "layers": settings.layers,
        "embed_dim": settings.dim,
        "ffn_embed_dim": settings.ffn_dim,
        "attention_heads": settings.heads,
        # The stacks of these end in a closing norm.
        "normalize_before": settings.position in ("pre", "mix"),
    }
    stated = {}
    for name, size in sizes.items():
        if size is not None:
            stated[f"encoder_{name}"] = stated[f"decoder_{name}"] = size
    arguments = argparse.Namespace(
        **stated,
        **settings.model_dump(include={"dropout", "attention_dropout", "activation_dropout"}),
        share_all_embeddings=settings.share_embeddings == "all",
        share_decoder_input_output_embed=settings.share_embeddings != "none",
    )
    fairseq().models.ARCH_CONFIG_REGISTRY[settings.architecture](arguments)
    for side in ("encoder", "decoder"):  # the architecture has the sizes that are not set
        width = getattr(arguments, f"{side}_embed_dim")
        heads = getattr(arguments, f"{side}_attention_heads")
        if width % heads:
            raise ValueError(f"model.heads={heads}: must divide the model's width, {width}")
    return arguments


def replace_norms(model: nn.Module, make_norm: PlacedNorms) -> nn.Module:
    """Return the model with make_norm's modules in place of LayerNorms and RMSNorms.

    With apex and CUDA, fairseq builds apex's LayerNorm, which is no `nn.LayerNorm`. Raises
    ValueError for a norm over several or unknown axes.
    """
    for site, module in list(model.named_modules()):
        if hasattr(module, "normalized_shape") or is_norm(module):
            shape = shape_of(module)
            if shape is None or len(shape) != 1:
                raise ValueError(
                    f"{site}: {type(module).__name__} is no norm of rows that could be replaced"
                )
            model.set_submodule(
                site,
                make_norm(
                    shape[0],
                    site=site,
                    closes_stack=site in CLOSING_SITES,
                ),
            )
    return model


def initialize(model: nn.Module, rule: str) -> None:
    """Draw the weights of a model's linear layers anew; biases are 0.

    `km` is Kaiming uniform with a = sqrt 5, torch's default. `xavier` is Xavier uniform, with gain
    1/sqrt 2 for queries, keys and values. `released` is the effect of the authors' `--init_method
    km`: `km` in the attention and `xavier` in the feed-forward layers. Embeddings stay N(0, 1/d).
    """
    for name, module in model.named_modules():
        # fairseq ties the output projection to the embedding, or draws it N(0, 1/d).
        if not isinstance(module, nn.Linear) or "output_projection" in name:
            continue
        if rule == "km" or (rule == "released" and "attn" in name):
            nn.init.kaiming_uniform_(module.weight, a=5**0.5)
        else:
            projects_in = name.endswith(("q_proj", "k_proj", "v_proj"))
            nn.init.xavier_uniform_(module.weight, gain=2**-0.5 if projects_in else 1.0)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def place_norms(model: Any, position: str, post_layers: int | None) -> None:
    """Set where the norms of an encoder-decoder's layers sit, and draw DeepNorm's weights.

    A model with closing norms was built with pre-norm layers, any other with post-norm layers.
    Raises ValueError if `mix` would have layers of one kind alone.
    """
    stacks = model.encoder.layers, model.decoder.layers
    scales_of_stacks = deepnorm_of_pair(*map(len, stacks))
    for layers, scales in zip(
        stacks,
        scales_of_stacks,
        strict=True,
    ):
        stack = placements(position, len(layers), post_layers=post_layers)
        for layer, placement in zip(
            layers,
            stack,
            strict=True,
        ):
            layer.normalize_before = placement.attention.front
            if position == "deepnorm":
                _scale(layer, *scales)


def _scale(layer: Any, skip_scale: float, gain: float) -> None:
    """Scale a layer's skip connections by `skip_scale`, and draw its weights by DeepNorm's rule."""
    layer.residual_connection = lambda x, residual: skip_scale * residual + x
    for name, module in layer.named_modules():
        if isinstance(module, nn.Linear):
            is_score = name.endswith(("q_proj", "k_proj"))
            nn.init.xavier_normal_(module.weight, 1.0 if is_score else gain)


def replace_modules(model: nn.Module) -> None:
    """Replace attention and dropout by modules that cost less; parameters and names stay."""
    modules = fairseq().modules
    for site, module in list(model.named_modules()):
        if type(module) is modules.MultiheadAttention:
            module.__class__ = _attention()
            continue  # attention applies its dropout itself
        for name, child in module.named_children():
            if type(child) is modules.FairseqDropout:
                share = float(child.p)
                dropout = Dropout(share)
                if "layers." in site:  # their tensors are (T, B, H)
                    dropout.rows = 1
                setattr(module, name, dropout)


@cache
def _attention() -> Any:
    """Return fairseq's attention, with linear layers that are called: no weight is read."""

    class Attention(fairseq().modules.MultiheadAttention):  # type: ignore[misc]
        def forward(
            self,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            key_padding_mask: Tensor | None = None,
            *,
            attn_mask: Tensor | None = None,
            **options: Any,
        ) -> tuple[Tensor, Tensor | None]:
            """Return the result (T, B, H) and the weights or None; key and value are (S, B, H)."""
            beams = options.get("incremental_state")
            if isinstance(beams, Beams):
                return self._extend(query, key, key_padding_mask, beams), None
            # fairseq's own code serves any option that is set, also `need_weights`, which is set by
            # default. `static_kv` only says that decoding may keep keys and values.
            asked = {"need_weights": True, **options, "static_kv": False}
            if any(option not in (None, False) for option in asked.values()):
                return super().forward(
                    query, key, value, key_padding_mask, attn_mask=attn_mask, **options
                )
            mask = _mask(key_padding_mask, attn_mask, query)
            # Rounded once here, not by each of the three layers under autocast.
            rounded = _type_of_scores(query)
            inputs = query.to(rounded)
            memory = inputs if key is query else key.to(rounded)
            values = memory if value is key else value.to(rounded)
            q = self._by_head(self.q_proj(inputs))
            k = self._by_head(self.k_proj(memory))
            v = self._by_head(self.v_proj(values))
            p = self.dropout_module.p if self.training else 0.0
            mixed = attention(q, k, v, mask, p)
            return self.out_proj(
                mixed.permute(
                    2,
                    0,
                    1,
                    3,
                ).flatten(2)
            ), None

        def _by_head(self, x: Tensor) -> Tensor:
            """Return x (T, B, N * D) as (B, N, T, D)."""
            split = x.reshape(
                *x.shape[:2],
                self.num_heads,
                self.head_dim,
            )
            return split.permute(1, 2, 0, 3)

        def _extend(
            self, newest: Tensor, encoded: Tensor, padding: Tensor | None, beams: Beams
        ) -> Tensor:
            """Return the result (1, B*K, H) for the beams' newest words (1, B*K, H) as queries."""

            def projected(layer: nn.Module, x: Tensor) -> Tensor:
                split = layer(x).reshape(
                    len(beams.past),
                    -1,
                    self.num_heads,
                    self.head_dim,
                )
                return split.transpose(1, 2)

            query = projected(self.q_proj, newest)
            mask = None if padding is None else ~padding[:, None, None]
            if self.self_attention:
                new = projected(self.k_proj, newest), projected(self.v_proj, newest)
                k, v = beams.append(self, *new)
                mask = beams.past
            else:
                if self not in beams:
                    x = encoded.transpose(0, 1)
                    beams[self] = projected(self.k_proj, x), projected(self.v_proj, x)
                k, v = beams[self]
            mixed = F.scaled_dot_product_attention(query, k, v, mask)
            return self.out_proj(mixed.transpose(1, 2).reshape_as(newest))

    return Attention


def _type_of_scores(x: Tensor) -> torch.dtype:
    """Return the type in which attention computes with x: autocast may round it."""
    kind = x.device.type
    is_rounded = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if is_rounded else x.dtype


def _hidden(padding: Tensor | None, like: Tensor) -> Tensor | None:
    """Return what, added to scores (B, N, T, S), hides padding (B, S): (B, 1, 1, S), or None."""
    if padding is None:
        return None
    scores = torch.zeros(
        padding.shape,
        dtype=_type_of_scores(like),
        device=padding.device,
    )
    return scores.masked_fill_(padding.bool(), -torch.inf)[:, None, None]


def _mask(padding: Tensor | None, added: Tensor | None, like: Tensor) -> Tensor | None:
    """Return what to add to scores: for padding (B, S) or _hidden's, and `added` (T, S)."""
    hidden = padding
    if padding is not None and padding.dim() == 2:
        hidden = _hidden(padding, like)
    if added is not None:
        added = added.to(_type_of_scores(like))
    return added if hidden is None else hidden if added is None else hidden + added
