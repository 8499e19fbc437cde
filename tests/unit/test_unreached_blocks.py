"""Blocks that no live object has: more of them at each mark make their site a suspect."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from heaptop.analysis.leaks.unreached import SiteBlocks, unreached_suspects
from heaptop.analysis.samples.estimate import weight
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.findings import LEAK, UNCLEAR, UNREACHED, Findings, Suspect
from tests.fakes.graph import PlantedHeap
from tests.fakes.shop import growing_shop
from tests.unit.hunting_cases import Hunting
from tests.unit.sample_cases import Program, sampler

INTERVAL: Final = 1 << 16
SITE: Final = "srv/app.py:13 convert"


def hunted(numbers: list[int], *, on: bool = True, sites: int = 1) -> Findings:
    """A hunt with so many sampled blocks at each mark and at last, of each site."""
    program, sampling = Program(INTERVAL), Sampling()
    names = ["convert", "parse", "load", "store", "send"][:sites]
    for name in names:
        program.allocate(("main", f"{name}:13"), 700)
    if on:
        sampling.feed(sampler(INTERVAL))
        for message in program.messages():
            sampling.feed(message)
    stacks = [program.stack("main", f"{name}:13") for name in names]

    def plant(image: int) -> PlantedHeap:
        return replace(
            growing_shop(1),  # the same all the time
            unreached=tuple((stack, numbers[image - 1], 700 * numbers[image - 1]) for stack in stacks),
        )

    return Hunting(plant, sampling).checks(len(numbers))


def unreached(found: Findings) -> list[Suspect]:
    return [each for each in found.suspects if each.type == UNREACHED]


def test_a_site_of_which_more_and_more_blocks_stay_is_a_leak() -> None:
    found = hunted([10, 20, 31, 40])
    (suspect,) = unreached(found)
    assert (found.verdict, suspect.verdict, suspect.site) == (LEAK, LEAK, SITE)
    assert suspect.stack == (SITE, "srv/app.py main")
    each = INTERVAL / 700
    assert suspect.held == pytest.approx(30 * each, rel=0.02)
    assert suspect.bytes == pytest.approx(30 * INTERVAL, rel=0.02)
    assert suspect.rate == pytest.approx(9 * each / 10, rel=0.02)
    assert "they belong to no live object that heaptop can examine" in suspect.sentence
    assert (suspect.point, suspect.example, suspect.path) == (0, 0, ())


@pytest.mark.parametrize("numbers", [[40, 40, 40, 40], [10, 30, 5, 20], [40, 30, 20, 10], [0, 30, 30, 30]])
def test_blocks_that_stay_as_many_are_no_leak(numbers: list[int]) -> None:
    assert LEAK not in {each.verdict for each in unreached(hunted(numbers))}


def test_a_few_samples_more_say_nothing() -> None:
    assert unreached(hunted([1, 2, 3, 4])) == []
    assert unreached(hunted([20, 22, 25, 27])) == [], "the error of the estimate is larger"


def test_little_growth_is_unclear_however_steady() -> None:
    (suspect,) = unreached(hunted([4, 8, 12, 16]))
    assert suspect.verdict == UNCLEAR
    assert suspect.evidence[0].startswith("too little to tell: 12 samples more")


def test_a_site_that_grows_no_more_is_refuted() -> None:
    found = hunted([10, 30, 50, 70, 20])
    assert unreached(found) == []
    assert any("memory block was called a leak" in note and "refuted" in note for note in found.notes)


def test_blocks_from_a_site_whose_objects_are_no_leak_may_belong_to_these() -> None:
    """Of a cache of objects of C that turns over, what these have in C is sampled from the attach on alone."""
    courses = {SITE: [SiteBlocks() for _ in range(4)]}
    for place, each in enumerate(courses[SITE]):
        each.sums.add_alike(weight(700, INTERVAL), 30 * place)
        each.stacks[0] = 30 * place
    seconds = (10.0,) * 3
    (alone,) = unreached_suspects(courses, seconds, Sampling(), ())
    (beside,) = unreached_suspects(courses, seconds, Sampling(), (), {SITE: "_regex.Pattern"})
    assert (alone.verdict, beside.verdict) == (LEAK, UNCLEAR)
    assert beside.evidence[0].startswith("they may belong to the _regex.Pattern that the same site allocates")
    assert unreached_suspects(courses, seconds, Sampling(), [SITE]) == []


def test_of_several_sites_each_is_a_suspect_of_its_own() -> None:
    found = unreached(hunted([10, 20, 30, 40], sites=3))
    assert {each.site for each in found} == {f"srv/app.py:13 {name}" for name in ("convert", "parse", "load")}
    assert {each.verdict for each in found} == {LEAK}


def test_without_sampling_nothing_is_said_of_them() -> None:
    assert unreached(hunted([10, 20, 30, 40], on=False)) == []
