"""svc.query.cursor, and pages: what a cursor holds, and that a page costs what its rows cost."""

import base64

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from svc.errors import QueryError
from svc.query import parse_query, plan_query
from svc.query.cursor import MAX_CHARACTERS, decode_cursor, encode_cursor
from svc.query.execution import execute
from svc.query.nodes import Query, SortKey
from svc.query.plan import Order, Position
from svc.store import Store
from svc.store.values.keys import encode_key
from svc.store.values.records import decode
from svc.store.writing.bulk_write import load_records
from tests.support.rows import next_rows
from tests.support.shop import FakeTable, brand_definition, product_definition, shop

PRODUCTS = [
    {
        "id": f"{n:03}",
        "name": "abc"[n % 3] if n % 7 else "x" * 300 + str(n % 2),
        "price": n // 20 if n % 11 else None,
        "tags": ["x", "y", "z"][n % 3 : n % 5],
        "stock": n % 6,
        "brandId": f"b{n % 3}",
    }
    for n in range(100)
]
BRANDS = [{"id": f"b{n}", "name": f"n{n % 2}"} for n in range(3)]


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


def page(text, table, txn=None, after=None):
    """(ids, cursor, entries examined)."""
    query = parse_query(text + (f"&after({after})" if after is not None else ""), table.attributes.__contains__)
    rows = execute(plan_query(query, table, txn, allow_full_scan=True), txn)
    found = []
    while some := next_rows(rows, 3):
        found += [decode(raw)["id"] for raw in some]
    examined = rows.examined
    cursor = rows.next_cursor()
    rows.close()
    assert rows.next_cursor() is None
    return found, cursor, examined


def walk(text, table, txn=None, most=200):
    found, cursor, examined = page(text, table, txn)
    pages = [found]
    while cursor is not None:
        assert len(pages) < most
        found, cursor, examined = page(text, table, txn, cursor)
        pages.append(found)
    return pages, examined


def whole(text, table, txn=None):
    return page(text, table, txn)[0]


@pytest.mark.parametrize("limit", [1, 7, 25])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "sort(id)",
        "sort(-id)",
        "sort(price)",
        "sort(-price)",
        "sort(name)",
        "sort(-name)",
        "sort(price,-name)",
        "sort(-price,stock,-id)",
        "sort(stock)",
        "sort(-stock,name)",
        "sort(brand.name)",
        "sort(-brand.name,price)",
        "price=2",
        "price=gt=1",
        "price=gt=1&sort(price)",
        "price=gt=1&sort(-price)",
        "price=2&sort(price)",
        "price=2&sort(-price)",
        "price=2&sort(-id)",
        "tags=gt=a",
        "tags=gt=a&sort(id)",
        "tags=x&stock=0",
        "name=sw=x",
        "name=" + "x" * 300 + "1&sort(name)",
        "stock=2",
        "stock=2&sort(-stock)",
        "id=ge=01&lt=05",
        "id=ge=01&lt=05&sort(-id)",
        "id=sw=0&sort(-price)",
        "price!=null&name!=a",
    ],
)
def test_the_pages_are_the_whole(tables, text, limit):
    table, _, txn = tables
    pages, _ = walk(f"{text}&limit({limit})", table, txn)
    assert [id_ for found in pages for id_ in found] == whole(text or "limit(1000)", table, txn)
    assert all(len(found) == limit for found in pages[:-1]) and pages[-1]


def test_the_offset_counts_from_the_cursor(tables):
    table, _, txn = tables
    _, cursor, _ = page("sort(-stock)&limit(5)", table, txn)
    assert page("sort(-stock)&limit(3,5)", table, txn, cursor)[0] == whole("sort(-stock)&limit(5,10)", table, txn)[3:5]
    assert page("sort(-stock)", table, txn, cursor)[0] == whole("sort(-stock)", table, txn)[5:]


def test_no_cursor(tables):
    table, _, txn = tables
    assert page("price=2", table, txn)[1] is None, "no limit"
    assert page("limit(0)", table, txn)[1] is None, "no rows"
    assert page("price=2&limit(200)", table, txn)[1] is None, "nothing behind"
    assert page("price=2&limit(20)", table, txn)[1] is None or len(whole("price=2", table, txn)) > 20
    assert page("limit(100)", table, txn)[1] is None, "exactly all"
    assert page("price=2|name=a&limit(2)", table, txn)[1] is None, "a union has no order"
    assert page("brand.name=n1&limit(2)", table, txn)[1] is None, "nor has a join"
    assert page("price=2|name=a&limit(2)&sort(id)", table, txn)[1] is not None
    assert page("stock=9&limit(2)", table, txn)[1] is None
    rows = execute(plan_query(parse_query("limit(5)"), table, txn), txn)
    next_rows(rows, 2)
    assert rows.next_cursor() is None, "the page is not complete"


