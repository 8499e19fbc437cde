"""Changes all that it has, from SIGUSR1 to SIGUSR1.

It makes and drops objects and types, changes those that stay, takes and gives back memory, starts threads that end and
children that do so too, and waits for any child.

Says ODD for a child that it has not made, or that ends badly; and ``quiet`` with how often it went round when it rests.
"""

import gc
import os
import random
import signal
import sys
import threading
import time

from steady import ready, say


class Planted:
    def __init__(self, number):
        self.text = " ".join(("planted", str(number)))
        self.before = None


class Item:
    pass


def make_items():
    """Of a type of their own, in cycles, in containers of each sort."""
    kind = type("Momentary", (Item,), {"shared": []})
    made = [kind() for _ in range(200)]
    for place, one in enumerate(made):
        other = made[-place]
        one.other, other.back = other, {one}
        one.numbers = (1.5, 10**20, {"a": one}, bytearray(100))
    return made


def change_planted():
    """All of them get another text, other references and another place."""
    all_planted = list(registry.items())
    registry.clear()
    for key, planted in all_planted:
        planted.text = str(random.random())
        planted.before = registry.get(key)
        registry[key + 1] = planted if key % 3 else Planted(key)


def change_memory():
    blocks.append(bytearray(os.urandom(1 << 10)) * 700)
    if len(blocks) > 50:
        del blocks[: random.randrange(20)]
    for block in blocks:
        block[:: 1 << 12] = block[:: 1 << 12]


def start_thread():
    thread = threading.Thread(target=change_memory)
    thread.start()
    return thread


def fork():
    child = os.fork()
    if child == 0:
        registry.clear()
        gc.collect()
        os._exit(5)
    found, status = os.waitpid(-1, 0)
    if (found, status) != (child, 5 << 8):
        say(f"ODD {found} {status}")


def go_round():
    kept.append(make_items())
    del kept[:-50]
    change_planted()
    threads = [start_thread() for _ in range(3)]
    fork()
    for thread in threads:
        thread.join()
    sys.modules[f"momentary{random.randrange(10)}"] = type(sys)("momentary")


asked = []
registry = {number: Planted(number) for number in range(1000)}
kept, blocks = [], [bytearray(b"x") * (1 << 20) for _ in range(40)]
signal.signal(signal.SIGUSR1, lambda _number, _frame: asked.append(True))
signal.signal(signal.SIGCHLD, lambda _number, _frame: deaths.append(True))
deaths = []
rounds = 0
start_thread().join()  # whose end loads a library of C's
ready()
while True:
    time.sleep(0.02)
    if not asked:
        continue
    asked.pop()
    while not asked:
        go_round()
        rounds += 1
    asked.pop()
    if len(deaths) > rounds:
        say(f"ODD {len(deaths)} deaths of {rounds} children")
    say(f"quiet {rounds}")
