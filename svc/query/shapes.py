"""Queries without their values: the *shape* of a query string, and the nodes that all strings of one shape have in common.

A client that fills values into a pattern sends another string each time, but one shape: `price=gt=20&lt=60&sort(name)` and
`price=gt=5&lt=7.5&sort(name)` differ in two values. What a shape means is found once, by parsing it with a mark in the place of each value. Whether
that is right is seen by the result: each mark must be there as the whole value of one condition.

A value is cut out only if it cannot have a say in how the string is read: neither `null`, nor with a type in front of it (`date:`), nor with a plus
sign; every other value is a part of the shape. So is a wildcard at its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from svc.errors import QueryError
from svc.query.lexer import Scanner
from svc.query.nodes import Bound, Condition, Filter, Group, Query
from svc.query.url import maybe_parse_plainly

_MARK = "\0"
_TYPED = r"null(?![^&|)\]])|(?:number|boolean|string|date):"
_VALUE = re.compile(rf"(?<!\b_count)([=<>])(?!{_TYPED})([A-Za-z0-9._~:@/,' %-]++)(?![^&|)\]*])")
_PLAIN_VALUE = r"(?!null(?![^&|)\]]))([A-Za-z0-9._~@/,'-]++)"


@dataclass(slots=True, frozen=True)
class Slot:
    """The place of a value that was cut out: the `index`-th, from 0."""

    index: int


def cut(text: str) -> tuple[str, list[str]] | None:
    """(shape, the raw values that were cut out of `text`); None if there are none. Strings with the same shape differ in these only.

    >>> cut("price=gt=20&name==a*&tags=null")
    ('price=gt\\x00=\\x00&name=\\x00=\\x00*&tags=null', ['20', 'a'])
    """
    pieces = _VALUE.split(text)
    if len(pieces) == 1 or _MARK in text:
        return None
    values = pieces[2::3]
    del pieces[2::3]
    return _MARK.join(pieces), values


def pattern_of(shape: str) -> re.Pattern[str]:
    """Matches, as a whole, the strings of a shape whose values are plain: letters, digits and what needs no escape and says nothing of types. Its groups are
    the values, as `cut` finds them: these have no say in where it finds others, nor in what `form` makes of a string. A quarter of its cost.

    >>> pattern = pattern_of(cut("price=gt=20&lt=60&sort(name)")[0])
    >>> pattern.fullmatch("price=gt=5&lt=7.5&sort(name)").groups(), pattern.fullmatch("price=gt=5&lt=date:1&sort(name)")
    (('5', '7.5'), None)
    """
    pieces = shape.split(_MARK)  # of each value: what is in front of its operator's last character, and that
    ends = [pieces[at] + pieces[at + 1] for at in range(0, len(pieces) - 1, 2)]
    return re.compile(_PLAIN_VALUE.join(map(re.escape, (*ends, pieces[-1]))))


def decoded(raw_values: list[str]) -> list[str]:
    """The values as conditions have them. Raises QuerySyntaxError for a bad escape, without a position in the query."""
    return [Scanner(raw).decode(raw, 0) if "%" in raw else raw for raw in raw_values]


def template_of(text: str, is_declared: Callable[[str], bool]) -> Query | None:
    """What all query strings of the shape of `text` have in common: their nodes, with a `Slot` in the place of each value that was cut out.

    None for what is not read by its shape: faults, live queries, cursors, conditions within a selection.
    """
    count = 0

    def mark(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"{found[1]}{_MARK}{count - 1}"

    marked = _VALUE.sub(mark, text)
    try:
        query = maybe_parse_plainly(marked, is_declared)
    except QueryError:
        return None
    if query is None or query.where is None or query.live or query.after is not None:
        return None
    found: list[int] = []
    where = _with_slots(query.where, found)
    if sorted(found) != list(range(count)):
        return None
    return replace(query, where=where)


def _with_slots(node: Filter, found: list[int]) -> Filter:
    """The same with slots for marks, whose numbers are added to `found`."""
    if isinstance(node, Condition):
        return replace(node, value=_with_slot(node.value, found))
    if isinstance(node, Group):
        return replace(node, members=tuple([_with_slots(member, found) for member in node.members]))
    where = node.query.where
    return node if where is None else replace(node, query=replace(node.query, where=_with_slots(where, found)))


def _with_slot(value: object, found: list[int]) -> object:
    if isinstance(value, tuple):
        return tuple([_with_slot(end, found) for end in value])
    if isinstance(value, Bound):
        return Bound(_with_slot(value.value, found), value.conversion)
    if not isinstance(value, str) or not value.startswith(_MARK) or not value[1:].isdecimal():
        return value
    found.append(int(value[1:]))
    return Slot(found[-1])


def has_slots(value: object) -> bool:
    """Whether there is a slot in the value of a condition."""
    if isinstance(value, tuple):
        return any(map(has_slots, value))
    return isinstance(value.value if isinstance(value, Bound) else value, Slot)


def filled(value: object, values: Sequence[str]) -> object:
    """The value of a condition with `values` in the places of its slots."""
    if type(value) is Slot:
        return values[value.index]
    if type(value) is tuple:
        return tuple([filled(end, values) for end in value])
    return Bound(filled(value.value, values), value.conversion) if type(value) is Bound else value
