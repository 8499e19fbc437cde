"""A Flask application for gunicorn whose SQLAlchemy session grows: each ``GET /`` adds an order, and nothing commits.

``autoflush`` is off, so queries do not write the new orders out either; what a page reads goes through a session that
ends with it. ``GET /pid`` says who answers.
"""

import itertools
import os

from flask import Flask, jsonify
from sqlalchemy import Column, ForeignKey, Integer, String, create_engine, select
from sqlalchemy.orm import Session, declarative_base, relationship

app = Flask(__name__)
NUMBERS = itertools.count()
Base = declarative_base()


class Product(Base):
    __tablename__ = "product"
    id = Column(Integer, primary_key=True)
    name = Column(String)


class Order(Base):
    __tablename__ = "orders"
    id = Column(Integer, primary_key=True)
    customer = Column(String)
    lines = relationship("Line", back_populates="order")


class Line(Base):
    __tablename__ = "line"
    id = Column(Integer, primary_key=True)
    order_id = Column(ForeignKey("orders.id"))
    product_id = Column(ForeignKey("product.id"))
    order = relationship(Order, back_populates="lines")


ENGINE = create_engine("sqlite://")
Base.metadata.create_all(ENGINE)
with Session(ENGINE) as filling:
    filling.add_all(Product(name=f"product {number}") for number in range(100))
    filling.commit()
SESSION = Session(ENGINE, autoflush=False)  # the leak


@app.route("/")
def index():
    number = next(NUMBERS)
    first = number % 90
    with Session(ENGINE) as reading:
        products = reading.scalars(select(Product).where(Product.id.between(first, first + 10))).all()
        names = [product.name for product in products]
        lines = [Line(product_id=product.id) for product in products[:2]]
    SESSION.add(Order(customer=f"customer {number}", lines=lines))
    return jsonify(names)


@app.route("/pid")
def pid():
    return str(os.getpid())
