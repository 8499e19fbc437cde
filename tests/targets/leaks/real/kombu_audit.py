"""Kombu: orders are also published to a queue of the memory transport, which had a consumer once."""

from busy_backdrop import requests, serve
from kombu import Connection, Exchange, Queue

audit = Queue("audit", Exchange("audit", type="direct"), routing_key="audit")
connection = Connection("memory://")
producer = connection.Producer()


def publish_order(number):
    order = {"number": number, "lines": [f"line {i}" for i in range(5)]}
    producer.publish(order, exchange=audit.exchange, routing_key="audit", declare=[audit])  # the leak


for number in requests(40):
    publish_order(number)
    serve(number)
