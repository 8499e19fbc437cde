"""Goes through all that ``heaptop.phase`` can be used as, with nobody who listens and with a listener, and prints what
was told: a list of "+name" and "-name"."""

import asyncio
import logging

import heaptop


@heaptop.phase("function")
def function():
    return 1


@heaptop.phase("coroutine")
async def coroutine():
    await asyncio.sleep(0)
    return 2


@heaptop.phase("generator")
def generator():
    yield 3


@heaptop.phase("asynchronous")
async def asynchronous():
    yield 4


async def gathered():
    async with heaptop.phase("async block"):
        await asyncio.sleep(0)
    return [await coroutine(), *[item async for item in asynchronous()]]


def tour():
    with heaptop.phase("block"):
        assert function() == 1
    assert list(generator()) == [3]
    assert asyncio.run(gathered()) == [2, 4]


told = []
tour()
assert heaptop.phases._entered.get() is None

records = []


class Kept(logging.Handler):
    def emit(self, record):
        records.append(record.heaptop_phase)


log = logging.getLogger("shop")
log.addHandler(Kept())
log.handlers[0].addFilter(heaptop.log_phases())
with heaptop.phase("outer"), heaptop.phase("inner"):
    log.warning("here")
assert records == ["outer > inner"], records
heaptop._listener = lambda name, number, begins: told.append(("+" if begins else "-") + name)
tour()
print(told)
