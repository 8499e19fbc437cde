"""Harmless: SQLAlchemy keeps the compiled text of 500 statements; ever new ones fill that, and then replace others."""

from busy_backdrop import requests, serve
from sqlalchemy import create_engine, literal, select

engine = create_engine("sqlite://")


def count(number):
    with engine.connect() as connection:
        return connection.execute(select(literal(number).label(f"count_{number}"))).scalar_one()


for number in requests(50):
    count(number)
    serve(number)
