"""Our way of computing a run's numbers against PyTorch's own: the same to rounding, or in distribution."""

import copy
from typing import Any

import pytest
import torch
from scipy.stats import ks_2samp
from torch import nn

from adanorm.config.experiment import Experiment
from adanorm.config.sections import TrainingConfig
from adanorm.models.fast_layers import Dropout, Linear
from adanorm.process import PRODUCTS
from adanorm.runs.execute import describe_environment, prepare, start_trainer
from adanorm.training.loop import Trainer
from adanorm.training.optimizer import MuonAndAdam, make_optimizer
from tests.conftest import Smoke


@pytest.mark.parametrize(
    "overrides",
    [
        ["training.betas=[0.8, 0.95]", "training.eps=1e-3"],
        ["training.optimizer=sgd", "training.momentum=null"],
        ["training.optimizer=sgd", "training.momentum=0.9"],
    ],
)
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_an_optimizer_is_torchs_to_rounding_and_goes_on_from_its_saved_state(
    smoke: Smoke, weight_decay: float, overrides: list[str]
) -> None:
    settings = smoke(f"training.weight_decay={weight_decay}", *overrides).training
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(7, 50), nn.Tanh(), nn.Linear(50, 3))
    theirs = copy.deepcopy(ours).double()
    x, y = torch.randn(64, 7), torch.randn(64, 3)
    optimizer, reference = make_optimizer(ours, settings), pytorchs_optimizer(theirs, settings)
    assert optimizer.param_groups[0]["fused"], (
        "one pass over memory, whose rounding the records have"
    )
    for update in range(50):
        if update == 20:  # the run is stopped and resumed
            saved = optimizer.state_dict()
            optimizer = make_optimizer(ours, settings)
            optimizer.load_state_dict(saved)
        for model, stepped in ((ours, optimizer), (theirs, reference)):
            dtype = next(model.parameters()).dtype
            stepped.zero_grad()
            (model(x.to(dtype)) - y.to(dtype)).square().mean().backward()
            stepped.param_groups[0]["lr"] = 0.001 * (1 + update % 10)
            stepped.step()
    for weight, wide in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(
            weight.double(),
            wide,
            rtol=1e-4,
            atol=2e-5,
        )


def test_muon_steps_the_matrices_of_layers_as_torchs_and_adam_the_rest(smoke: Smoke) -> None:
    settings = smoke("training.optimizer=muon", "training.weight_decay=0.05").training
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Embedding(9, 7), nn.Linear(7, 50), nn.LayerNorm(50), nn.Linear(50, 3))
    theirs = copy.deepcopy(ours)
    matrices = {"1.weight", "3.weight"}
    parameters = dict(theirs.named_parameters())
    rest = [parameter for name, parameter in parameters.items() if name not in matrices]
    shared: Any = {"lr": settings.lr, "weight_decay": 0.05}
    references = [
        torch.optim.Muon(
            [parameters[name] for name in sorted(matrices)],
            adjust_lr_fn="match_rms_adamw",
            **shared,
        ),
        torch.optim.AdamW(rest, betas=settings.betas, eps=settings.eps, fused=True, **shared),
    ]
    optimizer = make_optimizer(ours, settings)
    x, y = torch.randint(9, (64,)), torch.randn(64, 3)
    for update in range(6):
        if update == 3:  # the run is stopped and resumed
            saved = optimizer.state_dict()
            optimizer = make_optimizer(ours, settings)
            optimizer.load_state_dict(saved)
        for model, steps in ((ours, [optimizer]), (theirs, references)):
            for stepped in steps:
                stepped.zero_grad()
            (model(x) - y).square().mean().backward()
            for stepped in steps:
                for group in stepped.param_groups:
                    group["lr"] = 0.001 * (1 + update)
                stepped.step()
    for weight, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(weight, expected)


def test_muon_leaves_the_transformer_xls_biases_by_head_to_adam(smoke: Smoke) -> None:
    experiment = smoke("task=enwik8", "training.optimizer=muon")
    model = prepare(experiment).model
    names = {parameter: name for name, parameter in model.named_parameters()}
    optimizer = make_optimizer(model, experiment.training)
    assert isinstance(optimizer, MuonAndAdam)
    muon, adam = optimizer.parts
    of_muon = [names[parameter] for group in muon.param_groups for parameter in group["params"]]
    of_adam = [names[parameter] for group in adam.param_groups for parameter in group["params"]]
    assert all(name.endswith("weight") for name in of_muon)
    assert {"u", "v"} <= {name.rpartition(".")[2] for name in of_adam}


