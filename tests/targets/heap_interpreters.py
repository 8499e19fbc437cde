"""Objects in an interpreter of its own (PEP 684), which has arenas of its own. Runs on Python 3.12 on."""

import signal
import sys

from steady import ready

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

CODE = "kept = [str(i) * 5 for i in range(100_000)]"

if sys.version_info >= (3, 13):
    inner = interpreters.create("isolated")
    failed = interpreters.exec(inner, CODE)
else:
    inner = interpreters.create(isolated=True)
    failed = interpreters.run_string(inner, CODE)
ready(failed or "")
while True:
    signal.pause()
