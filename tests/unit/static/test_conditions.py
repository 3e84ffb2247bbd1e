"""Conditions of requests for files."""

from __future__ import annotations

import pytest

from svc.errors import PreconditionFailed
from svc.http.conditional import http_date
from svc.static.conditions import is_unchanged, range_applies

AT = 1_700_000_000
BEFORE, SAME, LATER = http_date(AT - 1), http_date(AT), http_date(AT + 1)


@pytest.mark.parametrize(
    ("fields", "unchanged"),
    [
        ({}, False),
        ({"if-none-match": '"t"'}, True),
        ({"if-none-match": 'W/"t"'}, True),
        ({"if-none-match": '"a", "t"'}, True),
        ({"if-none-match": "*"}, True),
        ({"if-none-match": '"a"'}, False),
        ({"if-none-match": '"t-br"'}, False),
        ({"if-none-match": "t"}, False),
        ({"if-modified-since": SAME}, True),
        ({"if-modified-since": LATER}, True),
        ({"if-modified-since": BEFORE}, False),
        ({"if-modified-since": "yesterday"}, False),
        ({"if-none-match": '"a"', "if-modified-since": SAME}, False),
        ({"if-match": '"t"'}, False),
        ({"if-match": '"t-gzip"'}, False),
        ({"if-match": "*"}, False),
        ({"if-unmodified-since": SAME}, False),
        ({"if-unmodified-since": "never"}, False),
        ({"if-match": '"t"', "if-unmodified-since": BEFORE}, False),
        ({"if-match": '"t"', "if-none-match": '"t"'}, True),
    ],
)
def test_whether_the_client_has_it(fields: dict[str, str], unchanged: bool) -> None:
    assert is_unchanged(fields, "t", "t", AT) is unchanged


@pytest.mark.parametrize("fields", [{"if-match": '"a"'}, {"if-match": 'W/"t"'}, {"if-match": ""}, {"if-unmodified-since": BEFORE}])
def test_what_fails(fields: dict[str, str]) -> None:
    with pytest.raises(PreconditionFailed):
        is_unchanged(fields, "t", "t", AT)


@pytest.mark.parametrize(
    ("condition", "now", "applies"),
    [
        ('"t"', AT, True),
        ('W/"t"', AT + 9, False),
        ('"a"', AT + 9, False),
        (SAME, AT + 1, True),
        (SAME, AT, False),
        (BEFORE, AT + 9, False),
        (LATER, AT + 9, False),
        ("t", AT + 9, False),
    ],
)
def test_whether_a_part_belongs_to_what_the_client_has(condition: str, now: int, applies: bool) -> None:
    assert range_applies({"if-range": condition}, "t", AT, now) is applies
    assert range_applies({}, "t", AT, now)
