"""What the page of a table has to work with besides its rows (spec: http §7.8.5): which columns, facets, how many rows, following, files, other forms of the
address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from svc.auth.users import User
from svc.messages import Request
from svc.pages.address_forms import AddressForm, TableAddress, address_forms
from svc.pages.cells import CELL, shortened
from svc.pages.collection import MOST_ROWS, ROWS, CollectionPage, filterable, shown_attributes
from svc.pages.facets import Facet, facets_of
from svc.pages.filters import ColumnForm, FilterLine, column_form, filter_line
from svc.pages.labels import Labels
from svc.pages.links import Links, Variants, conditions_of
from svc.query.nodes import Query
from svc.query.tables import rule_members
from svc.resources import PlannedQuery, Registration
from svc.store.schema import Attribute

SIZES = (25, ROWS, 100, 500)
_LAST_FOLLOWED = 10_000  # position up to which a live query keeps a window (spec: realtime §7)
_FOLDED = str.maketrans({"/": "_", "\\": "_"})


@dataclass(slots=True)
class TableTools:
    """`sizes`: (rows of a page, its address, "" for this one). `opens`: whether there is a form for a key. `live`: the address of the events, "" if there
    are none. `files`: (name, address, name of the file) with all rows."""

    line: FilterLine | None = None
    columns: ColumnForm | None = None
    facets: list[Facet] = field(default_factory=list)
    sizes: list[tuple[int, str]] = field(default_factory=list)
    opens: bool = False
    live: str = ""
    files: list[tuple[str, str, str]] = field(default_factory=list)
    forms: list[AddressForm] = field(default_factory=list)


@dataclass(slots=True)
class Surroundings:
    """Of the page: `endpoints` that answer besides resources, by path; `user`: who asks; `is_whole`: it is of all keys of a table."""

    request: Request
    registration: Registration
    endpoints: Mapping[str, Any]
    user: User | None
    links: Links
    is_whole: bool


def table_tools(page: CollectionPage, planned: PlannedQuery, query: Query, around: Surroundings) -> TableTools:
    """`query`: what the address asks for."""
    table, registration = planned.table, around.registration
    is_plain = not hasattr(registration.resource, "application")
    tools, variants = TableTools(), page.variants or Variants(query)
    if variants.is_empty:  # a long query, which nothing repeats
        return tools
    tools.files = _files(around.request, variants, table.name)
    if query.aggregate is None or query.aggregate.kind != "count":
        size = query.limit or ROWS
        sizes = [(each, "" if each == size else variants.limited(f"limit({each})")) for each in SIZES]
        tools.sizes = sizes if page.start != 1 or page.next or page.table.count > SIZES[0] else []
    if is_plain:
        attributes = shown_attributes(table, planned.visible)
        tools.line = filter_line(variants.text(), attributes)
        tools.columns = column_form(query, _choosable(planned), variants)
        tools.opens = query.aggregate is None and around.is_whole
        if query.aggregate is None and around.is_whole and not rule_members(planned.plan.table):
            indexed = set(filterable(table, planned.visible))
            tools.facets = facets_of(
                table, [each for each in attributes if each.name in indexed], conditions_of(query), variants, Labels(table, around.links)
            )
        tools.live = _live(page, query, variants, registration)
    tools.forms = _forms(page, planned, query, variants, around, is_plain=is_plain)
    return tools


def _choosable(planned: PlannedQuery) -> list[Attribute]:
    """All attributes of the table that the caller may see, relationships too."""
    visible = planned.visible
    return [each for each in planned.table.definition.attributes if visible is None or each.name in visible]


def _live(page: CollectionPage, query: Query, variants: Variants, registration: Registration) -> str:
    """The live query of the rows of the page, as a reference; "" where there can be none."""
    position, limit = page.start - 1 if page.start else query.offset, min(query.limit or ROWS, MOST_ROWS)
    is_placed = page.start > 0 or query.after is None
    if not registration.visible("sse") or not is_placed or position + limit > _LAST_FOLLOWED:
        return ""
    window = f"limit({position},{position + limit})" if position else f"limit({limit})"
    return f"{variants.limited(window)}&live()"


def _files(request: Request, variants: Variants, table: str) -> list[tuple[str, str, str]]:
    """All rows as files, which are streamed."""
    everything = variants.limited("")
    last = "./" + request.pathname.rpartition("/")[2]
    reference = everything if len(everything) > 1 else ""
    name = shortened(table.translate(_FOLDED), CELL)
    return [(each.upper(), f"{last}.{each}{reference}", f"{name}.{each}") for each in ("csv", "json", "ndjson")]


def _forms(
    page: CollectionPage, planned: PlannedQuery, query: Query, variants: Variants, around: Surroundings, *, is_plain: bool
) -> list[AddressForm]:
    request, table, registration = around.request, planned.table, around.registration
    columns = [column.name for column in page.table.columns]
    is_declared = not page.table.hidden and all(
        name in table.attributes and table.attributes[name].relationship is None for name in columns
    )
    limit = page.table.count if page.is_cut and query.limit is None else planned.plan.limit
    call = "" if limit is None else f"limit({query.offset},{query.offset + limit})" if query.offset else f"limit({limit})"
    text = variants.limited(call)[1:] + ("" if query.after is None else f"&after({query.after})")
    address = TableAddress(
        f"{request.scheme}://{request.host}{request.prefix}{request.pathname}",
        table,
        replace(query, limit=limit, counted=False),
        text,
        (page.start or 1) - 1 if page.start or query.after is None else None,
        not page.next and not page.first and not page.is_cut,
        columns if is_declared else None,
        is_plain and around.is_whole,
    )
    endpoints = around.endpoints
    sql = endpoints.get("/sql")
    may_sql = sql is not None and sql.may_use(around.user)
    return address_forms(address, graphql=_field(endpoints, registration), may_sql=may_sql)


def _field(endpoints: Mapping[str, Any], registration: Registration) -> str:
    """The name of the resource in the extended form of GraphQL; "" if there is none."""
    is_there = getattr(endpoints.get("/graphql"), "is_extended", False) and registration.visible("graphql")
    path = registration.path
    return path if is_there and path.isidentifier() and path.isascii() and not path.startswith("__") else ""
