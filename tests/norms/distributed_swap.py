"""`python -m tests.norms.distributed_swap RANK FOLDER`: a process of two that train a swapped model."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.norms.test_swap import share_of_a_distributed_model

if __name__ == "__main__":
    share_of_a_distributed_model(int(sys.argv[1]), Path(sys.argv[2]))
