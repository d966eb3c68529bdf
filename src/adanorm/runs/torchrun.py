"""torch.distributed.run with the exit code of the process that failed, and without its report.

A process prints its mistake itself. torch's own report would follow it, and its exit code is always 1.
"""

import logging
import sys


def main() -> None:
    """Run the command line of `process.torchrun`; exits with the code of the first process that failed."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as run

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    try:
        run()
    except ChildFailedError as error:
        rank, failed = error.get_first_failure()
        if failed.exitcode < 0:  # a signal ended it, so it has printed nothing
            print(f"error: process {rank} was ended by signal {-failed.exitcode}", file=sys.stderr)
        sys.exit(failed.exitcode if failed.exitcode > 0 else 128 - failed.exitcode)


if __name__ == "__main__":
    main()
