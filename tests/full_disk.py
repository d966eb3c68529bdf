"""`python -m tests.full_disk KB run ...`: a run whose files may have so many KB, as on a full disk."""

import resource
import sys

from adanorm.__main__ import main

if __name__ == "__main__":
    _, limit, *arguments = sys.argv
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * int(limit),) * 2)  # Python ignores its signal
    sys.argv = ["adanorm", *arguments]
    main()
