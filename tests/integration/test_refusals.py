"""Every target that heaptop refuses: the error's class, the sentence that names it, what to type; and the target as
it was before. ``doctor`` says the same as an attach, each time, and touches nothing."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from heaptop.errors import (
    AlreadyAttached,
    FinalizedInterpreter,
    FreeThreadedTarget,
    HeaptopError,
    InjectionDenied,
    InterpreterBusy,
    NotPython,
    ProcessNotFound,
    PtraceDenied,
    PyInstallerBootloader,
    PyPyTarget,
    StoppedTarget,
    TracedTarget,
    TransportFailed,
    UnresponsiveTarget,
    UnsupportedArchitecture,
    UnsupportedPython,
    ZombieTarget,
)
from heaptop.injector.api import diagnose
from heaptop.injector.entry import hijack
from heaptop.injector.inspect import interpreter as finding
from heaptop.injector.inspect import preflight, proc, process
from heaptop.injector.inspect.layout import SUPPORTED, PythonVersion
from heaptop.injector.inspect.memory import Mapping, RemoteMemory, read_mappings
from heaptop.injector.inspect.threads import thread_ids
from tests.interpreters import MUSL, NEWEST, OLDEST, SAMPLE, Interpreter
from tests.support import building, native
from tests.support.attaching import attach_once, attached, is_whole, resting
from tests.support.outside import Answer, answer, answer_of_child, become_nobody, without_capabilities
from tests.support.processes import (
    EXIT_CODE,
    Facts,
    difference,
    eventually,
    running,
    starting,
    this_python,
    with_proc,
)

need_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving up root needs root")
AS_USER_OF_ITS_OWN = ("setpriv", "--reuid=54321", "--clear-groups")


def check_text(got: Answer, kind: type[HeaptopError], *said: str) -> None:
    """The class, and its three parts: they name what ``said`` names, and leave no blank to fill in."""
    assert got.kind is kind, got
    for each in said:
        assert each in got.text
    assert got.why
    assert got.fix
    assert not re.search(r"\bPID\b", got.text)


def check_refused(pid: int, kind: type[HeaptopError], *said: str, doctor: bool = True) -> Answer:
    """Refused from outside: the same by the attach and by doctor, and nothing in the target has changed."""
    before = Facts.of(pid)
    got = answer(pid)
    check_text(got, kind, str(pid), *said)
    if doctor:
        assert Answer.of(diagnose(pid).error) == got
    assert difference(before, Facts.of(pid), allow_pages=False) == []
    return got


# -- what is not there, or does not live -----------------------------------------------------------------------


def test_a_pid_that_is_gone() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    got = answer(child.pid)
    check_text(got, ProcessNotFound, f"no process {child.pid}", "heaptop ps")
    assert Answer.of(diagnose(child.pid).error) == got


@pytest.mark.pythons("3.13")
def test_a_thread_in_place_of_its_process(interpreter: Interpreter) -> None:
    with running(interpreter, "threads8") as target:
        thread = max(Facts.of(target.pid).threads)
        got = answer(thread)
        said = f"{thread} is a thread of process {target.pid}"
        check_text(got, ProcessNotFound, said, f"heaptop attach {target.pid}")


@pytest.mark.pythons("3.13")
def test_a_zombie_is_refused(interpreter: Interpreter) -> None:
    with running(interpreter, "zombie") as target:
        got = answer(int(target.detail))
        check_text(got, ZombieTarget, f"{target.detail} (python", "exit status")
        assert Answer.of(diagnose(int(target.detail)).error) == got
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons(OLDEST, NEWEST)
def test_a_stopped_process_stays_stopped(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        target.stop()
        check_refused(target.pid, StoppedTarget, f"kill -CONT {target.pid}")
        assert process.read_facts(target.pid).state == "T"
        target.signal(signal.SIGCONT)
        attach_once(target.pid)
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.8", "3.13")
def test_a_traced_process_names_its_tracer(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        with running(this_python(), "tracer", str(target.pid)) as tracer:
            check_refused(target.pid, TracedTarget, f"by process {tracer.pid} (", "tracer.py", f"kill {tracer.pid}")
            assert Facts.of(target.pid).tracer == tracer.pid
        attach_once(target.pid)
        assert target.said() == []


@pytest.mark.pythons("3.13")
def test_a_target_that_is_attached_already(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target, attached(target.pid) as first:
        got = answer(target.pid)
        check_text(got, AlreadyAttached, str(target.pid), str(os.getpid()), f"heaptop detach {target.pid}")
        assert isinstance(diagnose(target.pid).error, AlreadyAttached)
        assert is_whole(first.census())


# -- what is not a CPython that is known -----------------------------------------------------------------------


def rests(pid: int) -> bool:
    """Whether a program that says nothing has done with its beginning: it waits, for time, a child or a signal."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[0] in ("35", "61", "130", "230")


