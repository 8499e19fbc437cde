"""Work that can be repeated, for bench/sampling.py: JSON, binary trees, log lines, asyncio, Flask alone and served by
gunicorn, small arrays.

Each function of WORKLOADS makes its input, and returns a function of a number of units: the same number is the same
work, and gives the same answer. This module knows nothing of profilers, and runs on any Python from 3.8 on.
"""

import asyncio
import json
import random
import re
import socket

ITEMS = 1500
TREE_DEPTH, KEPT_DEPTH = 10, 14
LINES, LINES_A_UNIT = 20_000, 1000
CLIENTS = 10
STEPS, ARRAY = 1000, 64


def json_documents():
    """A unit reads a document of 1500 records, and writes it again."""
    dice = random.Random(1)
    records = [
        {
            "id": number,
            "name": f"user{dice.randrange(10**6)}",
            "tags": [f"tag{dice.randrange(1000)}" for _ in range(5)],
            "score": dice.random() * 1000,
            "nested": {"big": dice.randrange(10**9), "none": None, "floats": [dice.random() for _ in range(4)]},
        }
        for number in range(ITEMS)
    ]
    text = json.dumps({"records": records})
    del records

    def work(units):
        return sum(len(json.dumps(json.loads(text))) for _ in range(units))

    return work


class Node:
    __slots__ = ("left", "right", "value")

    def __init__(self, left, right, value):
        self.left = left
        self.right = right
        self.value = value


def grown(depth):
    """A tree; nearly every node has a call stack of its own, as each call is at one of two places."""
    return Node(grown(depth - 1), grown(depth - 1), [depth]) if depth else Node(None, None, [depth])


def nodes(tree):
    return 1 + nodes(tree.left) + nodes(tree.right) if tree.left else 1


def binary_trees():
    """A unit grows a tree of 2047 nodes and counts them, beside one of 32767 that stays."""
    kept = grown(KEPT_DEPTH)

    def work(units):
        return sum(nodes(grown(TREE_DEPTH)) for _ in range(units)) + nodes(kept)

    return work


LOG_LINE = re.compile(r'(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) (\S+) \S+" (\d+) (\d+) "([^"]*)" "([^"]*)"')


def log_text():
    dice = random.Random(2)
    paths = [f"/api/v{dice.randrange(3)}/{dice.choice(('users', 'carts'))}/{dice.randrange(2000)}" for _ in range(3000)]
    return "\n".join(
        f"10.{dice.randrange(256)}.{dice.randrange(4)}.{dice.randrange(4)} - - "
        f"[12/Mar/2025:10:{dice.randrange(60):02}:{dice.randrange(60):02} +0000] "
        f'"GET {dice.choice(paths)} HTTP/1.1" {dice.choice((200, 200, 200, 404, 500))} {dice.randrange(100_000)} '
        f'"referrer{dice.randrange(50)}" "Mozilla/{dice.randrange(20)}"'
        for _ in range(LINES)
    )


def log_parsing():
    """A unit parses 1000 lines into records and keeps tables of them; every 20 units the tables begin anew."""
    text = log_text()

    def work(units):
        lines, by_path, by_network, records, told = [], {}, {}, [], 0
        for _ in range(units):
            if not lines:
                told += len(by_path)
                lines, by_path, by_network, records = text.split("\n"), {}, {}, []
            for line in lines[:LINES_A_UNIT]:
                address, when, method, path, status, size, _, agent = LOG_LINE.match(line).groups()
                record = {"when": when, "path": path.lower(), "status": int(status), "size": int(size), "agent": agent}
                by_path.setdefault(method + ":" + record["path"], []).append(record["size"])
                network = by_network.setdefault(address.rsplit(".", 1)[0], {})
                network.setdefault(record["status"], []).append(record["when"])
                if len(records) < LINES // 4:
                    records.append(record)
            del lines[:LINES_A_UNIT]
        return told + len(by_path) + len(by_network)

    return work


def asyncio_echo():
    """A unit is a line sent to a server and back, by each of ten clients in one event loop."""

    async def serve(reader, writer):
        while True:
            line = await reader.readline()
            if not line:
                break
            writer.write(line)
            await writer.drain()
        writer.close()

    async def ask(port, units):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        heard = 0
        for number in range(units):
            writer.write(b"hello %d " % number + b"x" * 100 + b"\n")
            await writer.drain()
            heard += len(await reader.readline())
        writer.close()
        await writer.wait_closed()
        return heard

    async def both(units):
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        heard = await asyncio.gather(*(ask(port, units) for _ in range(CLIENTS)))
        server.close()
        return sum(heard)

    return lambda units: asyncio.run(both(units))


def flask_application():
    """A unit is a request to an application that answers with JSON, without a socket."""
    import flask  # noqa: PLC0415

    application = flask.Flask("bench")

    @application.route("/user/<int:number>")
    def user(number):
        items = [{"number": each, "text": str(each)} for each in range(30)]
        return flask.jsonify({"id": number, "items": items, "query": flask.request.args.get("query")})

    client = application.test_client()

    def work(units):
        return sum(len(client.get(f"/user/{number}?query=abc{number}").data) for number in range(units))

    return work


def gunicorn_served():
    """A unit is a request of a client by a socket, to the application of bench/served.py in a worker of gunicorn."""
    import flask  # noqa: PLC0415
    from gunicorn.config import Config  # noqa: PLC0415
    from gunicorn.glogging import Logger  # noqa: PLC0415
    from gunicorn.workers.sync import SyncWorker  # noqa: PLC0415

    application = flask.Flask("bench")

    @application.route("/")
    def index():
        rows = [{"number": i, "text": str(i) * 10} for i in range(200)]
        return "ok {}".format(sum(len(row["text"]) for row in rows))

    config = Config()
    worker = SyncWorker(0, 0, [], None, 30, config, Logger(config))
    worker.wsgi = application
    listener = socket.create_server(("127.0.0.1", 0))

    def page():
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: identity\r\n\r\n")
            client.shutdown(socket.SHUT_WR)  # gunicorn waits for that at the end
            accepted, address = listener.accept()
            worker.handle(listener, accepted, address)
            answer = b""
            while part := client.recv(4096):
                answer += part
        return len(answer)

    def work(units):
        return sum(page() for _ in range(units))

    return work


def numpy_light():
    """A unit is a thousand steps with arrays of 64 numbers, one in fifty of which is kept until the end."""
    import numpy  # noqa: PLC0415

    base = numpy.arange(ARRAY, dtype=float)

    def work(units):
        total, kept = 0.0, []
        for number in range(units * STEPS):
            made = base * 2.0 + number
            total += made[3]
            if number % 50 == 0:
                kept.append(made)
        return float(total) + len(kept)

    return work


WORKLOADS = {
    "json": (json_documents, 90),
    "trees": (binary_trees, 800),
    "logs": (log_parsing, 350),
    "asyncio": (asyncio_echo, 3800),
    "flask": (flask_application, 4400),
    "gunicorn": (gunicorn_served, 2000),
    "numpy": (numpy_light, 600),
}
"""The units beside each are about a second of work."""
