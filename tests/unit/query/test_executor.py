from datetime import UTC, datetime

import pytest

from svc.query import QueryCache, execute, parse_query, plan_query
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from svc.store.writing.bulk_write import load_records
from tests.support.rows import next_rows
from tests.support.shop import FakeTable, brand_definition, product_definition, shop

MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)
PRODUCTS = [
    {"id": "1", "name": "Keyboard", "price": 49.5, "tags": ["usb", "desk"], "brandId": "b1", "stock": 3, "specs": {"color": "red"}},
    {
        "id": "2",
        "name": "Mouse",
        "price": 25,
        "tags": ["usb"],
        "brandId": "b1",
        "listDate": MOMENT,
        "specs": [{"color": "red"}, {"color": "blue"}],
    },
    {"id": "3", "name": "Lamp", "price": 25, "tags": [], "brandId": "b2", "resellerIds": ["b2", "gone", "b1"]},
    {"id": "4", "name": "Desk", "price": None, "brandId": "gone", "image": b"\0\1", "extra": 1},
    {"id": "5", "name": None, "stock": 0, "specs": "red", "resellerIds": []},
]
BRANDS = [{"id": "b1", "name": "Acme", "country": "DE"}, {"id": "b2", "name": "Beta"}, {"id": "b3", "name": "Mouse"}]


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


def rows(text, table, txn, *, json=False, batch=2, **options):
    plan = plan_query(parse_query(text, table.attributes.__contains__), table, txn, **{"allow_full_scan": True, **options})
    running = execute(plan, txn, json=json)
    found = []
    while part := next_rows(running, batch):
        assert len(part) <= batch
        found += part
    assert running.done and next_rows(running, 1) == []
    return found


