"""Says what pyproject.toml cannot: the native core is an optional extension, and a wheel has an SBOM, a manual page and
completions for shells.

Every C file of ``injector/native`` belongs to the core, and those of ``injector/preload`` to the library that
``run --native`` preloads. A machine without a C compiler still installs: setuptools goes on when an optional extension
does not build, and heaptop then counts in Python mode. One built file loads into every Python from 3.8 on, also where
glibc is older than here (2.17). Another loads into those on musl: of the same sources, by the same compiler, and linked
with no library.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

# The sources are named by the package's own path, so that an sdist, which has no symlinks, builds too.
FOLDER = Path("src/heaptop/injector/native")
SOURCES = sorted(str(path) for path in FOLDER.rglob("*.c"))
HEADERS = sorted(str(path) for path in FOLDER.rglob("*.h"))
PRELOAD = Path("src/heaptop/injector/preload")


class Wheel(bdist_wheel):
    """A wheel with a list of its parts (PEP 770), what man and shells read, and the same modes whatever the umask."""

    def write_wheelfile(self, wheelfile_base: str, *others: str) -> None:
        super().write_wheelfile(wheelfile_base, *others)
        built = Path(self.bdist_dir)
        if Path(wheelfile_base).parent != built:
            return  # of an editable install, which has no files
        sboms = Path(wheelfile_base, "sboms")
        sboms.mkdir(exist_ok=True)
        version = self.distribution.get_version()
        (sboms / "heaptop.cdx.json").write_text(json.dumps(bill_of_materials(version, built), indent=2) + "\n")
        for name, command in SHARED.items():
            path = built / self.data_dir / "data" / "share" / name
            path.parent.mkdir(parents=True)
            path.write_bytes(printed([*command, *(["--version", version] if name.startswith("man/") else [])]))
        for path in built.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)


MANUAL = [
    *("-c", "from argparse_manpage.cli import main; main()", "--module", "heaptop.cli", "--function", "build_parser"),
    *("--prog", "heaptop", "--project-name", "heaptop", "--manual-title", "User Commands"),
    *("--description", "live heap profiler for Python processes"),
]
COMPLETION = ["-m", "heaptop", "completion"]
SHARED = {
    "man/man1/heaptop.1": MANUAL,
    "bash-completion/completions/heaptop": [*COMPLETION, "bash"],
    "zsh/site-functions/_heaptop": [*COMPLETION, "zsh"],
    "fish/vendor_completions.d/heaptop.fish": [*COMPLETION, "fish"],
}
"""Where man and shells look below share/, in a virtual environment's prefix too; and what Python runs to print it."""


def printed(command: list[str]) -> bytes:
    """What Python prints that runs the heaptop that is built, whatever the time zone and the locale: the page has a
    date, and more than ASCII."""
    path = os.pathsep.join(["src", *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "80", "TZ": "UTC", "PYTHONUTF8": "1"}
    command = [sys.executable, *command]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout


def bill_of_materials(version: str, built: Path) -> dict[str, object]:
    """What a wheel consists of, as CycloneDX: heaptop and its native libraries. It has no part by others."""
    cores = [
        {
            "type": "file",
            "bom-ref": str(core.relative_to(built)),
            "name": str(core.relative_to(built)),
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(core.read_bytes()).hexdigest()}],
            "licenses": [{"license": {"id": "MIT"}}],
        }
        for core in sorted(built.rglob("*.so"))
    ]
    heaptop = {
        "type": "application",
        "bom-ref": f"pkg:pypi/heaptop@{version}",
        "name": "heaptop",
        "version": version,
        "purl": f"pkg:pypi/heaptop@{version}",
        "licenses": [{"license": {"id": "MIT"}}],
    }
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": heaptop},
        "components": cores,
        "dependencies": [{"ref": heaptop["bom-ref"], "dependsOn": [core["bom-ref"] for core in cores]}],
    }


FLAGS = ["-std=gnu11", "-O2", "-fvisibility=hidden", "-fno-strict-aliasing", "-Wall", "-Wextra"]


def core(name: str, macros: list[tuple[str, str | None]], flags: list[str], link_args: list[str]) -> Extension:
    """The native core, for one C library."""
    return Extension(
        f"heaptop.injector.native.{name}",
        sources=SOURCES,
        depends=HEADERS,
        include_dirs=[str(FOLDER)],
        optional=True,
        py_limited_api=True,
        define_macros=[("Py_LIMITED_API", "0x03080000"), *macros],
        # Later flags win over those that the building Python brings along. -fno-strict-aliasing: objects are read
        # by offset. -z now: a snapshot child must never meet the dynamic linker. -s: the whole file stays in the
        # target's memory, and five sixths of it would be debug information.
        extra_compile_args=[*FLAGS, *flags],
        extra_link_args=["-Wl,-z,now", "-Wl,-s", *link_args],
    )


setup(
    cmdclass={"bdist_wheel": Wheel},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
    ext_modules=[
        core("_core", [], [], []),
        # Ubuntu's gcc checks bounds by functions (__snprintf_chk) that musl does not have.
        core("_core_musl", [("HEAPTOP_MUSL", None)], ["-U_FORTIFY_SOURCE"], ["-nostdlib", "-lgcc"]),
        # No module: `heaptop run --native` preloads it.
        Extension(
            "heaptop.injector.preload._malloc",
            sources=sorted(str(path) for path in PRELOAD.glob("*.c")),
            depends=[*HEADERS, *sorted(str(path) for path in PRELOAD.glob("*.h"))],
            include_dirs=[str(FOLDER), str(PRELOAD.parent)],
            optional=True,
            py_limited_api=True,
            extra_compile_args=FLAGS,
            extra_link_args=["-Wl,-z,now", "-Wl,-s"],
        ),
    ]
    if SOURCES
    else [],
)
