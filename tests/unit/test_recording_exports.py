"""Each export is read back by what knows the format and not heaptop."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from heaptop.analysis.bands.bands import bands
from heaptop.analysis.filters.filters import EVERYTHING
from heaptop.analysis.reports.moments_diff import Changed, MomentSizes
from heaptop.analysis.reports.stack_sums import ALLOCATED, LIVE, OF, stack_sums
from heaptop.analysis.samples.producers import live_total
from heaptop.analysis.text.recorded_times import RecordedSpan
from heaptop.protocol.messages import CodeName, Codes
from heaptop.protocol.source import Received
from heaptop.recordings.exports import EXPORTERS
from heaptop.recordings.exports.band_picture import COLOURS, band_picture
from heaptop.recordings.exports.material import Material
from heaptop.recordings.exports.page import _table
from heaptop.recordings.exports.pprof import ProfileWriter
from heaptop.recordings.exports.protobuf import varint
from heaptop.recordings.exports.stack_names import one_line
from tests.fakes.source import BYTES_PER_TICK, CODES, START_NS
from tests.support.profiles import Profile
from tests.support.recorded import STEP_NS, events, findings, material

END = START_NS + 30 * STEP_NS
HOSTILE = "<script>alert(1)</script>;\n'\"&\u202e"


@pytest.fixture(scope="module")
def night() -> Material:
    return material(events(30), more=(findings(END),))


def made(name: str, given: Material) -> bytes:
    return EXPORTERS[name].make(given)


def of(given: Material, word: str) -> Material:
    return Material(given.recorded, word, given.first, given.course)


# -- sums ----------------------------------------------------------------------------------------------------


def test_stacks_add_up_to_the_census_and_to_what_was_allocated(night: Material) -> None:
    recorded = night.recorded
    sums = stack_sums(recorded)
    latest = recorded.history.latest
    assert latest is not None
    assert sum(one.live_bytes for one in sums) == pytest.approx(latest.total.bytes, abs=len(sums))
    sampled = live_total(recorded.sampling.samples)
    assert sum(one.live_bytes for one in stack_sums(recorded, older=False)) == pytest.approx(
        sampled.bytes, abs=len(sums)
    )
    # the fake agent samples from the second tick on; what it says it samples is about what its clock says
    allocated = sum(one.allocated_bytes for one in sums)
    assert 0.5 < allocated / (29 * BYTES_PER_TICK) < 2


# -- collapsed -----------------------------------------------------------------------------------------------


def folded(content: bytes) -> dict[tuple[str, ...], int]:
    found = {}
    for line in content.decode().splitlines():
        stack, _, size = line.rpartition(" ")
        assert tuple(stack.split(";")) not in found
        found[tuple(stack.split(";"))] = int(size)
    return found


@pytest.mark.parametrize("word", OF)
def test_collapsed_has_a_line_a_stack(night: Material, word: str) -> None:
    lines = folded(made("collapsed", of(night, word)))
    assert sum(lines.values()) == sum(one.bytes(word) for one in stack_sums(night.recorded))
    assert lines["main (shop/app.py:14)", "create_session (shop/views.py:88)"] > 1_000_000
    assert (("(no site)",) in lines) == (word == LIVE)
    assert list(lines.values()) == sorted(lines.values(), reverse=True)


# -- speedscope ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", OF)
def test_speedscope_has_the_same_stacks(night: Material, word: str) -> None:
    document = json.loads(made("speedscope", of(night, word)))
    (profile,), frames = document["profiles"], document["shared"]["frames"]
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "bytes", 0)
    assert profile["endValue"] == sum(profile["weights"])
    named: dict[tuple[str, ...], int] = {}
    for sample, weight in zip(profile["samples"], profile["weights"], strict=True):
        stack = tuple(frames[number]["name"] for number in sample)
        named[stack] = named.get(stack, 0) + weight
    assert named == folded(made("collapsed", of(night, word)))
    place = next(frame for frame in frames if frame["name"].startswith("create_session"))
    assert (place["file"], place["line"]) == ("/srv/shop/views.py", 88)


# -- pprof ---------------------------------------------------------------------------------------------------

def test_pprof_is_a_heap_profile(night: Material) -> None:
    profile = Profile(made("pprof", night))
    assert profile.texts[0] == ""
    assert profile.types == [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ]
    sums = stack_sums(night.recorded)
    assert [values for _, values, _ in profile.samples] == [
        (one.allocated_count, one.allocated_bytes, one.live_count, one.live_bytes) for one in sums
    ]
    stacks = {stack: labels for stack, _, labels in profile.samples}
    sessions = (("create_session", "/srv/shop/views.py", 88), ("main", "/srv/shop/app.py", 14))
    assert stacks[sessions] == {"type": "shop.models.Session"}
    assert stacks[("(no site)", "", 0),] == {}
    assert (profile.default, profile.period) == ("inuse_space", 64 << 10)
    assert Profile(made("pprof", of(night, ALLOCATED))).default == "alloc_space"
    assert profile.duration == 29 * STEP_NS
    assert any("estimated" in comment for comment in profile.comments)
    assert any("PyMem_RawMalloc" in comment for comment in profile.comments)


def test_a_profile_of_several_processes_labels_each(night: Material) -> None:
    writer = ProfileWriter(flows=True)
    for pid in ("1", HOSTILE):
        writer.add(night.recorded, {"service": "shop", "pid": pid})
    profile = Profile(writer.content(LIVE, 7, 0))
    alone = Profile(made("pprof", night))
    assert len(profile.samples) == 2 * len(alone.samples)
    assert sum(values[3] for _, values, _ in profile.samples) == 2 * sum(values[3] for _, values, _ in alone.samples)
    assert {labels["pid"] for _, _, labels in profile.samples} == {"1", one_line(HOSTILE)}
    assert {labels["service"] for _, _, labels in profile.samples} == {"shop"}


def test_a_profile_of_no_process_is_valid() -> None:
    profile = Profile(ProfileWriter(flows=True).content(LIVE))
    assert [name for name, _ in profile.types] == ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]
    assert (profile.samples, profile.default) == ([], "inuse_space")


def test_the_same_recording_gives_the_same_file(night: Material) -> None:
    assert made("pprof", night) == made("pprof", night)


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (-1, "ff" * 9 + "01")]
)
def test_numbers_are_written_as_protocol_buffers_say(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


# -- json ----------------------------------------------------------------------------------------------------


def test_the_export_to_json_has_all_series(night: Material) -> None:
    document = json.loads(made("json", night))
    assert (document["pid"], document["python"], document["file"]) == (4242, "3.11.7", "night.heaptop")
    assert document["begin"].startswith("2025-06-15T15:06:40")
    types = document["over_time"]["types"]
    assert len(types["seconds"]) == len(night.course.records)
    by_name = {row["name"]: row for row in types["rows"]}
    sessions, latest = by_name["shop.models.Session"], night.recorded.history.latest
    assert latest is not None
    assert sessions["count"][-1] == sum(cell.count for cell in latest.cells if cell.type.qualname == "Session")
    assert [sum(column) for column in zip(*(row["bytes"] for row in types["rows"]), strict=True)] == [
        snapshot.total.bytes for snapshot in night.course.records
    ]
    assert document["findings"][0]["suspects"][0]["sentence"].startswith("1,240 Session")
    assert {stack["type"] for stack in document["stacks"]} >= {"shop.models.Session", None}
    assert document["over_time"]["producers"]["rows"]


# -- html ----------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Tags, their attributes, and the text between them."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(content.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_one_page_that_needs_nothing_else(night: Material) -> None:
    page = Page(made("html", night))
    assert not page.open, "every tag is closed"
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object", "a"}
    said = {name for _, attributes in page.tags for name in attributes}
    assert not said & {"src", "href", "onload", "onclick"}
    policy = {"http-equiv": "Content-Security-Policy", "content": "default-src 'none'; style-src 'unsafe-inline'"}
    assert ("meta", policy) in page.tags
    assert "1,240 Session (+3.1 MiB, still growing 21/s)" in page.text
    assert "shop.models.Session" in page.text
    assert "shop/views.py:88 create_session" in page.text
    assert "before <b>" in page.text, "a mark's name is text"


def test_the_picture_stacks_the_bands_of_the_chart(night: Material) -> None:
    found = re.search(r"<svg.*?</svg>", made("html", night).decode(), re.DOTALL)
    assert found is not None
    chart = bands(night.course.records, "type", EVERYTHING, len(COLOURS) - 1)
    paths = [path.get("d") or "" for path in ElementTree.fromstring(found[0]).findall("path")]
    assert len(paths) == len(chart.bands)
    outlines = [[(*map(float, at.split()),) for at in re.split("[MLZ]", path) if at.strip()] for path in paths]
    times = len(chart.times_ns)
    for below, above in pairwise(outlines):
        assert below[:times] == above[times:][::-1], "a band begins where the one below it ends"
    heights = [low[1] - top[1] for top, low in zip(outlines[0][:times], outlines[0][times:][::-1], strict=True)]
    sizes = chart.bands[0].bytes
    most = max(range(times), key=sizes.__getitem__)
    assert heights == pytest.approx([heights[most] * size / sizes[most] for size in sizes], abs=0.2)


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(("minutes", "words"), [(59, "15:06:40"), (60, "15:06")])
def test_times_of_the_picture_have_seconds_where_it_is_short(night: Material, minutes: int, words: str) -> None:
    chart = bands(night.course.records, "type", EVERYTHING, 3)
    begin, last = chart.times_ns[0], len(chart.times_ns) - 1
    steps = [begin + minutes * 60_000_000_000 * step // last for step in range(last + 1)]
    whole = RecordedSpan(begin, begin + 8 * 3_600_000_000_000, 1_750_000_000.0)
    picture = band_picture(replace(chart, times_ns=tuple(steps)), whole, "types")
    said = [text.text for text in ElementTree.fromstring(picture).findall("text")]
    assert words in said


def test_a_table_says_how_many_more_there_are() -> None:
    rows = [Changed(f"t{number}", MomentSizes(), MomentSizes(1, 100 - number)) for number in range(60)]
    assert '<p class="quiet">10 more.</p>' in [*_table("Types", "Objects", rows)]


# -- names may hold anything ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile() -> Material:
    """The night, in a program whose code is called badly."""
    bad = Codes(0, (CodeName(f"/srv/{HOSTILE}.py", HOSTILE, 10), *CODES[1:]))
    told = [
        Received(bad) if isinstance(event, Received) and isinstance(event.message, Codes) else event
        for event in events(6)
    ]
    return material(told, more=(findings(START_NS + 6 * STEP_NS, sentence=HOSTILE),))


def test_no_name_breaks_a_format(hostile: Material) -> None:
    lines = folded(made("collapsed", hostile))
    assert any("alert(1)" in stack[0] and len(stack) == 2 for stack in lines)
    names = [frame["name"] for frame in json.loads(made("speedscope", hostile))["shared"]["frames"]]
    assert any("alert(1)" in name for name in names)
    assert not any("\n" in name for name in names)
    assert any("alert(1)" in place[0] for place in Profile(made("pprof", hostile)).places.values())
    page = Page(made("html", hostile))
    assert not page.open
    assert "script" not in {tag for tag, _ in page.tags}
    assert "<script>alert(1)</script>" in page.text
    assert "\u202e" not in page.text


@pytest.mark.parametrize("name", EXPORTERS)
def test_what_was_not_sampled_or_counted_is_left_out(name: str) -> None:
    for told in (events(2, sampled=False), events(0)):
        assert b"create_session" not in made(name, material(told))
