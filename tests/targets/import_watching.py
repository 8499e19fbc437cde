"""A program that has replaced ``__import__`` and has a finder of its own, as lazy imports and tracers do: says FOREIGN
and the name where either is asked for one, once all is imported."""

import builtins
import socket  # noqa: F401  a debugger's script asks for it
import sys
import time

from steady import ready, say

usual = builtins.__import__


class Finder:
    @staticmethod
    def find_spec(name, _path=None, _target=None):
        say("FOREIGN find " + name)


def watched_import(name, *arguments, **named):
    say("FOREIGN import " + name)
    return usual(name, *arguments, **named)


ready()
sys.meta_path.insert(0, Finder)
builtins.__import__ = watched_import
while True:
    time.sleep(0.002)
