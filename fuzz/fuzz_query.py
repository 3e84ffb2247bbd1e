"""The URL query language: any text is a query or a query fault, and an index changes nothing but the time.

Invariant, for any text:

1. `parse_query` returns a query or raises QueryError with status 400; nothing else.
2. What is parsed can be printed, and parses to the same nodes again (but for names that hold operator characters, which the tolerance of
   http §6.2 may read differently in another place, or that have no form inside a call).
3. Planning returns a plan or raises QueryError, and if the plan runs, it finds the same records on a table with indexes as on one
   without; in the same order, if there is a sort. No record comes twice, and a limit is kept.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.errors import QueryError
from svc.query import parse_query, plan_query, print_query
from svc.query.nodes import Query
from svc.store.records import decode
from tests.unit.query.fakes import FakeTable, product_definition, shop

CORPUS = Path(__file__).parent / "corpus" / "query"
TOLERATED = re.compile("%(?:7C|7B|7D|3C|3E|5B|5D|28|29|21|2C|2B)", re.IGNORECASE)

NAMES = [attribute.name for attribute in product_definition().attributes]
TOKENS = [name.encode() for name in NAMES]
TOKENS += (
    b"= == === != !== < <= > >= =eq= =ne= =lt= =le= =gt= =ge= =ct= =sw= =ew= =in= & | ( ) [ ] { } , . * + - % []= &lt= &=ge= &gt=".split()
)
TOKENS += b"select( sort( limit( null true number:5 boolean:false string: date:2024-01-05 %7C %5B %28 %2C %26 %00 a b 1 2.5 brand.name [name=a]".split()

PRODUCTS = [
    {
        "id": f"p{n}" if n % 3 else f"a/{n}",
        **({"name": ("a", "b", "ab", None)[n % 4]} if n % 5 else {}),
        **({"price": (1, 2.5, 5, -1, None)[n % 5]} if n % 7 else {}),
        "inStock": n % 2 == 0,
        "tags": [["a"], ["a", "b"], [], [None]][n % 4],
        "stock": n % 3,
        "specs": ({"color": "red"}, [1, {"color": "b"}], "a", None)[n % 4],
        "any": (1, "1", [1, "a"], {}, None, True)[n % 6],
        "brandId": ("a", "b", None, "gone")[n % 4],
        "resellerIds": [["a", "b"], ["b"], []][n % 3],
    }
    for n in range(24)
]
BRANDS = [{"id": "a", "name": "a", "country": "b"}, {"id": "b", "name": "b"}]


def without_indexes() -> FakeTable:
    table, brands = shop(PRODUCTS, BRANDS)
    for each in (table, brands):
        each.indexes = {}
    return table


INDEXED, _ = shop(PRODUCTS, BRANDS)
PLAIN = without_indexes()


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.7:
        return mutate(source, source.choice(corpus), TOKENS)
    return b"".join([source.choice(TOKENS) for _ in range(source.randint(1, 14))])


def check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        query = parse_query(text)
    except QueryError as error:
        assert error.status_code == 400, error.status_code
        return
    if TOLERATED.search(text) is None:
        assert parse_query(print_query(query)) == query
    found = outcome(query, INDEXED)
    expected = outcome(query, PLAIN)
    if query.sort or query.where is None or isinstance(found, str):
        assert found == expected, (found, expected)
        return
    assert isinstance(expected, list) and len(found) == len(expected), (found, expected)
    if query.limit is None:
        assert sorted(found) == sorted(expected), (found, expected)


def outcome(query: Query, table: FakeTable) -> list[str] | str:
    """The ids that the plan finds, or the code of the fault."""
    try:
        plan = plan_query(replace(query, select=None), table, None, allow_full_scan=True)
        if query.select is not None:
            plan_query(query, table, None, allow_full_scan=True).run(None, 0.0, json=True).next_batch(3)
    except QueryError as error:
        return error.code
    plan.explain()
    rows = plan.run(None, 0.0)
    found: list[str] = []
    while batch := rows.next_batch(5):
        found += [decode(raw)["id"] for raw in batch]
    assert len(set(found)) == len(found), found
    assert query.limit is None or len(found) <= query.limit
    return found


if __name__ == "__main__":
    sys.exit(run("query", generate, check, CORPUS))
