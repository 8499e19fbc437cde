"""Many small lists in place of a large one: the messages of each room of a chat, from its first day on."""

from collections import defaultdict

from backdrop import requests, serve


class Message:
    def __init__(self, number, text):
        self.number = number
        self.text = text


class Chat:
    def __init__(self):
        self.rooms = defaultdict(lambda: {"members": set(), "messages": []})

    def post(self, number):
        message = Message(number, f"message {number} " * 150)
        room = self.rooms[number % 60]
        room["members"].add(number % 7)
        room["messages"].append(message)  # the leak


chat = Chat()
for number in requests(100):
    chat.post(number)
    serve(number)
