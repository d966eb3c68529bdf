"""Print the bits that the compiled kernels give, to be compared between processes; run by test_fused."""

from __future__ import annotations

from functools import partial

import numba
import torch

from adanorm.norms.closed_form import closed_form
from tests.norms.cases import FAMILY, inputs, value_and_gradient

if __name__ == "__main__":
    numba.core.config.reload_config()  # type: ignore[no-untyped-call]  # libraries may have been imported under another cache
    norms = [partial(closed_form, member=member, backend="fused") for member in FAMILY.values()]
    pairs = [value_and_gradient(norm, inputs(33, 127)) for norm in norms]
    print(*(part.view(torch.int32).sum().item() for pair in pairs for part in pair))
