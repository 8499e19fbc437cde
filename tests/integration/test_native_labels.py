"""Labels: structures planted one of each kind, and what the native core calls the way through them, on every Python."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interpreters import Interpreter
from tests.support import core_builds, native

HANDLER = "closure of __main__.make_handler: "
EXPECTED: dict[str, list[str]] = {
    "attribute": [".attribute"],
    "attribute in a dict": [".attribute"],
    "dict far behind": [""],
    "many attributes": [".attribute_last"],
    "slot": [".slot"],
    "slot of a derived class": ["._Derived__own"],
    "no attribute's name": ["[*]"],
    "no attribute's name, shown": [".not a name"],
    "class attribute": [".kept"],
    "property": [".computed", ".fget"],
    "static method": [".still", ".__func__"],
    "class method": [".of_class", ".__func__"],
    "table of subclasses": [".__subclasses__"],
    "module global": [".planted_global"],
    "its class": [".__class__"],
    "in a module": [".inside"],
    "item of a list's subclass": ["[*]"],
    "attribute of a list's subclass": [".note"],
    "list": ["[*]"],
    "list, shown": ["[1]"],
    "tuple": ["[1]"],
    "nested": ["[*]", "[*]", "[0]", "[*]"],
    "set": ["{*}"],
    "frozenset": ["{*}"],
    "dict of str": ["[*]"],
    "dict of str, shown": ["['it\\'s']"],
    "dict of int, shown": ["[-5]"],
    "dict of large int, shown": ["[1099511627776]"],
    "dict of huge int, shown": ["[*]"],
    "dict of None, shown": ["[None]"],
    "dict of tuples, shown": ["[*]"],
    "dict key": ["(a key)"],
    "deque": ["[*]"],
    "default dict": ["[*]"],
    "default dict's factory": [".default_factory"],
    "ordered dict": ["[*]"],
    "named tuple": [".y"],
    "emptied dict, shown": ["['last']"],
    "items of emptied dicts, shown": [],
    "closure": [HANDLER + "record"],
    "closure's other cell": [HANDLER + "own"],
    "default argument": ["default argument user of __main__.with_defaults"],
    "default of an option": ["default argument option of __main__.with_defaults"],
    "function's attribute": [".note"],
    "function's globals": [".__globals__"],
    "lru_cache": ["lru_cache of __main__.bounded"],
    "lru_cache of a method": ["lru_cache of __main__.Invoice.total"],
    "lru_cache's key": ["lru_cache of __main__.Invoice.total", "[0]"],
    "lru_cache's function": [".__wrapped__"],
    "bound method": [".__self__"],
    "method of C": [".__self__", "[*]"],
    "partial": [".args", "[1]"],
    "partial's keyword": [".keywords", "[*]"],
    "generator": ["generator generate() local held"],
    "generator not begun": ["generator generate() local held"],
    "generator's loop": ["generator loop_over.<locals>.generate_items() value in use"],
    "coroutine": ["coroutine wait_here() local held"],
    "async generator": ["async generator generate_later() local held"],
    "exception": [".__traceback__"],
    "frame of a traceback": ["frame fail() local held"],
    "exception's argument": [".args", "[0]"],
    "exception's cause": [".__cause__"],
    "exception's context": [".__context__"],
    "exception's attribute": [".note"],
    "weak reference": ["weakref callback"],
    "weak reference to": [],
    "thread-local": [".request of a thread"],
    "context variable": ["context variable variable_7"],
    "function's name": [".__name__"],
    "future": ["._result"],
    "future's loop": ["._loop"],
    "future's exception": ["._exception"],
    "future's callback": ["._callbacks"],
    "future's other callback": ["._callbacks", "[*]", "[0]"],
    "task": ["._coro"],
    "task's local": ["._coro", "coroutine fetch() local held"],
    "task waits": ["._fut_waiter"],
    "task's name": ["._name"],
    "task's result": ["._result"],
}
ARRAYS = {"view": [".base"], "array of objects": ["[*]"], "array's type": [".dtype"]}


def told(interpreter: Interpreter, **environment: str) -> Any:
    if interpreter.packages is not None:
        environment["PYTHONPATH"] = str(interpreter.packages)
    return native.told(interpreter, "labels_planted.py", environment=environment)


def expected(interpreter: Interpreter) -> dict[str, list[str] | None]:
    return {**EXPECTED, **{name: label if interpreter.has("numpy") else None for name, label in ARRAYS.items()}}


def test_each_way_is_called_as_python_would_write_it(interpreter: Interpreter) -> None:
    assert told(interpreter) == expected(interpreter)


@pytest.mark.pythons("3.8", "3.10", "3.11", "3.12", "3.13")
def test_sanitizers_find_nothing(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(core_builds.SANITIZED_VARIABLE, "1")
    assert told(interpreter, **core_builds.sanitizer_variables()) == expected(interpreter)
