"""Every way to install gives the command and the module, adds nothing but heaptop, and needs no C compiler."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any, Final

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import parse_wheel_filename

from heaptop import __version__
from heaptop.cli import COMMANDS
from release import pyz
from tests.interpreters import Interpreter
from tests.support.processes import running, with_proc

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path, clean: bool = False, umask: int = -1, **environment: str) -> str:
    """What a command prints. ``clean``: in this environment alone."""
    inherited = {} if clean else {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    whole = {**inherited, **environment}
    words = list(map(str, command))
    done = subprocess.run(words, cwd=cwd, env=whole, capture_output=True, text=True, umask=umask, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean copy of what git has, so that builds leave nothing here."""
    copy = tmp_path_factory.mktemp("tree")
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    for name in filter(None, names):
        source = ROOT / name
        if source.is_symlink() or source.exists():
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return copy


COMPILER = """\
#!/bin/sh
# Without optimization, which takes less than half the time: setup.py says -O2, and the last one wins.
case " $* " in
*" -c "*)
    source=${{*##* -c }}
    made={objects}/$(echo "${{source%% *}}" | tr / -)
    case " $* " in *HEAPTOP_MUSL*) made=$made-musl ;; esac
    [ -e "$made" ] || {real} "$@" -O0 -o "$made" || exit
    while [ "$1" != -o ]; do shift; done
    exec cp "$made" "$2" ;;
*) exec {real} "$@" -O0 ;;
esac
"""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """Compiles each file of the tree once for all tests: they install the same sources, named from the tree's top."""
    if (real := shutil.which("cc")) is None:
        return None
    compiler = tmp_path_factory.mktemp("compiler") / "cc"
    compiler.write_text(COMPILER.format(real=real, objects=compiler.parent))
    compiler.chmod(0o755)
    return compiler


