"""The rows of a query as a table (spec: http §7.7): what is put into its template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import unquote

from svc.errors import QueryError
from svc.http.row_responses import plan_shape
from svc.pages.cells import CELL, Cell, Line, Link, cell_of, lines_of, shortened
from svc.pages.filters import CountForm, FilterForm, filter_form
from svc.pages.links import (
    MOST_ITEMS,
    TITLES,
    Links,
    Variants,
    can_be_sorted,
    printed,
)
from svc.query.nodes import Query
from svc.query.plan import IndexRange
from svc.query.resolve import related_table
from svc.query.tables import rule_members
from svc.resources import PlannedQuery, Registration
from svc.store import Table
from svc.store.record_counts import known_count
from svc.store.schema import Attribute
from svc.store.values.records import MISSING


@dataclass(slots=True)
class DataPage:
    """One of `table` and `lines`. `count`: elements of a list, None for anything else; `is_cut`: not all of them are shown."""

    table: Rows | None
    lines: Iterator[Line] | None
    count: int | None = None
    is_cut: bool = False


def data_page(value: Any, *, has_more: bool = False) -> DataPage:
    """`has_more`: the list goes on behind its end."""
    if isinstance(value, tuple | list):
        shown = list(value[:MOST_ROWS])
        is_cut = has_more or len(value) > len(shown)
        table = listed(shown)
        return DataPage(table, None if table is not None else lines_of(shown), len(value), is_cut)
    return DataPage(None, lines_of(value))


ROWS = 50  # of a page whose query has no limit
MOST_ROWS = 500  # ... of any page
MOST_COLUMNS = 60
MOST_HIDDEN = 50  # names of others that are told
MOST_NAMES = 1000  # of columns; when there are more, further rows are not searched for others
_LONGEST_NOTE = 80  # characters of what else was selected of a joined record
_NUMBERS = frozenset(("Int", "Long", "Float", "BigInt"))
MOST_STEPS = 200  # in an index, to say how many records there are
MOST_CHIPS = 50  # conditions that can be removed by a link


@dataclass(slots=True)
class Column:
    """`up`, `down`: addresses of the same rows sorted by it, "" where that is not possible; `further_up`, `further_down`: sorted by it where those are equal
    by which they are sorted now. `order`: how they are sorted by it now."""

    name: str
    type: str = ""
    up: str = ""
    down: str = ""
    order: str = ""
    further_up: str = ""
    further_down: str = ""


@dataclass(slots=True)
class Chip:
    """A condition, and the address of the same rows without it."""

    text: str
    href: str


@dataclass(slots=True)
class Rows:
    """A table of values. `rows`: cells, or values; made while they are shown. `count`: how many. `hidden`: some names of columns that there was no room
    for; `more`: how many they are, at least that many if not `is_counted`."""

    columns: list[Column]
    rows: Iterator[list[Any]]
    count: int
    hidden: list[str] = field(default_factory=list)
    more: int = 0
    is_counted: bool = True


@dataclass(slots=True)
class CollectionPage:
    """`first`, `previous`, `next`: addresses, "" where there are none. `start`: the number of the first row in all pages, 0 where that is not known.
    `is_cut`: there are more rows and no next page. `total`: records that the query finds, None where that is not known. `noun`: of a row.
    `variants`: of its query."""

    table: Rows
    noun: str = "record"
    chips: list[Chip] = field(default_factory=list)
    first: str = ""
    previous: str = ""
    next: str = ""
    start: int = 0
    is_cut: bool = False
    total: int | None = None
    filter: FilterForm | None = None
    count: CountForm | None = None
    variants: Variants | None = None


def limited(query: Query) -> Query | None:
    """The query with a limit that a page can show; None if it has one, or needs none."""
    if query.aggregate is not None and query.aggregate.kind == "count":
        return None
    if query.limit is None:
        return replace(query, limit=ROWS)
    return replace(query, limit=MOST_ROWS) if query.limit > MOST_ROWS else None


def collection_page(
    planned: PlannedQuery,
    values: list[Any],
    query: Query | None,
    cursor: str | None,
    registration: Registration | None,
    links: Links,
    *,
    is_whole: bool,
    is_plain: bool,
    is_cut: bool,
) -> CollectionPage:
    """`values`: the rows. `query`: what the address asks for, None if that is not known: then nothing but rows is shown. `cursor`: of the next page.
    `is_whole`: it is the collection of all records, not of those whose keys begin in some way. `is_plain`: no code of an application is in front of the
    table. `is_cut`: there are more rows, though nothing limits them."""
    table = planned.table
    variants = None if query is None else Variants(query)
    rows = _rows(planned, values, query, variants, registration, links)
    page = CollectionPage(rows, "record" if planned.plan.query.aggregate is None else "row", is_cut=is_cut, variants=variants)
    if query is None or variants is None:
        return page
    if query.aggregate is None:
        scans = bool(getattr(None if registration is None else registration.resource, "allow_full_scan", False))
        _add_orders(rows.columns, planned, query, variants, scans=scans)
        if is_plain:
            page.filter = filter_form(filterable(table, planned.visible), query)
            page.count = _count_form(table, planned.visible, page.filter.query)
    page.chips = [
        Chip(shortened(unquote(text), CELL), variants.without(number)) for number, text in enumerate(variants.conditions[:MOST_CHIPS])
    ]
    if cursor is not None:
        page.next = printed(replace(query, offset=0, after=cursor)) or ""
    elif planned.plan.limit and planned.plan.limit == len(values) and (planned.plan.order is None or query.aggregate is not None):
        # There may be more, and nothing that a cursor could hold.
        limit = planned.plan.limit
        page.next = printed(replace(query, offset=query.offset + limit, limit=limit)) or ""
    elif is_cut and query.limit is None:
        page.next = printed(replace(query, offset=query.offset + len(values), limit=len(values))) or ""
        page.is_cut = not page.next
    _add_pages_before(page, planned, query)
    is_counted = is_whole and is_plain and not rule_members(planned.plan.table)  # all records, of which the caller may read each
    if is_counted and query.where is None and query.aggregate is None and not query.counted:
        page.total = known_count(table, table.database.snapshot())
    elif is_counted and query.where is not None and query.aggregate is None and not query.counted:
        page.total = _found_by_index(planned)
    return page


def _found_by_index(planned: PlannedQuery) -> int | None:
    """How many records the query finds, if all its conditions are one range of an index, which counts it in a few steps."""
    plan, table = planned.plan, planned.table
    access = plan.access
    if plan.filter is not None or not isinstance(access, IndexRange) or access.distinct or table.definition.expiration is not None:
        return None
    if plan.query.after is not None and not access.single:  # a cursor has narrowed the range
        return None
    return table.indexes[access.attribute].exact_count(table.database.snapshot(), access.low, access.high, MOST_STEPS)


def _add_pages_before(page: CollectionPage, planned: PlannedQuery, query: Query) -> None:
    """The first page and the one before this one, which is found by its position: a cursor knows no way back."""
    if query.after is not None or query.offset:
        page.first = printed(replace(query, offset=0, after=None)) or ""
    before = planned.plan.before + query.offset
    size = query.limit or ROWS
    if before > size:
        page.previous = printed(replace(query, offset=before - size, limit=size, after=None)) or ""
    elif before:
        page.previous = page.first
    if page.table.count and (before or query.after is None):
        page.start = before + 1


def listed(values: list[Any]) -> Rows | None:
    """A list of objects as a table; None if some are something else."""
    if not values or not all(isinstance(value, Mapping) for value in values):
        return None
    names: dict[Any, None] = {}
    is_counted = _add_names(names, values)
    shown, hidden = _divided(names)
    rows = ([cell_of(value.get(name, MISSING)) for name in shown] for value in values)
    columns = [Column(shortened(str(name), CELL)) for name in shown]
    return Rows(columns, rows, len(values), hidden, len(names) - len(shown), is_counted)


def _rows(
    planned: PlannedQuery,
    values: list[Any],
    query: Query | None,
    variants: Variants | None,
    registration: Registration | None,
    links: Links,
) -> Rows:
    shape, table, count = plan_shape(planned), planned.table, len(values)
    if shape.form == "value":
        name = shape.columns[0] if shape.columns else "value"
        return Rows([Column(shortened(name, CELL))], ([cell_of(value)] for value in values), count)
    if shape.form == "array":
        columns = [Column(shortened(name, CELL)) for name in shape.columns[:MOST_COLUMNS]]
        return Rows(columns, ([cell_of(value) for value in row[:MOST_COLUMNS]] for row in values), count)
    names = dict.fromkeys(shape.columns)
    is_counted = _add_names(names, values)  # of what is not declared
    shown, hidden = _divided(names)
    is_plain = planned.plan.query.aggregate is None
    key = table.primary_key if is_plain and registration is not None else None
    targets = {name: target for name in shown if is_plain and name != key and (target := _target_of(name, table)) is not None}
    joined = _joined(shown, table) if is_plain else {}
    labels = None
    if targets:
        from svc.pages.labels import Labels  # many servers never show a page

        labels = Labels(table, links)
    grouped = {} if query is None else _grouped(query, table)

    makers: list[tuple[str, Callable[[Any], Any] | None]] = []
    for name in shown:
        make: Callable[[Any], Any] | None = None
        if name == key and registration is not None:
            make = _key_maker(registration, links)
        elif name in joined:
            make = partial(related_cell, target=joined[name], links=links)
        elif name in grouped and variants is not None:
            make = _group_maker(grouped[name], variants)
        elif name in targets:
            make = _foreign_maker(targets[name], links, None if labels is None else labels.of(name))
        makers.append((name, make))

    def cells(value: Mapping[str, Any]) -> list[Any]:
        get = value.get
        return [get(name, MISSING) if make is None else make(get(name, MISSING)) for name, make in makers]

    types = seen_attributes(table, planned.visible)
    columns = [Column(shortened(name, CELL), type_text(types[name]) if name in types else "") for name in shown]
    return Rows(columns, map(cells, values), count, hidden, len(names) - len(shown), is_counted)


def _key_maker(registration: Registration, links: Links) -> Callable[[Any], Any]:
    """What makes the cell of a key, which leads to its record."""
    prefix = links.prefix(registration)

    def make(key: Any) -> Any:
        if prefix and type(key) is str and len(key) <= CELL and key.isascii() and key.isalnum():
            return Link(key, prefix + key)
        return _key_cell(key, links.record_at(registration, key))

    return make


def _group_maker(name: str, variants: Variants) -> Callable[[Any], Any]:
    """What makes the cell of a key of an aggregate, which leads to the records behind it."""
    return lambda value: _key_cell(value, variants.with_value(name, value))


def _foreign_maker(target: Table, links: Links, label_of: Callable[[Any], str] | None) -> Callable[[Any], Any]:
    """What makes the cell of a foreign key, with what the record is called that it leads to."""
    registration = links.registration(target)
    prefix = "" if registration is None else links.prefix(registration)

    def make(key: Any) -> Any:
        label = "" if label_of is None else label_of(key)
        if prefix and type(key) is str and len(key) <= CELL and key.isascii() and key.isalnum():
            return Link(key, prefix + key, label)
        cell = foreign_cell(key, target, links)
        if label:
            cell.note = label
        return cell

    return make


def _joined(names: Iterable[str], table: Table) -> dict[str, Table]:
    """The relationships among columns, and the tables that they lead to."""
    found = {}
    for name in names:
        attribute = table.attributes.get(name)
        if attribute is not None and attribute.relationship is not None and (target := target_table(table, attribute)) is not None:
            found[name] = target
    return found


def related_cell(value: Any, target: Table, links: Links) -> Cell:
    """A cell for a record of `target` that was joined, or for several: what each is called, which leads to it, and what else was selected of it."""
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return Cell("", "nested", items=[_label(each, target, links) for each in value[:MOST_ITEMS]], is_cut=len(value) > MOST_ITEMS)
    return _label(value, target, links) if isinstance(value, dict) and value else cell_of(value)


def _label(record: dict[str, Any], target: Table, links: Links) -> Cell:
    key = target.primary_key
    texts = [name for name, value in record.items() if isinstance(value, str) and value and name != key]
    name = next((name for name in TITLES if name in texts), texts[0] if texts else key if key in record else None)
    if name is None:
        return cell_of(record)
    others = {other: value for other, value in record.items() if other not in (name, key)}
    cell = cell_of(record[name])
    cell.href = links.record(target, record[key]) if key in record else ""
    cell.note = cell_of(others, _LONGEST_NOTE).text if others else ""
    return cell


def foreign_cell(value: Any, target: Table, links: Links, most: int = CELL) -> Cell:
    """A cell that leads to the record of `target` whose key it holds, or to those whose keys."""
    cell = cell_of(value, most)
    if value is MISSING or value is None:
        return cell
    if isinstance(value, list) and not target.definition.split_segments:
        items = [Cell(shortened(str(each), CELL), href=links.record(target, each)) for each in value[:MOST_ITEMS]]
        if any(item.href for item in items):
            return Cell(cell.text, "nested", items=items, is_cut=len(value) > MOST_ITEMS)
        return cell
    cell.href = links.record(target, value)
    return cell


def _grouped(query: Query, table: Table) -> dict[str, str]:
    """Columns of an aggregate -> the attributes whose values they hold, as far as conditions can speak of these."""
    aggregate = query.aggregate
    if aggregate is None:
        return {}
    names = {path[0] for path in aggregate.keys if len(path) == 1}.intersection(filterable(table, None))
    return {"value" if aggregate.kind == "facet" else name: name for name in names}


def _key_cell(value: Any, href: str) -> Cell:
    cell = cell_of(value)
    cell.href = href
    if href and not cell.text:
        cell.text = "(empty)"
    return cell


def foreign_keys(table: Table) -> dict[str, Attribute]:
    """Attributes that hold keys of other tables -> the relationship that they serve."""
    found: dict[str, Attribute] = {}
    for attribute in table.definition.attributes:
        relationship = attribute.relationship
        if relationship is not None and relationship.from_ is not None and relationship.to is None:
            found.setdefault(relationship.from_, attribute)
    return found


def _target_of(name: str, table: Table) -> Table | None:
    attribute = foreign_keys(table).get(name)
    return None if attribute is None else target_table(table, attribute)


def target_table(table: Table, attribute: Attribute) -> Table | None:
    """Where a relationship leads; None: to a table that is not there."""
    try:
        found: Any = related_table(table, attribute)
    except QueryError:
        return None
    return found if isinstance(found, Table) else None


def _add_names(names: dict[Any, None], values: Iterable[Mapping[Any, Any]]) -> bool:
    """Add the names of all properties, as far as they are worth the time; returns whether these are all."""
    for value in values:
        if len(names) > MOST_NAMES:
            return False
        names.update(dict.fromkeys(value))
    return True


def _divided(names: Iterable[Any]) -> tuple[list[Any], list[str]]:
    """The columns that are shown, and some that are not, as text."""
    every = list(names)
    return every[:MOST_COLUMNS], [shortened(str(name), CELL) for name in every[MOST_COLUMNS : MOST_COLUMNS + MOST_HIDDEN]]


def _add_orders(columns: list[Column], planned: PlannedQuery, query: Query, variants: Variants, *, scans: bool) -> None:
    now = query.sort[0] if query.sort else None
    known = seen_attributes(planned.table, planned.visible)
    for column in columns:
        attribute = known.get(column.name)
        if attribute is None or not can_be_sorted(attribute, planned.table, query, scans=scans):
            continue
        column.up, column.down, column.further_up, column.further_down = variants.orders_by(column.name)
        if now is not None and now.path == (column.name,):
            column.order = "descending" if now.descending else "ascending"


def filterable(table: Table, visible: frozenset[str] | None) -> list[str]:
    """The attributes that an index answers conditions on, of those that the caller sees."""
    ready = {name for name, index in table.indexes.items() if index.ready} | {table.primary_key}
    return [each.name for each in shown_attributes(table, visible) if each.name in ready]


def _count_form(table: Table, visible: frozenset[str] | None, query: str) -> CountForm:
    attributes = [each for each in shown_attributes(table, visible) if each.stored and each.type not in ("Blob", "Bytes")]
    fields = [each.name for each in attributes if each.name != table.primary_key]
    return CountForm(fields, [each.name for each in attributes if each.type in _NUMBERS and not each.elements], query)


def seen_attributes(table: Table, visible: frozenset[str] | None) -> Mapping[str, Attribute]:
    """The attributes that a caller may know of, by name."""
    known = table.attributes
    return known if visible is None else {name: known[name] for name in visible if name in known}


def shown_attributes(table: Table, visible: frozenset[str] | None) -> list[Attribute]:
    return [each for each in table.definition.attributes if each.relationship is None and (visible is None or each.name in visible)]


def type_text(attribute: Attribute) -> str:
    """
    >>> type_text(Attribute("tags", "String", elements=True))
    '[String]'
    """
    return f"[{attribute.type}]" if attribute.elements else attribute.type
