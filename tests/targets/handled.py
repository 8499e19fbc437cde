"""A service of the standard library alone that leaks on behalf of some of its requests and tasks, and lets go what
others allocate: WSGI requests, asyncio tasks, jobs of a thread pool and a thread. It asks itself for pages."""

import asyncio
import http.client
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from wsgiref.simple_server import WSGIRequestHandler, make_server

from steady import ready

KEPT = {"login": [], "audit": [], "resize": [], "collect": []}
SIZE = 2000


class Session:
    def __init__(self, page):
        self.page = page


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def remember(name):
    """One site for all of them: only the handler tells them apart."""
    session = Session(bytearray(SIZE))
    KEPT[name].append(session)
    return session


def login(_environ):
    remember("login")
    return b"in"


def index(_environ):
    return b"".join(bytes([each % 256]) * 40 for each in range(50))


def application(environ, start_response):
    page = VIEWS[environ["PATH_INFO"]](environ)
    start_response("200 OK", [("Content-Length", str(len(page)))])
    return [page]


VIEWS = {"/login": login, "/index": index}


async def audit():
    while True:
        remember("audit")
        await asyncio.sleep(0.02)


def resize():
    remember("resize")


def collect():
    while True:
        remember("collect")
        time.sleep(0.02)


def ask(port):
    while True:
        for path in VIEWS:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", path)
            connection.getresponse().read()
            connection.close()
        time.sleep(0.01)


async def main(pool):
    tasks = [asyncio.ensure_future(audit())]
    ready()
    while True:
        await asyncio.get_running_loop().run_in_executor(pool, resize)
        await asyncio.wait(tasks, timeout=0.02)


server = make_server("127.0.0.1", 0, application, handler_class=Quiet)
for work in (server.serve_forever, collect, lambda: ask(server.server_port)):
    threading.Thread(target=work, daemon=True).start()
asyncio.run(main(ThreadPoolExecutor(1)))
