"""A read transaction with changes in memory on top of it: what it would read if these were written (spec: schema-and-store §8).

    Overlay   get, cursor, stat, put, delete of an LMDB transaction, so tables, indexes, plans and write sets take it for one
    Layer     the changes of one LMDB store: the entries that were added, and those of the transaction below that are hidden
    Cursor    walks through the entries below and those added, in the order of both

An entry is (key, value). Stores with duplicates are ordered by both. In the others an entry is known by its key: one that is put hides the one below.

A store without changes is read below, at no cost. A reader that goes on in later turns takes a copy (`copied`); layers are shared with it, and copied when
they are changed next.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from operator import itemgetter
from typing import Any, cast

from sortedcontainers import SortedDict, SortedSet

from svc.freeing import free_later
from svc.store.env import Handle, Txn

Entry = tuple[bytes, bytes]


class Below(Enum):
    """A key had no value of its own: that of the transaction below counted."""

    BELOW = 0


_BELOW = Below.BELOW
_Undo = tuple[Handle, Entry | bytes, bytes | Below | None]
"""(store, entry that was added or hidden, None), or (store without duplicates, key, its value before)"""

_FIRST: Entry = (b"", b"")
_ENDED = cast(Txn, None)  # nothing refers to the transaction below any more


class Layer:
    """`sharers`: copies of the overlay that read it. `growth`: entries that there are more than below. `bytes`: of the values in a store without duplicates."""

    __slots__ = ("added", "bytes", "growth", "has_duplicates", "hidden", "sharers", "values")

    def __init__(self, has_duplicates: bool) -> None:
        self.has_duplicates = has_duplicates
        self.added: SortedSet[Entry] = SortedSet()
        self.hidden: SortedSet[Entry] = SortedSet()  # of a store with duplicates
        self.values: SortedDict[bytes, bytes | None] = SortedDict()  # of one without: None for what is deleted
        self.growth = 0
        self.bytes = 0
        self.sharers = 0

    def copy(self) -> Layer:
        made = Layer(self.has_duplicates)
        made.added, made.hidden, made.values = self.added.copy(), self.hidden.copy(), self.values.copy()
        made.growth, made.bytes = self.growth, self.bytes
        return made

    def hides(self, entry: Entry) -> bool:
        """Whether this entry of the transaction below does not count."""
        return entry in self.hidden if self.has_duplicates else entry[0] in self.values


class Overlay:
    """`base`: the read transaction below, which the caller keeps open."""

    __slots__ = ("_journal", "_layers", "base")

    def __init__(self, base: Txn, layers: dict[Handle, Layer] | None = None) -> None:
        self.base = base
        self._layers: dict[Handle, Layer] = {} if layers is None else layers
        self._journal: list[_Undo] | None = None

    @property
    def size(self) -> int:
        """Entries that differ from those below, and one more for every 1,000 bytes of their values."""
        layers = self._layers.values()
        return sum(
            [len(each.added) + len(each.hidden) if each.has_duplicates else len(each.values) + each.bytes // 1000 for each in layers]
        )

    # -- as a transaction

    def id(self) -> int:
        """That of the transaction below."""
        return self.base.id()

    def stat(self, handle: Handle) -> dict[str, int]:
        """`entries` with the changes; the pages are those below."""
        found = cast(dict[str, int], dict(cast(Any, self.base.stat(handle))))
        layer = self._layers.get(handle)
        if layer is not None:
            found["entries"] += layer.growth
        return found

    def get(self, key: bytes, default: bytes | None, handle: Handle) -> bytes | None:
        """The value of a key, of duplicates the first."""
        layer = self._layers.get(handle)
        if layer is None:
            return self.base.get(key, default, handle)
        if layer.has_duplicates:
            cursor = Cursor(self.base.cursor(handle), layer)
            return cursor.value() if cursor.set_key(key) else default
        if key in layer.values:
            value = layer.values[key]
            return default if value is None else value
        return self.base.get(key, default, handle)

    def cursor(self, handle: Handle) -> Any:
        """A cursor of LMDB, or one that behaves like it."""
        layer = self._layers.get(handle)
        below = self.base.cursor(handle)
        return below if layer is None else Cursor(below, layer)

    def put(self, key: bytes, value: bytes, dupdata: bool, overwrite: bool, append: bool, handle: Handle) -> bool:
        layer = self._changeable(handle)
        if layer.has_duplicates:
            if not self._has(layer, key, value, handle):
                self._flip(layer, (key, value), handle)
        else:
            self._set(layer, key, value, handle)
        return True

    def delete(self, key: bytes, value: bytes, handle: Handle) -> bool:
        layer = self._changeable(handle)
        if layer.has_duplicates:
            if not self._has(layer, key, value, handle):
                return False
            self._flip(layer, (key, value), handle)
            return True
        if self.get(key, None, handle) is None:
            return False
        self._set(layer, key, None, handle)
        return True

    def _has(self, layer: Layer, key: bytes, value: bytes, handle: Handle) -> bool:
        entry = (key, value)
        return entry in layer.added or (entry not in layer.hidden and self.base.cursor(handle).set_key_dup(key, value))

    def _flip(self, layer: Layer, entry: Entry, handle: Handle) -> None:
        """Add an entry of a store with duplicates that is not there, or take away one that is."""
        if entry in layer.added:
            layer.added.discard(entry)
            layer.growth -= 1
        elif entry in layer.hidden:
            layer.hidden.discard(entry)
            layer.growth += 1
        elif self.base.cursor(handle).set_key_dup(*entry):
            layer.hidden.add(entry)
            layer.growth -= 1
        else:
            layer.added.add(entry)
            layer.growth += 1
        if self._journal is not None:
            self._journal.append((handle, entry, None))

    def _set(self, layer: Layer, key: bytes, value: bytes | None, handle: Handle) -> None:
        values = layer.values
        is_known = key in values
        former = values[key] if is_known else None
        was_there = former is not None if is_known else self.base.get(key, None, handle) is not None
        if former is not None:
            layer.added.discard((key, former))
            layer.bytes -= len(former)
        values[key] = value
        if value is not None:
            layer.added.add((key, value))
            layer.bytes += len(value)
        layer.growth += (value is not None) - was_there
        if self._journal is not None:
            self._journal.append((handle, key, former if is_known else _BELOW))

    def _restore(self, layer: Layer, key: bytes, former: bytes | Below | None, handle: Handle) -> None:
        """Undo `_set`."""
        self._set(layer, key, None, handle)
        if former is not None and former is not _BELOW:
            self._set(layer, key, former, handle)
        elif former is _BELOW:
            del layer.values[key]
            layer.growth += self.base.get(key, None, handle) is not None

    def _changeable(self, handle: Handle) -> Layer:
        layer = self._layers.get(handle)
        if layer is None:
            layer = self._layers[handle] = Layer(bool(cast(Any, handle).flags(self.base)["dupsort"]))
        elif layer.sharers:
            layer = self._layers[handle] = layer.copy()
        return layer

    # -- its changes

    def mark(self) -> int:
        """`undo` of the result undoes what is changed from now on."""
        if self._journal is None:
            self._journal = []
        return len(self._journal)

    def keep(self) -> None:
        """What was changed stays: no mark is valid any more."""
        journal, self._journal = self._journal, None
        if journal:
            free_later(journal)

    def undo(self, mark: int) -> None:
        journal, self._journal = self._journal or [], None
        for handle, changed, former in reversed(journal[mark:]):
            if isinstance(changed, tuple):
                self._flip(self._changeable(handle), changed, handle)
            else:
                self._restore(self._changeable(handle), changed, former, handle)
        self._journal = journal[:mark]

    def drop(self) -> None:
        """All changes are over. They are freed in later turns, but for what copies read."""
        self.keep()
        layers, self._layers = self._layers, {}
        for layer in layers.values():
            free_later(list(layer.added))
            free_later(list(layer.hidden))
            free_later(dict(layer.values))

    def copied(self) -> Overlay:
        """The same as it is now, whatever is changed later. To be given back with `let_go`."""
        for layer in self._layers.values():
            layer.sharers += 1
        return Overlay(self.base, dict(self._layers))

    def over(self, base: Txn) -> Overlay:
        """The changes of a copy over another transaction that has the same state as the one below; valid as long as the copy."""
        return Overlay(base, self._layers)

    def let_go(self) -> None:
        """End a copy: nothing refers to the transaction below any more. Harmless when done."""
        layers, self._layers = self._layers, {}
        for layer in layers.values():
            layer.sharers -= 1
        self.base = _ENDED


class Cursor:
    """What svc uses of a cursor of LMDB. `below`: one of the same store, in the transaction below."""

    __slots__ = ("_at", "_below", "_layer")

    def __init__(self, below: Any, layer: Layer) -> None:
        self._below = below
        self._layer = layer
        self._at: Entry | None = None

    # -- where it is

    def key(self) -> bytes:
        return b"" if self._at is None else self._at[0]

    def value(self) -> bytes:
        return b"" if self._at is None else self._at[1]

    def item(self) -> Entry:
        return _FIRST if self._at is None else self._at

    def count(self) -> int:
        """The number of entries with the key, in a store with duplicates."""
        key, layer = self.key(), self._layer
        low, high = (key, b""), (_next(key), b"")
        found = self._below.count() if self._below.set_key(key) else 0
        return int(
            found
            + sum(1 for _ in layer.added.irange(low, high, (True, False)))
            - sum(1 for _ in layer.hidden.irange(low, high, (True, False)))
        )

    # -- moves: whether there is such an entry

    def first(self) -> bool:
        return self._go(self._forward(_FIRST))

    def last(self) -> bool:
        return self._go(self._backward(None))

    def set_range(self, key: bytes) -> bool:
        return self._go(self._forward((key, b"")))

    def set_key(self, key: bytes) -> bool:
        return self._go_if(self.set_range(key) and self._at is not None and self._at[0] == key)

    def set_range_dup(self, key: bytes, value: bytes) -> bool:
        return self._go_if(self._go(self._forward((key, value))) and self._at is not None and self._at[0] == key)

    def next(self) -> bool:
        return self.first() if self._at is None else self._go(self._forward((self._at[0], _next(self._at[1]))))

    def prev(self) -> bool:
        return self.last() if self._at is None else self._go(self._backward(self._at))

    def next_nodup(self) -> bool:
        return self.first() if self._at is None else self._go(self._forward((_next(self._at[0]), b"")))

    def last_dup(self) -> bool:
        return self._at is not None and self._go(self._backward((_next(self._at[0]), b"")))

    def _go(self, entries: Iterator[Entry]) -> bool:
        self._at = next(entries, None)
        return self._at is not None

    def _go_if(self, found: bool) -> bool:
        if not found:
            self._at = None
        return found

    # -- iteration from where it is, without moving it

    def iternext(self, keys: bool = True, values: bool = True) -> Iterator[Any]:
        entries = self._forward(self.item())
        return entries if keys and values else map(itemgetter(0 if keys else 1), entries)

    def iterprev(self) -> Iterator[Entry]:
        return self._backward(None if self._at is None else (self._at[0], _next(self._at[1])))

    def iternext_dup(self) -> Iterator[bytes]:
        """The values of the key."""
        key = self.key()
        for found, value in self.iternext():
            if found != key:
                return
            yield value

    # -- both in one order

    def _forward(self, low: Entry) -> Iterator[Entry]:
        """The entries from `low` on."""
        hides = self._layer.hides
        own = self._layer.added.irange(low)
        following = next(own, None)
        for entry in self._below_from(low):
            if hides(entry):
                continue
            while following is not None and following < entry:
                yield following
                following = next(own, None)
            yield entry
        while following is not None:
            yield following
            following = next(own, None)

    def _backward(self, high: Entry | None) -> Iterator[Entry]:
        """The entries before `high`, the last one first."""
        hides = self._layer.hides
        own = self._layer.added.irange(None, high, (True, False), reverse=True)
        following = next(own, None)
        for entry in self._below_before(high):
            if hides(entry):
                continue
            while following is not None and following > entry:
                yield following
                following = next(own, None)
            yield entry
        while following is not None:
            yield following
            following = next(own, None)

    def _below_from(self, low: Entry) -> Iterator[Entry]:
        return self._below.iternext() if self._seek(low) else iter(())

    def _below_before(self, high: Entry | None) -> Iterator[Entry]:
        below = self._below
        found = below.last() if high is None or not self._seek(high) else below.prev()
        return below.iterprev() if found else iter(())

    def _seek(self, low: Entry) -> bool:
        """Go to the first entry below from `low` on."""
        below, (key, value) = self._below, low
        if not below.set_range(key):
            return False
        if not value or below.key() != key:
            return True
        if self._layer.has_duplicates:
            return bool(below.set_range_dup(key, value) or (below.set_range(key) and below.next_nodup()))
        return bool(below.value() >= value or below.next())


def _next(data: bytes) -> bytes:
    """What follows immediately in the order of bytes."""
    return data + b"\0"
