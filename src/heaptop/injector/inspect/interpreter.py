"""Finds the CPython interpreter in another process: which mapped file it is, its version, and the addresses needed.

Reads memory only. The interpreter is the image that *defines* both ``PyRun_SimpleString`` and
``Py_AddPendingCall``: not a module that merely calls them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from heaptop.errors import (
    InjectionDenied,
    NotPython,
    PyInstallerBootloader,
    PyPyTarget,
    UnsupportedArchitecture,
    UnsupportedPython,
)
from heaptop.injector.inspect import layout, process, target_files
from heaptop.injector.inspect.elf import ELFCLASS64, ElfImage, images, machine_name
from heaptop.injector.inspect.layout import PythonVersion
from heaptop.injector.inspect.memory import Mapping, ReadableMemory, RemoteFault, RemoteMemory
from heaptop.injector.machine import MACHINE
from heaptop.protocol.text import LONGEST, printable

DEFINING: Final = ("PyRun_SimpleString", "Py_AddPendingCall")
PYINSTALLER_MAGIC: Final = b"MEI\014\013\012\013\016"
"""``PyInstaller/archive/writers.py``: the cookie at the end of a one-file executable."""

LIBC_FILES: Final = ("libc.so", "libc-", "libpthread", "ld-musl-")
"""How the names of files begin that are a C library. musl's is its dynamic linker too."""
ONLY_GLIBC: Final = "gnu_get_libc_version"
SYSTEM_CALL: Final = "syscall"
"""A function that every C library has, and its libpthread has not."""

CORE_FILE: Final = re.compile("/memfd:heaptop-core-([0-9a-f]{16})-")
CORE_AGAIN: Final = "heaptop_core_again"

LARGEST_CODE: Final = 8 << 20
"""Bytes of a libc's code that are searched: glibc has 1.5 MB, musl 0.6."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What was found; addresses are of the target's address space."""

    path: str
    version: PythonVersion
    free_threaded: bool
    functions: dict[str, int]
    """By field name of :class:`heaptop.injector.entry.stub.Params`; ``is_finalizing`` is 0 where it is not exported."""
    add_pending_call: int
    syscall_instruction: int
    """One with a ``ret`` behind it, if there is one."""
    restorer: int
    """Of an rt_sigreturn; 0 when none was found."""
    runtime: int
    """Address of ``_PyRuntime``; 0 when it is not exported."""
    musl: bool
    """The C library is musl, and not glibc."""
    core_again: dict[str, int]
    """By build, ``heaptop_core_again`` of the native cores that earlier sessions have left."""


PARAMS_SYMBOLS: Final = {
    "is_initialized": "Py_IsInitialized",
    "ensure": "PyGILState_Ensure",
    "release": "PyGILState_Release",
    "dict_new": "PyDict_New",
    "compile_string": "Py_CompileString",
    "eval_code": "PyEval_EvalCode",
    "get_builtins": "PyEval_GetBuiltins",
    "set_item": "PyDict_SetItemString",
    "dec_ref": "Py_DecRef",
    "err_clear": "PyErr_Clear",
    "save_thread": "PyEval_SaveThread",
    "restore_thread": "PyEval_RestoreThread",
    "state_get": "PyThreadState_Get",
}
ENTER_TRACING: Final = "PyThreadState_EnterTracing"
THREAD_STATE_SYMBOLS: Final = {
    "main_interpreter": "PyInterpreterState_Main",
    "new_state": "PyThreadState_New",
}
"""Needed where a fork's child does not renew the lock on thread states."""
LIBC_SYMBOLS: Final = {
    "pthread_self": "pthread_self",
    "pthread_detach": "pthread_detach",
    "pthread_create": "pthread_create",
    "attr_init": "pthread_attr_init",
    "attr_setstacksize": "pthread_attr_setstacksize",
    "attr_destroy": "pthread_attr_destroy",
    "clock_gettime": "clock_gettime",
}


