"""Which objects are the agent's own: a census leaves them out, and Memory reports how large they are."""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import CODE, FUNCTION, Namespace, gc
from heaptop.injector.agent.clock import rest_if_due
from heaptop.injector.agent.fork_warning import current_filters
from heaptop.injector.agent.type_table import raw, raw_mro
from heaptop.injector.agent.values import take_batch


def enclosing(o: Any) -> Any:
    return lambda: o


CELL: Any = type(enclosing(0).__closure__[0])
FOLLOWED = (dict, list, tuple, FUNCTION, CELL, Namespace)
"""Types of our own objects whose referents are ours too."""
LEAVES = (CODE, str, bytes, bytearray, set)
"""What is measured besides those, where it is our own."""
LARGEST_SMALL = 512
"""``Objects/obmalloc.c``, SMALL_REQUEST_THRESHOLD."""
GC_HEAD = 16

HIDDEN_NAMES = sys.version_info >= (3, 11)

# The members of a code object that exist as objects; the others are made (and some then kept) when asked for.
CODE_MEMBERS: tuple[str, ...] = ("co_consts", "co_names", "co_filename", "co_name")
if sys.version_info >= (3, 11):
    CODE_MEMBERS += ("co_qualname", "co_linetable", "co_exceptiontable")
else:
    CODE_MEMBERS += ("co_code", "co_varnames", "co_freevars", "co_cellvars")
    CODE_MEMBERS += ("co_linetable" if sys.version_info >= (3, 10) else "co_lnotab",)

OWN_TYPES = (*FOLLOWED, CODE, set, slice, type(raw), type(raw_mro))


def traced_tables(s: Any) -> list[Any]:
    """Large, and of nothing but numbers and texts: nobody need look into them for objects of ours."""
    return [s.traced_files, s.traced_codes, s.traced_nodes]


def own_bytes(s: Any) -> tuple[int, int]:
    """About how many bytes our own objects take: of those that fit Python's arenas, and of larger ones.

    A name that the target has too is counted as ours, and what only C keeps for us (threads, caches) is not.
    """
    small = large = 0
    seen = not_own(s)
    stack = [globals(), globals().get("BOOT"), s]
    while stack:
        o = stack.pop()
        kind: Any = type(o)
        follow = any(kind is t for t in FOLLOWED)
        if id(o) in seen or not (follow or any(kind is t for t in LEAVES)):
            continue
        seen.add(id(o))
        size = kind.__sizeof__(o) + (GC_HEAD if follow else 0)
        if size <= LARGEST_SMALL:
            small += size
        else:
            large += size
        if follow:
            stack += gc.get_referents(o)
        elif kind is CODE:
            stack += code_members(o)
        if not len(seen) & 63:
            rest_if_due(s)
    return small, large


def own_spaces() -> list[Any]:
    return [globals(), globals().get("BOOT")]


def own_frames() -> tuple[list[int], list[Any]]:
    """The ids of the frames that run here, and their code."""
    spaces = own_spaces()
    found, codes = [], []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if any(frame.f_globals is space for space in spaces):
            found.append(id(frame))
            codes.append(frame.f_code)
        frame = frame.f_back
    return found, codes


def own_reach(s: Any, stack: list[Any], known: list[Any], names: dict[str, int] | None) -> set[int]:
    """The ids of our own tracked objects that ``stack`` leads to without ``known``; into ``names`` goes what
    :func:`expect_names` says of the code among them."""
    own = set()
    seen = not_own(s)
    seen.update(map(id, known))
    own.update([id(table) for table in traced_tables(s) if gc.is_tracked(table)])
    if s.core is not None:
        own.update((id(s.core), id(s.core.__dict__)))
        own.update([id(o) for o in gc.get_referents(s.core.__dict__) if type(o) is type(len)])
    while stack:
        for o in take_batch(stack):
            kind = type(o)
            if id(o) in seen or not any(kind is t for t in OWN_TYPES):
                continue
            seen.add(id(o))
            if gc.is_tracked(o):
                own.add(id(o))
            if any(kind is t for t in FOLLOWED):
                stack += gc.get_referents(o)
            elif kind is CODE:
                stack += code_members(o)
                if names is not None and HIDDEN_NAMES:
                    expect_names(names, stack, o)
        rest_if_due(s)
    return own


def not_own(s: Any) -> set[int]:
    """The ids of what our dicts lead to and is not to be followed: the target's own, and tables that grow large."""
    seen = {id(o) for o in (None, sys.modules, builtins_dict(), gc.callbacks, current_filters())}
    seen.update(map(id, s.filter_lists))
    seen.update(map(id, traced_tables(s)))
    return seen


def expect_names(expected: dict[str, int], stack: list[Any], code: Any) -> None:
    """Note the tuple of a code object of ours that only C can reach, by the ids of its items.

    It is tracked until the first collection sees that it holds strings only, and then no census visits it.
    """
    stack += (code.co_varnames, code.co_cellvars, code.co_freevars)  # made, and kept, by the asking
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    key = ids_text(code.co_varnames + tuple(cells) + code.co_freevars)
    expected[key] = expected.get(key, 0) + 1


def ids_text(objects: Any) -> str:
    return ",".join([str(id(o)) for o in objects])


def builtins_dict() -> Any:
    found = globals()["__builtins__"]
    return found if type(found) is dict else found.__dict__


def code_members(o: Any) -> list[Any]:
    return [getattr(o, name) for name in CODE_MEMBERS]


def core_options(s: Any, limit: int) -> dict[str, Any]:
    """What the core has to know: the addresses of the agent's own tracked objects, which it leaves out; and how many
    nanoseconds a clone may live."""
    spaces = own_spaces()
    if not s.own_lasting:  # that walk takes some milliseconds, and the rest of it none
        lasting = own_reach(s, spaces + own_frames()[1], [], None)
        s.own_lasting = b"".join([address.to_bytes(8, sys.byteorder) for address in lasting])
    own = memoryview(s.own_lasting).cast("Q").tolist()
    own += own_reach(s, [s], spaces, None)
    own += own_frames()[0]
    options = {"own": own, "wall_ns": limit}
    own += (id(own), id(options))
    return options
