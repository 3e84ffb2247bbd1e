"""Selections: the `select` of a query (spec: query §8).

A selection is compiled into one function from raw records to the values that are returned. The usual selections, names of the record's own
attributes, decode only these, all records in one call. Related records are looked up and shaped for the whole batch, each different one
once, in steps (`relations.SteppedFunction`), and weighed: the same shaped record may stand in the answer any number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from svc.errors import QueryError
from svc.freeing import free_later
from svc.query.budget import MEMBER_BYTES, VALUE_BYTES
from svc.query.followers import Pair
from svc.query.functions import Column, Encoded, Filter, Values, filter_of, sort_keys, values_reader
from svc.query.links import Link, Links
from svc.query.nodes import Query, Select, SelectItem, SortKey
from svc.query.plan import AllOf, AnyOf, Predicate, RelatedCondition, iter_members
from svc.query.relations import Lookups, memo_key
from svc.query.resolve import related_table, resolve_sort_key, resolve_where
from svc.query.sorting import Collector
from svc.query.steps import SteppedFunction, Steps, chunks, distinct, in_steps, of_parts
from svc.query.tables import AnyTable
from svc.store.schema import Attribute
from svc.store.values.records import (
    MISSING,
    decode,
    decode_json,
    decode_json_many,
    expiry_of,
    json_selector,
    projection,
    version_of,
)

SHAPED_AT_ONCE = 256  # related records
SORTED_AT_ONCE = 1024
COLUMNS_AT_ONCE = 8  # each may have hundreds of related records

Shape = Callable[[list[bytes], Lookups], list[Any]]
WIDE = 200  # names of a selection from which on it is not worth a type of its own to decode into

ColumnOf = Callable[[list[bytes], Lookups], Column]
ListsShaper = Callable[[list[list[Pair]], Lookups], Steps[list[list[Any]]]]


def _plain_version(raw: bytes) -> float | int:
    version = version_of(raw)
    return int(version) if version.is_integer() else version


def _plain_expiry(raw: bytes) -> object:
    expiry = expiry_of(raw)
    if expiry is None:
        return MISSING
    return int(expiry) if expiry.is_integer() else expiry


def validate_select(select: Select, table: AnyTable) -> None:
    """Raises QueryError for what can be seen from the definition; names that are not declared are read from the record."""
    for item in select.items:
        attribute = table.attributes.get(item.path[0])
        relationship = None if attribute is None else attribute.relationship
        if attribute is None or relationship is None:
            if item.query is not None:
                raise QueryError(f"{item.path[0]} is not a relationship, [...] cannot be used with it", code="UNUSABLE_OPERATOR")
            continue
        target = related_table(table, attribute)
        if item.nested is not None:
            validate_select(item.nested, target)
        if item.query is not None:
            if item.query.where is not None:
                resolve_where(item.query.where, target)
            for key in item.query.sort:
                resolve_sort_key(key, target)
            if item.query.select is not None:
                validate_select(item.query.select, target)
        if len(item.path) > 1:
            validate_select(Select((SelectItem(item.path[1:]),), "value"), target)


def columns_of(select: Select | None, table: AnyTable) -> tuple[str, ...]:
    """The names of the result's columns: the selection, else the declared stored attributes (spec: http §7.3)."""
    stored = tuple([attribute.name for attribute in table.attributes.values() if attribute.stored])
    if select is None:
        return stored
    names: dict[str, None] = {}
    for item in select.items:
        names.update(dict.fromkeys(stored if item.path == ("*",) else (item.name,)))
    return tuple(names)


def joins(select: Select | None, table: AnyTable) -> bool:
    """Whether the selection reads other tables."""
    if select is None:
        return False
    return any((found := table.attributes.get(item.path[0])) is not None and found.relationship is not None for item in select.items)


