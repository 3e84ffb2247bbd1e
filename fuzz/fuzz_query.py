"""The query languages: any text and any object is a query or a query fault, and an index changes nothing but the time.

Invariant, for any text; and for any object in place of number 2, if the text is JSON:

1. `parse_query` and `query_from_mapping` return a query or raise QueryError with status 400; nothing else.
2. What is parsed can be printed, and parses to the same nodes again (but for names that hold operator characters, which the tolerance of
   query §2 may read differently in another place, or that have no form inside a call). A fault has its position in what was sent.
3. Planning returns a plan or raises QueryError, and if the plan runs, it finds the same records on a table with indexes as on one
   without; in the same order, if there is a sort. No record comes twice, and a limit is kept. Aggregates have the same rows.
4. What `query_from_mapping` returns has a mapping, from which the same nodes are read.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.errors import QueryError
from svc.query import parse_query, plan_query, print_query, query_from_mapping, query_to_mapping
from svc.query.execution import execute
from svc.query.explain import explain
from svc.query.nodes import Comparator, Query
from svc.query.url import MAX_TEXT
from svc.store.values.records import decode
from tests.support.rows import next_rows
from tests.support.shop import FakeTable, product_definition, shop

CORPUS = Path(__file__).parent / "corpus" / "query"
TOLERATED = re.compile("%(?:7C|7B|7D|3C|3E|5B|5D|28|29|21|2C|2B|3B|3D)", re.IGNORECASE)

NAMES = [attribute.name for attribute in product_definition().attributes]
TOKENS = [name.encode() for name in NAMES]
TOKENS += (
    b"= == === != !== < <= > >= =eq= =ne= =lt= =le= =gt= =ge= =ct= =sw= =ew= =in= & | ( ) [ ] { } , . * + - % []= &lt= &=ge= &gt=".split()
)
TOKENS += b"select( sort( limit( null true number:5 boolean:false string: date:2024-01-05 %7C %5B %28 %2C %26 %00 a b 1 2.5 brand.name [name=a]".split()
TOKENS += b"count() facet( group( ; %3B sum( avg( min( max( ,count after( live() live( facet(name) group(stock;sum(price)) sort(-count) %25 and".split()
TOKENS += b"%3D %3Dgt= %3E select%28 %29= )= ]= _select= _sort= _limit= _offset= _where= _count=exact _live=true _group= _facet= _after= limit(2,)".split()
COMPARATORS = [*map(str, Comparator), "<", "===", "sw", "like"]
ATTRIBUTES: list[object] = [*NAMES, "brand.name", ["brand", "country"], "specs.color", "nope", "*", "$id"]
VALUES: list[object] = [None, True, 0, 1, 2.5, -1, 10**305, "", "a", "ab", "null", "5", "2024-01-05", [1, 2], ["a", "b"], {}, float("nan")]

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
    if corpus and source.random() < 0.6:
        return mutate(source, source.choice(corpus), TOKENS)
    if source.random() < 0.4:
        return json.dumps(made_up(source)).encode()
    return b"".join([source.choice(TOKENS) for _ in range(source.randint(1, 14))])


def made_up(source: random.Random) -> dict[str, object]:
    """A query object, mostly well formed."""

    def conditions(depth: int) -> dict[str, object]:
        if depth and source.random() < 0.3:
            group: dict[str, object] = {"operator": source.choice(("and", "or"))}
            group["conditions"] = [conditions(depth - 1) for _ in range(source.randint(0, 3))]
            if source.random() < 0.3:
                group["attribute"] = source.choice(("brand", "resellers", "name"))
            return group
        leaf = {"attribute": source.choice(ATTRIBUTES), "comparator": source.choice(COMPARATORS), "value": source.choice(VALUES)}
        if source.random() < 0.1:
            leaf.pop(source.choice(list(leaf)))
        return leaf

    def selection(depth: int) -> object:
        if not depth or source.random() < 0.5:
            return source.choice(ATTRIBUTES)
        item: dict[str, object] = {"name": source.choice(("brand", "resellers", "specs")), "select": [selection(depth - 1)]}
        if source.random() < 0.3:
            item.update(limit=source.randint(0, 2), conditions=[conditions(1)])
        return item

    query: dict[str, object] = {"conditions": [conditions(2) for _ in range(source.randint(0, 3))]}
    if source.random() < 0.3:
        query["select"] = [selection(2) for _ in range(source.randint(0, 3))]
    if source.random() < 0.3:
        query["sort"] = {"attribute": source.choice(ATTRIBUTES), "descending": source.random() < 0.5, "next": {"attribute": "id"}}
    if source.random() < 0.3:
        query.update(limit=source.choice((0, 2, 5, -1, True)), offset=source.randint(0, 2))
    if source.random() < 0.2:
        functions = [source.choice(("count", {"sum": "price"}, {"max": "stock"}, {"avg": "price"}, {"min": "nope"})) for _ in range(2)]
        query["aggregate"] = source.choice(("count", {"facet": "name"}, {"group": source.choice(ATTRIBUTES), "functions": functions}))
    if source.random() < 0.1:
        query[source.choice(("foo", "as_array", "operator", "explain", "after", "live"))] = source.choice((*VALUES, "or"))
    return query


def check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    query = maybe_query(lambda: parse_query(text))
    if query is not None:
        if TOLERATED.search(text) is None:
            assert parse_query(print_query(query)) == query
        check_plan(query)
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        return
    query = maybe_query(lambda: query_from_mapping(decoded))
    if query is not None:
        assert query_from_mapping(query_to_mapping(query)) == query
        check_plan(query)


def maybe_query(read: Callable[[], Query]) -> Query | None:
    try:
        return read()
    except QueryError as error:
        assert error.status_code == 400, error.status_code
        assert error.position is None or 0 <= error.position <= MAX_TEXT, error.position
        error.message.encode()
        assert len(error.message) < 2000, len(error.message)
        return None


def check_plan(query: Query) -> None:
    found = outcome(query, INDEXED)
    expected = outcome(query, PLAIN)
    if isinstance(found, str) or (query.aggregate is None and (query.sort or query.where is None)):
        assert found == expected, (found, expected)
        return
    assert isinstance(expected, list) and len(found) == len(expected), (found, expected)
    if query.limit is None:
        assert sorted(found) == sorted(expected), (found, expected)


def outcome(query: Query, table: FakeTable) -> list[str] | str:
    """The ids that the plan finds, or the rows that it makes of them; or the code of the fault."""
    try:
        plan = plan_query(replace(query, select=None), table, None, allow_full_scan=True)
        if query.select is not None:
            next_rows(execute(plan_query(query, table, None, allow_full_scan=True), None, json=True), 3)
    except QueryError as error:
        return error.code
    explain(plan)
    rows = execute(plan, None)
    found: list[str] = []
    while batch := next_rows(rows, 5):
        found += map(repr, batch) if query.aggregate is not None else [decode(raw)["id"] for raw in batch]
    assert len(set(found)) == len(found), found
    limited = query.limit is not None and (query.aggregate is None or query.aggregate.kind != "count")  # a count is one row
    assert not limited or len(found) <= query.limit
    return found


if __name__ == "__main__":
    sys.exit(run("query", generate, check, CORPUS))