def find_interpreter(pid: int, memory: RemoteMemory, mappings: list[Mapping], executable: str) -> Interpreter:
    """The interpreter of ``pid``. Raises the TargetError that gives the reason there is none heaptop may enter."""
    found = images(memory, mappings)
    python = defining_image(found)
    if python is None:
        _check_architecture(pid, found)
        raise _why_no_python(pid, found, executable)
    version = read_version(python, memory)
    if not version.supported:
        raise UnsupportedPython(
            f"Process {pid} runs Python {version}.",
            why=f"heaptop attaches to CPython {layout.SUPPORTED}. {UnsupportedPython.why}",
        )
    runtime = python.lookup("_PyRuntime") or 0
    found = [image for image in found if image.runs]
    _check_one_libc(pid, found)
    musl = not any(defines(image, ONLY_GLIBC) for image in _libc_images(found))
    syscall_instruction, restorer = _instructions(pid, _libc_symbol(pid, found, SYSTEM_CALL), memory, mappings)
    return Interpreter(
        path=printable(python.path, LONGEST),
        version=version,
        free_threaded=is_free_threaded(memory, runtime, version),
        functions=_functions(pid, python, version, found),
        add_pending_call=_required(pid, python, "Py_AddPendingCall"),
        syscall_instruction=syscall_instruction,
        restorer=restorer,
        runtime=runtime,
        musl=musl,
        core_again=_cores(found),
    )


def _check_architecture(pid: int, found: list[ElfImage]) -> None:
    """Without an interpreter that heaptop can read, one of another machine (under qemu, say) is the likely reason."""
    for image in found:
        if image.machine != MACHINE.elf_machine or image.elf_class != ELFCLASS64:
            width = 64 if image.elf_class == ELFCLASS64 else 32
            raise UnsupportedArchitecture(f"Process {pid} is a {width}-bit {machine_name(image.machine)} program.")


def defining_image(found: list[ElfImage]) -> ElfImage | None:
    """The interpreter's."""
    for image in found:
        if image.runs and all(defines(image, name) for name in DEFINING):
            return image
    return None


def defines(image: ElfImage, name: str) -> bool:
    """Whether a file that may be any at all has the symbol; one whose tables lie outside memory has none."""
    try:
        return image.lookup(name) is not None
    except RemoteFault:
        return False


def _why_no_python(pid: int, found: list[ElfImage], executable: str) -> NotPython | PyPyTarget | PyInstallerBootloader:
    if any(defines(image, layout.PYPY_MARKER) for image in found):
        return PyPyTarget(f"Process {pid} runs PyPy, not CPython.")
    if has_pyinstaller_archive(f"/proc/{pid}/exe"):
        children = process.children(pid)
        fix = f"Attach to the child: `heaptop attach {children[0]}`." if len(children) == 1 else None
        return PyInstallerBootloader(f"Process {pid} is the loader of a PyInstaller program.", fix=fix)
    process.read_facts(pid)  # gone: its own error is the better one
    name = os.path.basename(executable) or "it"
    return NotPython(f"Process {pid} ({name}) is not a Python process.")


def has_pyinstaller_archive(path: str) -> bool:
    """Whether the executable carries PyInstaller's archive: its cookie is in the last 64 KiB."""
    try:
        with target_files.opened(path) as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 0x10000))
            return PYINSTALLER_MAGIC in file.read()
    except OSError:
        return False


def read_version(python: ElfImage, memory: ReadableMemory) -> PythonVersion:
    """From ``Py_Version`` (3.11 and later), else from the newest symbol that is there."""
    word = python.lookup("Py_Version")
    if word is not None:
        return PythonVersion.from_hex(memory.u64(word))
    newest_first = [(version, layout.VERSIONS[version].marker) for version in sorted(layout.VERSIONS, reverse=True)]
    for version, symbol in [*newest_first, *layout.OLDER_MARKERS.items()]:
        if symbol and python.lookup(symbol) is not None:
            return PythonVersion(*version)
    return PythonVersion(3, 5)


def is_free_threaded(memory: ReadableMemory, runtime: int, version: PythonVersion) -> bool:
    """``_Py_DebugOffsets.free_threaded``; no version without these offsets has such builds."""
    if not version.facts.debug_offsets or not runtime:
        return False
    try:
        return memory.read(runtime, 8) == layout.DEBUG_OFFSETS_COOKIE and memory.u64(runtime + 16) != 0
    except RemoteFault:
        return False