def compile_select(
    select: Select,
    table: AnyTable,
    links: Links,
    *,
    json: bool,
    where: Predicate | None = None,
    sort: tuple[SortKey, ...] = (),
) -> Shape:
    """The function of a selection. `where`, `sort`: the query's own, because they also narrow and order what a to-many relationship
    selects (spec: query §7, §8)."""
    items = select.items
    names = tuple([item.name for item in items])
    selected, given = None, tuple(range(len(items)))
    others = tuple([at for at, item in enumerate(items) if not is_own_property(item, table)])
    if select.shape == "object" and "*" not in names and (len(items) > WIDE or any(item.alias is not None for item in items)):
        given = others
        build = _picked_objects(items, others, names, select.nulls, json)
    else:
        if select.shape == "object" and json and len(set(names)) == len(names) and "*" not in names:
            selected = json_selector(names, others, None if select.nulls else MISSING)
        if selected is None and not others:
            return _plain(tuple([item.path[0] for item in items]), select, json)
        if selected is not None:
            given = others
        build = _selected_objects(selected, select.nulls) if selected is not None else _values_of(select, names)
    columns = [_column(items[at], table, links, json, where, sort) for at in given]
    related = [at for at, column in enumerate(columns) if type(column) is SteppedFunction]
    if not related:
        return lambda raws, lookups: build(raws, [column(raws, lookups) for column in columns])

    def shape(raws: list[bytes], lookups: Lookups) -> Steps[list[Any]]:
        values: list[Column] = [[]] * len(columns)
        for at, column in enumerate(columns):
            values[at] = yield from in_steps(column, raws, lookups)
            if at % COLUMNS_AT_ONCE == COLUMNS_AT_ONCE - 1:
                yield
        results = build(raws, values)
        if lookups.has_weights:
            weights = [1] * len(raws)
            for at in related:
                weights = [weight + lookups.weight(value) - 1 for weight, value in zip(weights, values[at], strict=True)]
            for result, weight in zip(results, weights, strict=True):
                lookups.weigh(result, weight)
        return results

    return SteppedFunction(shape)


def _selected_objects(
    selected: Callable[[list[bytes], list[Column]], list[Any]], nulls: bool
) -> Callable[[list[bytes], list[Column]], list[Any]]:
    if not nulls:
        return selected
    return lambda raws, columns: selected(raws, [list(map(_or_null, column)) for column in columns])


def _picked_objects(
    items: Sequence[SelectItem], others: tuple[int, ...], names: tuple[str, ...], nulls: bool, json: bool
) -> Callable[[list[bytes], list[Column]], list[Any]]:
    """Objects whose names are not those of the record, or are very many: each property is read once, however often it is selected. The columns given are
    those of `others`."""
    is_other = set(others)
    distinct = tuple(dict.fromkeys([item.path[0] for at, item in enumerate(items) if at not in is_other]))
    place_of = {name: place for place, name in enumerate(distinct)}
    other_of = {at: len(distinct) + number for number, at in enumerate(others)}
    sources = [other_of[at] if at in is_other else place_of[item.path[0]] for at, item in enumerate(items)]
    read: Callable[[bytes], Sequence[Any]] = projection(distinct, json) if len(distinct) <= WIDE else _wide_reader(distinct, json)

    def objects(raws: list[bytes], columns: list[Column]) -> list[dict[str, Any]]:
        found = []
        for at, raw in enumerate(raws):
            row = [*read(raw), *[column[at] for column in columns]]
            pairs = zip(names, [row[source] for source in sources], strict=True)
            if nulls:
                found.append({name: None if value is MISSING else value for name, value in pairs})
            else:
                found.append({name: value for name, value in pairs if value is not MISSING})
        return found

    return objects


def _wide_reader(names: tuple[str, ...], json: bool) -> Callable[[bytes], list[Any]]:
    """As `projection`, of very many names."""
    decode_one = decode_json if json else decode

    def read(raw: bytes) -> list[Any]:
        record = decode_one(raw)
        return [record.get(name, MISSING) for name in names]

    return read


