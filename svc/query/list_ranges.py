"""From the values of a query's conditions to the one range of an index that they stand for, made once for all queries of a shape (`compiled_lists`).

It is what `access_paths` makes of each query, with all that values have no say in decided beforehand. Values that are not the usual ones are left to it: those
that are null where nothing compares with it, are of two kinds, or so long that several share a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from svc.errors import QueryError
from svc.query.access_paths import LOW_ENDS, kind_ends, prefix_ends, range_end
from svc.query.convert import same_text, text_reader, typed_value
from svc.query.matching import CLOSED_RANGES, kind_of
from svc.query.nodes import Bound, Comparator, Conversion
from svc.query.plan import Comparison
from svc.query.shaped_plan import OpenTest
from svc.query.shapes import Slot, has_slots
from svc.query.tables import AnyIndex
from svc.store.schema import Attribute
from svc.store.values.keys import index_key, is_cut

Values = Sequence[str]
Span = tuple[bytes, bytes | None]
"""(low, high) of index keys, high exclusive; high None: the one key `low`."""
Ends = Callable[[Values], Span | None]
"""From the values of a shape; None: `access_paths` decides. Raises what converting values raises."""

_Read = Callable[[Values], object]
_HIGH_ENDS = frozenset((Comparator.LESS_THAN, Comparator.LESS_THAN_EQUAL))


def ends_of(tests: Sequence[Comparison], index: AnyIndex) -> Ends | None:
    """The range of `index` that holds just the records which pass all these tests of its attribute. None: that is not one range, or not for all values."""
    if len(tests) == 1:
        return _ends_of_one(tests[0], index)
    if len(tests) > 2 or index.multi:
        return None
    one, other = tests if tests[0].comparator in LOW_ENDS else reversed(tests)
    if one.comparator not in LOW_ENDS or other.comparator not in _HIGH_ENDS:
        return None
    low, high = _value_of(one), _value_of(other)
    return None if low is None or high is None else _between(low, high, one.comparator, other.comparator)


def _ends_of_one(test: Comparison, index: AnyIndex) -> Ends | None:
    comparator = test.comparator
    closed = CLOSED_RANGES.get(comparator)
    if closed is not None:
        if type(test) is not OpenTest or type(test.node.value) is not tuple or index.multi:
            return None
        low, high = [_reader(value, test.node.conversion, test.attribute) for value in test.node.value]
        return None if low is None or high is None else _between(low, high, *closed)
    read = _value_of(test)
    if read is None:
        return None
    if comparator is Comparator.EQUALS:
        return _equal(read)
    if index.multi:  # a record may be found at several of its values
        return None
    if comparator is Comparator.STARTS_WITH:
        return _beginning(read)
    return _beyond(read, comparator) if comparator in LOW_ENDS or comparator in _HIGH_ENDS else None


def _value_of(test: Comparison) -> _Read | None:
    return _reader(test.node.value, test.node.conversion, test.attribute) if type(test) is OpenTest else None


def _reader(value: object, conversion: Conversion, attribute: Attribute) -> _Read | None:
    """What reads the typed value of a condition, or an end of its range."""
    if type(value) is Bound:
        return _reader(value.value, value.conversion, attribute)
    if type(value) is Slot:
        index, read = value.index, text_reader(conversion, attribute, attribute.name)
        return itemgetter(index) if read is same_text else lambda values: read(values[index])
    if has_slots(value):
        return None
    try:
        typed = typed_value(value, conversion, attribute, attribute.name)
    except QueryError:
        return None
    return lambda values: typed


def _equal(read: _Read) -> Ends:
    def ends(values: Values) -> Span | None:
        key = index_key(read(values))
        return None if is_cut(key) else (key, None)

    return ends


def _beginning(read: _Read) -> Ends:
    def ends(values: Values) -> Span | None:
        text = read(values)
        if type(text) is not str:
            return None
        low, high, is_exact = prefix_ends(text)
        return (low, high) if is_exact else None

    return ends


def _beyond(read: _Read, comparator: Comparator) -> Ends:
    is_low = comparator in LOW_ENDS

    def ends(values: Values) -> Span | None:
        value = read(values)
        if value is None:
            return None
        key = index_key(value)
        if is_cut(key):
            return None
        low, high = kind_ends(value)
        return (range_end(comparator, key), high) if is_low else (low, range_end(comparator, key))

    return ends


def _between(read_low: _Read, read_high: _Read, low_end: Comparator, high_end: Comparator) -> Ends:
    def ends(values: Values) -> Span | None:
        least, most = read_low(values), read_high(values)
        if least is None or most is None or (type(least) is not type(most) and kind_of(least) != kind_of(most)):
            return None
        low, high = index_key(least), index_key(most)
        return None if is_cut(low) or is_cut(high) else (range_end(low_end, low), range_end(high_end, high))

    return ends
