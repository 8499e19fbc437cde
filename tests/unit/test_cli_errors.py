"""Errors become sentences on stderr and exit codes, in one place."""

from __future__ import annotations

import errno
import os
import re
from collections import Counter

import pytest

from heaptop import cli, errors
from heaptop.__main__ import main
from heaptop.errors import HeaptopError, OutOfResources, all_errors


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("json", [False, True])
def test_an_error_is_said_once_and_is_the_exit_code(
    kind: type[HeaptopError], json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = kind("Process 12 did something odd.")

    def fail(argv: object, *, is_program: bool) -> int:
        raise error

    monkeypatch.setattr(cli, "run", fail)
    assert main(["ps", *["--json"] * json]) == kind.exit_code != 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"heaptop: {error.help_text}\n"
    assert error.message in said.err
    assert error.why in said.err
    assert error.fix in said.err


def test_every_class_has_a_code_of_its_own() -> None:
    codes = Counter(kind.exit_code for kind in all_errors())
    shared = {code for code, count in codes.items() if count > 1}
    # 1 belongs to the bases, which are never raised themselves; a frame too large is a protocol error, and a file of
    # settings is as the command line.
    assert shared == {1, errors.UsageError.exit_code, errors.ProtocolError.exit_code}
    assert {kind for kind in all_errors() if kind.exit_code == 1} == {
        errors.HeaptopError,
        errors.TargetError,
        errors.SessionError,
        errors.RecordingError,
        errors.DumpError,
    }


def test_the_drawing_of_the_tree_is_true() -> None:
    drawn = dict(re.findall(r"── (\w+) +(\d+)$", errors.__doc__ or "", re.MULTILINE))
    assert drawn == {kind.__name__: str(kind.exit_code) for kind in all_errors() if kind.exit_code != 1}


@pytest.mark.parametrize("kind", [kind for kind in all_errors() if kind.exit_code > 2], ids=lambda k: k.__name__)
def test_every_class_says_why(kind: type[HeaptopError]) -> None:
    assert kind.why


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_the_process_is_named_where_it_is_known(kind: type[HeaptopError]) -> None:
    told = kind("Process 4711 is odd.").about(4711)
    assert not re.search(r"\bPID\b", told.help_text)
    assert ("4711" in told.fix + told.why) == ("PID" in kind.fix + kind.why)
    assert told.message == "Process 4711 is odd."
    assert kind("again").fix == kind.fix


def test_ctrl_c_is_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(argv: object, *, is_program: bool) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run", interrupt)
    assert main(["ps"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, None])
def test_a_limit_of_heaptops_own_is_an_error_with_its_reason(
    number: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(argv: object, *, is_program: bool) -> int:
        raise MemoryError if number is None else OSError(number, os.strerror(number))

    monkeypatch.setattr(cli, "run", fail)
    assert main(["ps"]) == OutOfResources.exit_code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("heaptop: ")
    assert "`ulimit -" in said.err


def test_another_error_of_the_system_is_a_defect_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(argv: object, *, is_program: bool) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(cli, "run", fail)
    with pytest.raises(OSError, match="output error"):
        main(["ps"])
