"""Files that people ask for: for their owner alone, not through links, and never over what is there unasked."""

from __future__ import annotations

import ctypes
import os
import pty
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from heaptop import files
from heaptop.__main__ import main
from heaptop.cli.commands.run import default_output
from heaptop.cli.first_run import first_run
from heaptop.cli.terminal import may_replace
from heaptop.errors import LaunchFailed, RecordingExists, SaveFailed, UsageError
from heaptop.injector.backends.run import _start
from heaptop.injector.inspect import refusals_cache
from heaptop.injector.requests import Launch
from heaptop.recordings.writer import create
from heaptop.tui.state import saving
from tests.support.recorded import written

pytestmark = pytest.mark.usefixtures("utc")
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture(autouse=True)
def open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("recordings") / "night.heaptop", 4)


def exported(night: Path, path: Path) -> None:
    if main(["export", str(night), "--to", "json", "-o", str(path)]):
        raise SaveFailed("it says so")


def launched(night: Path, path: Path) -> None:
    reader, writer = os.pipe()
    try:
        with _start(Launch(("-c",), sys.executable, path), reader, writer) as child:
            child.kill()
    finally:
        os.close(reader)
        os.close(writer)


def recorded(night: Path, path: Path) -> None:
    os.close(create(str(path)).fd)


def saved(night: Path, path: Path) -> None:
    saving.write(str(path), "a table")


Writer = Callable[[Path, Path], None]
WRITERS = [exported, launched, recorded, saved]
REFUSED = (SaveFailed, LaunchFailed, RecordingExists, UsageError)


@pytest.mark.parametrize("write", WRITERS)
def test_a_new_file_is_for_its_owner_alone(write: Writer, night: Path, tmp_path: Path) -> None:
    path = tmp_path / "new"
    write(night, path)
    assert mode(path) == 0o600


