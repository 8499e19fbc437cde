"""Objects in another interpreter, under the same GIL (``shared``) or one of its own (``own``, from Python 3.12 on).

It says which id that has. With ``churn`` as a second argument a thread makes such interpreters and ends them again,
without a pause; with ``both`` the main interpreter has as many objects, of a class of the same name.
"""

import signal
import sys
import threading

import steady

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

PLANTED = 5000
CODE = f"""
class Planted:
    def __init__(self):
        self.items = [self]
kept = [Planted() for _ in range({PLANTED})]
"""


def create(kind):
    if sys.version_info >= (3, 13):
        return interpreters.create("isolated" if kind == "own" else "legacy")
    return interpreters.create(isolated=kind == "own") if sys.version_info >= (3, 12) else interpreters.create()


def run(interpreter, code):
    function = interpreters.exec if sys.version_info >= (3, 13) else interpreters.run_string
    failed = function(interpreter, code)
    if failed:
        raise RuntimeError(failed)


def churn(kind):
    while True:
        other = create(kind)
        run(other, "kept = [[] for _ in range(100)]")
        interpreters.destroy(other)


other = create(sys.argv[1])
run(other, CODE)
if sys.argv[2:] == ["churn"]:
    threading.Thread(target=churn, args=sys.argv[1:2], daemon=True).start()
if sys.argv[2:] == ["both"]:
    exec(CODE)
steady.ready(int(other))
try:
    while True:
        signal.pause()
finally:
    interpreters.destroy(other)
