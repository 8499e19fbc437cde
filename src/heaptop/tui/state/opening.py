"""What is known of a process before anything is loaded that could attach to it, or start it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heaptop.protocol.source import Source


@dataclass(frozen=True, slots=True)
class Opening:
    """A process, or a program, and how to open it."""

    pid: int  # 0 of one that is yet to be started
    command: str
    python: str
    user: str
    connect: Callable[[], Source]  # Makes the source, once this was shown. May raise HeaptopError.
    note: str = ""
