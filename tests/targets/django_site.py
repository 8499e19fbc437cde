"""A healthy Django application for gunicorn: what it keeps is in caches with a bound. ``GET /pid`` says who answers.

Each ``GET /`` has a session, reads rows by the ORM, renders a template from a cache of fragments, logs, and sends a
signal.
"""

import itertools
import logging
import os

import django
from django.conf import settings
from django.http import HttpResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"],
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
            "OPTIONS": {"MAX_ENTRIES": 300},
        }
    },
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"],
    LOGGING_CONFIG=None,
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.common.CommonMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="of a test",
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
)
django.setup()

from django.contrib.auth.models import Group  # noqa: E402
from django.core.cache import cache  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.dispatch import Signal  # noqa: E402
from django.template import engines  # noqa: E402

NUMBERS = itertools.count()
viewed = Signal()
PAGE = "<h1>{{ number }}</h1>{% for group in groups %}<li>{{ group.name }}</li>{% endfor %}"
page = engines["django"].from_string(PAGE)
counts = {"viewed": 0}


def count(sender, **extra):
    counts["viewed"] += 1


viewed.connect(count)


def fill():
    """Each worker has a database of its own, in memory."""
    call_command("migrate", verbosity=0)
    Group.objects.bulk_create([Group(name=f"group {number}") for number in range(200)])


def index(request):
    number = next(NUMBERS)
    if number == 0:
        fill()
    request.session["number"] = number
    key = f"page-{number % 500}"
    text = cache.get(key)
    if text is None:
        text = page.render({"number": number, "groups": Group.objects.filter(name__contains=str(number % 10))})
        cache.set(key, text)
    viewed.send(sender=None, number=number)
    logging.getLogger("shop").debug("served %d", number)
    return HttpResponse(text)


def pid(request):
    return HttpResponse(str(os.getpid()))


urlpatterns = [path("", index), path("pid", pid)]
app = get_wsgi_application()
