"""Harmless: SQLAlchemy keeps the compiled text of 500 statements; ever new ones fill that, and then replace others."""

from busy_backdrop import requests, serve
from sqlalchemy import create_engine, text

engine = create_engine("sqlite://")


def count(number):
    # A name in the statement, such as a label, would be a leak: the dialect keeps each that it has ever quoted.
    with engine.connect() as connection:
        return connection.execute(text(f"select {number}")).scalar_one()


for number in requests(50):
    count(number)
    serve(number)
