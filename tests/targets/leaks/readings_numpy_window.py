"""Harmless: NumPy arrays of which views are in a window of the last 300 readings."""

from collections import deque

import numpy as np
from backdrop import requests, serve

LATEST = deque(maxlen=300)
for _ in range(300):
    LATEST.append(np.ones((60, 100))[:4, :4])
for number in requests(60):
    LATEST.append((np.ones((60, 100)) * number)[:4, :4])
    serve(number)
