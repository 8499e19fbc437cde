"""A Flask application for gunicorn: ``GET /`` allocates a little and answers ``ok`` with what it made; ``GET /pid``
says who answers."""

import os

from flask import Flask

app = Flask(__name__)


@app.route("/")
def index():
    rows = [{"number": i, "text": str(i) * 10} for i in range(200)]
    return "ok {}".format(sum(len(row["text"]) for row in rows))


@app.route("/pid")
def pid():
    return str(os.getpid())
