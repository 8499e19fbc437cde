"""Containers: heaptop outside (root of the host), inside, and beside (a container that shares the pid namespace).

Each cell of the table in docs/support.md attaches, or refuses with the line to type, which is then tried.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from heaptop.errors import PtraceDenied, SeccompTarget, TargetExited
from heaptop.injector.inspect.threads import agent_thread
from heaptop.protocol.messages import Census
from tests.integration.test_kill9 import CYCLES, ROOT, cycle_length, die, helpers_of
from tests.interpreters import NEWEST, OLDEST, Interpreter
from tests.support.attaching import attach_once, attached, is_held, resting
from tests.support.containers import DEFAULT, PRIVILEGED, PTRACE, Container, Rights, container
from tests.support.leaking import ENVIRONMENT, HEAPTOP
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, difference, eventually, kept

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="containers are made by root")

KINDS: Final = {
    "default": Rights(),
    "no-capabilities": Rights(()),
    "restricted": Rights((), user=1000),
    "user-namespace": Rights(own_users=True),
    "unconfined": Rights(filtered=False),
    "with-ptrace": Rights(PTRACE, filtered=False),
    "another-user": Rights((), filtered=False, user=1000),
}
PROFILES: Final = {"baseline": Rights(), "general": Rights(PTRACE), "sysadmin": PRIVILEGED}
"""What kubectl's profiles of these names give a container that is root."""
CENSUS: Final = ("census", "1", "--json")
HOST: Final = "Run heaptop as root on the host"


def outcome(ran: subprocess.CompletedProcess[str]) -> str:
    """How a census was taken, or the name of the refusal."""
    if ran.returncode == 0:
        census = json.loads(ran.stdout)
        assert sum(row["count"] for row in census["rows"]) > 1000
        return str(census["mode"])
    refusals = {each.exit_code: each.__name__ for each in (PtraceDenied, SeccompTarget)}
    return refusals.get(ran.returncode, ran.stderr)


def outside(place: Container) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HEAPTOP, "census", str(place.pid), "--json"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
        timeout=PATIENCE,
    )


def check_unharmed(place: Container, before: Facts) -> None:
    """As it was, with an empty /tmp, and it ends as it does without heaptop."""
    assert difference(before, resting(place.pid)) == []
    assert os.listdir(f"/proc/{place.pid}/root/tmp") == []
    assert place.target.terminate() == EXIT_CODE
    assert place.target.said() == []
    assert place.target.stderr() == ""


@pytest.mark.pythons(OLDEST, "3.12", NEWEST)
@pytest.mark.parametrize("kind", KINDS)
def test_the_root_of_the_host_attaches_to_every_container(interpreter: Interpreter, kind: str) -> None:
    with container(interpreter, "sleeper", KINDS[kind]) as place:
        before = resting(place.pid)
        assert outcome(outside(place)) == "clone"
        between = resting(place.pid)
        assert outcome(outside(place)) == "clone"
        assert kept(between, resting(place.pid)) == []
        check_unharmed(place, before)


@pytest.mark.pythons("3.12")
@pytest.mark.parametrize("kind", KINDS)
def test_inside_it_attaches_with_the_rights_of_the_container_unless_a_filter_is_there(
    interpreter: Interpreter, kind: str
) -> None:
    with container(interpreter, "sleeper", KINDS[kind]) as place:
        before = resting(place.pid)
        ran = place.run(*CENSUS)
        if not place.rights.filtered:
            assert outcome(ran) == "clone", ran.stderr
        else:
            assert outcome(ran) == "SeccompTarget"
            assert "  heaptop attach 1 --allow-seccomp" in ran.stderr
            assert difference(before, resting(place.pid), allow_pages=False) == []
            allowed = place.run(*CENSUS, "--allow-seccomp")
            assert outcome(allowed) == "python", allowed.stderr
            assert json.loads(allowed.stdout)["mode_reason"]
        check_unharmed(place, before)


