"""``heaptop mcp``: heaptop's tools for coding agents."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from heaptop.cli.options import add_attach_options
from heaptop.cli.terminal import notice
from heaptop.errors import UsageError

if TYPE_CHECKING:
    import socket

HOST = "127.0.0.1"


class Mcp:
    """Serve heaptop's tools to a coding agent, by the Model Context Protocol over stdin and stdout.

    Tools: list_processes, doctor, census, allocation_sites, hunt_leaks, why, memory_explained, waste, read_recording,
    diff. All of them only read; values of objects are never sent. It attaches to processes of its own user only. It
    needs `pip install 'heaptop[mcp]'`; docs/mcp.md shows how to configure a client.

    heaptop mcp
    heaptop mcp --recordings ~/recordings
    heaptop mcp --http 9918
    """

    name = "mcp"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--http",
            metavar="[HOST:]PORT",
            help="serve streamable HTTP there instead, on loopback, at a URL with a random path that it prints",
        )
        parser.add_argument(
            "--recordings", metavar="DIR", type=Path, help="allow reading recordings below this folder, and no others"
        )
        parser.add_argument("--any-user", action="store_true", help="allow processes of other users, too")
        add_attach_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        import asyncio
        from importlib.metadata import version

        try:
            from heaptop.mcp.attaching import Attaching
            from heaptop.mcp.recordings import RecordingsFolder
            from heaptop.mcp.server import HeaptopServer, HttpPlace, serve_http, serve_stdio
        except ModuleNotFoundError as error:
            raise UsageError(
                f"heaptop cannot serve tools: the Python package {error.name} is not installed.",
                why="`heaptop mcp` needs optional packages.",
                fix="Install them with `pip install 'heaptop[mcp]'`.",
            ) from None
        names = ("wait", "pause_budget", "mode", "allow_seccomp", "override_remote_debug")
        attaching = Attaching(any_user=args.any_user, options={name: getattr(args, name) for name in names})
        recordings = RecordingsFolder(args.recordings) if args.recordings is not None else None
        server = HeaptopServer(attaching, recordings, version("heaptop"))
        if args.http is None:
            if sys.stdin.isatty():
                notice("An MCP client starts this command and talks to it over stdin; docs/mcp.md shows how.")
            asyncio.run(serve_stdio(server))
            return 0
        with _listening(args.http) as listening:
            place = HttpPlace.of(listening)
            asyncio.run(serve_http(server, place, lambda: print(place.url, flush=True)))
        return 0


def _listening(text: str) -> socket.socket:
    """A socket that listens at ``[HOST:]PORT``. Raises UsageError, also where other machines could reach it."""
    from heaptop.fleet.access import is_loopback, listening_at

    host, _, port = text.rpartition(":")
    host = host.strip("[]") or HOST
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"{text!r} is not an address.", fix="Write [HOST:]PORT, such as 9918.")
    if not is_loopback(host):
        raise UsageError(
            f"{host} can be reached from other machines.",
            why="The tools show what runs on this machine, and nothing is encrypted.",
            fix="Serve on loopback (`--http 9918`), and reach it through `ssh -L 9918:127.0.0.1:9918 HOST`.",
        )
    try:
        return listening_at(host, int(port))
    except OSError as error:
        raise UsageError(f"Cannot listen at {text}: {error.strerror}.", fix="Choose another port.") from None
