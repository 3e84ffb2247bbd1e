"""The index of subscriptions: under which keys a query is filed, so that a write tests only those that it may concern.

A query is filed under the one condition of its AND that says most: the primary key, an equality, a range with two ends, an open range; an OR under
one condition of each member. A record is looked up with the keys that it would have in an index of those attributes, so filing and matching
agree exactly as far as indexes and filters do: what is found here is at least all that can match. Conditions without keys (`contains`, `!=`,
properties of nested objects, other tables) make a query one that is found always.

A record that changed is looked up twice, as it was and as it is: a query may have lost it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from svc.errors import BadValue
from svc.query.access_paths import key_access_path, range_ends
from svc.query.functions import values_reader
from svc.query.matching import CLOSED_RANGES
from svc.query.nodes import Comparator
from svc.query.plan import AllOf, AnyOf, Comparison, KeyRange, Never, Nothing, Predicate
from svc.query.tables import AnyTable
from svc.realtime.live.ranges import Ranges
from svc.store.values.keys import NULL_KEY, NUMBER, encode_key, index_key, index_keys, index_prefix_range
from svc.store.values.records import MISSING

Item = TypeVar("Item")

MAX_PLACES = 64  # of one query: a longer OR is found always

KEY, EQUAL, CLOSED, OPEN, COARSE = range(5)  # what a place is worth: few records are expected under the first, many under the last

_ABOVE_ALL = bytes((NUMBER,)) + b"\xff" * 9  # stands for integers that are too large for an index
_BELOW_ALL = bytes((NUMBER,))


class Place(NamedTuple):
    """Keys of one attribute: one key if `high` is None, else a range. `name` "" is the primary key, as the log has it."""

    rank: int
    name: str
    low: bytes
    high: bytes | None = None


def places_of(predicate: Predicate | None, table: AnyTable) -> list[Place] | None:
    """Where to file a query with these conditions; None: it has to be found always. An empty list: nothing can match."""
    match predicate:
        case Comparison():
            try:
                return _places_of_test(predicate, table)
            except BadValue:
                return None
        case Never():
            return []
        case AllOf():
            best: list[Place] | None = None
            for member in predicate.members:
                places = places_of(member, table)
                if places is not None and (best is None or _worth(places) < _worth(best)):
                    best = places
            return best
        case AnyOf():
            joined: list[Place] = []
            for member in predicate.members:
                places = places_of(member, table)
                if places is None or len(joined) + len(places) > MAX_PLACES:
                    return None
                joined += places
            return joined
        case _:
            return None


def _worth(places: list[Place]) -> tuple[int, int]:
    return max([place.rank for place in places], default=-1), len(places)


def _places_of_test(test: Comparison, table: AnyTable) -> list[Place] | None:
    comparator, value, name = test.comparator, test.value, test.path[0]
    if len(test.path) > 1 or comparator is Comparator.NOT_EQUAL:
        return None
    if name == table.primary_key:
        if comparator is Comparator.EQUALS:
            return [] if value is None or isinstance(value, bool) else [Place(KEY, "", encode_key(value))]
        way = key_access_path(test)
        if way is None:
            return None
        access = way.access
        if isinstance(access, Nothing):
            return []
        assert isinstance(access, KeyRange)
        return None if access.low is None or access.high is None else [Place(_rank(comparator), "", access.low, access.high)]
    if isinstance(value, (list, tuple)) and comparator not in CLOSED_RANGES:
        return None  # a list as a whole has no key
    if comparator is Comparator.EQUALS:
        return [Place(COARSE if value is None or isinstance(value, bool) else EQUAL, name, index_key(value))]
    if comparator is Comparator.STARTS_WITH:
        assert isinstance(value, str)
        return [Place(CLOSED if value else OPEN, name, *index_prefix_range(value))]
    ends = range_ends(test)
    if ends is None:
        return None
    low, high, _ = ends
    return [Place(_rank(comparator), name, low, high)] if low < high else []


def _rank(comparator: Comparator) -> int:
    return CLOSED if comparator in CLOSED_RANGES or comparator in (Comparator.STARTS_WITH, Comparator.PREFIX) else OPEN


class _Places(Generic[Item]):
    """The items that are filed under keys of one attribute."""

    __slots__ = ("equal", "ranges")

    def __init__(self) -> None:
        self.equal: dict[bytes, dict[Item, None]] = {}
        self.ranges: Ranges[Item] = Ranges()

    def find(self, key: bytes, found: dict[Item, None]) -> None:
        here = self.equal.get(key)
        if here is not None:
            found.update(here)
        if self.ranges:
            self.ranges.find(key, found)

    def add(self, place: Place, item: Item) -> None:
        if place.high is None:
            self.equal.setdefault(place.low, {})[item] = None
        else:
            self.ranges.add(place.low, place.high, item)

    def remove(self, place: Place, item: Item) -> None:
        if place.high is not None:
            self.ranges.remove(place.low, place.high, item)
            return
        here = self.equal.get(place.low)
        if here is not None:
            here.pop(item, None)
            if not here:
                del self.equal[place.low]

    @property
    def is_empty(self) -> bool:
        return not self.equal and not len(self.ranges)


class Filing(Generic[Item]):
    """What is filed for one table, whose definition stays as it is."""

    __slots__ = ("_always", "_by_name", "_keys", "_names", "_places", "_read", "table")

    def __init__(self, table: AnyTable) -> None:
        self.table = table
        self._always: dict[Item, None] = {}
        self._keys: _Places[Item] = _Places()
        self._by_name: dict[str, _Places[Item]] = {}
        self._places: dict[Item, list[Place] | None] = {}
        self._name_readers()

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Item]:
        return iter(list(self._places))

    def add(self, item: Item, predicate: Predicate | None) -> None:
        places = self._places[item] = places_of(predicate, self.table)
        if places is None:
            self._always[item] = None
            return
        known = len(self._by_name)
        for place in places:
            (self._by_name.setdefault(place.name, _Places()) if place.name else self._keys).add(place, item)
        if len(self._by_name) != known:
            self._name_readers()

    def remove(self, item: Item) -> None:
        """Harmless if it is not there."""
        places = self._places.pop(item, None)
        self._always.pop(item, None)
        emptied = False
        for place in places or ():
            if not place.name:
                self._keys.remove(place, item)
                continue
            under = self._by_name.get(place.name)
            if under is not None:
                under.remove(place, item)
                if under.is_empty:
                    del self._by_name[place.name]
                    emptied = True
        if emptied:
            self._name_readers()

    @property
    def always(self) -> int:
        """How many every change concerns."""
        return len(self._always)

    def reads(self, changed: tuple[str, ...]) -> bool:
        """Whether a change of these attributes may be one of the values that something is filed under."""
        computed = self.table.computed
        return any(name in changed or name in computed for name in self._by_name)

    def find_always(self, found: dict[Item, None]) -> None:
        """Add what every change concerns to `found`."""
        if self._always:
            found.update(self._always)

    def find_by_key(self, key: bytes, found: dict[Item, None]) -> None:
        """Add what is filed under an encoded primary key."""
        self._keys.find(key, found)

    def find_by_values(self, raw: bytes, found: dict[Item, None]) -> None:
        """Add what is filed under the values of a record."""
        if not self._names:
            return
        for (_, places), value in zip(self._names, self._read(raw), strict=True):
            if type(value) is str:
                places.find(index_key(value), found)
            elif value is None or value is MISSING:
                places.find(NULL_KEY, found)
            else:
                for key in index_keys(value) if type(value) is float else keys_of(value):
                    places.find(key, found)

    def _name_readers(self) -> None:
        self._names = list(self._by_name.items())
        self._read = values_reader(self.table, tuple(self._by_name))


def keys_of(value: object) -> list[bytes]:
    """The keys that a value has here: those of an index, and for integers that are too large for one the end of the numbers.

    >>> keys_of([1, 10**400]) == [encode_key(1), _ABOVE_ALL]
    True
    """
    found = list(index_keys(value))
    elements = value if isinstance(value, (list, tuple, set)) else (value,)
    for element in elements:
        if type(element) is int and not -_LARGE < element < _LARGE:
            try:
                encode_key(element)
            except BadValue:
                found.append(_ABOVE_ALL if element > 0 else _BELOW_ALL)
    return found


_LARGE = 1 << 1000
