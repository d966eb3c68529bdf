"""With this folder on PYTHONPATH, an interpreter finds none of the packages that ADANORM_WITHOUT names."""

import os
import sys

for name in filter(None, os.environ.get("ADANORM_WITHOUT", "").split(",")):
    sys.modules[name] = None  # type: ignore[assignment]  # its import raises ModuleNotFoundError
