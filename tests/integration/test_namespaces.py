"""Where a target may live and an attach still works: namespaces, other users, files that are gone or read-only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heaptop.injector.entry import helper_client
from heaptop.injector.inspect import process
from tests.interpreters import NEWEST, OLDEST, SAMPLE, SUPPORTED, Interpreter
from tests.support import building
from tests.support.attaching import attach_once, resting
from tests.support.outside import answer_of_child, become_nobody, without_capabilities
from tests.support.processes import EXIT_CODE, Target, difference, eventually, kept, running, starting
from tests.support.tampering import BEGIN, MAIN, OLD_KERNEL

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and other users need root")

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
READ_ONLY = (
    *("unshare", "--mount", "sh", "-c"),
    'mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && mount -o remount,bind,ro / && exec "$@"',
    "sh",
)


def check(pid: int) -> None:
    """Attach, count, detach; then once more, on the pages that are there by now."""
    before = resting(pid)
    attach_once(pid, census=True)
    assert difference(before, resting(pid)) == []
    between = resting(pid)
    attach_once(pid)
    assert kept(between, resting(pid)) == []


@pytest.mark.pythons(OLDEST, "3.11-debian", NEWEST)
@pytest.mark.parametrize(
    "wrapper",
    [
        ("unshare", "--mount"),
        ("unshare", "--net"),
        ("unshare", "--user"),
        ("unshare", "--user", "--map-root-user"),
        ("setpriv", "--no-new-privs"),
        READ_ONLY,
    ],
    ids=["mount", "net", "user", "user-root", "no-new-privs", "read-only"],
)
def test_a_target_in_another_world(interpreter: Interpreter, wrapper: tuple[str, ...]) -> None:
    if interpreter.root is not None and wrapper in (("unshare", "--user"), READ_ONLY):
        pytest.skip("chroot needs root inside, and brings a file system of its own")
    with running(interpreter, "sleeper", wrapper=wrapper) as target:
        check(target.pid)
        assert target.terminate() == EXIT_CODE
        assert target.said() == []
        assert target.stderr() == ""


def test_a_target_with_a_pid_of_its_own(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper", wrapper=("unshare", "--pid", "--fork")) as target:
        (child,) = Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text().split()
        facts = process.read_facts(int(child))
        assert facts.nspid == 1
        assert process.foreign_namespaces(facts.pid) == ("pid",)
        check(facts.pid)
        assert target.said() == []
        assert target.stderr() == ""


@pytest.mark.pythons("3.11-debian")
def test_another_user_and_no_root(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper", wrapper=AS_NOBODY) as target:
        check(target.pid)
        before = resting(target.pid)
        assert answer_of_child(target.pid, become_nobody).kind is None
        assert kept(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.11-debian", "3.13")
def test_root_without_capabilities_on_its_like(interpreter: Interpreter) -> None:
    """Both in a container that was given none, and in no user namespace."""
    wrapper = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    with running(interpreter, "sleeper", wrapper=wrapper) as target:
        before = resting(target.pid)
        assert answer_of_child(target.pid, without_capabilities).kind is None
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
@pytest.mark.parametrize("when", ["before", "later"])
def test_a_target_that_gives_up_root(interpreter: Interpreter, when: str) -> None:
    with running(interpreter, "dropping", when) as target:
        check(target.pid)
        if when == "later":
            target.signal(signal.SIGUSR1)
            assert eventually(lambda: target.said() == ["dropped"])
            check(target.pid)
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@contextmanager
def copied(interpreter: Interpreter, folder: Path, *, strip: bool = False) -> Iterator[Target]:
    """The target ``sleeper`` on a copy of a shared interpreter's own files; the standard library is a link."""
    original = Path(interpreter.path).resolve().parent.parent
    name = f"python{interpreter.version[0]}.{interpreter.version[1]}"
    (library,) = original.glob(f"lib/lib{name}*.so.1.0")
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    files = [Path(shutil.copy(original / "bin" / name, folder / "bin")), Path(shutil.copy(library, folder / "lib"))]
    if strip:
        for file in files:
            file.chmod(0o755)
            subprocess.run(["strip", file], check=True)
    (folder / "lib" / name).symlink_to(original / "lib" / name)
    environment = {"PYTHONHOME": str(folder), "LD_LIBRARY_PATH": str(folder / "lib")}
    with starting([files[0], building.TARGETS / "sleeper.py"], environment=environment) as target:
        assert eventually(lambda: "ready" in target.stdout() or not target.alive)
        maps = Path(f"/proc/{target.pid}/maps").read_text()
        assert str(files[1]) in maps
        yield target


@pytest.mark.pythons("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
@pytest.mark.parametrize("fate", ["stripped", "deleted"])
def test_files_stripped_or_gone(interpreter: Interpreter, fate: str, tmp_path: Path) -> None:
    folder = tmp_path / "python"
    with copied(interpreter, folder, strip=fate == "stripped") as target:
        if fate == "deleted":
            shutil.rmtree(folder)
            assert os.readlink(f"/proc/{target.pid}/exe").endswith("(deleted)")
        check(target.pid)
        assert target.alive
        assert target.said() == []
        assert target.stderr() == ""


def test_main_in_a_sleeping_subinterpreter(interpreter: Interpreter) -> None:
    with running(interpreter, "subinterpreter", "sleep") as target:
        check(target.pid)
        assert target.stderr() == ""


def test_the_first_thread_is_gone(interpreter: Interpreter) -> None:
    with running(interpreter, "leader_gone") as target:
        assert eventually(lambda: process.read_facts(target.pid).state == "Z")
        check(target.pid)
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.8", "3.11", "3.13")
@pytest.mark.parametrize("mode", ["released", "looping"])
def test_a_program_that_embeds_python_can_be_attached_to(interpreter: Interpreter, mode: str) -> None:
    home = str(Path(interpreter.path).parent.parent)
    with starting([building.embedding("embedded.c", interpreter), mode], environment={"PYTHONHOME": home}) as target:
        assert eventually(lambda: target.stdout() == "ready\n")
        check(target.pid)
        assert target.alive
        assert target.stderr() == ""


# -- without pidfd_getfd -----------------------------------------------------------------------------------


@pytest.fixture
def old_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_client, "LAUNCHER", BEGIN + OLD_KERNEL + MAIN)


@pytest.mark.usefixtures("old_kernel")
@pytest.mark.parametrize(
    "wrapper",
    [(), ("unshare", "--mount", "--net"), READ_ONLY, ("unshare", "--user", "--map-root-user")],
    ids=["plain", "namespaces", "read-only", "user-root"],
)
@pytest.mark.pythons(OLDEST, "3.13", NEWEST)
def test_a_socket_in_the_file_system_does_instead(interpreter: Interpreter, wrapper: tuple[str, ...]) -> None:
    if interpreter.root is not None and wrapper is READ_ONLY:
        pytest.skip("chroot brings a file system of its own")
    with running(interpreter, "sleeper", wrapper=wrapper) as target:
        check(target.pid)
        for folder in ("tmp", "run", "dev/shm", "var/tmp"):
            place = Path(f"/proc/{target.pid}/root", folder)
            assert not place.is_dir() or not list(place.glob("heaptop-*.sock"))
        assert target.terminate() == EXIT_CODE


@pytest.mark.usefixtures("old_kernel")
@pytest.mark.pythons("3.12")
def test_a_socket_for_another_user(interpreter: Interpreter) -> None:
    with running(interpreter, "dropping", "before") as target:
        check(target.pid)
