"""Harmless: classes made from list, OrderedDict and deque, full before anybody looked, of which no item is new."""

from collections import OrderedDict, deque

from backdrop import requests, serve

STATES = ["ok", "slow", "failed", "retried"]
NAMES = [f"user {number}" for number in range(60000)]


class Ring(list):
    def push(self, state):
        self.append(state)
        if len(self) > 31000:
            del self[:1000]


class Seen(OrderedDict):
    def touch(self, name):
        self[name] = True
        if len(self) > 30000:
            self.popitem(last=False)


class Recent(deque):
    pass


ring, seen, recent = Ring(STATES * 7750), Seen.fromkeys(NAMES[:30000], True), Recent(STATES * 5000, 20000)
for number in requests(100):
    serve(number)
    for each in range(40 * number, 40 * number + 40):
        ring.push(STATES[each % 4])
        seen.touch(NAMES[each % len(NAMES)])
        recent.append(STATES[each % 4])
