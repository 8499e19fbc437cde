"""What ``heaptop serve`` answers, and to whom."""

from __future__ import annotations

import asyncio
import base64
import gzip
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra heaptop[serve] is not installed")

import bcrypt
from aiohttp import ClientSession, ClientTimeout, web
from aiohttp.test_utils import TestClient, TestServer

from heaptop.errors import ConfigError
from heaptop.fleet import server as server_module
from heaptop.fleet.access import Access
from heaptop.fleet.configuration import FleetConfig
from heaptop.fleet.host import FleetHost
from heaptop.fleet.metrics import OPEN_METRICS, TEXT, HostMeters
from heaptop.fleet.server import FleetServer
from heaptop.fleet.web_config import TlsFiles
from tests.support.certificates import certificate, trusting_all
from tests.support.profiles import Profile

TOKEN = "0123456789abcdef"
PROMETHEUS_ACCEPTS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""The header of Prometheus 2.42."""
PATHS = ("/", "/metrics", "/debug/pprof/heap", "/debug/pprof/allocs", "/processes", "/healthz")
OPEN = Access()
SECRET = Access((TOKEN.encode(),))
LOGIN = {"Authorization": f"Bearer {TOKEN}"}
PATIENCE = ClientTimeout(20)


class Agent:
    """A host without processes, and its server."""

    def __init__(self, access: Access) -> None:
        self.broken = False
        self.loads = 0
        self.meters = HostMeters()
        self.host = FleetHost(self._load, self.meters, scan=list)
        self.server = FleetServer(self.host, self.meters, access)

    def _load(self) -> FleetConfig:
        self.loads += 1
        if self.broken:
            raise ConfigError("fleet.toml: unknown key `limits`.")
        return FleetConfig()


class PlainServer(TestServer):
    """As the host agent's own: a handler goes on when its client has gone."""

    async def _make_runner(self, **options: Any) -> web.AppRunner:
        return web.AppRunner(self.app, **{**options, "handler_cancellation": False})


@asynccontextmanager
async def serving(access: Access = OPEN) -> AsyncIterator[tuple[TestClient, Agent]]:
    agent = Agent(access)
    agent.server._thread.start()
    try:
        async with TestClient(PlainServer(agent.server.application())) as client:
            yield client, agent
    finally:
        agent.host.stop()
        await asyncio.to_thread(agent.server._thread.join)


async def test_every_path_answers() -> None:
    async with serving() as (client, _):
        for path in PATHS:
            async with client.get(path) as response:
                assert response.status == 200, path
                assert response.headers["X-Content-Type-Options"] == "nosniff"
        async with client.get("/") as response:
            page = await response.text()
        assert [path for path in PATHS[1:] if f'href="{path}"' not in page] == []
        async with client.get("/nothing") as response:
            assert response.status == 404


async def test_a_profile_of_nothing_is_valid() -> None:
    async with serving() as (client, _):
        for path, default in (("heap", "inuse_space"), ("allocs", "alloc_space")):
            async with client.get(f"/debug/pprof/{path}?service=none&pid=1") as response:
                profile = Profile(await response.read())
            assert (profile.samples, profile.default) == ([], default)
        async with client.get("/debug/pprof/heap?pid=1e3") as response:
            assert response.status == 400


async def test_a_broken_file_is_reported_and_a_reload_is_a_post(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "ROUND", 0.0)
    async with serving(SECRET) as (client, agent):
        async with client.get("/-/reload", headers=LOGIN) as response:
            assert response.status == 405
        async with client.post("/-/reload", headers=LOGIN) as response:
            assert response.status == 200
        agent.broken = True
        async with client.post("/-/reload", headers=LOGIN) as response:
            assert response.status == 500
            assert "unknown key `limits`" in await response.text()


async def test_without_a_secret_nobody_reloads() -> None:
    async with serving() as (client, agent):
        agent.broken = True
        async with client.post("/-/reload") as response:
            assert response.status == 403
            assert "SIGHUP" in await response.text()


