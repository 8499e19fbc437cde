"""SQLAlchemy: one session for the life of the program, to which orders are added, and nothing commits."""

from backdrop import requests, serve
from sqlalchemy import Column, Integer, String, create_engine, select
from sqlalchemy.orm import Session, declarative_base

Base = declarative_base()


class Customer(Base):
    __tablename__ = "customer"
    id = Column(Integer, primary_key=True)
    name = Column(String)


class Order(Base):
    __tablename__ = "orders"
    id = Column(Integer, primary_key=True)
    customer = Column(String)
    note = Column(String)


engine = create_engine("sqlite://")
Base.metadata.create_all(engine)
with Session(engine) as filling:
    filling.add_all(Customer(name=f"customer {number}") for number in range(100))
    filling.commit()
orders = Session(engine, autoflush=False)


def place_order(number):
    with Session(engine) as reading:
        customer = reading.scalars(select(Customer).where(Customer.id == number % 100 + 1)).one()
        order = Order(customer=customer.name, note=f"note {number} " * 100)
    orders.add(order)  # the leak


for number in requests(80):
    place_order(number)
    serve(number)
