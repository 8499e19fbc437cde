"""What a name on the command line means."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.errors import AmbiguousName, ProcessNotFound
from heaptop.injector import processes
from heaptop.injector.processes import PythonProcess, names, resolve


def running(pid: int, *argv: str) -> PythonProcess:
    return PythonProcess(pid, "alice", "3.12", 1, argv, 0.0)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["python", "/srv/shop.py", "--port", "80"], {"/srv/shop.py", "shop.py", "shop"}),
        (["/usr/bin/python3.11", "-u", "-X", "dev", "-W", "ignore", "shop.py"], {"shop.py", "shop"}),
        (["python3", "-Wignore", "-Xdev", "shop.py"], {"shop.py", "shop"}),
        (["python3", "-um", "app.web", "-m", "other"], {"app.web"}),
        (["python3.13t", "-mapp"], {"app"}),
        (["python", "--check-hash-based-pycs", "never", "shop.py"], {"shop.py", "shop"}),
        (["python", "-c", "import shop", "shop.py"], set()),
        (["python"], set()),
        (["python", "-"], set()),
        (["/opt/app/worker", "shop.py"], {"worker"}),
        (["python", "./folder/"], {"./folder/", "folder"}),
        ([], set()),
    ],
)
def test_a_process_is_named_by_script_module_or_program(argv: list[str], expected: set[str]) -> None:
    assert names(argv) == expected


@given(st.lists(st.text(max_size=8) | st.sampled_from(["python", "-m", "-X", "-Wx", "-c", "--", "-"]), max_size=6))
def test_any_command_line_has_names(argv: list[str]) -> None:
    assert all(isinstance(name, str) for name in names(argv))


def test_a_number_is_a_pid_and_nothing_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "python_processes", lambda: pytest.fail("looked"))
    assert resolve("4711") == 4711


def test_the_name_of_a_script_beats_a_piece_of_another_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [running(1, "python", "shop.py"), running(2, "python", "worker.py", "--config", "shop.ini")]
    monkeypatch.setattr(processes, "python_processes", lambda: found)
    assert resolve("shop") == 1
    assert resolve("shop.ini") == 2
    assert resolve("orker.py --conf") == 2


def test_several_matches_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        running(11, "python", "shop.py", "a"),
        running(12, "python", "shop.py", "b"),
        running(13, "x", "y"),
    ]
    monkeypatch.setattr(processes, "python_processes", lambda: found)
    with pytest.raises(AmbiguousName) as caught:
        resolve("shop.py")
    lines = caught.value.message.splitlines()
    assert [line.split(maxsplit=2) for line in lines[2:]] == [
        ["11", "alice", "python shop.py a"],
        ["12", "alice", "python shop.py b"],
    ]


def test_a_prefork_server_is_meant_by_its_name_with_children_which_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [replace(running(pid, "gunicorn", "app:shop"), parent=parent) for pid, parent in ((21, 20), (22, 21))]
    found = [*workers, running(20, "gunicorn", "app:shop")]
    monkeypatch.setattr(processes, "python_processes", lambda: found)
    with pytest.raises(AmbiguousName) as caught:
        resolve("gunicorn")
    assert caught.value.fix == "Attach to all of them: `heaptop attach 20 --children`."
    assert resolve("gunicorn", children=True) == 20
    found.append(running(30, "gunicorn", "app:other"))
    with pytest.raises(AmbiguousName, match="4 Python processes"):
        resolve("gunicorn", children=True)


@pytest.mark.parametrize("name", ["nothing", ""])
def test_a_name_of_no_process_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "python_processes", lambda: [running(1, "python", "shop.py")])
    with pytest.raises(ProcessNotFound):
        resolve(name)


def test_a_command_line_cannot_write_on_the_terminal() -> None:
    command = running(1, "python", "-c", "a\nb\x1b[2J\x07").command
    assert command.isprintable()
    assert command.startswith("python -c a b")
