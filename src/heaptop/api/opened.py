"""A recording, read: any of its moments as plain data."""

from __future__ import annotations

import os
from collections.abc import Sequence

from heaptop.analysis.reports.moments_diff import Changed, changed_rows
from heaptop.analysis.reports.recorded import Recorded
from heaptop.api.figures import CensusTable, census_table
from heaptop.errors import NotARecording
from heaptop.protocol.findings import Findings
from heaptop.recordings import reader
from heaptop.recordings.replay_to import replay_to


class OpenedRecording:
    """A file that ``heaptop record``, key ``s`` or :meth:`heaptop.api.Process.record` made; made by
    :func:`open_recording`. Close it, or use it in a ``with`` statement.

    Methods raise NotARecording where the file is damaged beyond what can be left out.
    """

    def __init__(self, file: reader.Recording, user_code: Sequence[str] = ()) -> None:
        self._file = file
        self._user_code = user_code

    def __enter__(self) -> OpenedRecording:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def pid(self) -> int:
        return self._file.about.pid

    @property
    def command(self) -> str:
        return self._file.about.command

    @property
    def begin(self) -> float:
        """When it begins, in seconds since 1970."""
        return self._file.wall(self._file.first_ns)

    @property
    def seconds(self) -> float:
        """From its first moment to its last."""
        return (self._file.last_ns - self._file.first_ns) / 1e9

    @property
    def moments(self) -> Sequence[float]:
        """All that can be shown, in seconds since its begin, ascending."""
        return [(time_ns - self._file.first_ns) / 1e9 for time_ns in self._file.moments]

    @property
    def damage(self) -> tuple[str, ...]:
        """What is not as it was written, and left out: sentences without their full stops."""
        return self._file.damage

    @property
    def findings(self) -> tuple[Findings, ...]:
        """What leak hunts found while it was made, oldest first."""
        return self._file.findings

    def census(self, at: float | None = None, by: str = "type", where: str = "") -> CensusTable:
        """The last census up to so many seconds after its begin (None: the last of all). Raises UsageError where ``by``
        or the filter is wrong, NotARecording where there was no census yet."""
        heap = self._played(at).history.latest
        if heap is None:
            raise NotARecording(f"{self._file.path} has no census before that moment.")
        return census_table(heap, by, where)

    def changes(
        self, by: str = "type", at: float | None = 0.0, to: float | None = None, other: OpenedRecording | None = None
    ) -> tuple[Changed, ...]:
        """What changed between two moments, in seconds since the begin (None: the end), by ``type``, ``module`` or
        ``producer``: what grew most first. With ``other``, ``to`` is a moment of that. By producer, bytes are
        estimates. Raises UsageError where ``by`` is wrong."""
        return tuple(changed_rows(self._played(at), (other or self)._played(to), by))

    def rss(self, at: float | None = None) -> int | None:
        """Resident bytes at that moment; None where that is not known."""
        return self._played(at).rss

    def _played(self, at: float | None) -> Recorded:
        return replay_to(self._file, None if at is None else self._file.first_ns + round(at * 1e9), self._user_code)


def open_recording(path: str | os.PathLike[str], *, user_code: Sequence[str] = ()) -> OpenedRecording:
    """A recording; ``user_code`` as of :func:`heaptop.api.attach`.

    Raises NotARecording, RecordingTooNew, CodecMissing, RecordingTooLarge.
    """
    return OpenedRecording(reader.Recording.open(path), user_code)
