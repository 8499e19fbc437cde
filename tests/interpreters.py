"""The Python interpreters of this machine that targets can run on, found by looking.

Four places are looked into: pyenv's versions, the distribution's ``/usr/bin/python3.N``, roots of their own (chroots)
that ``.ci/debian-pythons`` unpacks and ``.ci/musl-pythons`` builds into the test cache, and what
``.ci/free-threaded-pythons`` builds there. Nothing is installed here; an interpreter that is missing is a
skip, or a failure where ``HEAPTOP_REQUIRE_PYTHONS`` names it.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from heaptop.injector.inspect.layout import VERSIONS

DISTRIBUTION: Final = "3.11-debian"

BARE: Final = tuple(f"{major}.{minor}" for major, minor in VERSIONS)
"""What heaptop attaches to: pyenv's (shared builds here) or a chroot's."""

SUPPORTED: Final = tuple(sorted((*BARE, DISTRIBUTION), key=lambda name: [*map(int, re.findall(r"\d+", name)), name]))
"""And the distribution's own in ``/usr/bin``, a static build."""

MUSL: Final = ("3.11-musl", "3.13-musl")
"""On musl, in place of glibc; for the tests that are about what differs there."""

STABLE: Final = "3.13-debian"
"""That of Debian stable, whose patches move the collector's lists; for the tests that are about that."""

FREE_THREADED: Final = ("3.13t",)
"""Free-threaded builds, which are read from outside alone; for the tests that are about that."""

OLDEST: Final = BARE[0]
NEWEST: Final = BARE[-1]
"""For tests that are of the oldest or the newest, whichever these are."""

SAMPLE: Final = (OLDEST, DISTRIBUTION, "3.13", NEWEST)
"""The oldest, a static build, the newest that is entered by ptrace, and the newest: for tests that take long on each.
``make whole`` runs these tests on all."""

UNSUPPORTED: Final = ("2.7", "3.6", "3.7", "pypy")
"""What heaptop refuses, with the reason."""

REQUIRE_VARIABLE: Final = "HEAPTOP_REQUIRE_PYTHONS"
CACHE_VARIABLE: Final = "HEAPTOP_TEST_CACHE"

_PLACED: Final = "srv/targets"
_PACKAGES: Final = "srv/packages"

# Runs on every Python from 2.7 on, and on PyPy.
_PROBE: Final = (
    "import json, os, sys; print(json.dumps([list(sys.version_info[:3]), os.path.realpath(sys.executable)]))"
)


def cache_dir() -> Path:
    """Where chroots, packages and compiled helpers are kept between runs; the scripts in .ci say the same."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heaptop-tests"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One interpreter that a target can run on."""

    name: str
    """``3.12``, ``3.11-debian``, ``3.11-musl``, ``pypy``: unique on this machine, and what tests are named by."""
    version: tuple[int, int, int]
    path: str
    """The executable, as seen inside :attr:`root` where there is one."""
    root: Path | None
    """The directory it is chrooted to, or None."""
    shared: bool
    """Whether libpython is a shared library (else it is linked into the executable)."""

    @property
    def musl(self) -> bool:
        """Whether its C library is musl, and not glibc."""
        return self.name in MUSL

    def command(self, arguments: Sequence[str | Path]) -> list[str]:
        """What to execute to run the interpreter with ``arguments``; paths in them are as it sees them."""
        return [*_prefix(self.root), self.path, *map(str, arguments)]

    def place(self, file: Path) -> str:
        """Make a file of this machine visible to the interpreter; returns its path as seen from there.

        Files placed under one interpreter stand side by side, so give them different names.
        """
        if self.root is None:
            return str(file)
        folder = self.root / _PLACED
        folder.mkdir(parents=True, exist_ok=True)
        copy = folder / file.name
        if not (copy.exists() and filecmp.cmp(file, copy, shallow=False)):
            # By rename: a target may be running from the old copy, or mapping it.
            with tempfile.TemporaryDirectory(dir=folder) as fresh:
                os.replace(shutil.copy(file, fresh), copy)
        return f"/{_PLACED}/{file.name}"

    @property
    def packages(self) -> Path | None:
        """For PYTHONPATH, as the interpreter sees it: what ``.ci/target-packages`` installed."""
        if self.root is not None:
            return Path("/", _PACKAGES) if (self.root / _PACKAGES).is_dir() else None
        folder = cache_dir() / "packages" / self.name.removesuffix("-debian")
        return folder if folder.is_dir() else None

    def zoo_packages(self, version: str = "") -> tuple[Path, Path]:
        """What ``.ci/target-packages zoo`` installed for tests/targets/leaks/real, as seen from here and from there:
        all of it, or what is of one version (``aiohttp-3.10.10``)."""
        inside = Path("/srv") if self.root is not None else cache_dir()
        inside = inside.joinpath("zoo-packages", self.name, version, "site-packages")
        return (inside if self.root is None else self.root / str(inside)[1:]), inside

    def has(self, package: str) -> bool:
        """Whether a top-level package is in :attr:`packages`."""
        if self.packages is None:
            return False
        outside = self.packages if self.root is None else self.root / _PACKAGES
        return (outside / package).is_dir()

    def __str__(self) -> str:
        return self.name


