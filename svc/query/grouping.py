"""Groups of records by the values of some attributes, and what is computed of each group.

A group is identified by the *identities* of its values: a string is its own, other values have their encoding, so that 5 and 5.0 are one value and `true`
and 1 are two. Values are taken in as columns, a batch at a time. What a function needs of them waits with its group until there are enough for one
call; how many is enough depends on how many groups there are, so that memory stays bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import product
from math import prod
from typing import Any

from svc.errors import QueryError
from svc.freeing import free_later
from svc.query.functions import INVERTED, Column
from svc.query.matching import sort_bytes
from svc.query.nodes import Aggregate, SortKey
from svc.query.numbers import Accumulator, Average, Extreme, Sum
from svc.store.values.keys import NUMBER, decode_key
from svc.store.values.records import decode_payload_json, encode_payload, from_ms

MAX_GROUPS = 100_000
_WAITING = 65_536  # values that wait with their groups, in all
_FEWEST_WAITING = 8  # of one group
_NO_PLACE = b"\xff"
_FIRST_DATE_MS, _LAST_DATE_MS = -62_135_596_800_000, 253_402_300_799_999  # of the years 1 to 9999
_PLAIN = frozenset((str, int, float, bool, type(None)))

Identity = Any  # of one value: str or bytes; of several keys a tuple of these


class _Group:
    __slots__ = ("accumulators", "count", "waiting")

    def __init__(self, functions: tuple[str, ...]) -> None:
        self.count = 0
        self.accumulators: list[Accumulator] = [_accumulator(function) for function in functions]
        self.waiting: list[Column] = [[] for _ in functions]

    def take_in(self) -> None:
        for accumulator, values in zip(self.accumulators, self.waiting, strict=True):
            accumulator.add(values)
            values.clear()


class Groups:
    """`dates`: for each key whether numbers stand for dates; None if only the values show it."""

    __slots__ = ("_aggregate", "_all_dates", "_counts", "_dates", "_functions", "_groups", "_width")

    def __init__(self, aggregate: Aggregate, dates: tuple[bool | None, ...]) -> None:
        self._aggregate = aggregate
        self._width = len(aggregate.keys)
        self._dates = dates
        self._all_dates: list[dict[bytes, bool]] = [{} for _ in dates]  # whether all values of a number were dates
        self._functions = tuple([name for name, path in aggregate.functions if path is not None])
        self._counts: Counter[Identity] = Counter()  # all there is to know where there are no functions
        self._groups: dict[Identity, _Group] = {}

    def free(self) -> None:
        """They are not used any more."""
        free_later(self._groups)
        free_later(self._counts)

    def __len__(self) -> int:
        return len(self._groups) if self._functions else len(self._counts)

    def add(self, columns: list[Column], rows: int) -> None:
        """Take in `rows` records: the columns of the keys, then those of the functions' attributes. Raises QueryError over MAX_GROUPS."""
        identities = self._identities(columns[: self._width], rows)
        if self._functions:
            self._add_values(identities, columns[self._width :])
        else:
            self._counts.update(_each(identities))
        if len(self) > MAX_GROUPS:
            raise too_many_groups(self._aggregate)

    def add_count(self, code: bytes, count: int) -> None:
        """Of an index: `count` records have the value with this encoding, by which they are grouped."""
        self._counts[code] += count
        if len(self._counts) > MAX_GROUPS:
            raise too_many_groups(self._aggregate)

    def rows(self, sort: tuple[SortKey, ...], *, json: bool) -> Iterator[tuple[bytes, dict[str, Any]]]:
        """(bytes to sort by, row), in any order. Each group is freed with its row."""
        names = ["value"] if self._aggregate.kind == "facet" else [".".join(path) for path in self._aggregate.keys]
        if not self._width and not self._functions:
            self._counts.setdefault((), 0)
        elif not self._width:
            self._groups.setdefault((), _Group(self._functions))
        groups: dict[Identity, _Group] | Counter[Identity] = self._groups if self._functions else self._counts
        while groups:
            identity, group = groups.popitem()
            parts = identity if type(identity) is tuple else (identity,)
            codes = [sort_bytes(part) if type(part) is str else part for part in parts]
            row = {name: self._value(part, at) for at, (name, part) in enumerate(zip(names, parts, strict=True))}
            row.update(self._results(group))
            key = self._sort_key(sort, dict(zip(names, codes, strict=True)), row, b"".join(codes))
            yield key, {name: json_form(value) for name, value in row.items()} if json else row

    def _results(self, group: _Group | int) -> Iterable[tuple[str, Any]]:
        if isinstance(group, int):
            return [("count", group)] if self._aggregate.kind == "facet" else [(name, group) for name, _ in self._aggregate.functions]
        group.take_in()
        results = iter([accumulator.result() for accumulator in group.accumulators])
        return [
            (name, group.count) if path is None else (".".join((name, *path)), next(results)) for name, path in self._aggregate.functions
        ]

    def _sort_key(self, sort: tuple[SortKey, ...], codes: dict[str, bytes], row: dict[str, Any], tie: bytes) -> bytes:
        if not sort:
            return sort_bytes(row["count"]).translate(INVERTED) + tie if self._aggregate.kind == "facet" else tie
        parts: list[bytes] = []
        for key in sort:
            name = ".".join(key.path)
            code = codes[name] if name in codes else sort_bytes(row[name])
            parts.append(code.translate(INVERTED) if key.descending else code)
        return b"".join(parts) + tie

    def _value(self, part: str | bytes, at: int) -> Any:
        if type(part) is str:
            return part
        assert type(part) is bytes
        value = decode_key(part)
        if part[0] == NUMBER:
            is_date = self._dates[at]
            if is_date or (is_date is None and self._all_dates[at].get(part, False)):
                return date_of(value)
        return _as_list(value)

    # identities

    def _identities(self, columns: list[Column], rows: int) -> list[Identity]:
        """For each record the identity of its group, or a list of several."""
        if len(columns) == 1:
            return self._identities_of(columns[0], 0)
        if not columns:
            return [()] * rows
        parts = [self._identities_of(column, at) for at, column in enumerate(columns)]
        found: list[Identity] = []
        for row in zip(*parts, strict=True):
            if list in map(type, row):
                if prod([len(part) for part in row if type(part) is list]) > MAX_GROUPS:  # before they are made
                    raise too_many_groups(self._aggregate)
                found.append(list(product(*[part if type(part) is list else (part,) for part in row])))
            else:
                found.append(row)
        return found

    def _identities_of(self, column: Column, at: int) -> list[Identity]:
        found: list[Identity] = []
        for value in column:
            if type(value) is str:
                found.append(value)
            elif type(value) is list or type(value) is set:
                found.append(list(dict.fromkeys(code for element in value if (code := self._identity(element, at)) != _NO_PLACE)))
            else:
                code = self._identity(value, at)
                found.append(code if code != _NO_PLACE else [])
        return found

    def _identity(self, value: object, at: int) -> str | bytes:
        if type(value) is str:
            return value
        code = sort_bytes(value)
        if code[0] == NUMBER and self._dates[at] is None:
            known = self._all_dates[at]
            known[code] = isinstance(value, datetime) and known.get(code, True)
        return code

    # functions

    def _add_values(self, identities: list[Identity], columns: list[Column]) -> None:
        groups = self._groups
        most = max(_WAITING // (len(groups) + 1), _FEWEST_WAITING)
        single = columns[0] if len(columns) == 1 else None
        for at, identity in enumerate(identities):
            for each in identity if type(identity) is list else (identity,):
                group = groups.get(each)
                if group is None:
                    group = groups[each] = _Group(self._functions)
                group.count += 1
                waiting = group.waiting
                if single is not None:
                    waiting[0].append(single[at])
                else:
                    for values, column in zip(waiting, columns, strict=True):
                        values.append(column[at])
                if len(waiting[0]) >= most:
                    group.take_in()


def too_many_groups(aggregate: Aggregate) -> QueryError:
    return QueryError(
        f"{aggregate.kind}(...) finds more than {MAX_GROUPS} different values: add conditions, or group by less", code="QUERY_SYNTAX"
    )


def date_of(ms: Any) -> Any:
    """The date that a number of an index stands for; the number itself if it is outside the range of dates."""
    return from_ms(ms) if type(ms) is int and _FIRST_DATE_MS <= ms <= _LAST_DATE_MS else ms


def json_form(value: Any) -> Any:
    return value if type(value) in _PLAIN else decode_payload_json(encode_payload(value))


def _accumulator(function: str) -> Accumulator:
    if function == "sum":
        return Sum()
    return Average() if function == "avg" else Extreme(largest=function == "max")


def _each(identities: list[Identity]) -> Iterable[Identity]:
    if list in set(map(type, identities)):
        return [each for identity in identities for each in (identity if type(identity) is list else (identity,))]
    return identities


def _as_list(value: Any) -> Any:
    return list(map(_as_list, value)) if type(value) is tuple else value
