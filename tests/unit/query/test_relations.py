"""Relationships: every form of schema-and-store §4.1 and every rule of query §7, look-ups in batches, and the side a join starts from."""

import pytest

from svc.errors import QueryError
from svc.query import parse_query, plan_query, relations
from svc.query.execution import execute
from svc.query.plan import KeyRange, ThroughRelated
from svc.store import Store
from svc.store.schema import Attribute, Relationship, TableDefinition
from svc.store.values.records import decode
from svc.store.writing.bulk_write import load_records
from tests.support.shop import FakeTable, shop

SEAT = TableDefinition(
    "Seat",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("showId", "ID", indexed=True),
        Attribute("show", "Show", relationship=Relationship("Show", from_="showId")),
        Attribute("place", "String", indexed=True),
        Attribute("price", "Int", indexed=True),
        Attribute("stock", "Int"),
        Attribute("guestIds", "ID", elements=True, indexed=True),
        Attribute("guests", "Guest", elements=True, relationship=Relationship("Guest", from_="guestIds")),
        Attribute("lastId", "ID"),
        Attribute("last", "Guest", relationship=Relationship("Guest", from_="lastId")),
    ),
)
SHOW = TableDefinition(
    "Show",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("title", "String", indexed=True),
        Attribute("hall", "String"),
        Attribute("seats", "Seat", elements=True, relationship=Relationship("Seat", to="showId")),
        Attribute("partId", "ID", indexed=True),
        Attribute("whole", "Show", relationship=Relationship("Show", from_="partId")),
        Attribute("parts", "Show", elements=True, relationship=Relationship("Show", to="partId")),
        Attribute("sameHall", "Seat", elements=True, relationship=Relationship("Seat", from_="hall", to="place")),
    ),
)
GUEST = TableDefinition(
    "Guest",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String"),
        Attribute("seats", "Seat", elements=True, relationship=Relationship("Seat", to="guestIds")),
        Attribute("lasts", "Seat", elements=True, relationship=Relationship("Seat", to="lastId")),
    ),
)
SEATS = [
    {"id": "1", "showId": "x", "place": "A", "price": 5, "stock": 1, "guestIds": ["g2", "gone", "g1"], "lastId": "g1"},
    {"id": "2", "showId": "x", "place": "B", "price": 9, "stock": 2, "guestIds": ["g1", "g1"]},
    {"id": "3", "showId": "y", "place": "A", "price": 9, "stock": 1, "guestIds": [], "lastId": "g1"},
    {"id": "4", "showId": "gone", "place": "C", "price": 5, "guestIds": [None, "g3"], "lastId": "gone"},
    {"id": "5", "showId": None, "price": 7, "lastId": None},
    {"id": "6", "price": 7},
]
SHOWS = [
    {"id": "x", "title": "Opera", "hall": "A"},
    {"id": "y", "title": "Dance", "hall": "B", "partId": "x"},
    {"id": "z", "title": "Talk", "partId": "x"},
]
GUESTS = [{"id": "g1", "name": "Ann"}, {"id": "g2", "name": "Bob"}, {"id": "g3", "name": "Cas"}, {"id": "g4"}]
DATA = {"Seat": (SEAT, SEATS), "Show": (SHOW, SHOWS), "Guest": (GUEST, GUESTS)}


@pytest.fixture(params=["fake", "store"])
def tables(request, tmp_path):
    """name -> table, and "txn"."""
    if request.param == "fake":
        database = type("Database", (), {"tables": {}, "tables_version": 0})()
        yield {name: FakeTable(definition, database, records) for name, (definition, records) in DATA.items()} | {"txn": None}
        return
    store = Store(tmp_path)
    database = store.open_database("data")
    found = {name: database.define_table(definition) for name, (definition, _) in DATA.items()}
    for name, (_, records) in DATA.items():
        for _ in load_records(found[name], records, validate=False):
            pass
    yield found | {"txn": database.snapshot()}
    store.close()


def rows(text, table, txn=None, *, json=True, **options):
    plan = plan_query(parse_query(text, table.attributes.__contains__), table, txn, **{"allow_full_scan": True, **options})
    running = execute(plan, txn, json=json)
    found = []
    while not running.done:
        found += running.step(10)
    return found


