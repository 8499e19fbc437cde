"""A headless Chromium, driven over its DevTools protocol: pages, keys, and the text that a terminal in a page shows.

Debian's ``chromium`` is taken. Where there is none, tests are skipped; where HEAPTOP_REQUIRE_BROWSER is set, as in CI,
they fail. It loads nothing but what a page asks for, and what it asks for is known: :attr:`Page.requested`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from tests.support.processes import PATIENCE

REQUIRE_VARIABLE: Final = "HEAPTOP_REQUIRE_BROWSER"

# xterm.js keeps its terminal in a bundle; whoever is given one as `.terminal` shows it to this page's scripts too.
_REVEAL: Final = """
Object.defineProperty(Object.prototype, "terminal", {configurable: true, set(value) {
    Object.defineProperty(this, "terminal", {value, writable: true, configurable: true});
    if (value && value.buffer) window.shownTerminal = value;
}});
"""
_LINES: Final = """
(() => {
    const terminal = window.shownTerminal, lines = [];
    for (let row = 0; terminal && row < terminal.rows; row++) {
        const line = terminal.buffer.active.getLine(row);
        lines.push(line ? line.translateToString(true) : "");
    }
    return lines.join("\\n");
})()
"""

_CODES: Final = {",": 188, ".": 190}
"""Of keys that are no letters or digits, as Windows numbers them."""


def _browser() -> str:
    found = shutil.which("chromium")
    if found is None:
        missing = "there is no browser: install Debian's package chromium"
        if os.environ.get(REQUIRE_VARIABLE):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


class Page:
    """One page, and what happened in it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[Any]) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.requested: list[str] = []
        """Addresses of all that it has asked for."""
        self.complaints: list[str] = []
        """What was written to its console as an error, or thrown."""
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for packet in self._socket:
            told = json.loads(packet.data)
            if (waiting := self._waiting.pop(told.get("id", 0), None)) is not None:
                waiting.set_result(told)
            elif told.get("method") == "Network.requestWillBeSent":
                self.requested.append(told["params"]["request"]["url"])
            elif told.get("method") == "Network.webSocketCreated":
                self.requested.append(told["params"]["url"])
            elif told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.complaints.append(told["params"]["entry"]["text"])
            elif told.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(told["params"]["exceptionDetails"]))

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        """One command of the protocol, and its result."""
        id = next(self._ids)
        self._waiting[id] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": id, "method": method, "params": params})
        answer = await asyncio.wait_for(self._waiting[id], PATIENCE)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def open(self, address: str) -> None:
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        await self.call("Page.addScriptToEvaluateOnNewDocument", source=_REVEAL)
        await self.call("Page.navigate", url=address)

    async def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        return (await self.call("Runtime.evaluate", expression=script, returnByValue=True))["result"].get("value")

    async def shows(self, *words: str) -> str:
        """Wait until the terminal in it shows all of these; its text."""
        text = ""

        def holds(found: object) -> bool:
            nonlocal text
            text = str(found)
            return all(word in text for word in words)

        await self.until(_LINES, holds, lambda: f"the page shows {words}; it shows\n{text}\nand says {self.complaints}")
        return text

    async def until(self, script: str, holds: Callable[[object], bool], what: Callable[[], str]) -> None:
        """Wait until an expression's value is as wanted."""
        for _ in range(int(PATIENCE * 10)):
            if holds(await self.evaluate(script)):
                return
            await asyncio.sleep(0.1)
        pytest.fail(f"Waited in vain until {what()}", pytrace=False)

    async def press(self, *keys: str) -> None:
        """Keys that are one character each, as from the keyboard."""
        for key in keys:
            code = _CODES.get(key, ord(key.upper()))
            for kind, more in (("keyDown", {"text": key}), ("keyUp", {})):
                await self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)

    async def picture(self) -> bytes:
        """It as a PNG."""
        return base64.b64decode((await self.call("Page.captureScreenshot"))["data"])

    async def close(self) -> None:
        """As a person closes a tab."""
        await self._socket.send_json({"id": next(self._ids), "method": "Page.close", "params": {}})
        await asyncio.wait_for(self._reader, PATIENCE)


@contextlib.asynccontextmanager
async def page() -> AsyncIterator[Page]:
    """An empty page of a browser that has no past, and ends with the block."""
    executable = _browser()
    with tempfile.TemporaryDirectory(prefix="heaptop-browser-", ignore_cleanup_errors=True) as folder:
        argv = [
            executable,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1400,900",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
            "about:blank",
        ]
        with subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as process:
            try:
                port = await _debugging_port(Path(folder) / "DevToolsActivePort")
                async with aiohttp.ClientSession() as session:
                    async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                        listed = await answer.json()
                    address = next(each["webSocketDebuggerUrl"] for each in listed if each["type"] == "page")
                    async with session.ws_connect(address, max_msg_size=1 << 26) as socket:
                        yield Page(socket)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


async def _debugging_port(file: Path) -> int:
    for _ in range(int(PATIENCE * 20)):
        if file.exists() and (lines := file.read_text().splitlines()):
            return int(lines[0])
        await asyncio.sleep(0.05)
    pytest.fail(f"The browser does not say where it listens: there is no {file}", pytrace=False)
