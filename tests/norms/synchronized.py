"""`python -m tests.norms.synchronized RANK PORT FOLDER`: a process of two that share BatchNorm's batches."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.norms.test_over_batch import share_of_a_synchronized_norm

if __name__ == "__main__":
    share_of_a_synchronized_norm(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
