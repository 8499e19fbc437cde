"""The target of bench/native_leaks.py: works, and leaks native memory at one line. It imports nothing of heaptop.

Arguments: which leak, or work without one; units of work, the built native_leak.c, a file for the CPU time it took.
"""

import ctypes
import importlib.machinery
import importlib.util
import json
import sys
import time
import zlib

which, units, module, answer = sys.argv[1:5]
DOCUMENT = {f"key {i}": [i, str(i), {"of": i}] for i in range(300)}
TEXT = b"".join(b"line %d of a text\n" % i for i in range(3000))


def extension():
    native_leak.leak(20, 1000)  # the leak


def foreign():
    process.malloc(20_000)  # the leak


def package():
    LexborHTMLParser(PAGE).css("a")  # the leak


def compressing():
    zlib.decompress(zlib.compress(TEXT))


def blocks():
    for _ in range(2000):
        bytes(600)


def documents():
    json.loads(json.dumps(DOCUMENT))


if which == "extension":
    loader = importlib.machinery.ExtensionFileLoader("native_leak", module)
    native_leak = importlib.util.module_from_spec(importlib.util.spec_from_loader("native_leak", loader))
    loader.exec_module(native_leak)
elif which == "foreign":
    process = ctypes.PyDLL(None)
    process.malloc.restype, process.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
elif which == "package":
    from selectolax.lexbor import LexborHTMLParser

    PAGE = "<p><a href=x>text</a></p>"

work = [globals()[which]]
if which in ("extension", "foreign", "package"):
    work += [documents, compressing]
began = time.process_time()
for _ in range(int(units)):
    for each in work:
        each()
took = time.process_time() - began
with open(answer, "w") as file:
    file.write(repr(took))
