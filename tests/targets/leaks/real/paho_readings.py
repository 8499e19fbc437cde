"""paho-mqtt: readings are published while the broker cannot be reached, and wait in a queue without a limit."""

from busy_backdrop import requests, serve
from paho.mqtt.client import CallbackAPIVersion, Client

client = Client(CallbackAPIVersion.VERSION2, client_id="shop")


def publish_reading(number):
    client.publish(f"shop/{number % 10}", f"reading {number} " * 20, qos=1)  # the leak


for number in requests(60):
    publish_reading(number)
    serve(number)
