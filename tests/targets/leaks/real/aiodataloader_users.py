"""aiodataloader: one loader for the life of the program, where its documentation wants one for each request."""

import asyncio

from aiodataloader import DataLoader
from busy_backdrop import requests, serve, start_loop


class User:
    def __init__(self, number):
        self.number = number
        self.roles = [f"role {i} of {number}" for i in range(6)]


async def read_users(numbers):
    await asyncio.sleep(0)
    return [User(number) for number in numbers]


async def create_loader():
    return DataLoader(read_users)


async def handle(number):
    users = await loader.load_many([number * 2, number * 2 + 1])  # the leak
    return [user.number for user in users]


loop = start_loop()
loader = asyncio.run_coroutine_threadsafe(create_loader(), loop).result()
for number in requests(40):
    asyncio.run_coroutine_threadsafe(handle(number), loop).result()
    serve(number)
