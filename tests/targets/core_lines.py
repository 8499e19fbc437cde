"""Prints where the native core and PyCode_Addr2Line disagree on lines: (codes, [(code, offset, core, Python)]).

Argument: the core's library. The code is that of modules of the standard library, of all functions and classes in them,
and of a few with lines far apart, many on a line, and none.
"""

import ctypes
import sys

from core_breaks import load

MODULES = ("argparse", "ast", "collections", "dataclasses", "difflib", "inspect", "pickle", "typing", "unittest.mock")
FAR = "def far(a):\n    return [\n" + "\n" * 400 + "        a,\n    [b for b in a], (a +\n\n a)]\n"
MANY = "a = 1; b = 2\n" * 3
BACK = "def back(a):\n    try:\n        return (a\n  .b(\n  1) for i in a)\n    finally:\n        a\n"


def codes_in(code):
    yield code
    for constant in code.co_consts:
        if type(constant) is type(code):
            yield from codes_in(constant)


def main():
    core = load(sys.argv[1])
    line_of = ctypes.pythonapi.PyCode_Addr2Line
    line_of.argtypes = [ctypes.py_object, ctypes.c_int]
    found, codes = [], list(codes_in(compile((FAR + MANY) * 3 + BACK, "far", "exec")))
    for name in MODULES:
        path = __import__(name, fromlist=["*"]).__file__
        with open(path, encoding="utf-8") as file:
            codes += codes_in(compile(file.read(), path, "exec"))
    for code in codes:
        for offset in (-1, *range(0, len(code.co_code), 2)):
            pair = core.line_of(code, offset), line_of(code, offset)
            if pair[0] != pair[1]:
                found.append((code.co_name, offset, *pair))
    print(ascii((len(codes), found[:20])))


if __name__ == "__main__":
    main()
