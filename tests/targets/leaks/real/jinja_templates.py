"""Harmless: a cache of 150 templates that warms up; there are more templates than that."""

import random

from busy_backdrop import requests, serve
from jinja2 import Environment, FunctionLoader


def source(name):
    return f"<h1>{name}</h1>" + "{% for line in lines %}<li>{{ line }}</li>{% endfor %}"


environment = Environment(loader=FunctionLoader(source), cache_size=150, auto_reload=False)

for number in requests(30):
    template = environment.get_template(f"page-{random.randrange(300)}.html")
    template.render(lines=[f"line {i}" for i in range(5)])
    serve(number)
