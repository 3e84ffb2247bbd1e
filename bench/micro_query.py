"""What the query languages cost: the first parse of a text, the look-up of one seen before, and reading the same query from a mapping.

Not included: planning and running (`micro_query_run.py`), HTTP. Prints the median of some runs and their spread, in microseconds of CPU time.

    python -m bench.micro_query
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from svc.query import QueryCache, parse_query, query_from_mapping
from svc.store.schema import Attribute, TableDefinition

NAMES = ("id", "name", "price", "inStock", "tags", "listDate", "stock", "brandId", "brand")
DEFINITION = TableDefinition("Product", attributes=tuple([Attribute(name, "String") for name in NAMES]))
TABLE: Any = SimpleNamespace(definition=DEFINITION, attributes={attribute.name: attribute for attribute in DEFINITION.attributes})
TEXTS = (
    "name==Keyboard",
    "price=gt=20&lt=60",
    "brand.name=Acme&inStock==true&sort(+price,-name)&limit(20,40)",
    "price=gt=20&lt=60&[tags=usb|tags=bluetooth]&sort(-price)&limit(0,2)&select(name,price,brand{name})",
    "%28name==a%7Cname==b%29&limit(5)",
    "listDate=ge=date:2024-01-05T20%3A07%3A27Z&group(brand.name;count,sum(price))&sort(-sum.price)",
    "&".join([f"name!={number}" for number in range(100)]),
)
FAULTS = ("prise", "name=in=(a,b)", "(name=a|(price=gt=5)")
MAPPING = {
    "conditions": [
        {"attribute": "price", "comparator": "greater_than", "value": 20},
        {"operator": "or", "conditions": [{"attribute": "tags", "value": "usb"}, {"attribute": "tags", "value": "bluetooth"}]},
    ],
    "sort": {"attribute": "price", "descending": True},
    "limit": 2,
    "select": ["name", "price", {"name": "brand", "select": ["name"]}],
}
ROUNDS = 9


def parsed(text: str) -> Callable[[int], None]:
    declared = TABLE.attributes.__contains__

    def run(count: int) -> None:
        for _ in range(count):
            parse_query(text, declared)

    return run


def refused(text: str) -> Callable[[int], None]:
    def run(count: int) -> None:
        for _ in range(count):
            try:
                parse_query(text)
            except Exception:
                continue

    return run


def cached(text: str, others: int) -> Callable[[int], None]:
    """Look-ups among `others` more texts that are remembered. The text is made anew each time, as a request brings it."""
    cache = QueryCache()
    for number in range(others):
        cache.parse(f"name=={number}", TABLE)
    raw = text.encode()

    def run(count: int) -> None:
        for _ in range(count):
            cache.parse(raw.decode(), TABLE)

    return run


def mapped(count: int) -> None:
    for _ in range(count):
        query_from_mapping(MAPPING)


def measure(name: str, run: Callable[[int], None], count: int) -> None:
    run(count // 10)
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        run(count)
        times.append((time.process_time() - start) / count * 1e6)
    shown = name if len(name) <= 100 else name[:97] + "..."
    print(f"{shown:100} {statistics.median(times):8.2f} us   {min(times):.2f} ... {max(times):.2f}")


def main() -> None:
    for text in TEXTS:
        measure(f"parse   {text}", parsed(text), 1000)
    for text in FAULTS:
        measure(f"refuse  {text}", refused(text), 1000)
    for text in TEXTS[:4:3]:
        measure(f"look up {text}", cached(text, 1000), 20000)
    measure("read a mapping of 3 conditions, sort, limit and a nested selection", mapped, 1000)


if __name__ == "__main__":
    main()
