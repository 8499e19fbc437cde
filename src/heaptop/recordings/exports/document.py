"""One JSON document of everything: that of ``heaptop report --json``, with every row, and the censuses over time.

All types are in it, and as many moments as a course has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from heaptop import __version__
from heaptop.analysis.bands.bands import bands
from heaptop.analysis.filters.filters import EVERYTHING
from heaptop.analysis.heap.history import Moment
from heaptop.analysis.reports.census_timeline import CensusTimeline
from heaptop.analysis.reports.recording_report import report_json
from heaptop.analysis.reports.stack_sums import stack_sums
from heaptop.analysis.text.recorded_times import RecordedSpan
from heaptop.recordings.exports.material import Material
from heaptop.recordings.exports.stack_names import frame_name

if TYPE_CHECKING:
    from heaptop.documents import ExportJson, OverTimeColumnsJson, OverTimeJson, OverTimeRowJson


def document(material: Material) -> bytes:
    """``over_time`` has a column of bytes, and one of objects, for each type, and for each site in blocks: as many
    figures as ``seconds``. ``stacks`` are of the moment."""
    recorded = material.recorded
    found: ExportJson = {
        **report_json(material.first, recorded, material.course, None),
        "schema": "heaptop.export",
        "version": 1,
        "heaptop": __version__,
        "stacks": [
            {
                "frames": [frame_name(frame) for frame in one.frames],
                "type": one.type.full if one.type is not None else None,
                "live_bytes": one.live_bytes,
                "live_count": one.live_count,
                "allocated_bytes": one.allocated_bytes if not recorded.sampling.samples.only_live else None,
            }
            for one in stack_sums(recorded, most=material.most_text)
        ],
        "over_time": _over_time(material.course, RecordedSpan.of(recorded.shown)) if recorded.shown else None,
    }
    return json.dumps(found).encode()


def _over_time(course: CensusTimeline, span: RecordedSpan) -> OverTimeJson:
    return {
        "types": _columns(course.records, "type", span),
        "producers": _columns(course.sites, "producer", span),
    }


def _columns(moments: Sequence[Moment], key: str, span: RecordedSpan) -> OverTimeColumnsJson:
    """All bands, the largest over time first."""
    chart = bands(moments, key, EVERYTHING, limit=1 << 30)
    columns: list[OverTimeRowJson] = [
        {"name": band.name, "bytes": list(band.bytes), "count": list(band.counts)} for band in chart.bands
    ]
    return {
        "seconds": [(time - span.first_ns) / 1e9 for time in chart.times_ns],
        "rows": sorted(columns, key=lambda column: -sum(column["bytes"])),
    }
