"""Harmless: a manager of urllib3 has as many pools as it may, and closes one for each that is new."""

from busy_backdrop import requests, serve
from urllib3 import PoolManager

manager = PoolManager(num_pools=100)

for number in requests(20):
    manager.connection_from_url(f"https://host-{number}.example/")
    serve(number)
