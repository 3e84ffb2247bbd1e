"""svc.query.aggregate, grouping, numbers: counts, facets and groups, from indexes and from records."""

from datetime import UTC, datetime
from fractions import Fraction

import pytest

from svc.clock import FakeClock
from svc.errors import QueryError
from svc.query import grouping, parse_query, plan_query
from svc.query.aggregate import MAX_EXPIRED, method_of
from svc.query.execution import execute, result_columns
from svc.query.nodes import Aggregate, Query
from svc.query.numbers import Average, Extreme, Sum
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition
from svc.store.writing.bulk_write import load_records
from tests.support.rows import next_rows
from tests.support.shop import FakeTable, brand_definition, product_definition, shop

MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)
LONG = "x" * 300
PRODUCTS = [
    {
        "id": "1",
        "name": "Keyboard",
        "price": 49.5,
        "tags": ["usb", "desk"],
        "brandId": "b1",
        "stock": 3,
        "specs": {"color": "red", "n": [1, 2]},
    },
    {"id": "2", "name": "Mouse", "price": 25, "tags": ["usb", "usb"], "brandId": "b1", "listDate": MOMENT, "any": 5},
    {"id": "3", "name": LONG + "a", "price": 25, "tags": [], "brandId": "b2", "stock": 3, "any": True},
    {"id": "4", "name": LONG + "b", "price": None, "brandId": "gone", "any": "5", "specs": {"color": "red"}},
    {"id": "5", "name": None, "stock": 0, "specs": "red", "any": {"no": "place"}, "tags": [None]},
]
BRANDS = [{"id": "b1", "name": "Acme", "country": "DE"}, {"id": "b2", "name": "Beta"}]


@pytest.fixture(params=["fake", "store"])
def tables(request, tmp_path):
    """(products, brands, transaction): the fake, and the real thing."""
    if request.param == "fake":
        yield (*shop(PRODUCTS, BRANDS), None)
        return
    store = Store(tmp_path)
    database = store.open_database("data")
    found = []
    for definition, records in ((product_definition(), PRODUCTS), (brand_definition(), BRANDS)):
        table = database.define_table(definition)
        for _ in load_records(table, records, validate=False):
            pass
        found.append(table)
    yield (*found, database.snapshot())
    store.close()


def planned(text, table, txn=None, **options):
    return plan_query(parse_query(text, table.attributes.__contains__), table, txn, **{"allow_full_scan": True, **options})


def rows(text, table, txn=None, *, json=False, batch=2, **options):
    running = execute(planned(text, table, txn, **options), txn, json=json)
    found = []
    while part := next_rows(running, batch):
        assert len(part) <= batch
        found += part
    assert running.done and running.step(1) == [] and running.next_cursor() is None
    return found


def pairs(text, tables, **options):
    return [tuple(row.values()) for row in rows(text, tables[0], tables[2], **options)]


@pytest.mark.parametrize(
    ("text", "count", "method"),
    [
        ("count()", 5, "entries"),
        ("price=25&count()", 2, "entries"),
        ("price=gt=20&count()", 3, "entries"),
        ("price==null&count()", 2, "entries"),
        ("price=gt=30&price=lt=3&count()", 0, "records"),
        ("name=" + LONG + "a&count()", 1, "records"),
        ("tags=usb&count()", 2, "entries"),
        ("tags=gt=a&count()", 2, "records"),
        ("stock=3&count()", 2, "records"),
        ("price=25&stock=3&count()", 1, "records"),
        ("brand.name=Acme&count()", 2, "records"),
        ("price=25|stock=0&count()", 3, "records"),
        ("id=sw=1&count()", 1, "records"),
        ("limit(0)&count()", 5, "entries"),
    ],
)
def test_count(tables, text, count, method):
    assert rows(text, tables[0], tables[2]) == [{"count": count}]
    assert method_of(planned(text, tables[0], tables[2])) == method


