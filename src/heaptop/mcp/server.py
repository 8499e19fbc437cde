"""The server: tools, resources and prompts by the official SDK, over stdio or over HTTP on loopback."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, Resource, TextContent, ToolAnnotations
from pydantic import Field

from heaptop import api
from heaptop.errors import HeaptopError, UsageError
from heaptop.injector.api import AttachOptions, diagnose
from heaptop.injector.inspect.process import user_name
from heaptop.injector.processes import processes_and_refusals
from heaptop.mcp import prompts, summaries
from heaptop.mcp.answers import MARKED, Answer, error_text
from heaptop.mcp.attaching import Attaching
from heaptop.mcp.recordings import RecordingsFolder

INSTRUCTIONS: Final = (
    "heaptop reads the heap of running CPython processes: which types are large, which lines leak, what keeps objects "
    "alive. Every tool only reads; an attach pauses the process for some milliseconds. Begin with list_processes, or "
    f"with hunt_leaks if the pid is known. {MARKED}"
)
URI: Final = "heaptop://recordings/"
GRACE: Final = 5  # Seconds for requests over HTTP to end, when the server ends

Pid = Annotated[int, Field(ge=1, le=1 << 22, description="Process id, as list_processes reports it.")]
Top = Annotated[int, Field(ge=1, le=20, description="Rows of the answer.")]
Name = Annotated[str, Field(max_length=1_000, description="Name of a recording, as the resources list it.")]
Where = Annotated[
    str, Field(max_length=1_000, description="Only objects like these: type:app.Session, module:shop; empty for all.")
]
Moment = Annotated[
    float | None, Field(ge=0, le=1e9, description="Seconds after the beginning of the recording; null for its end.")
]


class Tools:
    """The tools. Each docstring is what a model reads about it."""

    def __init__(self, attaching: Attaching, recordings: RecordingsFolder | None) -> None:
        self._attaching = attaching
        self._recordings = recordings

    async def list_processes(self, context: Context) -> CallToolResult:
        """List running Python processes, the largest first, and whether heaptop can attach. Nothing is touched."""

        def work() -> Answer:
            listed = processes_and_refusals()
            own = [one for one in listed if self._attaching.any_user or one[0].user == user_name(os.geteuid())]
            return summaries.processes_answer(own, len(listed) - len(own))

        return await self._worked(context, work)

    async def doctor(
        self,
        context: Context,
        pid: Annotated[int | None, Field(ge=1, le=1 << 22, description="Process id; null for the machine.")] = None,
    ) -> CallToolResult:
        """Check whether heaptop can attach to a process, and how to fix what prevents it. Nothing is touched."""

        def work() -> Answer:
            if pid is not None:
                self._attaching.refuse_others(pid)
            return summaries.doctor_answer(diagnose(pid, AttachOptions(**self._attaching.options)))

        return await self._worked(context, work)

    async def census(
        self,
        context: Context,
        pid: Pid,
        by: Literal["type", "module", "generation"] = "type",
        where: Where = "",
        top: Top = 10,
    ) -> CallToolResult:
        """Count all live objects of a process now: which types or modules are large."""
        return await self._attached(
            context, pid, lambda process: summaries.census_answer(pid, process.census(by, where), top)
        )

    async def allocation_sites(
        self,
        context: Context,
        pid: Pid,
        seconds: Annotated[float, Field(ge=1, le=120, description="How long allocations are sampled.")] = 10,
        top: Top = 10,
    ) -> CallToolResult:
        """Sample allocations for some seconds: which source lines allocated what is live now (estimates)."""
        return await self._attached(
            context, pid, lambda process: summaries.sites_answer(pid, process.sites(seconds), seconds, top), seconds
        )

    async def hunt_leaks(
        self,
        context: Context,
        pid: Pid,
        seconds: Annotated[float, Field(ge=4, le=900, description="How long; slow leaks need more.")] = 30,
        marks: Annotated[int, Field(ge=3, le=20, description="Snapshots to compare.")] = 4,
    ) -> CallToolResult:
        """Find memory leaks: what grows in a process, the source line that allocates it, and what holds it. Reports
        progress, and can be cancelled. Run it while the process does the work that makes it grow."""
        return await self._attached(
            context, pid, lambda process: summaries.hunt_answer(f"Process {pid}", process.hunt(seconds, marks)), seconds
        )

    async def why(
        self,
        context: Context,
        pid: Pid,
        type: Annotated[str, Field(min_length=1, max_length=1_000, description="app.models.Session, or Session.")],
        top: Top = 5,
    ) -> CallToolResult:
        """Show which references keep the objects of a type alive, as paths from a module, a frame or another root."""

        def work(process: api.Process) -> Answer:
            with process.snapshot() as snapshot:
                return summaries.why_answer(pid, snapshot.why(type, most=top), top)

        return await self._attached(context, pid, work)

    async def memory_explained(self, context: Context, pid: Pid) -> CallToolResult:
        """Explain what the resident memory (RSS) of a process is used for: objects, free memory, files, stacks."""
        return await self._attached(context, pid, lambda process: summaries.memory_answer(pid, process.memory()))

    async def waste(self, context: Context, pid: Pid, where: Where = "") -> CallToolResult:
        """Find what memory a process could save: duplicates, empty containers, missing __slots__, with advice."""

        def work(process: api.Process) -> Answer:
            with process.snapshot() as snapshot:
                return summaries.waste_answer(pid, snapshot.waste(where), snapshot.bytes)

        return await self._attached(context, pid, work)

    async def read_recording(self, context: Context, name: Name, top: Top = 5) -> CallToolResult:
        """Summarize a recording: how memory grew, which types and lines grew most, what leak hunts found."""
        return await self._worked(context, lambda: self.recording(name, top))

    async def diff(
        self,
        context: Context,
        name: Name,
        by: Literal["type", "module", "producer"] = "type",
        at: Moment = 0.0,
        to: Moment = None,
        other: Annotated[Name | None, Field(description="A second recording: `to` is a moment of it.")] = None,
        top: Top = 8,
    ) -> CallToolResult:
        """Compare two moments of a recording, or moments of two recordings."""

        def work() -> Answer:
            folder = self.folder()
            with folder.opened(name) as one, folder.opened(other or name) as second:
                moments = one.census(at), second.census(to)
                return summaries.diff_answer(by, one.changes(by, at, to, second), top, moments)

        return await self._worked(context, work)

    def folder(self) -> RecordingsFolder:
        """The folder of recordings. Raises UsageError without one."""
        if self._recordings is None:
            raise UsageError(
                "This server has no folder of recordings.",
                fix="The user can give one: start the server with `heaptop mcp --recordings DIR`.",
            )
        return self._recordings

    def recording(self, name: str, top: int = 5) -> Answer:
        """The summary of one recording."""
        with self.folder().opened(name) as opened:
            return summaries.recording_answer(name, opened, top)

    async def _attached(
        self, context: Context, pid: int, work: Callable[[api.Process], Answer], seconds: float | None = None
    ) -> CallToolResult:
        return await _result(self._attaching.attached(pid, work, _reporting(context, seconds)))

    async def _worked(self, context: Context, work: Callable[[], Answer]) -> CallToolResult:
        return await _result(self._attaching.work(lambda call: work(), _reporting(context, None)))


async def _result(answer: Awaitable[Answer]) -> CallToolResult:
    """As the protocol has it. What a person would read as an error, a model reads too."""
    try:
        found = await answer
    except HeaptopError as error:
        return CallToolResult(content=[TextContent(type="text", text=error_text(error))], is_error=True)
    return CallToolResult(
        content=[TextContent(type="text", text=found.text)], structured_content=found.document, is_error=False
    )


def _reporting(context: Context, seconds: float | None) -> Callable[[float, str], Awaitable[None]]:
    async def report(passed: float, waits_for: str) -> None:
        total = seconds if seconds is not None and passed <= seconds else None
        await context.report_progress(passed, total, waits_for or None)

    return report


class HeaptopServer(MCPServer[Any]):
    """Lists as resources the recordings that there are at that moment."""

    def __init__(self, attaching: Attaching, recordings: RecordingsFolder | None, version: str) -> None:
        super().__init__("heaptop", instructions=INSTRUCTIONS, version=version, log_level="WARNING")
        self.attaching = attaching
        self._recordings = recordings
        self._tools = Tools(attaching, recordings)
        tools = self._tools
        reads = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
        for tool in (
            tools.list_processes,
            tools.doctor,
            tools.census,
            tools.allocation_sites,
            tools.hunt_leaks,
            tools.why,
            tools.memory_explained,
            tools.waste,
            tools.read_recording,
            tools.diff,
        ):
            self.add_tool(tool, description=" ".join((tool.__doc__ or "").split()), annotations=reads)
        for prompt in (prompts.find_the_leak, prompts.why_is_rss_high, prompts.shrink_the_heap):
            self.prompt()(prompt)
        if recordings is not None:
            self.resource(f"{URI}{{+name}}", title="A recording", mime_type="text/plain")(self.recording)

    async def list_resources(self) -> list[Resource]:
        if self._recordings is None:
            return []
        names = await anyio.to_thread.run_sync(self._recordings.names)
        return [Resource(uri=URI + quote(name), name=name, mime_type="text/plain") for name in names]

    async def recording(self, name: str) -> str:
        """Summarize a recording: how memory grew, which types and lines grew most, what leak hunts found."""

        async def report(passed: float, waits_for: str) -> None:
            """Nobody waits for progress of a resource."""

        try:
            answer = await self.attaching.work(lambda call: self._tools.recording(name), report)
        except HeaptopError as error:
            raise ResourceError(error_text(error)) from None
        return answer.text


async def serve_stdio(server: HeaptopServer) -> None:
    """Serve the client that started this process, until it closes stdin."""
    async with anyio.create_task_group() as group:
        group.start_soon(_end_on_signal, server.attaching)
        await server.run_stdio_async()
        group.cancel_scope.cancel()


async def _end_on_signal(attaching: Attaching) -> None:
    """Detach from all processes, then end. A thread that reads stdin would not end before the client does."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            await attaching.close()
            os._exit(128 + number)


