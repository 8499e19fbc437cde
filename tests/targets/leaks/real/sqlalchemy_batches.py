"""Harmless: orders are collected in a session, and committed every few seconds."""

from busy_backdrop import requests, serve
from sqlalchemy import Column, Integer, String, create_engine
from sqlalchemy.orm import Session, declarative_base

Base = declarative_base()


class Order(Base):
    __tablename__ = "orders"
    id = Column(Integer, primary_key=True)
    note = Column(String)


engine = create_engine("sqlite://")
Base.metadata.create_all(engine)
session = Session(engine, autoflush=False)

for number in requests(80):
    session.add(Order(note=f"note {number} " * 10))
    if number % 400 == 399:
        session.commit()
    serve(number)
