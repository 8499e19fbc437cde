"""The two mappings heaptop keeps in a target, and the request block they share.

::

    base + 0x0000  r-x  MAGIC, give_back, routines of stub.S       (code, 1 page, here of 4 KiB)
    base + 0x1000  rw-  Params, then the bootstrap text            (data, 8 KiB)
    base + 0x3000  rw-  Journal: descriptors made in the target    (4 KiB)
    base + 0x4000  rw-  private stack of remote calls, grows down  (32 KiB, top at base + 0xC000, with a signal frame)

Both stay after a detach and are reused by the next attach: unmapping them while a queued pending call still points
there kills the target. This module never touches a process; it only knows the layout.

A request's life, in ``Params.claim`` and ``Params.state``::

    claim 0 armed ──start──► 1 claimed          claim 0 ──cancel──► 2 taken back (descriptor closed)
    state 0 ─► 1 native thread runs ─► 2 in Python ─► 3 finished
                                   ├─► 4 refused (cancelled, or the interpreter is not running)
                                   └──cancel──► 5 withdrawn (descriptor closed) ─► 4
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import ClassVar, Final

from heaptop.injector.entry import stub_code, stub_code_aarch64
from heaptop.injector.inspect.memory import PAGE
from heaptop.injector.machine import MACHINE

_code = stub_code_aarch64 if MACHINE.name == "aarch64" else stub_code
CODE: Final[bytes] = _code.CODE
OFFSETS: Final[dict[str, int]] = _code.OFFSETS

MAGIC: Final = CODE[:16]
"""Names the stub and its version: pages of another version are left alone."""

DATA_OFFSET: Final = PAGE
STACK_TOP: Final = DATA_OFFSET + 0xB000
TOTAL_SIZE: Final = -(-STACK_TOP // PAGE) * PAGE
BOOTSTRAP_OFFSET: Final = 376
BOOTSTRAP_ROOM: Final = 0x2000 - BOOTSTRAP_OFFSET
JOURNAL_OFFSET: Final = DATA_OFFSET + 0x2000

ARMED, CLAIMED, TAKEN_BACK = 0, 1, 2
IDLE, STARTED, IN_PYTHON, FINISHED, REFUSED, WITHDRAWN = range(6)


class Params(ctypes.LittleEndianStructure):
    """The request block at ``base + DATA_OFFSET``; stub.S names the same offsets, and a test compares them."""

    # addresses of functions in the target
    is_initialized: int
    is_finalizing: int
    ensure: int
    release: int
    dict_new: int
    compile_string: int
    dec_ref: int
    err_clear: int
    pthread_self: int
    pthread_detach: int
    pthread_create: int
    thread_main: int
    # progress, written by both sides
    claim: int
    state: int
    cancelled: int
    create_rc: int
    """What pthread_create returned: 0, or an errno."""
    pending_ran: int
    queued: int
    """Pending calls the target has accepted; larger than ``pending_ran`` while one is still queued."""
    pthread: int
    # who attached: a second heaptop reports it
    owner_pid: int
    owner_start: int
    owner_namespace: int
    # the session
    fd: int
    outcome: int
    """1 when the bootstrap did not even start (no memory)."""
    tid: int
    pid: int
    gilstate: int
    has_state: int
    """1 once the native thread has its thread state, or needs none for a fork to be safe."""
    namespace: int
    name: bytes
    """The native thread's name, at most 15 bytes."""
    eval_code: int
    get_builtins: int
    set_item: int
    compiled: int
    save_thread: int
    restore_thread: int
    attr_init: int
    attr_setstacksize: int
    attr_destroy: int
    stack_size: int
    """Of the agent's thread, in bytes."""
    main_interpreter: int
    new_state: int
    """PyThreadState_New, up to 3.11; else 0. A child forked while PyGILState_Ensure makes a thread state would hang."""
    clock_gettime: int
    # times by CLOCK_MONOTONIC, each a struct timespec; 0 where it has not come to that
    pending_from: Sequence[int]
    """When the pending call began that has started the native thread."""
    gil_from: Sequence[int]
    """When the native thread got the GIL."""
    pending_to: Sequence[int]
    """When the pending call had waited for the native thread, and wanted the GIL back."""
    core_again: int
    """heaptop_core_again of a native core that an earlier session has left; 0 where the agent finds that itself."""
    state_get: int
    enter_tracing: int
    """PyThreadState_EnterTracing, from 3.11 on; else 0. Without it the program's trace, profile and monitoring
    functions are called on the agent's thread."""

    _fields_: ClassVar = [
        *(
            (name, ctypes.c_uint64)
            for name in (
                "is_initialized",
                "is_finalizing",
                "ensure",
                "release",
                "dict_new",
                "compile_string",
                "dec_ref",
                "err_clear",
                "pthread_self",
                "pthread_detach",
                "pthread_create",
                "thread_main",
            )
        ),
        *(
            (name, ctypes.c_int32)
            for name in (
                "claim",
                "state",
                "cancelled",
                "create_rc",
                "pending_ran",
                "queued",
            )
        ),
        *((name, ctypes.c_uint64) for name in ("pthread", "owner_pid", "owner_start", "owner_namespace")),
        *((name, ctypes.c_int32) for name in ("fd", "outcome", "tid", "pid", "gilstate", "has_state")),
        ("namespace", ctypes.c_uint64),
        ("name", ctypes.c_char * 16),
        *((name, ctypes.c_uint64) for name in ("eval_code", "get_builtins", "set_item", "compiled")),
        *((name, ctypes.c_uint64) for name in ("save_thread", "restore_thread")),
        *((name, ctypes.c_uint64) for name in ("attr_init", "attr_setstacksize", "attr_destroy", "stack_size")),
        *((name, ctypes.c_uint64) for name in ("main_interpreter", "new_state", "clock_gettime")),
        *((name, ctypes.c_uint64 * 2) for name in ("pending_from", "gil_from", "pending_to")),
        *((name, ctypes.c_uint64) for name in ("core_again", "state_get", "enter_tracing")),
    ]

    @property
    def pending_ns(self) -> int:
        """For how long the pending call has kept the main thread until the agent's had the GIL, or it gave up waiting
        for that; 0 where a blocked thread has started it. Up to 3.11 it holds the GIL meanwhile, or most of it."""
        began, got, left = (
            seconds * 10**9 + nanoseconds
            for seconds, nanoseconds in (self.pending_from, self.gil_from, self.pending_to)
        )
        ends = [end for end in (got, left) if end > began]
        return min(ends) - began if began and ends else 0

    @classmethod
    def offset(cls, name: str) -> int:
        """Byte offset of a field in the block."""
        return int(getattr(cls, name).offset)


class Journal(ctypes.LittleEndianStructure):
    """At ``base + JOURNAL_OFFSET``: the descriptors made in the target, which the next attach closes should they still
    be open after a kill -9 of the helper. Never erased: another file under the number has another inode."""

    pair: list[int]
    """Where socketpair(2) writes."""
    first_fd: int
    first_inode: int
    second_fd: int
    second_inode: int
    moved_fd: int
    """A copy of the second one, in a place where nobody counts on the number; negative when there is none."""
    moved_inode: int
    stat: bytes
    """Where fstat(2) writes."""

    _fields_: ClassVar = [
        ("pair", ctypes.c_int32 * 2),
        *((f"{name}_{part}", ctypes.c_int64) for name in ("first", "second", "moved") for part in ("fd", "inode")),
        ("stat", ctypes.c_char * 144),
    ]

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Descriptors with their inodes."""
        return [
            (self.first_fd, self.first_inode),
            (self.second_fd, self.second_inode),
            (self.moved_fd, self.moved_inode),
        ]
