"""Every command, as root, on processes of another user that lay traps: each file that heaptop opens, and each name that
it changes, is in a list here, with the reason."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final

import pytest

from heaptop.recordings.exports import EXPORTERS
from tests import interpreters
from tests.support.building import TARGETS
from tests.support.leaking import ENVIRONMENT
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, Target, difference, eventually, running, with_proc
from tests.support.pty_terminal import PtyTerminal, pty_terminal
from tests.support.system_calls import Touched, touched, traced

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="it is root that must not be lured")

ROOT = Path(__file__).parents[2]
AS_NOBODY: Final = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
ELSEWHERE: Final = (
    *("unshare", "--mount", "sh", "-c"),
    "mount -t tmpfs none /mnt && mount --bind /etc/hostname /etc/passwd && exec setpriv --reuid=65534 --regid=65534 "
    '--clear-groups "$@"',
    "sh",
)
"""In a mount namespace of its own, where names lead elsewhere."""


def programs() -> str:
    """Where heaptop's own code and that of its libraries lies."""
    folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, str(ROOT), *sysconfig.get_paths().values()}
    return "|".join(re.escape(os.path.realpath(folder)) for folder in folders) + "|" + re.escape(sys.prefix)


PROCESS: Final = r"/proc/(\d+|self|thread-self)"
TASK: Final = rf"{PROCESS}(/task/\d+)?"
EXPECTED: Final = {
    "read": (
        (rf"({programs()})(/.*)?", "heaptop and its libraries"),
        (r"(/usr)?/lib(64)?(/.*)?|/usr/(share|local|bin)(/.*)?", "libraries, time zones, terminal descriptions"),
        (
            r"/etc/(ld\.so\.(cache|preload)|passwd|group|nsswitch\.conf|localtime|timezone|locale\.alias|mime\.types"
            r"|terminfo/.*|ssl/openssl\.cnf|os-release|inputrc|httpd/.*|apache2?/.*)",
            "names of users, time zone, and what the interpreter reads",
        ),
        (rf"{TASK}", "what the kernel says of processes"),
        (
            rf"{TASK}/(auxv|cgroup|children|cmdline|comm|fd|fdinfo/\d+|maps|mem|mountinfo|ns/\w+|oom_score_adj|pagemap"
            rf"|smaps|smaps_rollup|stat|statm|status|syscall|task|uid_map|wchan|limits|exe)",
            "what the kernel says of processes",
        ),
        (r"/proc(/(stat|meminfo|uptime|version|filesystems|cpuinfo|loadavg|sys/.*|self|mounts))?", "of the machine"),
        (r"/sys/(fs/cgroup|devices/system|kernel/mm)(/.*)?", "control groups, processors, huge pages"),
        (r"/dev/(null|urandom|random|tty|pts/\d+|pts/ptmx)", "the terminal"),
        (r".*/theirs/own\.py", "source of the target's, a regular file that its own user may read"),
        (r"pipe:\[\d+\]|socket:\[\d+\]|anon_inode:.*", "its own"),
    ),
    "write": (
        (rf"{TASK}/mem", "the target's memory, which is what an attach changes"),
        (r"/proc/(self|\d+)/oom_score_adj", "the helper's own"),
        (r"/dev/(null|tty|pts/\d+)", "the terminal"),
    ),
    "bind": (
        (
            r".*sun_path=@\"heaptop-(attach|agent)-([\d.]+-)?[\da-f-]+\".*",
            "one heaptop at a time, and a name for the agent's end; in no file system",
        ),
    ),
    "connect": ((r".*/nscd/socket.*", "glibc asks it for names of users, where there is one"),),
    "execve": (
        (rf"({programs()})/bin/python[\d.]*|.*/bin/python[\d.]*", "the helper"),
        (r".*/(stty|tput|uname|ldconfig|gcc|cc|lsb_release)", "asked by libraries"),
    ),
}
"""What may be touched, how, and why: regular expressions of the whole name."""
OF_A_STARTED_PROGRAM: Final = {
    "execve": ((r"(.*/)?env", "starts the program"),),
    "mkdir": ((r"/dev", "is there: the sample's output goes to /dev/null"),),
    "read": ((r"/memfd:heaptop-core-.*", "the agent loads its native core"),),
    "write": (
        (r"/proc/\d+/task/\d+/comm", "the agent's thread gets its name"),
        (r".*/theirs/own\.py", "the program that lays traps writes it"),
    ),
    **dict.fromkeys(("mknod", "mknodat"), ((r".*/theirs/fifo\.py", "it lays a trap"),)),
    "symlink": ((r"/etc/(shadow|heaptop-was-here)", "it lays a trap"),),
    "unlink": ((r"(/var/tmp|/tmp|/dev/shm)/heaptop-\d+", "it removes the trap"),),
}
"""What a program does itself that heaptop starts, and the agent in it: strace follows them, too."""

