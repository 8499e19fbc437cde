"""The guard's folder and what it sends: a quota, no links, nothing overwritten, no shell, no redirect."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from heaptop.fleet import reports, sending
from heaptop.fleet.reports import RING, ReportFolder
from heaptop.fleet.sending import Sender, call, post
from tests.support.processes import eventually

STEM = "guard-4711-20261122-041200"


def aged(folder: Path, name: str, size: int, age: int) -> Path:
    path = folder / name
    path.write_bytes(b"x" * size)
    os.utime(path, (10**9 - age, 10**9 - age))
    return path


def test_the_oldest_files_of_guards_give_way_and_no_others(tmp_path: Path) -> None:
    folder = ReportFolder(tmp_path / "reports", 10_000)
    inside = tmp_path / "reports"
    others = [aged(inside, name, 9_000, 99) for name in ("notes.txt", "guard-x.json", f"{STEM}.json.bak")]
    link = inside / "guard-1-20261122-041200.json"
    link.symlink_to(others[0])
    old = aged(inside, "guard-1-20261122-041201.json", 4_000, 9)
    ring = aged(inside, "guard-2-20261122-041200-ring.heaptop.thinner", 4_000, 8)
    young = aged(inside, "guard-1-20261122-041202-2.heaptop", 4_000, 7)
    folder.make_room(5_000)
    assert [path.exists() for path in (old, ring, young)] == [False, False, True]
    assert all(path.exists() for path in others)
    assert link.is_symlink()


def test_what_is_in_use_stays_and_counts_as_large_as_it_may_get(tmp_path: Path) -> None:
    folder = ReportFolder(tmp_path / "reports", 8 << 20)
    inside = tmp_path / "reports"
    ring = aged(inside, f"{STEM}{RING}", 10, 99)
    old = aged(inside, "guard-1-20261122-041201.json", 5 << 20, 9)
    folder.keep(ring.name)
    assert folder.ring_size == 2 << 20
    folder.make_room(1 << 20)
    assert old.exists()
    folder.make_room(2 << 20)
    assert not old.exists()
    assert ring.exists()


def test_files_that_other_guards_rename_or_remove_meanwhile_lose_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ReportFolder(tmp_path / "reports", 10_000)
    old = aged(tmp_path / "reports", "guard-1-20261122-041201.json", 9_000, 9)
    there = os.listdir
    monkeypatch.setattr(reports.os, "listdir", lambda path: [f"{STEM}.json.0123abcd.new", "gone", *there(path)])
    folder.make_room(5_000)
    assert not old.exists()


def test_a_recording_that_is_being_thinned_stays(tmp_path: Path) -> None:
    folder = ReportFolder(tmp_path / "reports", 8 << 20)
    beside = aged(tmp_path / "reports", f"{STEM}{RING}.thinner", 1 << 20, 99)
    old = aged(tmp_path / "reports", "guard-1-20261122-041201.json", 5 << 20, 9)
    folder.keep(f"{STEM}{RING}")
    folder.make_room(3 << 20)
    assert (beside.exists(), old.exists()) == (True, False)


def test_what_a_killed_guard_was_writing_gives_way(tmp_path: Path) -> None:
    folder = ReportFolder(tmp_path / "reports", 10_000)
    half = aged(tmp_path / "reports", f"{STEM}.json.0123abcd.new", 9_000, 9)
    folder.make_room(5_000)
    assert not half.exists()


def test_what_has_no_room_within_the_quota_removes_nothing(tmp_path: Path) -> None:
    folder = ReportFolder(tmp_path / "reports", 10_000)
    old = aged(tmp_path / "reports", f"{STEM}.json", 4_000, 9)
    with pytest.raises(OSError, match="quota"):
        folder.make_room(10_001)
    assert old.exists()


def test_a_heap_dump_has_half_of_the_quota_and_the_oldest_give_way_as_it_grows(tmp_path: Path) -> None:
    folder = ReportFolder(tmp_path / "reports", 10_000_000)
    old, young = (aged(tmp_path / "reports", f"guard-1-2026112{age}-041200.json", 4_000_000, age) for age in (9, 8))
    folder.keep(f"{STEM}.heapdump")
    make_room = folder.dump_room(100)
    make_room(900_000)
    assert (old.exists(), young.exists()) == (True, True)
    aged(tmp_path / "reports", f"{STEM}.heapdump", 900_000, 0)
    make_room(4_000_000)
    assert (old.exists(), young.exists()) == (False, True)
    with pytest.raises(OSError, match="half of the quota"):
        make_room(100_001)
    with pytest.raises(OSError, match="half of the quota"):
        folder.dump_room(10_000_000)
    assert young.exists()


def test_a_heap_dump_leaves_room_for_reports(tmp_path: Path) -> None:
    folder = ReportFolder(tmp_path / "reports", 8 << 20)
    folder.keep(f"{STEM}.heapdump", aged(tmp_path / "reports", f"{STEM}.heaptop", 5 << 20, 9).name)
    make_room = folder.dump_room(100)
    make_room(2 << 20)
    aged(tmp_path / "reports", f"{STEM}.heapdump", 2 << 20, 0)
    with pytest.raises(OSError, match="quota"):
        make_room(1)
    folder.make_room(1 << 20)


def test_a_heap_dump_leaves_half_of_what_is_free_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ReportFolder(tmp_path / "reports", 1 << 40)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=10, f_frsize=1000))
    with pytest.raises(OSError, match="free on the disk"):
        folder.dump_room(0)(5_001)


def test_recordings_that_go_on_have_a_quarter_of_the_quota(tmp_path: Path) -> None:
    shared = ReportFolder(tmp_path / "reports", 8 << 20, 50)
    one, other, third = shared.share(), shared.share(), shared.share()
    one.keep_ring(f"one{RING}")
    other.keep_ring(f"other{RING}")
    with pytest.raises(OSError, match=r"too small for 3 recordings of 1\.00 MiB"):
        third.keep_ring(f"third{RING}")
    one.keep_ring(f"next{RING}")
    one.keep("the report.json")
    third.keep_ring(f"third{RING}")


def test_another_quota_is_that_of_all_who_share_the_folder(tmp_path: Path) -> None:
    shared = ReportFolder(tmp_path / "reports", 64 << 20, 4)
    ring = aged(tmp_path / "reports", f"{STEM}{RING}", 10, 99)
    before = shared.share()
    before.keep_ring(ring.name)
    shared.resize(8 << 20, 2)
    after = shared.share()
    assert (before.ring_size, after.ring_size) == (4 << 20, 1 << 20)
    with pytest.raises(OSError, match="quota"):
        after.make_room(5 << 20)
    after.make_room(4 << 20)
    with pytest.raises(OSError, match="quota"):
        before.make_room(5 << 20)
    assert ring.exists()


def test_no_name_is_taken_twice(tmp_path: Path) -> None:
    folder = ReportFolder(tmp_path / "reports", 10_000)
    names = set()
    for ending in (".json", RING, ".txt"):
        names.add(name := folder.new_stem(4711, 0.0))
        (tmp_path / "reports" / f"{name}{ending}").touch()
    (tmp_path / "reports" / f"{folder.new_stem(4711, 0.0)}.json").symlink_to(tmp_path / "nowhere")
    names.add(folder.new_stem(4711, 0.0))
    assert len(names) == 4


def test_nothing_is_overwritten_by_a_name(tmp_path: Path) -> None:
    folder = ReportFolder(tmp_path / "reports", 10_000)
    (tmp_path / "reports" / "a").write_text("a")
    (tmp_path / "reports" / "b").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        folder.move("a", "b")
    assert (tmp_path / "reports" / "a").read_text() == "a"


# -- sending ----------------------------------------------------------------------------------------------------


class _Hook(BaseHTTPRequestHandler):
    got: list[tuple[str, str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, self.headers["Content-Type"], body))
        if self.path == "/away":
            self.send_response(307)
            self.send_header("Location", "/landed")
        else:
            self.send_response(503 if self.path.startswith("/down") else 204)
        self.end_headers()

    def do_GET(self) -> None:
        self.got.append((self.path, "GET", b""))

    def log_message(self, format: str, *args: object) -> None:
        """Tests have no use for it."""


@pytest.fixture
def hook() -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    """A server on loopback: its address, and what was sent to it."""
    _Hook.got = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hook) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", _Hook.got
        server.shutdown()
        thread.join()


def test_a_webhook_gets_the_report_and_no_redirect_is_followed(
    hook: tuple[str, list[tuple[str, str, bytes]]],
) -> None:
    url, got = hook
    content = json.dumps({"pid": 4711}).encode()
    assert post(f"{url}/heap", content) == "webhook 127.0.0.1: 204"
    assert post(f"{url}/down?token=secret", content) == "webhook 127.0.0.1 failed: status 503"
    assert "redirects are not followed" in post(f"{url}/away", content)
    assert got == [(path, "application/json", content) for path in ("/heap", "/down?token=secret", "/away")]


def test_a_webhook_that_nobody_listens_at_is_one_line(hook: tuple[str, object]) -> None:
    assert "webhook 127.0.0.1 failed: " in post("http://127.0.0.1:9/", b"{}")


def test_a_host_that_no_name_can_be_is_one_line() -> None:
    """The check of the URL lets it pass; the look-up of the name raises UnicodeError."""
    assert "webhook a..b failed: " in post("http://a..b/", b"{}")


def test_a_webhook_that_answers_in_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of the answer comes in time, and the whole never."""
    monkeypatch.setattr(sending, "WEBHOOK_SECONDS", 0.5)
    given_up = threading.Event()

    class Dripping(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            while not given_up.wait(0.05):
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        done = []
        asked = threading.Thread(target=lambda: done.append(post(f"http://127.0.0.1:{server.server_port}/", b"{}")))
        asked.start()
        asked.join(10)
        given_up.set()
        server.shutdown()
        thread.join()
        asked.join()
    assert done == ["webhook 127.0.0.1 failed: it took more than 0.5 s"]


def test_while_requests_hang_no_other_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ends none of them would gather threads."""
    monkeypatch.setattr(sending, "WEBHOOK_SECONDS", 0.05)
    given_up, began = threading.Event(), []

    def hang(*_: object) -> sending.SendResult:
        began.append(1)
        given_up.wait(60)
        return sending.SendResult(False, "")

    monkeypatch.setattr(sending, "_post", hang)
    try:
        said = [post("http://127.0.0.1:9/", b"{}") for _ in range(sending.MOST_HANGING + 2)]
        assert len(began) == sending.MOST_HANGING
        assert "earlier requests hang" in said[-1]
    finally:
        given_up.set()
    assert eventually(lambda: sending._THREAD not in [each.name for each in threading.enumerate()])


def test_a_command_gets_the_report_and_no_shell_sees_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = (
        "import os, sys; open(sys.argv[1], 'w').write(sys.stdin.read() + sys.argv[2] + os.environ['HEAPTOP_REPORT'])"
    )
    argv = [sys.executable, "-c", program, str(out), "; touch $(x) &"]
    assert call(argv, b"{}", "/r.json", threading.Event()).endswith("exit code 0")
    assert out.read_text() == "{}; touch $(x) &/r.json"


def test_a_command_that_fails_is_one_line() -> None:
    assert call(["false"], b"x" * 1_000_000, "", threading.Event()) == "command false: exit code 1"
    assert "No such file" in call(["/no/such/program"], b"{}", "", threading.Event())


def test_a_command_that_does_not_end_is_ended_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "COMMAND_SECONDS", 0.5)
    written = tmp_path / "child"
    program = (
        "import subprocess, sys, time; child = subprocess.Popen(['sleep', '600']); "
        "open(sys.argv[1], 'w').write(str(child.pid)); time.sleep(600)"
    )
    argv = [sys.executable, "-c", program, str(written)]
    assert "was ended: it took more than 0.5 s" in call(argv, b"{}", "", threading.Event())
    if written.exists():  # else it was ended before it had started anything
        assert eventually(lambda: has_ended(Path(f"/proc/{written.read_text()}/stat")))


def test_a_command_that_runs_when_the_guard_ends_is_ended_too(tmp_path: Path) -> None:
    """Nobody would end it later; what waits behind it is not begun."""
    said: list[str] = []
    sender = Sender(said.append)
    argv = ["sh", "-c", 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 600', str(tmp_path / "pid")]
    sender.put(lambda: call(argv, b"{}", "", sender.stop))
    sender.put(lambda: "begun")
    assert eventually((tmp_path / "pid").exists)
    sender.close(0.01)
    assert eventually(lambda: len(said) == 2)
    assert said == ["the guard ends; reports still being sent are dropped", "command sh was ended: the guard ended"]
    assert has_ended(Path(f"/proc/{int((tmp_path / 'pid').read_text())}/stat"))


def has_ended(status: Path) -> bool:
    try:
        return status.read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_one_thing_is_sent_after_another_and_the_end_waits_for_them() -> None:
    said: list[str] = []
    sender = Sender(said.append)
    for number in range(3):
        sender.put(lambda number=number: f"done {number}")  # type: ignore[misc]
    sender.close(60)
    assert said == ["done 0", "done 1", "done 2"]


def test_what_takes_too_long_to_send_does_not_keep_the_guard() -> None:
    said: list[str] = []
    go_on = threading.Event()
    sender = Sender(said.append)
    sender.put(lambda: "late" if go_on.wait(60) else "")
    sender.close(0.01)
    assert said == ["the guard ends; reports still being sent are dropped"]
    go_on.set()


def test_ctrl_c_gives_up_what_is_still_being_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    go_on = threading.Event()
    sender = Sender(said.append)
    sender.put(lambda: "late" if go_on.wait(60) else "")
    wait = threading.Thread.join
    pressed: list[float | None] = []

    def press(thread: threading.Thread, seconds: float | None = None) -> None:
        pressed.append(seconds)
        if len(pressed) == 1:
            raise KeyboardInterrupt
        wait(thread, seconds)

    monkeypatch.setattr(threading.Thread, "join", press)
    sender.close(60)
    assert pressed[0] == 60
    assert said == ["the guard ends; reports still being sent are dropped"]
    go_on.set()
