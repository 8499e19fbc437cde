"""What heaptop sends into a target: the first lines it runs there, and the agent itself.

The agent answers heaptop's requests over one socket, on a native thread of its own, which ``entry/stub.S`` starts.
It never runs the target's Python code on purpose (no repr, hash, comparison, ``__sizeof__`` or attribute of a
target's object), and never lets an exception out. Finalizers run where a person asks for a collection, and for what
the target drops while a census holds it. At its end it takes out what it has put in; its goodbye says what it could
not: hooks of the core that another tool's lie over, which pass everything on.

It is written as modules (:data:`MODULES`) and sent as one text: :func:`source` joins what they define, without comments
and annotations. heaptop only ever reads them as text; tests and the type checker import them.

Two stages, so that what must be written into foreign memory stays small::

    injector writes   bootstrap(fd, token, …)     ► run in a private dict, on a native thread
    bootstrap writes  heaptop <token> <pid> <version>\\n
    heaptop sends     framed_source()             the agent in pieces: 4 bytes big-endian length, then text
    bootstrap runs    the first two pieces        they have the loader of the others; it rests after each
    agent runs        each of the others          gives the GIL back in between, and a length of 0 ends them
    agent sends       Hello, and the session goes on in frames
    agent sends       Bye when it can; the bootstrap then drops the agent's dict and closes fd, last of all

Why the modules are written as they are:

- Syntax of 3.8, no stdlib but builtin modules: the target's library may be old, patched or deleted.
- No keyword arguments to C functions: the first use of one makes a tuple for good. The same goes for ``compile``.
- No class, no module object, one dict for all, and state in a few ``SimpleNamespace``: a class is a reference cycle
  that only the target's collector would free, and it may be switched off. ``main``'s caller clears the dict; then
  everything dies by count.
- No ``time.sleep``, ``_thread`` lock or ``select``: gevent and friends replace them. ``sigtimedwait`` on an
  empty set rests for real, with the GIL released, and nobody patches it.
- The text comes in pieces, and the agent rests between them: what compiles never gives the GIL back, and all of this
  takes some 25 ms. For the same reason what may take longer than ``HOLD`` rests in between.
- Reference counts: what a census holds lives as long as it is held. An object that the target drops meanwhile
  is freed by the agent's thread, and its finalizer runs there, as it would on any thread that collects.
- Two things stay after all, once, and a later attach finds them there: the core's library, which no program can
  unload safely, and from 3.12 on the names in our compiled code, which CPython makes immortal (500 strings, 30 kB).
- Audit hooks of an application see the agent work (``exec``, ``open``, ``gc.get_objects``). Its trace, profile and
  ``sys.monitoring`` functions do not, from 3.11 on: the stub and the core enter tracing. Where there is no stub
  (PEP 768, ``heaptop run``), they see it until the core is loaded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

MODULES: Final = (
    "base",
    "clock",
    "loader",
    "values",
    "wire",
    "fork_warning",
    "phases",
    "collector",
    "type_table",
    "own",
    "tracer",
    "outbox",
    "core",
    "pacing",
    "sampler",
    "counting",
    "walk",
    "slices",
    "hooks",
    "snapshot",
    "tick",
    "census",
    "session",
)
"""In the order in which they are joined. A module imports only from those before it."""

MAX_SOURCE: Final = 1 << 22
"""Bytes of agent source that the bootstrap accepts."""

MAX_PIECE: Final = 600
"""Nodes of the syntax tree of a piece: one takes 1.5 µs, and the GIL is held for as long as a piece takes."""
LOADER: Final = ("end_hold", "check_socket")
"""The functions that end the first two pieces, which together load the others."""

MAX_BOOTSTRAP: Final = 2048
"""Bytes of bootstrap, with its final NUL, that the injector has to find room for."""

# A program that has removed _signal is left alone: a new one forgets the handlers of its signals (3.10 on).
# exec() of the text, not compile(): that would make the 120 classes of _ast in the target, for good.
# It blocks all signals but the synchronous ones (blocked, the kernel would reset their handlers) and those that
# valid_signals() leaves out (glibc's own, which setuid needs). A forked child has a copy of a queued call: it
# sees another pid, and does nothing. It defines no function: one would hold its
# globals, and they it. From 3.12 on a fork warns of our thread, where it is the only other: E, first in the list
# F of filters, keeps that quiet until the agent's own filter comes, and again after that has gone. (A fork that
# warned before that may be importing warnings just now: its module has no filters yet.) Nothing before
# it lets go of the GIL, and nothing is imported, for the reason in base.py. The token is bytes: a str constant that
# looks like a name is interned, on 3.12 for ever.
_BOOTSTRAP: Final = """\
try:
    S=__spec__.__init__.__globals__["sys"]
    G=S.modules["_signal"]
    P,W=[S.modules.get(I)or __import__(I)for I in("posix","_warnings")]
    if P.getpid()=={pid}:
        N={{}};F=[];E=None
        try:
            if S.version_info>(3,12):
                F=getattr(S.modules.get("warnings"),"filters",None)
                if type(F)is not list:F=W.filters
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