def test_what_is_not_python() -> None:
    with starting(["sleep", "600"]) as target:
        assert eventually(lambda: rests(target.pid))
        check_refused(target.pid, NotPython, "(sleep)", "heaptop ps")


@pytest.mark.skipif(not Path("/proc/2/comm").exists(), reason="a pid namespace without the kernel's threads")
def test_a_thread_of_the_kernel() -> None:
    check_text(answer(2), NotPython, "kernel")
    assert isinstance(diagnose(2).error, NotPython)


@pytest.mark.pythons("2.7", "3.6", "3.7")
def test_versions_that_are_too_old(interpreter: Interpreter) -> None:
    with running(interpreter, "busy") as target:
        check_refused(target.pid, UnsupportedPython, f"runs Python {interpreter.name}", SUPPORTED)


@pytest.mark.pythons("pypy")
def test_pypy_is_refused(interpreter: Interpreter) -> None:
    with running(interpreter, "busy", environment={"LC_ALL": "C"}) as target:
        check_refused(target.pid, PyPyTarget, "PyPy", "gc.dump_rpy_heap")


def test_the_loader_of_a_pyinstaller_program(tmp_path: Path) -> None:
    program = tmp_path / "shop"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    cookie = finding.PYINSTALLER_MAGIC + struct.pack("!IIII64s", 0, 0, 0, 311, b"libpython3.11.so.1.0")
    with program.open("ab") as file:
        file.write(cookie)
    with starting([program, "600"]) as target:
        assert eventually(lambda: rests(target.pid))
        check_refused(target.pid, PyInstallerBootloader, "child", "heaptop ps")
    # The loader proper waits for its child, which is the interpreter. A copy of the shell does the same here.
    loader = tmp_path / "loader"
    loader.write_bytes(Path("/bin/sh").resolve().read_bytes() + cookie)
    loader.chmod(0o755)
    with starting([loader, "-c", "sleep 600 & wait"]) as target:
        assert eventually(lambda: process.children(target.pid) and rests(target.pid))
        (child,) = process.children(target.pid)
        check_refused(target.pid, PyInstallerBootloader, f"heaptop attach {child}")


@contextmanager
def mapped_header(folder: Path, elf_class: int, machine: int) -> Iterator[list[Mapping]]:
    """This process's mappings of a file that is an ELF header and no more."""
    path = folder / "program"
    header = b"\x7fELF" + bytes([elf_class, 1, 1]) + bytes(9) + struct.pack("<HHI", 2, machine, 1)
    path.write_bytes(header.ljust(4096, b"\0"))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        yield [mapping for mapping in read_mappings(os.getpid()) if mapping.path == str(path)]


@pytest.mark.parametrize(("elf_class", "machine", "said"), [(2, 183, "64-bit aarch64"), (1, 3, "32-bit 386")])
def test_a_program_for_another_machine_is_refused(elf_class: int, machine: int, said: str, tmp_path: Path) -> None:
    """Read from the mapped header, as such a process under qemu shows it; there is no other machine here."""
    with mapped_header(tmp_path, elf_class, machine) as mappings, RemoteMemory(os.getpid()) as memory:
        with pytest.raises(UnsupportedArchitecture) as caught:
            finding.find_interpreter(os.getpid(), memory, mappings, "")
        check_text(Answer.of(caught.value), UnsupportedArchitecture, str(os.getpid()), said, "docs/support.md")
        # A Python that only reads such a file is none of it.
        both = [*mappings, *read_mappings(os.getpid())]
        assert finding.find_interpreter(os.getpid(), memory, both, "").version.pair == sys.version_info[:2]