@pytest.mark.parametrize(
    ("text", "expected", "method"),
    [
        ("facet(price)", [(None, 2), (25, 2), (49.5, 1)], "values"),
        ("facet(tags)", [("usb", 2), (None, 2), ("desk", 1)], "values"),
        ("facet(listDate)", [(None, 4), (MOMENT, 1)], "values"),
        ("facet(name)&sort(value)", [(None, 1), ("Keyboard", 1), ("Mouse", 1), (LONG + "a", 1), (LONG + "b", 1)], "values"),
        ("facet(any)", [(None, 1), (True, 1), (5, 1), ("5", 1)], "values"),
        ("facet(stock)", [(3, 2), (None, 2), (0, 1)], "records"),
        ("facet(specs.color)", [(None, 3), ("red", 2)], "records"),
        ("facet(specs.n)", [(None, 4), (1, 1), (2, 1)], "records"),
        ("facet(brand.name)", [(None, 2), ("Acme", 2), ("Beta", 1)], "records"),
        ("facet(id)&limit(2)", [("1", 1), ("2", 1)], "records"),
        ("price=ge=25&facet(price)", [(25, 2), (49.5, 1)], "values"),
        ("price=25&facet(tags)", [("usb", 1)], "records"),
        ("tags=usb&facet(tags)", [("usb", 2), ("desk", 1)], "records"),
        ("facet(price)&sort(-value)&limit(1,3)", [(25, 2), (None, 2)], "values"),
        ("facet(price)&sort(count,-value)", [(49.5, 1), (25, 2), (None, 2)], "values"),
        ("price=99&facet(price)", [], "values"),
        ("facet(price)&limit(0)", [], "values"),
    ],
)
def test_facet(tables, text, expected, method):
    assert sorted(pairs(text, tables), key=str) == sorted(expected, key=str)
    if "limit" in text or "sort" in text or expected[:1] == [(None, 2)]:
        assert pairs(text, tables) == expected
    assert method_of(planned(text, tables[0], tables[2])) == method


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("group(price)", [(None, 2), (25, 2), (49.5, 1)]),
        ("group(price;count)", [(None, 2), (25, 2), (49.5, 1)]),
        ("group(stock;sum(price),avg(price))", [(None, 25, 25), (0, 0, None), (3, 74.5, 37.25)]),
        ("group(stock,price)", [(None, None, 1), (None, 25, 1), (0, None, 1), (3, 25, 1), (3, 49.5, 1)]),
        ("group(brand.name;count,sum(stock))", [(None, 2, 0), ("Acme", 2, 3), ("Beta", 1, 3)]),
        ("group(brand.country;min(price),max(price))", [(None, 25, 25), ("DE", 25, 49.5)]),
        ("group(tags;sum(price))", [(None, 0), ("desk", 49.5), ("usb", 74.5)]),
        ("group(stock;min(name),max(any))", [(None, "Mouse", "5"), (0, None, None), (3, "Keyboard", True)]),
        ("group(stock;sum(specs.n),max(specs.n))", [(None, 0, None), (0, 0, None), (3, 3, 2)]),
        ("group(stock;count,sum(price))&sort(-sum.price)&limit(1)", [(3, 2, 74.5)]),
        ("group(stock;max(listDate))", [(None, MOMENT), (0, None), (3, None)]),
        ("group(stock;sum(brand.id),max(brand.name))", [(None, 0, "Acme"), (0, 0, None), (3, 0, "Beta")]),
    ],
)
def test_group(tables, text, expected):
    assert pairs(text, tables) == expected


def test_names_in_the_rows(tables):
    assert rows("group(stock,brand.name;count,sum(price))&limit(1)", tables[0], tables[2]) == [
        {"stock": None, "brand.name": None, "count": 1, "sum.price": 0}
    ]
    plan = planned("group(stock,brand.name;count,sum(price))", tables[0])
    assert result_columns(plan) == ("stock", "brand.name", "count", "sum.price") and plan.is_shaped
    assert result_columns(planned("facet(price)", tables[0])) == ("value", "count")
    assert result_columns(planned("count()", tables[0])) == ("count",)


