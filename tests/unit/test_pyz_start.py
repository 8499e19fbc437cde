"""heaptop.pyz unpacks itself for its user alone, once, and runs nothing that another user could have put there.

The archive here has a heaptop of a few lines in the place of the real one, which ``test_release`` builds and runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from release import pyz
from tests.interpreters import Interpreter

pytestmark = pytest.mark.slow

MAIN = """\
import sys

def main():
    from heaptop import part
    print(part.TEXT, *sys.argv[1:])
    return 7
"""
FILES = {
    "heaptop/__init__.py": b"",
    "heaptop/__main__.py": MAIN.encode(),
    "heaptop/part.py": b"TEXT = 'unpacked'\n",
    "heaptop-1.dist-info/METADATA": b"Name: heaptop\n",
}
NOBODY = 65534


def made(path: Path, files: dict[str, bytes]) -> Path:
    """An archive of these files."""
    listed = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    outer = {
        "__main__.py": (pyz.HERE / "start.py").read_bytes(),
        "files.sha256": listed.encode(),
        "tree.zip": pyz.archive(files, 1_700_000_000, zipfile.ZIP_DEFLATED),
    }
    path.write_bytes(pyz.archive(outer, 1_700_000_000, zipfile.ZIP_STORED))
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return made(tmp_path / "heaptop.pyz", FILES)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir(0o755)
    return folder


def environment(cache: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONDONTWRITEBYTECODE": ""}


def start(archive: Path, cache: Path, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(archive), "census", "4711"]
    return subprocess.run(
        command, env=environment(cache), umask=umask, capture_output=True, text=True, check=False, cwd="/"
    )


def starts(archive: Path, cache: Path, umask: int = 0o022) -> Path:
    """Start it, which works; the tree that it runs from."""
    done = start(archive, cache, umask)
    assert (done.returncode, done.stdout, done.stderr) == (7, "unpacked census 4711\n", "")
    (tree,) = (cache / "heaptop" / "pyz").iterdir()
    return tree


def refused(archive: Path, cache: Path, *said: str) -> None:
    done = start(archive, cache)
    assert (done.returncode, done.stdout) == (1, "")
    for text in ("heaptop: heaptop cannot unpack itself", "XDG_CACHE_HOME=", *said):
        assert text in done.stderr


def test_it_is_unpacked_once_and_started_with_its_arguments(archive: Path, cache: Path) -> None:
    tree = starts(archive, cache)
    before = {path: path.stat().st_mtime_ns for path in tree.rglob("*") if path.name != "__pycache__"}
    assert any(path.suffix == ".pyc" for path in before), "Python compiles once"
    assert starts(archive, cache) == tree
    assert {path: path.stat().st_mtime_ns for path in tree.rglob("*") if path.name != "__pycache__"} == before


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077], ids=oct)
def test_nobody_else_can_read_or_write_what_was_unpacked(archive: Path, cache: Path, umask: int) -> None:
    starts(archive, cache, umask)
    tree = starts(archive, cache, umask)
    for path in (cache / "heaptop", tree.parent, tree, *tree.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_another_version_has_a_tree_of_its_own(archive: Path, cache: Path, tmp_path: Path) -> None:
    tree = starts(archive, cache)
    other = made(tmp_path / "other.pyz", {**FILES, "heaptop/part.py": b"TEXT = 'other'\n"})
    assert start(other, cache).stdout == "other census 4711\n"
    assert start(archive, cache).stdout == "unpacked census 4711\n"
    assert len(list(tree.parent.iterdir())) == 2


def changed(tree: Path) -> None:
    (tree / "heaptop" / "part.py").write_text("TEXT = 'planted!'\n")


def added(tree: Path) -> None:
    path = tree / "heaptop" / "json.py"
    path.write_text("")
    path.chmod(0o600)


def removed(tree: Path) -> None:
    (tree / "heaptop" / "part.py").unlink()


def writable(tree: Path) -> None:
    (tree / "heaptop" / "part.py").chmod(0o666)


def writable_folder(tree: Path) -> None:
    (tree / "heaptop").chmod(0o770)


def writable_cache(tree: Path) -> None:
    (tree / "heaptop" / "__pycache__").chmod(0o777)


def linked(tree: Path) -> None:
    path = tree / "heaptop" / "part.py"
    path.rename(tree.parent / "moved")
    path.symlink_to(tree.parent / "moved")


def linked_tree(tree: Path) -> None:
    shutil.move(tree, tree.parent.parent / "elsewhere")
    tree.symlink_to(tree.parent.parent / "elsewhere")


def piped(tree: Path) -> None:
    path = tree / "heaptop" / "part.py"
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (changed, "is damaged; remove it with `rm -r "),
        (added, "json.py is not heaptop's"),
        (removed, "part.py is missing"),
        (writable, "others can write to"),
        (writable_folder, "others can write to"),
        (writable_cache, "others can write to"),
        (linked, "is a link"),
        (linked_tree, "is a link"),
        (piped, "is a link, or of another kind"),
    ],
    ids=lambda harm: getattr(harm, "__name__", ""),
)
def test_a_tree_that_is_not_as_it_was_is_refused(
    archive: Path, cache: Path, harm: Callable[[Path], None], said: str
) -> None:
    harm(starts(archive, cache))
    refused(archive, cache, said)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", "heaptop", "heaptop/part.py", "heaptop/__pycache__"])
def test_what_another_user_owns_in_the_tree_is_refused(archive: Path, cache: Path, name: str) -> None:
    tree = starts(archive, cache)
    os.chown(tree / name, NOBODY, NOBODY)
    refused(archive, cache, "belongs to another user")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_nothing_is_made_in_a_folder_that_another_user_owns(archive: Path, cache: Path, tmp_path: Path) -> None:
    os.chown(cache, NOBODY, NOBODY)
    refused(archive, cache, "belongs to another user")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (cache / "heaptop").symlink_to(elsewhere)
    refused(archive, cache, "belongs to another user")
    assert not list(elsewhere.iterdir())


def test_a_link_of_the_user_to_a_folder_of_the_user_is_followed(archive: Path, cache: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (cache / "heaptop").symlink_to(elsewhere)
    assert starts(archive, cache).exists()
    elsewhere.chmod(0o777)
    refused(archive, cache, f"others can write to {elsewhere}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", "heaptop", "heaptop/pyz"])
def test_a_folder_above_that_another_user_owns_is_refused(archive: Path, cache: Path, name: str) -> None:
    tree = starts(archive, cache)
    os.chown(cache / name, NOBODY, NOBODY)
    refused(archive, cache, "belongs to another user")
    shutil.rmtree(tree)
    refused(archive, cache, "belongs to another user")
    assert not tree.exists()


def test_a_folder_above_that_others_can_write_to_is_refused_unless_it_is_sticky(archive: Path, cache: Path) -> None:
    cache.chmod(0o777)
    refused(archive, cache, f"others can write to {cache}")
    assert not any(path.is_file() for path in cache.rglob("*"))
    cache.chmod(0o1777)
    starts(archive, cache)


@pytest.mark.skipif(os.geteuid() != 0, reason="sudo keeps HOME for root only")
def test_root_does_not_run_from_the_home_of_the_user_who_called_sudo(archive: Path, tmp_path: Path) -> None:
    home = tmp_path / "joe"
    home.mkdir()
    code = f"import sys; sys.path.insert(0, {str(pyz.HERE)!r}); import start; print(start.cache_folder())"
    base = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], env={**base, "HOME": str(home)}, capture_output=True, text=True, check=True
    )
    assert not done.stdout.startswith(str(home))


def test_starts_at_the_same_moment_all_work_and_leave_one_tree(archive: Path, cache: Path) -> None:
    command = [sys.executable, str(archive)]
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(command, env=environment(cache), stdout=pipe, stderr=pipe, text=True) for _ in range(16)
    ]
    answers = [(*each.communicate(timeout=100), each.returncode) for each in running]
    assert answers == [("unpacked\n", "", 7)] * len(running)
    assert len(list((cache / "heaptop" / "pyz").iterdir())) == 1


def test_a_start_that_was_killed_leaves_nothing_that_is_run_and_is_tidied_up_later(cache: Path, tmp_path: Path) -> None:
    many = {f"heaptop/data/{number}": os.urandom(2_000) for number in range(3_000)}
    archive = made(tmp_path / "large.pyz", FILES | many)
    folder = cache / "heaptop" / "pyz"
    process = subprocess.Popen([sys.executable, str(archive)], env=environment(cache), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(folder.glob("new-*/heaptop/data/*")):
        assert time.monotonic() < deadline
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    (left,) = folder.iterdir()
    assert left.name.startswith("new-")
    assert start(archive, cache).returncode == 7
    assert left.exists(), "it may be another start's, which still unpacks"
    os.utime(left, (time.time() - 7_200,) * 2)
    (tree,) = (each for each in folder.iterdir() if each != left)
    shutil.rmtree(tree)
    assert start(archive, cache).returncode == 7
    assert not left.exists()


@pytest.mark.pythons("3.8", "3.9")
def test_an_older_python_gets_a_sentence(archive: Path, cache: Path, interpreter: Interpreter) -> None:
    done = subprocess.run(
        interpreter.command([interpreter.place(archive)]),
        env=environment(cache),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("heaptop: heaptop needs Python 3.10 or later; this is Python 3.")
    assert not list(cache.iterdir())
