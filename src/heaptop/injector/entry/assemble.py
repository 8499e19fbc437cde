"""Assembles ``stub.S`` and ``stub_aarch64.S`` into modules: run by hand after a change
(``python -m heaptop.injector.entry.assemble``), compared by a test.

Needs GNU ``as``, ``objcopy`` and ``nm`` for each machine; it never runs when heaptop does.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

HERE = Path(__file__).resolve().parent
EXPORTED = ("give_back", "ret0", "open_pair", "start_pending", "start", "cancel", "thread_main")
SOURCES: Final = {"stub": ("", ["--64"]), "stub_aarch64": ("aarch64-linux-gnu-", [])}
"""By name: what the names of the tools begin with, and options of the assembler."""


def assemble(name: str = "stub") -> tuple[bytes, dict[str, int]]:
    """The machine code of a source and the offset of every exported label in it."""
    prefix, options = SOURCES[name]
    with tempfile.TemporaryDirectory() as folder:
        listing, binary = Path(folder, "stub.o"), Path(folder, "stub.bin")
        source = str(HERE / f"{name}.S")
        subprocess.run([f"{prefix}as", "-I", str(HERE), *options, source, "-o", str(listing)], check=True)
        subprocess.run([f"{prefix}objcopy", "-O", "binary", "-j", ".text", str(listing), str(binary)], check=True)
        symbols = subprocess.run([f"{prefix}nm", str(listing)], check=True, capture_output=True, text=True).stdout
        fields = [line.split() for line in symbols.splitlines()]
        offsets = {name: int(value, 16) for value, kind, name in fields if kind == "t" and name in EXPORTED}
        return binary.read_bytes(), {name: offsets[name] for name in EXPORTED}


def module_text(name: str, code: bytes, offsets: dict[str, int]) -> str:
    """The module for that code."""
    digits = code.hex()
    lines = [f'    "{digits[at : at + 96]}"' for at in range(0, len(digits), 96)]
    return "\n".join(
        [
            f'"""Generated from ``{name}.S`` by assemble.py; do not edit. Read the source there."""',
            "",
            "from typing import Final",
            "",
            "CODE: Final = bytes.fromhex(",
            *lines,
            ")",
            "OFFSETS: Final = {",
            *(f'    "{name}": {value},' for name, value in offsets.items()),
            "}",
            "",
        ]
    )


if __name__ == "__main__":
    for source in SOURCES:
        HERE.joinpath(source.replace("stub", "stub_code", 1) + ".py").write_text(module_text(source, *assemble(source)))
