"""Jinja2: a cache of templates without a bound, and a template for each order's confirmation."""

from busy_backdrop import requests, serve
from jinja2 import Environment, FunctionLoader


def source(name):
    return f"<h1>{name}</h1>" + "{% for line in lines %}<li>{{ line }}</li>{% endfor %}"


environment = Environment(loader=FunctionLoader(source), cache_size=-1, auto_reload=False)


def confirm(number):
    template = environment.get_template(f"order-{number}.html")  # the leak
    return template.render(lines=[f"line {i}" for i in range(5)])


for number in requests(20):
    confirm(number)
    serve(number)
