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
    """What the agent says in Python mode, see agent/type_table.py."""
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


def cython_function():
    """Or None: only where there is a numpy, and one whose functions are of a type of Cython's own."""
    try:
        import numpy.random  # noqa: PLC0415 no other part of this needs it
    except ImportError:
        return None
    found = [each for each in vars(numpy.random.mtrand).values() if "cython_function" in type(each).__name__]
    return found[0] if found else None


def instances_without_module():
    """(instances of types whose ``__module__`` is no text, their names): ``tp_name`` has more, and repr shows it."""
    made = [type("package.module.Named", (), {}), type("Bare", (), {}), type("p.\u20ac.Named", (), {})]
    for each in made:
        each.__qualname__ = each.__name__.rpartition(".")[2]
        each.__module__ = property()
    found, names = [each() for each in made], [("package.module", "Named"), ("?", "Bare"), ("p.\u20ac", "Named")]
    function = cython_function()
    if function is not None:
        module, _, qualname = repr(type(function))[len("<class '") : -len("'>")].rpartition(".")
        assert (module[:8], qualname) == ("_cython_", "cython_function_or_method")
        found.append(function)
        names.append((module, qualname))
    return found, names


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
    heap, names = instances_without_module()
    print(ascii((names, *answers(core))))
    for static in ([b"heaptop." + name for name in STATIC_NAMES], [name + b".Static" for name in STATIC_NAMES]):
        names, (stopped, cloned) = with_static_names(core, static)
        print(ascii((names, stopped, cloned)))


if __name__ == "__main__":
    main()