@pytest.fixture
def soon_built(compiler: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As users get it, with optimization, ``make`` has built the core that all other tests load."""
    if compiler is not None:
        monkeypatch.setenv("CC", str(compiler))


def release(
    tree: Path, to: Path, compiler: Path | None, *, is_whole: bool, umask: int = 0o022, **environment: str
) -> dict[str, Path]:
    """What is released of a tree, by its kind. Where all tests run whole, it is compiled as for users."""
    if compiler is not None and not is_whole:
        environment["CC"] = str(compiler)
    command = (sys.executable, tree / "release" / "build.py", "--from", tree, "--to", to)
    run(*command, cwd=to.parent, umask=umask, SOURCE_DATE_EPOCH="1700000000", **environment)
    return {path.name.rpartition(".")[2]: path for path in to.iterdir()}


@pytest.fixture(scope="module")
def wheels(tree: Path) -> None:
    """Those that heaptop.pyz contains, once for all builds, and for all runs on this machine."""
    pyz.pinned_wheels()
    (tree / "build").mkdir(exist_ok=True)
    (tree / "build" / "pyz-wheels").symlink_to(ROOT / "build" / "pyz-wheels")


@pytest.fixture(scope="module")
def released(
    tree: Path, wheels: None, compiler: Path | None, tmp_path_factory: pytest.TempPathFactory, is_whole: bool
) -> dict[str, Path]:
    return release(tree, tmp_path_factory.mktemp("released") / "dist", compiler, is_whole=is_whole)


def build(tree: Path, kind: str, **environment: str) -> Path:
    """The wheel or sdist of a tree. Without isolation: the build's needs are those of the development extra."""
    output = tree / f"out-{kind}"
    shutil.rmtree(output, ignore_errors=True)
    run(sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", output, tree, cwd=tree, **environment)
    (made,) = output.iterdir()
    return made


class Environment:
    """A virtual environment that sees the libraries heaptop needs, but not the heaptop under test."""

    def __init__(self, folder: Path) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
        self.folder = folder
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")
        libraries = folder / "libraries"
        libraries.mkdir()
        for each in Path(sysconfig.get_path("purelib")).iterdir():
            if "heaptop" not in each.name and not each.name.endswith(".pth"):
                (libraries / each.name).symlink_to(each)
        (self.site / "libraries.pth").write_text(f"{libraries}\n")
        self.before = self.names()

    def names(self) -> set[str]:
        return {each.name for each in self.site.iterdir()}

    def install(self, what: Path, *options: str) -> set[str]:
        """pip install it; the names that site-packages gained."""
        pip = (sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet", "--no-deps")
        run(*pip, "--no-build-isolation", "--no-index", *options, what, cwd=self.folder)
        return self.names() - self.before

    def says_its_version(self) -> None:
        by_command = run(self.folder / "bin" / "heaptop", "--version", cwd=self.folder)
        by_module = run(self.python, "-m", "heaptop", "--version", cwd=self.folder)
        assert by_command == by_module
        assert by_command.startswith("heaptop ")
        imports = "import heaptop.tui.app, heaptop.injector.api, heaptop.cli; print('ok')"
        assert run(self.python, "-c", imports, cwd=self.folder) == "ok\n"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def only_heaptop(names: set[str]) -> bool:
    return all(name == "heaptop" or name.startswith(("heaptop-", "__editable__.heaptop-")) for name in names)


def test_a_wheel_installs_nothing_but_heaptop(released: dict[str, Path], environment: Environment) -> None:
    wheel = released["whl"]
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert only_heaptop(tops)
    gained = environment.install(wheel)
    assert "heaptop" in gained
    assert only_heaptop(gained)
    environment.says_its_version()
    assert (environment.site / "heaptop" / "injector" / "agent" / "session.py").is_file()
    assert (environment.site / "heaptop" / "py.typed").is_file()


def test_a_wheel_installs_the_manual_page_and_completions_where_they_are_looked_for(
    released: dict[str, Path], environment: Environment
) -> None:
    environment.install(released["whl"])
    share = environment.folder / "share"
    page = (share / "man" / "man1" / "heaptop.1").read_text()
    assert page.startswith('.TH HEAPTOP "1" "2023\\-11\\-14" "heaptop ' + __version__)
    assert all(f"heaptop {command.name}" in page.replace("\\fR", "") for command in COMMANDS)
    assert member(released["pyz"], r"heaptop\.1").decode() == page
    for shell, place in {
        "bash": "bash-completion/completions/heaptop",
        "zsh": "zsh/site-functions/_heaptop",
        "fish": "fish/vendor_completions.d/heaptop.fish",
    }.items():
        printed = run(environment.folder / "bin" / "heaptop", "completion", shell, cwd=environment.folder)
        assert (share / place).read_text() == printed
    run(sys.executable, "-m", "pip", "--python", environment.python, "uninstall", "-q", "-y", "heaptop", cwd=share)
    assert not [path for path in share.rglob("*") if path.is_file()]


@pytest.mark.usefixtures("soon_built")
def test_sdist_installs_where_there_are_no_symlinks(released: dict[str, Path], environment: Environment) -> None:
    sdist = released["gz"]
    with tarfile.open(sdist) as archive:
        assert not any(member.issym() for member in archive.getmembers())
    assert only_heaptop(environment.install(sdist))
    environment.says_its_version()


@pytest.mark.usefixtures("soon_built")
def test_pip_install_of_the_folder(tree: Path, environment: Environment) -> None:
    assert only_heaptop(environment.install(tree))
    environment.says_its_version()


@pytest.mark.usefixtures("soon_built")
def test_an_editable_install_imports_from_the_tree(tree: Path, environment: Environment) -> None:
    assert only_heaptop(environment.install(tree, "--editable"))
    environment.says_its_version()
    where = run(environment.python, "-c", "import heaptop.analysis as c; print(c.__file__)", cwd=environment.folder)
    assert Path(where.strip()).resolve().is_relative_to(tree)


BUILT: Final = {
    "heaptop/injector/native/_core.abi3.so",
    "heaptop/injector/native/_core_musl.abi3.so",
    "heaptop/injector/preload/_malloc.abi3.so",
}
"""What a compiler makes: one file of each for every Python."""


@pytest.mark.parametrize("there_is_one", [True, False], ids=["cc", "false"])
def test_the_native_core_is_optional(tree: Path, tmp_path: Path, compiler: Path | None, there_is_one: bool) -> None:
    """It is built where there is a compiler, one file for every Python, and is no hindrance where there is none."""
    if there_is_one and compiler is None:
        pytest.skip("no C compiler here")
    copy = tmp_path / "tree"
    built_by_others = shutil.ignore_patterns("build", "*.so", "*.egg-info")
    shutil.copytree(tree, copy, symlinks=True, ignore=built_by_others)
    wheel = build(copy, "wheel", CC=str(compiler) if there_is_one else "false")
    built = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
    assert set(built) == (BUILT if there_is_one else set())


def member(wheel: Path, pattern: str) -> bytes:
    """The one file of an archive whose name fits."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if re.fullmatch(pattern, name)]
        return archive.read(name)


def checked(sbom: bytes) -> Any:
    """An SBOM that fits CycloneDX's own schema."""
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom.decode()) is None
    return json.loads(sbom)


def test_one_wheel_serves_every_python_on_glibc_from_2_17_on_and_on_musl(released: dict[str, Path]) -> None:
    wheel = released["whl"]
    tags = set(map(str, parse_wheel_filename(wheel.name)[3]))
    assert {"cp310-abi3-manylinux_2_17_x86_64", "cp310-abi3-musllinux_1_2_x86_64"} <= tags
    assert tags <= {f"cp310-abi3-{each}_x86_64" for each in ("manylinux2014", "manylinux_2_17", "musllinux_1_2")}
    shown = run(sys.executable, "-m", "auditwheel", "show", wheel, cwd=wheel.parent)
    platforms = re.findall(r'platform tag:\s+"?(manylinux_2_(\d+)_x86_64)', shown)
    assert platforms, shown
    assert all(int(minor) <= 17 for _, minor in platforms), shown


def test_the_metadata_of_a_wheel_is_complete(released: dict[str, Path]) -> None:
    told = BytesHeaderParser().parsebytes(member(released["whl"], r"heaptop-[^/]+\.dist-info/METADATA"))
    assert (told["Name"], told["Version"], told["License-Expression"]) == ("heaptop", __version__, "MIT")
    assert told.get_all("License-File") == ["LICENSE"]
    assert member(released["whl"], r".*\.dist-info/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    classifiers = told.get_all("Classifier")
    assert {"Operating System :: POSIX :: Linux", "Typing :: Typed"} <= set(classifiers)
    assert not [each for each in classifiers if each.startswith("License ::")], "the expression replaces them"
    assert released["gz"].name == f"heaptop-{__version__}.tar.gz"


def test_a_wheel_lists_its_parts_with_their_hashes(released: dict[str, Path]) -> None:
    wheel = released["whl"]
    sbom = checked(member(wheel, r"heaptop-[^/]+\.dist-info/sboms/heaptop\.cdx\.json"))
    assert sbom["metadata"]["component"]["purl"] == f"pkg:pypi/heaptop@{__version__}"
    assert {part["name"] for part in sbom["components"]} == BUILT
    for part in sbom["components"]:
        assert part["hashes"][0]["content"] == hashlib.sha256(member(wheel, re.escape(part["name"]))).hexdigest()
    record = {row[0]: row[1] for row in csv.reader(member(wheel, r".*\.dist-info/RECORD").decode().splitlines())}
    with zipfile.ZipFile(wheel) as archive:
        for name in (name for name in archive.namelist() if not name.endswith("/")):
            digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
            assert record[name] in ("", f"sha256={digest}"), name


ABROAD: Final = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""Another time zone, and a locale of ASCII alone."""


@pytest.mark.usefixtures("wheels")
def test_builds_in_other_folders_umasks_time_zones_and_locales_are_the_same_bytes(
    tree: Path, released: dict[str, Path], compiler: Path | None, tmp_path: Path, is_whole: bool
) -> None:
    copy = tmp_path / "another name"
    shutil.copytree(tree, copy, symlinks=True, ignore=shutil.ignore_patterns("*.so", "*.egg-info", "out-*"))
    for path in copy.rglob("*.py"):
        path.chmod(0o600)  # as umask 077 makes them
    again = release(copy, tmp_path / "dist", compiler, is_whole=is_whole, umask=0o077, **ABROAD)
    assert {kind: path.name for kind, path in again.items()} == {kind: path.name for kind, path in released.items()}
    for kind, path in again.items():
        assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(released[kind].read_bytes()).digest(), kind


# -- heaptop.pyz ------------------------------------------------------------------------------------------------


def alone(cache: Path | str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment with nothing of Python's."""
    kept = {name: value for name, value in environment.items() if not name.startswith("PYTHON")}
    return {**kept, "XDG_CACHE_HOME": str(cache)}


def test_the_single_file_is_small_and_lists_its_parts(released: dict[str, Path]) -> None:
    path = released["pyz"]
    assert path.stat().st_size <= 10_000_000
    sbom = checked(member(path, r"heaptop\.cdx\.json"))
    listed = {part["name"]: part["version"] for part in [sbom["metadata"]["component"], *sbom["components"]]}
    assert listed.pop("heaptop") == __version__
    pinned = dict(re.findall(r"^([a-z0-9_-]+)==(\S+)", pyz.PINS.read_text(), re.MULTILINE))
    assert listed == {name.replace("_", "-"): version for name, version in pinned.items()}
    assert all(part["licenses"] for part in sbom["components"])
    files = member(path, r"files\.sha256").decode()
    assert "zstandard" not in files
    assert {f"cpython-{python.replace('.', '')}-" for python in pyz.PYTHONS} <= set(re.findall(r"cpython-\d+-", files))


EVERYTHING = """\
import sys
sys.path.insert(0, sys.argv[1])
import heaptop.api, heaptop.api.aio, heaptop.cli, heaptop.demo, heaptop.recordings.exports, heaptop.tui.app
from heaptop.cli import COMMANDS
import heaptop.tui.screens.live, heaptop.tui.screens.replay, heaptop.tui.views, heaptop.injector.api
import msgpack, psutil, textual, rich, pygments, platformdirs
others = {name: module.__file__ for name, module in sys.modules.items() if getattr(module, "__file__", None)}
print(sorted(file for file in others.values() if "/site-packages/" in file or "/dist-packages/" in file))
print(msgpack.Packer.__module__)
"""


@pytest.mark.pythons("3.10", "3.11", "3.12", "3.13", "3.14", stress=("3.10", "3.11", "3.12", "3.13", "3.14"))
def test_the_single_file_counts_a_process_and_needs_no_other_package(
    released: dict[str, Path], interpreter: Interpreter, tmp_path: Path
) -> None:
    archive = interpreter.place(released["pyz"])
    cache = tmp_path / "cache" if interpreter.root is None else Path("/tmp", f"cache-{os.getpid()}")
    seen = cache if interpreter.root is None else Path(f"{interpreter.root}{cache}")
    python = [*with_proc(interpreter), *interpreter.command([])]
    try:
        version = run(*python, "-S", archive, "--version", cwd=tmp_path, clean=True, **alone(cache))
        assert version.startswith(f"heaptop {__version__}\nnative core: build ")
        has_zstd = interpreter.version >= (3, 14)
        assert version.endswith(f"recordings are compressed with {'zstd' if has_zstd else 'zlib'}\n")
        with running(interpreter, "sleeper", wrapper=with_proc(interpreter)) as target:
            counted = run(
                *python, "-S", archive, "census", str(target.pid), "--json", cwd=tmp_path, clean=True, **alone(cache)
            )
            assert json.loads(counted)["mode"] == "clone"
        (tree,) = (seen / "heaptop" / "pyz").iterdir()
        inside = str(tree) if interpreter.root is None else str(tree).removeprefix(str(interpreter.root))
        found = run(*python, "-I", "-S", "-c", EVERYTHING, inside, cwd=tmp_path, clean=True, **alone(cache))
        assert found == "[]\nmsgpack._cmsgpack\n"
    finally:
        shutil.rmtree(seen, ignore_errors=True)


@pytest.mark.pythons("3.13-musl")
def test_the_single_file_runs_on_musl_and_reads_a_dump_there(
    released: dict[str, Path], interpreter: Interpreter, tmp_path: Path
) -> None:
    archive = interpreter.place(released["pyz"])
    assert interpreter.root is not None
    folder = Path("/tmp", f"musl-{os.getpid()}")
    seen = Path(f"{interpreter.root}{folder}")
    seen.mkdir()

    def heaptop(*arguments: str) -> str:
        command = [*with_proc(interpreter), *interpreter.command(["-S", archive, *arguments])]
        return run(*command, cwd=tmp_path, clean=True, **alone(folder / "cache"))

    try:
        with running(interpreter, "sleeper", wrapper=with_proc(interpreter)) as target:
            assert json.loads(heaptop("census", str(target.pid), "--json"))["mode"] == "clone"
            assert target.pid in [each["pid"] for each in json.loads(heaptop("ps", "--json"))["processes"]]
            heaptop("dump", str(target.pid), "-o", str(folder / "dump.heap"))
        in_dump = json.loads(heaptop("census", str(folder / "dump.heap"), "--json"))
        assert {"dict", "str", "type"} <= {row["name"] for row in in_dump["rows"]}
    finally:
        shutil.rmtree(seen, ignore_errors=True)
