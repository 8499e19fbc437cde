"""What ``heaptop serve`` answers, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("aiohttp", reason="the extra heaptop[serve] is not installed")

from aiohttp.test_utils import TestClient, TestServer

from heaptop.errors import ConfigError
from heaptop.fleet import server as server_module
from heaptop.fleet.access import Access
from heaptop.fleet.configuration import FleetConfig
from heaptop.fleet.host import FleetHost
from heaptop.fleet.metrics import HostMeters
from heaptop.fleet.server import FleetServer
from tests.support.profiles import Profile

TOKEN = "0123456789abcdef"
PATHS = ("/", "/metrics", "/debug/pprof/heap", "/debug/pprof/allocs", "/processes", "/healthz")


OPEN = Access()


class Agent:
    """A host without processes, and its server."""

    def __init__(self, access: Access) -> None:
        self.broken = False
        self.meters = HostMeters()
        self.host = FleetHost(self._load, self.meters, scan=list)
        self.server = FleetServer(self.host, self.meters, access)

    def _load(self) -> FleetConfig:
        if self.broken:
            raise ConfigError("fleet.toml: unknown key `limits`.")
        return FleetConfig()


@asynccontextmanager
async def serving(access: Access = OPEN) -> AsyncIterator[tuple[TestClient, Agent]]:
    agent = Agent(access)
    agent.server._thread.start()
    try:
        async with TestClient(TestServer(agent.server.application())) as client:
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


async def test_a_broken_file_is_reported_and_a_reload_is_a_post() -> None:
    async with serving() as (client, agent):
        async with client.get("/-/reload") as response:
            assert response.status == 405
        async with client.post("/-/reload") as response:
            assert response.status == 200
        agent.broken = True
        async with client.post("/-/reload") as response:
            assert response.status == 500
            assert "unknown key `limits`" in await response.text()


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
    async with serving(Access((TOKEN.encode(),))) as (client, _):
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
    ],
)
async def test_a_page_of_another_site_reads_nothing(headers: Mapping[str, str], status: int) -> None:
    async with serving() as (client, _):
        async with client.get("/metrics", headers=headers) as response:
            assert response.status == status
        async with client.post("/-/reload", headers=headers) as response:
            assert response.status == status


async def test_a_storm_of_scrapes_makes_the_metrics_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "FRESH_SECONDS", 3600.0)
    async with serving() as (client, agent):
        made = 0
        text = agent.meters.text

        def counted() -> bytes:
            nonlocal made
            made += 1
            return text()

        monkeypatch.setattr(agent.meters, "text", counted)

        async def scrape() -> int:
            async with client.get("/metrics") as response:
                return len(await response.read())

        assert all(await asyncio.gather(*[scrape() for _ in range(50)]))
        assert made == 1


async def test_a_client_that_takes_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SEND_SECONDS", 0.2)
    async with serving() as (client, agent):
        monkeypatch.setattr(agent.meters, "text", lambda: b"x" * (64 << 20))
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


async def test_the_health_check_fails_when_the_loop_has_ended() -> None:
    async with serving() as (client, agent):
        agent.host.stop()
        await asyncio.to_thread(agent.server._thread.join)
        async with client.get("/healthz") as response:
            assert response.status == 503
