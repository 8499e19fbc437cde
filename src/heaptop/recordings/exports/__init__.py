"""What a recording can be written as: an exporter a file, and the registry of them.

This module never writes a file, nor reads one. A new format is one function from :class:`Material` to bytes, in a
module of its own, and one line here.
"""

from __future__ import annotations

from typing import Final

from heaptop.recordings.exports.collapsed import collapsed
from heaptop.recordings.exports.document import document
from heaptop.recordings.exports.material import Exporter, Material
from heaptop.recordings.exports.page import page
from heaptop.recordings.exports.pprof import pprof
from heaptop.recordings.exports.speedscope import speedscope

EXPORTERS: Final[dict[str, Exporter]] = {
    exporter.name: exporter
    for exporter in (
        Exporter("collapsed", collapsed),
        Exporter("speedscope", speedscope),
        Exporter("pprof", pprof, is_text=False),
        Exporter("json", document, over_time=True),
        Exporter("html", page, over_time=True),
    )
}

__all__ = ["EXPORTERS", "Exporter", "Material"]