def ids(name, text, tables):
    return "".join(sorted(decode(raw)["id"] for raw in rows(text, tables[name], tables["txn"])))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        # from: one record, absent when the key is null, missing or dangling
        ("Seat", "show.title=Opera", "12"),
        ("Seat", "show.title!=Opera", "3"),
        ("Seat", "show.hall==null", ""),
        ("Seat", "show.id=gone", ""),
        ("Seat", "show.title==null", ""),
        # from a list
        ("Seat", "guests.name=Ann", "12"),
        ("Seat", "guests.name=Cas", "4"),
        ("Seat", "guests.name==null", ""),
        # to
        ("Show", "seats.price=5", "x"),
        ("Show", "seats.price=9", "xy"),
        ("Show", "seats.stock=1", "xy"),
        # to, where the foreign key is a list
        ("Guest", "seats.price=9", "g1"),
        ("Guest", "seats.place=A", "g1g2"),
        # to, where the foreign key has no index
        ("Guest", "lasts.price=9", "g1"),
        ("Seat", "last.name=Ann", "13"),
        # from and to
        ("Show", "sameHall.price=9", "xy"),
        ("Show", "sameHall.id=2", "y"),
        # a tree inside one table
        ("Show", "whole.title=Opera", "yz"),
        ("Show", "parts.title=Talk", "x"),
        ("Show", "parts.parts.title=Talk", ""),
        # paths of any depth
        ("Seat", "show.whole.title=Opera", "3"),
        ("Seat", "show.seats.guests.name=Bob", "12"),
        ("Guest", "seats.show.parts.title=Dance", "g1g2"),
        # conditions of one AND group on one relationship: one record
        ("Show", "seats.price=9&seats.stock=1", "y"),
        ("Show", "seats.price=5&seats.place=B", ""),
        ("Show", "sameHall.price=5&sameHall.stock=1", "x"),
        ("Seat", "guests.name=Ann&guests.id=g2", ""),
        # across groups they are independent
        ("Show", "seats[price=5]&seats[place=B]", "x"),
        ("Seat", "guests[name=Ann]&guests[id=g2]", "1"),
        ("Show", "[seats.price=5]&[seats.place=B]", "x"),
        ("Show", "(seats.price=5)&(seats.place=B)", "x"),
        ("Show", "[seats.price=5]&seats.place=B", "x"),
        ("Show", "seats.price=5&[[seats.place=B]]", "x"),
        ("Show", "[seats.price=5&seats.stock=1]&[seats.price=9&seats.stock=2]", "x"),
        ("Show", "[seats.price=5&seats.stock=2]&seats.price=9", ""),
        ("Seat", "show[(seats.price=5)&(seats.place=B)]", "12"),
        ("Show", "seats.price=5|seats.price=9", "xy"),
        # relation filters
        ("Show", "seats[price=gt=4&sort(-price)&limit(1)]", "xy"),
        ("Show", "seats[price=5|stock=1]", "xy"),
        ("Show", "seats[limit(0)]", ""),
        ("Show", "seats[sort(price)]", "xy"),
        ("Seat", "show[title=Opera]&price=9", "2"),
    ],
)
def test_conditions(tables, name, text, expected):
    assert ids(name, text, tables) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        # left join: left out when null or dangling, [] for many
        ("Seat", "select(id,show{title})&sort(id)", ["Opera", "Opera", "Dance", None, None, None]),
        ("Show", "select(id,seats{id})&sort(id)", ["12", "3", ""]),
        # many-to-many in the order of the array; dangling keys are skipped
        ("Seat", "select(id,guests{id})&sort(id)", ["g2g1", "g1g1", "", "g3", "", ""]),
        ("Guest", "select(id,seats{id})&sort(id)", ["12", "1", "4", ""]),
        ("Guest", "select(id,lasts{id})&sort(id)", ["13", "", "", ""]),
        ("Show", "select(id,sameHall{id})&sort(id)", ["13", "2", ""]),
        ("Show", "select(id,parts{id})&sort(id)", ["yz", "", ""]),
        # filtered and selected
        ("Show", "seats.price=9&select(id,seats{id})&sort(id)", ["2", "3"]),
        ("Show", "seats.price=ge=5&seats.stock=1&select(id,seats{id})&sort(id)", ["1", "3"]),
        ("Show", "seats[price=5]&seats[place=B]&select(id,seats{id})", ["12"]),
        ("Show", "[seats.price=5]&[seats.place=B]&select(id,seats{id})", ["12"]),
        ("Show", "[seats.price=9]&select(id,seats{id})&sort(id)", ["2", "3"]),
        ("Show", "(seats.price=5|seats.place=B)&select(id,seats{id})", ["12"]),
        ("Show", "(seats.price=5|title=Dance)&select(id,seats{id})&sort(id)", ["12", "3"]),
        ("Show", "seats[sort(price)]&select(id,seats{id})&sort(id)", ["12", "3"]),
        ("Show", "sort(-seats.price)&select(id,seats{id})&id=x", ["21"]),
        # restricted, ordered, capped inside select
        ("Show", "id=x&select(id,seats[sort(-price)&select(id,)])", ["21"]),
        ("Show", "id=x&select(id,seats[sort(-price)&limit(1)&select(id,)])", ["2"]),
        ("Show", "id=x&select(id,seats[limit(1,2)&select(id,)])", ["2"]),
        ("Show", "id=x&select(id,seats[price=5&select(id,)])", ["1"]),
        ("Show", "id=x&seats.price=9&select(id,seats[stock=1&select(id,)])", [""]),
        ("Show", "id=x&select(id,seats[guests.name=Bob&select(id,)])", ["1"]),
        ("Show", "select(id,seats[price=99&select(id,)])&sort(id)", ["", "", ""]),
    ],
)
def test_selection(tables, name, text, expected):
    found = []
    for row in rows(text, tables[name], tables["txn"]):
        values = [value for key, value in row.items() if key != "id"]
        if not values:
            found.append(None)
        else:
            found.append("".join([each["id"] for each in values[0]]) if isinstance(values[0], list) else values[0]["title"])
    assert found == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Seat", "id=1&select(show)", [{"id": "x", "title": "Opera", "hall": "A"}]),
        ("Seat", "id=4&select(show)", [None]),
        ("Seat", "id=1&select(show.title,guests.name)", [{"show.title": "Opera", "guests.name": ["Bob", "Ann"]}]),
        ("Seat", "id=4&select(id,show.title)", [{"id": "4"}]),
        ("Seat", "id=1&select([show.title,last{name}])", [["Opera", {"name": "Ann"}]]),
        ("Seat", "id=1&select(show[title=Dance],id)", [{"id": "1"}]),
        ("Seat", "id=3&select(show[select(title)],id)", [{"show": "Dance", "id": "3"}]),
        ("Seat", "id=3&select(*,show{seats{id}})", [SEATS[2] | {"show": {"seats": [{"id": "3"}]}}]),
        (
            "Guest",
            "id=g2&select(seats{id,show{title,parts{title}}})",
            [[{"id": "1", "show": {"title": "Opera", "parts": [{"title": "Dance"}, {"title": "Talk"}]}}]],
        ),
        ("Seat", "id=1&show.seats.price=9&select(show{seats{id}})", [{"seats": [{"id": "2"}]}]),
    ],
)
def test_shapes(tables, name, text, expected):
    assert rows(text, tables[name], tables["txn"]) == expected
    assert rows(text, tables[name], tables["txn"], json=False) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Seat", "sort(show.title,id)", "456312"),
        ("Seat", "sort(-show.title,-id)", "213654"),
        ("Seat", "sort(guests.name)", "356124"),
        ("Seat", "sort(-guests.name)", "412356"),
        ("Show", "sort(seats.price,id)", "zxy"),
        ("Show", "sort(-parts.title)", "xyz"),
        ("Guest", "sort(-seats.show.title,id)", "g1g2g3g4"),
        ("Seat", "sort(show.id)", "564312"),
    ],
)
def test_order(tables, name, text, expected):
    found = rows(text, tables[name], tables["txn"])
    ordered = "".join([decode(raw)["id"] for raw in found])
    if text == "sort(show.id)":
        assert ordered == "456123"
    else:
        assert ordered == expected


