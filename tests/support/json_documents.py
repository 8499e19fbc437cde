"""The JSON of every command, as a live process makes it, and as it is stored for later versions to be held against.

``python -m tests.support.json_documents VERSION`` stores today's as ``tests/data/json/VERSION/NAME.json``: once for a
release, never again for one that is out.
"""

from __future__ import annotations

import contextlib
import io
import json
import platform
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from heaptop.__main__ import main as main_of_heaptop
from tests.support.leaking import ENVIRONMENT, HEAPTOP, leaking_sessions
from tests.support.processes import PATIENCE

ROOT: Final = Path(__file__).resolve().parents[2]
STORED: Final = ROOT / "tests" / "data" / "json"
KEPT: Final = 3
"""Items of each list that are stored: what they look like is wanted, not how many there are."""
TYPE: Final = "__main__.Session"

COMMANDS: Final = {
    "ps": ("heaptop.ps", "ps --json"),
    "doctor": ("heaptop.doctor", "doctor {pid} --json"),
    "doctor-machine": ("heaptop.doctor", "doctor --json"),
    "doctor-refused": ("heaptop.doctor", "doctor 4194305 --json"),
    "census": ("heaptop.census", "census {pid} --json"),
    "census-where": ("heaptop.census", "census {pid} --by module --where type:Session --top 1 --json"),
    "census-generation": ("heaptop.census", "census {pid} --by generation --json"),
    "census-interpreter": ("heaptop.census", "census {pid} --by interpreter --json"),
    "census-no-inject": ("heaptop.census", "census {pid} --no-inject --pause-budget 60000 --json"),
    "census-dump": ("heaptop.census", "census {dump} --json"),
    "census-python": ("heaptop.census", "census {pid} --mode python --json"),
    "census-producer": ("heaptop.sampled", "census {pid} --by producer --for 1 --json"),
    "census-producer-module": ("heaptop.sampled", "census {pid} --by producer-module --for 1 --json"),
    "census-producer-tracemalloc": ("heaptop.sampled", "census {pid} --by producer --for 1 --tracemalloc --json"),
    "census-producer-dump": ("heaptop.sampled", "census {dump} --by producer --json"),
    "census-handler": ("heaptop.sampled", "census {pid} --by handler --for 1 --json"),
    "census-size": ("heaptop.sampled", "census {pid} --by size --for 1 --json"),
    "census-lifetime": ("heaptop.sampled", "census {pid} --by lifetime --for 1 --json"),
    "census-retainer": ("heaptop.retained", "census {pid} --by retainer --json"),
    "census-kind": ("heaptop.retained", "census {pid} --by kind --json"),
    "census-retainer-dump": ("heaptop.retained", "census {dump} --by retainer --json"),
    "census-kind-no-inject": ("heaptop.retained", "census {pid} --by kind --no-inject --pause-budget 60000 --json"),
    "census-memory": ("heaptop.memory", "census {pid} --memory --json"),
    "census-memory-dump": ("heaptop.memory", "census {dump} --memory --json"),
    "native": ("heaptop.native", "run --native --output {file}.log --json -- {program}"),
    "why": ("heaptop.why", "why {pid} {type} --json"),
    "why-retainers": ("heaptop.why", "why {pid} {type} --retainers 3 --json"),
    "why-dump": ("heaptop.why", "why {dump} {type} --json"),
    "why-no-inject": ("heaptop.why", "why {pid} {type} --no-inject --pause-budget 60000 --json"),
    "why-object": ("heaptop.object", "why {pid} {address} --json"),
    "waste": ("heaptop.waste", "waste {pid} --json"),
    "waste-where": ("heaptop.waste", "waste {pid} --where type:str --json"),
    "waste-dump": ("heaptop.waste", "waste {dump} --json"),
    "waste-no-inject": ("heaptop.waste", "waste {pid} --no-inject --pause-budget 60000 --json"),
    "leaks": ("heaptop.leaks", "leaks {pid} --for 3 --marks 3 --pause-budget 60000 --json"),
    "leaks-gate": ("heaptop.leaks", "leaks {pid} --for 3 --marks 3 --fail-on-leak --ignore nothing.* --json"),
    "record": ("heaptop.record", "record {pid} -o {file} --for 4 --interval 1 --marks 3 --json"),
    "report": ("heaptop.report", "report {file} --json"),
    "diff": ("heaptop.diff", "diff {file} --json"),
    "diff-producer": ("heaptop.diff", "diff {file} --by producer --json"),
    "diff-recordings": ("heaptop.diff", "diff {file} {file} --at +1 --by module --json"),
    "diff-dump-process": ("heaptop.diff", "diff {dump} {pid} --json"),
    "diff-dump-process-path": ("heaptop.diff", "diff {dump} {pid} --by path --json"),
    "export": ("heaptop.export", "export {file} --to json"),
}
"""By name, the schema, and what is run: in this order, because some need what an earlier one made."""
DUMP: Final = "dump {pid} -o {dump} --for 1"
PROGRAM: Final = ROOT / "tests" / "targets" / "native_small.py"
GUARD: Final = "guard {pid} --when every~1s --do report --at-most 1 --dir {folder}"
MACHINE: Final = {
    re.escape(str(ROOT)): "/srv/shop",
    re.escape(str(Path.home())): "/srv/home",
    re.escape(tempfile.gettempdir()) + r"/[\w-]+": "/srv",
    rf"\b{re.escape(socket.gethostname())}\b": "host",
    re.escape(platform.release()): "6.1.0",
}
"""Patterns of what only this machine has, and what is stored in their place."""