SOURCES: Final = ("own.py", "link.py", "fifo.py", "kmsg", "ptmx", "zero", "self/mem", "etc/shadow")
"""Where the target that lays traps says that its code is from."""

COMMANDS: Final[dict[str, Sequence[str]]] = {
    "attach": ["attach", "{pid}", "--interval", "5", "--rate", "1KiB"],
    "ps": ["ps", "--json"],
    "doctor": ["doctor", "{pid}"],
    "census": ["census", "{pid}", "--json"],
    "census-producers": ["census", "{pid}", "--by", "producer", "--for", "3"],
    "census-memory": ["census", "{pid}", "--memory"],
    "why": ["why", "{pid}", "list"],
    "leaks": ["leaks", "{pid}", "--for", "6"],
    "record": ["record", "{pid}", "-o", "{own}/a.heaptop", "--for", "4", "--marks", "0"],
    "detach": ["detach", "{pid}"],
}


def make_for_nobody(folder: Path) -> None:
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    for parent in folder.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)


@contextmanager
def luring(wrapper: Sequence[str], folder: Path) -> Iterator[Target]:
    """The target that lays traps, as nobody, in a folder of its own."""
    interpreter = interpreters.get("3.11-debian")
    make_for_nobody(folder)
    with running(interpreter, "hostile/luring", str(folder), wrapper=wrapper) as target:
        try:
            yield target
        finally:
            target.signal(signal.SIGINT)  # so that it takes its links away
            target.process.wait(PATIENCE)


