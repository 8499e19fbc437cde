"""NetworkX: a graph of who has seen which page, of which nothing is ever taken out."""

import networkx
from busy_backdrop import requests, serve

visits = networkx.Graph()


def record_visit(number):
    visitor = f"visitor {number}"
    visits.add_node(visitor, number=number, agent="browser")
    for page in range(3):
        visits.add_edge(visitor, f"page {(number + page) % 50}", seconds=number * 0.5)  # the leak


for number in requests(60):
    record_visit(number)
    serve(number)
