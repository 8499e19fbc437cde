"""What heaptop refuses on a machine because it was not shown there, on live processes, that they are left unharmed."""

from __future__ import annotations

from typing import Final

from heaptop.errors import UnsupportedArchitecture
from heaptop.injector.machine import MACHINE

WHY: Final = "No test has shown there yet that this leaves the program unharmed."
SHOWN_PAGE: Final = 4096
UNDER_A_FILTER: Final = "to a process under a seccomp filter"


def unshown_error(what: str) -> UnsupportedArchitecture | None:
    """The error for what was not shown on this machine; None where all was."""
    if MACHINE.is_whole:
        return None
    return UnsupportedArchitecture(f"On {MACHINE.name} heaptop does not attach {what}.", why=WHY)


def page_error(size: int) -> UnsupportedArchitecture | None:
    """The error for a kernel with pages of that size."""
    return None if size == SHOWN_PAGE else unshown_error(f"where pages have {size >> 10} KiB, only with 4 KiB")
