"""Plants what leaks collect in, lets one of it grow, and does with the open snapshot what it is told.

Argument: the core's library. As image_exercise.py, with ``grow`` besides: the name of what grows.
"""

import asyncio
import collections
import functools
import gc
import threading

import image_exercise


class Session:
    def __init__(self, number):
        self.user = f"user {number}"
        self.basket = [bytearray(100) for _ in range(3)]


class Node:
    __slots__ = ("below", "payload")

    def __init__(self, below, payload):
        self.below = below
        self.payload = payload


class App:
    def __init__(self):
        self.pages = {}
        self.users = {}
        self.jobs = []
        self.head = None
        self.stack = None
        self.names = []


class Member:
    def __init__(self):
        self.visits = []


def handler_of(text):
    def handle():
        return text

    return handle


@functools.lru_cache(maxsize=10**6)
def page(number):
    return f"page {number}" * 20


class Worker(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.turn = threading.Semaphore(0)
        self.done = threading.Semaphore(0)

    def run(self):
        LOCAL.kept = []
        self.done.release()
        while True:
            self.turn.acquire()
            LOCAL.kept.extend(Session(i) for i in range(50))
            self.done.release()


Member.registry = []
LOCAL = threading.local()
HANDLERS = []
QUEUE = collections.deque()
APP = App()
MEMBERS = {i: Member() for i in range(2000)}
LOOP = asyncio.new_event_loop()
WAITED = []
BY_NAME = {}
WORKERS = [Worker() for _ in range(4)]


async def wait(future):
    await future


def attend(count):
    for _ in range(count):
        WAITED.append(LOOP.create_future())
        LOOP.create_task(wait(WAITED[-1]))  # noqa: RUF006 - that nobody keeps it but what it waits for is the leak
    LOOP.run_until_complete(asyncio.sleep(0))


def push(count):
    for i in range(count):
        APP.stack = Node(APP.stack, bytearray(50 + i % 7))


def append(count):
    last = APP.head
    while last.below is not None:
        last = last.below
    for _ in range(count):
        last.below = last = Node(None, bytearray(50))


def link(count):
    last = None
    for _ in range(count):
        last = {"value": bytearray(10), "next": last}
    APP.names.append(last)


def nest(count):
    APP.jobs.append({"a": {"b": {"c": {"d": {i: bytearray(50) for i in range(count)}}}}})


def work(count):
    for worker in WORKERS[:count]:
        worker.turn.release()
        worker.done.acquire()


def cycle(count):
    gc.disable()
    for _ in range(count):
        one, other = [], []
        one.append(other)
        other.append(one)


def hold_by_frame(count):
    """Locals of a call that does not end."""
    ready = threading.Event()

    def held_by_frame():
        one, two, three = (bytearray(count) for _ in range(3))
        ready.set()
        threading.Event().wait()
        return one, two, three

    threading.Thread(target=held_by_frame, daemon=True).start()
    ready.wait()


GROW = {
    "dict": lambda count: BY_NAME.update((str(i), Session(i)) for i in range(count)),
    "attribute": lambda count: APP.jobs.extend(Session(i) for i in range(count)),
    "class": lambda count: Member.registry.extend(Session(i) for i in range(count)),
    "closures": lambda count: HANDLERS.extend(handler_of(str(i) * 10) for i in range(count)),
    "deque": lambda count: QUEUE.extend([i, str(i)] for i in range(count)),
    "two": lambda count: [
        (APP.pages.update({str(i): Session(i)}), APP.users.update({i: bytes(400)})) for i in range(count)
    ],
    "cache": lambda count: [page(i) for i in range(count)],
    "members": lambda count: [MEMBERS[i].visits.append(str(i) * 10) for i in range(count)],
    "tasks": attend,
    "stack": push,
    "tail": append,
    "linked": link,
    "nested": nest,
    "threads": work,
    "cycles": cycle,
    "frame": hold_by_frame,
}


class Exercise(image_exercise.Exercise):
    def grow(self, what):
        name, count = what
        GROW[name](count)


def main():
    APP.head = Node(None, None)
    push(50)
    append(50)
    asyncio.set_event_loop(LOOP)
    attend(1)
    for worker in WORKERS:
        worker.start()
        worker.done.acquire()
    image_exercise.serve(Exercise())


if __name__ == "__main__":
    main()
