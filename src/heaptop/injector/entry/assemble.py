"""Assembles ``stub.S`` into ``stub_code.py``: run by hand after a change
(``python -m heaptop.injector.entry.assemble``), compared by a test.

Needs GNU ``as``, ``objcopy`` and ``nm``; it never runs when heaptop does.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXPORTED = ("give_back", "ret0", "open_pair", "start_pending", "start", "cancel", "thread_main")


def assemble(source: Path = HERE / "stub.S") -> tuple[bytes, dict[str, int]]:
    """The machine code of ``source`` and the offset of every exported label in it."""
    with tempfile.TemporaryDirectory() as folder:
        listing, binary = Path(folder, "stub.o"), Path(folder, "stub.bin")
        subprocess.run(["as", "--64", str(source), "-o", str(listing)], check=True)
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", str(listing), str(binary)], check=True)
        symbols = subprocess.run(["nm", str(listing)], check=True, capture_output=True, text=True).stdout
        fields = [line.split() for line in symbols.splitlines()]
        offsets = {name: int(value, 16) for value, kind, name in fields if kind == "t" and name in EXPORTED}
        return binary.read_bytes(), {name: offsets[name] for name in EXPORTED}


def module_text(code: bytes, offsets: dict[str, int]) -> str:
    """``stub_code.py`` for that code."""
    digits = code.hex()
    lines = [f'    "{digits[at : at + 96]}"' for at in range(0, len(digits), 96)]
    return "\n".join(
        [
            '"""Generated from ``stub.S`` by assemble.py; do not edit. Read the source there."""',
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
    HERE.joinpath("stub_code.py").write_text(module_text(*assemble()))
