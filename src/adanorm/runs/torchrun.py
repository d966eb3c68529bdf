"""torch.distributed.run, but without its report, and with the exit code of the process that failed.

A process prints its error itself. torch would add a report of its own and always end with exit code
1.
"""

import logging
import sys


def main() -> None:
    """Run the command line of `process.torchrun`.

    Exits with the code of the first process that failed.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as run

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    try:
        run()
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode < 0:  # a signal ended it, so it has printed nothing
            print(f"error: process {rank} was ended by signal {-failure.exitcode}", file=sys.stderr)
        sys.exit(failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode)


if __name__ == "__main__":
    main()
