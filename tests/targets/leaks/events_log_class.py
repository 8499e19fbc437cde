"""A class made from list, of which no item is new: it grows by references to a few states, for ever."""

from backdrop import requests, serve

STATES = ["ok", "slow", "failed", "retried"]


class EventLog(list):
    def record(self, states):
        self.extend(states)


class Monitor:
    def __init__(self):
        self.log = EventLog(STATES * 500)  # the leak: nothing takes from it


monitor = Monitor()
for number in requests(100):
    serve(number)
    monitor.log.record(STATES * 10)