@contextmanager
def laid_out(library: str, path: Path | None = None, **changes: int) -> Iterator[None]:
    """A library in this process's memory, in one mapping: data, of a file at ``path``; or code, of a memfd that is
    named as one of heaptop's cores. ``changes`` are made to its dynamic section."""
    with open(library, "rb") as source:
        elf = ELFFile(source)
        parts = [part for part in elf.iter_segments() if part["p_type"] == "PT_LOAD"]
        content = bytearray(max(part["p_vaddr"] + part["p_memsz"] for part in parts))
        for part in parts:
            content[part["p_vaddr"] : part["p_vaddr"] + part["p_filesz"]] = part.data()
        (dynamic,) = (part for part in elf.iter_segments() if part["p_type"] == "PT_DYNAMIC")
        for number, tag in enumerate(dynamic.iter_tags()):
            if tag.entry.d_tag in changes:
                struct.pack_into("<Q", content, dynamic["p_vaddr"] + 16 * number + 8, changes[tag.entry.d_tag])
    file = os.memfd_create(f"heaptop-core-{0:016x}-3") if path is None else os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.write(file, content)
        with mmap.mmap(file, 0, prot=mmap.PROT_READ | (mmap.PROT_EXEC if path is None else 0)):
            yield
    finally:
        os.close(file)


def found_in_this_process() -> finding.Interpreter:
    with RemoteMemory(os.getpid()) as memory:
        return finding.find_interpreter(os.getpid(), memory, read_mappings(os.getpid()), "")


def test_a_c_library_that_is_read_as_data_is_not_called(tmp_path: Path) -> None:
    before = found_in_this_process()
    libc = next(each.path for each in read_mappings(os.getpid()) if os.path.basename(each.path).startswith("libc.so"))
    with laid_out(libc, tmp_path / "libc.so"):
        assert found_in_this_process() == before


@pytest.mark.pythons(*SAMPLE, *MUSL)
def test_a_program_that_reads_its_own_libraries_as_data_is_attached_to(interpreter: Interpreter) -> None:
    """As symbolizers do that print stacks: the kernel maps what is mapped later below what runs."""
    with running(interpreter, "reads_own_code", wrapper=with_proc(interpreter)) as target:
        assert int(target.detail) >= 2
        attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons(*SAMPLE)
def test_a_program_with_two_c_libraries_is_refused(interpreter: Interpreter) -> None:
    """A function of the one that Python does not use crashed the program."""
    with running(interpreter, "second_libc", wrapper=with_proc(interpreter)) as target:
        assert target.detail == "2"
        check_refused(target.pid, InjectionDenied, "2 C libraries", "heaptop run")
        assert target.terminate() == EXIT_CODE


IS_FOREIGN = """
import signal, sys
from types import SimpleNamespace
from heaptop.injector.entry import hijack, ptrace
from heaptop.injector.inspect.memory import RemoteMemory
pid, tid = int(sys.argv[1]), int(sys.argv[2])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
with RemoteMemory(pid) as memory:
    thread = ptrace.StoppedThread(tid, memory)
    thread.stop(30)
    try:
        hijack.check_thread_pointer(hijack.HijackedThread(thread, memory, SimpleNamespace(pid=pid)))
        print("own")
    except hijack.ForeignThread:
        print("foreign")
    finally:
        thread.release()
"""
"""Whether heaptop takes a thread for one that the C library has not made."""


@pytest.mark.parametrize("pointer", ["own", "shared"])
@pytest.mark.pythons(*SAMPLE)
def test_a_thread_that_the_c_library_has_not_made_is_not_called_in(interpreter: Interpreter, pointer: str) -> None:
    with running(interpreter, "raw_thread", pointer, wrapper=with_proc(interpreter)) as target:
        before = Facts.of(target.pid)
        main, raw = thread_ids(target.pid)
        for tid, found in ((main, "own\n"), (raw, "foreign\n")):
            command = [sys.executable, "-c", IS_FOREIGN, str(target.pid), str(tid)]
            assert subprocess.check_output(command, text=True) == found
        with attached(target.pid) as attachment:
            assert attachment.census().rows
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


def test_a_file_that_is_named_as_a_native_core_and_is_none_is_left_alone() -> None:
    before = found_in_this_process()
    with laid_out(str(native.core()), DT_SYMTAB=1 << 40):
        assert found_in_this_process() == before


def test_heaptop_on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UnsupportedArchitecture) as caught:
        preflight.check(os.getpid())
    check_text(Answer.of(caught.value), UnsupportedArchitecture, "riscv64", "docs/support.md")
    assert isinstance(diagnose(None).error, UnsupportedArchitecture)


