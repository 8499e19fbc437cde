"""Flask: a view connects a receiver to a signal at each request, and strongly."""

from backdrop import requests, serve
from flask import Flask, render_template_string, request_finished

app = Flask(__name__)
PAGE = "<h1>{{ order.number }}</h1>{% for line in order.lines %}<li>{{ line }}</li>{% endfor %}"


class Order:
    def __init__(self, number, lines):
        self.number = number
        self.lines = lines


@app.route("/checkout/<int:number>")
def checkout(number):
    order = Order(number, [f"line {i} of order {number} " * 10 for i in range(25)])

    def mark_as_sent(sender, **extra):
        order.is_sent = True

    request_finished.connect(mark_as_sent, app, weak=False)  # the leak
    return render_template_string(PAGE, order=order)


client = app.test_client()
for number in requests(30):
    assert client.get(f"/checkout/{number}").status_code == 200
    serve(number)
