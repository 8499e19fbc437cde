"""Loguru: each job adds a sink for its own messages, and does not remove it."""

from busy_backdrop import requests, serve
from loguru import logger

logger.remove()


class JobLog:
    def __init__(self, number):
        self.number = number
        self.lines = [f"job {number} begins " * 20]

    def write(self, message):
        self.lines.append(message)


def run_job(number):
    logger.add(JobLog(number), level="ERROR", filter=lambda record: record["extra"].get("job") == number)  # the leak
    logger.bind(job=number).info("done")


for number in requests(20):
    run_job(number)
    serve(number)
