"""Serves a command's screen to browsers, by textual-serve: each page that is opened runs the command once.

A page can look and do nothing else: its screen is told to be read-only, and may write no byte to any file. What a page
may ask for is bounded: cells, bytes, messages, and pages at the same time.

This module never serves anybody who does not know the address: a path in it is drawn by lot, so that other users of the
machine and other pages in the reader's browser find nothing. The page loads nothing from anywhere else.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import resource
import secrets
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from aiohttp import WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from heaptop.cli.terminal import notice
from heaptop.errors import UsageError
from heaptop.fleet.access import is_loopback, listening_at

PATIENCE: Final = 5.0  # Seconds that a screen has for its end, once its page is closed

PAGES: Final = 8  # Open at the same time: each is a process that has read the recording
CONNECTIONS: Final = 64
"""Held at the same time, those of pages included; beyond, the oldest that has not asked for a page is closed."""
IDLE_SECONDS: Final = 5.0  # For the head of a request, and between two of them
LARGEST: Final = (400, 150)  # Columns and rows of a screen; each cell takes two kilobytes
MESSAGE: Final = 64 << 10  # Bytes of one message of a page; more ends it
BYTES_A_SECOND: Final = 16 << 10
MESSAGES_A_SECOND: Final = 200
"""What comes faster in the long run ends the page: a mouse that is moved sends a tenth of it."""
BURST: Final = 8  # Seconds whose messages may come at once
MEMORY: Final = 3 << 30  # Bytes of address space of a page's process

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_HEAD: Final = """<link rel="icon" href="data:,">
<style>
@font-face {{ font-family: "Roboto Mono"; src: url("{static}fonts/RobotoMono-VariableFont_wght.ttf"); }}
@font-face {{
  font-family: "Roboto Mono"; font-style: italic; src: url("{static}fonts/RobotoMono-Italic-VariableFont_wght.ttf");
}}
html, body {{ margin: 0; overflow: hidden; }}
</style>
<script>
// Keys are the terminal's from the beginning, and cells are as wide as in the font that comes.
addEventListener("load", () => {{
  setTimeout(() => document.querySelector(".xterm-helper-textarea").focus());
  document.fonts.load('16px "Roboto Mono"').then(() => dispatchEvent(new Event("resize")));
}});
</script>"""
"""In place of what the page would load from elsewhere."""
_HEADERS: Final = {
    # Scripts and styles are the page's own, some of them in the page.
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_HOST: Final = re.compile(r"[A-Za-z0-9.:\[\]-]+")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def own_command(*arguments: str) -> list[str]:
    """This heaptop with these arguments, whatever the current directory holds."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from heaptop.__main__ import main; sys.exit(main())"
    return [sys.executable, "-c", code, *arguments]


def serve(command: Sequence[str], title: str, host: str, port: int) -> None:
    """Serve until ctrl+C or SIGTERM; the address is printed on stdout. No process of ours stays.

    Raises:
        UsageError: there cannot be listened at this host and port.
    """
    listening = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    server = _Server(command, title, host, f"http://{shown}:{listening.getsockname()[1]}")
    if not is_loopback(host):
        notice(
            f"everyone who can reach {host} and knows this address can read the recording (names of types, "
            "functions and files), and so can anyone on the network path: nothing is encrypted."
        )
    asyncio.run(server.run(listening))


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listening_at(host, port)
    except socket.gaierror as error:
        raise UsageError(f"Cannot serve at {host}: {error.strerror}.", fix="Leave `--host` out.") from None
    except OSError as error:
        raise UsageError(
            f"A page cannot be served at {host}, port {port}: {error.strerror}.",
            fix="Leave `--port` out to use a free port.",
        ) from None