def test_a_free_threaded_build_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the word that ``_Py_DebugOffsets`` has for it, in memory of our own."""
    for flag in (0, 1):
        words = ctypes.create_string_buffer(b"xdebugpy" + struct.pack("<QQ", 0x030D00F0, flag))
        with RemoteMemory(os.getpid()) as memory:
            address = ctypes.addressof(words)
            assert finding.is_free_threaded(memory, address, PythonVersion(3, 13)) == bool(flag)
            assert not finding.is_free_threaded(memory, address, PythonVersion(3, 12))
            assert not finding.is_free_threaded(memory, 0, PythonVersion(3, 13))
    monkeypatch.setattr(finding, "is_free_threaded", lambda *_: True)
    with pytest.raises(FreeThreadedTarget) as caught:
        preflight.check(os.getpid())
    check_text(Answer.of(caught.value), FreeThreadedTarget, str(os.getpid()), "python3.13t")


# -- what the kernel forbids -----------------------------------------------------------------------------------


@need_root
@pytest.mark.pythons("3.11-debian")
def test_a_process_of_another_user_is_refused_with_the_command_that_works(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        before = Facts.of(target.pid)
        got = answer_of_child(target.pid, become_nobody)
        check_text(got, PtraceDenied, "belongs to root", "you are nobody", f"sudo heaptop attach {target.pid}")
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []


@need_root
@pytest.mark.pythons("3.11-debian", "3.13")
def test_ones_own_that_gave_up_root(interpreter: Interpreter) -> None:
    with running(interpreter, "dropping", "before") as target:
        got = answer_of_child(target.pid, become_nobody)
        check_text(got, PtraceDenied, "dropped privileges", f"sudo heaptop attach {target.pid}")


@need_root
@pytest.mark.pythons("3.13")
def test_root_without_the_capability(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        got = answer_of_child(target.pid, without_capabilities)
        check_text(got, PtraceDenied, "no CAP_SYS_PTRACE", "--cap-add=SYS_PTRACE")


@need_root
@pytest.mark.pythons("3.11-debian")
@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (0, "dropped privileges"),
        (1, "sudo sysctl kernel.yama.ptrace_scope=0"),
        (2, "tracing needs CAP_SYS_PTRACE"),
        (3, "until the next boot"),
    ],
)
def test_a_refusal_by_yama_says_what_helps(
    interpreter: Interpreter, scope: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said where the kernel denies and Yama has that setting; this kernel's own may be another."""
    monkeypatch.setattr(process, "ptrace_scope", lambda: scope)
    with running(interpreter, "dropping", "before") as target:
        got = answer_of_child(target.pid, become_nobody)
        check_text(got, PtraceDenied, str(target.pid), said)
        assert ("heaptop run" in got.fix) == (scope > 0)


