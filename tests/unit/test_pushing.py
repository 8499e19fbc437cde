"""What is pushed to Pyroscope: forms that a server takes apart, differences that add up, what a bad server costs."""

from __future__ import annotations

import email
import email.policy
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("aiohttp", reason="the extra heaptop[serve] is not installed")

from heaptop.analysis.reports.stack_sums import StackSum, allocated, since
from heaptop.fleet import host as host_module
from heaptop.fleet import pushing, sending
from heaptop.fleet.configuration import FleetConfig, PushConfig
from heaptop.fleet.pushing import ProfilePusher, pyroscope_name, rest_after
from heaptop.fleet.selection import SelectRule
from tests.support.processes import eventually
from tests.support.profiles import Profile
from tests.unit.test_fleet_host import Hosted, process, running

Said = pytest.CaptureFixture[str]


class Pyroscope(BaseHTTPRequestHandler):
    """Takes the form apart."""

    queries: ClassVar[list[dict[str, list[str]]]] = []
    profiles: ClassVar[list[Profile]] = []
    authorizations: ClassVar[list[str | None]] = []
    status: ClassVar[int] = 200

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        assert parts.path == "/ingest"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        (part,) = email.message_from_bytes(head + body, policy=email.policy.HTTP).iter_parts()
        assert part.get_param("name", header="Content-Disposition") == "profile"
        if self.status == 200:
            self.queries.append(parse_qs(parts.query))
            self.profiles.append(Profile(part.get_payload(decode=True)))
            self.authorizations.append(self.headers["Authorization"])
        self.send_response(self.status)
        if self.status == 302:
            self.send_header("Location", "http://127.0.0.1:9/")
        self.end_headers()
        self.wfile.write(b"x" * 100_000)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Pyroscope.status = 200
    for kept in (Pyroscope.queries, Pyroscope.profiles, Pyroscope.authorizations):
        kept.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Pyroscope) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextmanager
def pushing_to(
    monkeypatch: pytest.MonkeyPatch, pids: tuple[int, ...] = (1, 2)
) -> Iterator[tuple[Hosted, ProfilePusher]]:
    """A host with attached processes that allocate at each tick."""
    monkeypatch.setattr(host_module, "ROUND", 0.01)
    monkeypatch.setattr(host_module, "is_same_process", lambda pid, start: True)
    hosted = Hosted()
    hosted.seen = [process(pid) for pid in pids]
    with running(hosted):
        assert eventually(lambda: counted(hosted) == [*pids])
        for sources in hosted.sources.values():
            sources[0].tick(5)
        yield hosted, ProfilePusher(hosted.host, hosted.meters)


def counted(hosted: Hosted) -> list[int]:
    """Those whose first census was read."""
    attached = hosted.attached()
    return [pid for pid in attached if hosted.sources[pid][-1].ready]


def allocated_by(hosted: Hosted) -> int:
    return Profile(hosted.host.profile()).total("alloc_space")


