"""Which names are Python's own: of modules, types, functions and attributes of the interpreter and its library.

Known from the library of the Python that runs heaptop: its sources are parsed and never run. A name that another
version has alone is not known, and so taken for the program's.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ELSEWHERE: Final = {
    "collections.abc": "_collections_abc",
    "_frozen_importlib": "importlib._bootstrap",
    "_frozen_importlib_external": "importlib._bootstrap_external",
}
"""Modules whose source has another name."""
COMPILERS: Final = frozenset(("<dictcomp>", "<genexpr>", "<lambda>", "<listcomp>", "<locals>", "<module>", "<setcomp>"))
"""Parts of qualified names that the compiler gives; others of its own have a name of the program in them."""
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
LONGEST_SOURCE: Final = 4 << 20
MOST_PARTS: Final = 8  # Of a module's name: of the library's own at most four
PACKAGES: Final = frozenset(("site-packages", "dist-packages"))
"""Folders of the library that have packages that do not come with Python."""
_EXTENSION: Final = re.compile(r"lib-dynload/(\w+)\.(?:cpython-[\w-]+\.|abi3\.)?so")


class StandardNames:
    """Judges names. Answers are kept: a module is parsed once."""

    def __init__(self, modules: Iterable[str]) -> None:
        """``modules``: those of the program. Attributes are known of the standard ones among them."""
        self._folder = Path(sysconfig.get_path("stdlib"))
        self._of_module: dict[str, frozenset[str]] = {}
        self._types = [each for each in _all_types() if self.has_module(each.__module__)]
        self._attributes = {name for each in (*self._types, builtins) for name in vars(each)}
        for name, module in [*sys.modules.items()]:
            self._attributes |= {*dir(module)} if self.has_module(name) else set()
        for name in filter(self.has_module, modules):
            self._attributes |= self._names_of(name)

    def has_module(self, name: str) -> bool:
        """Whether it is a module of the standard library. One of its packages may have gained others."""
        first, *rest = name.split(".", MOST_PARTS)
        if first not in sys.stdlib_module_names or len(rest) == MOST_PARTS or not all(map(str.isidentifier, rest)):
            return False
        return not rest or name == "os.path" or self._source(name) is not None

    def has_file(self, name: str) -> bool:
        """Whether the library has the file of this name, below its folder."""
        if extension := _EXTENSION.fullmatch(name):
            return self.has_module(extension[1])
        parts = name.split("/")
        is_inside = PACKAGES.isdisjoint(parts) and not {"", ".", ".."} & {*parts}
        return is_inside and os.path.isfile(self._folder / name)

    def has(self, module: str, qualname: str) -> bool:
        """Whether a module has a type or a function of that name."""
        return self.has_module(module) and all(part in self._names_of(module) for part in _parts(qualname))

    def has_attribute(self, name: str) -> bool:
        """Whether some module or type has an attribute, or a function, of that name; dots lead to one inside."""
        return all(part in self._attributes or self._is_private(part) for part in _parts(name))

    def _is_private(self, name: str) -> bool:
        """``_Type__name``, as a class's own ``__name`` is stored."""
        owner, between, rest = name.removeprefix("_").partition("__")
        return bool(between) and f"__{rest}" in self._attributes and bool({owner, f"_{owner}"} & self._attributes)

    def _names_of(self, module: str) -> frozenset[str]:
        known = self._of_module.get(module)
        if known is None:
            inside = {part for each in self._types if each.__module__ == module for part in _parts(each.__qualname__)}
            known = self._of_module[module] = frozenset(inside | self._read(module))
        return known

    def _read(self, module: str) -> set[str]:
        if not self.has_module(module):
            return set()
        source = self._source(module)
        if source is not None:
            return _names_in(source)
        return {*dir(importlib.import_module(module))} if module in sys.builtin_module_names else set()

    def _source(self, module: str) -> Path | None:
        """Where it is in the library; ``module`` consists of identifiers."""
        path = self._folder.joinpath(*ELSEWHERE.get(module, module).split("."))
        return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if os.path.isfile(each)), None)


def _names_in(source: Path) -> set[str]:
    """What a source defines; nothing where it cannot be parsed: the library's tests have some that are wrong."""
    found: set[str] = set()
    try:
        if source.stat().st_size < LONGEST_SOURCE:
            _collect(ast.parse(source.read_bytes()), found, in_function=False)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return found


def _all_types() -> list[type]:
    """Those that this process has loaded."""
    found, left = dict.fromkeys([object]), [object]
    while left:
        new = [each for each in type.__subclasses__(left.pop()) if each not in found]
        found.update(dict.fromkeys(new))
        left += new
    return [each for each in found if isinstance(each.__module__, str)]


def _parts(qualname: str) -> list[str]:
    """Names that it is made of, without those that the compiler gives."""
    return [part for part in qualname.split(".") if part not in COMPILERS]


def _collect(node: ast.AST, found: set[str], *, in_function: bool) -> None:
    """Names that others see: types, functions, what is imported or assigned outside of functions, attributes."""
    for each in ast.iter_child_nodes(node):
        match each:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(each.name)
            case ast.alias():
                found.add(each.asname or each.name)
            case ast.Attribute(ctx=ast.Store()):
                found.add(each.attr)
            case ast.Name(ctx=ast.Store()) if not in_function:
                found.add(each.id)
        _collect(each, found, in_function=in_function or isinstance(each, _FUNCTIONS))
