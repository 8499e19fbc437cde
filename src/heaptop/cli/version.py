"""What ``heaptop --version`` prints: what a bug report needs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from heaptop import __version__

LIBRARIES: Final = ("textual", "psutil", "msgpack")


class Version(argparse.Action):
    """An option that prints it, and ends the command."""

    def __init__(self, option_strings: list[str], dest: str, **others: Any) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs=0, **others)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print("\n".join(facts()))
        parser.exit()


def facts() -> Iterator[str]:
    """Version and build, a line each: heaptop, its native core, the Python and the system it runs on, its libraries."""
    # Slow to load, and wanted here alone.
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from heaptop.injector.native import NoCore, library
    from heaptop.recordings.compression import BEST

    yield f"heaptop {__version__}"
    try:
        core = library()
        yield f"native core: build {core.build}, {core.path.name}"
    except NoCore as why:
        yield f"{why}: censuses run in Python mode"
    yield f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}"
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} missing")
    yield ", ".join(found) + f"; recordings are compressed with {BEST.name}"
