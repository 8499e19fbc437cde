"""``heaptop serve``, as far as it needs no process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from heaptop.__main__ import main
from heaptop.errors import UsageError


def test_without_its_packages_it_reports_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("heaptop.fleet", "prometheus_client"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert main(["serve"]) == UsageError.exit_code
    assert "pip install 'heaptop[serve]'" in capsys.readouterr().err


def test_a_wrong_file_is_an_error_and_nothing_listens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("limits = 3")
    assert main(["serve", "--config", str(file), "--listen", "127.0.0.1:0"]) == UsageError.exit_code
    said = capsys.readouterr()
    assert "unknown key `limits`" in said.err
    assert said.out == ""


def test_an_address_of_the_network_needs_a_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--listen", "0.0.0.0:0"]) == UsageError.exit_code
    assert "--credentials" in capsys.readouterr().err
    assert main(["serve", "--listen", "0.0.0.0:0", "--credentials", str(tmp_path / "none")]) == UsageError.exit_code
    assert "cannot be read" in capsys.readouterr().err
