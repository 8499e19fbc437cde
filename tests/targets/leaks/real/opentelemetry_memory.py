"""OpenTelemetry: spans go to the exporter that is meant for tests, which keeps them all."""

from busy_backdrop import requests, serve
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
tracer = provider.get_tracer("shop")


def handle(number):
    with tracer.start_as_current_span("handle") as span:  # the leak
        span.set_attribute("number", number)
        span.add_event("checked", {"customer": f"customer {number}"})
        serve(number)


for number in requests(40):
    handle(number)
