"""``heaptop run --native`` as a command: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heaptop.errors import LaunchFailed
from heaptop.injector.api import AttachOptions, MallocTable
from heaptop.injector.backends.run import RunBackend
from heaptop.injector.requests import Launch, Request
from heaptop.injector.rss import own
from tests.integration.test_native_sites import LINES, PROGRAM, argv
from tests.interpreters import Interpreter
from tests.support import building, preloaded
from tests.support.leaking import ENVIRONMENT, HEAPTOP
from tests.support.processes import PATIENCE


def run(folder: Path, *arguments: str, program: list[str]) -> subprocess.CompletedProcess[str]:
    preloaded.library()
    command = [*HEAPTOP, "run", "--native", "--output", str(folder / "output"), *arguments, "--", *program]
    nothing = subprocess.DEVNULL
    return subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=nothing
    )


def document(folder: Path, *arguments: str, program: list[str]) -> tuple[int, Any]:
    done = run(folder, "--json", *arguments, program=program)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_the_document_names_line_library_and_function(tmp_path: Path) -> None:
    code, found = document(tmp_path, "--native-interval", "16KiB", program=argv("extension"))
    assert (code, found["exited"], found["status"], found["interval"]) == (7, True, 7, 16384)
    (site,) = [site for site in found["sites"] if site["function"] == "native_leak"]
    assert site["library"] == str(building.extension("native_leak.c"))
    assert (site["stack"][0]["file"], site["stack"][0]["line"]) == (str(PROGRAM), LINES["extension"])
    assert site["low"] < site["bytes"] < site["high"]
    assert site["library"] in {row["library"] for row in found["libraries"]}
    assert LINES["extension"] in {row["line"] for row in found["lines"] if row["file"] == str(PROGRAM)}
    assert found["total"]["bytes"] >= site["bytes"]


def test_a_pipe_gets_the_table_and_stderr_the_cost_once(tmp_path: Path) -> None:
    done = run(tmp_path, program=argv("contexts"))
    assert done.returncode == 7
    assert done.stdout.startswith("native memory never freed: ")
    assert f"{PROGRAM}:{LINES['bz2']}" in done.stdout
    assert "BZ2_bzCompressInit" in done.stdout
    assert done.stderr.count("preloaded library") == 1


def test_after_the_time_that_was_asked_for_the_program_continues(tmp_path: Path) -> None:
    code, found = document(tmp_path, "--for", "2", program=argv("stay"))
    try:
        assert (code, found["exited"], found["status"]) == (0, False, None)
        assert [site for site in found["sites"] if site["function"] == "native_leak"]
    finally:
        os.kill(found["pid"], signal.SIGKILL)


def test_a_program_that_takes_seconds_to_end_has_a_report(tmp_path: Path) -> None:
    code, found = document(tmp_path, program=argv("lingering"))
    assert (code, found["exited"], found["status"]) == (0, True, 0)
    assert [site for site in found["sites"] if site["function"] == "native_leak"]


def test_a_later_attach_reads_the_sites_from_outside(tmp_path: Path) -> None:
    _, found = document(tmp_path, "--native-interval", "16KiB", "--for", "2", program=argv("stay"))
    pid = str(found["pid"])
    try:
        done = subprocess.run(
            [*HEAPTOP, "census", "--memory", "--json", pid],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=True,
        )  # fmt: skip
        memory = json.loads(done.stdout)
        (site,) = [site for site in memory["native"] if site["function"] == "native_leak"]
        assert (site["stack"][0]["file"], site["stack"][0]["line"]) == (str(PROGRAM), LINES["extension"])
        assert site["bytes"] > 4_000_000
        assert "native samples" in {each["name"] for each in memory["own"]}
        assert own.before(found["pid"]).native  # what view 2 goes by
        assert not own.before(os.getpid()).native
        assert memory["rss"] == sum(row["bytes"] for row in memory["rows"])
    finally:
        os.kill(found["pid"], signal.SIGKILL)


def test_of_reserved_address_space_view_9_counts_what_is_resident(tmp_path: Path) -> None:
    _, found = document(tmp_path, "--for", "2", program=argv("reserved"))
    try:
        mapped = {site["stack"][0]["line"]: site["bytes"] for site in found["sites"] if site["stack"]}
        assert mapped[LINES["reserved"]] == 512 << 20
        assert any("never touched" in note for note in found["notes"])
        done = subprocess.run(
            [*HEAPTOP, "census", "--memory", "--json", str(found["pid"])],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=True,
        )  # fmt: skip
        native = json.loads(done.stdout)["native"]
        resident = {site["stack"][0]["line"]: site["bytes"] for site in native if site["stack"]}
        assert resident[LINES["reserved"]] == 3 << 20
        assert 2 << 20 <= resident[LINES["untouched"]] <= (2 << 20) + 8192
    finally:
        os.kill(found["pid"], signal.SIGKILL)


def test_a_static_interpreter_is_refused_with_a_sentence(tmp_path: Path) -> None:
    static = building.program_with("preload_cases.c", options=["-static", "-pthread"])
    done = run(tmp_path, "--python", str(static), program=argv("extension"))
    assert done.returncode == 44
    assert "statically linked" in done.stderr


def test_a_start_that_is_refused_leaves_no_file_and_no_descriptor(tmp_path: Path) -> None:
    static = building.program_with("preload_cases.c", options=["-static", "-pthread"])
    native = MallocTable(1 << 17)
    try:
        launch = Launch(("x.py",), str(static), tmp_path / "output", force=False, native=native)
        request = Request(AttachOptions(), "token", lambda phase, seconds: None, launch=launch)
        before = os.listdir("/proc/self/fd")
        with pytest.raises(LaunchFailed, match="preloaded") as refused:
            RunBackend().connect(request)
        assert refused.value.fix
        assert os.listdir("/proc/self/fd") == before
        assert list(tmp_path.iterdir()) == []
    finally:
        native.close()


def test_an_interpreter_that_the_library_is_not_loaded_into_is_refused(tmp_path: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    done = run(tmp_path, "--python", str(wrapper), program=argv("stay"))
    assert done.returncode == 44
    assert "was not loaded into the interpreter" in done.stderr


@pytest.mark.pythons("3.11-debian")  # static: the program itself calls malloc
def test_the_interpreter_that_a_script_started_is_named(interpreter: Interpreter, tmp_path: Path) -> None:
    python = interpreter.path
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    wrapper.chmod(0o755)
    _, found = document(tmp_path, "--python", str(wrapper), "--native-interval", "1KiB", program=argv("extension"))
    libraries = {row["library"] for row in found["libraries"]}
    assert os.path.realpath(python) in libraries
    assert str(wrapper) not in libraries


def test_options_of_the_report_need_native(tmp_path: Path) -> None:
    command = [*HEAPTOP, "run", "--json", "--", "x.py"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert "--json is for a report of native memory" in done.stderr
