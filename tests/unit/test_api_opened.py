"""``heaptop.api.open``: a program reads of a recording what the commands print of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heaptop import api
from heaptop.__main__ import main
from tests.support.recorded import written


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("recordings") / "night.heaptop")


@pytest.mark.parametrize("user_code", ["", "/usr/lib"])
@pytest.mark.parametrize("by", ["type", "module", "producer"])
def test_changes_are_those_that_the_command_prints(
    night: Path, by: str, user_code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [user_code] if user_code else []
    with api.open(night, user_code=places) as recording:
        changed = [(row.name, row.count, row.bytes) for row in recording.changes(by) if row.bytes or row.count]
    assert main(["diff", str(night), "--by", by, "--json", *(f"--user-code={each}" for each in places)]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert changed == [(row["name"], row["count"], row["bytes"]) for row in rows] != []


def test_user_code_names_the_sites(night: Path) -> None:
    names = []
    for user_code in ((), ("/usr/lib",)):
        with api.open(night, user_code=user_code) as recording:
            names.append({row.name for row in recording.changes("producer")})
    assert names[0] != names[1]
