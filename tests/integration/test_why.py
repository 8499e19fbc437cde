"""``heaptop why`` and ``heaptop census --by retainer|kind`` over real attaches, against what was planted."""

from __future__ import annotations

import ast
import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest

from heaptop.errors import AmbiguousType, NotInHeap
from heaptop.injector.inspect.process import children
from heaptop.injector.inspect.threads import thread_ids
from tests import interpreters
from tests.interpreters import NEWEST, OLDEST, Interpreter
from tests.support import native
from tests.support.leaking import ENVIRONMENT, HEAPTOP, document, heaptop
from tests.support.processes import PATIENCE, Target, eventually, running, with_proc

SESSION: Final = "__main__.Session"


@pytest.fixture(scope="module", params=["3.8", "3.13"])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    native.core()
    try:
        interpreter = interpreters.get(request.param)
    except interpreters.MissingInterpreter as error:
        pytest.skip(str(error))
    with running(interpreter, "why_planted") as started:
        yield started


def is_as_it_was(target: Target) -> bool:
    """Its own two threads, and no clone."""
    return len(thread_ids(target.pid)) == 2 and not children(target.pid)


def test_what_keeps_a_type(target: Target) -> None:
    found = document("why", target.pid, SESSION)
    assert (found["type"], found["count"], found["complete"]) == (SESSION, 160, True)
    by_kind: dict[str, int] = {}
    for path in found["paths"]:
        by_kind[path["kind"]] = by_kind.get(path["kind"], 0) + path["count"]
    assert by_kind == {"module": 120, "frame": 30, "none": 10}
    counts = {tuple(path["path"]): path["count"] for path in found["paths"]}
    assert counts["module __main__", ".registry", ".sessions", "dict[*]", SESSION] == 100
    assert counts["frame worker() local rows", "list[*]", SESSION] == 30
    assert counts["module __main__", ".cached", "lru_cache of __main__.cached", SESSION] == 20
    assert found["garbage"]["gc_enabled"] is False
    assert found["garbage"]["cycles"] >= 5
    assert sum(path["bytes"] for path in found["paths"]) == found["bytes"]
    assert is_as_it_was(target)


@pytest.mark.sample(2)
def test_why_of_one_object_shows_values_only_when_asked(target: Target) -> None:
    address = target.stdout().split()[-1]
    done = heaptop("why", target.pid, address, "--values")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{SESSION} at {address}")
    assert ".sessions ['key 7']\n" in done.stdout
    found = document("why", target.pid, address)
    assert found["dominator"]["path"] == ["module __main__", ".registry", ".sessions", "dict"]
    assert {link["label"] for link in found["referents"]} >= {".number", ".user"}
    assert not any(data in json.dumps(found) for data in ("hunter2", "key 7"))
    (name,) = [link["address"] for link in found["referents"] if link["label"] == ".user"]
    assert "hunter2" not in json.dumps(document("why", target.pid, name))
    assert document("why", target.pid, name, "--values")["preview"] == "'hunter27'"


@pytest.mark.sample(2)
def test_a_census_by_retainer_or_kind_counts_each_object_once(target: Target) -> None:
    found = document("census", target.pid, "--by", "retainer", "--where", f"type:={SESSION}")
    rows = {row["name"]: row["count"] for row in found["rows"]}
    assert found["total"]["count"] == sum(rows.values()) == 160
    assert rows["module __main__ .registry"] == 100
    assert rows["frame worker() local rows"] == 30
    kinds = document("census", target.pid, "--by", "kind", "--where", f"type:={SESSION}")
    assert {row["name"]: row["count"] for row in kinds["rows"]} == {"module": 120, "frame": 30, "none": 10}
    everything = document("census", target.pid, "--by", "kind")
    assert everything["total"]["count"] == everything["snapshot"]["objects"]
    assert everything["total"]["bytes"] == everything["snapshot"]["bytes"]
    assert is_as_it_was(target)


LARGE: Final = 10_000_000
SORTS: Final = ("dict", "OrderedDict", "attributes", "alone")
"""Without --whole: each that has a layout of its own, and the one that C does not hold."""


@pytest.mark.pythons("3.12", stress=(OLDEST, "3.12", "3.13", NEWEST))  # test_native_edges.py asks all
def test_what_c_holds_is_not_retained_by_a_dict_of_any_sort(interpreter: Interpreter, is_whole: bool) -> None:
    """A dict, its subclasses, and the attributes of an instance; where C does not hold it, the dict does retain it."""
    native.core()
    with running(interpreter, "why_shared_with_c", wrapper=with_proc(interpreter)) as target:
        planted: dict[str, tuple[int, int]] = ast.literal_eval(target.detail)
        for name in planted if is_whole else SORTS:
            holder, large = planted[name]
            found = document("why", target.pid, hex(large))
            kept = document("why", target.pid, hex(holder))
            alone = name == "alone"
            dominator = None if found["dominator"] is None else int(found["dominator"]["address"], 16)
            assert (name, found["held_by_c"]) == (name, int(not alone))
            assert (name, dominator) == (name, holder if alone else None)
            assert (name, kept["retained"] > LARGE) == (name, alone)
            addresses = [int(link["address"], 16) for link in found["referrers"]]
            assert (name, addresses.count(holder), len(addresses)) == (name, 1, len({*addresses}))
            if name in ("dict", "alone"):
                assert ("held by C" in heaptop("why", target.pid, hex(large)).stdout) is not alone


@pytest.mark.sample(2)
def test_what_is_not_there_and_what_is_there_twice(target: Target) -> None:
    missing = heaptop("why", target.pid, "Sesion")
    assert missing.returncode == NotInHeap.exit_code
    assert "Similar names:\n\n    __main__.Session\n    __main__.Twin.Session\n" in missing.stderr
    twice = heaptop("why", target.pid, "Session")
    assert twice.returncode == AmbiguousType.exit_code
    assert "    __main__.Session\n    __main__.Twin.Session\n" in twice.stderr
    nothing = heaptop("why", target.pid, "0x1000")
    assert nothing.returncode == NotInHeap.exit_code
    assert is_as_it_was(target)


@pytest.mark.sample(2)
@pytest.mark.parametrize("clones", [1, 2])
def test_ctrl_c_leaves_nothing_behind(clones: int, target: Target) -> None:
    """While the first census is made, and while the snapshot is."""
    command = [*HEAPTOP, "why", str(target.pid), SESSION]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as asking:
        seen: set[int] = set()
        while len(seen) < clones and asking.poll() is None:  # without a rest: they last for some milliseconds
            seen.update(children(target.pid))
        asking.send_signal(signal.SIGINT)
        output, errors = asking.communicate(timeout=PATIENCE)
    assert asking.returncode in (130, 0, -signal.SIGINT), errors  # the last: it was on its way out
    assert asking.returncode == 130 or output
    assert eventually(lambda: is_as_it_was(target))
    assert target.alive
