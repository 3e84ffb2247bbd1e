"""Predicates -> functions over decoded values (spec: query §5, schema-and-store §10.3-§10.4).

These functions define what a condition matches; an index that serves one must find exactly the same records. In short:

- A missing value is null. Only equality with null, and inequality with anything else, finds it.
- A list or set matches if one of its elements does; `not_equal` if no element is equal. A range with two ends speaks of one element.
- Numbers and dates (as ms) are one kind; a bool is no number. Ranges compare like with like, text by code point.
- A path into nested objects goes through lists on its way: the values at its end count as the elements of one list.

Each function is built once for a plan. The frequent ones (equality and open ranges of one attribute) are single closures; a condition
that is evaluated for every record of a scan costs 0.1-0.2 us.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from svc.errors import BadValue
from svc.query.convert import text_form
from svc.query.nodes import Comparator
from svc.query.plan import AllOf, AnyOf, Comparison, Never, Predicate, RelatedCondition
from svc.store.values.keys import encode_key
from svc.store.values.records import MISSING

Values = tuple[object, ...]
_MANY = frozenset((list, set))  # types of values that are several
Matcher = Callable[[Values], bool]
ElementMatcher = Callable[[object], bool]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_OPEN_RANGES: dict[Comparator, Callable[[Any, Any], bool]] = {
    Comparator.LESS_THAN: operator.lt,
    Comparator.LESS_THAN_EQUAL: operator.le,
    Comparator.GREATER_THAN: operator.gt,
    Comparator.GREATER_THAN_EQUAL: operator.ge,
}
CLOSED_RANGES: dict[Comparator, tuple[Comparator, Comparator]] = {
    Comparator.BETWEEN: (Comparator.GREATER_THAN_EQUAL, Comparator.LESS_THAN_EQUAL),
    Comparator.GELT: (Comparator.GREATER_THAN_EQUAL, Comparator.LESS_THAN),
    Comparator.GTLE: (Comparator.GREATER_THAN, Comparator.LESS_THAN_EQUAL),
    Comparator.GTLT: (Comparator.GREATER_THAN, Comparator.LESS_THAN),
}
_TEXT_TESTS: dict[Comparator, Callable[[str, str], bool]] = {
    Comparator.STARTS_WITH: str.startswith,
    Comparator.CONTAINS: operator.contains,
    Comparator.ENDS_WITH: str.endswith,
}


def names_of(predicate: Predicate) -> tuple[str, ...]:
    """The attributes a predicate looks at, each once."""
    found: dict[str, None] = {}
    pending = [predicate]
    while pending:
        member = pending.pop(0)
        if isinstance(member, Comparison):
            found[member.path[0]] = None
        elif isinstance(member, (AllOf, AnyOf)):
            pending.extend(member.members)
    return tuple(found)


def reads_others(predicate: Predicate | None) -> bool:
    """Whether it looks at records of other tables."""
    if isinstance(predicate, (AllOf, AnyOf)):
        return any(map(reads_others, predicate.members))
    return isinstance(predicate, RelatedCondition)


def compile_predicate(predicate: Predicate, names: tuple[str, ...], whole: str) -> Matcher:
    """A function of the values of `names`, in that order. The value of the attribute `whole`, the primary key, is one value even if it
    is a list. Not for predicates about other tables: these are tested for many records at once (`functions.filter_of`)."""
    match predicate:
        case Comparison():
            return _compile_test(predicate, names.index(predicate.path[0]), predicate.path == (whole,))
        case Never():
            return _never
        case AllOf():
            return all_match([compile_predicate(member, names, whole) for member in predicate.members])
        case AnyOf():
            return _any_match([compile_predicate(member, names, whole) for member in predicate.members])
        case RelatedCondition():
            raise AssertionError("a relationship is no test of one record")


def comparable(value: object) -> object:
    """The form in which values are compared: a date is its ms, bytes-like is bytes."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MILLISECOND
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def kind_of(value: object) -> str:
    """The kinds between which nothing is in order: `null`, `bool`, `number`, `text`, `bytes`, `list`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float, datetime)):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes"
    return "list"


def sort_bytes(value: object) -> bytes:
    """`encode_key`, with a place for what has none: objects, and lists that hold one, come last."""
    try:
        return encode_key(None if value is MISSING else value)
    except BadValue:
        return b"\xff"


def leaves(value: object, path: tuple[str, ...]) -> list[object]:
    """The values at the end of a path into nested objects; a missing one is None, an empty list on the way gives none."""
    if type(value) in _MANY:
        return [leaf for element in value for leaf in leaves(element, path)]  # type: ignore[attr-defined]
    if not path:
        return [value]
    if type(value) is dict:
        return leaves(value.get(path[0]), path[1:])
    return [None]


def _compile_test(test: Comparison, at: int, whole: bool) -> Matcher:
    comparator, value = test.comparator, comparable(test.value)
    if comparator is Comparator.NOT_EQUAL:
        equal = _compile_test(Comparison(test.path, Comparator.EQUALS, test.value), at, whole)
        return lambda values: not equal(values)
    if len(test.path) > 1:
        return _nested(_element_matcher(comparator, value), at, test.path[1:])
    if whole:
        matches = _element_matcher(comparator, value)
        return lambda values: matches(values[at])
    if comparator is Comparator.EQUALS and type(value) is str:
        return _equals_text(at, value)
    compare = operator.eq if comparator is Comparator.EQUALS else _OPEN_RANGES.get(comparator)
    if compare is not None and (type(value) is int or type(value) is float):
        return _compares_number(at, compare, value)
    return _one_or_some(_element_matcher(comparator, value), at)


def _element_matcher(comparator: Comparator, value: object) -> ElementMatcher:
    """The test of a single value: an element of a list, or what is no list."""
    if comparator is Comparator.EQUALS:
        return _equals(value)
    compare = _OPEN_RANGES.get(comparator)
    if compare is not None:
        return _in_range(value, compare)
    ends = CLOSED_RANGES.get(comparator)
    if ends is not None:
        assert isinstance(value, tuple)
        above = _in_range(comparable(value[0]), _OPEN_RANGES[ends[0]])
        below = _in_range(comparable(value[1]), _OPEN_RANGES[ends[1]])
        return lambda element: above(element) and below(element)
    if comparator is Comparator.PREFIX:
        beginning = list(value)  # type: ignore[call-overload]
        size = len(beginning)
        first = encode_key(beginning)
        return lambda element: isinstance(element, (list, tuple)) and len(element) > size and sort_bytes(list(element[:size])) == first
    return _text_test(_TEXT_TESTS[comparator], value, only_text=comparator is Comparator.STARTS_WITH)


def _equals(value: object) -> ElementMatcher:
    kind = kind_of(value)
    if kind == "null":
        return lambda element: element is None or element is MISSING
    if kind == "bool":
        return lambda element: element is value
    if kind == "number":
        return lambda element: kind_of(element) == "number" and comparable(element) == value
    if kind == "list":
        wanted = encode_key(value)
        return lambda element: isinstance(element, (list, tuple)) and sort_bytes(element) == wanted
    return lambda element: element == value


def _in_range(value: object, compare: Callable[[object, object], bool]) -> ElementMatcher:
    kind = kind_of(value)
    if kind == "null":
        return lambda element: False
    if kind == "list":
        wanted = encode_key(value)
        return lambda element: isinstance(element, (list, tuple)) and compare(sort_bytes(element), wanted)
    if kind == "text":
        return lambda element: type(element) is str and compare(element, value)
    return lambda element: element is not MISSING and kind_of(element) == kind and compare(comparable(element), value)


def _text_test(compare: Callable[[str, str], bool], value: object, *, only_text: bool) -> ElementMatcher:
    assert type(value) is str
    if only_text:
        return lambda element: type(element) is str and compare(element, value)

    def matches(element: object) -> bool:
        text = text_form(element)
        return text is not None and compare(text, value)

    return matches


def _one_or_some(matches: ElementMatcher, at: int) -> Matcher:
    def matcher(values: Values) -> bool:
        value = values[at]
        if type(value) in _MANY:
            return matches(value) or any(map(matches, value))  # type: ignore[call-overload]
        return matches(value)

    return matcher


def _nested(matches: ElementMatcher, at: int, path: tuple[str, ...]) -> Matcher:
    return lambda values: any(map(matches, leaves(values[at], path)))


def _equals_text(at: int, wanted: str) -> Matcher:
    def matcher(values: Values) -> bool:
        value = values[at]
        return value == wanted or (type(value) in _MANY and wanted in value)  # type: ignore[operator]

    return matcher


def _compares_number(at: int, compare: Callable[[object, object], bool], wanted: float) -> Matcher:
    def matcher(values: Values) -> bool:
        value = values[at]
        kind = type(value)
        if kind is float or kind is int:
            return compare(value, wanted)
        if kind in _MANY:
            return any(kind_of(element) == "number" and compare(comparable(element), wanted) for element in value)  # type: ignore[attr-defined]
        return isinstance(value, datetime) and compare(comparable(value), wanted)

    return matcher


def _never(values: Values) -> bool:
    return False


def all_match(matchers: Sequence[Matcher]) -> Matcher:
    """Whether all of them match. Plain loops: half the time of `all` with a generator."""
    if len(matchers) == 1:
        return matchers[0]
    if len(matchers) == 2:
        first, second = matchers
        return lambda values: first(values) and second(values)

    def matcher(values: Values) -> bool:
        for matches in matchers:  # noqa: SIM110
            if not matches(values):
                return False
        return True

    return matcher


def _any_match(matchers: Sequence[Matcher]) -> Matcher:
    if len(matchers) == 2:
        first, second = matchers
        return lambda values: first(values) or second(values)

    def matcher(values: Values) -> bool:
        for matches in matchers:  # noqa: SIM110
            if matches(values):
                return True
        return False

    return matcher
