"""Django: a view connects a receiver to a signal for each request, and strongly."""

import django
from busy_backdrop import requests, serve
from django.conf import settings
from django.core.signals import request_finished
from django.http import HttpResponse
from django.template import engines
from django.test import RequestFactory

TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]
settings.configure(ALLOWED_HOSTS=["*"], TEMPLATES=TEMPLATES, DATABASES={})
django.setup()
factory = RequestFactory()
page = engines["django"].from_string("<h1>{{ number }}</h1>{% for line in lines %}<li>{{ line }}</li>{% endfor %}")


def checkout(request, number):
    lines = [f"line {i} of order {number}" for i in range(20)]

    def mark_as_sent(sender, **extra):
        lines.append("sent")

    request_finished.connect(mark_as_sent, sender=HttpResponse, weak=False)  # the leak
    return HttpResponse(page.render({"number": number, "lines": lines}))


for number in requests(30):
    checkout(factory.get(f"/checkout/{number}"), number)
    serve(number)
