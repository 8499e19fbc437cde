"""A session of ``heaptop mcp`` with the SDK's own client, from *process 4711 grows* to the lines of source to change.

``python -m tests.support.mcp_transcript`` writes the transcript into docs/mcp.md. The script does what the prompt
``find_the_leak`` asks of a model: it goes from each answer to the next call by what the answer reports, and reads the
source at the end.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, Final

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.support.building import TARGETS
from tests.support.leaking import ENVIRONMENT, HEAPTOP, leaking_sessions
from tests.support.processes import PATIENCE

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "mcp.md"
BEGIN: Final = "<!-- transcript: python -m tests.support.mcp_transcript -->\n"
END: Final = "<!-- end of the transcript -->\n"
SOURCES: Final = TARGETS / "leaks"
SHOWN_PID: Final = "4711"
WIDEST: Final = 110
"""Columns of a line on the page."""


async def session(pid: int) -> list[str]:
    """Lines of the transcript, with the process of ``leaking_sessions``."""
    program, *arguments = [*HEAPTOP, "mcp"]
    server = StdioServerParameters(command=program, args=arguments, env=ENVIRONMENT)
    lines: list[str] = []
    async with Client(server, read_timeout_seconds=PATIENCE * 2) as client:

        async def call(tool: str, **named: Any) -> dict[str, Any]:
            result = await client.call_tool(tool, {"pid": pid, **named})
            text = result.content[0].text  # type: ignore[union-attr]
            assert not result.is_error, text
            assert result.structured_content is not None
            given = ", ".join(f"{name}={value!r}" for name, value in {"pid": pid, **named}.items())
            lines.extend([f"→ {tool}({given})", *text.splitlines()[:-1], ""])  # the last one is the same in each answer
            return dict(result.structured_content["untrusted"])

        prompt = await client.get_prompt("find_the_leak", {"pid": str(pid)})
        asked = prompt.messages[0].content.text  # type: ignore[union-attr]
        lines += [f"User: {asked.splitlines()[0]}", ""]
        await call("doctor")
        suspect = (await call("hunt_leaks", seconds=15))["suspects"][0]
        await call("why", type=suspect["type"], top=2)
    place = re.match(r"([\w./]+):(\d+) ", suspect["site"])
    holder = re.search(r"\.(\w+)(?: \(\w+\))?$", suspect["retainer"])
    assert place is not None, suspect
    assert holder is not None, suspect
    lines += [f"The agent reads {place[1]}: line {place[2]}, and the lines that name {holder[1]}"]
    for number, line in enumerate((SOURCES / place[1]).read_text().splitlines(), 1):
        if number == int(place[2]) or holder[1] in line:
            lines.append(f"{number:5} | {line}")
    return [line.replace(str(pid), SHOWN_PID) for line in lines]


def essence(lines: list[str]) -> list[str]:
    """What is the same each time: the calls, the type, the line, the holder and the source; numbers stand as #."""
    kept = [line for line in lines if re.match(r"User: |→ |1\. |   (allocated|held) |The agent |\s*\d+ \| ", line)]
    return [
        re.sub(r"[≥≈+]?\d[\d,.]*( [KMG]?i?B\b)?", "#", line) if line.startswith("1. ") else line for line in kept
    ]


def stored() -> list[str]:
    """The transcript of the page, its wrapped lines joined."""
    text = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    return re.sub(r"\n {8}", " ", text.removeprefix("```\n").removesuffix("```\n")).splitlines()


def _wrapped(line: str) -> str:
    """With a hanging indent of eight, which no line of an answer has."""
    shown = ""
    while len(line) > WIDEST and (end := line.rfind(" ", 12, WIDEST)) > 0:
        shown += line[:end] + "\n"
        line = " " * 8 + line[end + 1 :]
    return shown + line


def main() -> None:
    with leaking_sessions() as target:
        lines = asyncio.run(session(target.pid))
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    shown = "\n".join(map(_wrapped, lines))
    PAGE.write_text(f"{before}{BEGIN}```\n{shown}\n```\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
