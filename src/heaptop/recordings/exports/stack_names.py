"""How formats of stacks are given names: none of them may break a line, or end a frame.

Names are the target's and may hold anything. Nothing else about them is changed.
"""

from __future__ import annotations

from heaptop.analysis.samples.producers import Frame


def frame_name(frame: Frame) -> str:
    """``create_session (shop/views.py:88)``; what represents a frame, in its brackets."""
    if not frame.file:
        return one_line(frame.short)
    place = f"{frame.short}:{frame.line}" if frame.line else frame.short
    return one_line(f"{frame.function} ({place})" if frame.function else place)


def one_line(text: str) -> str:
    """Without control characters, and without what UTF-8 cannot say."""
    kept = "".join(character if character.isprintable() else "�" for character in text)
    return kept or "�"