def test_what_lives_is_sent_as_it_is_and_what_was_allocated_as_a_difference(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pushing_to(monkeypatch) as (hosted, pusher):
        for _ in range(3):
            pusher.push_all(PushConfig(url, authorization="Bearer 0123456789abcdef"))
            served = Profile(hosted.host.profile())
            assert Pyroscope.profiles[-1].total("inuse_space") == served.total("inuse_space")
            assert sum(one.total("alloc_space") for one in Pyroscope.profiles) == served.total("alloc_space")
            for sources in hosted.sources.values():
                sources[0].tick(5)
        assert all(one.total("alloc_space") > 0 for one in Pyroscope.profiles)
    assert [one["name"] for one in Pyroscope.queries] == [Pyroscope.queries[0]["name"]] * 3
    assert Pyroscope.queries[0]["name"][0].startswith("shop{instance=")
    assert Pyroscope.queries[0]["format"] == ["pprof"]
    assert Pyroscope.queries[1]["from"] == Pyroscope.queries[0]["until"], "there is no gap"
    assert Pyroscope.authorizations == ["Bearer 0123456789abcdef"] * 3
    assert not any(labels for one in Pyroscope.profiles for _, _, labels in one.samples), "each would be a series"


@pytest.mark.parametrize("jump", [-7200.0, 7200.0])
def test_a_clock_that_is_set_leaves_no_profile_of_the_future_and_none_of_hours(
    url: str, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    with pushing_to(monkeypatch) as (_, pusher):
        pusher.push_all(PushConfig(url))
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + jump)
        pusher.push_all(PushConfig(url))
    begin, end = (int(Pyroscope.queries[1][key][0]) for key in ("from", "until"))
    assert abs(end - time.time()) < 60
    assert 0 <= end - begin < 60


def test_a_profile_that_takes_long_begins_where_the_last_one_ended(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pushing_to(monkeypatch) as (_, pusher):
        pusher.push_all(PushConfig(url))
        take, monotonic, taken = pusher._profile, time.monotonic, []
        monkeypatch.setattr(pusher, "_profile", lambda sessions: taken.append(True) or take(sessions))
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 30 * len(taken))
        pusher.push_all(PushConfig(url))
    assert taken
    assert Pyroscope.queries[1]["from"] == Pyroscope.queries[0]["until"]


@pytest.mark.parametrize("status", [302, 401, 500])
def test_what_was_not_accepted_is_in_the_next_profile(
    url: str, monkeypatch: pytest.MonkeyPatch, status: int, capsys: Said
) -> None:
    with pushing_to(monkeypatch) as (hosted, pusher):
        push = PushConfig(url, authorization="Bearer 0123456789abcdef")
        pusher.push_all(push)
        Pyroscope.status = status
        for expected in (1, 2):
            hosted.sources[1][0].tick(5)
            pusher.push_all(push)
            assert pusher._failures == expected
        Pyroscope.status = 200
        pusher.push_all(push)
        assert pusher._failures == 0
        assert sum(one.total("alloc_space") for one in Pyroscope.profiles) == allocated_by(hosted)
        value = hosted.meters.registry.get_sample_value
        assert value("heaptop_pushes_total", {"result": "failed"}) == 2
        assert value("heaptop_pushes_total", {"result": "done"}) == 2
    said = capsys.readouterr().err
    assert said.count("event=push") == 2, "the start of the failure, and its end"
    assert "0123456789abcdef" not in said


def test_a_process_that_ends_takes_nothing_away_and_a_new_session_counts_from_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pushing_to(monkeypatch) as (hosted, pusher):
        pusher.push_all(PushConfig(url))
        del hosted.seen[0]
        assert eventually(lambda: hosted.attached() == [2])
        hosted.sources[2][0].tick(5)
        pusher.push_all(PushConfig(url))
        assert Pyroscope.profiles[-1].total("alloc_space") > 0
        hosted.seen.append(process(1))
        assert eventually(lambda: counted(hosted) == [1, 2])
        hosted.sources[1][1].tick(5)
        whole = Profile(hosted.host.profile(pid=1)).total("alloc_space")
        pusher.push_all(PushConfig(url))
        assert Pyroscope.profiles[-1].total("alloc_space") == whole > 0


def test_what_goes_to_this_machine_goes_to_no_proxy(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would read the secret."""
    monkeypatch.setenv("http_proxy", url)
    monkeypatch.delenv("no_proxy", raising=False)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        sent = sending.send(url, b"profile", "push", {"Authorization": "Bearer x"})
    assert not sent.is_taken
    assert Pyroscope.authorizations == []


def test_a_profile_that_is_too_large_is_not_sent(url: str, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setattr(pushing, "LARGEST", 10)
    with pushing_to(monkeypatch) as (_, pusher):
        pusher.push_all(PushConfig(url))
    assert Pyroscope.profiles == []
    assert "the profile of shop has more than" in capsys.readouterr().err


def test_a_server_that_never_answers_delays_neither_the_loop_nor_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "TURN", 0.01)
    given_up, began = threading.Event(), threading.Event()

    def hang(*_: object) -> sending.SendResult:
        began.set()
        given_up.wait(60)
        return sending.SendResult(False, "")

    monkeypatch.setattr(sending, "_post", hang)
    try:
        with pushing_to(monkeypatch, (1,)) as (hosted, pusher):
            rules = (SelectRule(name="shop"),)
            hosted.config = FleetConfig(rules, push=PushConfig("http://127.0.0.1:9", interval=0.01))
            hosted.host.reload()
            pusher.start()
            assert began.wait(60)
            hosted.seen.append(process(2))
            assert eventually(lambda: counted(hosted) == [1, 2])
            pusher.stop()
    finally:
        given_up.set()
    assert eventually(lambda: "heaptop-push" not in [each.name for each in threading.enumerate()])


def test_each_failure_doubles_the_rest_up_to_an_hour() -> None:
    assert [rest_after(60, failures) for failures in range(4)] == [60, 120, 240, 480]
    assert rest_after(60, 10**9) == 3600
    assert rest_after(5000, 0) == 5000


def test_a_name_has_only_what_pyroscope_takes() -> None:
    assert pyroscope_name("shop-1.web_x") == "shop-1.web_x"
    assert pyroscope_name('a{b="c"}\n&name=d/é') == "a_b__c____name_d__"
    assert len(pyroscope_name("a" * 1000)) == 100


def test_bytes_that_move_to_another_row_are_counted_once() -> None:
    """The sampler moves what it knows of a stack to the row of those that it no longer distinguishes."""
    before = [row(1, 1000, 10), row(2, 500, 5)]
    now = [row(-1, 1000, 10), row(2, 700, 6)]
    grown = since(now, allocated(before))
    assert sum(one.allocated_bytes for one in grown) == 200
    assert sum(one.allocated_count for one in grown) == 1
    assert [one.live_bytes for one in grown] == [one.live_bytes for one in now]
    assert sum(one.allocated_bytes for one in since([row(2, 100, 1)], allocated(before))) == 0


def row(stack: int, size: int, count: int) -> StackSum:
    return replace(EMPTY, stack=stack, allocated_bytes=size, allocated_count=count)


EMPTY = StackSum(0, (), None, 7, 1, 0, 0)
