"""``heaptop report``, ``diff``, ``export`` and ``open``: what they print of a recording, and say of a wrong one."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from heaptop.__main__ import main
from heaptop.analysis.reports.census_timeline import CensusTimeline
from heaptop.analysis.reports.moments_diff import DIFFS, Changed, MomentSizes, most_changed
from heaptop.analysis.reports.recorded import gaps
from heaptop.cli.commands import diff
from heaptop.cli.options import with_times
from heaptop.cli.output.recorded_text import _beyond_heap, _rows, report_lines
from heaptop.cli.recorded import replay_to
from heaptop.errors import NotARecording, RecordingTooNew
from heaptop.protocol.findings import LEAK, UNCLEAR
from heaptop.protocol.messages import Row
from heaptop.recordings.exports import EXPORTERS
from heaptop.recordings.reader import Recording
from tests.fakes.source import SECOND
from tests.support.recorded import written

pytestmark = pytest.mark.usefixtures("utc")

FILES = ["report", "diff", "export", "open"]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("recordings") / "night.heaptop")


def command(name: str, path: Path) -> list[str]:
    return [name, str(path), *(["--to", "html"] if name == "export" else [])]


# -- report --------------------------------------------------------------------------------------------------


def test_report_says_what_happened(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(night)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert lines[0] == "process 4242: python -m shop.server --port 8000"
    assert lines[2] == "28m 00s, from 2025-06-15 15:07:40 to 15:35:40"
    assert "RSS       64.1 MiB → 67.6 MiB" in said.out
    assert "shop.models.Session" in said.out
    assert "shop/views.py:88 create_session" in said.out
    assert "1,240 Session (+3.1 MiB, still growing 21/s)" in said.out
    assert "Leak hunt at 15:20:40, since the first mark (before <b>):" in said.out
    assert "the recording is complete" in said.out


def test_a_report_says_why_sites_are_more_than_the_live_heap(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(night)]) == 0
    said = capsys.readouterr().out
    words = "sites can sum to more than live heap grew: they include what replaced memory from before the recording\n"
    assert said.index("By allocation site") < said.index(words)
    with Recording.open(night) as recording:
        known = replay_to(recording, None, ())
    latest = known.history.latest
    assert latest is not None
    known.history.feed(replace(latest.census, time_ns=latest.time_ns + 1, rows=(Row(0, 0, 3, 300, 2048),)))
    assert _beyond_heap(known)[0].endswith(", and attributes stored without a dict (2.00 KiB at the end)")


def test_a_report_says_what_leak_hunts_count_and_the_live_heap_does_not(night: Path) -> None:
    """The two growths were 7.67 and 9.96 MiB of one recording, without a word."""
    with Recording.open(night) as recording:
        known = replay_to(recording, None, ())
    latest = known.history.latest
    assert latest is not None
    words = "live heap leaves out attributes stored without a dict"
    assert words not in "\n".join(report_lines(known, known, CensusTimeline.of(known), None))
    known.history.feed(replace(latest.census, time_ns=latest.time_ns + 1, rows=(Row(0, 0, 3, 300, 2048),)))
    lines = report_lines(known, known, CensusTimeline.of(known), None)
    assert f"{words} (2.00 KiB at the end); leak hunts include them" in lines


MIB = 1 << 20


def test_report_says_when_the_heap_jumped_and_of_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "a", 60, jumps={20: 30 * MIB, 40: 90 * MIB})
    assert main(["report", str(path)]) == 0
    said = capsys.readouterr().out
    lines = said[said.index("Largest jumps (live heap, RSS):") :].splitlines()
    times = [line.split("  ")[0] for line in (lines[1], lines[3])]
    assert times == ["15:45:40 to 15:46:40", "15:25:40 to 15:26:40"], "the largest first"
    assert "in 1m 00s" in lines[1]
    assert "of which +89.9 MiB dict" in lines[2]
    assert main(["report", str(path), "--json"]) == 0
    largest, other = json.loads(capsys.readouterr().out)["jumps"]
    assert largest["seconds"] - largest["from_seconds"] == 60
    assert largest["types"][0]["name"] == "dict"
    assert 89 * MIB < largest["bytes"] < 92 * MIB
    assert other["seconds"] == 19 * 60


def test_of_a_long_recording_a_jump_is_found_as_closely_as_it_was_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "a", 1500, step_ns=SECOND, sampled=False, jumps={333: 200 * MIB})
    assert main(["report", str(path), "--json"]) == 0
    (jump,) = json.loads(capsys.readouterr().out)["jumps"]
    assert (jump["from_seconds"], jump["seconds"]) == (331, 332), "the first moment is that of the second census"


@pytest.mark.parametrize("tick", [52, 55, 61])
def test_a_jump_names_the_sites_of_all_that_was_allocated_between_its_censuses(
    tick: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples come each second, censuses every ten: the samples are those of the jump, whenever in it they came."""
    path = written(tmp_path / "a", 120, step_ns=SECOND, jumps={6: 30 * MIB}, bursts={tick: 30 * MIB}, every=10)
    assert main(["report", str(path), "--json"]) == 0
    (jump,) = json.loads(capsys.readouterr().out)["jumps"]
    assert jump["seconds"] - jump["from_seconds"] == 10
    first = jump["producers"][0]
    assert 29 * MIB < first["bytes"] < 31 * MIB
    assert main(["report", str(path)]) == 0
    assert f"allocated at +30.0 MiB ±{first['error_bytes'] / 1024:.3g} KiB" in capsys.readouterr().out


