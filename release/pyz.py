"""Builds heaptop.pyz: heaptop and what it needs in one file, for servers without pip.

The archive has five members: ``__main__.py`` (:mod:`start`), ``files.sha256``, ``tree.zip`` with the files that it
lists, an SBOM, and the manual page. The files are those of heaptop's wheel, and of the wheels that ``pyz-packages.txt``
names by version and hash.
A native library for one version of Python, or for musl, says so in its name, so all are in one tree.

``python release/pyz.py`` renews ``pyz-packages.txt``: the newest versions that heaptop allows and that run on 3.10.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from email.parser import BytesHeaderParser
from pathlib import Path
from time import gmtime
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
PINS: Final = HERE / "pyz-packages.txt"
PYTHONS: Final = ("3.10", "3.11", "3.12", "3.13", "3.14")
LEFT_OUT: Final = ("zstandard",)
"""Recordings do without it; its wheels for all versions of Python are several times as large as everything else."""
ON_MUSL: Final = ("psutil",)
"""What has no part in Python that does without its native library; msgpack has one."""
GLIBC: Final = ("manylinux_2_17", "manylinux2014", "manylinux2010")
MUSL: Final = ("musllinux_1_2",)
_UNUSED: Final = ("RECORD", "WHEEL", "INSTALLER", "entry_points.txt", "top_level.txt")
"""Of a wheel's metadata: what pip reads, and what would no longer be true."""
_HEAD: Final = """\
# What heaptop.pyz contains besides heaptop. `python release/pyz.py` renews it.
"""


def build(wheel: Path, to: Path, epoch: int) -> None:
    """Write ``to``, of heaptop's wheel and the pinned ones."""
    wheels = [wheel, *pinned_wheels()]
    files = dict(sorted({name: data for each in wheels for name, data in contents(each)}.items()))
    listed = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    outer = {
        "__main__.py": (HERE / "start.py").read_bytes(),
        "files.sha256": listed.encode(),
        "heaptop.1": manual_page(wheel),
        "heaptop.cdx.json": json.dumps(bill_of_materials(wheels), indent=2).encode() + b"\n",
        "tree.zip": archive(files, epoch, zipfile.ZIP_DEFLATED),
    }
    to.write_bytes(b"#!/usr/bin/env python3\n" + archive(outer, epoch, zipfile.ZIP_STORED))
    to.chmod(0o755)


def archive(files: Mapping[str, bytes], epoch: int, method: int) -> bytes:
    """An archive with these members, which depends on nothing else."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as written:
        for name, data in files.items():
            member = zipfile.ZipInfo(name, gmtime(epoch)[:6])
            member.compress_type = method
            member.external_attr = 0o100644 << 16
            written.writestr(member, data, compresslevel=9)
    return packed.getvalue()


def contents(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a wheel that are imported or read, and its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            first, *rest = name.split("/")
            is_script = first.endswith(".data")
            is_unused = first.endswith(".dist-info") and rest[0] in _UNUSED
            if wheel.stem.endswith(f"-{MUSL[0]}_x86_64"):  # for musl alone
                if name.endswith(".abi3.so"):
                    for python in PYTHONS:
                        yield musl_name(name, python), archive.read(name)
            elif not (name.endswith("/") or is_script or is_unused):
                yield name, archive.read(name)


def musl_name(library: str, python: str) -> str:
    """The name by which this version of Python on musl prefers a library to the one for glibc beside it."""
    return library.replace(".abi3.so", f".cpython-{python.replace('.', '')}-x86_64-linux-musl.so")


def manual_page(wheel: Path) -> bytes:
    """The one that heaptop's wheel installs."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/share/man/man1/heaptop.1")]
        return archive.read(name)


def pinned_wheels(pins: Path = PINS, folder: Path = ROOT / "build" / "pyz-wheels") -> list[Path]:
    """The wheels that are pinned, by name; those that are not in ``folder`` are downloaded."""
    wanted = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", pins.read_text()))
    found = hashed(folder)
    if not wanted <= found.keys():
        for python in PYTHONS:
            download(folder, python, "--require-hashes", "--requirement", str(pins))
        download(folder, PYTHONS[0], "--require-hashes", "--requirement", str(pins), platforms=(*MUSL, *GLIBC))
        found = hashed(folder)
    return sorted(found[each] for each in wanted)


