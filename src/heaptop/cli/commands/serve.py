"""``heaptop serve``."""

from __future__ import annotations

import argparse
from pathlib import Path

from heaptop.cli.terminal import notice
from heaptop.errors import UsageError

LISTEN = "127.0.0.1:9917"


class Serve:
    """Watch the Python processes of this host, and serve their heaps as metrics and profiles.

    It attaches to every Python process of at least 50 MB that is older than a minute, or to those that a file selects,
    and serves /metrics for Prometheus and /debug/pprof/heap for pprof. It runs until SIGTERM or Ctrl+C, and detaches
    from all of them. SIGHUP reads the file again.

    heaptop serve
    heaptop serve --config fleet.toml --listen 127.0.0.1:9917
    heaptop serve --listen 0.0.0.0:9917 --web-config web.yml
    """

    name = "serve"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--config", dest="fleet", metavar="FILE", type=Path, help="rules and limits in TOML (docs/fleet.md)"
        )
        parser.add_argument(
            "--listen",
            default=LISTEN,
            metavar="HOST:PORT",
            help="the address to serve at (default %(default)s); one that other machines can reach needs a secret",
        )
        parser.add_argument(
            "--credentials",
            type=Path,
            metavar="FILE",
            help="require one of the secrets in this file: lines `bearer TOKEN` or `basic USER:PASSWORD`",
        )

        parser.add_argument(
            "--web-config",
            type=Path,
            metavar="FILE",
            help="serve over TLS and require a login, by this YAML file in the format of Prometheus's exporters",
        )

    def run(self, args: argparse.Namespace) -> int:
        import asyncio
        from dataclasses import replace

        try:
            from heaptop.fleet.access import Access, is_loopback, read_access
            from heaptop.fleet.configuration import FleetConfig, load
            from heaptop.fleet.host import FleetHost
            from heaptop.fleet.metrics import HostMeters
            from heaptop.fleet.server import FleetServer, listening_socket
            from heaptop.fleet.web_config import WebConfig, read_web_config
        except ModuleNotFoundError as error:
            raise UsageError(
                f"heaptop cannot serve: the Python package {error.name} is not installed.",
                why="`heaptop serve` needs optional packages.",
                fix="Install them with `pip install 'heaptop[serve]'`.",
            ) from None
        web = read_web_config(args.web_config) if args.web_config is not None else WebConfig()
        access = read_access(args.credentials) if args.credentials is not None else Access()
        access = replace(access, users=web.users)
        meters = HostMeters()
        host = FleetHost(lambda: load(args.fleet) if args.fleet is not None else FleetConfig(), meters)
        with listening_socket(args.listen, access) as listening:
            address, port = listening.getsockname()[:2]
            if not is_loopback(address) and web.tls is None:
                notice(f"{args.listen} is reachable from other machines, and nothing is encrypted, not even secrets.")
            scheme = "http" if web.tls is None else "https"
            shown = f"{scheme}://{f'[{address}]' if ':' in address else address}:{port}/"
            server = FleetServer(host, meters, access, web.tls)
            asyncio.run(server.run(listening, lambda: print(shown, flush=True)))
        return 0