@pytest.mark.parametrize("late", [4, 12])
def test_a_jump_is_reported_whole_also_where_its_census_comes_many_seconds_later(
    late: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "a", 180, step_ns=SECOND, jumps={3: 60 * MIB}, every=30, late=late)
    assert main(["report", str(path), "--json"]) == 0
    (jump,) = json.loads(capsys.readouterr().out)["jumps"]
    assert jump["seconds"] - jump["from_seconds"] == 30
    assert jump["bytes"] // (10 * MIB) == 6


def test_jumps_that_follow_each_other_in_few_censuses_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "a", 8, sampled=False, jumps={3: 40 * MIB, 4: 50 * MIB})
    assert main(["report", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["jumps"]
    assert [(jump["from_seconds"], jump["seconds"]) for jump in found] == [(120, 180), (60, 120)]
    assert [jump["bytes"] // (10 * MIB) for jump in found] == [5, 4]


def test_a_heap_that_grows_evenly_has_no_jump(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(night)]) == 0
    said = capsys.readouterr().out
    assert "\nNo jumps of live heap or RSS.\n" in said
    assert "Largest jumps" not in said


def test_of_looks_since_one_mark_the_last_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "a", 10, checks=(UNCLEAR, LEAK, LEAK))
    assert main(["report", str(path)]) == 0
    said = capsys.readouterr().out
    assert said.count("Leak hunt at") == 1
    assert "leak: +1,002 objects" in said
    assert "earlier verdicts: unclear (1), leak (1)" in said
    assert main(["report", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["findings"]) == 3


def test_a_report_as_json_has_the_same_moment_and_types(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(night), "--json", "--top", "3"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["pid"], document["seconds"], document["file"]) == (4242, 28 * 60, "night.heaptop")
    assert document["begin"].startswith("2025-06-15T15:07:40")
    assert len(document["types"]) == 3
    assert [row["bytes"] for row in document["types"]] == sorted(
        (row["bytes"] for row in document["types"]), reverse=True
    )
    assert all(row["bytes"] > row["error_bytes"] > 0 for row in document["producers"])
    assert len(document["course"]) == 29
    assert document["findings"][0]["verdict"] == "leak"


def test_a_gap_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "a", 20, step_ns=SECOND)
    assert main(["report", str(path)]) == 0
    assert "No leak hunt" not in capsys.readouterr().out
    seconds = [time * SECOND for time in (*range(100), 400, *range(401, 500))]
    assert gaps(seconds) == [(99 * SECOND, 400 * SECOND)]
    assert gaps([time * 60 * SECOND for time in range(20)]) == []
    assert gaps([5]) == gaps([]) == []


def test_a_report_says_what_is_damaged(night: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = tmp_path / "cut.heaptop"
    cut.write_bytes(night.read_bytes()[:-100])
    assert main(["report", str(cut)]) == 0
    assert "bytes are incomplete" in capsys.readouterr().out
    assert main(["report", str(cut), "--json"]) == 0
    assert "incomplete" in json.loads(capsys.readouterr().out)["remarks"][0]
    assert main(["diff", str(cut)]) == 0
    assert "cut.heaptop: the last" in capsys.readouterr().out


# -- diff ----------------------------------------------------------------------------------------------------


def test_of_a_difference_the_rows_that_changed_least_are_left_out_whether_they_grew_or_shrank() -> None:
    changes = {"dict": 900, "set": 5, "float": 1, "int": -20, "str": -8000}
    rows = [Changed(name, MomentSizes(1, max(-by, 0)), MomentSizes(1, max(by, 0))) for name, by in changes.items()]
    assert [row.name for row in most_changed(rows, 3)] == ["dict", "int", "str"]
    assert most_changed(rows, None) == rows
    assert most_changed(rows[:3], 2) == rows[:2]


def test_of_a_difference_growth_is_not_left_out_where_more_has_shrunk() -> None:
    shrunk = {f"app.Cached{number}": -10_000_000 for number in range(20)}
    changes = {"app.Leak": 5_000_000, **shrunk}
    rows = [Changed(name, MomentSizes(1, max(-by, 0)), MomentSizes(1, max(by, 0))) for name, by in changes.items()]
    assert len(most_changed(rows, 20)) == 20
    assert most_changed(rows, 20)[0].name == "app.Leak"


def test_diff_is_from_the_beginning_to_the_end(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(night), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert (whole["before"]["seconds"], whole["after"]["seconds"]) == (0, 28 * 60)
    assert whole["grown"]["bytes"] == whole["after"]["total"]["bytes"] - whole["before"]["total"]["bytes"]
    assert sum(row["bytes"] for row in whole["rows"]) == whole["grown"]["bytes"]
    for row in whole["rows"]:
        assert row["bytes"] == row["after"]["bytes"] - row["before"]["bytes"]
    sessions = next(row for row in whole["rows"] if row["name"] == "shop.models.Session")
    assert sessions["count"] > 10_000


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        (["--at", "+10m"], (600, 1680)),
        (["--at", "-10m"], (1080, 1680)),
        (["--at=-10m", "--to", "-5m"], (1080, 1380)),
        (["--at", "15:17:40", "--to", "15:20"], (600, 720)),
        (["--at", "90", "--to", "90"], (60, 60)),
    ],
)
def test_diff_between_two_moments(
    night: Path, times: list[str], seconds: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", str(night), "--json", *times]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["before"]["seconds"], document["after"]["seconds"]) == seconds
    if seconds[0] == seconds[1]:
        assert document["rows"] == []


def test_diff_as_a_table(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(night), "--top", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("before  night.heaptop, 2025-06-15 15:07:40 (+0 s), RSS 64.1 MiB, live heap ")
    assert lines[3].split() == ["GROWN", "OBJECTS", "SIZE", "AFTER", "OBJECTS", "AFTER", "TYPE"]
    assert len(lines[4:]) == 3 + 3
    assert "more, " in lines[7]
    assert main(["diff", str(night), "--by", "module", "--top", "0"]) == 0
    assert "shop.models" in capsys.readouterr().out
    assert main(["diff", str(night), "--by", "site"]) == 0
    said = capsys.readouterr().out
    assert "shop/views.py:88 create_session" in said
    assert "± is the larger side of the 95 % interval" in said
    assert main(["diff", str(night), "--at", "-0", "--by", "module"]) == 0
    assert "Nothing changed." in capsys.readouterr().out


def test_a_difference_marks_what_is_new_and_what_is_gone() -> None:
    rows = [
        Changed("app.Old", MomentSizes(5, 500), MomentSizes()),
        Changed("app.New", MomentSizes(), MomentSizes(5, 500)),
        Changed("app.Same", MomentSizes(5, 500), MomentSizes(6, 600)),
    ]
    names = [line.split("  ")[-1] for line in _rows(rows, "type", "AFTER")]
    assert names[1:] == ["app.Old (gone)", "app.New (new)", "app.Same"]
    assert "(new)" not in "".join(_rows(rows, "producer", "AFTER")), "no sample does not mean that there was none"


def test_diff_of_two_recordings_is_of_their_ends(
    night: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = written(tmp_path / "other.heaptop", 10)
    assert main(["diff", str(night), str(other), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [document[name]["file"] for name in ("before", "after")] == ["night.heaptop", "other.heaptop"]
    assert [document[name]["seconds"] for name in ("before", "after")] == [28 * 60, 8 * 60]
    assert document["grown"]["bytes"] < 0
    sessions = next(row for row in document["rows"] if row["name"] == "shop.models.Session")
    assert sessions["count"] < 0
    assert main(["diff", str(night), str(other), "--at", "+7m", "--to", "+7m", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["grown"] == {"count": 0, "bytes": 0}


def test_the_words_of_the_command_line_are_those_of_the_registries() -> None:
    assert (*DIFFS,) == diff.KEYS


def test_a_format_is_loaded_only_when_somebody_exports_to_it() -> None:
    code = (
        "import sys\n"
        "from heaptop.cli import build_parser\n"
        "build_parser()\n"
        "print(sorted(name for name in sys.modules if name.startswith(('heaptop.recordings.', 'heaptop.analysis'))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['heaptop.recordings.exports']\n"


def test_a_time_before_the_end_is_no_option() -> None:
    assert with_times(["diff", "a", "--at", "-1h", "--to", "-30m"]) == ["diff", "a", "--at=-1h", "--to=-30m"]
    assert with_times(["export", "a", "--to", "html", "--at", "-o"]) == ["export", "a", "--to", "html", "--at", "-o"]


# -- export --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPORTERS)
def test_export_to_a_file_and_to_stdout(
    night: Path, name: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    out = tmp_path / "out"
    assert main(["export", str(night), "--to", name, "-o", str(out)]) == 0
    assert capsysbinary.readouterr() == (b"", b"")
    assert main(["export", str(night), "--to", name]) == 0
    assert capsysbinary.readouterr().out == out.read_bytes()
    content = out.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    assert b"create_session" in content


def test_export_is_of_the_moment_that_was_asked_for(night: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    held = {}
    for at in ("+2m", "-0"):
        assert main(["export", str(night), "--to", "collapsed", "--at", at]) == 0
        lines = capsysbinary.readouterr().out.decode().splitlines()
        held[at] = next(int(line.split()[-1]) for line in lines if "create_session (shop/views.py:88) " in line)
    assert held["-0"] > 5 * held["+2m"]
    assert main(["export", str(night), "--to", "json", "--at", "+5m"]) == 0
    document = json.loads(capsysbinary.readouterr().out)
    assert document["at"] == 300
    assert len(document["course"]) == len(document["over_time"]["types"]["seconds"]) == 6
    assert document["over_time"]["producers"]["seconds"][-1] == 300


def test_what_was_never_sampled_has_no_stacks(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    path = str(written(tmp_path / "a", 4, sampled=False))
    assert main(["export", path, "--to", "collapsed"]) == 2
    assert b"has no samples before" in capsysbinary.readouterr().err
    assert main(["export", path, "--to", "html"]) == 0


def test_export_never_writes_over_the_recording(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = night.read_bytes()
    assert main(["export", str(night), "--to", "html", "-o", str(night)]) == 2
    assert f"overwrite {night} itself" in " ".join(capsys.readouterr().err.split())
    assert night.read_bytes() == before
    assert main(["export", str(night), "--to", "html", "-o", str(night / "no")]) == 2
    assert "cannot be written" in capsys.readouterr().err


# -- what a person can get wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_every_command_refuses_a_file_that_is_not_there(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(name, tmp_path / "none")) == NotARecording.exit_code
    said = capsys.readouterr()
    assert said.out == ""
    assert "No such file" in said.err


@pytest.mark.parametrize("name", FILES)
def test_every_command_refuses_what_is_no_recording(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in (b"", b"PK\3\4 something else", b"heaptop\x1a"):
        (tmp_path / "x").write_bytes(content)
        assert main(command(name, tmp_path / "x")) == NotARecording.exit_code
    assert main(command(name, tmp_path)) == NotARecording.exit_code
    assert "Is a directory" in capsys.readouterr().err


@pytest.mark.parametrize("name", FILES)
def test_of_a_newer_heaptop(name: str, night: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(night.read_bytes())
    struct.pack_into("<H", content, 8, 99)
    (tmp_path / "newer").write_bytes(content)
    assert main(command(name, tmp_path / "newer")) == RecordingTooNew.exit_code
    assert "format 99" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["diff", "export", "open"])
@pytest.mark.parametrize(("typed", "said"), [("noon", "is not a time"), ("+3h", "from 15:07:40 to 15:35:40")])
def test_a_time_outside_the_recording_is_refused(
    name: str, typed: str, said: str, night: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command(name, night), "--at", typed]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err


def test_an_unknown_attribute_is_refused_with_those_that_exist(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(night), "--by", "colour"]) == 2
    assert "type, module, producer" in capsys.readouterr().err


def test_open_needs_a_terminal_and_says_what_does_not(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["open", str(night)]) == 2
    assert f"heaptop report {night}" in capsys.readouterr().err
