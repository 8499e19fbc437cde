"""aiohttp 3.10.10: each request by a method that is not allowed stays in the cache of middlewares.

CVE-2024-52303, fixed in 3.10.11: the handler of such a request is a new object each time, and the key of a cache.
"""

import asyncio
import http.client

from aiohttp import web
from busy_backdrop import requests, serve, start_loop


@web.middleware
async def add_server_name(request, handler):
    response = await handler(request)
    response.headers["Server"] = "shop"
    return response


async def show_product(request):
    return web.Response(text="product " + request.match_info["number"])


async def start():
    app = web.Application(middlewares=[add_server_name])
    app.router.add_get("/products/{number}", show_product)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return site._server.sockets[0].getsockname()[1]


loop = start_loop()
port = asyncio.run_coroutine_threadsafe(start(), loop).result()
connection = http.client.HTTPConnection("127.0.0.1", port)
for number in requests(40):
    connection.request("DELETE", f"/products/{number}")  # the leak
    connection.getresponse().read()
    serve(number)