def _values_of(select: Select, names: tuple[str, ...]) -> Callable[[list[bytes], list[Column]], list[Any]]:
    """From columns to the values of the selection."""
    if select.shape == "value":
        return lambda raws, columns: [_or_null(value) for value in columns[0]]
    if select.shape == "array":
        return lambda raws, columns: [[_or_null(value) for value in values] for values in zip(*columns, strict=True)]
    nulls = select.nulls

    def objects(raws: list[bytes], columns: list[Column]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for values in zip(*columns, strict=True):
            result: dict[str, Any] = {}
            for name, value in zip(names, values, strict=True):
                if name == "*":
                    result.update(value)
                elif value is not MISSING:
                    result[name] = value
                elif nulls:
                    result[name] = None
            found.append(result)
        return found

    return objects


def enumerable_select(table: AnyTable, *, related: bool = False) -> Select | None:
    """What a whole record of the table shows: None for its stored properties, else these and what is declared `@enumerable`.

    `related`: as a related record. Then relationships are left out, or two that lead to each other would never end.
    """
    names = [
        attribute.name
        for attribute in table.attributes.values()
        if attribute.enumerable and (attribute.computed_from is not None or (attribute.relationship is not None and not related))
    ]
    return Select((SelectItem(("*",)), *[SelectItem((name,)) for name in names])) if names else None


def select_from(value: object, nested: Select) -> object:
    """A nested selection from a plain value: objects are narrowed, lists element by element, anything else stays."""
    if isinstance(value, list):
        return [select_from(element, nested) for element in value]
    if not isinstance(value, Mapping):
        return value
    result: dict[str, object] = {}
    for item in nested.items:
        if item.path == ("*",):
            result.update(value)
            continue
        found = _at_path(value, item.path) if item.constant is None else item.constant
        if found is not MISSING:
            result[item.name] = found if item.nested is None else select_from(found, item.nested)
        elif nested.nulls:
            result[item.name] = None
    return result


def narrowing(where: Predicate | None, name: str) -> Predicate | None:
    """What the query's conditions demand of the records of the relationship `name`: each of these lets the record be found that it asks for.

    None: nothing that a related record has to fulfil.
    """
    if isinstance(where, RelatedCondition):
        return where.where if where.name == name else None
    if isinstance(where, AnyOf):
        found = [narrowing(member, name) for member in where.members]
        return None if None in found else AnyOf(tuple([each for each in found if each is not None]))
    demands = [demand for member in iter_members(where) if member is not where and (demand := narrowing(member, name)) is not None]
    if len(demands) < 2:
        return demands[0] if demands else None
    return AnyOf(tuple(demands))  # each condition by itself found its record; all of these matched


def is_own_property(item: SelectItem, table: AnyTable) -> bool:
    """Whether it is read from the record as it is stored."""
    name = item.path[0]
    if (
        len(item.path) > 1
        or item.nested is not None
        or item.query is not None
        or item.constant is not None
        or name == "*"
        or name in _PSEUDO
        or name in ("$id", "$record")
    ):
        return False
    attribute = table.attributes.get(name)
    return attribute is None or attribute.stored


def _plain(names: tuple[str, ...], select: Select, json: bool) -> Shape:
    if select.shape == "object" and select.nulls:
        filled = projection(names, json, None)
        return lambda raws, lookups: [dict(zip(names, filled(raw), strict=True)) for raw in raws]
    values_of = projection(names, json)
    if select.shape == "value":
        return lambda raws, lookups: [_or_null(values_of(raw)[0]) for raw in raws]
    if select.shape == "array":
        return lambda raws, lookups: [[None if value is MISSING else value for value in values_of(raw)] for raw in raws]
    return lambda raws, lookups: [
        {name: value for name, value in zip(names, values_of(raw), strict=True) if value is not MISSING} for raw in raws
    ]


def _column(item: SelectItem, table: AnyTable, links: Links, json: bool, where: Predicate | None, sort: tuple[SortKey, ...]) -> ColumnOf:
    """The values of one item for many records, MISSING where a record has none."""
    name = item.path[0]
    if item.constant is not None:
        return lambda raws, lookups: [item.constant] * len(raws)
    if name == "*" or name == "$record":
        return lambda raws, lookups: decode_json_many(raws) if json else [decode(raw) for raw in raws]
    if name in _PSEUDO:
        pseudo = _PSEUDO[name]
        return lambda raws, lookups: [pseudo(raw) for raw in raws]
    attribute = table.attributes.get(name)
    if attribute is not None and attribute.relationship is not None:
        through = tuple([SortKey(key.path[1:], key.descending) for key in sort if key.path[0] == name and len(key.path) > 1])
        return _related_column(item, attribute, table, links, json, narrowing(where, name), through)
    values_of = values_reader(table, (table.primary_key if name == "$id" else name,), json)
    rest, nested = item.path[1:], item.nested

    def get(raw: bytes) -> object:
        value = values_of(raw)[0]
        if rest:
            value = _at_path(value, rest)
        return value if nested is None or value is MISSING else select_from(value, nested)

    return lambda raws, lookups: [get(raw) for raw in raws]


def _related_column(
    item: SelectItem,
    attribute: Attribute,
    table: AnyTable,
    links: Links,
    json: bool,
    narrowed: Predicate | None,
    sort: tuple[SortKey, ...],
) -> ColumnOf:
    """What a selected relationship gives: an object, MISSING if there is none, or for a to-many one a list.

    `narrowed`: what the query demands of the related records. `sort`: the query's sort keys that go through the relationship.
    """
    link = links.link(table, attribute)
    target = link.target
    query = item.query or Query()
    own_where = None if query.where is None else resolve_where(query.where, target)
    # A to-one record is the one the condition speaks of, or the record itself would not have matched.
    demands = [demand for demand in (narrowed if link.many else None, own_where) if demand is not None]
    tests = [filter_of(demand, target, links) for demand in demands]
    order = query.sort or (sort if link.many else ())
    codes = sort_keys(order, target, links) if order else None
    known = [demand for demand in (narrowed, own_where) if demand is not None]
    below = AllOf(tuple(known)) if len(known) > 1 else known[0] if known else None
    shape = _related_shape(item, target, links, json, below, query.sort or sort)
    values_of = values_reader(table, (link.source,))
    part = slice(query.offset, None if query.limit is None else query.offset + query.limit)
    shaped_lists = _lists_shaper(tests, codes, part, shape if not link.many else _without_missing(shape), _cost_of(item, target))
    is_nested = type(shape) is SteppedFunction
    if link.many and link.source == table.primary_key:
        return _column_by_key(link, values_of, shaped_lists, is_nested)
    return _column_by_value(link, values_of, shaped_lists, is_nested)


def _lists_shaper(tests: list[Filter], codes: Encoded | None, part: slice, shape: Shape, cost: Callable[[list[bytes]], int]) -> ListsShaper:
    """The function that narrows, orders, cuts and shapes lists of related records; each related record is tested and shaped once."""
    is_cut = part != slice(0, None)

    def shaped_lists(lists: list[list[Pair]], lookups: Lookups) -> Steps[list[list[Any]]]:
        if tests:
            lists = yield from _passing(lists, tests, lookups)
        if codes is not None:
            lists = yield from _ordered(lists, codes, lookups)
        if is_cut:
            for pairs in lists:
                free_later(pairs.copy())
            lists = [pairs[part] for pairs in lists]
        value_of: dict[bytes, Any] = {}
        try:
            for chunk in distinct(lists, SHAPED_AT_ONCE):
                if value_of:
                    yield
                if not chunk:
                    continue
                raws = [raw for _, raw in chunk]
                lookups.budget.hold(cost(raws))
                shaped = yield from in_steps(shape, raws, lookups)
                value_of.update(zip([key for key, _ in chunk], shaped, strict=True))
            return (yield from of_parts(lists, lambda pairs: [value_of[key] for key, _ in pairs]))
        finally:
            free_later(value_of)
            for pairs in lists:
                free_later(pairs)

    return shaped_lists


def _without_missing(shape: Shape) -> Shape:
    """A shape whose values have no gaps: null where there is nothing."""
    if type(shape) is not SteppedFunction:
        return lambda raws, lookups: [_or_null(value) for value in shape(raws, lookups)]
    steps = shape.steps

    def filled(raws: list[bytes], lookups: Lookups) -> Steps[list[Any]]:
        return [_or_null(value) for value in (yield from steps(raws, lookups))]

    return SteppedFunction(filled)


def _weigh(values: list[Any], lookups: Lookups, is_nested: bool) -> Steps[None]:
    weight = 1
    if is_nested:
        for part in chunks(values):
            if weight > 1:
                yield
            weight += sum(map(lookups.weight, part))
    else:
        weight += len(values)
    lookups.weigh(values, weight)


def _column_by_key(link: Link, values_of: Values, shaped_lists: ListsShaper, is_nested: bool) -> ColumnOf:
    """The column of a to-many relationship that starts in the primary key: no two records share a list."""

    def lists_of(raws: list[bytes], lookups: Lookups) -> Steps[Column]:
        lists = yield from lookups.follower(link).pairs([values_of(raw)[0] for raw in raws])
        column = yield from shaped_lists(lists, lookups)
        for values in column:
            yield from _weigh(values, lookups, is_nested)
        return column

    return SteppedFunction(lists_of)


def _column_by_value(link: Link, values_of: Values, shaped_lists: ListsShaper, is_nested: bool) -> ColumnOf:
    """The column of a relationship in which several records may lead to the same ones: shaped values are remembered, with their weights."""
    owner = object()

    def values(raws: list[bytes], lookups: Lookups) -> Steps[Column]:
        memo = lookups.memo(owner)
        sources = [values_of(raw)[0] for raw in raws]
        places = [source if type(source) is str else memo_key(source) for source in sources]
        unknown: dict[Any, object] = {}
        for place, source in zip(places, sources, strict=True):
            if place is None or place in unknown:
                continue
            known = memo.get(place)
            if known is None:
                unknown[place] = source
            elif known[1] > 1:
                lookups.weigh(*known)
        if unknown:
            held = lookups.budget.held
            lists = yield from _lists_of(link, list(unknown.values()), lookups)
            memo.size += max(lookups.budget.held - held, 0) if link.many else sum([len(pair[1]) for pairs in lists for pair in pairs])
            for place, some in zip(unknown, (yield from shaped_lists(lists, lookups)), strict=True):
                value: Any = some
                if link.many:
                    yield from _weigh(some, lookups, is_nested)
                else:
                    value = some[0] if some else MISSING
                memo[place] = value, lookups.weight(value)
        if link.many:
            return [[] if place is None else memo[place][0] for place in places]
        return [MISSING if place is None else memo[place][0] for place in places]

    return SteppedFunction(values)


def _cost_of(item: SelectItem, target: AnyTable) -> Callable[[list[bytes]], int]:
    """About how many bytes shaped related records take."""
    nested = item.nested if item.query is None else item.query.select
    is_whole = nested is None or any(member.path == ("*",) for member in nested.items)
    members = 0 if nested is None else MEMBER_BYTES * len(nested.items)

    def cost(raws: list[bytes]) -> int:
        content = sum(map(len, raws))
        return VALUE_BYTES * len(raws) + (2 * content if is_whole else min(members * len(raws) + content, 2 * content))

    return cost


def _lists_of(link: Link, sources: list[object], lookups: Lookups) -> Steps[list[list[Pair]]]:
    if link.many:
        return (yield from lookups.follower(link).pairs(sources))
    return [[] if pair is None else [pair] for pair in lookups.firsts(link, sources)]


def _passing(lists: list[list[Pair]], tests: list[Filter], lookups: Lookups) -> Steps[list[list[Pair]]]:
    """Of each list the records that pass all tests."""
    passed: set[bytes] = set()
    is_first = True
    try:
        for pairs in distinct(lists):
            if not is_first:
                yield
            is_first = False
            if not pairs:
                continue
            for test in tests:
                pairs = yield from in_steps(test, pairs, lookups)
            passed.update([key for key, _ in pairs])
        return (yield from of_parts(lists, lambda pairs: [pair for pair in pairs if pair[0] in passed]))
    finally:
        free_later(passed)
        for pairs in lists:
            free_later(pairs)


def _ordered(lists: list[list[Pair]], codes: Encoded, lookups: Lookups) -> Steps[list[list[Pair]]]:
    """Each list in the order of the codes of its records."""
    code_of: dict[bytes, bytes] = {}
    collector = Collector(None)
    ordered: list[list[Pair]] = []
    since_pause = 0
    try:
        for chunk in distinct(lists):
            if code_of:
                yield
            if not chunk:
                continue
            found = yield from in_steps(codes, chunk, lookups)
            code_of.update(zip([key for key, _ in chunk], found, strict=True))
            lookups.budget.hold(sum(map(len, found)))
        for pairs in lists:
            if len(pairs) <= SORTED_AT_ONCE:
                ordered.append(sorted(pairs, key=lambda pair: code_of[pair[0]]))
                since_pause += len(pairs)
                if since_pause > SORTED_AT_ONCE:
                    since_pause = 0
                    yield
                continue
            collector = Collector(None)
            result: list[Pair] = []
            for some in chunks(pairs):
                collector.add([(code_of[pair[0]], pair) for pair in some])
                yield
            while len(result) < len(pairs):
                result += collector.take(SORTED_AT_ONCE)
                yield
            ordered.append(result)
        return ordered
    finally:
        collector.free()
        free_later(code_of)
        for pairs in lists:
            free_later(pairs)


def _related_shape(
    item: SelectItem, target: AnyTable, links: Links, json: bool, where: Predicate | None, sort: tuple[SortKey, ...]
) -> Shape:
    if len(item.path) > 1:
        return _column(SelectItem(item.path[1:], item.nested, item.query), target, links, json, where, sort)
    nested = item.nested if item.query is None else item.query.select
    if nested is None:
        nested = enumerable_select(target, related=True)
    if nested is not None:
        return compile_select(nested, target, links, json=json, where=where, sort=sort)
    return lambda raws, lookups: decode_json_many(raws) if json else [decode(raw) for raw in raws]


def _at_path(value: object, path: tuple[str, ...]) -> object:
    """The value at a path into nested objects; through a list, the list of what its elements hold."""
    for at, name in enumerate(path):
        if isinstance(value, list):
            found = [_at_path(element, path[at:]) for element in value]
            return [element for element in found if element is not MISSING]
        if not isinstance(value, Mapping):
            return MISSING
        value = value.get(name, MISSING)
    return value


def _or_null(value: object) -> object:
    return None if value is MISSING else value


_PSEUDO: dict[str, Callable[[bytes], object]] = {
    "$updatedtime": _plain_version,
    "$updatedTime": _plain_version,
    "$expiresAt": _plain_expiry,
}
