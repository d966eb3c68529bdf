"""The base class of norms, and what a norm may declare about itself."""

import inspect
import math
from collections.abc import Hashable, Mapping
from functools import cache, partial, reduce
from typing import Any

import torch
from torch import Tensor, fx, nn

# The key in a swapped norm's __dict__ for the module that it replaced and the paths of parameters
# taken over. A tuple holds them: no state dict and no optimizer sees them, and a copy of the model
# can be restored too.
ORIGINAL = "_adanorm_original"


def check_floating_point(x: Tensor) -> None:
    """Raise NotImplementedError for integers and complex numbers, as torch's norms do."""
    if not x.is_floating_point():
        raise NotImplementedError(f"no norm is implemented for {x.dtype}: x must be floating-point")


def check_positive(**settings: float) -> None:
    """Raise ValueError, naming the setting, unless each setting is above 0 and finite."""
    for name, value in settings.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name}={value}: must be above 0 and finite")
        if not 1.2e-38 < value < 3.4e38:
            raise ValueError(f"{name}={value}: is 0 or infinite in single precision")


def check_choice(name: str, value: str, *choices: str) -> None:
    """Raise ValueError, listing the choices, unless a setting's value is one of them."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: choose {', '.join(choices[:-1])} or {choices[-1]}")


def upcast(x: Tensor) -> Tensor:
    """Return x in float32 at least, the type in which statistics are computed."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


class Norm(nn.Module):
    """A norm of `dim` features, its first argument: `forward(x)` maps (..., dim) to (..., dim).

    The declarations below describe a norm of single rows; another norm overrides those that differ.
    A plain nn.Module with the same declarations is a norm too: `as_norm` adds those that it lacks.
    """

    # Whether statistics are taken over the examples of a batch, or over the positions of an
    # example. `forward(x, rows)` then takes a mask (B, ...) that is true at the rows that count,
    # false at padding.
    depends_on_batch: bool = False
    depends_on_positions: bool = False
    # Whether statistics over a batch include the shares of all processes; None: the norm cannot do
    # that.
    synchronized: bool | None = None
    # Whether examples of one row, x (B, H), are an error.
    needs_positions: bool = False
    # A key of the function from a row to its result, if the norm is nothing more than such a
    # function. Norms with equal keys may share one call.
    row_function: Hashable | None = None
    # Whether it works through the weights of the layer before it; `attach` then gets that layer.
    lives_in_layer: bool = False
    # Whether `dim` may be the sizes of several last axes, such as (C, H, W) of images, that form
    # one row.
    takes_axes: bool = False
    # Whether the suite's kernels compute it, unless its `backend` is eager.
    has_kernels: bool = False
    # In evaluation, nn.TransformerEncoderLayer replaces its norms by LayerNorm if the two have an
    # equal eps. NaN prevents that: it equals nothing, not even itself.
    eps: float = math.nan

    def __new__(cls, *arguments: Any, **settings: Any) -> Any:
        """Return an empty norm; raises TypeError for a setting that the class does not take."""
        taken = signature_of(cls) if settings else {}  # a copy has none
        takes_any = any(entry.kind is entry.VAR_KEYWORD for entry in taken.values())
        for name in settings:
            if name not in taken and not takes_any:
                raise TypeError(f"{cls.__name__} has no {name}: {takes(cls, name)}")
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for name in ("weight", "bias"):  # nn.TransformerEncoder reads them
            if not hasattr(self, name):
                self.register_parameter(name, None)

    def __call__(self, x: Tensor, *rows: Tensor | None) -> Any:
        """Return forward's z, also for a proxy of torch.fx and a nested tensor, like LayerNorm.

        `rows`, if there is a mask, reaches only norms whose statistics are over several rows. In a
        graph of torch.fx a norm is one node. Each example of a nested tensor is a batch of its own;
        nn.TransformerEncoder makes nested tensors from padded ones in evaluation. Raises
        NotImplementedError for integers.
        """
        if isinstance(x, fx.Proxy):
            tracer = x.tracer
            node = partial(
                tracer.create_proxy,
                "call_module",
                tracer.path_of_module(self),
            )
            return tracer.call_module(
                self,
                lambda *inputs: node(inputs, {}),
                (x, *rows),
                {},
            )
        if x.is_nested:
            examples = [self(example.unsqueeze(0)).squeeze(0) for example in x.unbind()]
            return torch.nested.as_nested_tensor(examples, layout=x.layout)
        self.check(x)
        over_rows = self.depends_on_batch or self.depends_on_positions
        masks = [mask for mask in rows if mask is not None]
        return super().__call__(x, *masks) if over_rows else super().__call__(x)

    def check(self, x: Tensor) -> None:
        """Raise NotImplementedError or ValueError for an x that this norm cannot take."""
        check_floating_point(x)

    def _apply(self, *arguments: Any, **options: Any) -> Any:
        """Move or cast this norm, and with it the module that it replaced."""
        if ORIGINAL in self.__dict__:
            self.__dict__[ORIGINAL][0]._apply(*arguments, **options)
        return super()._apply(*arguments, **options)  # type: ignore[no-untyped-call]

    def reference(self, x: Tensor) -> Tensor | None:
        """Return z (..., dim) by the definition in plain torch operations, or None.

        The checks differentiate it. If it is None, they differentiate `forward` numerically, and
        miss gradients that are stopped on purpose.
        """
        return None

    def attach(self, layer: nn.Module) -> None:
        """Reparametrize the layer whose output reaches this norm, once its weights are drawn."""
        raise NotImplementedError(f"{type(self).__name__} does not live in a layer")


