"""The registry of formats to which a recording is exported: each is a function in a module of its own.

The command line reads the registry for its help, so a format's module is loaded only when somebody exports to it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from heaptop.recordings.exports.material import Material


class Exporter(NamedTuple):
    """One format."""

    name: str
    module: str  # The module in this folder, and the function in it that makes the whole file
    of_stacks: bool = False  # It holds stacks alone, which only samples know
    over_time: bool = False  # It needs `Material.first` and `Material.course`, which take a while to read
    is_text: bool = True

    def make(self, material: Material) -> bytes:
        """The whole file."""
        made_by = getattr(import_module(f"{__name__}.{self.module}"), self.module)
        return cast(bytes, made_by(material))


EXPORTERS: Final[dict[str, Exporter]] = {
    exporter.name: exporter
    for exporter in (
        Exporter("collapsed", "collapsed", of_stacks=True),
        Exporter("speedscope", "speedscope", of_stacks=True),
        Exporter("pprof", "pprof", of_stacks=True, is_text=False),
        Exporter("json", "document", over_time=True),
        Exporter("html", "page", over_time=True),
    )
}