@pytest.mark.parametrize(
    ("functions", "expected", "method"),
    [
        ((("count", None), ("min", ("price",)), ("max", ("price",))), {"count": 5, "min.price": 25, "max.price": 49.5}, "ends"),
        ((("min", ("tags",)), ("max", ("tags",))), {"min.tags": "desk", "max.tags": "usb"}, "ends"),
        ((("min", ("listDate",)), ("max", ("listDate",))), {"min.listDate": MOMENT, "max.listDate": MOMENT}, "ends"),
        ((("max", ("name",)),), {"max.name": LONG + "b"}, "ends"),
        ((("max", ("any",)),), {"max.any": "5"}, "records"),
        ((("sum", ("price",)), ("min", ("price",))), {"sum.price": 99.5, "min.price": 25}, "records"),
        ((("max", ("image",)),), {"max.image": None}, "records"),
    ],
)
def test_everything_as_one_group(tables, functions, expected, method):
    plan = plan_query(Query(aggregate=Aggregate("group", (), functions)), tables[0], tables[2])
    assert method_of(plan) == method
    assert next_rows(execute(plan, tables[2]), 9) == [expected]


def test_one_group_of_nothing():
    table, _ = shop()
    functions = (("count", None), ("sum", ("price",)), ("avg", ("price",)), ("max", ("price",)))
    plan = plan_query(Query(aggregate=Aggregate("group", (), functions)), table)
    assert next_rows(execute(plan, None), 9) == [{"count": 0, "sum.price": 0, "avg.price": None, "max.price": None}]
    plan = plan_query(Query(aggregate=Aggregate("group", (), (("max", ("price",)),))), table)
    assert next_rows(execute(plan, None), 9) == [{"max.price": None}]
    assert rows("count()", table) == [{"count": 0}]
    assert rows("facet(price)", table) == [] == rows("group(stock;sum(price))", table)


def test_json_has_no_dates(tables):
    assert rows("facet(listDate)&limit(1,2)", tables[0], tables[2], json=True) == [{"value": "2024-01-05T20:07:27.955Z", "count": 1}]
    found = rows("group(stock;max(listDate))&limit(1)", tables[0], tables[2], json=True)
    assert found == [{"stock": None, "max.listDate": "2024-01-05T20:07:27.955Z"}]


def test_equal_numbers_are_one_value_and_dates_among_them_are_numbers():
    moment = datetime(1970, 1, 1, tzinfo=UTC)
    table, _ = shop(
        [{"id": str(n), "any": value, "specs": value} for n, value in enumerate([moment, 0, 0.0, False, moment.replace(year=1971)])]
    )
    expected = [{"value": 0, "count": 3}, {"value": False, "count": 1}, {"value": moment.replace(year=1971), "count": 1}]
    assert rows("facet(any)", table) == rows("facet(specs)", table) == expected
    assert [type(row["value"]) for row in rows("facet(any)", table)] == [int, bool, datetime]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("facet(foo)", "UNKNOWN_ATTRIBUTE", "foo is not a defined attribute"),
        ("facet(brand)", "UNUSABLE_OPERATOR", "brand is a relationship, an attribute of it is needed (brand.<attribute>)"),
        ("group(stock;sum(resellers.name))", "UNUSABLE_OPERATOR", "resellers leads to many records"),
        ("facet(brand.foo)", "UNKNOWN_ATTRIBUTE", "foo is not a defined attribute"),
        ("facet(price)&sort(price)", "UNKNOWN_ATTRIBUTE", "price is not in the rows of facet(...) (these hold value, count)"),
        ("count()&sort(id)", "UNKNOWN_ATTRIBUTE", "id is not in the rows of count(...) (these hold count)"),
        ("stock=1&count()", "NOT_INDEXED", '"stock" is not indexed'),
        ("stock=1&facet(price)", "NOT_INDEXED", '"stock" is not indexed'),
    ],
)
def test_refusals(text, code, message):
    table, _ = shop()
    with pytest.raises(QueryError) as caught:
        planned(text, table, allow_full_scan=False)
    assert caught.value.code == code and caught.value.message.startswith(message)


