"""Sends the guard's reports on: to a URL, an Alertmanager, or a command. None keeps the guard from watching, nor for
long from its end; a command that runs then is ended."""

from __future__ import annotations

import http.client
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from heaptop import __version__
from heaptop.fleet.access import is_loopback

WEBHOOK_SECONDS: Final = 10.0
COMMAND_SECONDS: Final = 60.0
LAST_SECONDS: Final = 5.0  # For what waits to be sent when the guard is stopped
MOST_WAITING: Final = 100  # Reports that wait to be sent: each may take as long as a command may
MOST_HANGING: Final = 8  # Requests that were given up and whose server has not ended them: no other is sent then
_THREAD: Final = "heaptop-webhook"
_TURN: Final = 0.05  # Seconds between two looks at whether a command has exited


class _NoRedirect(HTTPRedirectHandler):
    """A report goes where a person has chosen, and nowhere else."""

    def redirect_request(self, *_: object) -> None:
        return None


def webhook_host(url: str) -> str:
    """Its host: of a URL the rest may be secret. Raises ValueError where it is not one of http or https."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii() or not url.isprintable():
        raise ValueError(f"{parts.scheme or 'this'} is not http or https with a host")
    if parts.username is not None:
        raise ValueError("a user name in it is not supported")
    parts.port  # noqa: B018 - raises ValueError where it is none
    return parts.hostname


class SendResult(NamedTuple):
    """What came of a request."""

    is_taken: bool
    words: str  # A few, which begin with what it was


def post(url: str, content: bytes, what: str = "webhook") -> str:
    """POST a report as JSON; what came of it, in a few words. It is given up after some time."""
    return send(url, content, what, {"Content-Type": "application/json"}).words


def send(url: str, content: bytes, what: str, headers: Mapping[str, str]) -> SendResult:
    """POST. It is given up after some time. Of an answer only the status is read."""
    came: list[SendResult] = []
    failed = f"{what} {webhook_host(url)} failed"
    if sum(each.name == _THREAD for each in threading.enumerate()) >= MOST_HANGING:
        return SendResult(False, f"{failed}: {MOST_HANGING} earlier requests hang")
    # On a thread: the timeout of a socket is for each part of an answer, and none is for the look-up of a name.
    thread = threading.Thread(
        target=lambda: came.append(_post(url, content, what, headers)), name=_THREAD, daemon=True
    )
    thread.start()
    thread.join(WEBHOOK_SECONDS)
    return came[0] if came else SendResult(False, f"{failed}: it took more than {WEBHOOK_SECONDS:g} s")


def _post(url: str, content: bytes, what: str, headers: Mapping[str, str]) -> SendResult:
    host = webhook_host(url)
    request = Request(url, content, {**headers, "User-Agent": f"heaptop/{__version__}"})
    try:
        # What goes to this machine goes to no proxy, which would read the secret.
        direct = (ProxyHandler({}),) if is_loopback(urlsplit(url).hostname or "") else ()
        with build_opener(_NoRedirect, *direct).open(request, timeout=WEBHOOK_SECONDS) as answer:
            return SendResult(True, f"{what} {host}: {answer.status}")
    except HTTPError as error:
        error.close()
        why = " (redirects are not followed)" if error.code // 100 == 3 else ""
        return SendResult(False, f"{what} {host} failed: status {error.code}{why}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        return SendResult(False, f"{what} {host} failed: {getattr(error, 'reason', None) or error}")


def call(argv: Sequence[str], content: bytes, path: str, stop: threading.Event) -> str:
    """Run a command, without a shell; what came of it. The report's JSON is its stdin, the file's path is in
    HEAPTOP_REPORT. It is ended after some time, or at ``stop``, with what it has started."""
    try:
        with open(os.memfd_create("report"), "w+b") as report:
            report.write(content)
            report.seek(0)
            with subprocess.Popen(
                argv,
                stdin=report,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "HEAPTOP_REPORT": path},
                start_new_session=True,
            ) as process:
                end = time.monotonic() + COMMAND_SECONDS
                while process.poll() is None and time.monotonic() < end and not stop.wait(_TURN):
                    pass
                if process.poll() is not None:
                    return f"command {argv[0]}: exit code {process.returncode}"
                os.killpg(process.pid, signal.SIGKILL)
                why = "the guard ended" if stop.is_set() else f"it took more than {COMMAND_SECONDS:g} s"
                return f"command {argv[0]} was ended: {why}"
    except (OSError, ValueError) as error:
        return f"command {argv[0]} failed: {getattr(error, 'strerror', None) or error}"


class Sender:
    """Does one thing after another on a thread of its own, and reports what came of each."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.stop = threading.Event()  # What is being done is to end now, and nothing more begins
        self._report = report
        self._work: queue.SimpleQueue[Callable[[], str] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, work: Callable[[], str]) -> None:
        """Have it done; what it returns is reported. Nothing is added to a queue that is full."""
        if self._work.qsize() >= MOST_WAITING:
            self._report(f"not sent: {MOST_WAITING} reports wait already")
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="heaptop-sending", daemon=True)
            self._thread.start()
        self._work.put(work)

    def close(self, seconds: float) -> None:
        """Wait so long for what was put, or until Ctrl+C; what is not done then is given up."""
        if self._thread is None:
            return
        self._work.put(None)
        with suppress(KeyboardInterrupt):
            self._thread.join(seconds)
        if self._thread.is_alive():
            self._report("the guard ends; reports still being sent are dropped")
            self.stop.set()
            self._thread.join(20 * _TURN)

    def _run(self) -> None:
        while (work := self._work.get()) is not None and not self.stop.is_set():
            self._report(work())
