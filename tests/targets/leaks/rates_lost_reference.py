"""A reference lost in C: an extension takes one to each text of rates and forgets to give it back."""

import ctypes

from backdrop import requests, serve

take = ctypes.pythonapi.Py_IncRef
take.argtypes = [ctypes.py_object]
take.restype = None


def convert(number):
    text = f"rates of request {number}: " + "0.98 " * 120
    take(text)  # the leak: what an extension does that forgets a Py_DECREF
    return len(text)


for number in requests(200):
    convert(number)
    serve(number)
