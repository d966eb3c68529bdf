"""Tests, in the same folders as the code that they test.

With `ADANORM_WITHOUT=numba,wandb` the tests, and the processes that they start, find none of these
packages.
"""

import os
import runpy
from pathlib import Path

if os.environ.get("ADANORM_WITHOUT"):
    folder = str(Path(__file__).parent / "without")
    runpy.run_path(f"{folder}/sitecustomize.py")
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in entries:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, entries)])
