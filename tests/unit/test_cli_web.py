"""``heaptop open --web``: what is refused before anything is served."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from heaptop.__main__ import main
from tests.support.recorded import written

pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("recordings") / "night.heaptop", 4)


def refusal(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["open", *argv]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return " ".join(said.err.split())


@pytest.mark.parametrize("package", ["aiohttp", "textual_serve.server"])
def test_without_its_packages_it_says_what_to_type(
    package: str, night: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("heaptop.cli.web", "aiohttp", "textual_serve.app_service"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    said = refusal(capsys, str(night), "--web")
    assert "is not installed" in said
    assert "`pip install 'heaptop[web]'`" in said


@pytest.mark.parametrize("option", [["--port", "8000"], ["--host", "0.0.0.0"]])
def test_where_to_serve_means_nothing_without_a_page(
    option: list[str], night: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Add `--web`." in refusal(capsys, str(night), *option)


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_a_port_is_a_number(port: str, night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["open", str(night), "--web", "--port", port])
    assert "--port" in capsys.readouterr().err


def test_what_is_wrong_is_said_before_a_page_is_served(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("aiohttp", reason="the extra heaptop[web] is not installed")
    assert "no theme" in refusal(capsys, str(night), "--web", "--theme", "plaid").lower()
    assert "noon" in refusal(capsys, str(night), "--web", "--at", "noon")
    assert "Cannot serve at nowhere.invalid" in refusal(capsys, str(night), "--web", "--host", "nowhere.invalid")
    assert main(["open", f"{night}.gone", "--web"]) == 50


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("a.example", False)],
)
def test_only_addresses_of_this_machine_are_loopback(host: str, is_ours: bool) -> None:
    pytest.importorskip("aiohttp", reason="the extra heaptop[web] is not installed")
    from heaptop.cli.web import is_loopback  # noqa: PLC0415  # which needs the extra

    assert is_loopback(host) is is_ours
