"""The fields of an address that a page of this server leads to: `?code=...&redirect=/shop/`."""

from __future__ import annotations

from urllib.parse import parse_qsl

LONGEST = 6000  # characters
MOST = 20  # fields


def query_fields(query: str | None) -> dict[str, str]:
    """The first value of each field; none at all of a query that no page of ours has: with more than MOST fields, or longer than LONGEST.

    >>> query_fields("code=a%20b&x=1&x=2"), query_fields("&".join(f"x{number}=1" for number in range(21)))
    ({'x': '1', 'code': 'a b'}, {})
    """
    if not query or len(query) > LONGEST:
        return {}
    try:
        pairs = parse_qsl(query, max_num_fields=MOST, errors="replace")
    except ValueError:
        return {}
    return dict(reversed(pairs))
