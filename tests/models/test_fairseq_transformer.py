"""fairseq's Transformer: which norms sit where, and that they are called."""

from collections import Counter
from functools import partial

import pytest
import torch
from torch import nn

from adanorm import tasks
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.models.fairseq_transformer import initialize, replace_norms
from adanorm.models.norm_sites import PlacedNorms, build_with_norms
from adanorm.norms import norm_factory
from adanorm.tasks.translation import Translation
from tests.defined import corners, norms_of

pytestmark = pytest.mark.needs("fairseq")

ARCHITECTURES = ("transformer_iwslt_de_en", "transformer_wmt_en_de", "transformer_wmt_en_de_big_t2t")
SMALL = ("model.dim=16", "model.ffn_dim=16", "model.heads=2")


def built(run: Experiment) -> tuple[Translation, nn.Module, PlacedNorms]:
    task = tasks.build(run)
    assert isinstance(task, Translation)
    torch.manual_seed(1)
    return task, *build_with_norms(task.build_model, norm_factory(run.norm.choice), run.norm.placement)


def smoke(*overrides: str) -> Experiment:
    return compose_experiment(["task=de-en", "scale=smoke", *overrides])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_32_norm_sites_and_two_of_them_close_a_stack(architecture: str) -> None:
    overrides = (f"model.architecture={architecture}", *SMALL, "model.layers=null")
    _, _, placed = built(smoke("norm=adanorm", *overrides))
    assert len(placed.swapped) == 32
    assert placed.kept == []
    _, _, released = built(smoke("norm=adanorm", *overrides, "preset=released"))
    assert released.swapped == ["encoder.layer_norm", "decoder.layer_norm"]
    assert len(released.kept) == 30


def test_apexs_layernorm_is_replaced_too_and_a_model_without_a_site_is_refused() -> None:
    """fairseq builds apex's LayerNorm where apex and CUDA are there: it is no nn.LayerNorm."""

    class FusedLayerNorm(nn.Module):
        normalized_shape = (4,)

    model = nn.Sequential(nn.Linear(4, 4), FusedLayerNorm())
    run = smoke("norm=adanorm")
    swapped, sites = build_with_norms(partial(replace_norms, model), norm_factory(run.norm.choice), "all")
    assert sites.swapped == ["1"]
    assert type(swapped.get_submodule("1")).__name__ == "AdaNorm"
    with pytest.raises(ValueError, match="the model has no norm that could be replaced"):
        build_with_norms(partial(replace_norms, nn.Linear(4, 4)), norm_factory(run.norm.choice), "all")


def test_post_norm_has_no_closing_norm() -> None:
    _, _, placed = built(smoke("norm=adanorm", "model.pre_norm=false", "model.layers=6"))
    assert len(placed.swapped) == 30
    with pytest.raises(ValueError, match="no norm closes a stack"):
        built(smoke("norm=adanorm", "model.pre_norm=false", "norm.placement=final"))


@pytest.mark.parametrize("placement", ["all", "final"])
@pytest.mark.parametrize("norm", norms_of("de-en"))
def test_a_norm_runs_once_per_site_in_training_and_in_evaluation(norm: str, placement: str) -> None:
    where = [] if norm == "layernorm" else [f"norm.placement={placement}"]
    task, model, placed = built(smoke(f"norm={norm}", *where))
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
    task, model, _ = built(smoke(f"norm={norm}", "decoding.max_ratio=0", "decoding.max_extra=12"))
    model.eval()
    pairs = task.corpus.splits["test"]
    rows = pairs.sources(pairs.sizes.argsort()[[0, -1]])
    together = task.translate(model, rows)
    assert together == [task.translate(model, [row])[0] for row in rows]


def test_initialization_draws_what_its_rule_says() -> None:
    _, model, _ = built(smoke("norm=none", "model.dim=256", "model.ffn_dim=512"))
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
        built(smoke("norm=none", "data.joined_dictionary=false"))
    _, model, _ = built(smoke("norm=none", "data.joined_dictionary=false", "model.share_embeddings=decoder"))
    embedding, output = (f"decoder.{name}.weight" for name in ("embed_tokens", "output_projection"))
    assert model.get_parameter(embedding) is model.get_parameter(output)


def test_every_task_and_every_norm_composes_after_fairseq_was_imported() -> None:
    tasks.build(smoke("norm=none"))  # fairseq is imported by now
    for task, norm in corners():
        run = compose_experiment([f"task={task}", f"norm={norm}", "scale=mini"])
        assert (run.task.name, run.norm.name) == (task, norm)
