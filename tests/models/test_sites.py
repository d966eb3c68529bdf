"""Where norms sit, counted at run time, and as the sections of models declare it."""

from collections import Counter
from contextlib import nullcontext
from functools import partial
from pkgutil import resolve_name

import pytest
import torch
from torch import Tensor

from adanorm import tasks
from adanorm.config.compose import compose_experiment
from adanorm.config.model_sections import MODELS
from adanorm.config.paths import choices
from adanorm.models.norm_sites import build_with_norms
from adanorm.norms import NORMS, AdaNorm, LayerNorm, NormChoice, norm_factory
from adanorm.runs.execute import compatible_norm, prepare
from tests.conftest import Smoke
from tests.networks import network

INPUTS = {  # of each network, and its number of sites
    "sentence_encoder": (torch.randint(1, 20, (3, 5)), 5),  # two per layer and the closing one
    "mnist_cnn": (
        torch.randn(
            3,
            1,
            28,
            28,
        ),
        2,
    ),
    "vgg": (
        torch.randn(
            3,
            3,
            32,
            32,
        ),
        3,
    ),
    "deep_linear": (torch.randn(3, 5), 5),
}
encoder = partial(network, "sentence_encoder", layers=4)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("kind", INPUTS)
def test_every_site_holds_the_norm_and_calls_it_once(kind: str, name: str, mode: str) -> None:
    if kind == "deep_linear" and NORMS[name].needs_positions:
        pytest.skip("an example is one row of features")
    inputs, number = INPUTS[kind]
    over_rows = NORMS[name].depends_on_batch or NORMS[name].depends_on_positions
    axes = {"norm_axes": "channels"} if kind == "mnist_cnn" and over_rows else {}
    model, sites = network(kind, name, "all", **axes)
    assert len(sites.swapped) == number
    assert sites.kept == []
    assert all(type(model.get_submodule(site)) is NORMS[name] for site in sites.swapped)
    calls: Counter[str] = Counter()
    for site in sites.swapped:
        model.get_submodule(site).register_forward_hook(lambda *_, site=site: calls.update([site]))
    with torch.set_grad_enabled(mode == "train"):
        model.train(mode == "train")(inputs)
    assert calls == dict.fromkeys(sites.swapped, 1)


def test_globs_choose_sites_and_final_the_closing_norm_alone() -> None:
    model, sites = encoder("adanorm", ["layers.*.ffn_norm", "closing_norm"])
    assert sites.swapped == [*(f"layers.{i}.ffn_norm" for i in range(4)), "closing_norm"]
    assert sum(isinstance(module, AdaNorm) for module in model.modules()) == 5
    model, sites = encoder("adanorm", "final")
    assert sites.swapped == ["closing_norm"]
    assert len(sites.kept) == 8
    assert all(isinstance(model.get_submodule(site), LayerNorm) for site in sites.kept)


def test_a_placement_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"placement 'decoder\.\*' matches no site"):
        encoder("adanorm", ["layers.*", "decoder.*"])
    with pytest.raises(
        ValueError, match=r"no norm closes a stack here; the sites are norms\.0, norms\.1"
    ):
        network("mnist_cnn", "adanorm", "final")
    with pytest.raises(
        ValueError, match=r"WeightNorm works through the layer before a site.*attention_norm"
    ):
        encoder("weightnorm", ["layers.0.attention_norm"])


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
@pytest.mark.parametrize("name", NORMS)
def test_padding_changes_nothing(name: str, pooling: str, pre_norm: bool) -> None:
    # In float64, since a norm that divides by the deviation of a few features enlarges float32's
    # rounding a hundredfold, and by how much depends on the processor's order of sums.
    model = (
        encoder(
            name,
            pre_norm=pre_norm,
            pooling=pooling,
        )[0]
        .eval()
        .double()
    )
    tokens = torch.randint(1, 20, (3, 5))
    padded = torch.cat([tokens, torch.zeros(3, 4, dtype=torch.long)], 1)
    torch.testing.assert_close(
        model(padded),
        model(tokens),
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("kind", INPUTS)
def test_a_batch_may_be_empty(kind: str) -> None:
    """A process whose share of the last batch is empty still takes part in the update."""
    model, _ = network(kind, "adanorm")
    logits = model(INPUTS[kind][0][:0])
    logits.sum().backward()
    assert logits.shape[0] == 0
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("mnist_cnn", INPUTS["mnist_cnn"][0]),
        ("transition_parser", torch.randint(30, (9, 36))),
    ],
)
@pytest.mark.parametrize(
    ("position", "negative"), [("pre", [True]), ("post", [False]), ("sandwich", [True, False])]
)
def test_a_norm_sits_around_an_activation(
    kind: str, inputs: Tensor, position: str, negative: list[bool]
) -> None:
    """Behind the activation a norm sees no negative number; in front of it, it does."""
    model, sites = network(kind, norm_position=position)
    seen: dict[str, Tensor] = {}
    for site in sites.swapped:
        model.get_submodule(site).register_forward_hook(
            lambda _, x, __, site=site: seen.update({site: x[0]})
        )
    model(inputs)
    assert len(seen) == len(sites.swapped) == 2 * len(negative)
    assert [bool((seen[site] < 0).any()) for site in seen if site.endswith(".0")] == negative


