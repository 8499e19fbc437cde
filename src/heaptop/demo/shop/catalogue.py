"""What the shop sells, and the pages made of it. The cache here is bounded, and so never the leak."""

from __future__ import annotations

from functools import lru_cache

from .models import Product

PRODUCTS: list[Product] = []


def load(count: int = 20_000) -> None:
    """Fill the catalogue once, as a start from a database would."""
    for number in range(count):
        tags = [f"tag-{number % 97}", f"colour-{number % 11}"]
        PRODUCTS.append(Product(number, f"Article {number} of the catalogue", 100 + number % 9_000, tags))


@lru_cache(maxsize=2_000)
def page(number: int) -> str:
    """The HTML of one product's page, about 4 KB."""
    product = PRODUCTS[number]
    rows = "".join(f"<tr><td>{field}</td><td>{product.title}</td></tr>" for field in range(75))
    return f"<html><h1>{product.title}</h1><p>{product.cents / 100:.2f}</p><table>{rows}</table></html>"