def ids(text, tables, *, brands=False, **options):
    found = rows(text, tables[1 if brands else 0], tables[2], **options)
    return "".join([decode(raw)["id"] for raw in found])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "12345"),
        ("price=25", "23"),
        ("price==null", "45"),
        ("price!=null", "123"),
        ("price!=25", "145"),
        ("price=gt=25", "1"),
        ("price=ge=25&lt=49.5", "23"),
        ("price=gt=null", ""),
        ("name==*e*", None),
        ("name==M*", "2"),
        ("name==*", "1234"),
        ("name=ew=e", "2"),
        ("price=ct=5", "123"),
        ("stock==null", "234"),
        ("tags=usb", "12"),
        ("tags=usb&tags=desk", "1"),
        ("tags!=usb", "345"),
        ("tags==null", "45"),
        ("tags!=null", "123"),
        ("specs.color=red", "12"),
        ("specs.color!=red", "345"),
        ("specs.color==null", "345"),
        ("listDate=2024-01-05T20%3A07%3A27.955Z", "2"),
        ("listDate=gt=2024", "2"),
        ("image==%00%01", "4"),
        ("sort(price)", "45231"),
        ("sort(-price)", "12345"),
        ("sort(-price)&limit(1,3)", "23"),
        ("sort(-price,-name)", "12345"),
        ("sort(-price,name)", "13254"),
        ("sort(stock)", "23451"),
        ("sort(-stock)&limit(2)", "15"),
        ("sort(-id)&limit(2)", "54"),
        ("sort(brand.name)", "45123"),
        ("sort(-brand.country)&limit(2)", "12"),
        ("limit(0)", ""),
        ("limit(4,9)", "5"),
        ("id=3|id=1|price=25", "123"),
        ("(price=25|stock=0)&name!=Lamp", "25"),
        ("brand.name=Acme", "12"),
        ("brand.name=Acme&brand.country=FR", ""),
        ("brand.country==null", "3"),
        ("resellers.name=Acme", "3"),
        ("brand[name=Acme|name=Beta]", "123"),
        ("brand.products.name=Mouse", "12"),
    ],
)
def test_conditions_and_order(tables, text, expected):
    if expected is None:
        with pytest.raises(Exception, match="wildcard can only be used at the end"):
            ids(text, tables)
        return
    found = ids(text, tables)
    assert (found if "sort" in text or "limit" in text else "".join(sorted(found))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("products.price=25", ["b1", "b2"]),
        ("products.price=25&products.name=Lamp", ["b2"]),
        ("products[price=25]&products[name=Keyboard]", ["b1"]),
        ("resold.id=3", ["b1", "b2"]),
        ("namesakes.id=2", ["b3"]),
        ("sort(products.price)", ["b3", "b1", "b2"]),
        ("sort(-products.price)", ["b1", "b2", "b3"]),
    ],
)
def test_joins_from_the_other_side(tables, text, expected):
    found = [decode(raw)["id"] for raw in rows(text, tables[1], tables[2])]
    assert (found if "sort" in text else sorted(found)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select(name)", ["Keyboard", "Mouse", "Lamp", "Desk", None]),
        ("id=1&select(name,)", [{"name": "Keyboard"}]),
        ("id=5&select(price,name,id)", [{"name": None, "id": "5"}]),
        ("id=5&select([id,price])", [["5", None]]),
        ("id=4&select(extra,brand)", [{"extra": 1}]),
        ("id=2&select(listDate)", ["2024-01-05T20:07:27.955Z"]),
        ("id=1&select(specs{color,size})", [{"color": "red"}]),
        ("id=2&select(specs{color},specs.color)", [{"specs": [{"color": "red"}, {"color": "blue"}], "specs.color": ["red", "blue"]}]),
        ("id=1&select($id,$expiresAt)", [{"$id": "1"}]),
        ("id=5&select(*)", [{"id": "5", "name": None, "stock": 0, "specs": "red", "resellerIds": []}]),
        ("id=5&select($record)", [{"id": "5", "name": None, "stock": 0, "specs": "red", "resellerIds": []}]),
        ("id=1&select(name,brand{name,country})", [{"name": "Keyboard", "brand": {"name": "Acme", "country": "DE"}}]),
        ("id=1&select(brand.name)", ["Acme"]),
        ("id=3&select(resellers{name})", [[{"name": "Beta"}, {"name": "Acme"}]]),
        ("id=4&select(id,brand,resellers)", [{"id": "4", "resellers": []}]),
        ("id=1&select(brand{products{name}})", [{"products": [{"name": "Keyboard"}, {"name": "Mouse"}]}]),
        ("id=1&select(name,brand[select(name)])", [{"name": "Keyboard", "brand": "Acme"}]),
    ],
)
def test_selection(tables, text, expected):
    assert rows(text, tables[0], tables[2], json=True) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("products.price=gt=30&select(name,products{name})", [{"name": "Acme", "products": [{"name": "Keyboard"}]}]),
        ("id=b1&select(products[sort(-name)&limit(1)&select(name,)])", [[{"name": "Mouse"}]]),
        ("id=b1&select(products[price=25&select(name)])", [["Mouse"]]),
        ("id=b3&select(id,products)", [{"id": "b3", "products": []}]),
        ("id=b1&sort(-products.name)&select(products{name})", [[{"name": "Mouse"}, {"name": "Keyboard"}]]),
        ("id=b3&select(namesakes{id})", [[{"id": "2"}]]),
    ],
)
def test_selection_of_many_related_records(tables, text, expected):
    assert rows(text, tables[1], tables[2], json=True) == expected


def test_dates_stay_dates_unless_json_is_wanted(tables):
    assert rows("id=2&select(listDate)", tables[0], tables[2]) == [MOMENT]


def test_the_version_of_a_record():
    table, _ = shop(PRODUCTS)
    assert rows("id=1&select($updatedtime)", table, None) == [1000.5]


def test_pairs_whatever_is_selected(tables):
    plan = plan_query(parse_query("price=25&select(name)"), tables[0], tables[2])
    pairs = execute(plan, tables[2]).step_pairs(10)
    assert [(tables[0].get_by(key, tables[2]), decode(raw)["id"]) for key, raw in pairs] == [
        (raw, id_) for (_, raw), id_ in zip(pairs, "23", strict=True)
    ]


