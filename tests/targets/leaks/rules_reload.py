"""Duplicate modules: rules are loaded again and again, each time under a name of their own, and all stay imported."""

import importlib.abc
import importlib.util
import sys

from backdrop import requests, serve

RULES = '''
"""Rules of the day, as they stand in the database."""
LIMITS = {f"limit {i}": i * 1000.5 for i in range(50)}

class Rule:
    """What a customer pays."""
    def __init__(self, name):
        self.name = name
    def apply(self, price):
        return price - LIMITS["limit 1"]

def rules():
    return [Rule(name) for name in LIMITS]
'''


class DatabaseLoader(importlib.abc.InspectLoader):
    def get_source(self, fullname):
        return RULES


def load_rules(number):
    spec = importlib.util.spec_from_loader(f"rules_{number}", DatabaseLoader())
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # the leak
    spec.loader.exec_module(module)
    return module


for number in requests(80):
    if number % 4 == 0:
        rules = load_rules(number).rules()
    serve(number)
