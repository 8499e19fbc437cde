"""Samples what a library says of memory through slots that are read-only, and prints what was seen.

Arguments: the core's library, the one with slots, where they are, and the name of what is to be done.
"""

import _ctypes
import ctypes
import sys
import threading

from arrays_common import NUMPY, Slots
from sampling_agent import Agent

INTERVAL, SIZE = 4096, 1 << 20
BLOCK = 0x7000_0000_0000 + 16
OTHER = 424242
MODULE = "numpy.core._multiarray_umath"
"""Whose library is only looked for when it is imported."""


def load():
    library = ctypes.CDLL(sys.argv[2])  # calls without the GIL
    library.say.argtypes = [ctypes.c_uint, ctypes.c_size_t, ctypes.c_size_t]
    library.unsay.argtypes = [ctypes.c_uint, ctypes.c_size_t]
    sys.modules[MODULE] = library
    return library


def unload(library):
    del sys.modules[MODULE]
    _ctypes.dlclose(library._handle)


def find_slots():
    return Slots(sys.argv[2], [int(word) for word in sys.argv[3].split(",")])


def say(library, domain, size=SIZE):
    """From a thread that Python does not know as running: the call releases the GIL."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(library.say(domain, BLOCK, size)))
    thread.start()
    thread.join()
    return answers[0]


def seen(agent, book):
    agent(book.read)
    living = [(birth.size, birth.stack) for birth in book.living.values() if birth.domain == 2]
    return living, len([1 for birth, _ in book.dead if birth.domain == 2])


def read_only(agent):
    """As it is: hooked and put back, past pages that stay read-only."""
    library = load()
    slots = find_slots()
    before, pages = slots.values(), slots.pages()
    book = agent.start(INTERVAL)
    told = {"permissions": pages[0], "before": before, "during": slots.values(), "kept": slots.pages() == pages}
    told["answers"] = [say(library, OTHER), say(library, NUMPY), library.unsay(OTHER, BLOCK)]  # as without heaptop
    told["first"] = seen(agent, book)
    told["answers"].append(say(library, NUMPY, 2 * SIZE))  # without a word of the first one's end
    told["second"] = seen(agent, book)
    told["to numpy"] = library.unsay(NUMPY, BLOCK)
    told["third"] = seen(agent, book)
    told["failed"] = library.say(NUMPY, 0, SIZE)  # malloc had nothing for numpy
    told["fourth"] = seen(agent, book)
    for size in (1 << 62, (1 << 64) - (1 << 40), SIZE):  # here, so that the last one is told after what cannot be
        library.say(NUMPY, BLOCK, size)
    told["fifth"] = seen(agent, book)
    library.unsay(NUMPY, BLOCK)
    told["said"] = agent.stop()
    told["answers"].append(library.unsay(NUMPY, BLOCK))
    told["after"], told["pages after"] = slots.values(), slots.pages() == pages
    return told


def foreign(agent):
    """Another tool has put its own function into a slot, before heaptop comes or after."""
    library = load()
    slots = find_slots()
    function = ctypes.cast(library.another, ctypes.c_void_p).value
    before = slots.values()
    set_slot(slots, 0, function)
    book = agent.start(INTERVAL)
    agent(book.read)
    told = {"before": before, "other": function, "during": slots.values(), "answer": say(library, NUMPY)}
    told["first"] = seen(agent, book)
    agent.stop()
    told["after"] = slots.values()
    set_slot(slots, 0, before[0])
    agent.start(INTERVAL)
    told["hooked"] = slots.values()
    set_slot(slots, 0, function)
    told["said"] = agent.stop()
    told["end"] = slots.values()
    return told


def set_slot(slots, i, value):
    libc = ctypes.CDLL(None)
    place = slots.base + slots.offsets[i]
    page = ctypes.c_void_p(place & ~4095)
    assert libc.mprotect(page, 4096, 3) == 0
    ctypes.c_uint64.from_address(place).value = value
    assert libc.mprotect(page, 4096, 1) == 0


def unloaded(agent):
    """The library goes while its slots are ours, and comes again."""
    library = load()
    book = agent.start(INTERVAL)
    unload(library)
    told = {"gone": agent(book.read)["arrays"]}
    library = load()
    told["back"] = agent(book.read)["arrays"]
    slots = find_slots()
    told["answer"] = say(library, NUMPY)
    told["seen"] = seen(agent, book)
    before = slots.values()
    unload(library)
    told["said"] = agent.stop()
    library = load()
    told["fresh"] = find_slots().values() != before
    return told


def stranger(agent):
    """The same by another name than NumPy's."""
    library = load()
    slots = find_slots()
    told = {"before": slots.values()}
    book = agent.start(INTERVAL)
    say(library, NUMPY)
    told["seen"], told["arrays"], told["during"] = seen(agent, book), book.stats["arrays"], slots.values()
    told["said"] = agent.stop()
    return told


def main():
    agent = Agent()
    print(globals()[sys.argv[4]](agent))


if __name__ == "__main__":
    main()
