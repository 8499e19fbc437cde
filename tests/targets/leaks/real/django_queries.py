"""Harmless: with DEBUG, Django logs each query of a connection: 9,000 of them, and fills that for minutes."""

import django
from busy_backdrop import requests, serve
from django.conf import settings
from django.db import connection

settings.configure(DEBUG=True, DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
django.setup()


def read(number):
    with connection.cursor() as cursor:
        cursor.execute("select %s", [number])
        return cursor.fetchone()


for number in requests(80):
    read(number)
    serve(number)
