"""A Starlette application under uvicorn that leaks on behalf of one of its views and of a task that another one starts,
and that asks itself for pages. Its argument is the event loop: ``asyncio`` or ``uvloop``."""

import asyncio
import http.client
import socket
import sys
import threading
import time

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from steady import ready

KEPT = []
TASKS = []


class Session:
    def __init__(self):
        self.page = bytearray(2000)


def remember():
    KEPT.append(Session())


def timed(view):
    """A decorator of the program's own, in front of each view."""

    async def wrapper(request):
        return await view(request)

    return wrapper


@timed
async def login(_request):
    remember()
    return PlainTextResponse("in")


@timed
async def index(_request):
    return PlainTextResponse("".join(str(each) for each in range(500)))


@timed
async def order(_request):
    TASKS.append(asyncio.ensure_future(notify()))
    del TASKS[:-9]
    return PlainTextResponse("sent")


async def notify():
    await asyncio.sleep(0)
    remember()


def export(_request):
    """Starlette runs it on a thread of its pool."""
    remember()
    return PlainTextResponse("done")


VIEWS = {"/login": login, "/index": index, "/order": order, "/export": export}


def ask(port):
    while True:
        for path in VIEWS:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", path)
            connection.getresponse().read()
            connection.close()
        time.sleep(0.01)


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        threading.Thread(target=ask, args=(listener.getsockname()[1],), daemon=True).start()
        ready()

    def capture_signals(self):
        """Leave SIGTERM to the test."""
        return socket.socket()  # a context manager that does nothing


listener = socket.create_server(("127.0.0.1", 0))
application = Starlette(routes=[Route(path, view) for path, view in VIEWS.items()])
config = uvicorn.Config(application, log_level="error", access_log=False, loop=sys.argv[1])
Server(config).run([listener])
