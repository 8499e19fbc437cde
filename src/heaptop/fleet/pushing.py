"""Pushes profiles to Pyroscope: one for each service, on a thread of its own.

What lives is sent as it is, what was allocated as the difference to what Pyroscope took last: over time it averages the
first, and sums the second.
"""

from __future__ import annotations

import re
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from heaptop.analysis.reports.stack_sums import AllocatedBefore, StackSum, allocated, since
from heaptop.errors import RecordingTooLarge
from heaptop.fleet.audit import audit
from heaptop.fleet.configuration import PushConfig
from heaptop.fleet.figures import label
from heaptop.fleet.metrics import HostMeters
from heaptop.fleet.sending import send
from heaptop.fleet.session import FleetSession
from heaptop.recordings.exports.pprof import ProfileWriter

MOST_TEXT: Final = 16 << 20
"""Characters of the stacks of one profile."""
LARGEST: Final = 16 << 20
"""Bytes of one profile: Pyroscope takes 32 MB."""
LONGEST_REST: Final = 3600.0
"""Seconds until the next attempt, however often it failed."""
LONGEST_NAME: Final = 100
CLOCK_SLACK: Final = 1.0
"""Seconds by which two clocks may differ that nobody has set."""
TURN: Final = 1.0
"""Seconds between two looks at whether it is time."""
_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9_.-]")
"""In a name that Pyroscope takes."""


class HasSessions(Protocol):
    """What profiles are made of."""

    @property
    def push(self) -> PushConfig | None: ...
    def attached(self) -> Sequence[FleetSession]: ...


@dataclass(slots=True)
class _Profile:
    """One service's, and what it leaves as sent."""

    content: bytes
    now: dict[FleetSession, AllocatedBefore] = field(default_factory=dict)


class ProfilePusher:
    """All that is pushed by one ``heaptop serve``."""

    def __init__(self, host: HasSessions, meters: HostMeters) -> None:
        self._host = host
        self._meters = meters
        self._sent: WeakKeyDictionary[FleetSession, AllocatedBefore] = WeakKeyDictionary()
        """What each process had allocated when a profile of it was taken last."""
        self._sent_at: dict[str, tuple[float, float]] = {}
        """By service, in seconds since 1970, and by ``time.monotonic``."""
        self._failures = 0
        """Attempts in a row of which nothing was taken."""
        self._fails = False
        """Something was not taken last time: that is reported once."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heaptop-push", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Push no more. A request that is sent now is not waited for."""
        self._stopping.set()
        self._thread.join(TURN)

    def _run(self) -> None:
        pushed_at = time.monotonic()
        while not self._stopping.wait(TURN):
            push = self._host.push
            if push is None:
                pushed_at, self._failures = time.monotonic(), 0
            elif time.monotonic() - pushed_at >= rest_after(push.interval, self._failures):
                self.push_all(push)
                pushed_at = time.monotonic()

    def push_all(self, push: PushConfig) -> None:
        """Push a profile of each service. Where none is taken, the next attempt comes later."""
        services: dict[str, list[FleetSession]] = {}
        for session in self._host.attached():
            services.setdefault(pyroscope_name(session.service), []).append(session)
        self._sent_at = {name: at for name, at in self._sent_at.items() if name in services}
        failed = []
        for name, sessions in sorted(services.items()):
            if self._stopping.is_set():
                return
            try:
                why = self._push(push, name, sessions)
            except Exception as error:  # of one service: the others are pushed
                why = f"{type(error).__name__}: {error}"
            self._meters.pushes.labels("failed" if why else "done").inc()
            failed += [why] if why else []
        self._failures = self._failures + 1 if failed and len(failed) == len(services) else 0
        if bool(failed) != self._fails:
            self._fails = bool(failed)
            audit("push", result="failed", message=failed[0]) if failed else audit("push", result="done")

    def _push(self, push: PushConfig, name: str, sessions: Sequence[FleetSession]) -> str:
        """Push one profile; why it was not taken, empty where it was."""
        now, taken_at = time.time(), time.monotonic()
        profile = self._profile(sessions)
        if len(profile.content) > LARGEST:
            return f"the profile of {name} has more than {LARGEST >> 20} MiB"
        query = urlencode(
            {
                "name": f"{name}{{instance={_FORBIDDEN.sub('_', socket.gethostname())}}}",
                "from": int(self._begin(name, now, taken_at, push.interval)),
                "until": int(now),
                "format": "pprof",
                "spyName": "heaptop",
            }
        )
        boundary = secrets.token_hex(16)
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        if push.authorization:
            headers["Authorization"] = push.authorization
        body = multipart(boundary, profile.content)
        is_taken, words = send(f"{push.url.rstrip('/')}/ingest?{query}", body, "Pyroscope", headers)
        if not is_taken:
            return words
        self._sent.update(profile.now)
        self._sent_at[name] = now, taken_at
        return ""

    def _begin(self, name: str, now: float, taken_at: float, interval: float) -> float:
        """Where the last profile of a service ends, also where the clock was set since: from the future would be
        refused."""
        if name not in self._sent_at:
            return now - interval
        wall, at = self._sent_at[name]
        passed = taken_at - at
        return wall if abs(now - wall - passed) < CLOCK_SLACK else now - passed

    def _profile(self, sessions: Sequence[FleetSession]) -> _Profile:
        """Of these processes together: labels of a process or a type would be a series each."""
        writer, found, left = ProfileWriter(flows=True, typed=False), _Profile(b""), MOST_TEXT
        for place, session in enumerate(sessions):
            before = self._sent.get(session, {})

            def difference(
                sums: Sequence[StackSum], session: FleetSession = session, before: AllocatedBefore = before
            ) -> list[StackSum]:
                found.now[session] = allocated(sums)
                return since(sums, before)

            try:
                left -= session.add_to(writer, left // (len(sessions) - place), difference)
            except RecordingTooLarge:
                writer.add_notice(f"process {session.pid} is left out: its stacks take too many characters")
        found.content = writer.content("live", time.time_ns())
        return found


def rest_after(interval: float, failures: int) -> float:
    """Seconds until the next attempt."""
    return max(min(interval * 2.0 ** min(failures, 30), LONGEST_REST), interval)


def pyroscope_name(service: str) -> str:
    """A service's name, as Pyroscope takes it."""
    return _FORBIDDEN.sub("_", label(service))[:LONGEST_NAME]


def multipart(boundary: str, profile: bytes) -> bytes:
    """The body of a form (RFC 7578) that has the profile as its file ``profile``."""
    head = (
        f"--{boundary}\r\n"
        'Content-Disposition: form-data; name="profile"; filename="profile.pprof"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return head.encode() + profile + f"\r\n--{boundary}--\r\n".encode()
