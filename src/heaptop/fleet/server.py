"""What the host agent serves over HTTP: metrics, profiles, its state. Requests read; none but a reload changes
anything, and none makes a census.
"""

from __future__ import annotations

import asyncio
import hmac
import html
import logging
import secrets
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeVar
from urllib.parse import urlsplit

from aiohttp import web

from heaptop.analysis.reports.stack_sums import ALLOCATED, LIVE
from heaptop.errors import ConfigError, HeaptopError, UsageError
from heaptop.fleet.access import Access, is_loopback, listening_at
from heaptop.fleet.audit import audit
from heaptop.fleet.host import ROUND, FleetHost, use_one_arena
from heaptop.fleet.metrics import HostMeters, form_for
from heaptop.fleet.pushing import ProfilePusher
from heaptop.fleet.web_config import TlsFiles, is_password

CONNECTIONS: Final = 64  # At the same time; beyond, the oldest is aborted. As many requests may wait for their turn.
IDLE_SECONDS: Final = 10.0  # For the head of a request, and between two of them
SEND_SECONDS: Final = 30.0  # For a client to take an answer
WORKERS: Final = 3
"""Threads that make answers: metrics, a profile and the check of a password, each of which is one at a time."""
FRESH_SECONDS: Final = 1.0  # For which metrics of a form are not made again, however many scrapes come
REQUEST_BYTES: Final = 4096  # Of a request's body: none needs one
ACCEPT_REST: Final = 0.5  # Seconds after a connection could not be accepted
LOGIN_REST: Final = 0.5  # Seconds after a wrong password of a user
STOP_SECONDS: Final = 60.0  # For all processes to be detached from

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}
_ABOUT: Final = {
    "/metrics": "metrics for Prometheus, also as OpenMetrics",
    "/debug/pprof/heap": "pprof profile of what lives (?service=NAME, ?pid=N)",
    "/debug/pprof/allocs": "pprof profile of what was allocated since the attach",
    "/processes": "attached and refused processes, JSON",
    "/healthz": "whether the agent runs",
}

_SILENT: Final = logging.Logger("heaptop.serve", logging.CRITICAL + 1)

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def listening_socket(address: str, access: Access) -> socket.socket:
    """Bind ``HOST:PORT``, or ``[HOST]:PORT``.

    Raises:
        UsageError: it is no such address, is taken, or other machines could read it without a secret.
    """
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or port is None or parts.path or parts.username is not None:
        raise UsageError(f"{address} is not an address.", fix="Write it as 127.0.0.1:9917.")
    if access.is_open and not is_loopback(host):
        raise UsageError(
            f"Other machines could reach {address}, and nothing asks for a secret.",
            why="Metrics and profiles show the names of types, functions and files of the processes.",
            fix="Listen on 127.0.0.1, or ask for a secret: `--credentials FILE`, or `--web-config FILE` with users.",
        )
    try:
        return listening_at(host, port)
    except OSError as error:
        raise UsageError(
            f"Cannot listen on {address}: {error.strerror}.", fix="Choose another with `--listen`."
        ) from None


