"""The arguments of lists in the extended form: `_limit`, `_offset`, `_sort`, `_after`, `_where` (spec: graphql §7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.errors import QueryError
from svc.query import QueryCache
from svc.query.mapping_members import cursor_of, row_count
from svc.query.nodes import MAX_SORT_KEYS, Query, SortKey
from svc.query.tables import AnyTable


def list_query(options: Mapping[str, Any], table: AnyTable, queries: QueryCache) -> Query:
    """The query that the options of a list describe; null is as if an option were not given. Raises QueryError."""
    where = None
    text = options.get("_where")
    if text is not None and not isinstance(text, str):
        raise _fault("_where", "takes a string in the query language of URLs")
    if text:
        parsed = queries.parse(text, table)
        if parsed != Query(parsed.where):
            raise _fault("_where", "takes conditions only: selections, order and limits have arguments of their own")
        where = parsed.where
    return Query(
        where,
        sort=_sort(options.get("_sort")),
        offset=row_count(options.get("_offset"), "_offset") or 0,
        limit=row_count(options.get("_limit"), "_limit"),
        after=cursor_of(options.get("_after"), "_after"),
    )


def _sort(value: Any) -> tuple[SortKey, ...]:
    """`["-price", "name"]`; a single string is a list of one (GraphQL §3.11)."""
    if value is None:
        return ()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or len(names) > MAX_SORT_KEYS or not all(isinstance(name, str) for name in names):
        raise _fault("_sort", f'takes a list of at most {MAX_SORT_KEYS} strings such as "name" or "-price"')
    keys = []
    for name in names:
        path = tuple(name.lstrip("+-").split("."))
        if not all(path) or len(name) - len(name.lstrip("+-")) > 1:
            raise _fault("_sort", f'has no name of an attribute in {name[:60]!r}; write "name" or "-name"')
        keys.append(SortKey(path, name.startswith("-")))
    return tuple(keys)


def _fault(name: str, what: str) -> QueryError:
    return QueryError(f"{name} {what}", code="BAD_VALUE")
