"""Harmless: a cache that was full before anybody looked, and takes as much in as it lets go."""

from collections import OrderedDict

from backdrop import requests, serve


class Profile:
    def __init__(self, number, picture):
        self.number = number
        self.picture = picture


class Profiles:
    def __init__(self, most):
        self.most = most
        self._profiles = OrderedDict()

    def get(self, number):
        if number not in self._profiles:
            self._profiles[number] = Profile(number, bytearray(2000))
            if len(self._profiles) > self.most:
                self._profiles.popitem(last=False)
        return self._profiles[number]


profiles = Profiles(1500)
for number in range(1500):
    profiles.get(number)
for number in requests(100):
    profiles.get(1500 + number)
    serve(number)
