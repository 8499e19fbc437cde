"""The sampler's clock over switching off and on, and over samples that became void: lifetimes and collections."""

from __future__ import annotations

from heaptop.analysis.lifetimes.live_groups import alive, live_blocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.messages import BIRTH, DEATH, GcEvent, GcEvents, Message, Sampler, Samples, Tick


def sampler(time_ns: int, on: bool, epoch: int) -> Sampler:
    return Sampler(0, time_ns, on, int(on), 128, (1,) if on else (), epoch)


def samples(
    time_ns: int, clock: int, births: tuple[tuple[int, int, int], ...] = (), deaths: tuple[tuple[int, int], ...] = ()
) -> Samples:
    """Births are (id, clock, size), each sampled for sure; deaths are (id, clock)."""
    born = b"".join(BIRTH.pack(number, 0, birth, size, 0, 0, 0, 0) for number, birth, size in births)
    died = b"".join(DEATH.pack(number, 0, death) for number, death in deaths)
    return Samples(time_ns, clock, born, died)


def tick(time_ns: int) -> Tick:
    return Tick(time_ns, time_ns, 1, 1, True, (0, 0, 0), 0, 1, 0)


def collection(time_ns: int, clock: int | None) -> GcEvents:
    return GcEvents((GcEvent(time_ns, 0, 0, 0, 1, None, clock),), 0)


def fed(*messages: Message) -> Sampling:
    out = Sampling()
    for message in messages:
        out.feed(message)
    return out


def bands(sampling: Sampling) -> dict[str, tuple[int, ...]]:
    chart = sampling.lifetime_bands.chart(None, alive(sampling))
    assert chart is not None
    return {band.label: band.bytes for band in chart.bands if any(band.bytes)}


def test_where_samples_become_void_the_clock_goes_on() -> None:
    sampling = fed(
        sampler(0, True, 1),
        samples(1, 1000, ((0, 10, 5),)),
        tick(2),
        sampler(3, True, 2),
        samples(4, 2000, ((0, 1500, 7),)),
        tick(5),
    )
    assert sampling.timeline.latest == 2000
    assert bands(sampling) == {"no longer tracked": (5, 0), "alive, < 1 MB": (0, 7)}


def test_when_sampling_is_switched_on_again_the_clock_begins_anew_and_ours_goes_on() -> None:
    sampling = fed(
        sampler(0, True, 1),
        samples(1, 5_000_000, ((0, 10, 5),)),
        tick(2),
        sampler(3, False, 1),
        sampler(4, True, 2),
        samples(5, 6_000_000, ((0, 100, 7), (1, 200, 9)), ((1, 5_000_000),)),
        tick(6),
    )
    assert sampling.timeline.latest == 11_000_000
    assert bands(sampling) == {"no longer tracked": (5, 0), "alive, 1–10 MB": (0, 7)}
    survival = sampling.lives.survival(None, live_blocks(sampling))
    assert survival is not None
    assert (survival.deaths, survival.censored) == (1, 2)
    (died,) = (one for one in sampling.lives.classes((10**6, 10**7)) if one.died.samples)
    assert (died.low, died.died.bytes) == (10**6, 9)


def test_nothing_is_said_of_what_was_allocated_while_the_sampler_was_off() -> None:
    sampling = fed(
        sampler(0, True, 1),
        samples(1, 100),
        collection(2, 90),
        sampler(3, False, 1),
        sampler(4, True, 2),
        samples(5, 200),
        collection(6, 150),
        collection(7, 190),
    )
    assert [row.allocated for row in sampling.gc.rows] == [None, None, 40]
