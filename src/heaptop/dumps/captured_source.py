"""A source of which a heap dump is to be written: passes everything through, and keeps the session's state."""

from __future__ import annotations

import threading
from dataclasses import replace

from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.errors import DumpFailed, ProtocolError
from heaptop.protocol.images import ImageTypes
from heaptop.protocol.messages import Hello, Message
from heaptop.protocol.source import Attached, Behind, Deliver, Event, Received, Source, never_behind
from heaptop.protocol.source_wrapper import SourceWrapper
from heaptop.recordings.recording_state import RecordingState, is_recorded


class CapturedSource(SourceWrapper):
    """A :class:`~heaptop.protocol.source.Source` around another one."""

    def __init__(self, source: Source, samples: SampledBlocks | None = None) -> None:
        """``samples``: see :class:`~heaptop.recordings.recording_state.RecordingState`."""
        super().__init__(source)
        self.hello: Hello | None = None
        self._lock = threading.Lock()
        self._state = RecordingState(samples)  # Guarded by the lock: the source's thread feeds it
        self.types: list[ImageTypes] = []  # Of the last snapshot
        self._mismatch = ""

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._deliver = deliver
        super().open(self._event, behind)

    def _event(self, event: Event) -> None:
        match event:
            case Attached():
                self.hello = event.hello
            case Received(ImageTypes() as message):
                self.types = [*self.types, message] if message.first else [message]
            case Received(message) if is_recorded(message):
                with self._lock:
                    self._feed(message)
        self._deliver(event)

    def _feed(self, message: Message) -> None:
        """What does not fit ends no session: there is no heap dump of it."""
        try:
            if not self._mismatch:
                self._state.feed(message)
        except ProtocolError as error:
            self._mismatch = error.message

    def state(self) -> list[Message]:
        """What a reader has to be told of the session, the agent's first message in front. Errors: DumpFailed."""
        with self._lock:
            if self._mismatch:
                raise DumpFailed("The process sent inconsistent data.", why=self._mismatch)
            said = list(self._state.state())
        return [replace(self.hello, token=""), *said] if self.hello is not None else said  # nobody may say the token
