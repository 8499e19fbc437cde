"""What heaptop sends into a target: the first lines it runs there, and the agent itself.

This package never runs in heaptop; :mod:`heaptop.injector.agent.controller` is only ever read as text.

Two stages, so that what must be written into foreign memory stays small::

    injector writes   bootstrap(fd, token, …)     ► run in a private dict, on a native thread
    bootstrap writes  heaptop <token> <pid> <version>\\n
    heaptop sends     frame_source(source())      the agent in pieces: 4 bytes big-endian length, then text
    bootstrap runs    the first two pieces        they have the loader of the others; it rests after each
    agent runs        each of the others          gives the GIL back in between, and a length of 0 ends them
    agent sends       Hello, and the session goes on in frames
    agent sends       Bye when it can; the bootstrap then drops the agent's dict and closes fd, last of all
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

MAX_SOURCE: Final = 1 << 22
"""Bytes of agent source that the bootstrap accepts."""

MAX_PIECE: Final = 600
"""Nodes of the syntax tree of a piece: one takes 1.5 µs, and the GIL is held for as long as a piece takes."""
LOADER: Final = ("hold_ends", "check_socket")
"""The functions that end the first two pieces, which together load the others."""

MAX_BOOTSTRAP: Final = 2048
"""Bytes of bootstrap, with its final NUL, that the injector has to find room for."""

# exec() of the text, not compile(): that would make the 120 classes of _ast in the target, for good.
# It blocks all signals but the synchronous ones (blocked, the kernel would reset their handlers) and those that
# valid_signals() leaves out (glibc's own, which setuid needs). A forked child has a copy of a queued call: it
# sees another pid, and does nothing. It defines no function: one would hold its
# globals, and they it. From 3.12 on a fork warns of our thread, where it is the only other: E, first in the list
# F of filters, keeps that quiet until the agent's own filter comes, and again after that has gone. (A fork that
# warned before that may be importing warnings just now: its module has no filters yet.) Nothing before
# it lets go of the GIL. The token is bytes: a str constant that looks like a name is interned, on 3.12 for ever.
_BOOTSTRAP: Final = """\
try:
    import posix as P,sys as S,_signal as G
    if P.getpid()=={pid}:
        N={{}};F=[];E=None
        try:
            if S.version_info>(3,12):
                F=getattr(S.modules.get("warnings"),"filters",None)
                if type(F)is not list:F=__import__("_warnings").filters
                E=("ignore","{warning}",DeprecationWarning,None,0)
                F.insert(0,E)
            if P.fstat({fd})[1]=={inode}:
                G.pthread_sigmask(G.SIG_BLOCK,G.valid_signals().difference((4,5,7,8,11)))
                P.write({fd},b"heaptop {token} {pid} %d.%d.%d\\n"%S.version_info[:3])
                N.update(__name__="heaptop_agent",BOOT=globals())
                for I in(1,2):
                    A=b""
                    L=4
                    while len(A)<L:
                        D=P.read({fd},L-len(A))
                        if not D:break
                        A+=D
                        if L==4 and len(A)==4:
                            L=int.from_bytes(A,"big");A=b""
                            if not 4<L<{limit}:break
                    else:
                        exec(A,N)
                        G.sigtimedwait((),.0003)
                        continue
                    break
                else:
                    N["main"]({fd},b"{token}".decode())
        finally:
            N.clear()
            try:
                if P.fstat({fd})[1]=={inode}:P.close({fd})
            except OSError:pass
            for I in range(len(F)-1,-1,-1):
                if F[I] is E:del F[I]
except BaseException:pass
"""


_WARNING: Final = "This process (pid={pid}) is multi-threaded, use of fork() may lead to deadlocks in the child."
"""As posixmodule.c says it; a filter whose message is a plain str must match all of it."""


def bootstrap(fd: int, token: str, pid: int, inode: int) -> str:
    """The source that starts an agent: ASCII, no NUL, shorter than :data:`MAX_BOOTSTRAP`.

    ``fd`` is the target's end of the socket, ``inode`` what tells it from another file that has come under its
    number, when the target closed all that it did not know; ``pid`` is the target's in its own pid namespace;
    ``token`` comes back in the first line, 1 to 64 letters, digits, ``-`` or ``_`` (else ValueError).
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", token):
        raise ValueError(f"not a token: {token!r}")
    warning = _WARNING.format(pid=int(pid))
    return _BOOTSTRAP.format(fd=int(fd), token=token, pid=int(pid), inode=int(inode), limit=MAX_SOURCE, warning=warning)


def greeting(token: str, pid: int) -> bytes:
    """How the bootstrap's first line begins; the version (``3.11.7``) and a newline follow."""
    return f"heaptop {token} {pid} ".encode("ascii")


@cache
def source() -> str:
    """The agent, as text for every Python from 3.8 to 3.15."""
    return Path(__file__).with_name("controller.py").read_text(encoding="utf-8")


@cache
def pieces(text: str) -> tuple[str, ...]:
    """The agent's text in pieces, each of whole statements: the first two have what loads the others."""
    lines, tree = text.splitlines(keepends=True), ast.parse(text)
    found: list[str] = []
    begin = end = nodes = 0
    for statement in tree.body:
        size = sum(1 for _ in ast.walk(statement))
        assert statement.end_lineno is not None
        if found and nodes + size > MAX_PIECE:
            found.append("".join(lines[begin:end]))
            begin, nodes = end, 0
        nodes, end = nodes + size, statement.end_lineno
        if isinstance(statement, ast.FunctionDef) and statement.name in LOADER:
            found.append("".join(lines[begin:end]))
            begin, nodes = end, 0
    return (*found, "".join(lines[begin:]))


def frame_source(text: str) -> bytes:
    """``text`` as the bootstrap and the agent's loader read it: each piece as 4 bytes big-endian length, then
    UTF-8; a length of 0 at the end."""
    framed = bytearray()
    for piece in (*pieces(text), ""):
        data = piece.encode("utf-8")
        framed += len(data).to_bytes(4, "big") + data
    return bytes(framed)
