"""What conditions find (spec: query §3-§5), with an index and without: both must find the same."""

from datetime import UTC, datetime

import pytest

from svc.query import parse_query, plan_query
from svc.query.execution import execute
from svc.store.values.records import decode
from tests.support.rows import next_rows
from tests.support.shop import shop

MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)
RECORDS = [
    {"id": "none"},
    {
        "id": "nulls",
        "name": None,
        "price": None,
        "inStock": None,
        "tags": None,
        "listDate": None,
        "stock": None,
        "specs": None,
        "any": None,
    },
    {"id": "empty", "name": "", "tags": [], "specs": {}, "any": []},
    {"id": "a", "name": "abc", "price": 1, "inStock": True, "tags": ["x", "y"], "listDate": MOMENT, "stock": 5, "any": 5},
    {"id": "b", "name": "Abd", "price": 2.5, "inStock": False, "tags": ["y", "z"], "stock": -5, "any": "5"},
    {"id": "c", "name": "null", "price": 10, "tags": [None, "x"], "any": True},
    {"id": "d", "name": "é*", "tags": ["xyz"], "any": MOMENT},
    {"id": "e", "specs": {"color": "red", "sizes": [1, 5]}, "any": {"color": "red"}},
    {"id": "f", "specs": [{"color": "blue"}, {"color": "red"}], "any": [5, "x", None]},
    {"id": "g", "specs": {"color": None}, "any": b"x"},
]
EVERY = {record["id"] for record in RECORDS}


def found(text, *, indexed):
    table, _ = shop(RECORDS)
    if not indexed:
        table.indexes = {}
    plan = plan_query(parse_query(text, table.attributes.__contains__), table, None, allow_full_scan=True)
    rows = execute(plan, None)
    ids = []
    while batch := next_rows(rows, 3):
        ids += [decode(raw)["id"] for raw in batch]
    assert len(ids) == len(set(ids))
    return set(ids)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # null and absent are one
        ("name==null", "none nulls e f g"),
        ("name!=null", "empty a b c d"),
        ("price==null", "none nulls empty d e f g"),
        ("price=null", "none nulls empty d e f g"),
        ("price==", "none nulls empty d e f g"),
        ("price!=1", EVERY - {"a"}),
        ("price=lt=1", ""),
        ("price=lt=2", "a"),
        ("price=le=null", ""),
        ("price=gt=null", ""),
        ("inStock==null", EVERY - {"a", "b"}),
        ("inStock!=true", EVERY - {"a"}),
        ("inStock==FALSE", "b"),
        # text: `null` with a strict operator is a text, and so is the empty one
        ("name=null", "c"),
        ("name==string:null", "c"),
        ("name=", "empty"),
        ("name==", "empty"),
        ("name!=string:", EVERY - {"empty"}),
        # by code point, case matters
        ("name=gt=Z", "a c d"),
        ("name=ge=string:", "empty a b c d"),
        ("name==ab*", "a"),
        ("name=sw=A", "b"),
        ("name==*", "empty a b c d"),
        ("name==é%2A", "d"),
        ("name=sw=é*", "d"),
        ("name=ct=b", "a b"),
        ("name=ct=ul", "c"),
        ("name=ew=c", "a"),
        ("name=ew=%2A", "d"),
        # ranges
        ("price=gt=1", "b c"),
        ("price=ge=1&lt=10", "a b"),
        ("price=le=10&=gt=1", "b c"),
        ("price=lt=1&gt=10", ""),
        ("price=gt=1|price==1", "a b c"),
        # text forms
        ("price=ct=.", "b"),
        ("price=ew=0", "c"),
        ("inStock=ct=ru", "a"),
        ("listDate=ct=2024-01-05T20%3A07%3A27.955Z", "a"),
        ("price=sw=1", ""),
        # dates
        ("listDate==2024-01-05T20:07:27.955Z", "a"),
        ("listDate==2024-01-05T21:07:27.955+01:00", "a"),
        ("listDate=2024-01-05T21:07:27.955%2B01:00", "a"),
        (f"listDate={MOMENT.timestamp() * 1000:.0f}", "a"),
        ("listDate=gt=2024-01-05", "a"),
        ("listDate=lt=date:2024-01-06", "a"),
        ("listDate=gt=number:0", "a"),
        # arrays: some element; no element
        ("tags=x", "a c"),
        ("tags[]=x", "a c"),
        ("tags=y&tags=z", "b"),
        ("tags=x&tags=z", ""),
        ("tags!=x", EVERY - {"a", "c"}),
        ("tags!=x&tags!=y", EVERY - {"a", "b", "c"}),
        ("tags==null", "none nulls c e f g"),
        ("tags!=null", "empty a b d"),
        ("tags=gt=x", "a b d"),
        ("tags=gt=x&lt=y", "d"),
        ("tags=gt=x&tags=lt=y", "a d"),
        ("tags==x*", "a c d"),
        ("tags=ct=yz", "d"),
        # like with like
        ("any==5", "a f"),
        ("any=5", "b"),
        ("any===5", "b"),
        ("any==string:5", "b"),
        ("any!=5", EVERY - {"a", "f"}),
        ("any=gt=4", "a d f"),
        ("any=gt=string:4", "b f"),
        ("any==true", "c"),
        ("any==boolean:true", "c"),
        ("any=ge=boolean:false", "c"),
        ("any==date:2024-01-05T20%3A07%3A27.955Z", "d"),
        ("any==number:1704485247955", "d"),
        ("any==null", "none nulls f"),
        ("any!=null", "empty a b c d e g"),
        ("any=ct=5", "a b d f"),
        # nested objects
        ("specs.color==red", "e f"),
        ("specs.color=ct=e", "e f"),
        ("specs.color!=red", EVERY - {"e", "f"}),
        ("specs.color==null", EVERY - {"e", "f"}),
        ("specs.sizes==5", "e"),
        ("specs.sizes=gt=1&lt=5", ""),
        ("specs.sizes=gt=1&specs.sizes=lt=5", "e"),
        ("any.color=red", "e"),
        # groups
        ("stock=5|stock=-5&name=abc", "a"),
        ("(stock=5|stock=-5)&name=sw=A", "b"),
        ("[stock=5|[name=null&tags=x]]", "a c"),
    ],
)
def test_conditions(text, expected):
    expected = set(expected.split()) if isinstance(expected, str) else expected
    assert found(text, indexed=False) == expected
    assert found(text, indexed=True) == expected
