"""A logger for each request: the logging module keeps every logger that it has ever made."""

import logging

from backdrop import requests, serve

logging.basicConfig(level=logging.ERROR)
logging.getLogger("shop.request")


class RequestFilter(logging.Filter):
    def __init__(self, number, headers):
        super().__init__()
        self.number = number
        self.headers = headers


def request_logger(number):
    logger = logging.getLogger(f"shop.request.{number}")  # the leak
    logger.addFilter(RequestFilter(number, {f"header {i}": f"value {number + i}" for i in range(8)}))
    return logger


for number in requests(100):
    logger = request_logger(number)
    logger.info("begin")
    serve(number)
    logger.info("end")
