"""The machine that heaptop runs on, which is that of every process it attaches to. Each has a module."""

from __future__ import annotations

import platform
from typing import Final

from heaptop.injector.machine.aarch64 import Arm
from heaptop.injector.machine.base import Machine
from heaptop.injector.machine.x86_64 import X86

KNOWN: Final[dict[str, Machine]] = {machine.name: machine for machine in (X86(), Arm())}
MACHINE: Final = KNOWN.get(platform.machine(), KNOWN["x86_64"])
"""On any other, nothing is attached to (:func:`heaptop.injector.inspect.preflight.check_machine`)."""