@pytest.mark.parametrize("position", ["pre", "post", "sandwich"])
def test_weightnorm_lives_in_the_layer_before_its_site(position: str) -> None:
    build = partial(encoder, norm_position=position)
    plain = build("none")[0].eval().double()
    model = build("weightnorm")[0].eval().double()
    sentences = INPUTS["sentence_encoder"][0]
    torch.testing.assert_close(model(sentences), plain(sentences))
    changed = {
        name.partition(".parametrizations")[0]
        for name in set(dict(model.named_parameters())) - set(dict(plain.named_parameters()))
    }
    assert changed == {
        f"layers.{i}.{branch}_output" for i in range(4) for branch in ("attention", "ffn")
    }


def test_a_norm_is_refused_with_the_reason_where_it_is_undefined() -> None:
    for overrides, message in (
        (["task=de-en", "norm=batchnorm"], "batchnorm is not defined in de-en: .*padding"),
        (["task=enwik8", "norm=instancenorm"], "not defined in enwik8: over positions"),
        (
            ["task=ptb", "norm=instancenorm"],
            "not defined in ptb: .*positions, and the sites show it none$",
        ),
        (
            ["task=mnist", "norm=instancenorm", "model.norm_axes=all"],
            "choose model.norm_axes=channels",
        ),
        (
            ["task=ptb", "norm=batchnorm", "data.batch_size=1"],
            "a batch of one example has no statistics",
        ),
        (["task=en-vi", "norm=weightnorm"], "no site has a layer of its own before it"),
    ):
        with pytest.raises(ValueError, match=message):
            compatible_norm(compose_experiment(overrides))
    compatible_norm(compose_experiment(["task=mnist", "norm=batchnorm", "data.batch_size=1"]))
    compatible_norm(
        compose_experiment(["task=enwik8", "norm=groupnorm", "norm.params.over_positions=false"])
    )


def test_every_model_section_has_a_class_and_a_task(smoke: Smoke) -> None:
    assert all(callable(resolve_name(path)) for path in MODELS.values())
    assert {type(smoke(f"task={task}").model) for task in choices("task")} == set(MODELS)


@pytest.mark.parametrize("task", choices("task"))
def test_the_sites_show_positions_where_the_section_says_so(smoke: Smoke, task: str) -> None:
    has_axes = hasattr(smoke(f"task={task}").model, "norm_axes")
    for axes in (["model.norm_axes=all"], ["model.norm_axes=channels"]) if has_axes else ([],):
        run = smoke(f"task={task}", "device=cpu", *axes)
        _, _, loaded, model, placed = prepare(run)
        shapes: list[torch.Size] = []
        for site in placed.swapped:
            model.get_submodule(site).register_forward_hook(
                lambda _, x, __, to=shapes: to.append(x[0].shape)
            )
        loaded.loss(model, next(iter(loaded.train_batches(0))))
        if run.model.carries == "state":  # its gates together: (gates, streams, features)
            assert {shape[-2] for shape in shapes} == {run.data.model_dump()["streams"]}
            assert not run.model.sites().positions
        else:
            assert {len(shape) > 2 for shape in shapes} == {run.model.sites().positions}


@pytest.mark.parametrize("task", choices("task"))
def test_no_model_changes_the_output_of_a_norm_in_place(smoke: Smoke, task: str) -> None:
    """A norm may return its input, as `none` does."""
    _, _, loaded, model, placed = prepare(smoke(f"task={task}", "norm=none", "device=cpu"))
    batch = next(iter(loaded.train_batches(0)))
    shared: list[bool] = []

    def copied(_: object, x: tuple[Tensor, ...], z: Tensor) -> Tensor:
        shared.append(z.data_ptr() == x[0].data_ptr())
        return z.clone()

    results = []
    for is_copied in (False, True):
        for site in placed.swapped:
            if is_copied:
                model.get_submodule(site).register_forward_hook(copied)
        torch.manual_seed(0)
        model.zero_grad()
        total = loaded.loss(model, batch).total
        torch.autograd.backward(total)
        gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        results.append((total.item(), torch.cat(gradients)))
    assert shared
    assert all(shared)
    (loss, gradient), (copied_loss, copied_gradient) = results
    assert loss == copied_loss
    # A gradient is summed in another order where the copies are.
    difference = (gradient - copied_gradient).abs().max()
    assert difference <= 1e-4 * gradient.abs().max()


@pytest.mark.parametrize("task", choices("task"))
def test_weightnorm_finds_a_layer_before_its_site_where_the_section_says_so(
    smoke: Smoke, task: str
) -> None:
    run = smoke(f"task={task}")
    refused = pytest.raises(ValueError, match="none has a layer of its own before it")
    with nullcontext() if run.model.sites().after_layers else refused:
        build_with_norms(
            tasks.build(run).build_model, norm_factory(NormChoice("weightnorm")), "all"
        )
