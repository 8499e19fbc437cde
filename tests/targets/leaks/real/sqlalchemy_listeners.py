"""SQLAlchemy: each request listens to the engine's savepoints, to note its own, and does not stop."""

from busy_backdrop import requests, serve
from sqlalchemy import create_engine, event, text

engine = create_engine("sqlite://")


class Notes:
    def __init__(self, number):
        self.number = number
        self.savepoints = []
        self.texts = [f"note {number} {i} " * 8 for i in range(12)]


def handle(number):
    notes = Notes(number)

    def note(connection, name):
        notes.savepoints.append(name)

    event.listen(engine, "savepoint", note)  # the leak
    with engine.connect() as connection:
        connection.execute(text("select 1")).all()


for number in requests(40):
    handle(number)
    serve(number)
