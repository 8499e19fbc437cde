"""Where ``heaptop`` and ``python -m heaptop`` begin: runs a command, and turns its outcome into an exit code.

This is the only place that catches :class:`HeaptopError` to print it, and it never knows what a command does.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from types import TracebackType

from heaptop import cli
from heaptop.cli.terminal import clean, complain
from heaptop.errors import HeaptopError, limit_met
from heaptop.injector.inspect import privileges

INTERRUPTED = 128 + 2  # What a shell reports of a program that ctrl+C (SIGINT) ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (``sys.argv`` without the program's name by default) and return its exit code.

    Without ``argv`` the process is a command of its own: what root has and heaptop does not need is dropped.

    argparse leaves by SystemExit: 2 after a wrong command line, 0 after ``--help`` and ``--version``.
    """
    if argv is None:
        sys.excepthook = _report_defect
        privileges.drop(for_programs=True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A type's name may hold what the terminal's character set does not.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = cli.run(sys.argv[1:] if argv is None else argv, is_program=argv is None)
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
    except (MemoryError, OSError) as caught:
        if (limit := limit_met(caught)) is None:
            raise
        complain(limit)
        return limit.exit_code
    return code


def _report_defect(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """As Python does, but that the message, which may quote what others chose, moves no cursor."""
    import traceback  # noqa: PLC0415 - for what should not happen only

    print(clean("".join(traceback.format_exception(kind, error, where))), end="", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
