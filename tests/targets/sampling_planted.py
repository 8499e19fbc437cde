"""Plants sites of 1, 10 and 100 MB again and again, samples them with other seeds, and prints the sizes of the sampled
blocks of each site and run, and what was planted.

Arguments: the core's library, and how many runs.
"""

import sys

from sampling_agent import Agent

INTERVAL = 65536
SIZES = (40, 96, 350, 1200)
PLANTED = {"one": 1_000_000, "ten": 10_000_000, "hundred": 100_000_000}


def blocks_of(total):
    """Payloads of the blocks, in one large piece of numbers: what surrounds them is not of the site."""
    heads = sys.getsizeof(b"")
    rounds = total // sum(size + heads for size in SIZES)
    return rounds, rounds * sum(size + heads for size in SIZES)


def plant_one(blocks, rounds):
    for i in range(rounds):
        blocks[i] = bytes(SIZES[0]), bytes(SIZES[1]), bytes(SIZES[2]), bytes(SIZES[3])


def plant_ten(blocks, rounds):
    for i in range(rounds):
        blocks[i] = bytes(SIZES[0]), bytes(SIZES[1]), bytes(SIZES[2]), bytes(SIZES[3])


def plant_hundred(blocks, rounds):
    for i in range(rounds):
        blocks[i] = bytes(SIZES[0]), bytes(SIZES[1]), bytes(SIZES[2]), bytes(SIZES[3])


PLANTS = {"one": plant_one, "ten": plant_ten, "hundred": plant_hundred}


def main(runs):
    agent = Agent()
    wanted = {size + sys.getsizeof(b"") for size in SIZES}
    true = {name: blocks_of(total)[1] for name, total in PLANTED.items()}
    found = {name: [] for name in PLANTED}
    for seed in range(1, runs + 1):
        kept = {name: [None] * blocks_of(total)[0] for name, total in PLANTED.items()}
        book = agent.start(INTERVAL, 8, seed)
        for name, plant in PLANTS.items():
            plant(kept[name], len(kept[name]))
        agent(book.read)
        agent.stop()
        for name in PLANTED:
            found[name].append([birth.size for birth in book.of("plant_" + name) if birth.size in wanted])
    print({"interval": INTERVAL, "true": true, "sampled": found})


if __name__ == "__main__":
    main(int(sys.argv[2]))