def test_no_cursor_where_it_would_be_too_long():
    table, _ = shop([{"id": str(n), "specs": "é" * 2000} for n in range(3)])
    assert page("sort(specs)&id!=null&limit(1)", table)[1] is None
    assert len(page("sort(stock)&id!=null&limit(1)", table)[1]) < 100


def test_a_cursor_of_another_query(tables):
    table, brands, txn = tables
    cursors = [page(f"{text}limit(2)", table, txn)[1] for text in ("", "sort(id)&", "sort(price)&", "price=gt=0&", "sort(-price)&")]
    texts = ["limit(2)", "sort(id)&limit(2)", "sort(price)&limit(2)", "price=gt=0&limit(2)", "sort(-price)&limit(2)"]
    for at, text in enumerate(texts):
        for other, cursor in enumerate(cursors):
            if at == other or (at, other) == (3, 0):  # the order of the primary key can be had for any conditions
                page(text, table, txn, cursor)
                continue
            with pytest.raises(QueryError, match="the cursor belongs to another query") as caught:
                page(text, table, txn, cursor)
            assert caught.value.code == "QUERY_SYNTAX"
    with pytest.raises(QueryError, match="the cursor belongs to another query"):
        page("limit(2)", brands, txn, cursors[0])
    with pytest.raises(QueryError, match="the cursor belongs to another query"):
        page("name=a&limit(2)", table, txn, cursors[3])


