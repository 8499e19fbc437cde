"""Types with names that are hard to write down, and what the native core makes of them.

Argument: the core's library. Prints (names as the interpreter says them, the answer of stop, the answer of a clone).
"""

import ctypes
import sys

import core_breaks

TEXTS = [
    "Caf\u00e9",
    "\u20ac",
    "\U0001f600",
    "e\u00e9\u20ac\U0001f600z\u07ff\u0800\uffff\U00010000\U0010ffff",
    "one\udc80two\ud83d",
    "NUL\0within",
    "\u00e9" * 600,
    "x" * 511 + "\u20ac" * 2,
    "x" * 511 + "\U0001f600" * 2,
    "",
]

STATIC_NAMES = [text.encode("utf-8", "replace").replace(b"\0", b"") for text in TEXTS] + [
    b"Latin\xe9",
    b"\xc3",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xc0\xaf",
    b"\xe0\x80\xaf",
    b"\xed\xb2\x80",
    b"\xf0\x80\x80\xaf",
    b"\xf4\x90\x80\x80",
    b"\xff",
    b"x" * 600 + b"\xff",
]

STATIC = [
    *(iter(""), iter(b""), iter([]), iter(()), iter({}.keys()), iter({}.values()), iter({}.items())),
    *(reversed([]), reversed(()), zip(), map(len, ()), filter(None, ()), enumerate(()), {}.keys(), {}.values()),
    *({}.items(), slice(0), range(0), memoryview(b""), property(), staticmethod(len), classmethod(len), super(int)),
]

NAME = 24
"""Where a static type has its name: PyTypeObject.tp_name."""


def limited(get):
    """What the agent says in Python mode, see type_text in controller.py."""
    try:
        return get()[:512].replace("\0", "?")
    except UnicodeDecodeError:
        return "?"


def names_of(t):
    return limited(lambda: t.__module__), limited(lambda: t.__qualname__)


def heap_instances():
    found = []
    for i, text in enumerate(TEXTS):
        for module, qualname in ((text, f"Heap{i}"), ("heaptop", text), (text, text)):
            made = type("Heap", (), {})
            made.__module__ = module
            made.__qualname__ = qualname
            found.append(made())
    return found


def answers(core):
    core.begin(0, {})
    return core.stop(0), core.end()


def with_static_names(core, names):
    """Name static types anew, for as long as they are counted; (names, answers)."""
    types = [type(o) for o in STATIC][: len(names)]
    assert len(set(types)) == len(names)
    places = [ctypes.c_void_p.from_address(id(t) + NAME) for t in types]
    before = [place.value for place in places]
    texts = [ctypes.create_string_buffer(name) for name in names]
    for i, place in enumerate(places):
        place.value = ctypes.addressof(texts[i])
    try:
        return [names_of(t) for t in types], answers(core)
    finally:
        for i, place in enumerate(places):
            place.value = before[i]


def main():
    core = core_breaks.load(sys.argv[1])
    heap = heap_instances()
    print(ascii(([names_of(type(o)) for o in heap], *answers(core))))
    for static in ([b"heaptop." + name for name in STATIC_NAMES], [name + b".Static" for name in STATIC_NAMES]):
        names, (stopped, cloned) = with_static_names(core, static)
        print(ascii((names, stopped, cloned)))


if __name__ == "__main__":
    main()