@pytest.mark.parametrize("write", WRITERS)
def test_what_is_there_is_not_written_over_without_being_asked(write: Writer, night: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text("mine")
    with pytest.raises(REFUSED):
        write(night, path)
    assert path.read_text() == "mine"
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("dangles", [False, True])
def test_a_link_is_not_followed(write: Writer, dangles: bool, night: Path, tmp_path: Path) -> None:
    precious, link = tmp_path / "precious", tmp_path / "link"
    if not dangles:
        precious.write_text("precious")
    link.symlink_to(precious)
    with pytest.raises(REFUSED):
        write(night, link)
    assert link.is_symlink()
    assert precious.exists() is not dangles
    assert dangles or precious.read_text() == "precious"


def test_force_replaces_a_file_and_nothing_else(night: Path, tmp_path: Path) -> None:
    path, link = tmp_path / "out.json", tmp_path / "link"
    path.write_text("mine")
    path.chmod(0o644)
    link.symlink_to(path)
    command = ["export", str(night), "--to", "json", "--force", "-o"]
    assert main([*command, str(link)]) == 60
    assert path.read_text() == "mine"
    assert main([*command, str(path)]) == 0
    assert path.read_bytes()[:1] == b"{"
    assert mode(path) == 0o600
    assert sorted(tmp_path.iterdir()) == [link, path]
    assert main([*command, str(tmp_path)]) == 60


def test_the_refusal_names_the_option(night: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    path.write_text("mine")
    assert main(["export", str(night), "--to", "json", "-o", str(path)]) == 60
    assert "`--force`" in capsys.readouterr().err


def test_what_cannot_be_written_whole_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    path.write_text("mine")

    def fails(fd: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "write", fails)
    for name in ("out", "new"):
        with pytest.raises(OSError, match="space"):
            files.write(str(tmp_path / name), b"content", force=True)
    monkeypatch.undo()
    assert path.read_text() == "mine"
    assert [*tmp_path.iterdir()] == [path]


def test_dev_null_is_written_and_stays_what_it_is(night: Path) -> None:
    before = os.stat("/dev/null")
    assert main(["export", str(night), "--to", "json", "-o", "/dev/null"]) == 0
    after = os.stat("/dev/null")
    assert (before.st_mode, before.st_ino) == (after.st_mode, after.st_ino)


@pytest.mark.parametrize(("typed", "replaces"), [(b"y\n", True), (b"\n", False), (b"n\n", False), (b"\x04", False)])
def test_at_a_terminal_a_person_is_asked(typed: bytes, replaces: bool, night: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("mine")
    main_end, end = pty.openpty()
    command = [sys.executable, "-m", "heaptop", "export", str(night), "--to", "json", "-o", str(path)]
    controlling = (
        "import os, sys, fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", controlling, *command], stdin=end, stdout=end, stderr=end, start_new_session=True
    ) as process:
        os.close(end)
        os.write(main_end, typed)
        said = b""
        while b"[y/N]" not in said:
            said += os.read(main_end, 4096)
        assert process.wait(60) == (0 if replaces else 60)
    os.close(main_end)
    assert (path.read_text() == "mine") is not replaces


def test_nobody_is_asked_without_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("mine")
    assert not may_replace(path, force=False)
    assert may_replace(path, force=True)


# -- folders ----------------------------------------------------------------------------------------------------------


def test_a_private_folder_is_made_for_its_owner(tmp_path: Path) -> None:
    assert mode(files.private_folder(tmp_path / "above" / "state")) == 0o700
    assert mode(tmp_path / "above") == 0o700, "who could write there could put another folder in its place"


@pytest.fixture(params=["link", "writable", "foreign", "file"])
def unsafe(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A state folder that heaptop has not made."""
    folder, elsewhere = tmp_path / "heaptop", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    if request.param == "link":
        folder.symlink_to(elsewhere)
    elif request.param == "file":
        folder.write_text("")
    else:
        folder.mkdir(mode=0o777 if request.param == "writable" else 0o755)
    if request.param == "foreign":
        if os.geteuid() != 0:
            pytest.skip("needs root")
        os.chown(folder, NOBODY, NOBODY)
    return folder


def test_a_folder_that_others_could_fill_is_not_used(unsafe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_state_path", lambda name: unsafe)
    for key in ("SUDO_UID", "SUDO_GID"):
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(LaunchFailed, match="cannot be used"):
        default_output(["prog.py"])
    assert first_run() is None
    refusals_cache.store(os.getpid(), "build", "so")
    assert refusals_cache.refusal(os.getpid(), "build") == ""
    assert unsafe.is_file() or not [*unsafe.iterdir()]


@pytest.mark.parametrize("kind", ["link", "pipe", "large"])
def test_a_record_that_is_no_small_file_is_not_read(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_state_path", lambda name: tmp_path / name)
    refusals_cache.store(os.getpid(), "build", "so")
    path = refusals_cache.record()
    assert mode(path) == 0o600
    content = path.read_text()
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "other").write_text(content)
        path.symlink_to(tmp_path / "other")
    else:
        path.write_text(content + " " * (1 << 20))
    assert refusals_cache.refusal(os.getpid(), "build") == ""


# -- root, by sudo ----------------------------------------------------------------------------------------------------


_DROPPED = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
head = (ctypes.c_uint32 * 2)(0x20080522, 0)
data = (ctypes.c_uint32 * 6)()
assert libc.capget(head, data) == 0
for word in (0, 1):
    data[word] &= ~(1 << 1)  # CAP_DAC_OVERRIDE
assert libc.capset(head, data) == 0, os.strerror(ctypes.get_errno())
from heaptop import files
try:
    {}
except PermissionError:
    sys.exit(13)
"""


def run_dropped(work: str, path: Path, caller: int | None) -> int:
    """Exit code of a program that does this to the path as root without CAP_DAC_OVERRIDE; 13: denied."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
    if caller is not None:
        environment |= {"SUDO_UID": str(caller), "SUDO_GID": str(caller)}
    opened = [parent for parent in path.parents if parent.exists() and parent.stat().st_uid == 0]
    before = {parent: parent.stat().st_mode for parent in opened if parent.stat().st_mode & 1 == 0}
    try:
        for parent, bits in before.items():
            parent.chmod(bits | 0o011)
        command = [sys.executable, "-c", _DROPPED.format(work), str(path)]
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        for parent, bits in before.items():
            parent.chmod(bits)


@as_root
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(("caller", "code"), [(NOBODY, 0), (NOBODY - 1, 13), (None, 13)])
def test_root_without_its_rights_writes_as_the_caller_of_sudo(
    caller: int | None, code: int, there: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert ctypes.sizeof(ctypes.c_uint32) == 4
    folder = tmp_path_factory.mktemp("of-a-user")
    folder.chmod(0o755)
    path = folder / "out"
    if there:
        path.write_text("mine")
    for each in (folder, *folder.iterdir()):
        os.chown(each, NOBODY, NOBODY)
    assert run_dropped('files.write(sys.argv[1], b"new", force=True)', path, caller) == code
    if code == 0:
        assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (NOBODY, NOBODY, 0o600)
        assert path.read_text() == "new"
    else:
        assert there is path.exists()
    assert len([*folder.iterdir()]) == (1 if there or code == 0 else 0)


@as_root
@pytest.mark.parametrize("name", ["reports", "new/reports"])
@pytest.mark.parametrize(("caller", "code"), [(NOBODY, 0), (NOBODY - 1, 13), (None, 13)])
def test_root_without_its_rights_makes_a_folder_as_the_caller_of_sudo(
    caller: int | None, code: int, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("of-a-user")
    home.chmod(0o755)
    os.chown(home, NOBODY, NOBODY)
    work = 'files.private_folder(files.Path(sys.argv[1])); files.write(sys.argv[1] + "/new", b"")'
    assert run_dropped(work, home / name, caller) == code
    made = [*home.rglob("*")]
    assert {path.stat().st_uid for path in made} == ({NOBODY} if code == 0 else set())
    assert (home / name / "new").exists() is (code == 0)


@pytest.mark.parametrize("environ", [{}, {"SUDO_UID": "0", "SUDO_GID": "0"}, {"SUDO_UID": "x", "SUDO_GID": "1"}])
def test_without_sensible_variables_of_sudo_there_is_no_caller(environ: dict[str, str]) -> None:
    assert files.sudo_caller(environ) is None