def _functions(pid: int, python: ElfImage, version: PythonVersion, found: list[ElfImage]) -> dict[str, int]:
    symbols = PARAMS_SYMBOLS | ({} if version.facts.fresh_locks else THREAD_STATE_SYMBOLS)
    functions = {field: _required(pid, python, symbol) for field, symbol in symbols.items()}
    finalizing = [python.lookup(symbol) for symbol in layout.FINALIZING_SYMBOLS]
    functions["is_finalizing"] = next((address for address in finalizing if address), 0)
    functions["enter_tracing"] = python.lookup(ENTER_TRACING) or 0
    functions |= {field: _libc_symbol(pid, found, symbol) for field, symbol in LIBC_SYMBOLS.items()}
    return functions


def _required(pid: int, image: ElfImage, symbol: str) -> int:
    address = image.lookup(symbol)
    if address is None:
        raise InjectionDenied(
            f"The interpreter of process {pid} does not export {symbol}.",
            why="It was built without the C API that heaptop calls.",
        )
    return address


def _check_one_libc(pid: int, found: list[ElfImage]) -> None:
    """A thread that one C library has made is none of the other's: a call of the wrong one ends in a crash."""
    number = sum(defines(image, SYSTEM_CALL) for image in _libc_images(found))
    if number > 1:
        raise InjectionDenied(
            f"Process {pid} has loaded {number} C libraries.",
            why="dlmopen or LD_AUDIT loaded them, and heaptop cannot tell which one Python uses.",
        )


def _libc_symbol(pid: int, found: list[ElfImage], symbol: str) -> int:
    for image in _libc_images(found):
        address = image.lookup(symbol)
        if address is not None:
            return address
    raise InjectionDenied(
        f"Process {pid} has no C library that defines {symbol}.",
        why="heaptop starts one thread through glibc or musl, and this process loads neither.",
    )


def _libc_images(found: list[ElfImage]) -> list[ElfImage]:
    """By file name, because a preloaded library may interpose pthread functions."""
    return [image for image in found if os.path.basename(image.path).startswith(LIBC_FILES)]


def _cores(found: list[ElfImage]) -> dict[str, int]:
    """What the program may have put there itself is called in its own process, by a thread under its own filter."""
    cores = ((CORE_FILE.match(image.path), image) for image in found)
    named = ((match[1], image) for match, image in cores if match and defines(image, CORE_AGAIN))
    return {build: image.lookup(CORE_AGAIN) or 0 for build, image in named}


def _instructions(pid: int, function: int, memory: RemoteMemory, mappings: list[Mapping]) -> tuple[int, int]:
    """Addresses in libc's code, where ``function`` (its ``syscall``) is: of a system call, and of an rt_sigreturn."""
    start, end = next(((each.start, each.end) for each in mappings if each.start <= function < each.end), (0, 0))
    start = max(start, function - LARGEST_CODE // 2)
    try:
        code = memory.read(start, min(end - start, LARGEST_CODE))
    except RemoteFault:
        code = b""
    at = _find(code, MACHINE.syscall_and_return)
    if at < 0:
        at = _find(code[: function - start + 64], MACHINE.syscall_instruction, function - start)
    if at < 0:
        raise InjectionDenied(
            f"No system call instruction was found in the libc of process {pid}.",
            why="heaptop does not know this build of libc.",
        )
    instruction = start + at
    if MACHINE.restorer_in:
        start, end = next(((each.start, each.end) for each in mappings if each.path == MACHINE.restorer_in), (0, 0))
        try:
            code = memory.read(start, end - start)
        except RemoteFault:
            code = b""
    restorer = _find(code, MACHINE.restorer)
    return instruction, start + restorer if restorer >= 0 else 0


def _find(code: bytes, wanted: bytes, at: int = 0) -> int:
    """Where an instruction is; -1 where there is none."""
    while (at := code.find(wanted, at)) % MACHINE.alignment and at >= 0:
        at += 1
    return at
