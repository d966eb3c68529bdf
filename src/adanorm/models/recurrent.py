"""LSTM, GRU and a plain RNN over bytes, with a norm on the summed inputs of every gate.

B streams, T bytes per segment, I inputs, H features, G gates. A gate's norm gets the rows of one
time step, so no statistic is over time. Ba et al. 2016 (section 3.1) normalize a layer's sum W_hh h
+ W_xh x. Here each gate's H features are a row of their own, with their own norm. The bias is added
after the norm, which therefore cannot remove it.

One step is one product and a dozen small operations. torch.nn.LSTM's loop is compiled, which is
impossible with norms in the gates (`results/bench/recurrent.csv` has the speed of both).
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.model_sections import RecurrentConfig
from adanorm.models.draws import dropout
from adanorm.models.norm_sites import PlacedNorms

GateNorm = Callable[[Tensor], Tensor]  # the norm of several gates: (G, B, H) to (G, B, H)
State = tuple[Tensor, ...]  # tensors that a layer carries from step to step, each (B, H)
BYTES = 256


class Layer(nn.Module):
    """The base of all cells: weights (G, ...) of G gates, their norms, and the loop over time.

    Weights and biases are drawn like torch.nn.LSTM's, uniformly within 1/sqrt(H).
    """

    GATES: ClassVar[
        tuple[tuple[str, ...], ...]
    ]  # groups of gates that can be computed at the same time
    STATES: ClassVar[int]  # number of tensors in the state; the first is the output

    def __init__(self, make_norm: PlacedNorms, site: str, *, inputs: int, dim: int) -> None:
        super().__init__()
        self.dim = dim
        names = [name for group in self.GATES for name in group]
        count = len(names)
        self.input_weight = nn.Parameter(
            torch.empty(
                count,
                dim,
                inputs,
            )
        )
        self.hidden_weight = nn.Parameter(
            torch.empty(
                count,
                dim,
                dim,
            )
        )
        self.bias = nn.Parameter(
            torch.empty(
                count,
                1,
                dim,
            )
        )
        for parameter in self.parameters():
            nn.init.uniform_(
                parameter,
                -(dim**-0.5),
                dim**-0.5,
            )
        for name in names:
            self.add_module(f"{name}_norm", make_norm(dim, site=f"{site}.{name}_norm"))

    def forward(self, x: Tensor, state: State, weight_dropout: float = 0.0) -> tuple[Tensor, State]:
        """Return the outputs (T, B, H) for inputs (T, B, I), and the state after the last."""
        # The input products of all steps at once; the rows of a gate are contiguous.
        products = F.linear(x, self.input_weight.flatten(0, 1))
        gates = products.view(
            *x.shape[:2],
            len(self.bias),
            self.dim,
        )
        by_gate = gates.transpose(1, 2).contiguous()
        weight = F.dropout(
            self.hidden_weight,
            weight_dropout,
            self.training,
        ).transpose(1, 2)
        norms = [self._norm_of(group) for group in self.GATES]
        outputs = []
        for at_step in by_gate.unbind():
            state = self.step(at_step, state, weight, *norms)
            outputs.append(state[0])
        return torch.stack(outputs), state

    def step(self, products: Tensor, state: State, weight: Tensor, *norms: GateNorm) -> State:
        """Return the next state from a step's input products (G, B, H) and the weight (G, H, H).

        There is one norm for each group of GATES.
        """
        raise NotImplementedError

    def _norm_of(self, gates: Sequence[str]) -> GateNorm:
        """Return one norm for these gates.

        It is a single call if their norms say that they are one function of a row, and hold nothing
        of their own.
        """
        norms: list[Any] = [self.get_submodule(f"{gate}_norm") for gate in gates]
        function = norms[0].row_function
        is_shared = function is not None
        for norm in norms:
            if norm.row_function != function or norm.state_dict():
                is_shared = False
        if is_shared:
            return norms[0]

        def apart(summed: Tensor) -> Tensor:
            results = [
                norm(x)
                for norm, x in zip(
                    norms,
                    summed.unbind(),
                    strict=True,
                )
            ]
            return torch.stack(results)

        return apart


class LstmLayer(Layer):
    """Hochreiter and Schmidhuber's LSTM with forget gates, like torch.nn.LSTM; N is a gate's norm.

    (i, f, g, o) = N(W_x x + W_h h) + b
    c' = sigmoid(f) c + sigmoid(i) tanh(g)
    h' = sigmoid(o) tanh(c')
    """

    GATES = (("input_gate", "forget_gate", "candidate", "output_gate"),)
    STATES = 2

    def step(self, products: Tensor, state: State, weight: Tensor, *norms: GateNorm) -> State:
        """Return (h', c')."""
        (norm,) = norms
        hidden, cell = state
        summed = torch.baddbmm(
            products,
            hidden.expand(len(products), -1, -1),
            weight,
        )
        gates = norm(summed) + self.bias
        i, f, g, o = gates.unbind()
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.tanh(), cell


class GruLayer(Layer):
    """Cho et al.'s GRU in torch.nn.GRU's form; N is a gate's norm.

    (r, z) = sigmoid(N(W_x x + W_h h) + b)
    n = tanh(N(W_x x + r (W_h h + b_h)) + b)
    h' = (1 - z) n + z h

    A norm comes after the sum of the gate's inputs. For the candidate n that is after the reset
    gate: tanh then gets standardized features, and r weighs the past against the input. A norm of
    W_h h before r would be a norm of one part of the sum. b_h is inside, because r scales it.
    """

    GATES = (("reset_gate", "update_gate"), ("candidate",))
    STATES = 1

    def __init__(self, make_norm: PlacedNorms, site: str, *, inputs: int, dim: int) -> None:
        super().__init__(
            make_norm,
            site,
            inputs=inputs,
            dim=dim,
        )
        self.hidden_bias = nn.Parameter(torch.empty(dim).uniform_(-(dim**-0.5), dim**-0.5))

    def step(self, products: Tensor, state: State, weight: Tensor, *norms: GateNorm) -> State:
        """Return (h',)."""
        norm_of_two, norm_of_candidate = norms
        (hidden,) = state
        recurrent = torch.bmm(
            hidden.expand(
                len(products),
                -1,
                -1,
            ),
            weight,
        )
        normed = norm_of_two(products[:2] + recurrent[:2])
        reset, update = (normed + self.bias[:2]).sigmoid().unbind()
        past = reset * (recurrent[2:] + self.hidden_bias)
        normed = norm_of_candidate(products[2:] + past)
        candidate = (normed + self.bias[2:]).tanh()[0]
        return (candidate + update * (hidden - candidate),)


class RnnLayer(Layer):
    """Elman's network, like torch.nn.RNN: h' = tanh(N(W_x x + W_h h) + b); N is the norm.

    Equation 4 of Ba et al. 2016, whose f is any nonlinearity.
    """

    GATES = (("hidden",),)
    STATES = 1

    def step(self, products: Tensor, state: State, weight: Tensor, *norms: GateNorm) -> State:
        """Return (h',)."""
        (norm,) = norms
        (hidden,) = state
        summed = torch.baddbmm(products, hidden[None], weight)
        following = (norm(summed) + self.bias).tanh()
        return (following[0],)


LAYERS: dict[str, type[Layer]] = {"lstm": LstmLayer, "gru": GruLayer, "rnn": RnnLayer}


class Recurrent(nn.Module):
    """A model from bytes to the logits of the next byte; its state goes on to the next segment.

    Like Merity et al. 2018, the last layer is as wide as the embedding, which is tied to the
    output. The same features and the same recurrent weights are dropped at every step of a segment.
    """

    carries = RecurrentConfig.carries

    def __init__(self, make_norm: PlacedNorms, settings: RecurrentConfig) -> None:
        super().__init__()
        self.weight_dropout, inner = settings.weight_dropout, settings.layers - 1
        self.dropouts = [
            settings.input_dropout,
            *[settings.hidden_dropout] * inner,
            settings.output_dropout,
        ]
        self.embedding = nn.Embedding(BYTES, settings.embedding_dim)
        nn.init.uniform_(
            self.embedding.weight,
            -settings.embedding_bound,
            settings.embedding_bound,
        )
        self.output_bias = nn.Parameter(torch.zeros(BYTES))
        widths = [settings.embedding_dim, *[settings.dim] * inner, settings.embedding_dim]
        self.layers = nn.ModuleList(
            LAYERS[settings.cell](
                make_norm,
                f"layers.{index}",
                inputs=inputs,
                dim=dim,
            )
            for index, (inputs, dim) in enumerate(pairwise(widths))
        )

    def forward(self, segment: Tensor, memory: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return logits (B, T, 256) for the next byte of each of a segment (B, T), and the memory.

        `memory` comes from the previous call and is empty at a stream's start. It holds the layers'
        states one after the other, (B, H) each and without gradient.
        """
        x = self._dropped(self.embedding(segment.t()), 0)
        carried = iter(memory)
        following: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            start = x.new_zeros(x.shape[1], layer.dim)
            state = tuple(next(carried, start) for _ in range(layer.STATES))
            x, state = layer(x, state, self.weight_dropout)
            following += [tensor.detach() for tensor in state]
            x = self._dropped(x, index + 1)
        logits = F.linear(
            x,
            self.embedding.weight,
            self.output_bias,
        )
        return logits.transpose(0, 1), following

    def _dropped(self, x: Tensor, index: int) -> Tensor:
        """Return x (T, B, H) with the same features dropped at every step, by dropout `index`."""
        if not self.training or self.dropouts[index] == 0:
            return x
        mask = dropout(torch.ones_like(x[:1]), self.dropouts[index], rows=1)
        return x * mask