@need_root
@pytest.mark.pythons("3.11-debian")
def test_a_target_that_may_start_no_thread_is_refused(interpreter: Interpreter) -> None:
    """A limit of one task for a user of its own: seen before anything is tried."""
    wrapper = ("prlimit", f"--nproc=1:{resource.getrlimit(resource.RLIMIT_NPROC)[1]}", *AS_USER_OF_ITS_OWN)
    with running(interpreter, "sleeper", wrapper=wrapper) as target:
        before = Facts.of(target.pid)
        got = answer(target.pid)
        check_text(got, InjectionDenied, str(target.pid), "Only 0 more may be made", "prlimit --nproc")
        assert difference(before, Facts.of(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


# -- an interpreter that does not answer -----------------------------------------------------------------------


@pytest.mark.pythons(*SAMPLE)
def test_an_interpreter_that_shuts_down_is_refused_and_left_as_it_was(interpreter: Interpreter) -> None:
    with running(interpreter, "finalizing") as target:
        before = Facts.of(target.pid)
        check_text(answer(target.pid), FinalizedInterpreter, str(target.pid), "shutting down")
        assert difference(before, resting(target.pid)) == []
        assert target.said() == []


@pytest.mark.pythons("3.8", "3.11", "3.13")
@pytest.mark.parametrize("mode", ["held", "finalized"])
def test_an_embedded_interpreter_that_runs_no_code_is_given_up(interpreter: Interpreter, mode: str) -> None:
    """With the GIL held, one thread of the request stays until the GIL is free; a second attach then says so."""
    home = str(Path(interpreter.path).parent.parent)
    with starting([building.embedding("embedded.c", interpreter), mode], environment={"PYTHONHOME": home}) as target:
        assert eventually(lambda: target.stdout() == "ready\n")
        got = answer(target.pid, wait=0.5)
        if mode == "finalized":
            check_text(got, FinalizedInterpreter, str(target.pid), "not initialized")
        else:
            check_text(got, InterpreterBusy, str(target.pid), "within 0.5 s", f"heaptop attach {target.pid} --wait")
            check_text(answer(target.pid, wait=0.5), InterpreterBusy, "earlier agent", str(target.pid))
        assert target.alive
        assert target.stderr() == ""


@pytest.mark.pythons("3.12", "3.13")
def test_busy_in_a_subinterpreter(interpreter: Interpreter) -> None:
    with running(interpreter, "subinterpreter", "busy") as target:
        before = Facts.of(target.pid)
        check_text(answer(target.pid, wait=0.5), InterpreterBusy, str(target.pid), "within 0.5 s")
        assert difference(before, resting(target.pid)) == []
        assert target.alive


@pytest.mark.pythons(OLDEST, "3.13", NEWEST)
def test_a_thread_that_cannot_be_interrupted_is_given_up_and_resumes_later(interpreter: Interpreter) -> None:
    with running(interpreter, "vfork_parent") as target:
        assert eventually(lambda: process.read_facts(target.pid).state == "D")
        before = Facts.of(target.pid)
        got = answer(target.pid)
        check_text(got, UnresponsiveTarget, "within 2 s", "vfork", f"/proc/{target.pid}/wchan")
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []
        target.write(b".")
        assert eventually(lambda: target.said() == ["released"])
        attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


# -- the channel -----------------------------------------------------------------------------------------------


def test_another_process_on_our_socket() -> None:
    listener = hijack.listen_in_target(os.getpid(), os.geteuid(), os.getegid())
    with listener, socket.socket(socket.AF_UNIX) as ours:
        assert os.stat(listener.inside).st_mode & 0o777 == 0o600
        ours.connect(listener.inside)
        with pytest.raises(TransportFailed) as caught:
            listener.accept(os.getpid() + 1)
        got = Answer.of(caught.value.about(os.getpid()))
        check_text(got, TransportFailed, f"Process {os.getpid()} connected in place of")
    assert not Path(listener.inside).exists()


def test_a_symbolic_link_in_the_way_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns the target may lay one, and heaptop may be root."""
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    monkeypatch.setattr(hijack, "SOCKET_FOLDERS", (str(folder), f"{folder}/..", str(elsewhere)))
    with hijack.listen_in_target(os.getpid(), os.geteuid(), os.getegid()) as listener:
        assert listener.inside.startswith(f"{elsewhere}/")
    assert list(elsewhere.iterdir()) == []
    monkeypatch.setattr(hijack, "SOCKET_FOLDERS", (str(folder),))
    with pytest.raises(TransportFailed):
        hijack.listen_in_target(os.getpid(), os.geteuid(), os.getegid())
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("kind", ["tmpfs", "squashfs", "erofs", "fuse.fuse-overlayfs", "virtiofs", "nfs4"])
def test_no_folder_is_opened_on_a_file_system_that_may_need_a_server(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = proc.text

    def text(path: str) -> str:
        found = read(path)
        return re.sub(r"(?m) - \S+ ", f" - {kind} ", found) if path.endswith("mountinfo") else found

    monkeypatch.setattr(proc, "text", text)
    monkeypatch.setattr(hijack, "SOCKET_FOLDERS", (str(tmp_path),))
    if kind in ("tmpfs", "squashfs"):
        with hijack.listen_in_target(os.getpid(), os.geteuid(), os.getegid()) as listener:
            assert listener.inside.startswith(f"{tmp_path}/")
    else:
        with pytest.raises(TransportFailed):
            hijack.listen_in_target(os.getpid(), os.geteuid(), os.getegid())
    assert list(tmp_path.iterdir()) == []


def test_no_folder_for_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hijack, "SOCKET_FOLDERS", ("/proc", "/not/there"))
    with pytest.raises(TransportFailed) as caught:
        hijack.listen_in_target(os.getpid(), os.geteuid(), os.getegid())
    check_text(Answer.of(caught.value.about(os.getpid())), TransportFailed, "/not/there", f"doctor {os.getpid()}")
