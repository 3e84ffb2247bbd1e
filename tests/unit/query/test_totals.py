import pytest

from svc.query import parse_query, plan_query
from svc.query.execution import execute
from svc.query.totals import total_plan
from tests.support.rows import next_rows
from tests.support.shop import shop

PRODUCTS = [
    {"id": f"p{n:02}", "name": "ab"[n % 2], "price": n, "stock": n % 3, "tags": ["x", "y"][: n % 3], "brandId": f"b{n % 4}"}
    for n in range(30)
]
BRANDS = [{"id": f"b{n}", "name": f"brand {n % 2}"} for n in range(3)]


def total(text):
    table, _ = shop(PRODUCTS, BRANDS)
    plan = plan_query(parse_query(text), table, None, allow_full_scan=True)
    return next_rows(execute(total_plan(plan, None), None), 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("limit(2)", 30),
        ("sort(-price)&limit(2,5)", 30),
        ("price=gt=9&limit(3)", 20),
        ("price=gt=9&stock==1&sort(name,-id)&limit(1)&select(id)", 7),
        ("stock==1&limit(0)", 10),
        ("tags==x&tags==y&limit(1)", 10),
        ("[name==a|price=lt=5]&limit(1)", 17),
        ("brand.name==brand 0&sort(price)&limit(1)", 15),
        ("price=gt=100&limit(1)", 0),
        ("id==p03|price==4&sort(name)", 2),
    ],
)
def test_all_matches_whatever_the_page(text, expected):
    assert total(text) == [{"count": expected}]


def test_a_page_behind_a_cursor():
    table, _ = shop(PRODUCTS, BRANDS)
    for text in ("sort(-price)&limit(4)", "price=ge=10&limit(4)", "limit(4)", "stock==1&sort(name)&limit(4)"):
        plan = plan_query(parse_query(text), table, None, allow_full_scan=True)
        rows = execute(plan, None)
        next_rows(rows, 4)
        cursor = rows.next_cursor()
        assert cursor is not None
        behind = plan_query(parse_query(f"{text}&after({cursor})"), table, None, allow_full_scan=True)
        assert next_rows(execute(total_plan(behind, None), None), 1) == next_rows(execute(total_plan(plan, None), None), 1)


def test_an_index_counts_without_reading_records():
    table, _ = shop(PRODUCTS, BRANDS)
    plan = plan_query(parse_query("price=gt=9&sort(-price)&limit(1)"), table, None)
    run = execute(total_plan(plan, None), None)
    assert next_rows(run, 1) == [{"count": 20}] and run.examined <= 1