_COMMENT: Final = re.compile(r"""^\s*#.*$|\s+#[^"']*$""")
"""Alone on a line, or behind code; one with a quote in it stays there, for it may be no comment."""

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
    """The agent, as text for every Python that heaptop attaches to."""
    return "".join(pieces())


def pieces() -> tuple[str, ...]:
    """The agent's text in pieces, each of whole statements: the first two have what loads the others."""
    return _joined()[0]


def place(line: int) -> tuple[str, int]:
    """The file in this folder and the line there that a line of :func:`source` comes from, which is what a traceback
    in a target shows. ValueError when there is no such line."""
    places = _joined()[1]
    if not 0 < line <= len(places):
        raise ValueError(f"the agent has no line {line}")
    return places[line - 1]


def named_places(text: str) -> str:
    """An agent's text with lines of :func:`source` written as modules and their lines: ``agent/tick.py:20``."""

    def named(found: re.Match[str]) -> str:
        try:
            return "agent/{}:{}".format(*place(int(found[1])))
        except ValueError:
            return found[0]

    return re.sub(r"agent line (\d{1,6})\b", named, text, flags=re.ASCII)


@cache
def framed_source() -> bytes:
    """What the bootstrap and the agent's loader read: each piece as 4 bytes big-endian length, then UTF-8; a length of
    0 at the end.

    Empty lines stand for the pieces before, so that a line has the same number in a traceback as in :func:`source`; to
    compile one takes 20 ns. The agent's loader puts in as many as it has read: the first piece that it reads has them.
    """
    framed = bytearray()
    lines = 0
    for number, piece in enumerate(pieces()):
        data = b"\n" * (lines if number <= len(LOADER) else 0) + piece.encode("utf-8")
        framed += len(data).to_bytes(4, "big") + data
        lines += piece.count("\n")
    return bytes(framed + bytes(4))


@cache
def _joined() -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
    """The pieces, and the module and line of each line in them."""
    pieces: list[str] = []
    places: list[tuple[str, int]] = []
    piece, nodes = "", 0
    for file in [module + ".py" for module in MODULES]:
        for statement, size, lines in _statements(Path(__file__).with_name(file).read_text(encoding="utf-8")):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                continue  # of other modules, or for the type checker
            if piece and nodes + size > MAX_PIECE:
                pieces.append(piece)
                piece, nodes = "", 0
            piece += "".join(text + "\n" for _, text in lines)
            nodes += size
            places += [(file, number) for number, _ in lines]
            if isinstance(statement, ast.FunctionDef) and statement.name in LOADER:
                pieces.append(piece)
                piece, nodes = "", 0
    return (*pieces, piece), tuple(places)


def _statements(text: str) -> Iterator[tuple[ast.stmt, int, list[tuple[int, str]]]]:
    """The statements of a module, each with the nodes of its syntax tree and its lines with their numbers, without what
    only a reader or a type checker needs: comments, docstrings, annotations (CPython 3.14 makes a function of those,
    for each of ours)."""
    lines = [line.encode("utf-8") for line in text.splitlines()]
    for statement in ast.parse(text).body:
        if _is_docstring(statement):
            continue
        nodes = 0
        cuts: list[tuple[int, int, int]] = []
        for node in ast.walk(statement):
            nodes += 1
            if isinstance(node, ast.FunctionDef):
                for arg in (*node.args.args, node.args.vararg):
                    if arg is not None and arg.annotation is not None:
                        cuts.append((arg.lineno, arg.col_offset + len(arg.arg), arg.annotation.end_col_offset or 0))
                        arg.annotation = None  # nor walked
                if node.returns is not None:
                    at, end = node.returns.lineno, node.returns.end_col_offset or 0
                    cuts.append((at, lines[at - 1].rindex(b" ->", 0, end), end))
                for number in _numbers(node.body[0]) if _is_docstring(node.body[0]) else ():
                    lines[number - 1] = b""
            elif isinstance(node, ast.AnnAssign):
                cuts.append((node.lineno, node.target.end_col_offset or 0, node.annotation.end_col_offset or 0))
        for at, begin, end in sorted(cuts, reverse=True):
            lines[at - 1] = lines[at - 1][:begin] + lines[at - 1][end:]
        kept = [(number, _COMMENT.sub("", lines[number - 1].decode("utf-8"))) for number in _numbers(statement)]
        yield statement, nodes, [(number, line) for number, line in kept if line.strip()]


def _numbers(statement: ast.stmt) -> range:
    """Of its lines."""
    return range(statement.lineno, (statement.end_lineno or 0) + 1)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
