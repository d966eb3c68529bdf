# PYTHON_ARGCOMPLETE_OK
"""The command `adanorm`, also as `python -m adanorm`."""

from __future__ import annotations

from adanorm.cli.command import main

if __name__ == "__main__":
    main()