def schema_of(name: str) -> str:
    """Of a document of this name, the name of its schema."""
    return COMMANDS[name][0] if name in COMMANDS else f"heaptop.{name}"


def documents() -> Iterator[tuple[str, Any]]:
    """Every document, by its name, of a program that leaks sessions."""
    with leaking_sessions() as target, tempfile.TemporaryDirectory() as name:
        file, dump, folder = Path(name, "night.heaptop"), Path(name, "before.heapdump"), Path(name, "guard")
        places = {"pid": target.pid, "type": TYPE, "file": file, "dump": dump, "folder": folder, "program": PROGRAM}
        _run(DUMP.format(**places))
        for called, (_, command) in COMMANDS.items():
            document = json.loads(_run(command.format(**places)))
            if called == "why":
                places["address"] = document["paths"][0]["example"]
            yield called, document
        _run(GUARD.format(**places))
        for report in folder.glob("*.json"):
            yield "guard", json.loads(report.read_text())


def _run(command: str) -> str:
    """What a command prints: in this process, unless it starts a program, or is ended by a signal."""
    arguments = [word.replace("~", " ") for word in command.split()]
    if arguments[0] not in ("run", "guard"):
        printed = io.TextIOWrapper(io.BytesIO(), "utf-8")
        with contextlib.redirect_stdout(printed):
            main_of_heaptop(arguments)
        printed.seek(0)
        return printed.read()
    ended = subprocess.run(
        [*HEAPTOP, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if ended.returncode and not ended.stdout:
        raise AssertionError(f"heaptop {command}: {ended.stderr}")
    return ended.stdout


def _stored(value: Any) -> Any:
    """The same, shorter, and with nothing of this machine."""
    match value:
        case dict():
            return {key: _stored(each) for key, each in value.items()}
        case list():
            return [_stored(each) for each in value[:KEPT]]
        case str():
            for pattern, name in MACHINE.items():
                value = re.sub(pattern, name, value)
    return value


def main() -> None:
    folder = STORED / sys.argv[1]
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in documents():
        if name == "ps":  # others' processes
            document["processes"] = [one for one in document["processes"] if "sessions_dict" in one["command"]]
        (folder / f"{name}.json").write_text(json.dumps(_stored(document), indent=1) + "\n")


if __name__ == "__main__":
    main()