def _prefix(root: Path | None) -> list[str]:
    return [] if root is None else ["chroot", str(root)]


def _probe(name: str, path: Path | str, root: Path | None = None) -> Interpreter | None:
    """The interpreter at ``path``, or None when it does not start (broken, or no right to chroot)."""
    try:
        answer = subprocess.run(
            [*_prefix(root), str(path), "-E", "-s", "-c", _PROBE],
            env={**os.environ, "LC_ALL": "C"},  # PyPy does not start where the locale is missing
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=60,
        )
        version, executable = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    shared = _needs_libpython(Path(f"{root or ''}{executable}"))
    return Interpreter(name, (version[0], version[1], version[2]), str(path), root, shared)


def _needs_libpython(executable: Path) -> bool:
    """Asked of the file: Debian's own answer (``Py_ENABLE_SHARED``) is about its libpython package."""
    with executable.open("rb") as stream:
        dynamic = ELFFile(stream).get_section_by_name(".dynamic")
        needed = dynamic.iter_tags("DT_NEEDED") if isinstance(dynamic, DynamicSection) else ()
        return any(str(getattr(tag, "needed", "")).startswith(("libpython", "libpypy")) for tag in needed)


def _numbers(folder: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", folder.name)))


def _pyenv() -> Iterator[tuple[str, Path]]:
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    # The newest patch release of each minor version comes last, and stays in the dictionary.
    for folder in sorted(versions.glob("[23].*"), key=_numbers):
        if re.fullmatch(r"\d+\.\d+\.\d+", folder.name) and (folder / "bin/python").exists():
            yield folder.name.rpartition(".")[0], folder / "bin/python"


def _distribution() -> Iterator[tuple[str, Path]]:
    for path in Path("/usr/bin").glob("python[23].*"):
        if match := re.fullmatch(r"python(\d\.\d+)", path.name):
            yield f"{match[1]}-debian", path


def _chroots() -> Iterator[tuple[str, Path, Path]]:
    for root in sorted((cache_dir() / "pythons").glob("*")):
        if (root / ".complete").exists():
            program = "pypy3" if root.name == "pypy" else f"python{root.name.partition('-')[0]}"
            yield root.name, Path("/usr/bin", program), root


def _free_threaded() -> Iterator[tuple[str, Path]]:
    for name in FREE_THREADED:
        folder = cache_dir() / "free-threaded" / name
        if (folder / ".complete").exists():
            yield name, folder / "bin" / f"python{name}"


@cache
def found() -> dict[str, Interpreter]:
    """Every interpreter of this machine that starts, by name. A pyenv version goes before a chroot's."""
    candidates: dict[str, tuple[Path, Path | None]] = {}
    for name, path, root in _chroots():
        candidates[name] = (path, root)
    for name, path in (*_free_threaded(), *_pyenv(), *_distribution()):
        candidates[name] = (path, None)
    probed = (_probe(name, path, root) for name, (path, root) in candidates.items())
    return {interpreter.name: interpreter for interpreter in probed if interpreter is not None}


def since(oldest: str) -> tuple[str, ...]:
    """What a test is for that is of no version before ``oldest``: each later one, also those to come."""
    return BARE[BARE.index(oldest) :]


def required() -> frozenset[str]:
    """The interpreters that must be here: the words of HEAPTOP_REQUIRE_PYTHONS, or with ``all`` each supported one, but
    for those on musl: they are built from sources that a mirror may not have."""
    words = os.environ.get(REQUIRE_VARIABLE, "").split()
    return frozenset(SUPPORTED if words == ["all"] else words)


class MissingInterpreter(Exception):
    """An interpreter is not on this machine; ``required`` says whether that is an error."""

    def __init__(self, name: str) -> None:
        self.required = name in required()
        places = f"pyenv, /usr/bin and {cache_dir() / 'pythons'}"
        super().__init__(f"no Python {name} here: {places} were looked into")


def get(name: str) -> Interpreter:
    """The interpreter of that name, or :class:`MissingInterpreter`."""
    try:
        return found()[name]
    except KeyError:
        raise MissingInterpreter(name) from None


def main() -> None:
    """Print what was found, one a line: ``python -m tests.interpreters``."""
    for interpreter in found().values():
        version = ".".join(map(str, interpreter.version))
        build = "shared" if interpreter.shared else "static"
        place = f"{interpreter.path} in {interpreter.root}" if interpreter.root else interpreter.path
        print(f"{interpreter.name:12} {version:8} {build:6} {place}")
    for name in sorted(required() - found().keys()):
        print(f"{name:12} missing, and required", file=sys.stderr)
    sys.exit(bool(required() - found().keys()))


if __name__ == "__main__":
    main()
