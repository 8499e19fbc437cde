"""How attach and run end: exit codes, what is said, and that the source is always closed."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from heaptop.__main__ import main
from heaptop.cli.commands import demo
from heaptop.errors import AgentLost, HeaptopError, ProcessNotFound, PtraceDenied, TargetExited
from heaptop.injector import processes
from heaptop.injector.inspect import target_files
from heaptop.injector.processes import PythonProcess
from heaptop.protocol.source import Ended, Event
from tests.support.doors import ATTACHED, SEEN, TARGET, Doors, FakeDiagnosis, ScriptedSource


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> Doors:
    return Doors(monkeypatch)


def test_attach_hands_its_options_on(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    doors.source = ScriptedSource(SEEN)
    options = ["--ascii", "--theme", "nord", "--interval", "0.5", "--wait", "60", "--allow-seccomp"]
    assert main(["attach", "4711", *options]) == 0
    kind, pid, chosen = doors.calls[0]
    assert (kind, pid) == ("attach", 4711)
    assert (chosen.interval, chosen.wait, chosen.allow_seccomp) == (0.5, 60.0, True)
    assert not chosen.override_remote_debug
    hinted, files = (doors.apps[0].options.pop(name) for name in ("hinted", "files"))
    assert doors.apps[0].options == {"ascii": True, "theme": "nord", "user_code": [], "keys": None, "times": "elapsed"}
    assert doors.source.asked == ["open", "close"]
    monkeypatch.setattr(target_files, "read", lambda pid, path: f"{path} of {pid}".encode())
    assert files(4711, "/srv/shop.py") == b"/srv/shop.py of 4711", "as the target sees it, and not as heaptop does"
    hinted()
    assert main(["attach", "4711"]) == 0
    assert doors.apps[1].options["hinted"] is None, "it is not the first time any more"


@pytest.mark.parametrize(
    ("seen", "error", "code"),
    [
        (SEEN, None, 0),
        (SEEN, TargetExited("Gone."), 0),
        ((ATTACHED,), TargetExited("Gone."), TargetExited.exit_code),
        ((), PtraceDenied("No."), PtraceDenied.exit_code),
        (SEEN, AgentLost("Lost."), AgentLost.exit_code),
    ],
    ids=["quit", "looked at to the end", "gone before it was seen", "refused", "lost"],
)
def test_the_end_of_an_attach(
    seen: tuple[Event, ...],
    error: HeaptopError | None,
    code: int,
    doors: Doors,
    capsys: pytest.CaptureFixture[str],
) -> None:
    doors.source = ScriptedSource((*seen, Ended(error)))
    assert main(["attach", "4711"]) == code
    assert doors.source.asked[-1] == "close"
    said = capsys.readouterr()
    assert said.out == ""
    assert (error is not None and error.message in said.err) == (code != 0)


STAYS = Ended(None, "another tool's hook lies over heaptop's")


@pytest.mark.parametrize("arguments", [["attach", "4711"], []], ids=["attach", "picker"])
def test_what_could_not_be_taken_out_is_said_after_the_screen(
    arguments: list[str], doors: Doors, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "processes_and_refusals", lambda: [(PROCESS, None)])
    doors.source = ScriptedSource((*SEEN, STAYS))
    assert main(arguments) == 0
    assert (
        "process 4711 continues, but not all of heaptop could be removed: another tool's hook lies over heaptop's"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("arguments", "interval", "depth"),
    [
        ([], (65_536, 200), 128),
        (["--rate", "8KiB", "--depth", "16"], (8_192, 0), 16),
        (["--rate", "OFF"], (0, 0), 128),
        (["--rate", "50/s"], (65_536, 50), 128),
    ],
)
def test_allocations_are_sampled_as_asked(
    arguments: list[str], interval: tuple[int, int], depth: int, doors: Doors
) -> None:
    doors.source = ScriptedSource(SEEN)
    assert main(["attach", "4711", *arguments]) == 0
    options = doors.calls[0][2]
    assert ((options.sample_interval, options.sample_target), options.sample_depth) == (interval, depth)


@pytest.mark.parametrize("arguments", [["attach", "4711"], ["run", "prog.py"], []], ids=["attach", "run", "alone"])
def test_user_code_may_lie_anywhere(
    arguments: list[str], doors: Doors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(processes, "processes_and_refusals", lambda: [(PROCESS, None)])
    doors.source = ScriptedSource(SEEN)
    flags = ["--user-code", "/usr/lib/shop", "--user-code", "/opt/x.py"]
    assert main([*arguments[:1], *flags, *arguments[1:]]) == 0
    assert doors.apps[0].options["user_code"] == ["/usr/lib/shop", "/opt/x.py"]


@pytest.mark.parametrize("arguments", [["attach", "4711"], ["run", "prog.py"], []], ids=["attach", "run", "alone"])
@pytest.mark.parametrize("exact", [False, True])
def test_exact_sites_are_an_option(
    *, arguments: list[str], exact: bool, doors: Doors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(processes, "processes_and_refusals", lambda: [(PROCESS, None)])
    doors.source = ScriptedSource(SEEN)
    flag = ["--exact-sites"] if exact else []
    assert main([*arguments[:1], *flag, *arguments[1:]]) == 0
    options = doors.calls[0][2]
    assert (options["options"] if isinstance(options, dict) else options).sample_exact == exact


@pytest.mark.parametrize(
    "arguments",
    [["--rate", "12"], ["--rate", "often"], ["--rate", "9999/s"], ["--depth", "0"], ["--depth", "9999"]],
)
def test_a_rate_or_depth_that_makes_no_sense(
    arguments: list[str], doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["attach", "4711", *arguments])
    assert arguments[0] in capsys.readouterr().err
    assert doors.calls == []


def test_a_front_end_that_fails_still_leaves_in_order(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("tests.support.doors.ScriptedSource.open", crash)
    with pytest.raises(RuntimeError):
        main(["attach", "4711"])
    assert doors.source.asked == ["close"]


def test_run_starts_what_it_was_told(doors: Doors, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doors.source = ScriptedSource(SEEN)
    output = tmp_path / "out.log"
    assert main(["run", "--python", "py", "--output", str(output), "--", "-m", "mod", "--json"]) == 0
    kind, argv, rest = doors.calls[0]
    assert (kind, argv, rest["python"], rest["output"]) == ("launch", ["-m", "mod", "--json"], "py", output)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"heaptop: the program continues as pid 4711; its output is in {output}\n"


@pytest.mark.parametrize("seen", [SEEN, (ATTACHED,)], ids=["seen", "too short to be seen"])
@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(0, 0, "exited with code 0"), (3, 3, "exited with code 3"), (-9, 137, "SIGKILL"), (-40, 168, "signal 40")],
)
def test_the_programs_exit_code_is_runs(
    *,
    seen: tuple[Event, ...],
    status: int,
    code: int,
    words: str,
    doors: Doors,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = Ended(TargetExited("It ended.", status=status))
    doors.source = ScriptedSource((*seen, ended))
    assert main(["run", "--output", str(tmp_path / "o"), "prog.py"]) == code
    assert words in capsys.readouterr().err


def test_output_goes_to_a_folder_of_ones_own(doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    doors.source = ScriptedSource(SEEN)
    assert main(["run", "--", "/srv/shop.py"]) == 0
    output = doors.calls[0][2]["output"]
    assert output.parent == tmp_path / "heaptop"
    assert output.parent.stat().st_mode & 0o077 == 0
    assert output.name.startswith("shop.py-")
    assert output.suffix == ".log"


def test_a_folder_that_cannot_be_made(
    doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert main(["run", "--", "/srv/shop.py"]) == 44
    assert "--output FILE" in capsys.readouterr().err
    assert doors.calls == []


@pytest.mark.parametrize("argv", [["attach", "4711"], ["run", "prog.py"], ["demo"], []], ids=" ".join)
def test_the_screen_needs_a_terminal(
    argv: list[str], doors: Doors, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("heaptop.cli.terminal.has_terminal", lambda: False)
    assert main(argv) == 2
    assert "needs a terminal" in capsys.readouterr().err
    assert doors.calls == []
    assert doors.apps == []


def _missing(pid: int) -> None:
    raise ProcessNotFound(f"There is no process {pid}.")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["attach", "no-such-name"], "No Python process has the name 'no-such-name'"),
        (["attach", "0"], "There is no process 0."),
        (["attach", "-59123775"], "No Python process has the name '-59123775'"),
        (["attach", "0", "--theme", "plaid"], "There is no theme called 'plaid'"),
        (["attach", "0", "--record", "/nowhere/x"], "/nowhere/x cannot be written"),
        (["attach", "0", "--rate", "3"], "--rate"),
        (["open", "/nowhere/x"], "/nowhere/x cannot be read"),
        (["run"], "No program to run."),
        (["run", "--theme", "plaid", "--", "prog.py"], "There is no theme called 'plaid'"),
        (["demo", "--theme", "plaid"], "There is no theme called 'plaid'"),
        (["demo", "--record", "/nowhere/x"], "/nowhere/x cannot be written"),
        (["pick", "--record", "x"], "No process to record is chosen yet."),
        (["--theme", "plaid"], "There is no theme called 'plaid'"),
        (["--interval", "0"], "--interval"),
    ],
    ids=" ".join,
)
def test_what_is_wrong_with_the_arguments_is_said_before_that_there_is_no_terminal(
    argv: list[str], said: str, doors: Doors, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("heaptop.cli.terminal.has_terminal", lambda: False)
    monkeypatch.setattr("heaptop.injector.inspect.preflight.check", _missing)
    with suppress(SystemExit):
        assert main(argv) != 0
    err = capsys.readouterr().err
    assert said in err
    assert "terminal" not in err
    assert doors.apps == []


def test_without_a_terminal_no_recording_is_left(
    doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("heaptop.cli.terminal.has_terminal", lambda: False)
    (tmp_path / "old").write_text("mine")
    for more in (["new"], ["old", "--force"]):
        assert main(["attach", "4711", "--record", str(tmp_path / more[0]), *more[1:]]) == 2
        assert "needs a terminal" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old", "mine")]


PROCESS = PythonProcess(4711, "alice", "3.12", 1_000, ("python", "shop.py"), 0.0)


@pytest.mark.parametrize(
    ("error", "code"),
    [(None, 0), (TargetExited("Gone."), 0), (AgentLost("Lost."), AgentLost.exit_code)],
    ids=["quit", "exited", "lost"],
)
def test_heaptop_alone_is_the_picker(
    error: HeaptopError | None, code: int, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [(PROCESS, None), (PROCESS, PtraceDenied("It is not yours."))]
    monkeypatch.setattr(processes, "processes_and_refusals", lambda: listed)
    doors.source = ScriptedSource((*SEEN, Ended(error)))
    assert main(["--wait", "7"]) == code
    rows = doors.apps[0].options["picker"].processes()
    assert [(row.pid, row.version, row.attachable, row.reason) for row in rows] == [
        (4711, "3.12", True, ""),
        (4711, "3.12", False, "It is not yours"),
    ]
    kind, pid, options = doors.calls[0]
    assert (kind, pid, options.wait) == ("attach", 4711, 7.0)
    assert doors.source.asked == ["open", "close"]


def test_a_picker_left_at_once(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "processes_and_refusals", list)
    assert main([]) == 0
    assert doors.calls == []


def test_demo_attaches_to_the_sample(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "sample_program", lambda: nullcontext(4712))
    doors.source = ScriptedSource(SEEN)
    assert main(["demo"]) == 0
    assert [call[:2] for call in doors.calls] == [("attach", 4712)]


@pytest.mark.parametrize("error", [None, TargetExited("Gone.", status=0)], ids=["lives", "ended"])
def test_demo_launches_the_sample_where_it_may_not_attach(
    error: HeaptopError | None, doors: Doors, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = []
    monkeypatch.setattr(demo, "sample_program", lambda: nullcontext(4712))
    monkeypatch.setattr("os.kill", lambda pid, number: killed.append(pid))
    doors.diagnosis = FakeDiagnosis(error=PtraceDenied("Not in this container."))
    # Before it is started, a launched program has no pid.
    doors.source = ScriptedSource((*SEEN, Ended(error)), target=replace(TARGET, pid=0))
    assert main(["demo"]) == 0
    kind, argv, _ = doors.calls[0]
    assert (kind, argv[0]) == ("launch", str(demo.PROGRAM))
    assert "Not in this container." in capsys.readouterr().err
    assert killed == ([TARGET.pid] if error is None else [])