def test_nodes_that_no_parser_makes():
    table, _ = shop()
    for aggregate in (
        Aggregate("group", (("stock",),), (("median", ("price",)),)),
        Aggregate("group", (("stock",),), (("sum", None),)),
        Aggregate("group", (("stock",),), (("count", ("stock",)),)),
        Aggregate("group", (("stock",), ("stock",)), (("count", None),)),
    ):
        with pytest.raises(QueryError) as caught:
            plan_query(Query(aggregate=aggregate), table)
        assert caught.value.code == "QUERY_SYNTAX"
    with pytest.raises(QueryError):
        plan_query(Query(aggregate=Aggregate("count"), after="x"), table)


def test_without_conditions_nothing_needs_an_index():
    table, _ = shop(PRODUCTS)
    for text in ("count()", "facet(stock)", "group(stock,specs.color;sum(price))"):
        rows(text, table, allow_full_scan=False)


def test_an_index_answers_without_records():
    table = FakeTable(product_definition(), records=[{"id": f"{n:04}", "price": n % 7, "name": "a"} for n in range(1000)])
    table.get_many = None
    assert rows("price=3&count()", table) == [{"count": 143}]
    assert len(rows("facet(price)", table)) == 7
    assert rows("group(name)", table) == [{"name": "a", "count": 1000}]
    assert table.scanned == 0


def test_work_is_done_in_slices():
    table = FakeTable(product_definition(), records=[{"id": f"{n:05}", "stock": n % 3000} for n in range(6000)])
    running = execute(planned("group(stock;count,sum(stock))&sort(-sum.stock)&limit(2,4)", table), None)
    steps = 0
    while not (found := running.step(10)):
        assert running.examined <= 1024 * (steps + 1)
        steps += 1
    assert found == [{"stock": 2997, "count": 2, "sum.stock": 5994}, {"stock": 2996, "count": 2, "sum.stock": 5992}]
    assert steps >= 6 and running.done and running.examined == 6000
    running = execute(planned("stock=1&count()", table), None)
    assert running.step(1) == []
    running.close()
    assert running.done and next_rows(running, 1) == []


def test_too_many_groups(monkeypatch):
    monkeypatch.setattr(grouping, "MAX_GROUPS", 10)
    table = FakeTable(product_definition(), records=[{"id": f"{n:02}", "price": n} for n in range(11)])
    for text in ("facet(id)", "facet(price)", "group(id;sum(price))"):
        with pytest.raises(QueryError, match="finds more than 10 different values") as caught:
            rows(text, table)
        assert caught.value.code == "QUERY_SYNTAX"
    assert rows("id=le=05&facet(id)&limit(1)", table) == [{"value": "00", "count": 1}]


def test_computed_attributes():
    definition = TableDefinition(
        "T", attributes=(Attribute("id", "ID", primary_key=True), Attribute("half", "Int", computed_from="n // 2"), Attribute("n", "Int"))
    )
    table = FakeTable(definition, records=[{"id": str(n), "n": n} for n in range(5)])
    assert rows("group(half;sum(half))", table) == [{"half": 0, "sum.half": 0}, {"half": 1, "sum.half": 2}, {"half": 2, "sum.half": 2}]


# records that have expired and are not yet removed


@pytest.fixture
def expiring(tmp_path):
    """20 records, of which the first 8 have expired."""
    clock = FakeClock()
    store = Store(tmp_path, clock=clock)
    table = store.open_database("data").define_table(product_definition())
    transaction = store.begin()
    for n in range(20):
        record = {"price": n % 3, "name": LONG + "abc"[n % 3], "tags": ["a", "b"][: n % 3], "stock": n % 2}
        transaction.put(table, f"{n:02}", record, expires_at=clock.wall() * 1000 + 1000 if n < 8 else None)
    transaction.apply()
    store.commit_turn()
    clock.advance(2.0)
    yield table, store
    store.close()


