"""What is done inside a stopped thread of the target: the pages, the channel, the two triggers, the taking back.

Every step is one or a few system calls or one call into the stub; each leaves the thread as it was. Runs in the
helper process only. The drawing of the pages is in :mod:`heaptop.injector.entry.stub`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import select
import socket
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heaptop import __version__
from heaptop.credentials import acting_as
from heaptop.errors import InjectionDenied, InjectionFailed, SeccompTarget, TransportFailed
from heaptop.injector.entry import allowed_calls, stub
from heaptop.injector.entry.allowed_calls import (
    CLOSE,
    MMAP,
    MPROTECT,
    MUNMAP,
    PRIVATE_ANONYMOUS,
    READ_WRITE,
    SOCKET,
    Routine,
)
from heaptop.injector.entry.plan import AttachPlan
from heaptop.injector.entry.ptrace import CallStillRunning, ForbiddenCall, RemoteSignal, StoppedThread, StopTimeout
from heaptop.injector.entry.seccomp import Program
from heaptop.injector.entry.stub import OFFSETS, Journal, Params
from heaptop.injector.inspect import proc
from heaptop.injector.inspect.links import ready
from heaptop.injector.inspect.memory import PAGE, Mapping, RemoteFault, RemoteMemory, mapping_at, read_mappings
from heaptop.injector.inspect.threads import robust_list, thread_ids
from heaptop.injector.machine import MACHINE

CONNECT: Final = MACHINE.calls["connect"]
DESCRIPTOR: Final = 0x1000
"""Room for glibc's struct pthread: 0x900 in 2.36."""
NO_DESCRIPTOR: Final = 0xFFFFFFFF
"""-1, as the stub is given it: closing that harms nobody."""
PIDFD_GETFD: Final = 438
PIDFD_OPEN: Final = 434
PIDFD_THREAD: Final = os.O_EXCL
PRIVATE_EXPEDITED: Final = 8
"""The command of membarrier(2), and its bit in the kernel's list of commands."""
READ_EXECUTE: Final = 5
UNIX_STREAM_CLOEXEC: Final = (socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
CALL_TIMEOUT: Final = 5.0
"""For a remote call; pthread_create may wait for malloc's lock, which a running thread soon gives back."""

_libc = ctypes.CDLL(None, use_errno=True)
Link = socket.socket


@dataclass(frozen=True, slots=True)
class RemoteMappings:
    """heaptop's mappings in a target."""

    base: int

    @property
    def params(self) -> int:
        return self.base + stub.DATA_OFFSET

    @property
    def journal(self) -> int:
        return self.base + stub.JOURNAL_OFFSET

    @property
    def bootstrap(self) -> int:
        return self.params + stub.BOOTSTRAP_OFFSET

    def routine(self, name: str) -> int:
        return self.base + OFFSETS[name]

    def read_params(self, memory: RemoteMemory) -> Params:
        return Params.from_buffer_copy(memory.read(self.params, ctypes.sizeof(Params)))

    def write_field(self, memory: RemoteMemory, name: str, value: int) -> None:
        field_size = getattr(Params, name).size
        value %= 1 << 8 * field_size  # it may be one more than what the target wrote there
        memory.write(self.params + Params.offset(name), value.to_bytes(field_size, "little"))


def find_pages(memory: RemoteMemory, mappings: list[Mapping]) -> RemoteMappings | None:
    """The pages an earlier attach left, if they are of this version of the stub; None when there are none.

    One page of each mapping is examined, its last: the kernel may join our code to executable memory below it, never
    to our data, which follows. A target with many mappings would hold up an attach otherwise.
    """
    for mapping in mappings:
        if mapping.permissions != "r-xp" or mapping.path:
            continue
        try:
            pages = RemoteMappings(mapping.end - PAGE)
            if memory.read(pages.base, len(stub.MAGIC)) != stub.MAGIC:
                continue
            if pages.read_params(memory).thread_main == pages.routine("thread_main"):
                return pages
        except RemoteFault:
            continue
    return None


@dataclass(frozen=True, slots=True)
class HijackedThread:
    """A stopped thread of the target, and what it takes to act in it."""

    thread: StoppedThread
    memory: RemoteMemory
    plan: AttachPlan
    filters: Sequence[Program] = ()
    """The thread's seccomp filters, where they may be suspended: only for what they forbid."""

    def syscall(self, number: int, *arguments: int) -> int:
        try:
            gate = allowed_calls.gate_of_one(self.filters, number, arguments)
        except ValueError as error:
            raise SeccompTarget(
                f"The seccomp filter of process {self.plan.pid} kills it for a call of the attach: {error}."
            ) from None
        return self.thread.syscall(self.plan.syscall_instruction, number, *arguments, gate=gate)

    def shelter(self, pages: RemoteMappings | None) -> None:
        """Have the thread find its way back alone should this process be killed: by our pages, or by its own stack.

        Its stack may not do, where the thread is at its end or on another one: then the two calls that map the pages
        are made without, and until they have returned a kill -9 of this process is the target's as well.
        """
        if pages is not None:
            self.thread.shelter(pages.base + stub.STACK_TOP, pages.routine("give_back"))
        elif self.plan.restorer and is_own_stack(self.plan, self.thread):
            with contextlib.suppress(RemoteFault):
                self.thread.shelter(self.thread.registers.stack - MACHINE.red_zone, self.plan.restorer)

    def checked(self, what: str, number: int, *arguments: int) -> int:
        """A system call that must work. Raises InjectionDenied with the kernel's reason."""
        result = self.syscall(number, *arguments)
        if -4096 < result < 0:
            raise InjectionDenied(f"The target's kernel refused {what}: {os.strerror(-result)}.")
        return result

    def call(self, function: int, *arguments: int, routine: Routine) -> int:
        """Call a C function on the private stack; its int, as unsigned. After :meth:`shelter` in the pages."""
        gate = routine.gate(self.filters, lambda: read_mappings(self.plan.pid, self.plan.live_tid))
        result = self.thread.call(
            function,
            *arguments,
            timeout=CALL_TIMEOUT,
            starts_thread=routine.starts_thread,
            locked_from=routine.locked_from,
            gate=gate,
        )
        return result & 0xFFFFFFFF


def is_own_stack(plan: AttachPlan, thread: StoppedThread) -> bool:
    """Whether there is room for a frame below the thread's stack pointer that nothing else uses.

    The main thread's stack is named; another's has its control block at the top, in the same mapping (glibc,
    nptl/allocatestack.c). An alternate signal stack is neither, and what lies below that is somebody's.
    """
    high, pointer = thread.registers.stack, thread.registers.thread_pointer
    mapping = mapping_at(high, plan.pid, plan.live_tid)
    if mapping is None or high - MACHINE.red_zone - MACHINE.frame_room < mapping.start:
        return False
    own = mapping.path == "[stack]" or pointer in range(mapping.start, mapping.end)
    return own and mapping.permissions.startswith("rw")


class ForeignThread(Exception):
    """The C library has not made the thread. Another one may do; where there is none, ``error`` is raised."""

    def __init__(self, error: InjectionDenied) -> None:
        super().__init__(str(error))
        self.error = error


def check_thread_pointer(inside: HijackedThread) -> None:
    """Raise ForeignThread where the C library has not made the thread: a function of it that is called there crashes,
    perhaps with a lock held. Of its own threads the thread pointer leads to itself (System V ABI for x86-64, TLS), or
    to the end of the descriptor, which has the head of the thread's own list of robust locks (glibc on aarch64)."""
    pointer = inside.thread.registers.thread_pointer
    try:
        if MACHINE.descriptor_is_below:
            is_own = robust_list(inside.thread.tid) in range(pointer - DESCRIPTOR, pointer)
        else:
            is_own = inside.memory.u64(pointer) == pointer
            is_own = is_own and not _is_of_another(pointer, inside.thread.tid, inside.plan.pid)
        if is_own:
            return
    except RemoteFault:
        pass
    raise ForeignThread(
        InjectionDenied(
            f"Thread {inside.thread.tid} of process {inside.plan.pid} has no thread pointer of the C library.",
            why="heaptop calls functions there that need one. Translators such as valgrind run programs without "
            "one, and some libraries make such threads.",
        )
    )


def _is_of_another(pointer: int, tid: int, pid: int) -> bool:
    """Whether a thread has another one's pointer, as it was made without its own (clone without CLONE_SETTLS)."""
    descriptor = range(pointer, pointer + DESCRIPTOR)
    if robust_list(tid) in descriptor:
        return False
    return any(robust_list(other) in descriptor for other in thread_ids(pid))


def map_pages(inside: HijackedThread) -> RemoteMappings:
    """Make both mappings. Raises InjectionDenied where executable memory is forbidden.

    What is executable is so from the beginning, and never writable: whatever the target wrote there meanwhile would be
    code that its filter may forbid. So it is the tracer that writes it.
    """
    inside.shelter(None)
    base = inside.checked("mmap(PROT_EXEC)", MMAP, 0, stub.TOTAL_SIZE, READ_EXECUTE, PRIVATE_ANONYMOUS, -1, 0)
    pages = RemoteMappings(base)
    try:
        inside.checked("mprotect", MPROTECT, pages.params, stub.TOTAL_SIZE - stub.DATA_OFFSET, READ_WRITE)
    except InjectionDenied:
        inside.syscall(MUNMAP, base, stub.TOTAL_SIZE)
        raise
    inside.thread.poke(base, stub.CODE)
    inside.memory.write(pages.params, bytes(Params(claim=stub.TAKEN_BACK, thread_main=pages.routine("thread_main"))))
    inside.shelter(pages)
    return pages


@dataclass(slots=True)
class Channel:
    """Both ends of the session's socket: ours, and the descriptor's number in the target."""

    ours: Link
    theirs: int
    inode: int
    """Of the target's end: distinguishes it from what the target may have under that number later."""


def open_channel(inside: HijackedThread, pages: RemoteMappings) -> Channel:
    """A socketpair made in the target, of which one end is taken out; else a socket in its file system.

    The end that stays has a number from 60 up if there is room: a program may count on getting the lowest free one
    (``close(0)``, then ``open``), and what it writes to a closed 1 or 2 must not come to us.
    """
    code = inside.call(pages.routine("open_pair"), pages.journal, routine=allowed_calls.OPEN_PAIR)
    if code:
        raise InjectionDenied(f"The target's kernel refused socketpair: {os.strerror(-ctypes.c_int32(code).value)}.")
    journal = read_journal(inside, pages)
    try:
        ours = take_link(inside.plan.pid, journal.first_fd, inside.plan.live_tid)
    except OSError as error:
        sweep(inside, pages)
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
            raise TransportFailed(
                f"Descriptor {journal.first_fd} of process {inside.plan.pid} could not be copied: {error}."
            ) from None
        return _connect_by_path(inside, pages)
    inside.syscall(CLOSE, journal.first_fd)
    theirs = journal.second_fd
    if journal.moved_fd >= 0:
        inside.syscall(CLOSE, theirs)
        theirs = journal.moved_fd
    if peer_pid(ours) != inside.plan.pid:  # the journal is in the target's memory: it may name any socket it has
        ours.close()
        raise TransportFailed(f"The descriptors in process {inside.plan.pid} are not the socket pair that was created.")
    sign(ours)
    return _channel(inside, ours, theirs)


def read_journal(inside: HijackedThread, pages: RemoteMappings) -> Journal:
    return Journal.from_buffer_copy(inside.memory.read(pages.journal, ctypes.sizeof(Journal)))


def sweep(inside: HijackedThread, pages: RemoteMappings) -> None:
    """Close what the journal names and is still open. Only while no agent lives."""
    for descriptor, inode in read_journal(inside, pages).entries:
        if inode and socket_inode(inside.plan.live_tid, descriptor) == inode:
            inside.syscall(CLOSE, descriptor)


def _channel(inside: HijackedThread, ours: Link, theirs: int) -> Channel:
    inode = socket_inode(inside.plan.live_tid, theirs)
    if inode is None:
        ours.close()
        raise TransportFailed(f"Process {inside.plan.pid} closed the agent's socket at once.")
    return Channel(ours, theirs, inode)


def socket_inode(pid: int, number: int) -> int | None:
    """The inode of the socket that is descriptor ``number`` of a process or thread; None when it is none."""
    try:
        name = os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:
        return None
    return int(name[8:-1]) if name.startswith("socket:[") else None


def take_descriptor(pid: int, number: int, live_tid: int | None = None) -> int:
    """A copy in this process of the target's descriptor ``number`` (pidfd_getfd(2), Linux 5.6). Raises OSError."""
    if live_tid is None or live_tid == pid:
        pidfd = os.pidfd_open(pid)
    else:
        # The leader has exited: only a thread's pidfd leads to the files (Linux 6.9).
        pidfd = _system_call(PIDFD_OPEN, live_tid, PIDFD_THREAD)
    try:
        return _system_call(PIDFD_GETFD, pidfd, number, 0)
    finally:
        os.close(pidfd)


def take_link(pid: int, number: int, live_tid: int | None = None) -> Link:
    """As :func:`take_descriptor`, of what must be a Unix stream socket. Raises OSError."""
    descriptor = take_descriptor(pid, number, live_tid)
    try:
        link = Link(fileno=descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    if (link.family, link.type) != (socket.AF_UNIX, socket.SOCK_STREAM):
        link.close()
        raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
    return link


def peer_pid(link: Link) -> int:
    """The process that made or accepted the other end of a Unix socket (SO_PEERCRED); 0 where it cannot be seen."""
    return int(struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


def peer_uid(link: Link) -> int:
    """The user that listened or connected at the other end of a Unix socket (SO_PEERCRED)."""
    return int(struct.unpack("3I", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])


PEER_NAME: Final = b"\0heaptop-agent-"
"""Our end's abstract address begins so. It marks an agent's socket, not the program's own, with every backend."""
_PEER_VERSION: Final = re.compile(rb"\0heaptop-agent-([0-9][0-9A-Za-z.+]{0,30})-[0-9a-f]{16}")


def sign(link: Link) -> None:
    """Name our end of a session's socket, for :func:`agent_state`. One that came through a listener has its path."""
    with contextlib.suppress(OSError):
        if not link.getsockname():
            link.bind(PEER_NAME + f"{__version__}-{os.urandom(8).hex()}".encode())


def is_signed(link: Link) -> bool:
    """Whether the other end of a copy of the target's socket is, or was, a heaptop's, by its name."""
    try:
        name = link.getpeername()
    except OSError:
        return False
    path = name if isinstance(name, bytes) else os.fsencode(name)
    return path.startswith(PEER_NAME) or bool(re.search(rb"/heaptop-[0-9]+-[0-9a-f]+\.sock$", path))


def holder_version(pid: int, number: int, live_tid: int | None = None) -> str:
    """The version of the heaptop that holds an agent, by its name; empty where it has none, as with PEP 768."""
    with contextlib.suppress(OSError), take_link(pid, number, live_tid) as copy:
        name = copy.getpeername()
        if isinstance(name, bytes) and (found := _PEER_VERSION.fullmatch(name)):
            return found[1].decode()
    return ""


def agent_state(pid: int, number: int, live_tid: int | None = None) -> str:
    """What is behind descriptor ``number``, which marks a thread as an agent's.

    ``held`` by a heaptop; ``left`` by one that is gone; ``closed``, as in the last moment of an agent; ``other`` when
    it is no heaptop's; ``unknown`` when it cannot be seen.
    """
    try:
        with take_link(pid, number, live_tid) as copy:
            if not is_signed(copy):
                return "other"
            poll = select.poll()
            poll.register(copy, select.POLLRDHUP)
            return "left" if poll.poll(0) else "held"
    except OSError as error:
        known = {errno.EBADF: "closed", errno.ESRCH: "closed", errno.ENOTSOCK: "other"}
        return known.get(error.errno or 0, "unknown")


def has_hung_up(pid: int, number: int, live_tid: int | None = None) -> bool:
    """Whether the other end of the target's socket ``number`` is closed, or the descriptor itself is."""
    try:
        with take_link(pid, number, live_tid) as copy:
            poll = select.poll()
            poll.register(copy, select.POLLRDHUP)
            return bool(poll.poll(0))
    except OSError as error:
        return error.errno in (errno.EBADF, errno.ESRCH, errno.ENOTSOCK)


def _system_call(number: int, *arguments: int) -> int:
    ctypes.set_errno(0)
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def has_membarrier() -> bool:
    """Whether the kernel has the barrier that musl's dlopen makes when a library has thread variables (Linux 4.14)."""
    try:
        return bool(_system_call(allowed_calls.MEMBARRIER, 0, 0) & PRIVATE_EXPEDITED)
    except OSError:
        return False


SOCKET_FOLDERS: Final = ("/tmp", "/dev/shm", "/run", "/var/tmp")
OF_A_SERVER: Final = (
    *("9p", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "erofs", "fuse", "gfs2", "gpfs", "lustre", "nfs"),
    *("ocfs2", "orangefs", "smb3", "virtiofs"),
)
"""File systems, by the beginnings of their names, that may need a server, which need not answer: whoever waits for one
may hold a thread of the target. A daemon may fetch the contents of erofs (nydus)."""
BACKLOG: Final = 16
"""Connections that may wait; one process of the target's user must not keep the target from connecting."""
CONNECT_TIMEOUT: Final = 2.0


@dataclass(slots=True)
class Listener:
    """A listening socket in a folder of the target's file system. A context manager: unlinks and closes.

    The target may put anything at any name meanwhile, a bind mount included, and heaptop may be root. So the folder is
    held open, names are looked up in it alone, and everything at a name is done with the rights of the target's user:
    what is made there is that user's from the beginning, and nothing is opened or changed by name afterwards.
    """

    socket: Link
    folder: int
    name: str
    inside: str
    """The socket's path as the target sees it."""
    uid: int
    gid: int

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()
        self.unlink(self.name)
        os.close(self.folder)

    def unlink(self, name: str) -> None:
        """Remove a name in the folder, where the target's user may."""
        # Not there, a read-only file system, or a target that has gone.
        with contextlib.suppress(OSError), acting_as(self.uid, self.gid):
            os.unlink(name, dir_fd=self.folder)

    def listen(self) -> None:
        """For the target's user alone. Raises OSError."""
        mask = os.umask(0o177)
        try:
            with acting_as(self.uid, self.gid):
                self.socket.bind(f"/proc/self/fd/{self.folder}/{self.name}")
        finally:
            os.umask(mask)
        self.socket.listen(BACKLOG)
        self.socket.setblocking(False)

    def create(self, name: str) -> int:
        """A new file for the target's user alone, open for writing. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with acting_as(self.uid, self.gid):
            return os.open(name, flags, 0o600, dir_fd=self.folder)

    def accept(self, pid: int) -> Link:
        """A connection that has come, which ``pid`` must have made (SO_PEERCRED). Raises TransportFailed, OSError."""
        ours, _ = self.socket.accept()
        peer = peer_pid(ours)
        if peer != pid:
            ours.close()
            raise TransportFailed(f"Process {peer} connected in place of process {pid}.")
        return ours


def open_folder(pid: int, path: str, uid: int, gid: int) -> int:
    """A folder of the target's file system, reached with the rights of its user, without following any symbolic link,
    and without a question to a server but that of its root folder. Raises OSError."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    with acting_as(uid, gid):
        folder = os.open(f"/proc/{pid}/root", flags)
    for name in filter(None, path.split("/")):
        try:
            with acting_as(uid, gid):
                inner = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
        try:
            check_serverless(pid, folder)
        except OSError:
            os.close(folder)
            raise
    return folder


def check_serverless(pid: int, folder: int) -> None:
    """Raise OSError where a folder is on a file system OF_A_SERVER, by the lists of mounts, the target's and ours: one
    leaves out the mount that a chroot is on. With heaptop's own rights: before Linux 5.14 nobody else may read its
    ``fdinfo``."""
    mount = proc.text(f"/proc/self/fdinfo/{folder}").partition("\nmnt_id:")[2].split(maxsplit=1)[0]
    for line in f"{proc.text(f'/proc/{pid}/mountinfo')}\n{proc.text('/proc/self/mountinfo')}".splitlines():
        if line.split(" ", 1)[0] == mount and line.partition(" - ")[2].startswith(OF_A_SERVER):
            raise OSError(errno.EREMOTE, os.strerror(errno.EREMOTE))


def is_shared(folder: int) -> bool:
    """Whether others than its owner may remove what is in the folder."""
    mode = os.stat(folder).st_mode
    return bool(mode & (stat.S_IWGRP | stat.S_IWOTH)) and not mode & stat.S_ISVTX


def listen_in_target(pid: int, uid: int, gid: int) -> Listener:
    """Listen in the first folder of the target's file system that takes a socket of its user's. Raises
    TransportFailed."""
    name = f"heaptop-{os.getpid()}-{os.urandom(6).hex()}.sock"
    for path in SOCKET_FOLDERS:
        with contextlib.suppress(OSError), contextlib.ExitStack() as undo:
            folder = open_folder(pid, path, uid, gid)
            undo.callback(os.close, folder)
            if is_shared(folder):
                continue
            link = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            listener = Listener(link, folder, name, f"{path}/{name}", uid, gid)
            undo.callback(listener.unlink, name)
            listener.listen()
            undo.pop_all()
            return listener
    raise TransportFailed(f"No folder of process {pid} takes a socket ({', '.join(SOCKET_FOLDERS)}).")


def _connect_by_path(inside: HijackedThread, pages: RemoteMappings) -> Channel:
    """The way for kernels without pidfd_getfd: the hijacked thread itself connects, which never blocks here."""
    plan = inside.plan
    pid = plan.pid
    with listen_in_target(pid, plan.uid, plan.gid) as listener:
        theirs = inside.checked("socket", SOCKET, *UNIX_STREAM_CLOEXEC, 0)
        inode = socket_inode(inside.plan.live_tid, theirs)
        inside.memory.write(pages.journal, bytes(Journal(second_fd=theirs, second_inode=inode or 0)))
        address = struct.pack("<H", socket.AF_UNIX) + listener.inside.encode() + b"\0"
        inside.memory.write(pages.params, address)
        try:
            inside.checked("connect", CONNECT, theirs, pages.params, len(address))
            # Its connect has returned; whether it was to us is for the target's file system to decide.
            if not ready([listener.socket], CONNECT_TIMEOUT):
                raise TransportFailed("nobody connected")
            return _channel(inside, listener.accept(pid), theirs)
        except (OSError, InjectionDenied, TransportFailed) as error:
            inside.syscall(CLOSE, theirs)
            raise TransportFailed(f"Process {pid} could not be reached through {listener.inside}: {error}.") from None


def arm(memory: RemoteMemory, pages: RemoteMappings, params: Params, bootstrap: str) -> None:
    """Write the request; ``claim`` comes last, because a call still queued from before may run at any moment."""
    text = bootstrap.encode() + b"\0"
    if len(text) > stub.BOOTSTRAP_ROOM:
        raise InjectionFailed(f"The bootstrap has {len(text)} bytes, but only {stub.BOOTSTRAP_ROOM} fit.")
    params.claim = stub.TAKEN_BACK
    memory.write(pages.params, bytes(params))
    memory.write(pages.bootstrap, text)
    pages.write_field(memory, "claim", stub.ARMED)


def trigger(inside: HijackedThread, pages: RemoteMappings, how: str) -> None:
    """Start the native thread (``thread``), or have the main thread start it at its next safe point (``pending``).

    Raises InjectionFailed when the call crashed or did not return, ForbiddenCall when it went beyond what it may do.
    One that was let go starts the thread by itself.
    """
    pending = inside.plan.add_pending_call, pages.routine("start_pending"), pages.params
    try:
        if how == "thread":
            routine = allowed_calls.MUSL_START if inside.plan.musl else allowed_calls.START
            inside.call(pages.routine("start"), pages.params, routine=routine)
        elif inside.call(*pending, routine=allowed_calls.ADD_PENDING) == 0:
            pages.write_field(inside.memory, "queued", pages.read_params(inside.memory).queued + 1)
    except CallStillRunning:
        return
    except ForbiddenCall:
        if how == "thread":
            _abandon(inside, pages)
        raise
    except (RemoteSignal, StopTimeout) as error:
        if how == "thread":
            _abandon(inside, pages)
        raise InjectionFailed(f"The call into the target failed: {error}.") from None


def _abandon(inside: HijackedThread, pages: RemoteMappings) -> None:
    """After a ``start`` that did not return: nobody will finish what it claimed, and the next attach must not wait
    for that."""
    pages.write_field(inside.memory, "cancelled", 1)
    params = pages.read_params(inside.memory)
    if params.create_rc:  # it was closed there
        pages.write_field(inside.memory, "claim", stub.TAKEN_BACK)
    elif params.claim == stub.CLAIMED and params.state == stub.IDLE:
        pages.write_field(inside.memory, "fd", NO_DESCRIPTOR)
        inside.syscall(CLOSE, params.fd)
        pages.write_field(inside.memory, "claim", stub.TAKEN_BACK)


def withdraw_request(inside: HijackedThread, pages: RemoteMappings, inode: int) -> None:
    """Take an unclaimed request back, atomically, and close its descriptor; a claimed one is cancelled.

    ``inode`` is the descriptor's: the target may have closed it meanwhile, and have something of its own there.
    """
    params = pages.read_params(inside.memory)
    if socket_inode(inside.plan.live_tid, params.fd) != inode:
        pages.write_field(inside.memory, "fd", NO_DESCRIPTOR)
    elif params.state == stub.FINISHED:  # the bootstrap could not even begin, for want of memory
        inside.syscall(CLOSE, params.fd)
    inside.call(pages.routine("cancel"), pages.params, routine=allowed_calls.CANCEL)
