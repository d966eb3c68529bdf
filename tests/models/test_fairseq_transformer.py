"""fairseq's Transformer: which norms sit where, and that they are called."""

from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from adanorm.config.compose import compose_experiment
from adanorm.models.fairseq_transformer import initialize, replace_norms
from adanorm.models.norm_sites import build_with_norms
from adanorm.norms import NormChoice, norm_factory
from adanorm.runs.execute import prepare
from adanorm.tasks.translation import Translation
from tests.conftest import Smoke
from tests.defined import corners, norms_of
from tests.networks import smoke_run

pytestmark = pytest.mark.needs("fairseq")

ARCHITECTURES = (
    "transformer_iwslt_de_en",
    "transformer_wmt_en_de",
    "transformer_wmt_en_de_big_t2t",
)
FURTHER = [norm for norm in norms_of("de-en") if norm != "adanorm"]
SMALL = ("model.dim=16", "model.ffn_dim=16", "model.heads=2")


def built(*overrides: str) -> Any:
    """Return a smoke run with its task, model and sites."""
    return prepare(compose_experiment(["task=de-en", "scale=smoke", "device=cpu", *overrides]))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_32_norm_sites_and_two_of_them_close_a_stack(
    architecture: str,
) -> None:
    overrides = (f"model.architecture={architecture}", *SMALL, "model.layers=null")
    sites = built("norm=adanorm", *overrides).sites
    assert len(sites.swapped) == 32
    assert sites.kept == []
    released = built("norm=adanorm", *overrides, "preset=released").sites
    assert released.swapped == ["encoder.layer_norm", "decoder.layer_norm"]
    assert len(released.kept) == 30
    post = built("norm=adanorm", *overrides, "model.pre_norm=false").sites
    assert len(post.swapped) == 30, "none closes a stack"


def test_apexs_layernorm_is_replaced_too_and_a_model_without_a_site_is_refused() -> None:
    """fairseq builds apex's LayerNorm where apex and CUDA are there: it is no nn.LayerNorm."""

    class FusedLayerNorm(nn.Module):
        normalized_shape = (4,)

    model = nn.Sequential(nn.Linear(4, 4), FusedLayerNorm())
    adanorm = norm_factory(NormChoice("adanorm"))
    swapped, sites = build_with_norms(partial(replace_norms, model), adanorm, "all")
    assert sites.swapped == ["1"]
    assert type(swapped.get_submodule("1")).__name__ == "AdaNorm"
    with pytest.raises(ValueError, match="the model has no norm that could be replaced"):
        build_with_norms(partial(replace_norms, nn.Linear(4, 4)), adanorm, "all")


@pytest.mark.parametrize(
    ("norm", "placement"),
    [
        *((norm, "all") for norm in norms_of("de-en")),
        ("adanorm", "final"),
        *(pytest.param(norm, "final", marks=pytest.mark.nightly) for norm in FURTHER),
    ],
)
def test_a_norm_runs_once_per_site_in_training_and_in_evaluation(norm: str, placement: str) -> None:
    where = [] if norm == "layernorm" else [f"norm.placement={placement}"]
    _, _, task, model, placed = built(f"norm={norm}", *where)
    calls: Counter[str] = Counter()
    sites = *placed.swapped, *placed.kept
    for site in sites:
        model.get_submodule(site).register_forward_hook(lambda *_, site=site: calls.update([site]))
    batch = next(iter(task.train_batches(0)))
    for training in (True, False):
        model.train(training)
        calls.clear()
        with torch.set_grad_enabled(training):
            task.loss(model, batch)
        assert calls == dict.fromkeys(sites, 1)
    # Beam search encodes once and decodes one step at a time.
    calls.clear()
    task.translate(model, task.corpus.splits["test"].sources(torch.arange(3).numpy()))
    steps = {count for site, count in calls.items() if site.startswith("decoder")}
    assert {count for site, count in calls.items() if site.startswith("encoder")} == {1}
    assert len(steps) == 1
    assert len(calls) == len(sites)


