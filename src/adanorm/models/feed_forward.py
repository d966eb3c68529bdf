"""Networks of linear layers and norms: a parser's classifier, and one without activations."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from adanorm.config.model_sections import DeepLinearConfig, TransitionParserConfig
from adanorm.models.fast_layers import sum_rows
from adanorm.models.norm_sites import PlacedNorms

Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "cube": lambda x: x**3,
}


class TransitionParser(nn.Module):
    """Hidden layers over concatenated embeddings, with a norm before each activation or after it.

    They map features to the scores of actions, like Chen & Manning 2014. `norm_position` is `pre`,
    `post` (behind the activation) or `sandwich` (one norm on either side).
    """

    def __init__(
        self,
        make_norm: PlacedNorms,
        settings: TransitionParserConfig,
        *,
        vocabulary: int,
        features: int,
        actions: int,
    ) -> None:
        super().__init__()
        self.position, dim = settings.norm_position or "pre", settings.dim
        self.embedding = nn.Embedding(vocabulary, settings.embedding_dim)
        nn.init.normal_(self.embedding.weight, std=settings.embedding_sd)
        widths = [features * settings.embedding_dim, *[dim] * settings.layers]
        self.linears = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.norms = nn.ModuleList(
            make_norm(
                dim,
                site=f"norms.{i}",
                after=f"linears.{i}",
            )
            for i in range(settings.layers)
        )
        self.output_norms = nn.ModuleList(
            make_norm(dim, site=f"output_norms.{i}")
            for i in range(settings.layers if self.position == "sandwich" else 0)
        )
        self.dropout = nn.Dropout(settings.dropout)
        self.output = nn.Linear(dim, actions)
        self._activation = ACTIVATIONS[settings.activation]

    def forward(self, features: Tensor) -> Tensor:
        """Return logits (B, actions) for features (B, F): ids of words, tags and labels."""
        if features.device.type == "cpu":
            x = self._products(features)
        else:
            x = self.linears[0](self.embedding(features).flatten(1))
        for index, norm in enumerate(self.norms):
            if index:
                x = self.linears[index](x)
            if self.position != "post":
                x = norm(x)
            x = self._activation(x)
            if self.position == "post":
                x = norm(x)
            elif self.position == "sandwich":
                x = self.output_norms[index](x)
            x = self.dropout(x)
        return self.output(x)

    def _products(self, features: Tensor) -> Tensor:
        """Return the first layer's sums (B, H) by one product for each distinct pair (feature, id).

        It is Chen and Manning's pre-computation (2014, section 3.2) within a batch: of the pairs in
        1,024 states about one in nine is distinct.
        """
        first = self.linears[0]
        assert isinstance(first, nn.Linear)
        count, ids = features.shape[1], self.embedding.num_embeddings
        offsets = torch.arange(count + 1) * ids
        pairs, indices = torch.unique(features + offsets[:-1], return_inverse=True)
        per_feature = torch.searchsorted(pairs, offsets).diff().tolist()
        vectors = self.embedding(pairs % ids).split(per_feature)
        weights = first.weight.t().view(
            count,
            -1,
            first.out_features,
        )
        products = [
            v @ weight
            for v, weight in zip(
                vectors,
                weights.unbind(),
                strict=True,
            )
        ]
        return sum_rows(torch.cat(products), indices) + first.bias


class DeepLinear(nn.Module):
    """Linear layers without bias, and a norm after each but the last (Santurkar et al. 2018).

    `init` is `xavier`, which keeps the variance through a square layer (Glorot and Bengio 2010), or
    `default`, torch's own, which divides the variance by three.
    """

    def __init__(
        self, make_norm: PlacedNorms, settings: DeepLinearConfig, *, inputs: int, outputs: int
    ) -> None:
        super().__init__()
        dim, layers = settings.dim, settings.layers
        widths = [inputs, *[dim] * (layers - 1), outputs]
        self.linears = nn.ModuleList(nn.Linear(*pair, bias=False) for pair in pairwise(widths))
        self.norms = nn.ModuleList(
            make_norm(dim, site=f"norms.{index}", after=f"linears.{index}")
            for index in range(layers - 1)
        )
        if settings.init == "xavier":
            for linear in self.linears:
                nn.init.xavier_normal_(linear.get_parameter("weight"))

    def forward(self, x: Tensor) -> Tensor:
        """Return predictions (B, outputs) for inputs (B, inputs)."""
        for linear, norm in zip(
            self.linears[:-1],
            self.norms,
            strict=True,
        ):
            x = norm(linear(x))
        return self.linears[-1](x)
