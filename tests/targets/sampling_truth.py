"""Allocates what is known, samples it, and prints both.

Arguments: the core's library, and `exact` for every byte a sample, or an interval and how many times with other seeds,
or `paced`, how many times, and the agent's file that chooses the interval.
"""

import sys
from collections import Counter

from sampling_agent import Agent

SMALL, MIDDLE, LARGE = 60, 3000, 150000
kept = {}


def plant_small(n):
    blocks = [None] * n
    for i in range(n):
        blocks[i] = bytes(SMALL)
    return blocks


def plant_middle(n):
    blocks = [None] * n
    for i in range(n):
        blocks[i] = bytes(MIDDLE)
    return blocks


def plant_large(n):
    blocks = [None] * n
    for i in range(n):
        blocks[i] = bytes(LARGE)
    return blocks


def plant_generated(n):
    def generate():
        for _ in range(n):
            yield bytes(SMALL)

    return list(generate())


def plant_in_callback(n):
    return list(map(lambda _: bytes(SMALL), range(n)))  # noqa: C417 (a call from C is the point)


def churn(n):
    for _ in range(n):
        bytes(MIDDLE)


def grow(n):
    items = []
    for _ in range(n):
        items.append(None)
    return items


def plant():
    kept["small"] = plant_small(2000)
    kept["middle"] = plant_middle(200)
    kept["large"] = plant_large(3)
    churn(300)


def truth(blocks):
    return sum(map(sys.getsizeof, blocks))


def exact():
    agent = Agent()
    book = agent.start(1)
    plant()
    kept["generated"] = plant_generated(500)
    kept["called back"] = plant_in_callback(500)
    kept["grown"] = grow(5000)
    agent(book.read)
    sizes = {size: truth([bytes(size)]) for size in (SMALL, MIDDLE, LARGE)}
    found = {}
    for name, function, size in (
        ("small", "plant_small", SMALL),
        ("middle", "plant_middle", MIDDLE),
        ("large", "plant_large", LARGE),
        ("generated", "generate", SMALL),
        ("called back", "<lambda>", SMALL),
    ):
        births = [birth for birth in book.of(function) if birth.size == sizes[size]]
        lines = {book.site(birth)[1] for birth in births}
        callers = {book.stack(birth)[1][0] for birth in births}
        found[name] = (sum(birth.size for birth in births), truth(kept[name]), sorted(lines), sorted(callers))
    churned = [pair for pair in book.dead if book.site(pair[0])[0] == "churn" and pair[0].size == sizes[MIDDLE]]
    grown = [birth.size for birth in book.of("grow")]
    every = sorted([*book.living.values(), *(birth for birth, _ in book.dead)], key=lambda birth: birth.clock)
    steps = all(every[i].clock - every[i - 1].clock == every[i].size for i in range(1, len(every)))
    deaths = len(book.dead)
    del kept["middle"][:100]
    agent(book.read)
    print(
        {
            "sites": found,
            "churned": len(churned),
            "grown": max(grown) == sys.getsizeof(kept["grown"]) - sys.getsizeof([]),
            "clock counts bytes": steps,
            "freed": sum(book.site(birth)[0] == "plant_middle" for birth, _ in book.dead[deaths:]),
            "after": sum(birth.size for birth in book.of("plant_middle") if birth.size == sizes[MIDDLE]),
            "left": truth(kept["middle"]),
            "stop": agent.stop(),
            "dropped": book.stats["dropped"],
        }
    )


def estimates(interval, times):
    agent = Agent()
    found = {"small": [], "middle": [], "large": [], "churned": []}
    for seed in range(1, times + 1):
        book = agent.start(interval, 8, seed)
        plant()
        agent(book.read)
        agent.stop()
        for name, size in (("small", SMALL), ("middle", MIDDLE), ("large", LARGE)):
            wanted = sys.getsizeof(bytes(size))
            births = [birth for birth in book.of("plant_" + name) if birth.size == wanted]
            found[name].append(sum(birth.bytes() for birth in births))
        dead = [birth for birth, _ in book.dead if birth.size == sys.getsizeof(bytes(MIDDLE))]
        found["churned"].append(sum(birth.bytes() for birth in dead if book.site(birth)[0] == "churn"))
    true = {name: truth(kept[name]) for name in ("small", "middle", "large")}
    true["churned"] = 300 * sys.getsizeof(bytes(MIDDLE))
    blocks = {"small": (2000, SMALL), "middle": (200, MIDDLE), "large": (3, LARGE), "churned": (300, MIDDLE)}
    sizes = {name: (count, sys.getsizeof(bytes(size))) for name, (count, size) in blocks.items()}
    print({"estimates": found, "true": true, "blocks": sizes})


def paced(times, pacing):
    """Quiet seconds, a burst, and quiet ones again; the interval is chosen after each, as if it had been a second."""
    chosen = {}
    with open(pacing) as file:
        exec(file.read(), chosen)
    agent, target, quiet, runs = Agent(), 50, 1500, []
    size, middle = (sys.getsizeof(bytes(each)) for each in (SMALL, MIDDLE))
    for seed in range(1, times + 1):
        book = agent.start(512, 8, seed)
        agent(agent.core.sample_set, 512, 8, chosen["QUOTA"] * target)
        allocated, clock, small = Counter(), 0, []
        for second in range(7):
            small += plant_small(quiet)
            if second == 3:
                kept["middle"] = plant_middle(1000)
                churn(15000)
            stats = agent(book.read)
            allocated[stats["interval"]] += stats["clock"] - clock
            following = chosen["next_interval"](stats["interval"], stats["clock"] - clock, target, stats["live"])
            clock = stats["clock"]
            agent(agent.core.sample_set, following, 8, chosen["QUOTA"] * target)
        agent.stop()
        dead = [birth for birth, _ in book.dead]
        births = {
            "small": [birth for birth in book.of("plant_small") if birth.size == size],
            "middle": [birth for birth in book.of("plant_middle") if birth.size == middle],
            "churned": [birth for birth in book.of("churn", dead) if birth.size == middle],
        }
        alike = {name: Counter((birth.size, birth.interval) for birth in each) for name, each in births.items()}
        runs.append(
            {
                "sampled": {name: [(*key, number) for key, number in each.items()] for name, each in alike.items()},
                "allocated": dict(allocated),
                "born": dict(Counter(birth.interval for birth in [*book.living.values(), *dead])),
                "died": dict(Counter(birth.interval for birth in dead)),
                "samples": book.births,
            }
        )
        kept.clear()
        del small
    print({"runs": runs, "true": {"small": 7 * quiet * size, "middle": 1000 * middle, "churned": 15000 * middle}})


if __name__ == "__main__":
    if sys.argv[2] == "exact":
        exact()
    elif sys.argv[2] == "paced":
        paced(int(sys.argv[3]), sys.argv[4])
    else:
        estimates(int(sys.argv[2]), int(sys.argv[3]))
