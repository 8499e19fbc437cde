"""Where code lies: its module by its file, whether it is the user's own, and names short enough for a screen.

The target's files may be out of sight. It goes by names alone, with the target's ``sys.path`` and prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

_FROZEN: Final = re.compile(r"<frozen (.+)>")
_LIBRARY: Final = r"/lib(?:64)?/python\d[\d.]*t?(?:\.zip)?/"
"""Below a prefix: ``lib/python3.11``, ``lib64/python3.13t``, ``lib/python311.zip``."""
_PACKAGES: Final = ("/site-packages/", "/dist-packages/")
_ENDINGS: Final = (".py", ".pyw", ".pyc")
_TYPED: Final = ("<ipython-input-", "<python-input-", "<stdin>")  # What was typed at a prompt, or into a cell


class CodePlaces:
    """Judges files by their names. Answers are remembered: there are as many as the target has files of code."""

    def __init__(self, path: Sequence[str], prefixes: Sequence[str], user_paths: Sequence[str] = ()) -> None:
        """``path`` and ``prefixes`` are the target's, from :class:`~heaptop.protocol.messages.Sampler`.

        Args:
            user_paths: directories and files that are the user's code wherever they lie, as the target names them.
        """
        self._roots = sorted({_folder(entry) for entry in path if entry}, key=len, reverse=True)
        self._user = tuple(_folder(entry) for entry in user_paths if entry)
        heads = "|".join(sorted({re.escape(prefix.rstrip("/")) for prefix in prefixes}))
        self._library = re.compile(f"(?:{heads}){_LIBRARY}") if prefixes else None
        self.is_user: Callable[[str], bool] = cache(self._is_user)
        self.module: Callable[[str], str] = cache(self._module)
        self.short: Callable[[str], str] = cache(self._short)

    def is_standard_library(self, file: str) -> bool:
        """Whether it came with Python, or is no file: code that the standard library makes is ``<string>`` too."""
        if not file or file.startswith("<"):
            return not file.startswith(_TYPED)
        return not any(mark in file for mark in _PACKAGES) and not self.is_user(file)

    def _is_user(self, file: str) -> bool:
        """Whether it is the user's own code: no library's, and a file at all (``<string>`` is none), or
        typed at a prompt."""
        if any(file.startswith(folder) or file == folder[:-1] for folder in self._user):
            return True
        if not file or file.startswith("<"):
            return file.startswith(_TYPED)
        if any(mark in file for mark in _PACKAGES):
            return False
        return self._library is None or self._library.match(file) is None

    def _module(self, file: str) -> str:
        """The module's name by the longest entry of ``sys.path`` that the file lies below: ``shop.views``.

        A file below none goes by its own name, and what is no file by the name it has: ``<string>``.
        """
        frozen = _FROZEN.fullmatch(file)
        if frozen:
            return frozen[1]
        if not file or file.startswith("<"):
            return file or "<unknown>"
        ending = next((ending for ending in _ENDINGS if file.endswith(ending)), "")
        inside = self._below_path(file).removesuffix(ending)
        if inside.startswith("/"):
            inside = inside.rpartition("/")[2] if not inside.endswith("/__init__") else inside.split("/")[-2]
        package = inside.removesuffix("/__init__")
        return package.replace("/", ".") or file

    def _below_path(self, file: str) -> str:
        """The file's name from the longest entry of ``sys.path`` on; as it is where it lies below none."""
        file = file.removeprefix("./")
        return next((file[len(root) :] for root in self._roots if file.startswith(root)), file)

    def _short(self, file: str) -> str:
        """For the screen: ``shop/views.py``, from the entry of ``sys.path`` on; at least the folder it lies in."""
        if file.startswith("<"):
            return file
        inside = self._below_path(file)
        return "/".join(inside.split("/")[-2:]) if inside.startswith("/") else inside or "<unknown>"


def _folder(path: str) -> str:
    return path.rstrip("/") + "/"
