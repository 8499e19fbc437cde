"""A growing dict: visitors who close their browser never log out, and their sessions stay."""

from backdrop import requests, serve


class Session:
    def __init__(self, key, basket):
        self.key = key
        self.basket = basket


class SessionStore:
    def __init__(self):
        self._sessions = {}

    def create_session(self, number):
        session = Session(f"key {number}", [bytearray(400) for _ in range(8)])
        self._sessions[session.key] = session
        return session

    def log_out(self, key):
        del self._sessions[key]


store = SessionStore()
for number in requests(100):
    session = store.create_session(number)
    serve(number)
    if number % 2:
        store.log_out(session.key)  # the leak: the others do not
