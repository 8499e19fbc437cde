"""What is on the terminal, cell by cell: of what is drawn, only what differs from it is sent, as briefly as can be.

Textual sends a widget's whole part of a line, each piece with all of its colours and a reset. Here a cell that stands
there already is not sent again, whoever draws it, and of colours only what changes from one cell to the next.

An update of Textual's goes in, text for the terminal comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.color import ColorSystem
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Size
from textual.strip import Strip

UNKNOWN: Final = "\0"  # In a cell whose content is not known
SHORT: Final = 4  # So many cells that have not changed are rather sent again than jumped over


class ShownCells:
    """The cells of one terminal, and how to get from them to others."""

    def __init__(self) -> None:
        self.size = Size(0, 0)
        self._texts: list[list[str]] = []  # What each cell shows; nothing in the further cells of a wide character
        self._codes: list[list[str]] = []  # How, as parameters of SGR

    def forget(self) -> None:
        """Somebody else may have written to the terminal."""
        self.size = Size(0, 0)

    def update(self, update: CompositorUpdate, size: Size, colours: ColorSystem) -> str:
        """What to write for this update of a terminal of this size; nothing if all of it is there."""
        if self.size != size:
            self.size = size
            self._texts = [[UNKNOWN] * size.width for _ in range(size.height)]
            self._codes = [[""] * size.width for _ in range(size.height)]
        pen = _Pen()
        for y, x, strip in _pieces(update):
            if y < size.height:
                self._draw(pen, y, x, strip, colours)
        return pen.text

    def _draw(self, pen: _Pen, y: int, x: int, strip: Strip, colours: ColorSystem) -> None:
        texts, codes = _cells(strip, colours)
        room = self.size.width - x
        texts, codes = texts[:room], codes[:room]
        end = x + len(texts)
        old_texts, old_codes = self._texts[y][x:end], self._codes[y][x:end]
        if old_texts == texts and old_codes == codes:
            return
        self._texts[y][x:end], self._codes[y][x:end] = texts, codes
        compared = zip(old_texts, texts, old_codes, codes, strict=True)
        for first, last in _runs([old != new or was != now for old, new, was, now in compared]):
            begin = first
            while begin and not texts[begin]:
                begin -= 1  # a wide character is sent as a whole
            pen.move(x + begin, y)
            for at in range(begin, last):
                pen.put(texts[at], codes[at])


class _Pen:
    """Where the cursor is and what it writes in, while one frame is written."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._at: tuple[int, int] | None = None
        self._codes = ""

    @property
    def text(self) -> str:
        """All of it; colours are as they were before."""
        return "".join([*self._parts, _change(self._codes, "")])

    def move(self, x: int, y: int) -> None:
        if self._at == (x, y):
            return
        if self._at is not None and self._at[1] == y and self._at[0] < x:
            self._parts.append(f"\x1b[{x - self._at[0]}C")
        else:
            self._parts.append(f"\x1b[{y + 1};{x + 1}H")
        self._at = x, y

    def put(self, text: str, codes: str) -> None:
        if codes != self._codes:
            self._parts.append(_change(self._codes, codes))
            self._codes = codes
        self._parts.append(text)
        if self._at is not None:
            # How wide a terminal draws what is no plain character, nobody knows: what follows says where it stands.
            self._at = (self._at[0] + 1, self._at[1]) if _is_plain(text) else None


class _Colours(NamedTuple):
    """Parameters of SGR, sorted."""

    attributes: str
    front: str
    back: str


@lru_cache(4096)
def _sorted(codes: str) -> _Colours:
    attributes, front, back = [], "", ""
    left = iter(codes.split(";") if codes else ())
    for code in left:
        if code in ("38", "48"):
            kind = next(left)
            colour = ";".join([code, kind, *(next(left) for _ in range(3 if kind == "2" else 1))])
            front, back = (colour, back) if code == "38" else (front, colour)
        elif code[0] == "3" or (code[0] == "9" and len(code) == 2):
            front = code
        elif (code[0] == "4" and len(code) == 2) or code[:2] == "10":
            back = code
        else:
            attributes.append(code)
    return _Colours(";".join(attributes), front, back)


@lru_cache(4096)
def _change(old: str, new: str) -> str:
    """The sequence from one set of colours and attributes to another."""
    if old == new:
        return ""
    if not new:
        return "\x1b[0m"
    before, after = _sorted(old), _sorted(new)
    if before.attributes and before.attributes != after.attributes:
        return f"\x1b[0;{new}m"
    codes = [
        "" if before.attributes == after.attributes else after.attributes,
        "" if before.front == after.front else after.front or "39",
        "" if before.back == after.back else after.back or "49",
    ]
    return f"\x1b[{';'.join(code for code in codes if code)}m"


@lru_cache(4096)
def _is_plain(text: str) -> bool:
    """Whether it is one character that every terminal draws in one cell."""
    return len(text) == 1 and cell_len(text) == 1


@lru_cache(4096)
def _all_plain(text: str) -> bool:
    return text.isascii() or all(map(_is_plain, set(text)))


def _cells(strip: Strip, colours: ColorSystem) -> tuple[list[str], list[str]]:
    """What each cell shows, and how."""
    texts: list[str] = []
    codes: list[str] = []
    for text, style, control in strip:
        if control:
            continue
        if _all_plain(text):
            texts.extend(text)
        else:
            texts.extend([text, *[""] * (cell_len(text) - 1)])
        code = "" if style is None else style._ansi if style._ansi is not None else Strip.render_ansi(style, colours)
        codes.extend([code] * (len(texts) - len(codes)))
    return texts, codes


def _runs(changed: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """From where to where something has changed; what is a few cells apart is one."""
    first = last = -1
    for at, differs in enumerate(changed):
        if not differs:
            continue
        if first >= 0 and at - last > SHORT:
            yield first, last + 1
            first = at
        elif first < 0:
            first = at
        last = at
    if first >= 0:
        yield first, last + 1


def _pieces(update: CompositorUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Line, column and what is to be there."""
    if isinstance(update, ChopsUpdate):
        for y, left, right in update.spans:
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                first, last = max(left, x), min(right, end)
                if strip is not None and first < last:
                    yield y, first, strip.crop(first - x, last - x)
    elif isinstance(update, LayoutUpdate):
        for y, line in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in line:
                yield y, x, strip
                x += strip.cell_length
