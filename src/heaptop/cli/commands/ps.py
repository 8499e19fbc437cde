"""``heaptop ps``."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from heaptop.cli.options import add_json, add_units
from heaptop.cli.terminal import stdout_columns, table
from heaptop.errors import HeaptopError

if TYPE_CHECKING:
    from heaptop.documents import ListedProcessJson, PsJson
    from heaptop.injector.processes import PythonProcess


class Ps:
    """List the Python processes, the largest first, and whether heaptop can attach to them.

    No process is touched or stopped. `heaptop doctor PID` checks one in detail.

    heaptop ps
    heaptop ps --json
    """

    name = "ps"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)
        add_units(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.injector.processes import processes_and_refusals

        listed = sorted(processes_and_refusals(), key=lambda one: -one[0].rss)
        if args.json:
            rows = [_as_json(process, error) for process, error in listed]
            document: PsJson = {"schema": "heaptop.ps", "version": 1, "processes": rows}
            print(json.dumps(document, indent=2))
        else:
            print("\n".join(_as_lines(listed, stdout_columns())))
        return 0


def _as_json(process: PythonProcess, error: HeaptopError | None) -> ListedProcessJson:
    return {
        "pid": process.pid,
        "user": process.user,
        "python": process.python,
        "rss": process.rss,
        "command": process.command,
        "attachable": error is None,
        "why": error.message if error else "",
        "error": type(error).__name__ if error else None,
    }


def _as_lines(listed: list[tuple[PythonProcess, HeaptopError | None]], columns: int | None) -> list[str]:
    """A table, and under each process that cannot be attached to the reason."""
    from heaptop.analysis.text.units import format_bytes

    header = ("PID", "USER", "PYTHON", "RSS", "ATTACH", "COMMAND")
    rows = [
        (
            str(process.pid),
            process.user,
            process.python or "?",
            format_bytes(process.rss),
            "no" if error else "yes",
            process.command,
        )
        for process, error in listed
    ]
    first, *lines = table(header, rows, left=frozenset({1, 2, 4, 5}))
    indent = " " * first.index("ATTACH")
    result = [first[:columns]]
    for line, (_, error) in zip(lines, listed, strict=True):
        result.append(line[:columns])
        if error is not None:
            result.append(f"{indent}{error.message}"[:columns])
    return result
