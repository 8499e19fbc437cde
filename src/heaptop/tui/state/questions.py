"""What the live screen asks a person before something is done to their process, in words.

This module never answers: keys do. What only the process asks is a :class:`~heaptop.protocol.messages.Decision`.
"""

from __future__ import annotations

from heaptop.tui.state.desk_words import ValuesOffer, values_text
from heaptop.tui.state.hunting_words import CollectOffer, collect_text
from heaptop.tui.state.tracing import Offer, offer_text

Question = Offer | ValuesOffer | CollectOffer
"""Whether tracemalloc may be switched on, values shown, or garbage collected before a mark."""


def question_text(asked: Question, pid: int) -> tuple[str, str]:
    """Title and text of the panel."""
    if isinstance(asked, ValuesOffer):
        return values_text(pid)
    return collect_text(asked, pid) if isinstance(asked, CollectOffer) else offer_text(asked, pid)
