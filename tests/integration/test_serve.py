"""``heaptop serve`` on live processes: it attaches to what its rules choose, serves what these keep, and whatever ends
it leaves them as they were.

Each test chooses its own targets alone, by a word in their command lines.
"""

from __future__ import annotations

import base64
import http.client
import json
import signal
import socket
import threading
import urllib.error
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the extra heaptop[serve] is not installed")

import bcrypt

from heaptop.injector.inspect.threads import agent_thread
from tests.interpreters import Interpreter
from tests.support import native
from tests.support.attaching import attach_once, is_held, resting
from tests.support.certificates import certificate, trusting_all
from tests.support.processes import EXIT_CODE, Facts, Target, difference, eventually, running
from tests.support.profiles import Profile
from tests.support.serving import RULE, serving

KEPT = 20_000_000
"""Bytes, at least, that a target keeps after SIGUSR1."""


@pytest.fixture
def word() -> str:
    """That no other command line has."""
    return f"served-{uuid.uuid4().hex}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "fleet.toml"


def is_as_before(target: Target, before: Facts) -> bool:
    return eventually(lambda: difference(before, resting(target.pid)) == [])


@pytest.mark.pythons("3.8", "3.11", "3.14")
def test_metrics_and_profiles_agree_on_what_a_process_keeps(interpreter: Interpreter, word: str, file: Path) -> None:
    with running(interpreter, "served", word) as target, serving(file, RULE.format(word=word)) as serve:
        assert eventually(lambda: serve.counted() == {target.pid}), serve.process.stderr()
        target.signal(signal.SIGUSR1)
        assert eventually(lambda: serve.metrics()["heaptop_live_bytes"].get("bytearray", 0) > KEPT)

        def keeping() -> dict[str, float]:
            """Live bytes by site, once the target's allocations were read."""
            sites = serve.metrics().get("heaptop_site_live_bytes", {})
            return sites if sum(size for site, size in sites.items() if "served.py" in site) > KEPT / 2 else {}

        assert eventually(keeping)
        (site,) = (site for site, size in keeping().items() if size > KEPT / 2 and "served.py" in site)
        assert "keep" in site

        def agree() -> bool:
            """A census may come between the two readings."""
            metrics = serve.metrics()
            profile = Profile(serve.get(f"debug/pprof/heap?pid={target.pid}"))
            served = sum(metrics["heaptop_site_live_bytes"].values())
            return profile.total("inuse_space", service="served") == pytest.approx(served, rel=0.001)

        assert eventually(agree)
        metrics = serve.metrics()
        low, high = (metrics[f"heaptop_site_live_{end}_bytes"][site] for end in ("low", "high"))
        assert low <= metrics["heaptop_site_live_bytes"][site] <= high
        assert low <= metrics["heaptop_live_bytes"]["bytearray"] * 1.2
        assert metrics["heaptop_site_allocated_bytes_total"][site] >= low
        assert metrics["heaptop_attached_processes"] == {"served": 1}
        assert metrics["heaptop_live_objects"]["bytearray"] >= 20_000
        assert metrics["heaptop_resident_bytes"]["served"] > KEPT
        assert metrics["heaptop_pause_seconds_count"][""] >= 2
        assert not any(metrics.get("heaptop_refusals_total", {}).values())
        allocated = Profile(serve.get("debug/pprof/allocs?service=served"))
        assert allocated.default == "alloc_space"
        assert allocated.total("alloc_space", pid=str(target.pid)) > KEPT / 2
        assert Profile(serve.get("debug/pprof/heap?service=other")).samples == []
        (line,) = serve.events("attach")
        assert f"pid={target.pid} service=served" in line
        assert target.terminate() == EXIT_CODE
        assert eventually(lambda: serve.attached() == set())
        assert "reason=TargetExited" in serve.events("detach")[0]
        assert serve.end(signal.SIGTERM) == 0


