"""The heap that a fake agent has as long as it is told of none other: a small web shop that leaks sessions.

This module never draws a random number: the same objects stand at the same addresses every time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from heaptop.protocol.messages import UNTRACKED, TypeName
from tests.fakes.graph import Frame, Planted, PlantedHeap, Reference, Root

SESSIONS: Final = 80
"""Of the first image; each one after it has :data:`LEAKED` more."""
LEAKED: Final = 12

MORE_SESSIONS: Final = 30
"""In each image of :func:`growing_shop`."""
PREVIEWS, NEW_PREVIEWS = 40, 16
"""There at all images, and of these new at each."""
QUOTES: Final = (20, 60, 64)
"""At the first images; the last of these at all that follow."""

ARENA: Final = 0x7F3A_1C00_0000
POOL: Final = 4_096
POOLS: Final = 8
"""In one arena: few, so that a small heap has several."""
APART: Final = 0x40_0000
"""From one arena to the next."""
HEAP: Final = 0x5581_C3A0_0010
"""Where malloc puts what is larger than :data:`SMALL`."""
SMALL: Final = 512

_LEAVES: Final = ("str", "bytes", "int", "float")


class _Planter:
    """Objects as they come, each at an address like those of pymalloc and malloc."""

    def __init__(self) -> None:
        self.drafts: dict[int, Planted] = {}
        self._pools = 0
        self._free: dict[int, tuple[int, int]] = {}
        self._large = HEAP

    def new(
        self,
        type: str,
        size: int,
        *,
        preview: str = "",
        value: str = "",
        length: int = -1,
        stack: int = 0,
        young: int = 2,
    ) -> int:
        """Its address. ``young``: its generation, where the collector tracks it."""
        module, _, qualname = type.rpartition(":")
        address = self._place(size)
        generation = UNTRACKED if type in _LEAVES else young
        name = TypeName(module or "builtins", qualname)
        self.drafts[address] = Planted(address, name, size, (), generation, length, preview, value, stack)
        return address

    def _place(self, size: int) -> int:
        size = (size + 15) // 16 * 16
        if size > SMALL:
            self._large += size + 16
            return self._large - size - 16
        at, end = self._free.get(size, (0, 0))
        if at + size > end:
            arena, pool = divmod(self._pools, POOLS)
            begin = ARENA + arena * APART + pool * POOL
            self._pools += 1
            at, end = begin + 48, begin + POOL
        self._free[size] = at + size, end
        return at

    def text(self, value: str) -> int:
        return self.new(
            "str", 49 + len(value), preview=f"{len(value)} characters", value=repr(value), length=len(value)
        )

    def refer(self, holder: int, label: str, *referents: int, key: str = "") -> None:
        draft = self.drafts[holder]
        more = tuple(Reference(label, each, key) for each in referents)
        self.drafts[holder] = replace(draft, references=draft.references + more)

    def waste(self, address: int, sort: str, size: int, detail: int = 0) -> None:
        """It could do without so many bytes."""
        draft = self.drafts[address]
        self.drafts[address] = replace(draft, wastes=(*draft.wastes, (sort, size, detail)))

    def put(self, holder: int, item: int, key: int = 0, first: str = "") -> None:
        """One more item of a list or a dict."""
        draft = self.drafts[holder]
        length = max(0, draft.length) + 1
        preview = f"{length} items" + (f", the first: {first}" if first else "")
        self.drafts[holder] = replace(draft, length=length, preview=preview)
        if key:
            self.refer(holder, "(a key)", key)
        self.refer(holder, "[*]", item, key=f"[{self.drafts[key].value}]" if key else f"[{length - 1}]")

    def module(self, name: str) -> tuple[int, int]:
        """A module and its dict."""
        module, names = self.new("module", 72, preview=name), self.new("dict", 1_184, length=0)
        self.refer(module, "", names)
        return module, names

    def function(self, name: str) -> int:
        return self.new("function", 152, preview=f"{name}()")

    def type(self, name: str) -> tuple[int, int]:
        """A class and its dict."""
        type, names = self.new("type", 1_064, preview=name), self.new("dict", 352, length=6, preview="6 items")
        self.refer(type, "", names)
        return type, names


@lru_cache(maxsize=8)
def shop(image: int = 1) -> PlantedHeap:
    """What the shop has in memory at the ``image``-th image, from 1."""
    return _Shop(SESSIONS + LEAKED * (image - 1)).planted()


@lru_cache(maxsize=8)
def growing_shop(image: int = 1) -> PlantedHeap:
    """A shop for leak hunts: sessions collect, a cache at its bound turns over, a list of prices fills up and stays.
    All else is as at the first image of :func:`shop`."""
    return _GrowingShop(image).planted()


class _Shop:
    def __init__(self, sessions: int) -> None:
        self.plant = _Planter()
        self.roots: list[Root] = []
        self.frames: list[Frame] = []
        self.models = self._module("shop.models")
        self.cache = self._module("shop.cache")
        self.billing = self._module("shop.billing")
        self.views = self._module("shop.views")
        self.customers = [self._customer(number) for number in range(24)]
        self._plant_registry()
        self._plant_pages()
        self._plant_invoices()
        self._plant_history()
        self._plant_views()
        self._plant_worker()
        self._plant_interpreter()
        self._plant_garbage()
        self._plant_sessions(sessions)

    def planted(self) -> PlantedHeap:
        return PlantedHeap(tuple(self.plant.drafts.values()), tuple(self.roots), tuple(self.frames))

    def _module(self, name: str) -> int:
        module, names = self.plant.module(name)
        self.roots.append(Root("module", f"module {name}", module))
        return names

    def _customer(self, number: int) -> int:
        plant = self.plant
        customer, own = plant.new("shop.models:Customer", 48), plant.new("dict", 104, length=2, preview="2 items")
        plant.refer(customer, "", own)
        plant.refer(own, ".name", plant.text(f"Customer {number:03}"))
        plant.refer(own, ".email", plant.text(f"customer{number:03}@example.org"))
        plant.waste(customer, "slots", 40, 2)
        return customer

    def _plant_registry(self) -> None:
        """A class attribute."""
        plant = self.plant
        customer, names = plant.type("shop.models.Customer")
        known = plant.new("dict", 1_184)
        plant.refer(self.models, ".Customer", customer)
        plant.refer(names, ".known", known)
        for number, each in enumerate(self.customers):
            plant.put(known, each, plant.text(f"C{number:03}"), "str → shop.models.Customer")

    def _plant_pages(self) -> None:
        """Two caches that share half of what they have."""
        plant = self.plant
        entries, rendered = plant.new("dict", 2_280), plant.new("collections:OrderedDict", 1_440)
        plant.waste(entries, "sparse", 1_616, 64)
        plant.refer(self.cache, "._entries", entries)
        plant.refer(self.views, ".rendered", rendered)
        for number in range(30):
            size = 600 + 40 * number
            page = plant.new("bytes", size + 33, preview=f"{size} bytes", length=size, stack=3)
            entry = plant.new("shop.cache:Entry", 96, young=number % 3)
            plant.refer(entry, ".page", page)
            plant.put(entries, entry, plant.text(f"/page/{number}"), "str → shop.cache.Entry")
            if number % 2:
                plant.put(rendered, page, plant.text(f"page-{number}"), "str → bytes")

    def _plant_invoices(self) -> None:
        """An lru_cache on a method, which keeps every ``self``."""
        plant = self.plant
        invoice, names = plant.type("shop.billing.Invoice")
        total, answers = plant.new("functools:_lru_cache_wrapper", 120), plant.new("dict", 2_280)
        plant.refer(self.billing, ".Invoice", invoice)
        plant.refer(names, ".total", total)
        plant.refer(total, "lru_cache of shop.billing.Invoice.total", answers)
        for number in range(32):
            bill, lines = plant.new("shop.billing:Invoice", 56), plant.new("list", 88)
            link = plant.new("functools:_lru_list_elem", 64)
            plant.refer(bill, ".lines", lines)
            for line in range(2 + number % 3):
                plant.put(lines, plant.text(f"line {line} of invoice {number}"), first="str")
            plant.refer(link, "(a key)", bill)
            result = plant.new("float", 24, preview="", value=f"{number * 19.5}")
            if number % 2:
                plant.waste(result, "equal", 24)
            plant.refer(link, "result", result)
            plant.put(answers, link, bill, "shop.billing.Invoice → functools._lru_list_elem")

    def _plant_history(self) -> None:
        """A list of links: one path, however long it is."""
        plant = self.plant
        newest = [plant.new("shop.models:Revision", 64, young=number // 16) for number in range(48)]
        plant.refer(self.models, ".history", newest[0])
        for number, each in enumerate(newest):
            plant.refer(each, ".text", plant.text(f"revision {48 - number}: the price was changed"))
            if number:
                plant.refer(newest[number - 1], ".previous", each)

    def _plant_views(self) -> None:
        """A closure, a default argument, a context variable, something of a thread's own."""
        plant = self.plant
        cached, cell, store = plant.function("shop.views.cached"), plant.new("cell", 40), plant.new("dict", 232)
        plant.refer(self.views, ".cached", cached)
        plant.refer(cached, "", cell)
        plant.refer(cell, "closure of shop.views.cached: store", store)
        listing, seen = plant.function("shop.views.list_orders"), plant.new("list", 152)
        plant.refer(self.views, ".list_orders", listing)
        plant.refer(listing, "default argument seen of shop.views.list_orders", seen)
        for number in range(12):
            plant.put(store, plant.text(f"<li>item {number}</li>"), plant.text(f"item-{number}"), "str → str")
            plant.put(seen, plant.text(f"order-{number:05}"), first="str")
        variable, request = plant.new("_contextvars:ContextVar", 72), plant.new("shop.views:Request", 80, young=0)
        plant.refer(self.views, ".current", variable)
        plant.refer(variable, "context variable current", request)
        plant.refer(request, ".body", plant.new("bytes", 8_225, preview="8192 bytes", length=8_192, young=0))
        local, connection = plant.new("_thread:_local", 104), plant.new("sqlite3:Connection", 240)
        plant.refer(self.views, ".local", local)
        plant.refer(local, ".connection of a thread", connection)
        plant.refer(connection, ".row_factory", plant.function("shop.views.row"))

    def _plant_worker(self) -> None:
        """What only the frames of a running program keep."""
        plant = self.plant
        rows, stream = plant.new("list", 920, young=1), plant.new("generator", 208, young=0)
        for number in range(60):
            order = plant.new("shop.models:Order", 184, stack=4 if number % 5 == 0 else 0, young=number // 20)
            plant.refer(order, ".number", plant.new("int", 28, value=str(70_000 + number)))
            plant.refer(order, ".customer", self.customers[number % 24])
            note = plant.text(f"please ring twice, {number}")
            plant.waste(note, "duplicate", plant.drafts[note].size)
            plant.refer(order, ".note", note)
            plant.put(rows, order, first="shop.models.Order")
        buffer = plant.new("bytearray", 65_593, preview="65536 bytes", length=65_536, stack=5, young=0)
        plant.refer(stream, "generator stream() local buffer", buffer)
        worker = Reference("frame worker() local rows", rows), Reference("frame worker() local stream", stream)
        server = plant.new("shop.server:Server", 96)
        plant.refer(server, ".address", plant.text("127.0.0.1"))
        self.frames.append(Frame("frame main()", (Reference("frame main() local server", server),)))
        self.frames.append(Frame("frame worker()", worker))

    def _plant_interpreter(self) -> None:
        """What the interpreter and a C extension hold."""
        plant = self.plant
        search, plans = plant.new("list", 64), plant.new("dict", 640, preview="0 items", length=0)
        plant.waste(plans, "spare", 400, 10)
        plant.put(search, plant.function("encodings.search_function"), first="function")
        self.roots.append(Root("runtime", "codec search functions", search))
        self.roots.append(Root("c", "held by C", plans))
        for number in range(10):
            plan = plant.new("_sqlplan:Plan", 1_520, young=1)
            plant.refer(plan, ".sql", plant.text(f"SELECT * FROM orders WHERE day = {number}"))
            plant.put(plans, plan, plant.text(f"plan-{number}"), "str → _sqlplan.Plan")
        plant.drafts[plans] = replace(plant.drafts[plans], surplus=1)

    def _plant_garbage(self) -> None:
        """Cycles that no collection has found yet."""
        plant = self.plant
        for number in range(6):
            parser, handler = plant.new("shop.feeds:Parser", 56, young=1), plant.new("shop.feeds:Handler", 56, young=1)
            plant.refer(parser, ".handler", handler)
            plant.refer(handler, ".parser", parser)
            plant.refer(handler, ".chunk", plant.new("bytes", 2_081, preview="2048 bytes", length=2_048, young=1))
            plant.refer(parser, ".name", plant.text(f"feed {number}"))

    def _plant_sessions(self, number: int) -> None:
        """A dict that only grows. The last sessions are in a list as well."""
        plant = self.plant
        self.sessions, recent = plant.new("dict", 4_704), plant.new("list", 184)
        plant.refer(self.cache, "._sessions", self.sessions)
        plant.refer(self.cache, ".recent", recent)
        made = [self._session(each) for each in range(number)]
        for each in made[-12:]:
            plant.put(recent, each, first="shop.models.Session")

    def _session(self, number: int) -> int:
        plant = self.plant
        young = 2 if number < SESSIONS else 0
        session = plant.new("shop.models:Session", 312, stack=2, young=young)
        basket = plant.new("list", 120, young=young)
        plant.waste(basket, "spare", 24, 2)
        for line in range(2 + number % 2):
            item = plant.new("shop.models:Basket.Line", 88, young=young)
            article = plant.text(f"article {number * 7 % 90}-{line}")
            plant.waste(item, "slots", 16, 1)
            if number % 3:
                plant.waste(article, "duplicate", plant.drafts[article].size)
            plant.refer(item, ".article", article)
            plant.put(basket, item, first="shop.models.Basket.Line")
        plant.refer(session, ".user", self.customers[number % 24])
        plant.refer(session, ".basket", basket)
        if number % 4 == 0:
            plant.refer(session, ".state", plant.new("sqlalchemy.orm.state:InstanceState", 240, stack=6, young=young))
        plant.put(self.sessions, session, plant.text(f"tok-{number:04}"), "str → shop.models.Session")
        return session


class _GrowingShop(_Shop):
    """Image by image, so that what stays has the same address in all of them."""

    def __init__(self, image: int) -> None:
        super().__init__(SESSIONS)
        plant = self.plant
        previews, quotes = plant.new("collections:OrderedDict", 2_280), plant.new("list", 600)
        plant.refer(self.views, "._previews", previews)
        plant.refer(self.billing, ".quotes", quotes)
        made: list[tuple[int, ...]] = []
        for each in range(1, image + 1):
            if each > 1:
                for _ in range(MORE_SESSIONS):
                    self._session(len(self._references(self.sessions)) // 2)
            young = 2 if each == 1 else 0
            made += [self._preview(young) for _ in range(NEW_PREVIEWS if each > 1 else PREVIEWS)]
            for _ in range(_quotes(each) - len(self._references(quotes))):
                plant.put(quotes, plant.new("shop.billing:Quote", 72, stack=3, young=young), first="shop.billing.Quote")
        for gone in made[:-PREVIEWS]:
            for each in gone:
                del plant.drafts[each]
        for preview, _, key in made[-PREVIEWS:]:
            plant.put(previews, preview, key, "str → shop.views.Preview")

    def _references(self, holder: int) -> tuple[Reference, ...]:
        return self.plant.drafts[holder].references

    def _preview(self, young: int) -> tuple[int, ...]:
        """Itself, what it has, and its key."""
        plant = self.plant
        preview = plant.new("shop.views:Preview", 64, stack=5, young=young)
        page = plant.new("bytes", 433, preview="400 bytes", length=400, stack=5)
        plant.refer(preview, ".page", page)
        return preview, page, plant.text("preview")


def _quotes(image: int) -> int:
    return QUOTES[min(image, len(QUOTES)) - 1]
