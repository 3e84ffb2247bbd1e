"""What the page of a table shows, in the forms in which other programs ask for it: each finds the same rows (spec: http §7.8.5)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass

from svc.pages.sql_form import sql_form
from svc.query.nodes import Query, Select, SelectItem
from svc.query.printer import print_parts
from svc.store import Table

_LONGEST = 4000  # characters of an address that is repeated in other forms
_NAME = re.compile("(?!__)[_A-Za-z][_0-9A-Za-z]*").fullmatch  # that GraphQL has a place for


@dataclass(slots=True)
class AddressForm:
    """`id`: of the element that holds the text."""

    name: str
    id: str
    text: str


@dataclass(slots=True)
class TableAddress:
    """`base`: the address without its query. `query`: with the limit of the page, `text`: as text. `offset`: the position of the first row, None where that
    is not known. `is_all`: these are all rows that the query finds. `names`: the attributes that rows have, None if some are not declared. `is_whole`: of the
    table itself, not of the keys that begin in some way, and without code of an application in front of it."""

    base: str
    table: Table
    query: Query
    text: str
    offset: int | None
    is_all: bool
    names: list[str] | None
    is_whole: bool


def address_forms(address: TableAddress, *, graphql: str, may_sql: bool) -> list[AddressForm]:
    """`graphql`: the name of the field that answers in the extended form of GraphQL, "" if there is none.
    `may_sql`: the caller may send statements."""
    text = address.text
    url = f"{address.base}?{text}" if text else address.base
    if len(url) > _LONGEST:
        return []
    texts = _of_address(url, "rows")
    if address.is_whole:
        texts |= {
            "GraphQL": _said(_graphql, address, graphql) if graphql else "",
            "SQL": _said(_sql, address) if may_sql else "",
            "Operation": json.dumps(
                {"operation": "search_by_conditions", "database": address.table.database.name, "table": address.table.name, "query": text}
            ),
        }
    return [AddressForm(name, f"as-{name.lower()}", each) for name, each in texts.items() if each]


def record_forms(url: str, table: Table, key: object) -> list[AddressForm]:
    """The same for the address of one record."""
    if len(url) > _LONGEST:
        return []
    ids = [list(key) if isinstance(key, tuple) else key]
    body = {"operation": "search_by_id", "database": table.database.name, "table": table.name, "ids": ids, "get_attributes": ["*"]}
    texts = _of_address(url, "record") | {"Operation": json.dumps(body)}
    return [AddressForm(name, f"as-{name.lower()}", each) for name, each in texts.items()]


def _of_address(url: str, noun: str) -> dict[str, str]:
    """By name. `noun`: what the answer is called in programs."""
    return {
        "URL": url,
        "curl": f'curl -g -u "$LOGIN" {shlex.quote(url)}',
        "Python": (
            'import os\nimport httpx\n\nlogin = tuple(os.environ["LOGIN"].split(":", 1))\n'
            f"{noun} = httpx.get({url!r}, auth=login).raise_for_status().json()"
        ),
        "JavaScript": (
            "const headers = { Accept: 'application/json', Authorization: `Basic ${btoa(process.env.LOGIN)}` }\n"
            f"const {noun} = await (await fetch({json.dumps(url)}, {{ headers }})).json()"
        ),
    }


def _said(form: Callable[..., str], *values: object) -> str:
    """The text of a form; "" where it cannot say the query."""
    try:
        return form(*values)
    except ValueError:
        return ""


def _graphql(address: TableAddress, field: str) -> str:
    query = address.query
    if query.aggregate is not None or query.live:
        raise ValueError("rows that are made of records have no field")
    arguments = []
    if query.where is not None:
        arguments.append(f"_where: {json.dumps('&'.join(print_parts(Query(query.where))))}")
    if query.sort:
        keys = [print_parts(Query(sort=(key,)))[0].removeprefix("sort(")[:-1] for key in query.sort]
        arguments.append(f"_sort: {json.dumps(keys)}")
    if query.limit is not None:
        arguments.append(f"_limit: {query.limit}")
    if query.offset:
        arguments.append(f"_offset: {query.offset}")
    if query.after is not None:
        arguments.append(f"_after: {json.dumps(query.after)}")
    selection = _names(address.names) if query.select is None else _selection(query.select)
    given = f"({', '.join(arguments)})" if arguments else ""
    return f"{{\n  {field}{given} {selection}\n}}"


def _names(names: list[str] | None) -> str:
    if not names or not all(map(_NAME, names)):
        raise ValueError("not each attribute has a name in GraphQL")
    return f"{{ {' '.join(names)} }}"


def _selection(select: Select) -> str:
    if select.shape != "object":
        raise ValueError("GraphQL has objects only")
    return f"{{ {' '.join(map(_item, select.items))} }}"


def _item(item: SelectItem) -> str:
    if item.query is not None or item.alias is not None or item.constant is not None or len(item.path) != 1 or not _NAME(item.path[0]):
        raise ValueError("GraphQL has no form for this selection")
    return item.path[0] if item.nested is None else f"{item.path[0]} {_selection(item.nested)}"


def _sql(address: TableAddress) -> str:
    query, names = address.query, address.names
    if query.select is not None:
        names = [".".join(item.path) for item in query.select.items if item.nested is None and item.query is None]
        if len(names) != len(query.select.items) or query.select.shape != "object":
            raise ValueError("SQL has no form for this selection")
    if not names or address.offset is None or query.aggregate is not None:
        raise ValueError("SQL has no form for these rows")
    if query.where is not None and not query.sort and not address.is_all:
        raise ValueError("SQL has no form for the order of an index")
    return sql_form(address.table, names, query, address.offset)
