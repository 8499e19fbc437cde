"""The registry of backends, in the order they are tried. One line adds one."""

from typing import Final

from heaptop.injector.backends import Backend
from heaptop.injector.backends.pep768 import Pep768Backend
from heaptop.injector.backends.ptrace import PtraceBackend
from heaptop.injector.backends.run import RunBackend

BACKENDS: Final[tuple[Backend, ...]] = (PtraceBackend(), Pep768Backend(), RunBackend())
