"""Which changes of weights and data leave a norm's output as it is (Ba et al. 2016, table 1).

A layer x -> W x without bias is followed by the norm: x (B, T, D), W (H, D), z (B, T, H), in
float64. Learned parameters are moved away from their initial values, at which SeeDNorm, for one, is
RMSNorm.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from adanorm.analyses.spec import AnalysisRecord
from adanorm.config.sections import NormConfig, Param
from adanorm.norms import MakeNorm, norm_factory
from adanorm.norms.closed_form import computed_by
from adanorm.norms.registry import has_setting
from adanorm.records.environment import describe
from adanorm.records.folder import RunFolder

B, T, D, H = 16, 5, 12, 16
ONE_VECTOR = torch.linspace(
    -1,
    2,
    D,
    dtype=torch.float64,
)
FACTORS = torch.linspace(
    0.5,
    3,
    H,
    dtype=torch.float64,
)[:, None]

# The table's columns (Ba et al. 2016, section 5.1); re-centering adds a vector of the inputs'
# width.
CHANGES: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "matrix_rescaled": lambda W, x: (2.5 * W, x),
    "matrix_recentered": lambda W, x: (W + ONE_VECTOR, x),
    "vectors_rescaled": lambda W, x: (FACTORS * W, x),
    "data_rescaled": lambda W, x: (W, 2.5 * x),
    "data_recentered": lambda W, x: (W, x + ONE_VECTOR),
    "one_rescaled": lambda W, x: (W, torch.cat([2.5 * x[:1], x[1:]])),
}


def make(record: AnalysisRecord) -> None:
    """Write the record of a norm: how far its output moves under each change."""
    run = record.experiment
    backend = computed_by(
        norm_factory(run.norm.choice).trial, run.norm.backend, "cpu", torch.float64
    )
    device = torch.device("cpu")
    threads = torch.get_num_threads()
    setup = describe(
        device=device, precision="fp64", processes=1, threads=threads, norm_backend=backend
    )
    with RunFolder(record.folder()).recording(
        record.identity,
        setup,
        run.norm.code,
    ) as recording:
        if recording.is_complete:
            return
        numbers = differences(
            run.norm,
            seed=run.seed,
            options=record.analysis.options,
        )
        recording.result = record.result(
            status="done",
            summary=numbers,
            places={"": numbers},
        )


def differences(norm: NormConfig, *, seed: int, options: Mapping[str, Param]) -> dict[str, float]:
    """Return for each change the largest difference of z, in units of the root mean square of z.

    A norm with an eps gets that of `options`, since its own would spoil exactness. Draws of N(0,
    learned^2) are added to the initial values of its parameters.
    """
    eps = float(options["eps"])
    learned = float(options["learned"])
    make_norm = norm_factory(norm.choice)
    if has_setting(make_norm.cls, "eps"):
        make_norm = norm_factory(norm.choice._replace(params={**norm.params, "eps": eps}))
    torch.manual_seed(seed)
    W = torch.randn(
        H,
        D,
        dtype=torch.float64,
    )
    x = torch.randn(B, T, D, dtype=torch.float64)
    before = _output(
        make_norm,
        W,
        x,
        W,
        seed,
        learned,
    )
    size = before.square().mean().sqrt()
    moved = {}
    for name, change in CHANGES.items():
        after = _output(
            make_norm,
            *change(W, x),
            W,
            seed,
            learned,
        )
        moved[name] = ((after - before).abs().max() / size).item()
    return moved


def _output(
    make_norm: MakeNorm, W: Tensor, x: Tensor, first: Tensor, seed: int, learned: float
) -> Tensor:
    """Return z (B, T, H); `first` are the layer's weights before the change."""
    torch.manual_seed(seed)  # the norm's parameters are the same draws in each case
    module = make_norm(H, site="here").double()
    layer = nn.Linear(
        D,
        H,
        bias=False,
        dtype=torch.float64,
    )
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=learned)
        layer.weight.copy_(first)
        if module.lives_in_layer:
            # A norm of the weights: its gain comes from the first weights, and the change is to its
            # vector v.
            module.attach(layer)
            layer.parametrizations.weight.original1.copy_(W)  # type: ignore[union-attr,operator]
        else:
            layer.weight.copy_(W)
        torch.manual_seed(seed)  # a noisy norm draws the same noise
        z: Tensor = module.train()(layer(x))
    return z