def test_muon_is_the_update_that_torch_documents(smoke: Smoke) -> None:
    """Five Newton-Schulz steps act on the singular values of the momentum, scaled to norm 1."""
    settings = smoke("training.optimizer=muon", "training.weight_decay=0.05").training
    torch.manual_seed(0)
    layer = nn.Linear(8, 5, bias=False)
    optimizer = make_optimizer(layer, settings)
    expected, momentum = layer.weight.detach().double(), torch.zeros(5, 8, dtype=torch.float64)
    for gradient in torch.randn(3, 5, 8):
        layer.weight.grad = gradient
        optimizer.step()
        momentum = 0.95 * momentum + 0.05 * gradient
        ahead = 0.05 * gradient + 0.95 * momentum  # Nesterov's
        left, values, right = torch.linalg.svd(ahead, full_matrices=False)
        values = values / ahead.norm()
        for _ in range(5):
            values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
        step = 0.2 * 8**0.5 * left @ values.diag() @ right
        expected = expected - settings.lr * (0.05 * expected + step)
    error = (layer.weight - expected).abs().max()
    assert error < 0.05 * settings.lr * 0.2 * 8**0.5  # torch's products are in bfloat16


def pytorchs_optimizer(model: nn.Module, settings: TrainingConfig) -> torch.optim.Optimizer:
    shared: Any = {"lr": settings.lr, "weight_decay": settings.weight_decay, "foreach": False}
    if settings.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), momentum=settings.momentum or 0, **shared)
    return torch.optim.AdamW(
        model.parameters(),
        betas=settings.betas,
        eps=settings.eps,
        **shared,
    )


def pytorchs_way(trainer: Trainer) -> None:
    """Give a trainer PyTorch's own layers and optimizer."""
    for module in trainer.model.modules():
        if type(module) is Linear:
            module.__class__ = nn.Linear  # type: ignore[assignment]
        elif type(module) is Dropout:
            module.__class__ = nn.Dropout  # type: ignore[assignment]
    trainer.optimizer = pytorchs_optimizer(trainer.model, trainer.settings)


def last_loss(experiment: Experiment, *, reference: bool) -> float:
    """Return the mean training loss of the last ten updates of a short run."""
    trainer = start_trainer(experiment, prepare(experiment))
    if reference:
        pytorchs_way(trainer)
    trainer.model.train()
    batches = trainer.batches()
    losses = [trainer.update(next(batches)) for _ in range(20)]
    return sum(float(loss.total) / loss.units for loss in losses[-10:]) / 10


# Large enough a model that oneDNN computes its products.
SETTINGS = "norm=adanorm", "model.dim=64", "model.ffn_dim=256", "data.batch_tokens=128"


@pytest.mark.nightly
def test_losses_are_distributed_as_pytorchs_own_operations_give_them(smoke: Smoke) -> None:
    """Masks of dropout and rounding differ, chances do not: twenty seeds on each side, none on both."""
    experiment = smoke("model.dropout=0.3", *SETTINGS)
    ours, theirs = (
        [
            last_loss(experiment.model_copy(update={"seed": first + i}), reference=first > 1)
            for i in range(20)
        ]
        for first in (1, 101)
    )
    assert ks_2samp(ours, theirs).pvalue > 0.01


@pytest.mark.parametrize("library", ["onednn", "mkl"])
def test_without_dropout_only_rounding_is_left(
    smoke: Smoke, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """So the test above compares the chances of the masks alone, which know no library."""
    monkeypatch.setenv(PRODUCTS, library)
    experiment = smoke("model.dropout=0", *SETTINGS)
    ours, theirs = (last_loss(experiment, reference=reference) for reference in (False, True))
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert ours != theirs


@pytest.mark.parametrize(("library", "versions"), [("onednn", (2, 3, 4, 7)), ("mkl", (5, 5, 5, 8))])
def test_the_record_names_the_version_of_the_numerics_and_the_digest_does_not(
    smoke: Smoke, monkeypatch: pytest.MonkeyPatch, library: str, versions: tuple[int, ...]
) -> None:
    monkeypatch.setenv(PRODUCTS, library)
    settings = ("norm=adanorm", "norm=rmsnorm", "norm=powernorm", "task=enwik8")
    for setting, version in zip(settings, versions, strict=True):
        experiment = smoke(setting)
        described = describe_environment(experiment, prepare(experiment), processes=1)
        assert described["numerics_version"] == version
        assert described["arithmetic"]["products"].lower().startswith(library)
        assert "numerics_version" not in str(experiment.identity)
