"""What the shop remembers. These classes hold data and never do anything."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Product:
    """One article of the catalogue."""

    number: int
    title: str
    cents: int
    tags: list[str]


@dataclass
class LineItem:
    """One product in a cart."""

    product: Product
    quantity: int
    note: str


@dataclass
class Cart:
    """What a visitor has chosen so far."""

    items: list[LineItem] = field(default_factory=list)

    @property
    def cents(self) -> int:
        """What it all costs."""
        return sum(item.product.cents * item.quantity for item in self.items)


@dataclass
class AuditRecord:
    """One thing that a visitor did."""

    when: float
    action: str
    details: dict[str, str]


@dataclass
class Session:
    """A visitor, from the first request on; should be gone half an hour after the last one, and is not."""

    token: str
    visitor: str
    seen: float
    cart: Cart = field(default_factory=Cart)
    history: list[AuditRecord] = field(default_factory=list)
