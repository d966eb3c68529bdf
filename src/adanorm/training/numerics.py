"""Which way of computing a run's numbers this code has."""

from __future__ import annotations

# It changes with what changes a run's random numbers or its rounding on the CPU while the experiment
# stays the same: compare scores across versions in distribution, not in bits.
# 1, where a record names none: PyTorch's own dropout, products and optimizer.
# 2: products by oneDNN, dropout by a counter, AdamW in one pass (models/kernels, training/optimizer); kernels
#    of the norms beside the paper's, and other noise of batchnorm-noisy (norms/kernels).
NUMERICS_VERSION = 2
