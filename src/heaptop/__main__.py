"""Where ``heaptop`` and ``python -m heaptop`` begin: runs a command, and turns its outcome into an exit code.

This is the only place that catches :class:`HeaptopError` to print it, and it never knows what a command does.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from heaptop import cli
from heaptop.cli.terminal import complain
from heaptop.errors import HeaptopError

INTERRUPTED = 128 + 2
"""What a shell reports of a program that ctrl+C (SIGINT) ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (``sys.argv`` without the program's name by default) and return its exit code.

    argparse leaves by SystemExit: 2 after a wrong command line, 0 after ``--help`` and ``--version``.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A type's name may hold what the terminal's character set does not.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = cli.run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except HeaptopError as error:
        complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has what it wanted. The interpreter flushes stdout once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
