"""Buffers that C takes from Python's allocator and never gives back."""

import ctypes

from backdrop import requests, serve

allocate = ctypes.pythonapi.PyMem_Malloc
allocate.argtypes = [ctypes.c_size_t]
allocate.restype = ctypes.c_void_p


def scan(number):
    return allocate(400 + number % 100)  # the leak: PyMem_Free is forgotten


for number in requests(300):
    scan(number)
    serve(number)