class _Turns:
    """Lets one request at a time do its work. A handler stays when its client has gone: so few may wait, and none works
    for nobody."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0

    @asynccontextmanager
    async def take(self, request: web.Request) -> AsyncIterator[None]:
        """Wait for the turn of this request. Raises HTTPServiceUnavailable."""
        if self._waiting >= CONNECTIONS:
            raise web.HTTPServiceUnavailable(text="Too many requests wait. Try again later.\n")
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        try:
            if request.transport is None:
                raise web.HTTPServiceUnavailable  # to nobody: the client has gone
            yield
        finally:
            self._lock.release()


class FleetServer:
    """The HTTP server of one host agent."""

    def __init__(
        self, host: FleetHost, meters: HostMeters, access: Access, certificate: TlsFiles | None = None
    ) -> None:
        """Serves by TLS where there is a certificate. Raises ConfigError where that cannot be used."""
        self._certificate = certificate
        self._tls = certificate.context() if certificate is not None else None
        self._beginning: list[asyncio.Task[None]] = []
        """Connections that are accepted, and whose TLS handshake is not over; the oldest first."""
        self._logins = _Turns()
        self._known_logins: set[bytes] = set()
        """Digests of logins of users that were right: each takes a user's password, so there are few."""
        self._digest_key = secrets.token_bytes(32)
        self._host = host
        self._meters = meters
        self._access = access
        self._thread = threading.Thread(target=host.run, name="heaptop-fleet", daemon=True)
        self._pusher = ProfilePusher(host, meters)
        self._workers = ThreadPoolExecutor(WORKERS, "heaptop-answer")
        self._metrics_turns = _Turns()
        self._profile_turns = _Turns()
        self._metrics: dict[str, tuple[float, bytes]] = {}
        """By form: when they were made, and they."""
        self._reloaded_at = float("-inf")  # By a request

    async def run(self, listening: socket.socket, ready: Callable[[], None]) -> None:
        """Serve until SIGTERM or SIGINT, and detach from every process. SIGHUP reads the configuration again."""
        use_one_arena()
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        runner = self.runner(self.application())
        await runner.setup()
        assert runner.server is not None
        self._thread.start()
        self._pusher.start()
        try:
            accepting = loop.create_task(self._accept_all(listening, runner.server))
            ready()
            await ended.wait()
            for task in (accepting, *self._beginning):
                task.cancel()
        finally:
            self._host.stop()
            await asyncio.to_thread(self._pusher.stop)
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)
            await runner.cleanup()
            self._workers.shutdown()

    def runner(self, application: web.Application) -> web.AppRunner:
        """How requests are read. aiohttp logs each malformed one with its content, before a secret is asked for:
        whoever reaches the port could fill the journal. No body is used, so none is decompressed."""
        return web.AppRunner(
            application,
            access_log=None,
            logger=_SILENT,
            auto_decompress=False,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=0,
            shutdown_timeout=1.0,
        )

    def application(self) -> web.Application:
        """All paths."""
        application = web.Application(middlewares=[self._guard], client_max_size=REQUEST_BYTES)
        application.add_routes(
            [
                web.get("/", self._index),
                web.get("/metrics", self._answer_metrics),
                web.get("/debug/pprof/heap", partial(self._answer_profile, of=LIVE)),
                web.get("/debug/pprof/allocs", partial(self._answer_profile, of=ALLOCATED)),
                web.get("/processes", self._answer_processes),
                web.get("/healthz", self._answer_health),
                web.post("/-/reload", self._answer_reload),
            ]
        )
        return application

    async def _accept_all(self, listening: socket.socket, server: web.Server) -> None:
        """Hand each connection to the server. Who only begins handshakes loses the oldest, too."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError:  # such as too many descriptors: some are closed in time
                await asyncio.sleep(ACCEPT_REST)
                continue
            task = loop.create_task(self._begin(connection, server))
            self._beginning.append(task)
            task.add_done_callback(self._beginning.remove)
            for late in self._beginning[:-CONNECTIONS]:
                late.cancel()

    async def _begin(self, connection: socket.socket, server: web.Server) -> None:
        patience = IDLE_SECONDS if self._tls is not None else None
        with suppress(OSError, asyncio.TimeoutError):  # the client has gone, or does not speak TLS
            await asyncio.get_running_loop().connect_accepted_socket(
                partial(self._accept, server), connection, ssl=self._tls, ssl_handshake_timeout=patience
            )

    def _accept(self, server: web.Server) -> asyncio.Protocol:
        """Of a new connection. The server counts it a moment later, and many may come in one: only then is it known how
        many there are."""
        asyncio.get_running_loop().call_later(0, _keep_few, server)
        return server()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let in who may read this, and send the answer in bounded time."""
        if not await self._lets_in(request):
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": 'Basic realm="heaptop", Bearer'})
        # A page in a browser of this machine must not read it under another name (DNS rebinding), nor send a reload.
        host = request.headers.get("Host", "")  # request.host asks DNS for this machine's name where there is none
        origin = request.headers.get("Origin")
        if (self._access.is_open and not _is_this_machine(host)) or (
            origin is not None and not _is_at(origin, host)
        ):
            raise web.HTTPForbidden(text="This is served to its own address only.\n")
        try:
            response = await handler(request)
        except web.HTTPException:
            raise
        except Exception as error:
            audit("error", reason=type(error).__name__, message=f"{request.path}: {error}")
            raise web.HTTPInternalServerError(text="heaptop could not answer. Its log has the reason.\n") from None
        response.headers.update(_HEADERS)
        try:
            await asyncio.wait_for(_send(request, response), SEND_SECONDS)
        except asyncio.TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # the client has gone
        return response

    async def _lets_in(self, request: web.Request) -> bool:
        """Whether the request has a secret. To check a user's password takes long: one is checked at a time, and after
        a wrong one there is a rest, so that guessing takes no more than a part of one core."""
        header = request.headers.get("Authorization", "")
        if self._access.allows(header):
            return True
        login = self._access.user_login(header)
        if login is None:
            return False
        digest = hmac.digest(self._digest_key, login, "sha256")
        if digest in self._known_logins:
            return True
        async with self._logins.take(request):
            if digest not in self._known_logins:
                is_right = await self._work(is_password, *self._access.hash_of(login))
                if not (is_right and self._access.is_user(login)):
                    await asyncio.sleep(LOGIN_REST)
                    return False
                self._known_logins.add(digest)
        return True

    async def _work(self, function: Callable[..., T], *arguments: object) -> T:
        """Call it on a thread of our own. asyncio's threads become more with time, up to 32, because one that has just
        answered counts as busy for a moment."""
        return await asyncio.get_running_loop().run_in_executor(self._workers, function, *arguments)

    async def _index(self, _: web.Request) -> web.Response:
        links = [f'<li><a href="{path}">{path}</a> {html.escape(about)}' for path, about in _ABOUT.items()]
        head = "<!doctype html><meta charset=utf-8><title>heaptop serve</title><h1>heaptop serve</h1>"
        return web.Response(text="\n".join([head, "<ul>", *links, "</ul>\n"]), content_type="text/html")

    async def _answer_metrics(self, request: web.Request) -> web.Response:
        form = form_for(",".join(request.headers.getall("Accept", ())))
        async with self._metrics_turns.take(request):
            made_at, content = self._metrics.get(form, (float("-inf"), b""))
            if time.monotonic() - made_at > FRESH_SECONDS:
                content = await self._work(self._meters.text, form)
                self._metrics[form] = time.monotonic(), content
        return web.Response(body=content, headers={"Content-Type": form})

    async def _answer_profile(self, request: web.Request, of: str) -> web.Response:
        asked = request.query.get("pid")
        if asked is not None and not (asked.isascii() and asked.isdigit() and len(asked) < 10):
            raise web.HTTPBadRequest(text="pid is not a process id.\n")
        pid = int(asked) if asked is not None else None
        async with self._profile_turns.take(request):
            try:
                content = await self._work(self._host.profile, of, request.query.get("service"), pid)
            except HeaptopError as error:
                raise web.HTTPServiceUnavailable(text=f"{error.message}\n") from None
        name = {"Content-Disposition": 'attachment; filename="heap.pb.gz"'}
        return web.Response(body=content, content_type="application/octet-stream", headers=name)

    async def _answer_processes(self, _: web.Request) -> web.Response:
        return web.json_response(self._host.processes())

    async def _answer_health(self, _: web.Request) -> web.Response:
        if not self._thread.is_alive():
            raise web.HTTPServiceUnavailable(text="The loop that attaches to processes has ended.\n")
        return web.Response(text="ok\n")

    async def _answer_reload(self, _: web.Request) -> web.Response:
        """Read the configuration again: not without a secret, because an error shows what is in the file, and no more
        often than the host looks for processes by itself, because it then looks at once."""
        if self._access.is_open:
            raise web.HTTPForbidden(text="A reload over HTTP needs a secret. Send SIGHUP instead.\n")
        if time.monotonic() - self._reloaded_at < ROUND:
            raise web.HTTPTooManyRequests(text=f"Only one reload in {ROUND:g} s. Try again later.\n")
        self._reloaded_at = time.monotonic()
        why = self._reload()
        if why:
            raise web.HTTPInternalServerError(text=f"The earlier configuration stays in force. {why}\n")
        return web.Response(text="reloaded\n")

    def _reload(self) -> str:
        """Read the configuration, and the certificate. Why that failed; empty where it did not."""
        try:
            tls = self._certificate.context() if self._certificate is not None else None
            self._host.reload()
            self._tls = tls  # of connections from now on
        except ConfigError as error:
            audit("reload", result="failed", message=error.message)
            return error.message
        audit("reload", result="done")
        return ""


def _keep_few(server: web.Server) -> None:
    """A client that only holds connections loses the oldest, and keeps no other out. They are aborted: a connection
    that is closed stays as long as its client takes no answer."""
    for each in server.connections[:-CONNECTIONS]:
        if each.transport is not None:
            each.transport.abort()


async def _send(request: web.Request, response: web.StreamResponse) -> None:
    await response.prepare(request)
    await response.write_eof()


def _is_at(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc == host
    except ValueError:
        return False


def _is_this_machine(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
