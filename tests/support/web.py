"""Runs a WSGI application of tests/targets under gunicorn, and asks for pages all the time while a test goes on."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.interpreters import Interpreter
from tests.support.building import TARGETS
from tests.support.processes import PATIENCE, Target, TargetFailed, eventually, need_installed, need_package, starting


@dataclass(frozen=True, slots=True)
class Server:
    """A gunicorn master with its workers."""

    master: Target
    port: int
    workers: tuple[int, ...]
    """Pids of the worker processes."""

    def get(self, path: str = "/") -> str:
        """One page; raises OSError or HTTPException when it does not come, or not with status 200."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read().decode()
            if response.status != 200:
                raise http.client.HTTPException(f"status {response.status}: {body}")
            return body


@contextlib.contextmanager
def serving(
    interpreter: Interpreter,
    workers: int = 2,
    application: str = "web",
    name: str = "heaptop-target",
    *,
    needs_zoo: bool = False,
) -> Iterator[Server]:
    """A server of a target's application on a free port of this machine, answering, for the length of the block. Its
    command lines have that name. ``needs_zoo``: it imports what only the second zoo uses, such as Django.

    Its stderr stays empty unless something goes wrong. gunicorn's own exit code on SIGTERM is 0.
    """
    need_package(interpreter, "gunicorn")
    zoo, zoo_inside = interpreter.zoo_packages()
    if needs_zoo:
        need_installed(interpreter, zoo.is_dir(), "zoo-packages")
    file = interpreter.place(TARGETS / f"{application}.py")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # gunicorn takes the socket over, so that no one else can get the port in between.
        fd, port = listener.fileno(), listener.getsockname()[1]
        options = [
            f"--bind=fd://{fd}",
            f"--workers={workers}",
            f"--name={name}",
            "--log-level=error",
            # The default place is /dev/shm, which a chroot lacks.
            "--worker-tmp-dir=/tmp",
            "--no-control-socket",
        ]
        command = interpreter.command(["-m", "gunicorn", *_known(interpreter, options), f"{application}:app"])
        folders = [str(interpreter.packages), *([str(zoo_inside)] if needs_zoo else []), file.rpartition("/")[0]]
        with starting(command, environment={"PYTHONPATH": ":".join(folders)}, pass_fds=[fd]) as master:
            yield _answering(master, port, workers)


def _known(interpreter: Interpreter, options: list[str]) -> list[str]:
    """Leave out what only newer versions of gunicorn know: those for Python 3.10 and later."""
    return options if interpreter.version >= (3, 10) else [each for each in options if "control" not in each]


def _answering(master: Target, port: int, workers: int) -> Server:
    """The server, once a page has come from each of its workers: until then they import.

    The master's children are looked up again after each page: what it starts and waits for while it begins, and a
    worker that it replaces, are none for long.
    """
    server = Server(master, port, ())
    answered: set[int] = set()

    def ready() -> bool:
        answered.add(int(server.get("/pid")))
        children = _children(master.pid)
        return len(children) == workers and answered.issuperset(children)

    try:
        eventually(lambda: _children(master.pid) or not master.alive)
        assert eventually(ready)
    except (AssertionError, OSError, http.client.HTTPException) as error:
        raise TargetFailed(f"gunicorn: {error!r}\n{master.stdout()}{master.stderr()}") from error
    return replace(server, workers=tuple(_children(master.pid)))


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as stream:
            return [int(each) for each in stream.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


@dataclass(slots=True)
class Load:
    """What came of the requests made so far."""

    answered: int = 0
    failures: list[str] = field(default_factory=list)


@contextlib.contextmanager
def under_load(server: Server, pause: float = 0.0) -> Iterator[Load]:
    """Ask for one page after another in a thread, from the first answer to the end of the block; ``pause``: seconds
    between two."""
    load, stop = Load(), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                server.get()
                load.answered += 1
                stop.wait(pause)
            except (OSError, http.client.HTTPException) as error:
                load.failures.append(repr(error))
                stop.wait(0.1)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        eventually(lambda: load.answered or load.failures)
        yield load
    finally:
        stop.set()
        thread.join()
