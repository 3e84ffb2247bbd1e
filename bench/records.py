"""The records that every server under test holds. Record n is the same everywhere and at every run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

RECORDS = 400_000
SPARES = 100_000  # for DELETE, which uses them up
CATEGORIES = 20_000
ROWS = RECORDS // CATEGORIES  # of one category, and in one range of prices: 20
BRANDS = 1_000

Record = dict[str, Any]

# Odd multipliers without a common factor with the number of records: neighbours in one order are far apart in the others.
_CATEGORY_STEP, _PRICE_STEP, _RANK_STEP = 7_919, 31_337, 48_271
_TEXT = "The quick brown fox jumps over the lazy dog while five boxing wizards jump at dawn and pack my box with liquor jugs. "


def item_id(n: int) -> str:
    """15 characters of a-z and 0-9, the only shape that all servers take."""
    return f"item{n:011}"


def brand_id(n: int) -> str:
    return f"brand{n:010}"


def category(n: int) -> str:
    return f"c{n * _CATEGORY_STEP % CATEGORIES:05}"


def item(n: int, revision: int = 0) -> Record:
    """About 400 bytes as JSON. Another `revision` differs in rank, which is indexed, and in the description."""
    start = (n + revision) % 60
    return {
        "id": item_id(n),
        "name": f"Item {n} of the warehouse",
        "category": category(n),
        "price": n * _PRICE_STEP % RECORDS + 0.5,
        "rank": (n + revision) * _RANK_STEP % RECORDS,
        "active": n % 3 > 0,
        "brandId": brand_id(n % BRANDS),
        "description": (_TEXT * 3)[start : start + 200],
    }


def change(n: int) -> Record:
    """A new value of record `n % RECORDS`; another one for each multiple of RECORDS."""
    return item(n % RECORDS, 1 + n // RECORDS)


def brand(n: int) -> Record:
    return {"id": brand_id(n), "name": f"Brand {n}"}


def iter_items(count: int = RECORDS) -> Iterator[Record]:
    return map(item, range(count))


def iter_brands() -> Iterator[Record]:
    return map(brand, range(BRANDS))
