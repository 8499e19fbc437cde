"""Whether it is a person's first time: by a file of theirs, and never an error."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest

from heaptop.cli.first_run import first_run, mark


def test_it_is_the_first_time_until_the_hint_was_seen(tmp_path: Path) -> None:
    file = tmp_path / "state" / "hint-seen"
    seen = first_run(file)
    assert seen is not None
    assert first_run(file) is not None, "it was only asked"
    seen()
    assert first_run(file) is None
    seen()


def test_the_folder_is_the_users_own(tmp_path: Path) -> None:
    seen = first_run(tmp_path / "state" / "hint-seen")
    assert seen is not None
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_what_is_no_folder_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    assert first_run(tmp_path / "state" / "hint-seen") is None


def test_where_it_cannot_be_remembered_it_is_not_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert first_run(tmp_path / "hint-seen") is None


def test_what_cannot_be_remembered_in_the_end_is_no_error(tmp_path: Path) -> None:
    seen = first_run(tmp_path / "state" / "hint-seen")
    assert seen is not None
    (tmp_path / "state").rmdir()
    seen()


def test_it_lies_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_state_path", lambda name: tmp_path / name)
    assert mark() == tmp_path / "heaptop" / "hint-seen"
