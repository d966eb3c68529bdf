import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

import adanorm.norms
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import NUMERICS
from adanorm.config.overrides import prepare_overrides
from adanorm.config.paths import choices
from adanorm.norms import NORMS, Norm, NormChoice, norm_factory

OUTSIDE = """
import torch
from torch import nn

class Doubled(nn.Module):
    def __init__(self, dim, *, factor=2.0):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x
"""


@pytest.fixture
def outside_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that offers the norm `doubled` as an entry point."""
    (tmp_path / "outside_norms.py").write_text(OUTSIDE)
    info = tmp_path / "outside_norms-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-norms\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[adanorm.norms]\ndoubled = outside_norms:Doubled\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield
    sys.modules.pop("outside_norms", None)


def test_every_norm_has_a_configuration_and_every_configuration_a_norm() -> None:
    assert set(choices("norm")) == set(NORMS)


def test_every_norms_class_is_imported_from_the_package() -> None:
    missing = {cls.__name__ for cls in NORMS.values()} - vars(adanorm.norms).keys()
    assert not missing, f"import {', '.join(missing)} in src/adanorm/norms/__init__.py"


@pytest.mark.usefixtures("outside_package")
def test_a_norm_of_another_package_is_found_by_its_entry_point() -> None:
    norm = compose_experiment(["norm=doubled", "+norm.params.factor=3"]).norm
    assert norm.name == "doubled"
    assert {**norm.code} == {"outside_norms.py": OUTSIDE.encode()}, "part of a run's identity"
    assert torch.equal(norm_factory(norm.choice)(4, site="a")(torch.ones(4)), torch.full((4,), 3.0))
    with pytest.raises(ValueError, match="factor='abc': must be a number"):
        norm_factory(compose_experiment(["norm=doubled", "+norm.params.factor=abc"]).norm.choice)


@pytest.mark.usefixtures("outside_package")
@pytest.mark.parametrize(
    "line",
    [
        "norm=outside_norms:Doubled",
        "norm.path=outside_norms:Doubled",
        "norm=none norm.path=outside_norms:Doubled",
        "norm.path=outside_norms:Doubled norm=adanorm",  # whose k and C it does not have
        "norm=outside_norms:Doubled norm.params.factor=2",
        "norm.path=outside_norms:Doubled norm.params.factor=2",
    ],
)
def test_a_norm_is_found_by_its_path(line: str) -> None:
    prepared = prepare_overrides(line.split())
    assert prepare_overrides(prepared) == prepared
    norm = compose_experiment(line.split()).norm
    assert (norm.name, norm.params) == ("Doubled", {"factor": 2} if "factor" in line else {})
    assert torch.equal(norm_factory(norm.choice)(4, site="a")(torch.ones(4)), torch.full((4,), 2.0))


@pytest.mark.parametrize("name", [*NORMS, "doubled"])
@pytest.mark.usefixtures("outside_package")
def test_released_numerics_of_a_norm_without_them_are_refused(name: str) -> None:
    if name in NUMERICS:
        norm_factory(NormChoice(name, numerics="released"))(8, site="a")
        return
    outside = None if name in NORMS else compose_experiment(["norm=doubled"]).norm.choice.outside
    with pytest.raises(
        ValueError, match=r"has no choice of numerics, so leave it paper; .* are layernorm, "
    ):
        norm_factory(
            NormChoice(
                name,
                numerics="released",
                outside=outside,
            )
        )


class Plain(nn.Module):
    """A norm that inherits from torch's modules alone, and declares how it differs from the defaults."""

    depends_on_batch = True

    def __init__(self, dim: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((dim,), scale))

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        return self.weight * (x - x.mean(0))


class InTheLayer(nn.Identity):
    def attach(self, layer: nn.Module) -> None:
        nn.init.zeros_(layer.get_parameter("weight"))


def test_a_plain_module_is_a_norm_with_what_it_declares_and_the_defaults() -> None:
    norm = norm_factory(NormChoice("plain", {"scale": 3.0}, outside=Plain))(4, site="a")
    assert isinstance(norm, Plain)
    assert isinstance(norm, Norm)
    assert (norm.depends_on_batch, norm.depends_on_positions, norm.needs_positions) == (
        True,
        False,
        False,
    )
    assert (norm.row_function, norm.lives_in_layer, norm.reference(torch.ones(4))) == (
        None,
        False,
        None,
    )
    assert [*norm.state_dict()] == ["weight"]
    x = torch.tensor([[1.0], [3.0]]).expand(2, 4)
    assert torch.equal(norm(x), torch.tensor([[-3.0], [3.0]]).expand(2, 4))
    assert repr(norm) == "Plain()"


class Heads(nn.GroupNorm):
    """A norm that does not fit every width, as others write it; its `groups` is a word and no number."""

    def __init__(self, dim: int, *, heads: int = 8, groups: str = "heads") -> None:
        assert dim % heads == 0, "heads divide dim"
        super().__init__(heads, dim)


def test_a_norm_may_need_a_width_that_its_heads_divide_and_its_error_is_one_line() -> None:
    assert norm_factory(NormChoice("heads", outside=Heads))(16, site="a").num_channels == 16
    with pytest.raises(ValueError, match=r"^norm heads: AssertionError: heads divide dim"):
        norm_factory(NormChoice("heads", {"heads": 7}, outside=Heads))


def test_a_plain_module_with_attach_lives_in_the_layer_before() -> None:
    make_norm = norm_factory(NormChoice("in the layer", outside=InTheLayer))
    assert make_norm.trial.lives_in_layer
    layer = nn.Linear(3, 2)
    make_norm.trial.attach(layer)
    assert not layer.weight.any()


@pytest.mark.parametrize("eps", [1e-46, 1e39])
def test_a_number_that_single_precision_does_not_have_is_refused(eps: float) -> None:
    with pytest.raises(ValueError, match="is 0 or infinite in single precision"):
        NORMS["layernorm"](4, eps=eps)


class HalfNorm(nn.Module):
    """A norm of a user, whose class has a signature of its own, as that of some Pythons is."""

    __signature__ = inspect.Signature()
    tries: ClassVar = {"power": (0.25, 0.5)}

    def __init__(self, dim: int, power: float = 0.5, groups: int = 5) -> None:
        super().__init__()
        self.dim, self.power, self.groups = dim, power, groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.power


def test_parameters_are_those_of_the_constructor() -> None:
    norm = norm_factory(NormChoice("half", {"power": 0.25}, outside=HalfNorm))
    assert norm(4, site="a").power == 0.25
    assert isinstance(norm.trial.dim, int)
    assert norm.trial.dim % 5 == 0, "the default of groups"
    with pytest.raises(ValueError, match=r"norm\.params\.power='a': must be a number"):
        norm_factory(NormChoice("half", {"power": "a"}, outside=HalfNorm))


def test_a_norm_whose_first_argument_is_a_setting_is_refused() -> None:
    class EpsFirst(nn.Module):
        def __init__(self, eps: float = 1e-5, dim: int = 48) -> None:
            super().__init__()

    message = (
        "norm eps: the first argument of EpsFirst is eps: float = 1e-05; a norm is constructed"
    )
    with pytest.raises(ValueError, match=f"^{message} from its width"):
        norm_factory(NormChoice("eps", outside=EpsFirst))
