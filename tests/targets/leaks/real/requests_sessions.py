"""requests: a session for each customer, kept by token to reuse its connections; tokens change with each log-in."""

import requests as http
from busy_backdrop import requests, serve

SESSIONS = {}


def session_for(token):
    if token not in SESSIONS:
        session = http.Session()
        session.headers["Authorization"] = f"Bearer {token}"
        session.mount("https://api.example/", http.adapters.HTTPAdapter(pool_connections=4, max_retries=2))
        SESSIONS[token] = session  # the leak
    return SESSIONS[token]


for number in requests(30):
    session_for(f"token {number // 2}")
    serve(number)
