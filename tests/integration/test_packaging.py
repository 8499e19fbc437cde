"""Every way to install gives the command and the module, adds nothing but heaptop, and needs no C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
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


@pytest.mark.usefixtures("soon_built")
def test_a_wheel_installs_nothing_but_heaptop(tree: Path, environment: Environment) -> None:
    wheel = build(tree, "wheel")
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert only_heaptop(tops)
    gained = environment.install(wheel)
    assert "heaptop" in gained
    assert only_heaptop(gained)
    environment.says_its_version()
    assert (environment.site / "heaptop" / "injector" / "agent" / "session.py").is_file()
    assert (environment.site / "heaptop" / "py.typed").is_file()


@pytest.mark.usefixtures("soon_built")
def test_sdist_installs_where_there_are_no_symlinks(tree: Path, environment: Environment) -> None:
    sdist = build(tree, "sdist")
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
    assert bool(built) == there_is_one
    assert all(name == "heaptop/injector/native/_core.abi3.so" for name in built)