@pytest.fixture(autouse=True)
def no_trap_stays() -> Iterator[None]:
    """Also where a test failed, and the target that had laid it was killed."""
    yield
    roots = {Path("/"), *(each.root for each in interpreters.found().values() if each.root is not None)}
    for folder in (root / place for root in roots for place in ("tmp", "var/tmp", "dev/shm")):
        for link in folder.glob("heaptop-*"):
            ended = not Path("/proc", link.name.removeprefix("heaptop-")).exists()
            if ended and link.is_symlink() and os.readlink(link) == "/etc/heaptop-was-here":
                link.unlink()


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """The command to its end, or to the end of what a test waits for; then all of it is killed."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            said, complained = process.communicate(timeout=2 * PATIENCE)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, said, complained)


def at_home(own: Path) -> dict[str, str]:
    """The environment of a command whose state, settings and home are in a folder of the test's."""
    places = {name: str(own) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME")}
    return {**ENVIRONMENT, **places, "PYTHONDONTWRITEBYTECODE": "1"}


def look_at_sites(terminal: PtyTerminal, *names: str) -> None:
    """Open the stacks of each of these, with their lines of source."""
    terminal.press("2")
    assert terminal.shows("allocate"), terminal.text
    for name in names:
        open_site(terminal, name)
        eventually(lambda: False, 0.5)  # for the lines, which are read meanwhile


def open_site(terminal: PtyTerminal, name: str) -> None:
    """Samples live for a second: a site that has none just then is opened again."""
    for _ in range(6):
        go_back(terminal)
        terminal.press(f"/producer:{name}\r")
        if terminal.until(lambda: "filtered out" in terminal.text and f"{name}:5" in terminal.text, 10):
            terminal.press("\r")
            if terminal.until(lambda: "Stack 1 of" in terminal.text and f"{name}:5 allocate" in terminal.text, 10):
                return
    raise AssertionError(terminal.text)


def go_back(terminal: PtyTerminal) -> None:
    """To all sites, from however deep; a frame that is half drawn may say of no level."""
    absent = 0
    for _ in range(40):
        eventually(lambda: False, 0.2)
        deeper = any(level in terminal.text for level in ("Stack 1 of", "Frames, innermost", "site:"))
        absent = 0 if deeper else absent + 1
        if absent == 3:
            return
        if deeper:
            terminal.press("\x1b")
    raise AssertionError(terminal.text)


def leave(terminal: PtyTerminal) -> None:
    terminal.press("q")
    assert eventually(lambda: terminal.process.poll() is not None), terminal.text


def unexpected(
    calls: Sequence[Touched], own: Path, also: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({})
) -> list[str]:
    """What heaptop touched and had no reason to."""
    found = []
    for each in calls:
        if each.kind == "path":
            continue  # opens nothing: only a place to look from
        if not each.done and each.kind == "read":
            continue  # was not there; what a failed open could do is done by those that succeed elsewhere
        if each.what == str(own) or each.what.startswith(f"{own}/"):
            continue  # what heaptop was told to write, and its state
        expected = (*EXPECTED.get(each.kind, ()), *also.get(each.kind, ()))
        if not any(re.fullmatch(pattern, each.what) for pattern, _ in expected):
            found.append(each.text)
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("world", ["nobody", "elsewhere"])
def test_a_command_touches_nothing_but_what_it_must(world: str, command: str, tmp_path: Path) -> None:
    own, output = tmp_path / "own", tmp_path / "strace"
    own.mkdir(mode=0o700)
    environment = at_home(own)
    with luring(AS_NOBODY if world == "nobody" else ELSEWHERE, tmp_path / "theirs") as target:
        argv = [part.format(pid=target.pid, own=own) for part in COMMANDS[command]]
        whole = [*traced(output), sys.executable, "-m", "heaptop", *argv]
        if command == "attach":
            with pty_terminal(whole, 120, 40, environment) as terminal:
                assert terminal.shows("Bands by type"), terminal.text
                look_at_sites(terminal, *SOURCES)
                leave(terminal)
        else:
            ran = run(whole, environment)
            assert ran.returncode in ((33,) if command == "detach" else (0, 3)), ran.stderr
        assert target.alive
    calls = list(touched(output))
    assert any(each.kind == "read" and each.what.startswith("/proc/") for each in calls)
    if command == "attach" and world == "nobody":
        assert any("/theirs/own.py" in each.text for each in calls), "no line of source was shown"
    assert unexpected(calls, own) == []


def test_a_process_in_a_root_of_its_own_is_read_there_as_its_user(tmp_path: Path) -> None:
    """What has the same name outside is never read, nor what only a group of heaptop's own may read."""
    own, output, interpreter = tmp_path / "own", tmp_path / "strace", interpreters.get(interpreters.NEWEST)
    if interpreter.root is None:
        pytest.skip(f"{interpreter} has no root of its own here")
    own.mkdir(mode=0o700)
    with TemporaryDirectory(dir=interpreter.root / "tmp") as inner, TemporaryDirectory(dir="/tmp") as outer:
        theirs = Path(inner, "theirs")
        make_for_nobody(theirs)
        (theirs / "secret.py").write_text("\n\n\n\nthe_groups\n")
        os.chown(theirs / "secret.py", 0, 4242)
        (theirs / "secret.py").chmod(0o640)
        seen = Path("/", theirs.relative_to(interpreter.root))  # as the target knows it
        Path(outer).chmod(0o755)
        os.rename(outer, seen.parent)
        try:
            seen.mkdir(mode=0o755)
            (seen / "own.py").write_text("\n\n\n\nthe_hosts\n")
            with running(interpreter, "hostile/luring", str(seen), wrapper=with_proc(interpreter)) as target:
                before = Facts.of(target.pid)
                argv = ["attach", str(target.pid), "--interval", "5", "--rate", "1KiB"]
                whole = ["setpriv", "--groups=4242", *traced(output), sys.executable, "-m", "heaptop", *argv]
                with pty_terminal(whole, 120, 40, at_home(own)) as terminal:
                    assert terminal.shows("Bands by type"), terminal.text
                    terminal.press("2")
                    assert terminal.shows("allocate"), terminal.text
                    for name in ("secret.py", "own.py"):
                        open_site(terminal, f"theirs/{name}")
                        assert terminal.shows(f"› theirs/{name}:5 allocate", "allocate(kept)"), terminal.text
                        assert name == "secret.py" or terminal.shows("kept.append"), terminal.text
                        assert "the_" not in terminal.text
                    leave(terminal)
                assert difference(before, Facts.of(target.pid)) == []
                target.signal(signal.SIGINT)
                target.process.wait(PATIENCE)
        finally:
            os.rename(seen.parent, outer)
    calls = list(touched(output))
    read = {each.what for each in calls if each.kind == "read" and each.done}
    assert f"{theirs}/own.py" in read
    assert f"{theirs}/secret.py" not in read
    assert (
        unexpected(calls, own, {"read": [(f"{interpreter.root}/srv/targets/luring.py", "source of the target's")]})
        == []
    )


# -- recordings of a hostile process, which still lie beside what it laid -------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of the target that lays traps: its source paths are in there."""
    folder = tmp_path_factory.mktemp("recorded")
    file = folder / "a.heaptop"
    with luring(AS_NOBODY, folder / "theirs") as target:
        argv = ["record", str(target.pid), "-o", str(file), "--for", "3", "--interval", "0.5", "--rate", "1KiB"]
        ran = run([sys.executable, "-m", "heaptop", *argv, "--marks", "0"], ENVIRONMENT)
        assert ran.returncode == 0, ran.stderr
    return file


def test_what_reads_a_recording_touches_nothing_else(recorded: Path, tmp_path: Path) -> None:
    """All in one process, since only what it opens counts."""
    own, output = tmp_path / "own", tmp_path / "strace"
    own.mkdir(mode=0o700)
    file = str(recorded)
    commands = [
        ["report", file],
        ["report", file, "--json"],
        ["diff", file],
        ["diff", file, file, "--by", "producer", "--json"],
        *(["export", file, "--to", name, "-o", f"{own}/{name}"] for name in EXPORTERS),
    ]
    program = f"from heaptop.__main__ import main\nprint([main(each) for each in {commands!r}])"
    ran = run([*traced(output), sys.executable, "-c", program], at_home(own))
    assert ran.stdout.splitlines()[-1] == str([0] * len(commands)), ran.stderr
    calls = [each for each in touched(output) if each.what != file or each.write]
    assert len(calls) < len(list(touched(output))), "the recording was not read"
    assert unexpected(calls, own) == []


# -- screens --------------------------------------------------------------------------------------------------


def test_the_screen_of_a_recording_touches_nothing_else(recorded: Path, tmp_path: Path) -> None:
    own, output = tmp_path / "own", tmp_path / "strace"
    own.mkdir(mode=0o700)
    argv = [*traced(output), sys.executable, "-m", "heaptop", "open", str(recorded)]
    with pty_terminal(argv, 120, 40, at_home(own)) as terminal:
        assert terminal.shows("Bands by type"), terminal.text
        look_at_sites(terminal, "own.py", "etc/shadow")
        leave(terminal)
    calls = [each for each in touched(output) if each.what != str(recorded) or each.write]
    assert unexpected(calls, own) == []


def test_the_list_of_processes_touches_nothing_else(tmp_path: Path) -> None:
    """`heaptop` alone: the list, and an attach from it."""
    own, output = tmp_path / "own", tmp_path / "strace"
    own.mkdir(mode=0o700)
    with luring(AS_NOBODY, tmp_path / "theirs") as target:
        argv = [*traced(output), sys.executable, "-m", "heaptop"]
        with pty_terminal(argv, 120, 40, at_home(own)) as terminal:
            assert terminal.shows(str(target.pid)), terminal.text
            terminal.press(f"/{target.pid}\r")
            assert terminal.until(lambda: not terminal.shows("tests/integration", patience=0)), terminal.text
            terminal.press("\r")
            assert terminal.shows("Bands by type"), terminal.text
            leave(terminal)
        assert target.alive
    calls = list(touched(output))
    assert any(each.what.startswith(f"/proc/{target.pid}/") and each.write for each in calls), "it was not attached to"
    assert unexpected(calls, own) == []


def test_a_program_that_is_started_lures_heaptop_nowhere(tmp_path: Path) -> None:
    own, output, theirs = tmp_path / "own", tmp_path / "strace", tmp_path / "theirs"
    own.mkdir(mode=0o700)
    make_for_nobody(theirs)
    argv = ["run", "--rate", "1KiB", "--interval", "5", "--", str(TARGETS / "hostile/luring.py"), str(theirs)]
    with pty_terminal([*traced(output), sys.executable, "-m", "heaptop", *argv], 120, 40, at_home(own)) as terminal:
        assert terminal.shows("Bands by type"), terminal.text
        look_at_sites(terminal, *SOURCES)
        terminal.press("q")
        assert terminal.shows("continues as pid"), terminal.text
        pid = int(terminal.text.partition("continues as pid")[2].split(";")[0])
        os.kill(pid, signal.SIGINT)  # so that it takes its links away
        assert eventually(lambda: terminal.process.poll() is not None), terminal.text
    assert unexpected(list(touched(output)), own, OF_A_STARTED_PROGRAM) == []


def test_the_sample_touches_nothing_else(tmp_path: Path) -> None:
    own, output = tmp_path / "own", tmp_path / "strace"
    own.mkdir(mode=0o700)
    with pty_terminal([*traced(output), sys.executable, "-m", "heaptop", "demo"], 120, 40, at_home(own)) as terminal:
        assert terminal.shows("Bands by type"), terminal.text
        leave(terminal)
    assert unexpected(list(touched(output)), own, OF_A_STARTED_PROGRAM) == []


@pytest.mark.parametrize("call", ["mmap", "socketpair"])
def test_an_attach_to_a_filtered_process_touches_nothing_else(call: str, tmp_path: Path) -> None:
    own, output = tmp_path / "own", tmp_path / "strace"
    own.mkdir(mode=0o700)
    environment = {**ENVIRONMENT, "XDG_STATE_HOME": str(own), "PYTHONDONTWRITEBYTECODE": "1"}
    with running(interpreters.get("3.11-debian"), "seccomp", "kill", call, wrapper=AS_NOBODY) as target:
        argv = [*traced(output), sys.executable, "-m", "heaptop", "census", str(target.pid), "--json"]
        ran = run(argv, environment)
        assert ran.returncode == 0, ran.stderr
        assert target.terminate() == EXIT_CODE
    assert unexpected(list(touched(output)), own) == []


def test_what_is_not_in_the_list_is_reported(tmp_path: Path) -> None:
    """A program that does each of the things that heaptop must not."""
    output, victim = tmp_path / "strace", tmp_path / "victim"
    program = (
        "import os, socket, sys\n"
        "name = sys.argv[1]\n"
        "open(name, 'w').close(); os.chown(name, 1, 1); os.chmod(name, 0o600); os.link(name, name + '2')\n"
        "os.symlink(name, name + '3'); open(name + '3').close(); os.rename(name + '2', name + '4')\n"
        "os.unlink(name); os.mkdir(name)\n"
        "socket.socket(socket.AF_UNIX).connect_ex('/run/nobody/is/there')\n"
        "open('/etc/shadow').close()\n"
    )
    subprocess.run([*traced(output), sys.executable, "-c", program, str(victim)], check=True)
    lines = unexpected(list(touched(output)), tmp_path / "own")
    for call in (
        "O_CREAT",
        "chown",
        "chmod",
        "link(",
        "symlink",
        "rename",
        "unlink",
        "mkdir",
        "connect",
        "/etc/shadow",
    ):
        assert any(call in line for line in lines), (call, lines)
