"""Which way of computing a run's numbers this code has."""

from __future__ import annotations

# A version changes with what changes a run's random numbers or its rounding on the CPU while the experiment
# stays the same: compare scores across versions in distribution, not in bits.
# 1, where a record names none: PyTorch's own dropout, products and optimizer.
# 2: products by oneDNN, dropout by a counter, AdamW in one pass (models/kernels, training/optimizer); kernels
#    of the norms beside the paper's, and other noise of batchnorm-noisy.
# 3: those norms by PyTorch's operations, and that noise by its generator. Runs of other norms are as in 2.
CHANGED_IN_3 = {
    "batchnorm-noisy", "powernorm", "instancenorm", "groupnorm",
    "rmsnorm", "partial-rmsnorm", "simple-rmsnorm", "preaffine-rmsnorm", "scalenorm",
    "dynamic-tanh", "derf", "pointwise", "seednorm", "gatednorm",
}  # fmt: skip


def numerics_version(norm: str) -> int:
    """Return the version of the numerics that runs of a norm have."""
    return 3 if norm in CHANGED_IN_3 else 2
