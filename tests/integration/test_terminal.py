"""The whole way as a person goes it: `heaptop` in a real terminal, on a real process, by keys."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.interpreters import Interpreter
from tests.support.processes import Facts, difference, eventually, running
from tests.support.tmux import terminal

HEAPTOP = (sys.executable, "-m", "heaptop")
SIZES = [(80, 24), (200, 50)]


def undisturbed(before: Facts, pid: int) -> bool:
    """Once its agent's thread is gone, nothing has changed but the pages that stay."""
    return eventually(lambda: difference(before, Facts.of(pid)) == [])


@pytest.mark.pythons("3.8", "3.12", "3.14")
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_attach_look_around_and_quit(interpreter: Interpreter, width: int, height: int) -> None:
    with running(interpreter, "heap_growing") as target:
        before = Facts.of(target.pid)
        with terminal([*HEAPTOP, "attach", str(target.pid), "--interval", "0.3"], width, height) as screen:
            mode = "mode python" if interpreter.root else "mode clone"  # a chroot here has no /proc
            shown = screen.shows("live", f"pid {target.pid}", "Bands by type", mode, "Parcel")
            assert all(len(line) <= width for line in shown.splitlines())
            screen.press("b")
            screen.shows("Bands by module", "builtins")
            screen.press("b")
            screen.shows("Bands by generation", "gen 2")
            for by in ("producer", "producer-module", "size", "lifetime"):
                screen.press("b")
                screen.shows(f"Bands by {by}, not sampled" if interpreter.root else f"Bands by ≈ sampled {by}")
            for by, band in (("retainer", "__main__ .parcels"), ("kind", "module")):
                screen.press("b")
                taken = ("No graph census",) if interpreter.root else ("graph census every", "on another core", band)
                screen.shows(f"Bands by {by}", *taken)
            screen.press("b", "/")
            screen.shows("type:Session")  # the example in the empty filter bar
            screen.press("type:Parcel", "Enter")
            screen.shows("Bands by type", "type:Parcel", " filtered")
            screen.press("?")
            screen.shows("Esc closes", "Bands: what it shows")
            screen.press("Escape")
            screen.hides("Esc closes")
            screen.press("9")
            screen.shows("Memory by use", "live Python objects", "mapped files", "RSS")
            screen.press("b", "Enter")
            screen.shows("9 Memory", " › ", "Resident▼", "Part")
            screen.press("Escape", "Space")
            screen.shows("paused")
            screen.press("q")
            said = screen.shows(
                "exit=0", f"detached from {target.pid} (heap_growing) after ", "this stays mapped: "
            )
            assert "this stays mapped" in said
        assert undisturbed(before, target.pid)
        assert target.alive
        assert target.stderr() == ""


@pytest.mark.pythons("3.12")
def test_a_window_that_changes_its_size(interpreter: Interpreter) -> None:
    with running(interpreter, "heap_growing") as target:
        with terminal([*HEAPTOP, "attach", str(target.pid)], 80, 24) as screen:
            screen.shows("live", "Parcel")
            for width, height in ((200, 50), (50, 12), (120, 30)):
                screen.resize(width, height)
                shown = screen.shows("live", "Bands by type")
                assert all(len(line) <= width for line in shown.splitlines())
            screen.shows("Parcel")
            screen.press("C-c")
            screen.shows("exit=0", f"detached from {target.pid} (heap_growing) after ")
        assert target.alive


@pytest.mark.pythons("3.12")
def test_a_program_that_reads_stdout_is_told_nothing(interpreter: Interpreter, tmp_path: Path) -> None:
    """Nor is who reads the terminal, which may be no person's then."""
    output = tmp_path / "output"
    with running(interpreter, "heap_growing") as target:
        command = ["sh", "-c", f'exec "$@" > {output}', "-", *HEAPTOP, "attach", str(target.pid)]
        with terminal(command, 80, 24) as screen:
            screen.shows("live", "Parcel")
            screen.press("q")
            assert "detached" not in screen.shows("exit=0")
    assert output.read_bytes() == b""


@pytest.mark.pythons("3.12")
def test_a_terminal_that_is_closed(interpreter: Interpreter) -> None:
    with running(interpreter, "heap_growing") as target:
        before = Facts.of(target.pid)
        with terminal([*HEAPTOP, "attach", str(target.pid)], 80, 24) as screen:
            screen.shows("live", "Parcel")
            screen.close()
            assert undisturbed(before, target.pid)
        assert target.alive


@pytest.mark.pythons("3.12")
def test_a_heaptop_that_is_told_to_end(interpreter: Interpreter) -> None:
    """SIGTERM detaches and gives the terminal back; by default it would stay raw."""
    with running(interpreter, "heap_growing") as target:
        before = Facts.of(target.pid)
        command = ["sh", "-c", 'echo heaptop=$$; exec "$@"', "-", *HEAPTOP, "attach", str(target.pid)]
        with terminal(command, 80, 24) as screen:
            heaptop = re.search(r"heaptop=(\d+)", screen.shows("heaptop="))
            assert heaptop is not None
            screen.shows("live", "Parcel")
            os.kill(int(heaptop[1]), signal.SIGTERM)
            assert "live" not in screen.shows("exit=0", "heaptop=", f"detached from {target.pid} (heap_growing) after ")
        assert undisturbed(before, target.pid)


@pytest.mark.pythons("3.12")
def test_a_target_that_ends_is_a_state_on_screen(interpreter: Interpreter) -> None:
    with (
        running(interpreter, "heap_growing") as target,
        terminal([*HEAPTOP, "attach", str(target.pid)], 80, 24) as screen,
    ):
        screen.shows("live", "Parcel")
        target.terminate()
        assert "Traceback" not in screen.shows("exited", "Parcel")
        screen.press("q")
        assert "detached" not in screen.shows("exit=0", f"Process {target.pid} ended at ", " after the attach")


@pytest.mark.pythons("3.12")
def test_a_busy_interpreter_is_waited_for_and_given_up(interpreter: Interpreter) -> None:
    with running(interpreter, "gil_held") as target:
        before = Facts.of(target.pid)
        with terminal([*HEAPTOP, "attach", str(target.pid), "--wait", "60"], 80, 24) as screen:
            screen.shows("waiting for the interpreter", " s")
            screen.press("Escape")
            screen.shows("cancelled")
            screen.press("q")
            screen.shows("exit=29")
        assert set(Facts.of(target.pid).fds) == set(before.fds)
        assert target.alive


@pytest.mark.pythons("3.12")
def test_a_process_found_in_the_picker_is_attached_to(interpreter: Interpreter) -> None:
    with running(interpreter, "heap_growing") as target:
        with terminal(HEAPTOP, 80, 24) as screen:
            screen.shows("attach", "filter")
            screen.press("/")
            screen.shows("part of a pid")
            screen.press(str(target.pid), "Enter")
            screen.shows("filtered out · 1 attachable", "heap_growing")
            screen.press("Enter")
            screen.shows("live", "Parcel")
            screen.press("q")
            screen.shows("exit=0")
        assert target.alive