@dataclass(frozen=True, slots=True)
class HttpPlace:
    """Where HTTP is served: nobody finds the path who was not given it, another user of this machine included."""

    listening: socket.socket
    path: str

    @classmethod
    def of(cls, listening: socket.socket) -> HttpPlace:
        return cls(listening, f"/{secrets.token_urlsafe(16)}/mcp")

    @property
    def authority(self) -> str:
        host, port = self.listening.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def url(self) -> str:
        return f"http://{self.authority}{self.path}"


async def serve_http(server: HeaptopServer, place: HttpPlace, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or ctrl+C. Requests whose Host or Origin is not this address are rejected: a page in a
    browser cannot reach the server by a name that it made point here."""
    hosts = [place.authority, f"localhost:{place.authority.rpartition(':')[2]}"]
    app = server.streamable_http_app(
        streamable_http_path=place.path,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=hosts,
            allowed_origins=[f"http://{host}" for host in hosts],
        ),
    )
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE)
    ready()
    await _HttpServer(config, server.attaching).serve(sockets=[place.listening])


class _HttpServer(uvicorn.Server):
    """Detaches from all processes before it waits for requests to end."""

    def __init__(self, config: uvicorn.Config, attaching: Attaching) -> None:
        super().__init__(config)
        self._attaching = attaching

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._attaching.close()
        await super().shutdown(sockets)