class _Server(Server):
    """textual-serve's server behind a guard."""

    def __init__(self, command: Sequence[str], title: str, host: str, address: str) -> None:
        super().__init__(" ".join(command), host, title=title, public_url=address)
        self.prefix = f"/{secrets.token_urlsafe(16)}"
        self._argv = command
        self._pages: dict[asyncio.Task[object], object] = {}  # The task of each page, and its connection
        self._readers: set[object] = set()  # Connections that have asked for something below prefix

    async def run(self, listening: socket.socket) -> None:
        """Serve until ctrl+C or SIGTERM."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        runner = web.AppRunner(
            await self.application(),
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=0,
            shutdown_timeout=PATIENCE,
        )
        await runner.setup()
        assert runner.server is not None
        try:
            accepting = await loop.create_server(partial(self._accept, runner.server), sock=listening)
            await ended.wait()
            accepting.close()  # and not waited for: that lasts as long as any page is open
        finally:
            await runner.cleanup()

    def _accept(self, server: web.Server) -> asyncio.Protocol:
        """Of a new connection. Who only holds connections loses the oldest to it, and keeps nobody out."""
        held, pages = server.connections, self._pages.values()
        self._readers.intersection_update(held)
        others = sorted((each for each in held if each not in pages), key=self._readers.__contains__)
        for each in others[: max(len(held) + 1 - CONNECTIONS, 0)]:
            each.force_close()
        return server()

    async def application(self) -> web.Application:
        """All of it, below :attr:`prefix`."""
        application = web.Application(middlewares=[self._guard])
        application.add_subapp(self.prefix, await self._make_app())
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what a foreign page in the reader's browser sends: under another name for this address (DNS
        rebinding), or from another origin."""
        origin = request.headers.get("Origin")
        if not self._is_our_name(request.host) or (origin is not None and urlsplit(origin).netloc != request.host):
            raise web.HTTPForbidden(text="This page is served to its own address only.")
        if request.path.startswith(f"{self.prefix}/"):
            self._readers.add(request.protocol)
        return await handler(request)

    def _is_our_name(self, host: str) -> bool:
        if not _HOST.fullmatch(host):
            return False  # it would be in the page
        with suppress(ValueError):
            name = urlsplit(f"//{host}").hostname or ""
            if name in ("localhost", self.host):
                return True
            ip_address(name)  # no name of anybody's
            return True
        return False

    async def handle_index(self, request: web.Request) -> web.StreamResponse:
        """The page, without what it would load from elsewhere; by the address that the browser knows, which differs
        from ours behind ssh -L."""
        self.public_url = f"http://{request.host}"
        page: web.Response = await super().handle_index(request)  # type: ignore[assignment]  # as its decorator makes it
        static = request.app.router["static"].url_for(filename="/")
        head = _HEAD.format(static=f"{static}".rstrip("/") + "/")
        elsewhere = rf'<link\s[^>]*href="https?://(?!{re.escape(request.host)}/)[^>]*>'
        page.text = re.sub(elsewhere, head, page.text or "")
        page.headers.update(_HEADERS)
        return page

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """One page: its screen lives as long as it does."""
        if len(self._pages) >= PAGES:
            raise web.HTTPServiceUnavailable(text=f"{PAGES} pages are open, the maximum: close one.")
        websocket = web.WebSocketResponse(heartbeat=15, timeout=1.0, max_msg_size=MESSAGE)
        task = asyncio.current_task()
        assert task is not None
        self._pages[task] = request.protocol
        try:
            await websocket.prepare(request)
            await self._show(request, websocket)
        finally:
            del self._pages[task]
        return websocket

    async def _show(self, request: web.Request, websocket: web.WebSocketResponse) -> None:
        screen = _Screen(
            self.command,
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=websocket.close,  # type: ignore[arg-type]  # what it returns is nobody's concern
            download_manager=self.download_manager,
        )
        screen.argv = self._argv
        try:
            size = (to_int(request.query.get(side, ""), default) for side, default in (("width", 80), ("height", 24)))
            await screen.start(*bounded(*size))
            await self._process_messages(websocket, screen)
        finally:
            await screen.stop()
            await websocket.close()

    async def _process_messages(self, websocket: web.WebSocketResponse, app_service: AppService) -> None:
        """Pass on what a page sends, as far as it means anything; a page that sends too much is closed."""
        messages, volume = _Rate(MESSAGES_A_SECOND), _Rate(BYTES_A_SECOND)
        async for message in websocket:
            if message.type != WSMsgType.TEXT:
                return
            if not (messages.allows(1) and volume.allows(len(message.data))):
                return
            match _parsed(message.data):
                case ["stdin", str(text)]:
                    await app_service.send_bytes(text.encode("utf-8", "replace"))
                case ["resize", {"width": int(width), "height": int(height)}]:
                    await app_service.set_terminal_size(*bounded(width, height))
                case ["ping", str() | int() | float() as data]:
                    await websocket.send_json(["pong", data])
                case ["blur", *_]:
                    await app_service.blur()
                case ["focus", *_]:
                    await app_service.focus()

    async def on_startup(self, app: web.Application) -> None:
        """Signals are handled from now on."""
        notice("Press Ctrl+C to stop. Everyone who opens this address sees the recording:")
        print(f"{self.public_url}{self.prefix}/", flush=True)

    async def on_shutdown(self, app: web.Application) -> None:
        """Close every page."""
        for page in self._pages:
            page.cancel()


def bounded(width: int, height: int) -> tuple[int, int]:
    """The size of a screen that a page asks for, as far as it has that."""
    return min(max(width, 1), LARGEST[0]), min(max(height, 1), LARGEST[1])


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class _Rate:
    """So much a second in the long run, and :data:`BURST` seconds of it at once."""

    def __init__(self, second: float, now: Callable[[], float] = time.monotonic) -> None:
        self._second = second
        self._now = now
        self._left = second * BURST
        self._at = now()

    def allows(self, amount: float) -> bool:
        """Whether so much may come now."""
        at = self._now()
        self._left = min(self._left + (at - self._at) * self._second, self._second * BURST) - amount
        self._at = at
        return self._left >= 0


class _Screen(AppService):
    """The process of one page."""

    argv: Sequence[str] = ()

    async def _open_app_process(self, width: int = 80, height: int = 24) -> asyncio.subprocess.Process:
        """Without a shell, out of reach of the terminal's ctrl+C, and not to outlive this process."""
        self._process = await asyncio.create_subprocess_exec(
            *self.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,
            preexec_fn=partial(_confine, os.getpid()),
        )
        self._stdin = self._process.stdin
        return self._process

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        """Python writes no bytecode, which it could not."""
        return {**super()._build_environment(width, height), "PYTHONDONTWRITEBYTECODE": "1"}

    async def on_meta(self, data: bytes) -> None:
        """Of what the screen asks for beside drawing only its end: no address is opened and no file sent."""
        if json.loads(data).get("type") == "exit":
            await super().on_meta(data)

    async def on_packed(self, payload: bytes) -> None:
        """No file is sent."""

    async def run(self) -> None:
        """Carry what the screen draws; the page ends with it."""
        await super().run()
        with suppress(ConnectionError):
            await self.remote_close()

    async def stop(self) -> None:
        """Ask it to end, and see to it."""
        try:
            await asyncio.wait_for(super().stop(), PATIENCE)
        except asyncio.TimeoutError:
            notice("a screen did not exit and was killed")
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


def _confine(parent: int) -> None:
    """Of the child, before it executes: it ends with its parent, writes no byte to any file, and has bounded memory.

    It gets no capability back that its parent has dropped; an execve that gains one would forget the signal, too
    (commit_creds in the kernel's cred.c). SIGKILL, since it has nothing to put in order.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if os.getppid() != parent:
        os._exit(1)