def hashed(folder: Path) -> dict[str, Path]:
    return {hashlib.sha256(wheel.read_bytes()).hexdigest(): wheel for wheel in folder.glob("*.whl")}


def download(folder: Path, python: str, *what: str, deps: bool = False, platforms: tuple[str, ...] = GLIBC) -> None:
    """Get wheels that run on this version of Python wherever heaptop's own does."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    where = ["--dest", str(folder), "--python-version", python, *(f"--platform={name}_x86_64" for name in platforms)]
    subprocess.run([*pip, *where, *([] if deps else ["--no-deps"]), *what], check=True)


def metadata(wheel: Path) -> Any:
    """What a wheel says of itself."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        return BytesHeaderParser().parsebytes(archive.read(name))


def bill_of_materials(wheels: Iterable[Path]) -> dict[str, Any]:
    """What the archive consists of, as CycloneDX; heaptop's own wheel is the first."""
    parts: dict[str, dict[str, Any]] = {}
    for wheel in wheels:
        told = metadata(wheel)
        name = re.sub(r"[-_.]+", "-", told["Name"]).lower()
        url = f"pkg:pypi/{name}@{told['Version']}"
        part = parts.setdefault(url, {"type": "library", "bom-ref": url, "name": name, "version": told["Version"]})
        part["purl"] = url
        if licence := licence_of(told):
            part["licenses"] = [licence]
        reference = {"type": "distribution", "url": wheel.name, "hashes": [_hash(wheel)]}
        part.setdefault("externalReferences", []).append(reference)
    heaptop, *others = parts.values()
    heaptop["type"] = "application"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": heaptop},
        "components": others,
        "dependencies": [{"ref": heaptop["bom-ref"], "dependsOn": [other["bom-ref"] for other in others]}],
    }


def licence_of(told: Any) -> dict[str, Any] | None:
    """The licence that a package's metadata names: an expression, or the words it uses."""
    if told["License-Expression"]:
        return {"expression": told["License-Expression"]}
    named = [each.rpartition(" :: ")[2] for each in told.get_all("Classifier", []) if each.startswith("License :: ")]
    words = (named or [told["License"] or ""])[0].splitlines()
    return {"license": {"name": words[0]}} if words else None


def _hash(path: Path) -> dict[str, str]:
    return {"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}


def renew() -> None:
    """Pin the newest versions that may be used."""
    if sys.version_info < (3, 11):
        sys.exit("release/pyz.py: renewing the pins needs Python 3.11 or later")
    import tomllib  # type: ignore[import-not-found]  # noqa: PLC0415 - from 3.11 on

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [each.partition(";")[0].strip() for each in project["dependencies"]]
    needs = [each for each in needs if not each.startswith(LEFT_OUT)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        download(folder, PYTHONS[0], *needs, deps=True)
        of_one_python = [metadata(wheel) for wheel in folder.glob("*-cp310-cp310-*.whl")]
        for python in PYTHONS[1:]:
            download(folder, python, *(f"{told['Name']}=={told['Version']}" for told in of_one_python))
        both = [metadata(wheel) for wheel in folder.glob("*.whl") if wheel.name.startswith(ON_MUSL)]
        download(folder, PYTHONS[0], *(f"{told['Name']}=={told['Version']}" for told in both), platforms=MUSL)
        lines: dict[str, list[str]] = {}
        for digest, wheel in sorted(hashed(folder).items(), key=lambda item: item[1].name):
            lines.setdefault(f"{(told := metadata(wheel))['Name'].lower()}=={told['Version']}", []).append(digest)
    pins = [" \\\n    ".join([name, *(f"--hash=sha256:{each}" for each in found)]) for name, found in lines.items()]
    PINS.write_text(_HEAD + "".join(f"{pin}\n" for pin in pins))


if __name__ == "__main__":
    renew()
