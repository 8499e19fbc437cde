"""A recording in a real browser: the screen that ``heaptop open --web`` serves, and the page that export writes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

pytest.importorskip("aiohttp", reason="the extra heaptop[web] is not installed")

import aiohttp

from heaptop.__main__ import main
from heaptop.cli.web import CONNECTIONS, PAGES
from tests.support import browser
from tests.support.processes import PATIENCE, eventually
from tests.support.recorded import written

pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """With a name that a shell, or a page, would misread."""
    return written(tmp_path / "night; <b>'$HOME'.heaptop")


class Served:
    """``heaptop open --web``, running."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address

    @property
    def screens(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: signal.Signals) -> int:
        """Its exit code; no process of it stays."""
        screens = self.screens
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        assert eventually(lambda: not any(is_alive(screen) for screen in screens))
        return code


def is_alive(process: psutil.Process) -> bool:
    """Not for a zombie: what outlives its parent is init's to reap, which not every container's does."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def served(recording: Path, *options: str) -> Iterator[Served]:
    with subprocess.Popen(
        [sys.executable, "-m", "heaptop", "open", str(recording), "--web", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "HEAPTOP_THEME")},
    ) as process:
        try:
            assert process.stdout is not None
            yield Served(process, process.stdout.readline().strip())
        finally:
            process.kill()


async def test_a_recording_is_looked_at_in_a_browser(recording: Path) -> None:
    with served(recording) as server:
        async with browser.page() as page:
            await page.open(server.address)
            await page.shows("Bands by type", "shop.models.Session", "recording")
            title = await page.evaluate("document.querySelector('.intro div').textContent")
            assert title == f"heaptop: {recording.name}"
            await page.press("2")
            await page.shows("2 Producers", "views.py:131")
            await page.press(",")
            await page.shows("15:34:40")
            assert len(server.screens) == 1
            await page.press("q")
            await page.until(
                "document.body.classList.contains('-closed') && document.querySelector('.message').textContent",
                lambda said: said == "Session ended.",
                lambda: "the page says that it has ended",
            )
            ours = urlsplit(server.address).netloc
            assert {urlsplit(each).netloc for each in page.requested} == {ours}
            assert page.complaints == [] or all("favicon" in each for each in page.complaints)
        assert eventually(lambda: not server.screens)
        assert server.end(signal.SIGINT) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_nothing_stays_when_the_server_ends_under_an_open_page(recording: Path, number: signal.Signals) -> None:
    with served(recording) as server:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{server.address}ws") as page:
            assert await drawn(page)
            assert len(server.screens) == 1
            code = await asyncio.to_thread(server.end, number)
        assert code == (0 if number != signal.SIGKILL else -number)


async def test_the_screen_ends_with_its_page(recording: Path) -> None:
    with served(recording) as server:
        async with browser.page() as page:
            await page.open(server.address)
            await page.shows("Bands by type")
            await page.close()
            assert await asyncio.to_thread(eventually, lambda: not server.screens)


async def test_only_who_knows_the_address_is_served(recording: Path) -> None:
    with served(recording) as server:
        netloc = urlsplit(server.address).netloc
        foreign: list[tuple[str, dict[str, str]]] = [
            (f"http://{netloc}/", {}),
            (f"http://{netloc}/ws", {}),
            (f"http://{netloc}/{'x' * 22}/ws", {}),
            (f"{server.address}ws", {"Origin": "http://elsewhere.example"}),
            (f"{server.address}ws", {"Origin": f"http://{netloc}0"}),
            (f"{server.address}ws", {"Origin": "null"}),
            (f"{server.address}ws", {"Host": "elsewhere.example"}),
            (server.address, {"Host": f"{netloc}, elsewhere.example"}),
            (server.address, {"Host": f"x@{netloc}"}),
            (server.address, {"Host": f"elsewhere.example:{urlsplit(server.address).port}"}),
        ]
        async with aiohttp.ClientSession() as session:
            for address, headers in foreign:
                async with session.get(address, headers=headers) as answer:
                    assert answer.status in (403, 404), (address, headers)
            assert server.screens == []
            name = f"localhost:{netloc.split(':')[1]}"  # as behind ssh -L
            async with session.get(server.address, headers={"Host": name}) as answer:
                assert f'"ws://{name}/' in await answer.text()
            async with session.ws_connect(f"{server.address}ws", headers={"Origin": f"http://{netloc}"}) as page:
                assert await drawn(page)


async def drawn(page: aiohttp.ClientWebSocketResponse, words: str = "Bands") -> bool:
    """Wait until the screen was drawn with these on it."""
    drawn = b""
    while words.encode() not in drawn:
        drawn += await asyncio.wait_for(page.receive_bytes(), PATIENCE)
    return True


async def test_a_screen_that_cannot_begin_ends_its_page(recording: Path) -> None:
    with served(recording) as server:
        recording.unlink()
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{server.address}ws") as page:
            assert (await page.receive(PATIENCE)).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)


def test_who_serves_others_is_told(recording: Path) -> None:
    with served(recording, "--host", "0.0.0.0") as server:
        assert server.end(signal.SIGTERM) == 0
        assert server.process.stderr is not None
        said = " ".join(server.process.stderr.read().split())
        assert "everyone who can reach 0.0.0.0" in said
        assert "nothing is encrypted" in said


def test_a_page_is_served_at_the_port_that_was_asked_for(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["open", str(recording), "--web", "--port", str(port)]) == 2
        assert "Address already in use" in capsys.readouterr().err
    with served(recording, "--port", str(port)) as server:
        assert urlsplit(server.address).port == port
        assert server.end(signal.SIGTERM) == 0


async def test_an_exported_page_is_drawn(recording: Path, tmp_path: Path) -> None:
    exported = tmp_path / "night.html"
    assert main(["export", str(recording), "--to", "html", "-o", str(exported)]) == 0
    async with browser.page() as page:
        await page.open(exported.as_uri())
        await page.until("document.readyState", lambda state: state == "complete", lambda: "it is loaded")
        assert "shop.models.Session" in await page.evaluate("document.body.innerText")
        marks = "[...document.querySelectorAll('svg path, svg polygon, svg rect')]"
        widths = await page.evaluate(f"{marks}.map(each => each.getBoundingClientRect().width)")
        assert sum(width > 100 for width in widths) > 3, "bands have a place on the page"
        assert page.complaints == []
        assert page.requested == [exported.as_uri()]


# -- a page that means harm -----------------------------------------------------------------------------------


@contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


async def test_a_page_writes_nothing_on_the_server(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "current"
    folder.mkdir()
    with in_folder(folder), served(recording) as server:
        async with browser.page() as page:
            await page.open(server.address)
            await page.shows("Bands by type")
            await page.press("s")
            await page.shows("read-only")
            await page.press("2")
            await page.shows("2 Producers")
            await page.press("s")
            await page.shows("read-only")
        assert [*folder.iterdir()] == []


async def test_no_key_or_command_of_a_page_writes_on_the_server(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "current"
    folder.mkdir()
    keys = ["s", "\x13", "\x12", "\x1a"]  # ctrl+s, ctrl+r, ctrl+z
    for command in ("save the table", "screenshot", "suspend", "suspend heaptop", "record"):
        keys += ["\x10", command, "\x1b", "\x10", command, "\r", "\x1b"]  # in the palette
    with in_folder(folder), served(recording) as server:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{server.address}ws") as page:
            assert await drawn(page)
            for key in keys:
                await page.send_json(["stdin", key])
                await asyncio.sleep(0.15)
            await page.send_json(["stdin", "2"])
            assert await drawn(page, "views.py:131")
            (screen,) = server.screens
            assert screen.status() != psutil.STATUS_STOPPED
            assert screen.rlimit(psutil.RLIMIT_FSIZE) == (0, 0), "whatever else there is, no byte goes to a file"
        assert [*folder.iterdir()] == []


async def test_the_size_of_a_page_is_bounded(recording: Path) -> None:
    with served(recording) as server:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{server.address}ws?width=90000&height=90000") as page,
        ):
            assert await drawn(page)
            (screen,) = server.screens
            for message in (
                ["resize", {"width": 90_000, "height": 90_000}],
                ["resize", {"width": -5, "height": 0}],
                ["stdin", "\x1b[48;90000;90000;0;0t"],
                ["resize", {"width": 90_000, "height": 20}],
            ):
                await page.send_json(message)
                await page.send_json(["stdin", ","])
                await asyncio.sleep(0.5)
            await page.send_json(["resize", {"width": 100, "height": 30}])
            assert await drawn(page)
            assert screen.memory_info().rss < 400 << 20, "90,000 columns took 717 MB"


async def test_it_ends_while_a_page_is_open(recording: Path) -> None:
    with served(recording) as server:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{server.address}ws") as page:
            assert await drawn(page)
            ending = asyncio.create_task(asyncio.to_thread(server.end, signal.SIGINT))
            async for _ in page:  # as a browser does, which also answers the pings
                pass
            assert await ending == 0


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "sent",
    [
        "[",
        "{}",
        "null",
        "[]",
        '["resize"]',
        '["resize", {"width": "a", "height": []}]',
        '["stdin", 5]',
        '["stdin", "\\ud800"]',
        '["resize", {"width": 1e999, "height": true}]',
        "[" * 5000,
    ],
)
async def test_what_means_nothing_is_passed_over(recording: Path, sent: str) -> None:
    with served(recording) as server:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{server.address}ws") as page:
            assert await drawn(page)
            await page.send_str(sent)
            await page.send_json(["ping", 7])
            while (message := await page.receive(PATIENCE)).type != aiohttp.WSMsgType.TEXT:
                assert message.type == aiohttp.WSMsgType.BINARY
            assert message.json() == ["pong", 7]
        assert server.end(signal.SIGINT) == 0


async def test_a_page_that_sends_too_much_is_closed(recording: Path) -> None:
    floods = [["x" * (65 << 10)], [f'["stdin", "\\u001b[200~{"x" * 8000}"]'] * 40, ['["ping", 1]'] * 4000]
    with served(recording) as server:
        for flood in floods:
            async with aiohttp.ClientSession() as session, session.ws_connect(f"{server.address}ws") as page:
                assert await drawn(page)
                with suppress(ConnectionError):
                    for message in flood:
                        await page.send_str(message)
                while (await page.receive(PATIENCE)).type not in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED):
                    pass
            assert await asyncio.to_thread(eventually, lambda: not server.screens)


async def test_half_open_connections_lock_nobody_out(recording: Path) -> None:
    """Some send nothing, some a part of a request, some a whole one to another path, or no body where one should be."""
    with served(recording) as server:
        address = urlsplit(server.address)
        place = ("127.0.0.1", address.port or 0)
        host = f"Host: {address.netloc}\r\n"
        beginnings = (
            "",
            "GET / HTTP/1.1\r\n",
            f"GET /ws HTTP/1.1\r\n{host}Upgrade: websocket\r\nConnection: Upgrade\r\n",
            f"GET / HTTP/1.1\r\n{host}\r\n",
            f"POST / HTTP/1.1\r\n{host}Content-Length: 1000\r\n\r\n",
        )
        with ExitStack() as opened:
            for number in range(200):
                connection = opened.enter_context(socket.create_connection(place))
                connection.sendall(beginnings[number % len(beginnings)].encode())
            assert eventually(lambda: accepted(server) <= CONNECTIONS)
            async with aiohttp.ClientSession() as session, session.ws_connect(f"{server.address}ws") as page:
                assert await drawn(page)
                for _ in range(CONNECTIONS + 1):
                    opened.enter_context(socket.create_connection(place))
                async with session.get(server.address) as answer:
                    assert answer.status == 200
                await page.send_json(["stdin", "2"])
                assert await drawn(page, "views.py:131")
                assert await asyncio.to_thread(eventually, lambda: accepted(server) <= 2), "none is kept for ever"


def accepted(server: Served) -> int:
    """Connections that the server holds."""
    return sum(each.status == psutil.CONN_ESTABLISHED for each in psutil.Process(server.process.pid).net_connections())


async def test_the_number_of_pages_is_bounded(recording: Path) -> None:
    with served(recording) as server:
        async with aiohttp.ClientSession() as session:
            pages = [await session.ws_connect(f"{server.address}ws") for _ in range(PAGES)]
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(f"{server.address}ws")
            assert refused.value.status == 503
            await pages.pop().close()
            assert await asyncio.to_thread(eventually, lambda: len(server.screens) < PAGES)
            async with await in_time(session, f"{server.address}ws") as page:
                assert await drawn(page)
            for each in pages:
                await each.close()


async def in_time(session: aiohttp.ClientSession, address: str) -> aiohttp.ClientWebSocketResponse:
    """A page, once the server has seen that another one's process is gone."""
    for _ in range(200):
        with contextlib.suppress(aiohttp.WSServerHandshakeError):
            return await session.ws_connect(address)
        await asyncio.sleep(0.05)
    return await session.ws_connect(address)
