"""Every error that a person sees: one tree, one exit code and one help text a class.

This module never prints and never exits: ``heaptop.__main__`` does both, once, for the whole tree.

::

    HeaptopError                     1
    ├── UsageError                   2
    │   └── ConfigError              2
    ├── TargetError                      the target cannot or must not be attached to
    │   ├── ProcessNotFound         10
    │   ├── AmbiguousName           11
    │   ├── NotPython               12
    │   ├── UnsupportedPython       13
    │   ├── PyPyTarget              14
    │   ├── PyInstallerBootloader   15
    │   ├── StoppedTarget           16
    │   ├── TracedTarget            17
    │   ├── ZombieTarget            18
    │   ├── FinalizedInterpreter    19
    │   ├── FreeThreadedTarget      20
    │   ├── UnsupportedArchitecture 22
    │   ├── PtraceDenied            23
    │   ├── SeccompTarget           24
    │   ├── UnresponsiveTarget      25
    │   ├── InterpreterBusy         26
    │   ├── RemoteDebuggingDisabled 27
    │   ├── AlreadyAttached         28
    │   ├── AttachCancelled         29
    │   ├── InjectionDenied         30
    │   ├── TransportFailed         31
    │   ├── InjectionFailed         32
    │   ├── NoAgent                 33
    │   ├── PauseTooLong            34
    │   ├── SamplerRefused          35
    │   ├── ImageRefused            36
    │   ├── NotInHeap               37
    │   └── AmbiguousType           38
    ├── SessionError                     the conversation with the agent
    │   ├── ProtocolError           40
    │   │   └── FrameTooLarge       40
    │   ├── VersionMismatch         41
    │   ├── TargetExited            42
    │   ├── AgentLost               43
    │   ├── LaunchFailed            44
    │   └── ImageLost               45
    ├── RecordingError                   a recording in a file
    │   ├── NotARecording           50
    │   ├── RecordingTooNew         51
    │   ├── RecordingExists         52
    │   ├── RecordingFailed         53
    │   ├── RecordingTooLarge       54
    │   └── CodecMissing            55
    ├── DumpError
    │   ├── NotADump                56
    │   ├── DumpTooNew              57
    │   ├── DumpDamaged             58
    │   └── DumpFailed              59
    ├── SaveFailed                  60
    └── OutOfResources              61

Codes 0 (done), 1 (failed) and 2 (usage) mean what they mean everywhere; 3 is no error, but a leak that
``heaptop leaks --fail-on-leak`` has found. An error's text has three parts:
what happened (the message), why (``why``), and what to type (``fix``).
"""

from __future__ import annotations

import errno
import re
from typing import ClassVar, Final