@pytest.mark.parametrize("text", ["show=x", "show==null", "guests=g1", "sort(show)", "show.seats=1"])
def test_a_bare_relationship_is_no_condition(tables, text):
    with pytest.raises(QueryError) as caught:
        rows(text, tables["Seat"], tables["txn"])
    assert caught.value.code == "UNUSABLE_OPERATOR"


def test_keys_of_several_segments():
    database = type("Database", (), {"tables": {}, "tables_version": 0})()
    places = TableDefinition("Place", attributes=(Attribute("id", "ID", primary_key=True), Attribute("n", "Int")), split_segments=True)
    seats = TableDefinition(
        "Seat",
        attributes=(
            Attribute("id", "ID", primary_key=True),
            Attribute("at", "ID"),
            Attribute("place", "Place", relationship=Relationship("Place", from_="at")),
        ),
    )
    FakeTable(places, database, [{"id": ["a", "b"], "n": 1}, {"id": "c", "n": 2}])
    table = FakeTable(seats, database, [{"id": "1", "at": "a/b"}, {"id": "2", "at": "c"}, {"id": "3", "at": "a"}])
    assert rows("select(id,place{n})", table) == [{"id": "1", "place": {"n": 1}}, {"id": "2", "place": {"n": 2}}, {"id": "3"}]


