"""Tests, in the folders of what they test.

`ADANORM_WITHOUT=numba,wandb` has them, and the processes that they start, do without packages.
"""

import os
import runpy
from pathlib import Path

if os.environ.get("ADANORM_WITHOUT"):
    folder = str(Path(__file__).parent / "without")
    runpy.run_path(f"{folder}/sitecustomize.py")
    found = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in found:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, found)])