class HeaptopError(Exception):
    """Base of the tree. ``message`` is what happened, in one sentence, with the names of this case.

    ``why`` and ``fix`` are on the class where they are always the same, and are passed where they are not.
    """

    exit_code: ClassVar[int] = 1
    message: str
    why: str = ""
    fix: str = ""

    def __init__(self, message: str, *, why: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if why is not None:
            self.why = why
        if fix is not None:
            self.fix = fix

    def about(self, pid: int) -> HeaptopError:
        """Name the process in what is on the class: the word PID in ``why`` and ``fix`` becomes its number."""
        self.why, self.fix = (re.sub(r"\bPID\b", str(pid), text) for text in (self.why, self.fix))
        return self

    @property
    def help_text(self) -> str:
        """What happened, why, and what to type: the paragraphs a person reads, joined by blank lines."""
        return "\n\n".join(part for part in (self.message, self.why, self.fix) if part)


class UsageError(HeaptopError):
    """The command line, a filter or a key was wrong."""

    exit_code = 2
    fix = "See `heaptop --help` for the commands, or `heaptop COMMAND --help` for one of them."

    place: tuple[int, int] | None = None
    """Of what was typed, the first character that is wrong and the first behind it, where the message points there."""

    @classmethod
    def at(cls, what: str, text: str, start: int, end: int, *, fix: str) -> UsageError:
        """Of one place in ``text``: the message shows it, with a pointer below; its first line is ``what``."""
        line = re.sub(r"\s", " ", text)
        error = cls(f"{what}\n\n    {line}\n    {' ' * start}{'^' * (end - start)}", fix=fix)
        error.place = start, end
        return error


class ConfigError(UsageError):
    """The file of settings was wrong. ``why`` is what is allowed there."""

    fix = "Fix the file or the path, or skip it: `--no-config`. `heaptop config --example` prints a valid file."


# -- the target --------------------------------------------------------------------------------------------


class TargetError(HeaptopError):
    """The target cannot, or must not, be attached to. Nothing was changed in it."""


class ProcessNotFound(TargetError):
    exit_code = 10
    why = "The process exited, or the pid belongs to another pid namespace."
    fix = "List the processes here with `heaptop ps`."


class AmbiguousName(TargetError):
    exit_code = 11
    why = "A name must match exactly one Python process."
    fix = "Use one of the pids above, or a longer part of the command line."


class NotPython(TargetError):
    exit_code = 12
    why = (
        "No file mapped in the process defines both PyRun_SimpleString and Py_AddPendingCall, so it is not a "
        "CPython interpreter: another language, a shell that started Python, or a launcher such as sudo."
    )
    fix = "Find the interpreter itself with `heaptop ps`: often it is a child of the process you named."


class UnsupportedPython(TargetError):
    exit_code = 13
    why = "heaptop does not write into an interpreter whose structures it does not know."
    fix = "Run the program on a supported Python, or look for a newer heaptop."


class PyPyTarget(TargetError):
    exit_code = 14
    why = "PyPy has a different object model and garbage collector."
    fix = "Use PyPy's own `gc.dump_rpy_heap()`, or run the program on CPython."


class PyInstallerBootloader(TargetError):
    exit_code = 15
    why = (
        "A one-file PyInstaller program starts a loader that only waits for its child; the interpreter is in the child."
    )
    fix = "Attach to the child: `heaptop ps` lists it with the same command."


class StoppedTarget(TargetError):
    exit_code = 16
    why = "A stopped process runs no code. heaptop cannot resume it."
    fix = "Resume it with `kill -CONT PID` (or `fg` in its shell), then attach again."


class TracedTarget(TargetError):
    exit_code = 17
    why = "Linux allows one tracer per process, and another one is attached."
    fix = "End or detach the other tracer, then attach again."


class ZombieTarget(TargetError):
    exit_code = 18
    why = "The process has exited; only its exit status is left until its parent reads it."
    fix = "It has no heap any more. If it restarts, find the new pid with `heaptop ps`."


class FinalizedInterpreter(TargetError):
    exit_code = 19
    why = "The interpreter is not initialized yet, or is shutting down: Python code can no longer run in it."
    fix = "If the program is just starting, attach again in a moment."


class FreeThreadedTarget(TargetError):
    exit_code = 20
    why = "Free-threaded builds have no GIL, which heaptop's code in a process relies on."
    fix = "Run the program on the default build of the same version (python3.13 instead of python3.13t)."


class UnsupportedArchitecture(TargetError):
    exit_code = 22
    why = "Attaching is supported on 64-bit x86 and, with limits, on 64-bit ARM (aarch64)."
    fix = "Run the program on 64-bit x86 Linux, or see docs/support.md for what works on aarch64."


class PtraceDenied(TargetError):
    exit_code = 23
    why = "The kernel does not allow this user to read that process."
    fix = "Run heaptop as root: `sudo heaptop attach PID`."


class SeccompTarget(TargetError):
    exit_code = 24
    why = (
        "The process runs under a seccomp filter, which may kill it for the system calls of an attach (mmap, "
        "socketpair). Only root can suspend the filter for that moment."
    )
    fix = (
        "Run heaptop as root (`sudo heaptop attach PID`), or, if you know that the filter allows mmap, socketpair, "
        "clone and nanosleep: `heaptop attach PID --allow-seccomp`."
    )


class UnresponsiveTarget(TargetError):
    exit_code = 25
    why = (
        "It is in uninterruptible sleep (state D: a disk or network file system that does not answer), waits in "
        "vfork for a child to start, or its control group is frozen (`docker pause`). Nothing was changed in it."
    )
    fix = "Check `cat /proc/PID/wchan` and `cat /proc/PID/cgroup`, and attach again when the process runs."


class InterpreterBusy(TargetError):
    exit_code = 26
    why = (
        "The program was in one long call into C (a big sort or sum, a regular expression, NumPy), and the agent can "
        "start only between two lines of Python. heaptop has cancelled its request: none of its code will run, and if "
        "it has started a thread, that thread ends after the call."
    )
    fix = "Attach again later, or wait longer: `heaptop attach PID --wait 120`."


class RemoteDebuggingDisabled(TargetError):
    exit_code = 27
    why = (
        "ptrace is not possible here, and PEP 768 was disabled when the program was started: `-X "
        "disable-remote-debug` or PYTHON_DISABLE_REMOTE_DEBUG=1."
    )
    fix = "Run heaptop where it has ptrace, or override the setting: `heaptop attach PID --override-remote-debug`."


class AlreadyAttached(TargetError):
    exit_code = 28
    why = "Only one profiler can attach at a time: two would count each other and change the same hooks."
    fix = "Quit the other one (key q). If it hangs or is lost: `heaptop detach PID`."


class AttachCancelled(TargetError):
    exit_code = 29
    why = "Nothing of heaptop runs in the process."


class InjectionDenied(TargetError):
    exit_code = 30
    why = "The kernel or a security module refused a system call that the attach needs inside the target."
    fix = "Start the program with the agent in it instead: `heaptop run -- prog.py`."


class TransportFailed(TargetError):
    exit_code = 31
    why = "heaptop found no channel to the target: neither pidfd_getfd nor a socket in its file system works."
    fix = "See what is missing with `heaptop doctor PID`."


class InjectionFailed(TargetError):
    exit_code = 32
    why = "The attach met an unknown state, restored the thread, and detached."
    fix = "Please report it with the output of `heaptop doctor PID --json`."


class NoAgent(TargetError):
    exit_code = 33
    why = "There is nothing to remove."


class PauseTooLong(TargetError):
    exit_code = 34
    why = "The census would pause the process for longer than the budget allows."
    fix = "Allow a longer pause with `--pause-budget MS`, or count in slices with `--mode python`."


class SamplerRefused(TargetError):
    exit_code = 35
    why = "Sampling needs heaptop's native core: it hooks the allocators and keeps tables in the process."
    fix = "A census works without it: `heaptop census PID`."


class ImageRefused(TargetError):
    exit_code = 36
    why = (
        "Retainers, waste, leak hunts and heap dumps need a snapshot: a clone of the process in which heaptop's "
        "native core records every reference."
    )
    fix = "A census works without it: `heaptop census PID`."


class NotInHeap(TargetError):
    exit_code = 37
    why = "Write a type with its module (`shop.models.Session`), or only the end of that name (`Session`)."
    fix = "List the types: `heaptop census PID --top 0`."


class AmbiguousType(TargetError):
    exit_code = 38
    why = "The end of a name must match exactly one type in the heap."
    fix = "Type one of the names above in full."


# -- the session -------------------------------------------------------------------------------------------


class SessionError(HeaptopError):
    """The conversation with the agent failed after it began. The agent cleans up when its socket closes."""


class ProtocolError(SessionError):
    exit_code = 40
    why = "The data on the socket violates heaptop's protocol. The session was closed."
    fix = "Attach again. If it happens twice, please report it."

    def of_a_file(self, path: str) -> ProtocolError:
        """The same of a recording: what does not fit was read there, and came over no socket."""
        return ProtocolError(
            self.message,
            why=f"The recording {path} contains impossible data: it is damaged or was made by hand.",
            fix="Open it at another moment with `--at`, or record the process again.",
        )


class FrameTooLarge(ProtocolError):
    why = "A frame was announced that is larger than the protocol allows. The session was closed."


class VersionMismatch(SessionError):
    exit_code = 41
    why = "The agent in the target uses another protocol version than this heaptop."
    fix = "Remove it with `heaptop detach PID`, then attach again."


class TargetExited(SessionError):
    """``status`` is the target's exit code where heaptop is its parent and so can know it: -N for signal N."""

    exit_code = 42
    why = "The process exited while heaptop was attached."
    fix = "Find its successor with `heaptop ps`."

    def __init__(
        self, message: str, *, status: int | None = None, why: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(message, why=why, fix=fix)
        self.status = status


class AgentLost(SessionError):
    exit_code = 43
    why = "The agent stopped answering or exited, while the target still runs."
    fix = "Attach again. If that fails, run `heaptop doctor PID`."


class LaunchFailed(SessionError):
    exit_code = 44
    why = "The program could not be started with the agent in it."
    fix = "Try the same command without heaptop first, then `heaptop run --python /path/to/python -- prog.py`."


class ImageLost(SessionError):
    exit_code = 45
    why = "The snapshot ended before it answered. The process continues."
    fix = "Retry. If memory ran out, free some first, or use a census: `heaptop census PID`."


# -- recordings ----------------------------------------------------------------------------------------------


class RecordingError(HeaptopError):
    """A recording cannot be read or written. No process is harmed by that."""


class NotARecording(RecordingError):
    exit_code = 50
    why = "A recording is a file written by `heaptop record`, by `--record`, or with ctrl+r on the live screen."
    fix = "Make one: `heaptop record PID -o FILE`."


class RecordingTooNew(RecordingError):
    exit_code = 51
    why = "A newer heaptop wrote it, and this one could misread it."
    fix = "Install that version or a later one, and open it with that."


class RecordingExists(RecordingError):
    exit_code = 52
    why = "A recording holds one session, and heaptop overwrites files only with `--force`."
    fix = "Choose another file, or overwrite it: `--force`."


class RecordingFailed(RecordingError):
    exit_code = 53
    why = "The file contains what was recorded until then. The process continues."
    fix = "Record to a writable place with free space: `heaptop record PID -o FILE`."


class RecordingTooLarge(RecordingError):
    exit_code = 54
    why = "heaptop writes no such recordings. This one is damaged, or was made to exhaust memory."
    fix = "Record the process again: `heaptop record PID -o FILE`."


class CodecMissing(RecordingError):
    exit_code = 55
    why = "Python has zstd from 3.14 on; before, the package zstandard has it."
    fix = "Install it: `pip install zstandard`, or open the file with another heaptop that has it."


class DumpError(HeaptopError):
    """A heap dump cannot be read or written. No process is harmed by that."""


class NotADump(DumpError):
    exit_code = 56
    why = "A heap dump is a file written by `heaptop dump`."
    fix = "Make one: `heaptop dump PID -o FILE`."


class DumpTooNew(DumpError):
    exit_code = 57
    why = "A newer heaptop wrote it, and this one could misread it."
    fix = "Install that version or a later one, and open it with that."


class DumpDamaged(DumpError):
    exit_code = 58
    why = "The file was cut or changed. `heaptop census FILE` counts the part that is whole."
    fix = "Make another: `heaptop dump PID -o FILE`."


class DumpFailed(DumpError):
    exit_code = 59
    why = "The incomplete file was removed. The process continues."
    fix = "Write to a place with free space: `heaptop dump PID -o FILE`."


class SaveFailed(HeaptopError):
    """What a view shows could not be written into a file."""

    exit_code = 60
    why = "The incomplete file was removed; the session continues."
    fix = "Choose a file in a writable place with free space."


class OutOfResources(HeaptopError):
    """heaptop itself may open no more files, start no more threads, or have no more memory."""

    exit_code = 61
    why = "A limit of this shell, its control group or the machine is reached."
    fix = "Check the limits with `ulimit -a`, raise them (`ulimit -n 1024`, `ulimit -v unlimited`), and retry."


_LIMITS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""EAGAIN is what a fork fails with at a limit of processes."""


def os_reason(error: Exception) -> str:
    """Why the system refused something, in its own words: ``No such file or directory``."""
    return getattr(error, "strerror", None) or str(error)


def fault(caught: BaseException, kind: type[HeaptopError]) -> HeaptopError:
    """The text of an unexpected exception: of ``kind``, but where heaptop has met a limit."""
    return limit_met(caught) or kind(f"heaptop failed: {type(caught).__name__}: {caught}.")


def limit_met(caught: BaseException) -> OutOfResources | None:
    """The error that an exception represents where heaptop has met a limit of its own; None where it has not."""
    if isinstance(caught, MemoryError):
        return OutOfResources("heaptop ran out of memory.")
    if isinstance(caught, OSError) and caught.errno in _LIMITS:
        return OutOfResources(f"heaptop ran out of a resource: {caught.strerror}.")
    return None


def _leaves(root: type[HeaptopError]) -> list[type[HeaptopError]]:
    found = [root]
    for child in root.__subclasses__():
        found += _leaves(child)
    return found


def all_errors() -> list[type[HeaptopError]]:
    """Every class of the tree, parents first: what the table of docs/exit-codes.md is made from."""
    return _leaves(HeaptopError)
