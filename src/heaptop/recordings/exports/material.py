"""What an exporter makes its file from."""

from __future__ import annotations

from dataclasses import dataclass

from heaptop.analysis.reports.census_timeline import CensusTimeline
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.reports.stack_sums import MOST_TEXT


@dataclass(frozen=True, slots=True)
class Material:
    """A recording, as far as an export needs it."""

    recorded: Recorded  # As it was at the moment that was asked for
    of: str  # What bytes of stacks are: one of analysis.reports.stack_sums.OF
    first: Recorded  # As it was at its first moment; `recorded` itself for an exporter of one moment
    course: CensusTimeline  # How it went up to the moment; empty for an exporter of one moment
    most_text: int = MOST_TEXT  # Characters that all stacks may take, written out
