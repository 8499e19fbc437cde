"""transitions: each order becomes a model of the one machine, and stays its model when it is done."""

from busy_backdrop import requests, serve
from transitions import Machine

machine = Machine(model=None, states=["new", "paid", "sent"], initial="new")
machine.add_transition("pay", "new", "paid")
machine.add_transition("send", "paid", "sent")


class Order:
    def __init__(self, number):
        self.number = number


def take_order(number):
    order = Order(number)
    machine.add_model(order)  # the leak
    order.pay()
    order.send()


for number in requests(30):
    take_order(number)
    serve(number)