async def test_a_storm_of_reloads_reads_the_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "ROUND", 3600.0)
    async with serving(SECRET) as (client, agent):
        agent.loads = 0

        async def reload() -> int:
            async with client.post("/-/reload", headers=LOGIN) as response:
                return response.status

        assert sorted([await reload() for _ in range(5)]) == [200, 429, 429, 429, 429]
        assert agent.loads == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "metrics.example.com"}, 200),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "https://example.com"}, 403),
    ],
)
async def test_a_secret_is_asked_for_everywhere(headers: Mapping[str, str], status: int) -> None:
    async with serving(SECRET) as (client, _):
        for path in PATHS:
            async with client.get(path, headers=headers) as response:
                assert response.status == status, path


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:9917"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "[::1]:9917"}, 200),
        ({"Host": "rebound.example.com:9917"}, 403),
        ({"Host": "127.0.0.1.example.com"}, 403),
        ({"Host": "["}, 403),
        ({"Origin": "https://example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
    ],
)
async def test_a_page_of_another_site_reads_nothing(headers: Mapping[str, str], status: int) -> None:
    async with serving() as (client, _), client.get("/metrics", headers=headers) as response:
        assert response.status == status
    async with serving(SECRET) as (client, _), client.post("/-/reload", headers={**LOGIN, **headers}) as response:
        assert (response.status == 403) == ("Origin" in headers)


async def test_a_request_without_a_host_asks_nobody_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(socket, "getfqdn", lambda name="": asked.append(name) or "localhost")
    async with serving() as (client, _):
        reader, writer = await asyncio.open_connection(client.host, client.port)
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"403"
        writer.close()
    assert asked == []


async def test_a_storm_of_scrapes_makes_the_metrics_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "FRESH_SECONDS", 3600.0)
    async with serving() as (client, agent):
        made = 0
        text = agent.meters.text

        def counted(form: str) -> bytes:
            nonlocal made
            made += 1
            return text(form)

        monkeypatch.setattr(agent.meters, "text", counted)

        async def scrape() -> int:
            async with client.get("/metrics") as response:
                return len(await response.read())

        assert all(await asyncio.gather(*[scrape() for _ in range(50)]))
        assert made == 1


async def test_a_storm_of_scrapes_with_all_kinds_of_accept_makes_two_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "FRESH_SECONDS", 3600.0)
    async with serving() as (client, agent):
        made: list[str] = []
        text = agent.meters.text

        def counted(form: str) -> bytes:
            made.append(form)
            return text(form)

        monkeypatch.setattr(agent.meters, "text", counted)
        for number in range(30):
            accept = f"application/openmetrics-text; version=1.0.{number}, text/plain; version={number}"
            for header in (accept, f"text/plain; version={number}"):
                async with client.get("/metrics", headers={"Accept": header}) as response:
                    assert response.status == 200
        assert sorted(made) == [OPEN_METRICS, TEXT]


async def test_metrics_are_in_the_form_that_the_scraper_asks_for() -> None:
    async with serving() as (client, _):
        for accept, form, last in (
            (PROMETHEUS_ACCEPTS, OPEN_METRICS, b"\n# EOF\n"),
            ("text/plain", TEXT, b"\n"),
            ("application/openmetrics-text; version=x", TEXT, b"\n"),
        ):
            async with client.get("/metrics", headers={"Accept": accept}) as response:
                assert response.headers["Content-Type"] == form
                content = await response.read()
            assert content.endswith(last)
            assert (b"# EOF" in content) == (form == OPEN_METRICS)
        headers = [("Accept", "text/html"), ("Accept", "application/openmetrics-text")]
        async with client.get("/metrics", headers=headers) as response:
            assert response.headers["Content-Type"] == OPEN_METRICS


async def test_answers_are_made_by_few_threads_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "FRESH_SECONDS", 0.0)
    async with serving() as (client, _):
        before = threading.active_count()
        for _ in range(300):
            paths = ("metrics", "debug/pprof/heap", "debug/pprof/allocs")
            answers = await asyncio.gather(*[client.get(f"/{path}") for path in paths])
            assert [answer.status for answer in answers] == [200, 200, 200]
        assert threading.active_count() <= before + server_module.WORKERS


async def test_a_client_that_takes_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SEND_SECONDS", 0.2)
    async with serving() as (client, agent):
        monkeypatch.setattr(agent.meters, "text", lambda _: b"x" * (64 << 20))
        reader, writer = await asyncio.open_connection(client.host, client.port, limit=1024)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await writer.drain()
        await reader.readexactly(12)
        await asyncio.sleep(1)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(64 << 20)
        writer.close()
        async with client.get("/healthz") as response:
            assert response.status == 200


