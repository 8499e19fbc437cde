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
from typing import Final

import pytest

from tests import interpreters
from tests.support.leaking import ENVIRONMENT
from tests.support.processes import EXIT_CODE, PATIENCE, Target, eventually, running
from tests.support.pty_terminal import pty_terminal
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
            rf"|smaps|smaps_rollup|stat|statm|status|syscall|task|wchan|limits|exe)",
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
            r".*sun_path=@\"heaptop-(attach|agent)-[\da-f-]+\".*",
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

COMMANDS: Final[dict[str, Sequence[str]]] = {
    "attach": ["attach", "{pid}", "--interval", "0.5", "--rate", "1KiB"],
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


@contextmanager
def luring(wrapper: Sequence[str], folder: Path) -> Iterator[Target]:
    """The target that lays traps, as nobody, in a folder of its own."""
    interpreter = interpreters.get("3.11-debian")
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    for parent in folder.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    with running(interpreter, "hostile/luring", str(folder), wrapper=wrapper) as target:
        try:
            yield target
        finally:
            target.signal(signal.SIGINT)  # so that it takes its links away
            target.process.wait(PATIENCE)


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


def unexpected(calls: Sequence[Touched], own: Path) -> list[str]:
    """What heaptop touched and had no reason to."""
    found = []
    for each in calls:
        if each.kind == "path":
            continue  # opens nothing: only a place to look from
        if not each.done and each.kind == "read":
            continue  # was not there; what a failed open could do is done by those that succeed elsewhere
        if each.what == str(own) or each.what.startswith(f"{own}/"):
            continue  # what heaptop was told to write, and its state
        if not any(re.fullmatch(pattern, each.what) for pattern, _ in EXPECTED.get(each.kind, ())):
            found.append(each.text)
    return found


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("world", ["nobody", "elsewhere"])
def test_a_command_touches_nothing_but_what_it_must(world: str, command: str, tmp_path: Path) -> None:
    own, output = tmp_path / "own", tmp_path / "strace"
    own.mkdir(mode=0o700)
    places = {name: str(own) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME")}
    environment = {**ENVIRONMENT, **places, "PYTHONDONTWRITEBYTECODE": "1"}
    with luring(AS_NOBODY if world == "nobody" else ELSEWHERE, tmp_path / "theirs") as target:
        argv = [part.format(pid=target.pid, own=own) for part in COMMANDS[command]]
        whole = [*traced(output), sys.executable, "-m", "heaptop", *argv]
        if command == "attach":
            with pty_terminal(whole, 120, 40, environment) as terminal:
                assert terminal.shows("Bands by type"), terminal.text
                terminal.press("2")
                assert terminal.shows("allocate"), terminal.text
                for keys in ("\r", "\x1b", "\x1b[B") * 12:  # each site's stacks, with their lines of source
                    terminal.press(keys)
                    eventually(lambda: False, 0.4)  # for what it then does
                terminal.press("q")
                assert eventually(lambda: terminal.process.poll() is not None), terminal.text
        else:
            ran = run(whole, environment)
            assert ran.returncode in ((33,) if command == "detach" else (0, 3)), ran.stderr
        assert target.alive
    calls = list(touched(output))
    assert any(each.kind == "read" and each.what.startswith("/proc/") for each in calls)
    if command == "attach" and world == "nobody":
        assert any("/theirs/own.py" in each.text for each in calls), "no line of source was shown"
    assert unexpected(calls, own) == []


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