# batches and memory


class Counting:
    """Counts what a table is asked for."""

    def __init__(self, table, monkeypatch) -> None:
        self.keys: list[bytes] = []
        get_many = table.get_many

        def counted(keys, txn):
            keys = list(keys)
            self.keys += keys
            return get_many(keys, txn)

        monkeypatch.setattr(table, "get_many", counted)


MANY = [
    {"id": f"{n:04}", "price": n, "name": "ab"[n % 2], "brandId": f"b{n % 5}", "resellerIds": [f"b{n % 5}", f"b{n % 3}"]}
    for n in range(600)
]
BRANDS = [{"id": f"b{n}", "name": f"n{n % 2}", "country": "DE"} for n in range(7)]


@pytest.mark.parametrize(
    "text",
    [
        "brand.country=DE&price=ge=0&select(id,brand{name})&sort(brand.name)",
        "price=lt=50&brand.country=DE&brand.name=n0&select(brand{name,country})",
        "resellers.country=DE&price=ge=0&select(id,brand,resellers{name})",
        "sort(-brand.name)&price=ge=0&select(brand{name},resellers)",
    ],
)
def test_each_related_record_is_looked_up_once(monkeypatch, text):
    products, brands = shop(MANY, BRANDS)
    counting = Counting(brands, monkeypatch)
    assert rows(text, products)
    assert len(counting.keys) == len(set(counting.keys)) <= 5


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(relations, "MEMO_BYTES", 200)
    monkeypatch.setattr(relations, "MEMO_ENTRIES", 2)
    products, _ = shop(MANY, BRANDS)
    expected = [{"id": record["id"], "brand": {"name": f"n{int(record['brandId'][1]) % 2}"}} for record in MANY]
    assert rows("brand.country=DE&price=ge=0&sort(id)&select(id,brand{name})", products) == expected


def test_wide_relationships_make_short_steps():
    products, brands = shop(
        [{"id": f"{n:05}", "brandId": f"b{n % 40:02}", "price": n} for n in range(12_000)],
        [{"id": f"b{n:02}", "name": "n"} for n in range(40)],
    )
    plan = plan_query(parse_query("select(id,products{id})"), brands)
    rows_ = execute(plan, None, json=True)
    found, steps = [], []
    while not rows_.done:
        before = rows_.examined
        found += rows_.step(1000)
        steps.append(rows_.examined - before)
    assert len(found) == 40 and all(len(row["products"]) == 300 for row in found)
    assert max(steps) <= 8 * 301 + 40, "each brand looks up 300 products"
    assert products is not None


