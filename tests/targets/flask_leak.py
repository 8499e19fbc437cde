"""A Flask application for gunicorn with a leak: each ``GET /`` keeps a session for ever, among much that it lets go.

A page is rendered from a template, rows are sorted, and a bounded cache of products gets warm; ``GET /pid`` says
who answers.
"""

import itertools
import json
import os
from functools import lru_cache

from flask import Flask, render_template_string, request

app = Flask(__name__)
NUMBERS = itertools.count()
SESSIONS = {}
PAGE = "<h1>{{ title }}</h1>{% for row in rows %}<li>{{ row.name }}: {{ row.price }}</li>{% endfor %}"


class Session:
    def __init__(self, number, agent):
        self.number = number
        self.agent = agent
        self.basket = []


@lru_cache(maxsize=500)
def product(number):
    return {"name": f"product {number}", "price": number * 3, "text": "x" * 300}


def create_session():
    session = Session(next(NUMBERS), request.headers.get("User-Agent", ""))
    session.basket = [bytearray(500) for _ in range(20)]  # the leak
    SESSIONS[session.number] = session
    return session


def rows(session):
    found = [product((session.number + i) % 700) for i in range(30)]
    return sorted(json.loads(json.dumps(found)), key=lambda row: row["price"])


@app.route("/")
def index():
    session = create_session()
    return render_template_string(PAGE, title=f"session {session.number}", rows=rows(session))


@app.route("/pid")
def pid():
    return str(os.getpid())