def test_a_plan_can_run_again_and_be_left_early(tables):
    plan = plan_query(parse_query("price!=null&sort(-price)&select(id)"), tables[0], tables[2])
    first = execute(plan, tables[2])
    assert next_rows(first, 1) == ["1"]
    first.close()
    assert first.done and next_rows(first, 5) == []
    assert next_rows(execute(plan, tables[2]), 5) == ["1", "2", "3"]
    assert next_rows(execute(plan, tables[2], json=True), 5) == ["1", "2", "3"]


def test_a_limit_reads_no_more_than_it_needs():
    table = FakeTable(product_definition(), records=[{"id": f"{n:04}", "price": n, "name": "ab"[n % 2]} for n in range(1000)])
    for text in ("limit(5)", "sort(-id)&limit(5)"):
        table.scanned = 0
        assert len(rows(text, table, None, batch=50)) == 5
        assert table.scanned <= 6
    for text in ("price=gt=10&limit(5)", "sort(price)&limit(5)", "sort(-price)&limit(5)"):
        table.indexes["price"].scanned = 0
        assert len(rows(text, table, None, batch=50)) == 5
        assert table.indexes["price"].scanned <= 8


def test_a_long_run_of_equal_keys_is_turned_round_without_being_gathered():
    table = FakeTable(product_definition(), records=[{"id": f"{n:04}", "price": n // 400} for n in range(1000)])
    found = [decode(raw)["id"] for raw in rows("sort(-price)", table, None, batch=70)]
    assert found == [f"{n:04}" for n in [*range(800, 1000), *range(400, 800), *range(400)]]
    table.indexes["price"].scanned = 0
    assert [decode(raw)["id"] for raw in rows("sort(-price)&limit(2)", table, None)] == ["0800", "0801"]
    assert table.indexes["price"].scanned < 100


def test_long_texts_are_sorted_in_full():
    texts = ["x" * 300 + end for end in "cab"] + ["x" * 256, "x" * 255 + "y"]
    table = FakeTable(product_definition(), records=[{"id": str(n), "name": text} for n, text in enumerate(texts)])
    assert [decode(raw)["name"] for raw in rows("sort(name)", table, None)] == sorted(texts)
    assert [decode(raw)["name"] for raw in rows("sort(-name)", table, None)] == sorted(texts, reverse=True)


def test_a_sort_with_a_limit_keeps_few():
    table = FakeTable(product_definition(), records=[{"id": f"{n:04}", "stock": n * 7919 % 1009} for n in range(2000)])
    best = sorted(range(2000), key=lambda n: (-(n * 7919 % 1009), n))
    assert [decode(raw)["id"] for raw in rows("sort(-stock)&limit(3,9)", table, None)] == [f"{n:04}" for n in best[3:9]]


def test_list_keys():
    definition = TableDefinition("T", attributes=(Attribute("id", "ID", primary_key=True),), split_segments=True)
    keys = ["a", ["a", "b"], ["a", "b", "c"], ["a", "b", "d", "e"], ["a", "bc"]]
    table = FakeTable(definition, records=[{"id": key} for key in keys])
    assert [decode(raw)["id"] for raw in rows("", table, None, key_prefix="a/b/")] == keys[2:4]
    assert [decode(raw)["id"] for raw in rows("id=a/b", table, None)] == [["a", "b"]]
    assert [decode(raw)["id"] for raw in rows("id!=a/b", table, None)] == [keys[0], *keys[2:]]


def test_computed_attributes():
    definition = TableDefinition(
        "T", attributes=(Attribute("id", "ID", primary_key=True), Attribute("twice", "Int", computed_from="n * 2"))
    )
    table = FakeTable(definition, records=[{"id": str(n), "n": n} for n in (3, 1, 2)])
    assert rows("twice=gt=2&sort(-twice)&select(twice)", table, None) == [6, 4]


def test_the_cache_of_parsed_queries():
    table, _ = shop()
    cache = QueryCache(max_entries=2)
    first = cache.parse("price=5", table)
    assert cache.parse("price=5", table) is first
    cache.parse("price=6", table)
    cache.parse("price=5", table)
    cache.parse("price=7", table)
    assert len(cache) == 2 and cache.parse("price=5", table) is first
    table.definition = product_definition()
    assert cache.parse("price=5", table) is not first