def test_an_unindexed_relationship_is_read_in_slices():
    products, brands = shop([{"id": f"{n:05}", "brandId": f"b{n % 3}"} for n in range(3000)], [{"id": f"b{n}"} for n in range(3)])
    del products.indexes["brandId"]
    running = execute(plan_query(parse_query("select(id,products{id})"), brands), None)
    steps = 0
    while not (found := running.step(10)):
        assert products.scanned <= 512 * (steps + 1)
        steps += 1
    assert steps >= 5 and [len(row["products"]) for row in found] == [1000] * 3


def test_an_unindexed_relationship_is_read_once_however_often_it_is_followed():
    products, brands = shop([{"id": str(n), "brandId": "x"} for n in range(3)], [{"id": "x"}])
    del products.indexes["brandId"]
    running = execute(plan_query(parse_query("sort(products.id)&select(id,products{id})"), brands, allow_full_scan=True), None, json=True)
    found = []
    while not running.done:
        found += running.step(10)
    assert found == [{"id": "x", "products": [{"id": "0"}, {"id": "1"}, {"id": "2"}]}]
    assert products.scanned == 3


# the side from which a join starts


def examined(text, table):
    running = execute(plan_query(parse_query(text), table, None, allow_full_scan=True), None)
    while not running.done:
        running.step(100)
    return running.examined


@pytest.fixture(scope="module")
def market():
    """20,000 products of 100 brands; a brand has 200 products, a name is that of 2 brands, a price that of 2 products."""
    return shop(
        [
            {"id": f"{n:05}", "brandId": f"b{n % 100:02}", "price": n // 2, "name": f"n{n // 100 % 4}", "stock": n // 100 % 10}
            for n in range(20_000)
        ],
        [{"id": f"b{n:02}", "name": f"n{n % 50:02}", "country": "DE" if n else "FR"} for n in range(100)],
    )


@pytest.mark.parametrize(
    ("text", "starts_there", "most"),
    [
        ("brand.name=n07", True, 500),  # 2 brands, their 400 products
        ("brand.country=FR", True, 400),  # no index: the 100 brands are read, 200 products
        ("brand.name=n07&price=5", False, 10),  # 2 products, their brands
        ("brand.name=n07&name=n1", True, 500),  # 400 products through the brands, 5000 through the name
        ("brand.country=DE&price=lt=50", False, 250),  # 100 products, at most 100 brands
        ("brand.country=DE&id=00001", False, 10),
        ("brand.name=n07&sort(price)&limit(5)", False, 400),  # the 5 are met early among the prices
        ("brand.name=n07&sort(price)&limit(50)", True, 500),
        ("brand.country=DE&sort(price)&limit(5)", False, 200),  # nearly all match: walk the prices
    ],
)
def test_a_join_to_one_starts_from_the_more_selective_side(market, text, starts_there, most):
    products, _ = market
    plan = plan_query(parse_query(text), products, None, allow_full_scan=True)
    assert isinstance(plan.access, ThroughRelated) is starts_there
    assert examined(text, products) <= most


@pytest.mark.parametrize(
    ("text", "starts_there", "most"),
    [
        ("products.price=5", True, 5),  # 2 products, their brands
        ("products.price=5&name=n07", False, 500),  # 2 brands, against 4 look-ups through the products: the cheaper one
        ("products.price=lt=500&id=b07", False, 250),
        ("products.stock=3", False, 2500),  # no index: 100 brands and a product or more of each, not 20,000 products
        ("products.name=n1&sort(name)&limit(3)", False, 700),
    ],
)
def test_a_join_to_many_starts_from_the_more_selective_side(market, text, starts_there, most):
    _, brands = market
    plan = plan_query(parse_query(text), brands, None, allow_full_scan=True)
    assert isinstance(plan.access, ThroughRelated) is starts_there
    assert examined(text, brands) <= most


def test_a_small_table_is_read_rather_than_a_large_one_it_leads_to(market):
    products, brands = market
    assert plan_query(parse_query("products.stock=3"), brands).access == KeyRange()
    assert isinstance(plan_query(parse_query("brand.country=FR"), products).access, ThroughRelated)
