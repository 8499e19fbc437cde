"""What a leak hunt has found, as a document and as text: nothing left out, and what is not known said."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.leaks.findings_report import FRAMES, findings_json, findings_lines, growth_lines, suspect_lines
from heaptop.protocol.findings import Findings, GrownRow, Growth, HandlerShare, Lint, MarkFacts, Suspect
from tests.unit.any_message import any_of
from tests.unit.hunting_cases import SENTENCE, SUSPECT

ROW = GrownRow("app.models.Session", 1_240, 400_000, 1_320, 430_000, 1_240, 0, (620, 620))
SITE = GrownRow("app/views.py:88 create_session", 1_200, 390_000, 1_200, 390_000, None, None, error=90_000)
FOUND = Findings(
    time_ns=40 * 10**9,
    marks=(
        MarkFacts("start", 10 * 10**9, 5_000, 1_000_000, 64_000_000, 2),
        MarkFacts("2", 25 * 10**9, 5_600, 2_000_000),
        MarkFacts("now", 40 * 10**9, 6_240, 4_250_585, 70_000_000, 3, collected=True),
    ),
    verdict="leak",
    count=1_240,
    bytes=3_250_585,
    suspects=(SUSPECT,),
    growths=(Growth("type", (ROW, replace(ROW, name="dict"))), Growth("site", (SITE,), complete=False)),
    lints=(Lint("threads", "12 threads more than at the first mark", 4, 16, 8),),
    notes=("Sites are known of what was allocated since the attach",),
)


def document(**options: Any) -> Any:
    return json.loads(json.dumps(findings_json(FOUND, pid=4711, python="3.12.1", **options)))


def test_the_document_has_the_suspect_with_its_evidence() -> None:
    found = document()
    assert {key: found[key] for key in ("pid", "python", "seconds", "verdict", "grown")} == {
        "pid": 4711,
        "python": "3.12.1",
        "seconds": 30.0,
        "verdict": "leak",
        "grown": {"count": 1_240, "bytes": 3_250_585},
    }
    (suspect,) = found["suspects"]
    assert {"rank", *(field.name for field in fields(Suspect))} == set(suspect)
    assert (suspect["rank"], suspect["point"], suspect["example"]) == (1, "0x7f00", None)
    assert suspect["series"] == [80, None, 1_320]
    assert suspect["path"] == ["module app.cache", "._sessions", "dict[*]", "app.models.Session"]
    assert [mark["seconds"] for mark in found["marks"]] == [0, 15, 30]
    assert [mark["rss"] for mark in found["marks"]] == [64_000_000, None, 70_000_000]
    assert [row["name"] for row in found["growths"]["type"]["rows"]] == ["app.models.Session", "dict"]
    assert found["growths"]["site"]["complete"] is False
    assert found["lints"][0]["name"] == "threads"
    assert found["notes"] == list(FOUND.notes)


def test_tables_are_cut_to_what_was_asked_for() -> None:
    found = document(top=1)["growths"]["type"]
    assert (len(found["rows"]), found["of"]) == (1, 2)
    assert growth_lines(FOUND.growths[0], top=1)[-1] == "(1 more)"
    assert len(growth_lines(FOUND.growths[0], top=None)) == 3


def test_the_text_has_the_suspect_with_its_evidence() -> None:
    assert findings_lines(FOUND) == [
        "leak: +1,240 objects, +3.10 MiB in 30 s, 3 marks",
        "",
        f"  1. leak: {SENTENCE}",
        "     - it grew in every interval",
        "     - none of the old ones went",
        "     at app/views.py:88 f88",
        "     at app/views.py:70 f70",
        "     at app/views.py:60 f60",
        "     at app/views.py:50 f50",
        "",
        "lint threads: 12 threads more than at the first mark",
        "",
        "TYPE                OBJECTS      SIZE    NOW  SIZE NOW  ≥BORN  ≥GONE  ≈SURVIVORS",
        "app.models.Session   +1,240  +391 KiB  1,320   420 KiB  1,240      0  620 620",
        "dict                 +1,240  +391 KiB  1,320   420 KiB  1,240      0  620 620",
        "",
        "SITE                            ≈BLOCKS               ≈SIZE   ≈NOW  ≈SIZE NOW  ≈BORN  ≈GONE  ≈SURVIVORS",
        "app/views.py:88 create_session   +1,200  +381 KiB ±87.9 KiB  1,200    381 KiB      ?      ?",
        "(partial: there may be more rows by site)",
        "",
        "note: Sites are known of what was allocated since the attach",
    ]


@pytest.mark.parametrize(("own", "where"), [(True, "at"), (False, "near")])
def test_a_stack_of_what_is_new_with_them_is_near(own: bool, where: str) -> None:
    lines = suspect_lines(1, replace(SUSPECT, site_is_own=own))
    assert [line.strip() for line in lines[-FRAMES:]] == [f"{where} {frame}" for frame in SUSPECT.stack[:FRAMES]]


def test_handlers_are_a_line_of_a_suspect_and_in_its_json() -> None:
    handlers = HandlerShare("request login (shop/views.py)", 0.75), HandlerShare("request index (shop/views.py)", 0.25)
    several = replace(SUSPECT, handlers=handlers)
    words = "     handler: ≈75% request login (shop/views.py), 25% request index (shop/views.py)"
    assert words in suspect_lines(1, several)
    only = replace(SUSPECT, handlers=(replace(handlers[0], share=1.0),))
    assert "     handler: request login (shop/views.py)" in suspect_lines(1, only)
    assert not [line for line in suspect_lines(1, SUSPECT) if "handler" in line]
    assert not [line for line in suspect_lines(1, replace(several, verdict="no leak")) if "handler" in line]
    document = findings_json(replace(FOUND, suspects=(several, SUSPECT)), pid=1, python="3.12")
    assert [row["handlers"] for row in document["suspects"]] == [
        [{"name": each.name, "share": each.share} for each in handlers],
        [],
    ]


def test_names_give_way_in_a_narrow_terminal() -> None:
    assert growth_lines(FOUND.growths[0], width=68)[0].endswith("≥GONE"), "the last columns are left out first"
    rows = tuple(replace(row, name=f"app.{'models.' * 9}{row.name}") for row in FOUND.growths[0].rows)
    for width in (60, 68, 78):
        lines = growth_lines(replace(FOUND.growths[0], rows=rows), width=width)
        assert max(map(len, lines)) <= width, "no number is wrapped"
        assert re.match("app.*….*Session +[+]1,240 ", lines[1])


def test_a_site_keeps_its_file_and_line_in_a_narrow_terminal() -> None:
    site = "shop/of/many/folders/whose/names/are/long/sessions.py:1234 open_session_of_a_customer"
    by_site = replace(FOUND.growths[0], key="site", rows=(replace(FOUND.growths[0].rows[0], name=site),))
    lines = growth_lines(by_site, width=80)
    assert max(map(len, lines)) <= 80
    assert "…/sessions.py:1234 open_s" in lines[1]


def test_a_wide_terminal_shows_names_in_full() -> None:
    assert growth_lines(FOUND.growths[0], width=200) == growth_lines(FOUND.growths[0])


def test_what_is_no_leak_is_told_in_short() -> None:
    harmless = replace(SUSPECT, verdict="no leak")
    assert findings_lines(replace(FOUND, suspects=(harmless,)))[2:5] == [
        f"  1. no leak: {SENTENCE}",
        "     - it grew in every interval",
        "",
    ]


def test_sentences_are_wrapped_for_a_terminal() -> None:
    lines = findings_lines(replace(FOUND, growths=()), width=60)
    assert max(map(len, lines)) <= 60
    assert lines[3].startswith("     "), "what goes on stands under its beginning"
    assert " ".join(" ".join(lines).split()) == " ".join(" ".join(findings_lines(replace(FOUND, growths=()))).split())


@given(any_of(Findings).filter(lambda found: found.marks))
def test_any_findings_can_be_told(found: Findings) -> None:
    told = json.loads(json.dumps(findings_json(found, pid=1, python="3.8")))
    assert [suspect["sentence"] for suspect in told["suspects"]] == [each.sentence for each in found.suspects]
    text = "\n".join(findings_lines(found, top=None))
    for said in (*found.notes, *(lint.sentence for lint in found.lints), *(each.sentence for each in found.suspects)):
        assert said in text


@given(st.integers(-(1 << 40), 1 << 40))
def test_the_first_line_is_the_verdict(bytes: int) -> None:
    line = findings_lines(replace(FOUND, bytes=bytes, verdict="no leak"))[0]
    assert line.startswith("no leak: ")
    assert (" -" in line) == (bytes < 0)


def test_sites_that_sum_to_more_than_the_heap_grew_are_explained() -> None:
    """A full cache replaces what it held before the attach: its site has grown, and the heap has not."""
    full = replace(FOUND, bytes=-84)
    assert "what replaced memory from before the attach" in "\n".join(findings_lines(full))
    assert "from before the attach" not in "\n".join(findings_lines(FOUND))
