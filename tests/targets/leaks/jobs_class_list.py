"""A class-level list: it reads as if each job had its own history, but all of them share one."""

from backdrop import requests, serve


class Job:
    history = []  # noqa: RUF012  the leak

    def __init__(self, number, payload):
        self.number = number
        self.payload = payload

    def finish(self):
        self.history.append(self)


def submit(number):
    return Job(number, ["x" * 40 + str(number * 20 + i) for i in range(20)])


for number in requests(100):
    job = submit(number)
    serve(job.number)
    job.finish()