@pytest.mark.sample(4, least=3)
@pytest.mark.pythons("3.8", "3.12", "3.14")
@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda way: way.name)
def test_whatever_ends_it_leaves_its_targets_as_they_were(
    interpreter: Interpreter, way: signal.Signals, word: str, file: Path
) -> None:
    with ExitStack() as stack:
        targets = [stack.enter_context(running(interpreter, name, word)) for name in ("busy", "sleeper", "lock")]
        before = {target.pid: Facts.of(target.pid) for target in targets}
        serve = stack.enter_context(serving(file, RULE.format(word=word)))
        assert eventually(lambda: serve.counted() == before.keys()), serve.process.stderr()
        assert serve.end(way) == (-way if way == signal.SIGKILL else 0)
        if way != signal.SIGKILL:
            assert len(serve.events("detach")) == len(targets)
        for target in targets:
            assert is_as_before(target, before[target.pid]), difference(before[target.pid], resting(target.pid))
            assert not is_held(target.pid)
            attach_once(target.pid, census=True)
            assert target.terminate() == EXIT_CODE
            assert (target.said(), target.stderr()) == ([], "")


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons("3.9", "3.13")
def test_killed_while_it_attaches_it_harms_none_and_its_successor_attaches_again(
    interpreter: Interpreter, word: str, file: Path
) -> None:
    with ExitStack() as stack:
        targets = [stack.enter_context(running(interpreter, name, word)) for name in ("busy", "sleeper", "lock")]
        before = {target.pid: Facts.of(target.pid) for target in targets}
        for attached in range(1, 4):
            with serving(file, RULE.format(word=word)) as serve:
                assert eventually(lambda wanted=attached, one=serve: len(one.events("attach")) >= wanted)
                assert serve.end(signal.SIGKILL) == -signal.SIGKILL
        for target in targets:
            assert eventually(lambda pid=target.pid: agent_thread(pid) is None and not is_held(pid))
        with serving(file, RULE.format(word=word)) as serve:
            assert eventually(lambda: serve.counted() == before.keys()), serve.process.stderr()
            assert serve.end(signal.SIGTERM) == 0
        for target in targets:
            assert is_as_before(target, before[target.pid]), difference(before[target.pid], resting(target.pid))
            assert target.terminate() == EXIT_CODE
            assert (target.said(), target.stderr()) == ([], "")


@pytest.mark.pythons("3.12")
def test_a_client_that_goes_on_asking_does_not_delay_its_end(
    interpreter: Interpreter, word: str, file: Path
) -> None:
    with running(interpreter, "sleeper", word) as target, serving(file, RULE.format(word=word)) as serve:
        assert eventually(lambda: serve.attached() == {target.pid})
        connection = http.client.HTTPConnection(serve.address.removeprefix("http://").rstrip("/"), timeout=60)
        stopped, answers = threading.Event(), []

        def ask() -> None:
            """On one connection, which stays open, until the server closes it."""
            with suppress(OSError, http.client.HTTPException):
                while not stopped.wait(0.2):
                    connection.request("GET", "/healthz")
                    answers.append(connection.getresponse().read())

        with ThreadPoolExecutor(1) as others:
            others.submit(ask)
            try:
                assert eventually(lambda: len(answers) > 2)
                assert serve.end(signal.SIGTERM) == 0
            finally:
                stopped.set()
        assert eventually(lambda: agent_thread(target.pid) is None)


@pytest.mark.pythons("3.12")
def test_clients_that_only_connect_keep_nobody_out(interpreter: Interpreter, word: str, file: Path) -> None:
    with running(interpreter, "sleeper", word) as target, serving(file, RULE.format(word=word)) as serve:
        host, _, port = serve.address.removeprefix("http://").rstrip("/").partition(":")
        with ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(socket.create_connection((host, int(port)))).sendall(b"GET /metrics HTTP/1.1\r\n")
            assert eventually(lambda: serve.attached() == {target.pid})
            assert eventually(lambda: len(list(Path(f"/proc/{serve.process.pid}/fd").iterdir())) < 150)
        assert serve.end(signal.SIGTERM) == 0