@pytest.mark.parametrize("most", [MAX_EXPIRED, 3])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count()", [(12,)]),
        ("price=0&count()", [(4,)]),
        ("price=ge=1&count()", [(8,)]),
        ("tags=a&count()", [(8,)]),
        ("price=0&stock=1&count()", [(2,)]),
        ("facet(price)", [(0, 4), (1, 4), (2, 4)]),
        ("price=1&facet(price)", [(1, 4)]),
        ("facet(tags)", [("a", 8), ("b", 4)]),
        ("facet(name)", [(LONG + "a", 4), (LONG + "b", 4), (LONG + "c", 4)]),
        ("group(stock;count,max(id))", [(0, 6, "18"), (1, 6, "19")]),
    ],
)
def test_expired_records_are_not_counted(expiring, monkeypatch, text, expected, most):
    monkeypatch.setattr("svc.query.aggregate.MAX_EXPIRED", most)
    table, store = expiring
    txn = store.databases["data"].snapshot()
    assert [tuple(row.values()) for row in rows(text, table, txn)] == expected


@pytest.mark.parametrize("most", [MAX_EXPIRED, 3])
def test_the_ends_of_an_index_may_have_expired(expiring, monkeypatch, most):
    monkeypatch.setattr("svc.query.aggregate.MAX_EXPIRED", most)
    table, store = expiring
    transaction = store.begin()
    for n in range(5):
        transaction.put(table, f"x{n}", {"price": 90 + n}, expires_at=1000.0)
        transaction.put(table, f"y{n}", {"price": -90 - n}, expires_at=1000.0)
    transaction.apply()
    store.commit_turn()
    functions = (("count", None), ("min", ("price",)), ("max", ("price",)))
    plan = plan_query(Query(aggregate=Aggregate("group", (), functions)), table)
    assert next_rows(execute(plan, store.databases["data"].snapshot()), 1) == [{"count": 12, "min.price": 0, "max.price": 2}]


# numbers


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1, 2, 3],
        [0.1] * 10,
        [1e308, 1e308, -1e308],
        [1e308] * 3,
        [2**200, 1.5, -(2**200)],
        [1e16, 1, -1e16],
        [2**53 + 1, 0.5],
        [True, None, "5", {"a": 1}, [1, [2], "x", 0.25]],
        [n / 7 for n in range(2000)],
        [1e300, *[1.1] * 1500, -1e300],
    ],
)
def test_sums_are_exact_in_any_order(values):
    numbers = [v for value in values for v in (value if isinstance(value, list) else [value]) if type(v) in (int, float)]
    exact = sum(map(Fraction, numbers), Fraction(0))
    for order in (values, values[::-1]):
        total, average = Sum(), Average()
        for start in range(0, len(order), 100):
            total.add(order[start : start + 100])
            average.add(order[start : start + 100])
        try:
            expected = float(exact)
        except OverflowError:
            expected = int(exact)
        assert total.result() == expected
        assert total.count == len(numbers)
        if not numbers:
            assert average.result() is None
        elif expected < 1e308:
            assert average.result() == float(exact / len(numbers))
    assert type(Sum().result()) is int


def test_whole_sums_are_integers():
    total = Sum()
    total.add([1.5, 2.5])
    assert type(total.result()) is int and total.result() == 4


@pytest.mark.parametrize(
    ("values", "smallest", "largest"),
    [
        ([], None, None),
        ([None, None], None, None),
        ([3, 1.5, 2], 1.5, 3),
        (["b", "a", "B"], "B", "b"),
        (["a", 1, None, True], True, "a"),
        ([b"\xff", "z"], "z", b"\xff"),
        ([[3, 4], 2, [], [None]], 2, 4),
        ([{"a": 1}, 5], 5, 5),
        ([MOMENT, 0], 0, MOMENT),
        ([2**70, 1e30], 2**70, 1e30),
    ],
)
def test_smallest_and_largest_in_the_total_order(values, smallest, largest):
    for order in (values, values[::-1]):
        first, last = Extreme(largest=False), Extreme(largest=True)
        for value in order:
            first.add([value])
            last.add([value])
        assert (first.result(), last.result()) == (smallest, largest)
        assert type(first.result()) is type(smallest)