@pytest.mark.parametrize("norm", norms_of("de-en"))
def test_a_translation_does_not_depend_on_the_batch_around_it(norm: str) -> None:
    # fairseq applies max_ratio to the longest source in the batch, so a fixed limit is used here.
    settings = f"norm={norm}", "decoding.max_ratio=0", "decoding.max_extra=12"
    task, model = smoke_run(Translation, "task=de-en", *settings)
    pairs = task.corpus.splits["test"]
    rows = pairs.sources(pairs.sizes.argsort()[[0, -1]])
    together = task.translate(model, rows)
    assert together == [task.translate(model, [row])[0] for row in rows]


def test_initialization_draws_what_its_rule_says() -> None:
    model = built("norm=none", "model.dim=256", "model.ffn_dim=512").model
    attention = model.get_submodule("encoder.layers.0.self_attn.q_proj")
    feed_forward = model.get_submodule("encoder.layers.0.fc1")
    output = model.get_submodule("encoder.layers.0.self_attn.out_proj")
    kaiming, xavier = 256**-0.5, (6 / (256 + 512)) ** 0.5
    bounds = {  # of the uniform distributions: queries, feed-forward, attention's output
        "km": (kaiming, kaiming, kaiming),
        "xavier": ((6 / 512) ** 0.5 / 2**0.5, xavier, (6 / 512) ** 0.5),
        "released": (kaiming, xavier, kaiming),
    }
    embedding = model.get_parameter("encoder.embed_tokens.weight").clone()
    for rule, expected in bounds.items():
        initialize(model, rule)
        for module, bound in zip((attention, feed_forward, output), expected, strict=True):
            weight = module.get_parameter("weight")
            assert weight.abs().max() <= bound
            assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)
            assert not module.get_parameter("bias").any()
    assert torch.equal(model.get_parameter("encoder.embed_tokens.weight"), embedding)
    assert embedding.std().item() == pytest.approx(256**-0.5, rel=0.1)


def test_shared_embeddings_need_a_joined_dictionary() -> None:
    with pytest.raises(ValueError, match=r"share_embeddings=all needs data.joined_dictionary=true"):
        built("data.joined_dictionary=false")
    model = built("data.joined_dictionary=false", "model.share_embeddings=decoder").model
    embedding, output = (f"decoder.{name}.weight" for name in ("embed_tokens", "output_projection"))
    assert model.get_parameter(embedding) is model.get_parameter(output)


def test_every_task_and_every_norm_composes_after_fairseq_was_imported() -> None:
    built()  # fairseq is imported by now
    for task, norm in corners():
        run = compose_experiment([f"task={task}", f"norm={norm}", "scale=mini"])
        assert (run.task.name, run.norm.name) == (task, norm)


def test_attention_rounds_what_its_layers_read_once() -> None:
    _, model = smoke_run(Translation, "task=de-en", "norm=layernorm")
    inputs: dict[str, list[torch.Tensor]] = {"encoder": [], "cross": []}

    def keep(kind: str, _: nn.Module, arguments: tuple[torch.Tensor]) -> None:
        inputs[kind].append(arguments[0])

    for name, module in model.named_modules():
        if name.startswith("encoder") and name.endswith(("q_proj", "k_proj", "v_proj")):
            module.register_forward_pre_hook(partial(keep, "encoder"))
        elif "encoder_attn" in name and name.endswith(("k_proj", "v_proj")):
            module.register_forward_pre_hook(partial(keep, "cross"))
    source = torch.tensor([[5, 6, 7, 2]])
    counted = torch.tensor([[0, 0], [0, 1]])
    with torch.autocast("cpu", torch.bfloat16):
        model(source, source, counted, has_padding=False)
    assert all(x.dtype == torch.bfloat16 for kind in inputs.values() for x in kind)
    layers = len(inputs["encoder"]) // 3
    assert layers > 0
    assert len({id(x) for x in inputs["encoder"]}) == layers, "one rounding per layer"
    assert len({id(x) for x in inputs["cross"]}) == 1, "one rounding for all layers"


@pytest.mark.needs("fairseq")
def test_heads_that_do_not_divide_an_architectures_width_are_named(smoke: Smoke) -> None:
    with pytest.raises(ValueError, match=r"^model.heads=3: must divide the model's width, 512$"):
        prepare(smoke("task=de-en", "model.dim=null", "model.heads=3"))