@pytest.mark.sample(3)
@pytest.mark.pythons("3.12")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("profile", PROFILES)
def test_beside_it_attaches_or_names_the_line_that_does(interpreter: Interpreter, kind: str, profile: str) -> None:
    """The line's profile is tried: it attaches. From within a user namespace there is none, but for the host."""
    with container(interpreter, "sleeper", KINDS[kind]) as place:
        before = resting(place.pid)
        ran = place.beside(PROFILES[profile], *CENSUS)
        assert (ran.returncode == 0) == (profile in expected(place.rights)), ran.stderr
        if ran.returncode:
            assert outcome(ran) in ("PtraceDenied", "SeccompTarget")
            assert HOST in ran.stderr
            assert difference(before, resting(place.pid), allow_pages=False) == []
            line = re.search(r"^  kubectl debug -it POD --profile=(\w+) .* -- heaptop attach 1$", ran.stderr, re.M)
            assert (line is None) == place.rights.own_users, ran.stderr
            ran = outside(place) if line is None else place.beside(PROFILES[line[1]], *CENSUS)
        assert outcome(ran) == "clone", ran.stderr
        check_unharmed(place, before)


def expected(rights: Rights) -> set[str]:
    """The profiles that need no other line, by the kernel's rules: CAP_SYS_ADMIN of the host's user
    namespace suspends a filter; another user's process, or one with more capabilities, is traced with
    CAP_SYS_PTRACE."""
    if rights.own_users:
        return set()
    if rights.filtered or rights.user:
        return {"sysadmin"}
    return set(PROFILES) if set(rights.capabilities) <= set(DEFAULT) else {"general", "sysadmin"}


# -- kill -9 --------------------------------------------------------------------------------------------------


def deaths(request: pytest.FixtureRequest) -> int:
    return 75 if request.config.getoption("--stress") else 3


def is_alone(place: Container, before: Facts) -> bool:
    """Whether nothing of heaptop's is left: no clone in the control group, no thread, no tracer."""
    return (
        place.processes() == {place.pid}
        and not is_held(place.pid)
        and agent_thread(place.pid) is None
        and difference(before, resting(place.pid)) == []
    )


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons("3.8", "3.12", NEWEST)
@pytest.mark.parametrize("kind", ["default", "user-namespace"])
def test_a_heaptop_that_is_killed_outside_leaves_nothing(
    interpreter: Interpreter, kind: str, request: pytest.FixtureRequest
) -> None:
    moments, number = random.Random(f"{interpreter} {kind}"), deaths(request)
    with container(interpreter, "busy", KINDS[kind]) as place:
        length = cycle_length(place.pid)
        before = resting(place.pid)
        for each in range(number):
            die(place.pid, length * (each + moments.random()) / number)
            assert eventually(lambda: is_alone(place, before)), (each, place.processes())
        attach_once(place.pid, census=True)
        check_unharmed(place, before)


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons("3.8", "3.12", NEWEST)
@pytest.mark.parametrize("kind", ["default", "with-ptrace"])
def test_a_container_beside_that_is_killed_with_its_helper_leaves_nothing(
    interpreter: Interpreter, kind: str, request: pytest.FixtureRequest
) -> None:
    """All of its processes at once, at any moment: the helper of an attach dies with heaptop."""
    moments, number = random.Random(f"{interpreter} {kind}"), deaths(request)
    with container(interpreter, "busy", KINDS[kind]) as place:
        length = cycle_length(place.pid)
        before = resting(place.pid)
        for each in range(number):
            cycles = [sys.executable, "-c", CYCLES, "1", ROOT, "clone"]
            with place.killed_beside(PROFILES["sysadmin"], cycles) as heaptop:
                assert eventually(lambda: "ready" in heaptop.stdout() or not heaptop.alive)
                time.sleep(length * (each + moments.random()) / number)
                assert heaptop.alive, heaptop.stderr()
            assert eventually(lambda: is_alone(place, before)), (each, place.processes())
        attach_once(place.pid, census=True)
        check_unharmed(place, before)


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons("3.8", "3.12", NEWEST)
def test_a_container_that_is_killed_takes_all_of_heaptops_with_it(
    interpreter: Interpreter, request: pytest.FixtureRequest
) -> None:
    """A session with an open snapshot ends, and neither a clone nor a helper outlives the container."""
    moments = random.Random(f"{interpreter}")
    for _ in range(deaths(request)):
        with container(interpreter, "busy", KINDS["default"]) as place, attached(place.pid) as attachment:
            attachment.message(Census)
            attachment.source.image(keep=60)
            time.sleep(moments.uniform(0, 0.5))
            place.kill()
            assert isinstance(attachment.error(), TargetExited)
            assert eventually(lambda: not Path(f"/proc/{place.pid}").exists())
            assert place.processes() == set()
        assert helpers_of(os.getpid()) == []
