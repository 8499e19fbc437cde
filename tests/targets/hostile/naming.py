"""Has a name of escape sequences wherever a name can be: threads, mappings, files, modules, types, attributes, keys,
functions, phases. Its first argument is a folder of its own; ``names.py`` beside it says what the names are made of.
It allocates and leaks without end. Says ``ready``."""

import builtins
import ctypes
import mmap
import os
import sys
import threading
import time
import types
import warnings

from steady import ready

NAMED = "\x1b]52;c;aGk=\x07\x9b31m\r\u202e\u2066\u200b\n\x7f\U000e0001"
"""Sets the clipboard, changes colours, moves to a line's beginning, turns the text around. As in
tests/support/hostile_names.py."""
SIZE = 4 << 20
folder = sys.argv[1]


def resident(descriptor):
    """A mapping of a file, all of it resident."""
    os.truncate(descriptor, SIZE)
    memory = mmap.mmap(descriptor, SIZE)
    memory.write(b"x" * SIZE)
    return memory


warnings.simplefilter("ignore")
name_thread = ctypes.CDLL(None).prctl
name_thread.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_long, ctypes.c_long, ctypes.c_long]
name_thread(15, b"\x1b]52;c;a\x07\x9b\n", 0, 0, 0)
memories = [resident(os.open(os.path.join(folder, NAMED + "mapped"), os.O_RDWR | os.O_CREAT))]
if hasattr(os, "memfd_create"):
    memories.append(resident(os.memfd_create(NAMED + "memfd")))


def function(body, name):
    """A function of hostile name, module and file, from a template."""
    scope = {"__name__": NAMED, "kept": kept, "Bad": Bad, "types": types, "__builtins__": builtins}
    exec(compile(body, NAMED + "file.py", "exec"), scope)
    made = scope["template"]
    names = {"co_name": name, "co_filename": os.path.join(folder, NAMED + "file.py")}
    if hasattr(made.__code__, "co_qualname"):
        names["co_qualname"] = name
    made.__code__ = made.__code__.replace(**names)
    made.__qualname__ = made.__name__ = name
    return made


def initialise(self):
    setattr(self, NAMED + "attribute", {NAMED + "key": [NAMED + "value" + str(id(self))]})


Bad = type(NAMED + "type", (), {"__module__": NAMED + "module", "__init__": initialise})
Half = type("half", (), {"__module__": "\udc9b31m\ud800"})
kept = []
module = types.ModuleType(NAMED + "module")
module.Bad = Bad
setattr(module, NAMED + "kept", kept)
sys.modules[NAMED + "module"] = module
BODY = """
def template(number):
    kept.extend(Bad() for _ in range(number))
    kept.append({"x" + str(each): bytearray(1000) for each in range(number)})
"""
allocate = function(BODY, NAMED + "allocate")
halves = [Half() for _ in range(50_000)]

HOLD = """
def template(started, never):
    held = [Bad() for _ in range(500)]
    started.set()
    never.wait()
    return held
"""
hold = function(HOLD, NAMED + "hold")
hold.__code__ = hold.__code__.replace(
    co_varnames=tuple(name if name in ("started", "never") else NAMED + name for name in hold.__code__.co_varnames)
)


def run(started):
    name_thread(15, b"\x1b]52;c;b\x07\x9b\r", 0, 0, 0)
    hold(started, threading.Event())


started = threading.Event()
threading.Thread(target=run, args=(started,), name=NAMED + "thread", daemon=True).start()
started.wait()
try:
    import heaptop
except ImportError:
    phase = None
else:
    phase = heaptop.phase
ready()
while True:
    if phase is None:
        allocate(40)
    else:
        with phase(NAMED + "phase"):
            allocate(40)
    time.sleep(0.1)
    if len(kept) > 200_000:
        del kept[:]