@pytest.mark.parametrize("at_once", [True, False])
async def test_clients_that_take_no_answer_hold_few_connections(monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    """Also when many connect in one moment."""
    monkeypatch.setattr(server_module, "CONNECTIONS", 3)
    agent = Agent(OPEN)
    monkeypatch.setattr(agent.meters, "text", lambda _: b"x" * (64 << 20))
    runner = web.AppRunner(agent.server.application())
    await runner.setup()
    assert runner.server is not None
    listening = socket.create_server(("127.0.0.1", 0))
    accept = partial(agent.server._accept, runner.server)
    accepting = await asyncio.get_running_loop().create_server(accept, sock=listening)
    with ExitStack() as stack:
        for _ in range(10):
            client = stack.enter_context(socket.create_connection(listening.getsockname()))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            if not at_once:
                await asyncio.sleep(0.02)
        await until(lambda: len(runner.server.connections) == 3)
        await asyncio.sleep(0.1)
        assert len(runner.server.connections) == 3
    accepting.close()
    await runner.cleanup()


MALFORMED = (
    b"GET \x1b[31m\nevent=attach by=root HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\0\0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \x00secret\r\n\r\n",
    b"POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
)


@asynccontextmanager
async def running(agent: Agent) -> AsyncIterator[tuple[str, int]]:
    """Its server as :meth:`FleetServer.run` makes it; where it listens."""
    runner = agent.server.runner(agent.server.application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0]
    finally:
        await runner.cleanup()


async def test_malformed_requests_are_refused_and_write_nothing_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever reaches the port could fill the journal, and quote a secret in it."""
    async with running(Agent(SECRET)) as address:
        for content in MALFORMED:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(content)
            assert (await reader.readline()).split()[1] == b"400", content
            writer.close()
    assert caplog.text == ""


async def test_an_answer_that_fails_is_one_line_of_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving() as (client, agent):
        monkeypatch.setattr(agent.host, "processes", lambda: {}["missing"])
        async with client.get("/processes") as response:
            assert response.status == 500
            assert "missing" not in await response.text()
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "event=error" in line]
    assert "reason=KeyError" in line


async def test_what_a_client_sends_is_not_decompressed() -> None:
    """Some hundred bytes would become megabytes, before a secret is asked for."""
    agent, packed = Agent(OPEN), gzip.compress(bytes(1 << 20))

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    application = agent.server.application()
    application.router.add_post("/echo", echo)
    agent.server.application = lambda: application  # type: ignore[method-assign]
    async with running(agent) as (host, port), ClientSession(timeout=PATIENCE) as client:
        headers = {"Content-Encoding": "gzip"}
        async with client.post(f"http://{host}:{port}/echo", data=packed, headers=headers) as response:
            assert await response.read() == packed


class HeldProfiles:
    """A host whose profiles take until :meth:`release`."""

    def __init__(self, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self._released = threading.Event()
        monkeypatch.setattr(agent.host, "profile", self._profile)

    def _profile(self, *_: object) -> bytes:
        self.made += 1
        assert self._released.wait(60)
        return b"profile"

    def release(self) -> None:
        self._released.set()


@asynccontextmanager
async def asking(client: TestClient, path: str) -> AsyncIterator[None]:
    """A client that sends a request, and closes its connection at the end without a look at the answer."""
    _, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    await writer.drain()
    yield
    writer.transport.abort()


async def until(met: Callable[[], bool]) -> None:
    """Let the server work until that is so."""

    async def wait() -> None:
        while not met():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), PATIENCE.total)


async def test_profiles_do_not_hold_up_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as (client, agent):
        held = HeldProfiles(agent, monkeypatch)
        async with asking(client, "/debug/pprof/heap"):
            await until(lambda: held.made == 1)
            try:
                async with client.get("/metrics", timeout=PATIENCE) as response:
                    assert response.status == 200
            finally:
                held.release()


async def test_requests_of_clients_that_have_gone_make_nothing_and_few_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS", 3)
    async with serving() as (client, agent):
        held, turns = HeldProfiles(agent, monkeypatch), agent.server._profile_turns
        async with asking(client, "/debug/pprof/heap"):
            await until(lambda: held.made == 1)
            for number in range(3):
                async with asking(client, "/debug/pprof/heap"):
                    await until(lambda number=number: turns._waiting == number + 1)
        try:
            async with client.get("/debug/pprof/heap", timeout=PATIENCE) as response:
                assert response.status == 503
                assert "Too many requests wait" in await response.text()
        finally:
            held.release()
        await until(lambda: turns._waiting == 0)
        async with client.get("/debug/pprof/heap") as response:
            assert await response.read() == b"profile"
        assert held.made == 2
    assert [record.getMessage() for record in caplog.records if record.name.startswith("aiohttp")] == []


async def test_the_health_check_fails_when_the_loop_has_ended() -> None:
    async with serving() as (client, agent):
        agent.host.stop()
        await asyncio.to_thread(agent.server._thread.join)
        async with client.get("/healthz") as response:
            assert response.status == 503


PASSWORD = "correct horse"
USERS = Access(users={"prometheus": bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4))})


def as_user(password: str, name: str = "prometheus") -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


async def test_a_user_needs_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "LOGIN_REST", 0.0)
    async with serving(USERS) as (client, _):
        for headers in (as_user(PASSWORD), as_user(PASSWORD)):
            async with client.get("/healthz", headers=headers) as response:
                assert response.status == 200
        for headers in (
            {},
            as_user("wrong"),
            as_user(PASSWORD, "other"),
            as_user(PASSWORD + "x" * 100),
            as_user(f"{PASSWORD}\0"),
            as_user(""),
            {"Authorization": "Basic !"},
            {"Authorization": f"Bearer {PASSWORD}"},
        ):
            async with client.get("/healthz", headers=headers) as response:
                assert response.status == 401, headers


async def test_what_is_kept_of_right_passwords_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """bcrypt reads 72 bytes: every longer password is as right."""
    long = "x" * 72
    users = Access(users={"prometheus": bcrypt.hashpw(long.encode(), bcrypt.gensalt(4))})
    async with serving(users) as (client, agent):
        for number in range(5):
            async with client.get("/healthz", headers=as_user(f"{long}{number}")) as response:
                assert response.status == 200
        assert len(agent.server._known_logins) == 1


async def test_nobody_is_a_user_by_the_hash_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that is of no password, or of one that ends where bcrypt stops to read."""
    monkeypatch.setattr(server_module, "LOGIN_REST", 0.0)
    users = Access(users={"open": bcrypt.hashpw(b"", bcrypt.gensalt(4))})
    async with serving(users) as (client, _):
        for password in ("", "wrong", "x" * 100):
            async with client.get("/healthz", headers=as_user(password, "nobody")) as response:
                assert response.status == 401, password


async def test_guessing_passwords_delays_nobody_who_has_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[bytes] = []

    def check(password: bytes, hashed: bytes) -> bool:
        checked.append(password)
        return password == PASSWORD.encode()

    monkeypatch.setattr(server_module, "is_password", check)
    monkeypatch.setattr(server_module, "LOGIN_REST", 3600.0)
    async with serving(USERS) as (client, _):
        async with client.get("/healthz", headers=as_user(PASSWORD)) as response:
            assert response.status == 200
        guesses = [asyncio.create_task(guess(client, number)) for number in range(20)]
        while len(checked) < 2:
            await asyncio.sleep(0.01)
        async with client.get("/healthz", headers=as_user(PASSWORD), timeout=PATIENCE) as response:
            assert response.status == 200
        assert len(checked) == 2, "one guess is checked, the others wait"
        for each in guesses:
            each.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)


