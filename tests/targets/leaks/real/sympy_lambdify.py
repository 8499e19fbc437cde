"""SymPy 1.13.3: each lambdified formula stays in the linecache (issue 27216), also when nobody has it any more.

Fixed in 1.14.0, which takes it out with the function.
"""

import sympy
from busy_backdrop import requests, serve

x = sympy.Symbol("x")
FORMULAS = [sum(sympy.Integer(i * k + 1) * x**i for i in range(6)) for k in range(1, 9)]


def price(number):
    formula = sympy.lambdify(x, FORMULAS[number % 8], "math")  # the leak
    return formula(number)


for number in requests(30):
    price(number)
    serve(number)
