"""What a norm is, and what it may declare of itself."""

import math
from collections.abc import Hashable
from functools import cache, partial, reduce
from typing import Any

import torch
from torch import Tensor, fx, nn

# Where a norm keeps the module whose place it took, and what it kept of its parameters: in its __dict__, in a
# tuple, where no state dict and no optimizer sees it, and a copy of the model can be restored as well.
ORIGINAL = "_adanorm_original"


def check_floating_point(x: Tensor) -> None:
    """Raise NotImplementedError for integers and complex numbers, as torch's norms do."""
    if not x.is_floating_point():
        raise NotImplementedError(f"no norm is implemented for {x.dtype}: x must be floating-point")


def check_positive(**settings: float) -> None:
    """Raise ValueError, with its name, for a setting that is not above 0 and finite."""
    for name, value in settings.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name}={value}: must be above 0 and finite")


def check_choice(name: str, value: str, *choices: str) -> None:
    """Raise ValueError, with the choices, for a setting that is none of them."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: choose {', '.join(choices[:-1])} or {choices[-1]}")


def upcast(x: Tensor) -> Tensor:
    """Return x in float32 at least: what statistics are computed in."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


class Norm(nn.Module):
    """A norm of `dim` features, its first argument: `forward(x)` maps (..., dim) to itself.

    What is declared here holds for a norm of single rows; a norm overrides what is different for it.
    A plain nn.Module that declares the same names is a norm too: `as_norm` adds what it leaves out.
    """

    # Whether statistics are taken over the examples of a batch, or over the positions of an example.
    # `forward(x, rows)` then takes a mask (B, ...) of the rows that count: true is no padding.
    depends_on_batch: bool = False
    depends_on_positions: bool = False
    # Whether statistics over a batch are over all processes' shares of it; None: they cannot be.
    synchronized: bool | None = None
    # Whether x (B, H), an example of one row, is an error.
    needs_positions: bool = False
    # What a row becomes, where that is all there is to it: norms that agree in it may share one call.
    row_function: Hashable | None = None
    # Whether it works through the weights of the layer before it, which are handed to `attach`.
    lives_in_layer: bool = False
    # Whether `dim` may be the sizes of several last axes, (C, H, W) of images, which are one row then.
    takes_axes: bool = False
    # Whether kernels of ours compute it, unless its `backend` is eager.
    has_kernels: bool = False
    # nn.TransformerEncoderLayer computes LayerNorm in place of whatever stands there, in evaluation, if
    # both its norms have an equal eps. This one is equal to none, nor to itself.
    eps: float = math.nan

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for name in ("weight", "bias"):  # nn.TransformerEncoder asks for them
            if not hasattr(self, name):
                self.register_parameter(name, None)

    def __call__(self, x: Tensor, *rows: Tensor | None) -> Any:
        """Return forward's z, of an unusual x as torch's LayerNorm does.

        A norm whose statistics are taken over more than a row is told which `rows` count, if a mask is given.
        In a graph of torch.fx a norm is one node; each example of a nested tensor, which
        nn.TransformerEncoder makes of padded ones in evaluation, is a batch by itself. Raises
        NotImplementedError for integers.
        """
        if isinstance(x, fx.Proxy):
            node = partial(x.tracer.create_proxy, "call_module", x.tracer.path_of_module(self))
            return x.tracer.call_module(self, lambda *inputs: node(inputs, {}), (x, *rows), {})
        if x.is_nested:
            examples = [self(example.unsqueeze(0)).squeeze(0) for example in x.unbind()]
            return torch.nested.as_nested_tensor(examples, layout=x.layout)
        self.check(x)
        over_rows = self.depends_on_batch or self.depends_on_positions
        return super().__call__(x, *[mask for mask in rows if over_rows and mask is not None])

    def check(self, x: Tensor) -> None:
        """Raise NotImplementedError or ValueError for an x that this norm is not of."""
        check_floating_point(x)

    def _apply(self, *arguments: Any, **options: Any) -> Any:
        """Move or cast this norm, and with it the one whose place it took."""
        if ORIGINAL in self.__dict__:
            self.__dict__[ORIGINAL][0]._apply(*arguments, **options)
        return super()._apply(*arguments, **options)  # type: ignore[no-untyped-call]

    def reference(self, x: Tensor) -> Tensor | None:
        """Return the definition written out in plain torch operations, (..., dim), or None.

        The checks differentiate it. Without one they differentiate `forward` numerically, which does
        not see a stopped gradient.
        """
        return None

    def attach(self, layer: nn.Module) -> None:
        """Reparametrize the layer whose output reaches this norm, its weights drawn."""
        raise NotImplementedError(f"{type(self).__name__} does not live in a layer")


