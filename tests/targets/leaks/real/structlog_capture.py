"""structlog: the processor that is meant for tests has got into the configuration, and keeps each event."""

import structlog
from busy_backdrop import requests, serve

structlog.configure(processors=[structlog.processors.add_log_level, structlog.testing.LogCapture()])
log = structlog.get_logger()


def handle(number):
    log.info("handled", number=number, customer=f"customer {number}", path=f"/orders/{number}")  # the leak
    serve(number)


for number in requests(60):
    handle(number)
