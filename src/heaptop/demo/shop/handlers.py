"""The requests the shop answers; ``ROUTES`` lists them. Each takes a session and returns the body."""

from __future__ import annotations

import random
from collections.abc import Callable

from . import catalogue
from .models import LineItem, Session
from .sessions import record

Handler = Callable[[Session], str]


def show_product(session: Session) -> str:
    """GET /product/N: a few products are popular, as everywhere, so most pages come from the cache."""
    number = min(int(random.expovariate(1 / 1_500)), len(catalogue.PRODUCTS) - 1)
    record(session, "view", f"/product/{number}")
    return catalogue.page(number)


def add_to_cart(session: Session) -> str:
    """POST /cart: one more line."""
    product = random.choice(catalogue.PRODUCTS)
    session.cart.items.append(LineItem(product, random.randint(1, 3), f"gift wrap for {session.visitor}"))
    record(session, "add", f"/cart/{product.number}")
    return f"{len(session.cart.items)} lines, {session.cart.cents / 100:.2f}"


def search(session: Session) -> str:
    """GET /search: makes many short-lived strings and keeps none of them."""
    tag = f"tag-{random.randrange(97)}"
    record(session, "search", f"/search?tag={tag}")
    return "\n".join(product.title for product in catalogue.PRODUCTS[:2_000] if tag in product.tags)


ROUTES: dict[str, Handler] = {"/product": show_product, "/cart": add_to_cart, "/search": search}