def as_norm(cls: Any) -> type[Norm]:
    """Return a class of modules as one of norms, with the declarations it lacks; ValueError for others."""
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise ValueError(f"{cls!r}: a norm is a class of torch.nn.Module")
    declared: Any = cls  # a class hashes, whatever its instances do
    return cls if issubclass(cls, Norm) else _declared(declared)


@cache
def _declared(cls: Any) -> type[Norm]:
    declared: dict[str, Any] = {"lives_in_layer": hasattr(cls, "attach"), "__module__": cls.__module__}
    declared["__reduce_ex__"] = lambda self, _: (_new, (cls,), self.__dict__)  # its name is that of `cls`
    return type(cls.__name__, (cls, Norm), declared)


def _new(cls: type[nn.Module]) -> Norm:
    """Return what a pickled norm of this class is made from; its state comes after."""
    kind = as_norm(cls)
    return kind.__new__(kind)


class Gained(Norm):
    """What a norm does with its gain and bias, whatever made them."""

    weight: Any  # a parameter of gains, or None; so are the others
    bias: Any
    gain_less_one: nn.Parameter | None

    @property
    def learned_gain(self) -> Tensor | None:
        """The gain, in float32 at least: 1 + g of half precision would be 1 for small g."""
        if self.gain_less_one is not None:
            return 1 + upcast(self.gain_less_one)
        return None if self.weight is None else upcast(self.weight)

    def affine(self, y: Tensor, x: Tensor) -> Tensor:
        """Return gain * y + bias, (..., H), in the type that x has with gain and bias."""
        gain, bias = self.learned_gain, self.bias
        if gain is not None:
            y = y * gain
        return (y if bias is None else y + upcast(bias)).to(self.type_with(x))

    def type_with(self, x: Tensor) -> torch.dtype:
        """Return the type of x, or the wider one of what is learned."""
        return reduce(torch.promote_types, (one.dtype for one in self.parameters(recurse=False)), x.dtype)


class Affine(Gained):
    """A gain of ones and a bias of zeros, each (H,), or without one or both: None.

    With `zero_centered` the gain less one is learned. It has a name of its own, since who reads a `weight`
    takes it for a gain.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self, dim: int, *, gain: bool, bias: bool, zero_centered: bool = False, eps: float = 1e-5
    ) -> None:
        super().__init__()
        check_positive(eps=eps)
        self.dim, self._eps = dim, eps
        self.weight = nn.Parameter(torch.ones(dim)) if gain and not zero_centered else None
        self.gain_less_one = gain_less_one(dim, gain=gain) if zero_centered else None
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None

    def check(self, x: Tensor) -> None:
        """Raise ValueError where the last axis of x is not H, or no axis has the positions that it needs."""
        super().check(x)
        name = type(self).__name__
        if x.shape[-1:] != (self.dim,):
            shown = f"has {x.shape[-1]}" if x.dim() else "is missing: x has no"
            raise ValueError(f"{name}({self.dim}): the last axis {shown} features")
        if self.needs_positions and x.dim() < 3:
            raise ValueError(f"{name}: x {tuple(x.shape)} has no positions between batch and features")


def gain_less_one(*shape: int, gain: bool) -> nn.Parameter:
    """Return g of a gain 1 + g, zeros of a shape; raises ValueError where there is no gain."""
    if not gain:
        raise ValueError("zero_centered=True: needs gain=true, which it is about")
    return nn.Parameter(torch.zeros(*shape))