def test_a_secret_is_asked_for(word: str, file: Path, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text("bearer 0123456789abcdef\n")
    secrets.chmod(0o600)
    with serving(file, RULE.format(word=word), "--credentials", str(secrets)) as serve:
        with pytest.raises(urllib.error.HTTPError) as refused:
            serve.get("metrics")
        assert refused.value.code == 401
        request = urllib.request.Request(
            f"{serve.address}metrics", headers={"Authorization": "Bearer 0123456789abcdef"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            assert b"heaptop_attaches_total" in response.read()
        assert serve.end(signal.SIGTERM) == 0


def test_other_machines_are_served_by_tls_and_a_user_is_asked_for(word: str, file: Path, tmp_path: Path) -> None:
    certificate(tmp_path)
    web = tmp_path / "web.yml"
    hashed = bcrypt.hashpw(b"correct horse", bcrypt.gensalt(4)).decode()
    web.write_text(
        f"tls_server_config: {{cert_file: tls.crt, key_file: tls.key}}\nbasic_auth_users: {{prometheus: {hashed}}}"
    )
    web.chmod(0o600)
    options = ("--listen", "0.0.0.0:0", "--web-config", str(web))
    with serving(file, RULE.format(word=word), *options) as serve:
        assert serve.address.startswith("https://0.0.0.0:")
        assert "nothing is encrypted" not in serve.process.stderr()
        url = f"{serve.address.replace('0.0.0.0', '127.0.0.1')}metrics"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, timeout=60, context=trusting_all())
        assert refused.value.code == 401
        login = base64.b64encode(b"prometheus:correct horse").decode()
        request = urllib.request.Request(url, headers={"Authorization": f"Basic {login}"})
        with urllib.request.urlopen(request, timeout=60, context=trusting_all()) as response:
            assert b"heaptop_attaches_total" in response.read()
        plain = http.client.HTTPConnection("127.0.0.1", int(serve.address.rstrip("/").rpartition(":")[2]), timeout=60)
        plain.request("GET", "/metrics")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        assert serve.end(signal.SIGTERM) == 0


@pytest.mark.pythons("3.12")
def test_a_reload_detaches_from_what_is_no_longer_chosen(interpreter: Interpreter, word: str, file: Path) -> None:
    with running(interpreter, "sleeper", word, "web") as web, running(interpreter, "sleeper", word, "ci") as ci:
        before = {target.pid: Facts.of(target.pid) for target in (web, ci)}
        with serving(file, RULE.format(word=word)) as serve:
            assert eventually(lambda: serve.attached() == before.keys())
            file.write_text("limits = 1")
            with pytest.raises(urllib.error.HTTPError) as failed:
                serve.get("-/reload", post=True)
            assert failed.value.code == 403
            serve.process.signal(signal.SIGHUP)
            assert eventually(lambda: len(serve.events("reload")) == 1)
            assert "unknown key `limits`" in serve.events("reload")[0]
            assert serve.attached() == before.keys()
            file.write_text(f'{RULE.format(word=word)}[[select]]\ncommand = "ci$"\nexclude = true\n')
            serve.process.signal(signal.SIGHUP)
            assert eventually(lambda: serve.attached() == {web.pid})
            assert is_as_before(ci, before[ci.pid])
            assert agent_thread(web.pid) is not None
            assert serve.end(signal.SIGTERM) == 0
        assert is_as_before(web, before[web.pid])


@pytest.mark.pythons("3.12")
def test_a_process_that_refuses_does_not_keep_others_out(interpreter: Interpreter, word: str, file: Path) -> None:
    with running(interpreter, "sleeper", word) as stopped, running(interpreter, "sleeper", word) as other:
        stopped.stop()
        before = Facts.of(stopped.pid)
        with serving(file, RULE.format(word=word)) as serve:
            assert eventually(lambda: serve.attached() == {other.pid})
            assert eventually(lambda: [one["pid"] for one in serve.processes()["refused"]] == [stopped.pid])
            assert serve.processes()["refused"][0]["class"] == "StoppedTarget"
            assert serve.metrics()["heaptop_refusals_total"]["StoppedTarget"] == 1
            assert difference(before, Facts.of(stopped.pid), allow_pages=False) == []
            assert serve.end(signal.SIGTERM) == 0
        stopped.signal(signal.SIGCONT)


@pytest.mark.pythons("3.12")
def test_it_survives_processes_that_come_and_end(interpreter: Interpreter, word: str, file: Path) -> None:
    with running(interpreter, "sleeper", word) as stays, serving(file, RULE.format(word=word)) as serve:
        before = resting(stays.pid) if agent_thread(stays.pid) is None else None
        assert eventually(lambda: serve.attached() == {stays.pid})
        for number in range(6):
            with running(interpreter, "busy", word) as ends:
                serve.process.signal(signal.SIGHUP)  # looks for processes at once
                if number % 2:
                    assert eventually(lambda pid=ends.pid: pid in serve.attached())
                assert ends.terminate() == EXIT_CODE
                assert (ends.said(), ends.stderr()) == ([], "")
        assert eventually(lambda: serve.attached() == {stays.pid})
        assert serve.metrics()["heaptop_attached_processes"] == {"served": 1}
        assert serve.get("healthz") == b"ok\n"
        assert serve.end(signal.SIGTERM) == 0
        assert before is None or is_as_before(stays, before)
        assert stays.terminate() == EXIT_CODE


GUARD = """
[[guard]]
service = "served"
when = "rss > 1MB"
do = ["hunt", "record"]
for = 60
"""


@pytest.mark.pythons("3.12")
@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL], ids=lambda way: way.name)
def test_a_guard_reports_on_an_attached_process_and_leaves_it_as_it_was(
    interpreter: Interpreter, way: signal.Signals, word: str, file: Path, tmp_path: Path
) -> None:
    """Ended while it examines the process, and while a recording goes on."""
    native.core()
    reports = tmp_path / "reports"

    def rings() -> set[Path]:
        """Recordings that go on."""
        return {*reports.glob("guard-*-ring.heaptop")}

    with running(interpreter, "busy", word) as target:
        before = Facts.of(target.pid)
        with serving(file, f'reports_dir = "{reports}"\n{RULE.format(word=word)}{GUARD}') as serve:
            assert eventually(rings), serve.process.stderr()
            assert eventually(lambda: {*reports.glob("guard-*.heaptop")} - rings()), serve.process.stderr()
            assert len(serve.events("attach")) == 1
            assert serve.end(way) == (-way if way == signal.SIGKILL else 0)
        (report,) = (json.loads(path.read_text()) for path in reports.glob("*.json"))
        assert (report["service"], report["pid"]) == ("served", target.pid)
        assert report["census"]["rows"]
        assert is_as_before(target, before), difference(before, resting(target.pid))
        assert not is_held(target.pid)
        assert target.terminate() == EXIT_CODE
        assert (target.said(), target.stderr()) == ([], "")
