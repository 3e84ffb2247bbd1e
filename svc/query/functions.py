"""Filters, sort keys and columns as functions of many records at once.

    Filter      pairs -> those that match
    SortKeys    pairs -> bytes that sort as they do, ties by primary key
    Columns     raw records -> for each path the values, one for each record

Those that look at other tables are `SteppedFunction`: they can be called, or taken in steps. All take the `Lookups` of the execution, for what they have to
know of other tables; they keep no transaction themselves and are made once for a plan. Related records are looked up for the whole batch, each
different one once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from svc.errors import BadValue
from svc.freeing import free_later
from svc.query.followers import Pair
from svc.query.links import Link, Links
from svc.query.matching import all_match, compile_predicate, leaves, names_of, reads_others, sort_bytes
from svc.query.nodes import SortKey
from svc.query.plan import AnyOf, Plan, Predicate, RelatedCondition, iter_members
from svc.query.relations import Lookups, memo_key
from svc.query.steps import SteppedFunction, Steps, chunks, distinct, in_steps
from svc.query.tables import AnyTable
from svc.store.values.keys import encode_key, index_keys
from svc.store.values.records import MISSING, decode_payload_json, encode_payload, projection

Filter = Callable[[list[Pair], Lookups], list[Pair]]
Encoded = Callable[[list[Pair], Lookups], list[bytes]]
Parts = Callable[[list[Pair], Lookups], list[list[bytes]]]
Column = list[Any]
Columns = Callable[[list[bytes], Lookups], list[Column]]
Values = Callable[[bytes], tuple[Any, ...]]

PAUSE_AFTER = 512  # related records that are tested without a match

INVERTED = bytes(range(255, -1, -1))
_NULL = sort_bytes(None)
_SAME_IN_JSON = frozenset((str, int, float, bool, type(None)))


def values_reader(table: AnyTable, names: tuple[str, ...], json: bool = False) -> Values:
    """The values of these attributes of a raw record, stored or computed; `json`: in the form that JSON shows."""
    if any((found := table.attributes.get(name)) is not None and found.computed_from is not None for name in names):
        return _computed_reader(table, names, json)
    return projection(names, json)


def _computed_reader(table: AnyTable, names: tuple[str, ...], json: bool) -> Values:
    """Some of them are computed: it decodes what they are made from."""
    if len(names) > 1:
        readers = [values_reader(table, (name,), json) for name in names]
        return lambda raw: tuple([read(raw)[0] for read in readers])
    value_of = table.computed[names[0]].reader()
    if not json:
        return lambda raw: (value_of(raw),)

    def json_value_of(raw: bytes) -> tuple[Any]:
        value = value_of(raw)
        return (value if type(value) in _SAME_IN_JSON else decode_payload_json(encode_payload(value)),)

    return json_value_of


def index_keys_reader(table: AnyTable, name: str) -> Callable[[bytes], Sequence[bytes]]:
    """The keys that a raw record has in the index of an attribute."""
    values_of = values_reader(table, (name,))

    def keys_of(raw: bytes) -> Sequence[bytes]:
        value = values_of(raw)[0]
        return index_keys(None if value is MISSING else value)

    return keys_of


# filters


def filter_of(predicate: Predicate, table: AnyTable, links: Links) -> Filter:
    """The conditions of an AND in their order; those that need no other table are tested together."""
    stages: list[Filter] = []
    plain: list[Predicate] = []
    for member in iter_members(predicate):
        if not reads_others(member):
            plain.append(member)
            continue
        if plain:
            stages.append(_plain_filter(plain, table))
            plain = []
        if isinstance(member, RelatedCondition):
            stages.append(_related_filter(member, table, links))
        elif isinstance(member, AnyOf):
            stages.append(_any_filter([filter_of(each, table, links) for each in member.members]))
        else:
            stages.append(filter_of(member, table, links))
    if plain:
        stages.append(_plain_filter(plain, table))
    if len(stages) == 1:
        return stages[0]

    def passing(pairs: list[Pair], lookups: Lookups) -> Steps[list[Pair]]:
        for stage in stages:
            if not pairs:
                break
            pairs = yield from in_steps(stage, pairs, lookups)
        return pairs

    return SteppedFunction(passing)


def _plain_filter(members: list[Predicate], table: AnyTable) -> Filter:
    names = tuple(dict.fromkeys(name for member in members for name in names_of(member)))
    matchers = [compile_predicate(member, names, table.primary_key) for member in members]
    values_of = values_reader(table, names)
    matches = all_match(matchers)
    return lambda pairs, lookups: [pair for pair in pairs if matches(values_of(pair[1]))]


def still_found_by(plan: Plan) -> Callable[[bytes, bytes], bool]:
    """Whether a record (stored key, raw) that the plan has found before it was written again is still one that it finds.

    Only the conditions on the record itself are asked again, not those on related ones.
    """
    members = [member for member in (*plan.served, *iter_members(plan.filter)) if not reads_others(member)]
    test = _plain_filter(members, plan.table)
    lookups = Lookups(None)
    return lambda stored, raw: bool(test([(stored, raw)], lookups))


def _any_filter(filters: list[Filter]) -> Filter:
    def passing(pairs: list[Pair], lookups: Lookups) -> Steps[list[Pair]]:
        matched: set[bytes] = set()
        rest = pairs
        for each in filters:
            found = yield from in_steps(each, rest, lookups)
            matched.update([key for key, _ in found])
            rest = [pair for pair in rest if pair[0] not in matched]
        return [pair for pair in pairs if pair[0] in matched]

    return SteppedFunction(passing)


def _related_filter(related: RelatedCondition, table: AnyTable, links: Links) -> Filter:
    """Whether some related record matches, remembered by the value of the foreign key."""
    link = links.of(related, table)
    values_of = values_reader(table, (link.source,))
    inner = None if related.where is None else filter_of(related.where, related.target, links)
    owner = object()

    def passing(pairs: list[Pair], lookups: Lookups) -> Steps[list[Pair]]:
        memo = lookups.memo(owner)
        values = [values_of(pair[1])[0] for pair in pairs]
        keys = [value if type(value) is str else memo_key(value) for value in values]
        unknown = {key: value for key, value in zip(keys, values, strict=True) if key is not None and key not in memo}
        if unknown:
            memo.update((yield from _exists(link, unknown, inner, lookups)))
        return [pair for pair, key in zip(pairs, keys, strict=True) if key is not None and memo[key]]

    return SteppedFunction(passing)


def _exists(link: Link, unknown: dict[Any, object], inner: Filter | None, lookups: Lookups) -> Steps[dict[Any, bool]]:
    """For each key whether its value leads to a record that passes `inner`."""
    if not link.many:
        found = lookups.firsts(link, list(unknown.values()))
        if inner is None:
            return {key: pair is not None for key, pair in zip(unknown, found, strict=True)}
        tested = yield from in_steps(inner, list(dict.fromkeys(pair for pair in found if pair is not None)), lookups)
        passed = {stored for stored, _ in tested}
        return {key: pair is not None and pair[0] in passed for key, pair in zip(unknown, found, strict=True)}
    follower = lookups.follower(link)
    exists: dict[Any, bool] = {}
    since_pause = 0
    for key, value in unknown.items():
        exists[key] = False
        for some in follower.each(value):
            if some if inner is None else (yield from in_steps(inner, some, lookups)):
                exists[key] = True
                break
            since_pause += len(some)
            if since_pause > PAUSE_AFTER:
                since_pause = 0
                yield
    return exists


# order


def sort_parts(keys: Sequence[SortKey], table: AnyTable, links: Links) -> Parts:
    """For each sort key the encoded values to sort by, ascending whatever the key says.

    Of several values (of related records, of nested objects) the smallest counts, descending the largest (spec: query §8).
    """
    if len(keys) == 1:
        part = _sort_part(keys[0], table, links)
        return lambda pairs, lookups: [part(pairs, lookups)]
    names = tuple(dict.fromkeys(key.path[0] for key in keys if _is_own(key.path, table) and key.path != (table.primary_key,)))
    values_of = values_reader(table, names)
    parts = [
        (_encoder(key), names.index(key.path[0]), None) if key.path[0] in names else (None, 0, _sort_part(key, table, links))
        for key in keys
    ]

    def encoded(pairs: list[Pair], lookups: Lookups) -> list[list[bytes]]:
        rows = [values_of(raw) for _, raw in pairs]
        return [
            [encode(values[at]) for values in rows] if encode is not None else part(pairs, lookups)  # type: ignore[misc]
            for encode, at, part in parts
        ]

    return encoded


def sort_keys(keys: Sequence[SortKey], table: AnyTable, links: Links) -> Encoded:
    """Bytes that sort as the keys do, ties by primary key. No encoding is the beginning of another, so inverted ones descend."""
    if not all(_is_own(key.path, table) for key in keys):
        return SteppedFunction(_related_keys(keys, table, links))
    descending = [key.descending for key in keys]
    if len(keys) == 1:
        part = _sort_part(keys[0], table, links)
        if descending[0]:
            return lambda pairs, lookups: [
                value.translate(INVERTED) + pair[0] for value, pair in zip(part(pairs, lookups), pairs, strict=True)
            ]
        return lambda pairs, lookups: [value + pair[0] for value, pair in zip(part(pairs, lookups), pairs, strict=True)]
    parts = sort_parts(keys, table, links)

    def joined(pairs: list[Pair], lookups: Lookups) -> list[bytes]:
        columns = [
            [value.translate(INVERTED) for value in column] if down else column
            for column, down in zip(parts(pairs, lookups), descending, strict=True)
        ]
        return [b"".join(values) for values in zip(*columns, [key for key, _ in pairs], strict=True)]

    return joined


def _related_keys(keys: Sequence[SortKey], table: AnyTable, links: Links) -> Callable[[list[Pair], Lookups], Steps[list[bytes]]]:
    parts = [(key.descending, _sort_part(key, table, links)) for key in keys]

    def joined(pairs: list[Pair], lookups: Lookups) -> Steps[list[bytes]]:
        columns: list[list[bytes]] = []
        for down, part in parts:
            column = yield from in_steps(part, pairs, lookups)
            columns.append([value.translate(INVERTED) for value in column] if down else column)
        return [b"".join(values) for values in zip(*columns, [key for key, _ in pairs], strict=True)]

    return joined


def position_bytes(keys: Sequence[SortKey], parts: Sequence[bytes], primary: bytes) -> bytes:
    """What `sort_keys` gives for a row with these values."""
    return b"".join([part.translate(INVERTED) if key.descending else part for key, part in zip(keys, parts, strict=True)]) + primary


def _is_own(path: tuple[str, ...], table: AnyTable) -> bool:
    attribute = table.attributes.get(path[0])
    return attribute is None or attribute.relationship is None


def _sort_part(key: SortKey, table: AnyTable, links: Links) -> Encoded:
    if key.path == (table.primary_key,):
        return lambda pairs, lookups: [stored for stored, _ in pairs]  # in the order of the keys, and nothing to decode
    if not _is_own(key.path, table):
        return _related_part(key, table, links)
    values_of = values_reader(table, (key.path[0],))
    encode = _encoder(key)
    if len(key.path) > 1 or key.path[0] in table.computed:
        return lambda pairs, lookups: [encode(values_of(pair[1])[0]) for pair in pairs]
    value_of = projection((key.path[0],), default=None)

    def encoded(pairs: list[Pair], lookups: Lookups) -> list[bytes]:
        try:
            return [encode_key(value_of(raw)[0]) for _, raw in pairs]
        except BadValue:  # an object among them
            return [encode(values_of(raw)[0]) for _, raw in pairs]

    return encoded


def _encoder(key: SortKey) -> Callable[[object], bytes]:
    """From the value of the first name of a path to the bytes to sort by."""
    rest = key.path[1:]
    if not rest:
        return sort_bytes
    choose = max if key.descending else min
    return lambda value: choose(map(sort_bytes, leaves(value, rest)), default=_NULL)


def _related_part(key: SortKey, table: AnyTable, links: Links) -> Encoded:
    link = links.link(table, table.attributes[key.path[0]])
    values_of = values_reader(table, (link.source,))
    inner_key = SortKey(key.path[1:], key.descending)
    if _is_own(inner_key.path, link.target):
        inner_values, encode = values_reader(link.target, (inner_key.path[0],)), _encoder(inner_key)
    inner = None if _is_own(inner_key.path, link.target) else _related_part(inner_key, link.target, links)
    choose = max if key.descending else min
    owner = object()

    def encoded(pairs: list[Pair], lookups: Lookups) -> Steps[list[bytes]]:
        memo = lookups.memo(owner)
        values = [values_of(pair[1])[0] for pair in pairs]
        places = [value if type(value) is str else memo_key(value) for value in values]
        unknown = {place: value for place, value in zip(places, values, strict=True) if place is not None and place not in memo}
        if unknown:
            found = yield from lookups.follower(link).pairs(list(unknown.values()))
            code_of: dict[bytes, bytes] = {}
            for related in distinct(found):
                if code_of:
                    yield
                if not related:
                    continue
                codes = (
                    [encode(inner_values(raw)[0]) for _, raw in related]
                    if inner is None
                    else (yield from in_steps(inner, related, lookups))
                )
                code_of.update(zip([stored for stored, _ in related], codes, strict=True))
            for place, some in zip(unknown, found, strict=True):
                best: list[bytes] = []
                for part in chunks(some):
                    if best:
                        yield
                    best = [choose([*best, *[code_of[stored] for stored, _ in part]])]
                memo[place] = best[0] if best else _NULL
                free_later(some)
            free_later(code_of)
        return [_NULL if place is None else memo[place] for place in places]

    return SteppedFunction(encoded)


# columns


def columns_of_paths(paths: Sequence[tuple[str, ...]], table: AnyTable, links: Links) -> Columns:
    """The values at paths, MISSING where there are none. A path through nested objects that ends in several values gives a list; one through a
    to-one relationship gives the value of the related record."""
    own = tuple(dict.fromkeys(path[0] for path in paths if _is_own(path, table)))
    through: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        if not _is_own(path, table):
            through.setdefault(path[0], []).append(path[1:])
    joined = {name: links.link(table, table.attributes[name]) for name in through}
    names = tuple(dict.fromkeys((*own, *[link.source for link in joined.values()])))
    inner = {name: columns_of_paths(tuple(dict.fromkeys(rests)), joined[name].target, links) for name, rests in through.items()}
    values_of = values_reader(table, names)

    def read(raws: list[bytes], lookups: Lookups) -> list[Column]:
        rows = [values_of(raw) for raw in raws]
        values = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in names}
        related = {
            name: dict(
                zip(
                    dict.fromkeys(through[name]),
                    _related_columns(joined[name], values[joined[name].source], inner[name], lookups),
                    strict=True,
                )
            )
            for name in through
        }
        found: list[Column] = []
        for path in paths:
            if path[0] in related:
                found.append(related[path[0]][path[1:]])
            elif len(path) == 1:
                found.append(values[path[0]])
            else:
                found.append([_nested(value, path[1:]) for value in values[path[0]]])
        return found

    return read


def _related_columns(link: Link, values: Column, inner: Columns, lookups: Lookups) -> list[Column]:
    pairs = lookups.firsts(link, values)
    unique = dict.fromkeys(pair for pair in pairs if pair is not None)
    columns = inner([raw for _, raw in unique], lookups)
    place = {key: at for at, (key, _) in enumerate(unique)}
    return [[MISSING if pair is None else column[place[pair[0]]] for pair in pairs] for column in columns]


def _nested(value: object, path: tuple[str, ...]) -> object:
    if value is MISSING:
        return MISSING
    found = leaves(value, path)
    return found[0] if len(found) == 1 else found
