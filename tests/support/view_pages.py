"""The tables of ``docs/views/``: keys and figures of each view, from what the help page in the app is made of.

``python -m tests.support.view_pages`` writes them anew; what stands above them on a page is written by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from heaptop.tui.keys.bindings import Key
from heaptop.tui.keys.explaining import FigureHelp
from heaptop.tui.views import LIVE, VIEWS
from heaptop.tui.views.base import View

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "views"
BEGIN: Final = "## Keys\n"
"""Where what is written by hand ends."""


def page_of(name: str) -> Path:
    return FOLDER / f"{name.replace('_', '-')}.md"


def tables(view: type[View]) -> str:
    """The end of a view's page, from :data:`BEGIN` on."""
    offered = {action.partition("=")[0]: key for action in view.OFFERS for key in _keys(action.partition("=")[0])}
    keys = [f"| `{key.shown}` | {_cell(view.MEANS.get(action, key.description))} |" for action, key in offered.items()]
    figures = [f"| {_cell(', '.join(one.names))} | {_cell(one.text)} | {_source(one)} |" for one in view.EXPLAINS]
    words = [_cell(part).replace("\n", " ") + "\n" for part in view.HELP.split("\n\n") if part]
    lines = [BEGIN, "| key | does |", "|---|---|", *keys, ""]
    lines += ["## Figures", "", "| figure | meaning | source |", "|---|---|---|", *figures, "", *words]
    return "\n".join(lines)


def _keys(action: str) -> list[Key]:
    return [key for key in LIVE if key.action == action][:1]


def _source(one: FigureHelp) -> str:
    return _cell(str(one.cited)) if one.cited is not None else ""


def _cell(text: str) -> str:
    """Safe in a table, and no markup."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("__", "\\_\\_").replace("*", "\\*")


def main() -> None:
    for name, view in VIEWS.items():
        page = page_of(name)
        by_hand = page.read_text("utf-8").partition(BEGIN)[0]
        page.write_text(by_hand + tables(view), "utf-8")


if __name__ == "__main__":
    main()