def signature_of(cls: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a class's constructor, with `self`, by name.

    The signature of the class itself is that of `Norm.__new__` in some releases of Python 3.11.
    """
    return inspect.signature(cls.__init__).parameters


def parameters_of(cls: type[Norm]) -> list[str]:
    """Return the names of the parameters that a class of norms takes."""
    return [
        name for name in signature_of(cls) if name not in ("self", "dim", "numerics", "backend")
    ]


def takes(cls: type[Norm], setting: str) -> str:
    """Return what a class of norms takes, in words, for one who asks for another setting."""
    parameters = parameters_of(cls)
    text = f"it takes {', '.join(parameters) or 'none'}"
    taken = signature_of(cls)
    choices = [name for name in ("numerics", "backend") if name in taken]
    if choices:
        text += f", and has a choice of {' and '.join(choices)}"
    affine = [name for name in ("gain", "bias") if name in parameters]
    if setting == "elementwise_affine" and affine:
        text += f"; elementwise_affine is {' and '.join(affine)} here"
    return text


def as_norm(cls: Any) -> type[Norm]:
    """Return a class of modules as one of norms: `cls`, or with the declarations that it lacks.

    Raises ValueError for what is no class of modules.
    """
    if isinstance(cls, nn.Module):
        name = type(cls).__name__
        raise ValueError(f"{name}: pass the class, not a module of it; its settings are params")
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise ValueError(
            f"{cls!r}: a norm is a subclass of torch.nn.Module;"
            " to bind settings to one, take functools.partial"
        )
    hashable: Any = cls  # a class hashes, whatever its instances do
    return cls if issubclass(cls, Norm) else _with_declarations(hashable)


@cache
def _with_declarations(cls: Any) -> type[Norm]:
    attributes: dict[str, Any] = {
        "lives_in_layer": hasattr(cls, "attach"),
        "__module__": cls.__module__,
    }
    # Pickle cannot find the new class by its name, which is that of `cls`.
    attributes["__reduce_ex__"] = lambda self, _: (_new, (cls,), self.__dict__)
    return type(cls.__name__, (cls, Norm), attributes)


def _new(cls: type[nn.Module]) -> Norm:
    """Return an empty norm of this class for pickle, which then restores its state."""
    kind = as_norm(cls)
    return kind.__new__(kind)


class GainAndBias(Norm):
    """A norm with an optional gain and bias, which a subclass creates."""

    weight: Any  # the gain as a parameter or None, like the other two
    bias: Any
    gain_less_one: nn.Parameter | None

    @property
    def learned_gain(self) -> Tensor | None:
        """The gain, in float32 at least: in half precision 1 + g would be 1 for a small g."""
        if self.gain_less_one is not None:
            return 1 + upcast(self.gain_less_one)
        return None if self.weight is None else upcast(self.weight)

    def affine(self, y: Tensor, x: Tensor) -> Tensor:
        """Return gain * y + bias, (..., H), in the widest type of x, gain and bias."""
        gain, bias = self.learned_gain, self.bias
        if gain is not None:
            y = y * gain
        return (y if bias is None else y + upcast(bias)).to(self.type_with(x))

    def type_with(self, x: Tensor) -> torch.dtype:
        """Return the widest type of x and this norm's parameters."""
        dtypes = (parameter.dtype for parameter in self.parameters(recurse=False))
        return reduce(torch.promote_types, dtypes, x.dtype)


class Affine(GainAndBias):
    """A norm whose gain starts at ones and its bias at zeros, each (H,), or None if left out.

    With `zero_centered` the gain less one is learned. It has a name of its own, because code that
    reads `weight` takes it for a gain.
    """

    def __init__(
        self,
        dim: int,
        *,
        gain: bool = True,
        bias: bool = True,
        zero_centered: bool = False,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        check_positive(eps=eps)
        self.dim, self._eps = dim, eps
        self.weight = nn.Parameter(torch.ones(dim)) if gain and not zero_centered else None
        self.gain_less_one = gain_less_one(dim, gain=gain) if zero_centered else None
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None

    def check(self, x: Tensor) -> None:
        """Raise ValueError if the last axis of x is not H, or if x lacks the positions needed."""
        super().check(x)
        name = type(self).__name__
        if x.shape[-1:] != (self.dim,):
            problem = f"has {x.shape[-1]}" if x.dim() else "is missing: x has no"
            raise ValueError(f"{name}({self.dim}): the last axis {problem} features")
        if self.needs_positions and x.dim() < 3:
            raise ValueError(
                f"{name}: x {tuple(x.shape)} has no positions between batch and features"
            )


def gain_less_one(*shape: int, gain: bool) -> nn.Parameter:
    """Return the parameter g of a gain 1 + g, zeros; raises ValueError if `gain` is false."""
    if not gain:
        raise ValueError("zero_centered=True: needs gain=true, which it is about")
    return nn.Parameter(torch.zeros(*shape))
