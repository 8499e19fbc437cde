"""Who may read what ``heaptop serve`` serves."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from heaptop.errors import UsageError
from heaptop.fleet.access import Access, read_access
from heaptop.fleet.configuration import load
from heaptop.fleet.server import listening_socket
from heaptop.fleet.web_config import read_web_config

TOKEN = "0123456789abcdef"


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "secrets"
    file.write_text(text)
    file.chmod(mode)
    return file


def basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


def test_a_request_needs_one_of_the_secrets(tmp_path: Path) -> None:
    access = read_access(written(tmp_path, f"# of the scraper\nbearer {TOKEN}\n\nbasic prometheus:{TOKEN}x\n"))
    assert not access.is_open
    assert access.allows(f"Bearer {TOKEN}")
    assert access.allows(f"bearer  {TOKEN}")
    assert access.allows(basic(f"prometheus:{TOKEN}x"))
    for header in (
        "",
        "Bearer",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        basic(f"prometheus:{TOKEN}"),
        basic(TOKEN),
        f"Basic {TOKEN}!",
        TOKEN,
        "Bearer \udcff",
    ):
        assert not access.allows(header), header


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (f"bearer {TOKEN}", 0o640, "Other users may read"),
        (f"bearer {TOKEN}", 0o602, "Other users may read"),
        ("bearer short", 0o600, "line 1"),
        (f"\ntoken {TOKEN}", 0o600, "line 2"),
        (f"basic {TOKEN}", 0o600, "line 1"),
        ("# nothing\n", 0o600, "contains no secret"),
        (f"# {'x' * 65536}\nbearer {TOKEN}", 0o600, "larger than 64 KiB"),
    ],
)
def test_a_file_that_protects_nothing_is_refused(tmp_path: Path, text: str, mode: int, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_access(written(tmp_path, text, mode))
    assert said in caught.value.message
    assert TOKEN not in caught.value.help_text


@pytest.mark.parametrize("read", [read_access, read_web_config, load])
def test_a_file_that_others_chose_is_refused(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """What it says is done as root: commands are run, secrets let in. Also behind a link, as a mounted secret is."""
    file, link = written(tmp_path, ""), tmp_path / "link"
    link.symlink_to(file)
    file.chmod(0o666)
    for path in (file, link):
        with pytest.raises(UsageError, match="Other users may"):
            read(path)
    file.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(file, 65534, 65534)
        with pytest.raises(UsageError, match="belongs to another user"):
            read(link)


@pytest.mark.parametrize("read", [read_access, read_web_config, load])
def test_a_file_without_an_end_holds_nothing_up(tmp_path: Path, read: Callable[[Path], object]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(UsageError, match="is not a regular file"):
            read(path)


def test_a_file_of_sudos_caller_is_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    file = written(tmp_path, f"bearer {TOKEN}")
    os.chown(file, 65534, 65534)
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65534")
    assert read_access(file).tokens == (TOKEN.encode(),)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:9917", "example.com:9917"])
def test_other_machines_are_served_only_where_a_secret_is_asked_for(address: str) -> None:
    with pytest.raises(UsageError, match="nothing asks for a secret"):
        listening_socket(address, Access())


def test_with_a_secret_every_address_is_allowed() -> None:
    with listening_socket("0.0.0.0:0", Access((TOKEN.encode(),))) as listening:
        assert listening.getsockname()[0] == "0.0.0.0"


@pytest.mark.parametrize("address", ["127.0.0.1", "9917", "127.0.0.1:http", "127.0.0.1:99999", "a@127.0.0.1:1", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is not an address"):
        listening_socket(address, Access())


def test_an_address_that_is_taken_is_an_error() -> None:
    with listening_socket("127.0.0.1:0", Access()) as first:
        port = first.getsockname()[1]
        with pytest.raises(UsageError, match="Cannot listen on"):
            listening_socket(f"127.0.0.1:{port}", Access())