async def guess(client: TestClient, number: int) -> None:
    async with client.get("/healthz", headers=as_user(f"guess {number}")):
        pass


@asynccontextmanager
async def listening(files: TlsFiles) -> AsyncIterator[tuple[int, Agent]]:
    """The host agent's own loop of connections, by TLS; its port."""
    agent = Agent(OPEN)
    agent.server = FleetServer(agent.host, agent.meters, OPEN, files)
    agent.server._thread.start()
    runner = web.AppRunner(agent.server.application())
    await runner.setup()
    assert runner.server is not None
    with socket.create_server(("127.0.0.1", 0)) as socket_:
        accepting = asyncio.create_task(agent.server._accept_all(socket_, runner.server))
        try:
            yield socket_.getsockname()[1], agent
        finally:
            accepting.cancel()
            await asyncio.gather(accepting, *agent.server._beginning, return_exceptions=True)
            await runner.cleanup()
            agent.host.stop()
            await asyncio.to_thread(agent.server._thread.join)


async def certificate_of(port: int) -> bytes:
    """That a new connection is served with."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting_all())
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


async def health_of(port: int) -> int:
    """The status that it answers with, by TLS."""
    url = f"https://127.0.0.1:{port}/healthz"
    async with ClientSession(timeout=PATIENCE) as client, client.get(url, ssl=trusting_all()) as response:
        return response.status


async def test_a_reload_reads_the_certificate_again_and_keeps_it_where_it_is_broken(tmp_path: Path) -> None:
    files = certificate(tmp_path)
    async with listening(files) as (port, agent):
        assert await health_of(port) == 200
        before = await certificate_of(port)
        files.certificate.write_text("no certificate")
        assert "cannot be used" in agent.server._reload()
        assert await certificate_of(port) == before
        certificate(tmp_path)
        assert agent.server._reload() == ""
        assert await certificate_of(port) != before


async def test_handshakes_that_are_not_ended_keep_nobody_out(tmp_path: Path) -> None:
    async with listening(certificate(tmp_path)) as (port, agent), AsyncExitStack() as stack:
        for _ in range(200):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
        assert await health_of(port) == 200
        assert len(agent.server._beginning) <= server_module.CONNECTIONS
