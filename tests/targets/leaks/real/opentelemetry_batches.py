"""Harmless: spans are collected in batches, and exported every few seconds."""

from busy_backdrop import requests, serve
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class NullExporter(SpanExporter):
    def export(self, spans):
        return SpanExportResult.SUCCESS

    def shutdown(self):
        pass


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(NullExporter(), schedule_delay_millis=4000))
tracer = provider.get_tracer("shop")

for number in requests(60):
    with tracer.start_as_current_span("handle") as span:
        span.set_attribute("customer", f"customer {number}")
        serve(number)
