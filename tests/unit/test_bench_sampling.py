"""bench/sampling.py: ratios are of pairs, promises are broken by their figures, and the work is the same each time.

Nothing is measured here.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def sampling(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module("sampling")


@pytest.fixture
def workloads(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module("workloads")


def run(cpu: float, resident: int = 0, **more: object) -> dict[str, Any]:
    return {"cpu": cpu, "seconds": 2 * cpu, "resident": resident, **more}


def cost(sampling: ModuleType, ratio: float, resident: int = 0) -> Any:
    return sampling.cost([(run(1.0), run(ratio, resident, live=1000))])


def told(
    sampling: ModuleType,
    ours: float = 1.01,
    peer: float = 1.1,
    resident: int = 0,
    more: float = 2.5,
    theirs: float = 9.0,
    hunt: float = 1.02,
    hunted: float = 2.7,
) -> Any:
    found = {each.name: cost(sampling, peer) for each in sampling.PEERS}
    found["heaptop-adaptive"] = cost(sampling, ours, resident)
    found["heaptop-hunt"] = cost(sampling, hunt)
    counted = dict.fromkeys(sampling.COUNTED_PEERS, theirs)
    return found, sampling.Counts(1000, 0.0, {**counted, "heaptop-adaptive": more, "heaptop-hunt": hunted})


def verdicts(sampling: ModuleType, found: Any, counted: Any) -> list[str]:
    return [promise.verdict.name for promise in sampling.promises("json", found, counted)]


@pytest.mark.parametrize("name", ["json", "trees", "logs", "asyncio"])
def test_the_same_number_of_units_is_the_same_work(workloads: ModuleType, name: str) -> None:
    make, _ = workloads.WORKLOADS[name]
    work, other = make(), make()
    first = work(3)
    assert work(3) == first == other(3)
    assert work(4) > first


def test_the_tables_of_the_log_begin_anew(workloads: ModuleType) -> None:
    make, _ = workloads.WORKLOADS["logs"]
    once = make()(20)
    networks = 256 * 4  # told once, at the end; the paths are told at the end of each table
    assert make()(40) == 2 * once - networks


def test_a_ratio_is_of_the_two_runs_of_one_round(sampling: ModuleType) -> None:
    # a machine that was half as fast in the last round changes no ratio
    rounds = [(run(1.0), run(1.1, 5)), (run(1.0), run(1.3, 9)), (run(2.0), run(2.4, 6))]
    made = sampling.cost(rounds)
    assert (made.cpu.median, made.cpu.least, made.cpu.most) == pytest.approx((1.2, 1.1, 1.3))
    assert made.memory == 6
    assert made.last is rounds[-1][1]


def test_pairs_are_run_in_turns_and_with_one_seed(sampling: ModuleType) -> None:
    asked: list[tuple[str, int]] = []

    class Bench:
        def run(self, way: Any, workload: str, size: float, seed: int) -> dict[str, Any]:
            asked.append((way.name, seed))
            return {"answer": 7, "name": way.name}

    bench = Bench()
    for turn in range(2):
        bare, own = sampling.pair(bench, sampling.HEAPTOP[2], "json", 1.0, turn)
        assert (bare["name"], own["name"]) == ("bare", "heaptop-512K")
    assert asked == [("bare", 1), ("heaptop-512K", 1), ("heaptop-512K", 2), ("bare", 2)]


def test_a_profiler_that_changes_the_work_is_left_out(sampling: ModuleType) -> None:
    class Bench:
        def run(self, way: Any, *_: object, seed: int) -> dict[str, Any]:
            return {**run(1.0), "answer": way.name}

    found = sampling.costs(Bench(), "json", sampling.HEAPTOP[2:3], 1.0, 3)
    assert found == {"heaptop-512K": "it changed what the workload does"}


def test_measurements_within_their_limits_keep_every_promise(sampling: ModuleType) -> None:
    assert verdicts(sampling, *told(sampling)) == ["KEPT"] * 7


@pytest.mark.parametrize(
    ("figures", "broken"),
    [
        ({"more": 3.1}, 0),
        ({"ours": 1.06}, 1),
        ({"hunted": 3.1}, 2),
        ({"hunt": 1.06}, 3),
        ({"resident": 8_150_000}, 4),  # a thousand living samples may have 100 kB beside the tables' 8 MB
        ({"peer": 1.005}, 5),
        ({"theirs": 2.4}, 6),
    ],
)
def test_each_figure_breaks_its_own_promise(sampling: ModuleType, figures: Any, broken: int) -> None:
    expected = ["KEPT"] * 7
    expected[broken] = "BROKEN"
    assert verdicts(sampling, *told(sampling, **figures)) == expected


def test_without_one_of_the_peers_nobody_is_below_all(sampling: ModuleType) -> None:
    found, counted = told(sampling)
    found["memray-python"] = "no module of that name"
    assert verdicts(sampling, found, counted) == ["KEPT"] * 5 + ["NOT_MEASURED", "KEPT"]


def test_what_was_not_run_is_not_measured(sampling: ModuleType) -> None:
    assert verdicts(sampling, {}, "no valgrind") == ["NOT_MEASURED"] * 7
    assert sampling.typical({"json": told(sampling)[0]}).verdict.name == "NOT_MEASURED"


def test_typical_is_the_median_of_all_workloads(sampling: ModuleType) -> None:
    ratios = [1.0, 1.01, 1.02, 1.025, 1.03, 1.2, 1.3]
    found = {name: told(sampling, ours)[0] for name, ours in zip(sampling.WORKLOADS, ratios, strict=True)}
    assert sampling.typical(found).figure == pytest.approx(1.025)
