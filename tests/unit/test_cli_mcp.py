"""``heaptop mcp``, as far as it needs no process."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from heaptop.__main__ import main
from heaptop.errors import UsageError


def test_without_its_package_it_reports_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("heaptop.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["mcp"]) == UsageError.exit_code
    assert "pip install 'heaptop[mcp]'" in capsys.readouterr().err


def test_its_help_needs_no_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(SystemExit, match="0"):
        main(["mcp", "--help"])
    assert "pip install 'heaptop[mcp]'" in capsys.readouterr().out


@pytest.mark.skipif(find_spec("mcp") is None, reason="the extra heaptop[mcp] is not installed")
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("0.0.0.0:0", "can be reached from other machines"),
        ("example.org:80", "can be reached from other machines"),
        ("[::]:0", "can be reached from other machines"),
        ("localhost", "is not an address"),
        ("127.0.0.1:99999", "is not an address"),
        ("", "is not an address"),
    ],
)
def test_only_loopback_is_served(address: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--http", address]) == UsageError.exit_code
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


@pytest.mark.skipif(find_spec("mcp") is None, reason="the extra heaptop[mcp] is not installed")
def test_a_folder_of_recordings_must_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--recordings", str(tmp_path / "none")]) == UsageError.exit_code
    assert "is not a folder" in capsys.readouterr().err
