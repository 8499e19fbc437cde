"""What the figures and marks of view 5 mean, each with its source: its help page."""

from __future__ import annotations

from typing import Final

from heaptop.tui.keys.explaining import BEE, CPYTHON, FigureHelp

EXPLAINED: Final = (
    FigureHelp(
        ("A cell", "cell", "› at the address"),
        "A cell shows the type with the most bytes in it. The card shows, for the cell under the cursor, how "
        "much is used, by which types, how old it is and what keeps it. The size of a cell is shown above.",
        BEE.at("§4.1, fig. 6"),
    ),
    FigureHelp(
        ("taken", "%"),
        "Taken: the share of the shown addresses that objects and their tables use (with the Attributes of view 1). "
        "In the legend: each letter's share of the bytes of the objects shown; these bytes include buffers at other "
        "addresses (mmap). Memory of C extensions, such as NumPy arrays, is unknown, so a blank cell may not be free.",
        CPYTHON.at("Objects/obmalloc.c"),
    ),
    FigureHelp(
        ("no cell",),
        "In the legend: no cell has this letter. The bytes of the type are at other addresses (mmap), or another type "
        "has more bytes in every cell.",
    ),
    FigureHelp(
        ("type", "generation", "kind", "~"),
        "Key b colours by type, by the youngest collector generation in the cell, or by the kind of root that "
        "keeps most of it. Letters go to the types with the most bytes on screen; ~ is all others.",
        BEE.at("§4.1"),
    ),
    FigureHelp(
        ("age", "leak"),
        "By age, objects newer than the mark stand out (m marks, d checks). There may be more of them, because "
        "addresses are reused. By leak, only the new objects are shown, and the objects that hold suspects have their "
        "own letter.",
        BEE.at("§4.2, fig. 7"),
    ),
    FigureHelp(("│", "·"), "│ is a gap without objects, left out. · is what the filter excludes."),
    FigureHelp(
        ("root", "site", "path", "size"),
        "For the object in the cell with the largest retained size: its GC root, its site if sampled, the path "
        "from the root, and what would be freed with it. Enter shows it, Enter again opens it in Retainers.",
        BEE.at("§4.1"),
    ),
)
