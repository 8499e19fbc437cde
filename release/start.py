"""Starts heaptop.pyz: unpacks heaptop into the user's cache, once for each version, and checks it before each use.

Python imports modules from an archive but no native library, and would compile the modules again at each start.

What lies in the cache runs with all rights of the user, who may be root. So nobody else may have put it there:

- Each folder from the root on belongs to root or to the user, and nobody else may write to it, unless it is sticky.
- Each folder and file of heaptop belongs to the user, is no link, and nobody else may write to it.
- Each file has the hash that the archive lists; there is none besides, except bytecode that Python keeps for the user.

Runs on any Python 3, so that an old one gets a sentence: no syntax here that is newer than 3.6.
"""

import errno
import os
import stat
import sys

OLDEST = (3, 10)
LISTED = "files.sha256"
"""In the archive: a line for each file, of its hash and its path, as of sha256sum."""
TREE = "tree.zip"
"""In the archive: the files. An archive of its own, because Python reads the whole index of the outer one."""
STALE = 3600
"""Seconds after which what an interrupted start left is removed."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Refused(Exception):
    """heaptop is not started from the cache; the text gives the reason."""


def main() -> int:
    if sys.version_info < OLDEST:
        return complain(f"heaptop needs Python 3.10 or later; this is Python {sys.version.split()[0]}.")
    if (sys.platform, os.uname().machine) != ("linux", "x86_64"):
        return complain(f"heaptop runs on Linux x86-64; this is {sys.platform} {os.uname().machine}.")
    archive = sys.path[0]
    try:
        folder = cache_folder()
        tree = use(folder, archive)
    except (Refused, OSError) as error:
        why = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else str(error)
        return complain(
            f"heaptop cannot unpack itself into the cache: {why}.",
            "It runs from there, so only you and root may be able to write to that folder and to those above it.",
            f'Name another folder: `XDG_CACHE_HOME="$(mktemp -d)" python3 {archive}`.',
        )
    sys.path[0] = tree
    from heaptop.__main__ import main as heaptop_main  # noqa: PLC0415 - found only now

    return heaptop_main()


def complain(*sentences: str) -> int:
    print("heaptop: " + "\n".join(sentences), file=sys.stderr)
    return 1


def cache_folder() -> str:
    """Where heaptop is unpacked to. Of root not what ``HOME`` says, which sudo may have kept from the user."""
    import pwd  # noqa: PLC0415 - what follows is needed only after the checks of the version

    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            home = ""
        home = home if os.geteuid() == 0 else os.environ.get("HOME", "") or home
        if not os.path.isabs(home):
            raise Refused("this user has no home folder")
        base = os.path.join(home, ".cache")
    return os.path.join(base, "heaptop", "pyz")


def use(folder: str, archive: str) -> str:
    """The tree of this archive in ``folder``: unpacked if it is not there, and checked."""
    import hashlib  # noqa: PLC0415

    get_data = __loader__.get_data  # type: ignore[name-defined] # zipimport's
    listed = get_data(os.path.join(archive, LISTED))
    files = dict(reversed(line.split("  ", 1)) for line in listed.decode().splitlines())
    usual = os.umask(0o077)
    try:
        there = folder
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        check_folders(there)
        check_folders(os.path.realpath(there))
        os.makedirs(folder, exist_ok=True)
        folder = os.path.realpath(folder)
        check_folders(folder)
        check_own(folder, os.lstat(folder), stat.S_ISDIR)
        tree = os.path.join(folder, hashlib.sha256(listed).hexdigest()[:20])
        if not os.path.lexists(tree):
            unpack(get_data(os.path.join(archive, TREE)), files, tree)
    finally:
        os.umask(usual)
    check_tree(tree, files)
    return tree


def check_folders(folder: str) -> None:
    """Refuse a folder that another user could replace or write to. A link's own mode says nothing."""
    path = folder
    while True:
        status = os.lstat(path)
        if status.st_uid not in (0, os.geteuid()):
            raise Refused(f"{path} belongs to another user")
        is_shared = status.st_mode & _OTHERS_WRITE and not (status.st_mode & stat.S_ISVTX or os.path.islink(path))
        if is_shared and (status.st_mode & stat.S_IWOTH or not is_own_group(status.st_gid)):
            raise Refused(f"others can write to {path}")
        if path == os.path.dirname(path):
            break
        path = os.path.dirname(path)


def is_own_group(gid: int) -> bool:
    """Whether the group is the user's private one, as Fedora's and Debian's are, which their umask 002 lets write."""
    import grp  # noqa: PLC0415
    import pwd  # noqa: PLC0415

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}


def check_tree(tree: str, files: "dict[str, str]") -> None:
    """Refuse a tree in which anything is not as it was unpacked."""
    import hashlib  # noqa: PLC0415

    left = dict(files)
    check_own(tree, os.lstat(tree), stat.S_ISDIR)
    folders = [tree]
    while folders:
        folder = folders.pop()
        is_cache = os.path.basename(folder) == "__pycache__"
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    if is_cache:  # another start renames bytecode that it has written
                        continue
                    raise
                if stat.S_ISDIR(status.st_mode) and not is_cache:
                    check_own(entry.path, status, stat.S_ISDIR)
                    folders.append(entry.path)
                    continue
                check_own(entry.path, status, stat.S_ISREG)
                if is_cache:
                    continue
                expected = left.pop(os.path.relpath(entry.path, tree), None)
                if expected is None:
                    raise Refused(f"{entry.path} is not heaptop's")
                with open(entry.path, "rb") as file:
                    if hashlib.sha256(file.read()).hexdigest() != expected:
                        raise Refused(f"{entry.path} is damaged; remove it with `rm -r {tree}`")
    if left:
        raise Refused(f"{os.path.join(tree, min(left))} is missing; remove the rest with `rm -r {tree}`")


def check_own(path: str, status: os.stat_result, is_kind: "object") -> None:
    if not is_kind(status.st_mode):  # type: ignore[operator]
        raise Refused(f"{path} is a link, or of another kind than it was")
    if status.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to another user")
    if status.st_mode & _OTHERS_WRITE:
        raise Refused(f"others can write to {path}")


def unpack(packed: bytes, files: "dict[str, str]", tree: str) -> None:
    """Unpack beside ``tree`` and rename it: of several starts at the same moment the first one wins."""
    import io  # noqa: PLC0415
    import shutil  # noqa: PLC0415
    import tempfile  # noqa: PLC0415
    import zipfile  # noqa: PLC0415

    parent = os.path.dirname(tree)
    remove_stale(parent)
    fresh = tempfile.mkdtemp(prefix="new-", dir=parent)
    try:
        if os.statvfs(fresh).f_flag & os.ST_NOEXEC:
            raise Refused(f"{parent} is on a file system without programs (noexec)")
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            for name in files:
                path = os.path.join(fresh, name)
                # Python would make its folder for bytecode with the user's umask, which may let others write.
                os.makedirs(os.path.join(os.path.dirname(path), "__pycache__"), exist_ok=True)
                with open(path, "xb") as file:
                    file.write(archive.read(name))
        try:
            os.rename(fresh, tree)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def remove_stale(parent: str) -> None:
    """Remove what starts left that were killed while they unpacked."""
    import shutil  # noqa: PLC0415
    import time  # noqa: PLC0415

    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        try:
            is_stale = name.startswith("new-") and os.lstat(path).st_mtime < time.time() - STALE
        except FileNotFoundError:  # another start has just renamed it
            continue
        if is_stale:
            shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
