"""`python -m tests.norms.synchronized RANK WORLD PORT FOLDER`: one of the processes that share batches."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.norms.test_over_batch import share_of_synchronized_norms

if __name__ == "__main__":
    rank, world, port = (int(argument) for argument in sys.argv[1:4])
    share_of_synchronized_norms(rank, world, port, Path(sys.argv[4]))
