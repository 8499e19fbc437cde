"""The names that Textual and Rich keep to themselves, and that this room uses all the same.

They may move in any release. Then :func:`broken` names it, and heaptop draws by what Textual offers to
everybody: the same picture, in more bytes. No other room uses such a name.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "textual._compositor.ChopsUpdate": ("chops", "spans", "chop_ends"),
    "textual._compositor.Compositor": ("_dirty_regions", "size", "update_widgets(self, widgets)"),
    "textual._compositor.CompositorUpdate": ("render_segments(self, console)",),
    "textual._compositor.LayoutUpdate": ("strips", "region"),
    "textual.app.App": (
        *("_batch_count", "_check_resize(self)", "_display(self, screen, renderable)", "_driver", "_exit"),
        "_resize_timer",
    ),
    "textual.driver.Driver": ("_app", "_loop"),
    "textual.drivers._writer_thread.WriterThread": ("_queue",),
    "textual.drivers.linux_driver.LinuxDriver": (
        *("_file", "_get_terminal_size(self)", "_in_band_window_resize", "_must_signal_resume"),
        *("_run_input_thread(self)", "_sigcont_application", "_sigtstp_application", "_writer_thread"),
    ),
    "textual.message_pump.MessagePump": ("_timers",),
    "textual.screen.Screen": ("_compositor", "_compositor_refresh(self)", "_dirty_widgets"),
    "textual.timer.Timer": ("_start(self)",),
    "textual.widget.Widget": ("_dirty_regions",),
    "rich.console.Console": ("_color_system",),
    "rich.style.Style": ("_ansi",),
}
"""By class: attributes, and methods with all that they take."""


@cache
def broken() -> str | None:
    """None, or a sentence that names the first of :data:`NAMES` that is not there."""
    for path, names in NAMES.items():
        module, _, owner = path.rpartition(".")
        try:
            cls = getattr(import_module(module), owner)
        except (ImportError, AttributeError):
            return _sentence(path)
        for name in names:
            if not _has(cls, name):
                return _sentence(f"{path}.{name}")
    return None


def _has(cls: type, name: str) -> bool:
    attribute, _, arguments = name.partition("(")
    found = getattr(cls, attribute, None)
    if arguments:
        code = getattr(found, "__code__", None)
        return code is not None and ", ".join(code.co_varnames[: code.co_argcount]) == arguments[:-1]
    return hasattr(cls, attribute) or attribute in cls.__init__.__code__.co_names  # type: ignore[misc]


def _sentence(what: str) -> str:
    from importlib.metadata import version  # noqa: PLC0415 - slow to load, and seldom wanted

    library = what.partition(".")[0]
    return f"{library} {version(library)} has no {what}: heaptop draws without it, with more output"