def test_a_page_costs_what_its_rows_cost():
    table = FakeTable(product_definition(), records=[{"id": f"{n:05}", "price": n // 500, "name": "ab"[n % 2]} for n in range(3000)])
    for text in (
        "",
        "sort(-id)&",
        "sort(price)&",
        "sort(-price)&",
        "price=3&",
        "price=3&sort(-id)&",
        "price=gt=1&",
        "sort(name)&",
        "sort(-name)&",
    ):
        cursor = None
        for _ in range(20):
            table.scanned = table.indexes["price"].scanned = table.indexes["name"].scanned = 0
            _, cursor, examined = page(f"{text}limit(10)", table, None, cursor)
            read = table.scanned + table.indexes["price"].scanned + table.indexes["name"].scanned
            assert cursor is not None and examined <= 80 and read <= 160, (text, examined, read)


def test_whether_there_is_more_is_found_out_cheaply():
    table = FakeTable(product_definition(), records=[{"id": f"{n:05}", "stock": int(n in (5, 2900))} for n in range(3000)])
    query = parse_query("stock=1&limit(1)")
    rows = execute(plan_query(query, table, None, allow_full_scan=True), None)
    assert len(next_rows(rows, 5)) == 1 and rows.done
    before = rows.examined
    assert rows.next_cursor() is not None
    assert rows.examined - before <= 512


def test_records_come_and_go_between_pages():
    records = {f"{n:02}": {"id": f"{n:02}", "price": n % 4} for n in range(40)}
    for text in ("sort(price)", "sort(-price)", "", "price=ge=0"):
        now = dict(records)
        seen: list[str] = []
        cursor = None
        for turn in range(40):
            table = FakeTable(product_definition(), records=now.values())
            found, cursor, _ = page(f"{text}&limit(3)", table, None, cursor)
            seen += found
            if cursor is None:
                break
            now.pop(found[-1], None)  # the row the cursor stands on
            now[f"{turn:02}x"] = {"id": f"{turn:02}x", "price": turn % 5 - 1}
        assert len(set(seen)) == len(seen)
        assert set(seen) >= set(records)


# the text of a cursor


POSITIONS = st.builds(
    Position,
    st.lists(
        st.one_of(
            st.none(), st.booleans(), st.integers(-(10**40), 10**40), st.floats(allow_nan=False, allow_infinity=False), st.text("a\0é")
        ).map(encode_key)
        | st.just(b"\xff"),
        max_size=3,
    ).map(tuple),
    st.text("ab/", min_size=1, max_size=5).map(encode_key),
)


@given(POSITIONS)
def test_what_is_written_is_read(position):
    sort = tuple([SortKey((name,), name == "b") for name in "abc"[: len(position.parts)]])
    text = encode_cursor("T", Order(sort), position)
    assert text is not None and text.isascii() and "=" not in text
    assert decode_cursor(text, "T", sort, "id") == (Order(sort), position)


def test_the_order_of_an_index_is_in_the_cursor():
    position = Position((encode_key(5),), encode_key("a"))
    text = encode_cursor("T", Order(index="price"), position)
    assert decode_cursor(text, "T", (), "id") == (Order(index="price"), position)
    assert encode_cursor("T", Order(), Position((), b"x" * MAX_CHARACTERS)) is None


def made_up(*document):
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(document)).decode().rstrip("=")


def a_check(text):
    return msgspec.msgpack.decode(base64.urlsafe_b64decode(text + "=="))[1]


SORTED = (SortKey(("price",)),)
CHECKS = [
    a_check(encode_cursor("Product", order, Position((), b"x")))
    for order in (Order(), Order(SORTED), Order(index="price"), Order(index="tags"))
]


@given(
    st.one_of(
        st.text("abcdefXYZ0189_-", max_size=40),
        st.builds(
            made_up,
            st.sampled_from([1, 2, -1]),
            st.sampled_from(CHECKS) | st.binary(max_size=8),
            st.sampled_from([None, "price", "tags", "nope", ""]),
            st.lists(st.binary(max_size=6) | st.sampled_from([encode_key(5), encode_key("a"), b"\xff", b"\x08" * 600]), max_size=2),
            st.binary(max_size=4) | st.sampled_from([b"x" * 510, b"x" * 511, encode_key("a")]),
        ),
    )
)
@example("")
@example("A" * 3000)
@example("é")
@example("A=")
def test_any_text_is_a_cursor_or_a_query_fault(text):
    table, _ = shop(PRODUCTS[:10])
    for query in (
        Query(limit=2),
        Query(sort=SORTED, limit=2),
        Query(parse_query("price=gt=0").where, limit=2),
        Query(parse_query("tags=gt=a").where),
    ):
        made = Query(query.where, None, query.sort, 0, query.limit, after=text)
        try:
            plan = plan_query(made, table, allow_full_scan=True)
        except QueryError as error:
            assert error.status_code == 400 and error.code == "QUERY_SYNTAX"
            continue
        rows = execute(plan, None)
        while next_rows(rows, 10):
            pass
        rows.next_cursor()


@given(st.binary(min_size=1, max_size=4) | st.sampled_from([b"x" * 510, b"\xff" * 510, encode_key("5") + b"\0", b"\0"]))
def test_made_up_places_do_no_harm_to_the_store(place):
    with_store(place)


def with_store(place, opened=[]):  # noqa: B006 (one store for all examples)
    if not opened:
        import tempfile
        from pathlib import Path

        directory = tempfile.TemporaryDirectory()
        table = Store(Path(directory.name)).open_database("data").define_table(product_definition())
        for _ in load_records(table, PRODUCTS, validate=False):
            pass
        opened += [table, directory]
    table = opened[0]
    txn = table.database.snapshot()
    for query, parts, index in (
        (Query(limit=2), [], None),
        (Query(sort=SORTED, limit=2), [encode_key(2)], None),
        (Query(sort=(SortKey(("price",), True),), limit=2), [encode_key(2)], None),
        (Query(sort=(SortKey(("id",), True),), limit=2), [place], None),
        (Query(parse_query("price=gt=0").where, limit=2), [place], "price"),
        (Query(parse_query("tags=gt=a").where, limit=2), [place], "tags"),
        (Query(parse_query("id=ge=01&lt=05").where, sort=(SortKey(("id",)),), limit=2), [place], None),
        (Query(parse_query("id=ge=01&lt=05").where, sort=(SortKey(("id",), True),), limit=2), [place], None),
    ):
        check = a_check(encode_cursor("Product", Order(query.sort, index), Position((), b"x")))
        made = Query(query.where, None, query.sort, 0, query.limit, after=made_up(1, check, index, parts, place))
        plan = plan_query(made, table, txn, allow_full_scan=True)
        rows = execute(plan, txn)
        found = [decode(raw)["id"] for raw in next_rows(rows, 5)]
        if query.where is not None:
            assert set(found) <= set(whole_of(query, table, txn))
        rows.next_cursor()


def whole_of(query, table, txn):
    rows = execute(plan_query(Query(query.where), table, txn, allow_full_scan=True), txn)
    found = []
    while some := next_rows(rows, 100):
        found += [decode(raw)["id"] for raw in some]
    return found
