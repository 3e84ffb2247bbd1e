"""From records to the records that a relationship leads to (spec: schema-and-store §4.1, query §7).

    from: fk            the record of the other table whose key is self.fk; fk a list: one for each key, in the order of the list
    to: fk              the records of the other table whose fk is, or contains, this record's key
    from: a, to: b      the records of the other table whose b is self.a

Dangling keys lead nowhere. Look-ups are made for a batch of records at once, each different key once, and what was found is remembered,
within bounds, for as long as the execution lasts: a plan may look up one relationship in its filter, its sort and its selection.

Look-ups are generators of short steps (`Stepped`), because one value may lead to very many records; what they read and hold counts towards the
budget of the execution (`budget`).

Where the attribute at the other end is not indexed, the other table is read once for each execution, a slice at a time before the first row,
and its keys are kept by value.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

from svc.errors import BadValue
from svc.query.budget import AT_ONCE, PAIR_BYTES, Budget
from svc.query.matching import sort_bytes
from svc.query.plan import Related
from svc.query.resolve import is_many, related_table
from svc.query.tables import AnyTable
from svc.store.schema import Attribute, Relationship
from svc.store.values.conversion import key_from_text
from svc.store.values.keys import after, encode_key, index_key, is_cut, storage_key
from svc.store.values.records import MISSING, projection

Pair = tuple[bytes, bytes]  # stored primary key, raw record

STEP = 512  # related records that are read in one step
MEMO_BYTES = 4 << 20  # of related records remembered within one execution
MEMO_ENTRIES = 16_384  # values of a foreign key for which a result is remembered
_SHORT = 120  # characters of a text whose encoding is stored whole
_TEXTS = {str}


T = TypeVar("T")
Steps = Generator[None, None, T]


class Stepped:
    """A function of many records that takes steps: `steps` is a generator that yields between them and returns the result. A call takes all at once,
    for callers that cannot pause."""

    __slots__ = ("steps",)

    def __init__(self, steps: Callable[[Any, Lookups], Steps[Any]]) -> None:
        self.steps = steps

    def __call__(self, items: Any, lookups: Lookups) -> Any:
        return exhaust(self.steps(items, lookups))


def exhaust(steps: Steps[T]) -> T:
    """What a generator returns, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def in_steps(function: Callable[[Any, Lookups], T], items: Any, lookups: Lookups) -> Steps[T]:
    """`function(items, lookups)`, in its steps if it has any."""
    if type(function) is Stepped:
        return (yield from function.steps(items, lookups))  # type: ignore[no-any-return]
    return function(items, lookups)


def chunks(items: Sequence[T], size: int = STEP) -> Iterator[Sequence[T]]:
    """Consecutive parts of a sequence; of a short one, itself."""
    if len(items) <= size:
        return iter((items,) if items else ())
    return iter([items[at : at + size] for at in range(0, len(items), size)])


class Link:
    """A relationship as a plan uses it."""

    __slots__ = ("end", "many", "relationship", "source", "target")

    def __init__(self, relationship: Relationship, table: AnyTable, target: AnyTable, many: bool) -> None:
        self.relationship = relationship
        self.target = target
        self.source = source_name(relationship, table)  # the attribute of our records in which it starts
        self.many = many
        self.end = target.name, relationship.to or target.primary_key  # where it ends: links with one end share their look-ups

    @property
    def scans(self) -> bool:
        """Whether the other table has to be read as a whole."""
        to = self.relationship.to
        if to is None or to == self.target.primary_key:
            return False
        index = self.target.indexes.get(to)
        return index is None or not index.ready


class Links:
    """The links of one plan, one for each relationship."""

    __slots__ = ("_links",)

    def __init__(self) -> None:
        self._links: dict[tuple[str, str], Link] = {}

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())

    def __len__(self) -> int:
        return len(self._links)

    def link(self, table: AnyTable, attribute: Attribute) -> Link:
        link = self._links.get((table.name, attribute.name))
        if link is None:
            assert attribute.relationship is not None
            link = Link(attribute.relationship, table, related_table(table, attribute), is_many(attribute, table))
            self._links[table.name, attribute.name] = link
        return link

    def of(self, related: Related, table: AnyTable) -> Link:
        link = self._links.get((table.name, related.name))
        if link is None:
            link = self._links[table.name, related.name] = Link(related.relationship, table, related.target, related.many)
        return link


class Follower(Protocol):
    """Finds the related records in the target of a link."""

    def pairs(self, values: Sequence[object]) -> Steps[list[list[Pair]]]:
        """For each value of the attribute in which the link starts, the records it leads to."""

    def each(self, value: object) -> Iterator[list[Pair]]:
        """The same for one value, some at a time, for those who may stop early."""

    def stored(self, value: object) -> Iterable[bytes]:
        """The stored keys of these records; some may belong to none."""


class LookupMemo(dict[Any, Any]):
    """What was found, by `memo_key`. `size`: bytes of the records it was made from, if these are what takes the space."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        super().__init__()
        self.size = 0


class RelatedReads:
    """Reading of related records in one execution: its transaction and what was read so far.

    It refers to nothing that refers to it. An LMDB reader slot is free when the last reference to its transaction goes, so a reference cycle
    that holds a transaction would hold its slot until a garbage collection.
    """

    __slots__ = ("budget", "examined", "txn")

    def __init__(self, txn: Any, budget: Budget) -> None:
        self.txn = txn
        self.budget = budget
        self.examined = 0  # related records

    def add(self, count: int) -> None:
        """So many related records more are looked at."""
        self.examined += count
        self.budget.read(count)

    def fetch(self, target: AnyTable, keys: Sequence[bytes]) -> Steps[list[Pair]]:
        """The records of these stored keys that exist, in their order."""
        found: list[Pair] = []
        for some in chunks(keys):
            if found:
                yield
            pairs = target.get_many(some, self.txn)
            self.budget.hold(sum([len(raw) for _, raw in pairs]) + PAIR_BYTES * len(pairs))
            found += pairs
        return found


class Lookups:
    """What one execution has looked up in other tables: a bounded memory of what was found, and the reading itself."""

    __slots__ = ("_followers", "_memos", "_weights", "reads")

    def __init__(self, txn: Any, budget: Budget | None = None) -> None:
        """`budget`: of the execution; None: that of work that cannot pause."""
        self.reads = RelatedReads(txn, Budget(AT_ONCE) if budget is None else budget)
        self._followers: dict[tuple[str, str], Follower] = {}
        self._memos: dict[object, LookupMemo] = {}
        self._weights: dict[int, tuple[object, int]] = {}

    # A shaped record is made once and stands wherever it is selected, so a few records may be very many in the answer. The weight of a value is one
    # and the number of records in the lists that it holds; values are kept with their weights, so that no other gets their id.

    def weigh(self, value: object, weight: int) -> None:
        if weight > 1:
            self.reads.budget.check_rows(weight)
            self._weights[id(value)] = value, weight

    def weight(self, value: object) -> int:
        found = self._weights.get(id(value))
        return 1 if found is None else found[1]

    @property
    def has_weights(self) -> bool:
        """Whether any value weighs more than one."""
        return bool(self._weights)

    def forget_weights(self) -> None:
        self._weights.clear()

    @property
    def txn(self) -> Any:
        return self.reads.txn

    @property
    def examined(self) -> int:
        """Related records read so far."""
        return self.reads.examined

    def close(self) -> None:
        """The execution has ended: let go of its transaction, whoever still refers to the execution."""
        self.reads.txn = None
        self._followers.clear()
        self._memos.clear()
        self._weights.clear()

    def follower(self, link: Link) -> Follower:
        found = self._followers.get(link.end)
        if found is None:
            found = self._followers[link.end] = self._make(link)
        return found

    def firsts(self, link: Link, values: Sequence[object]) -> list[Pair | None]:
        """For each value the record it leads to, of several the first."""
        follower = self.follower(link)
        if isinstance(follower, _ByKey):
            return follower.firsts(values)
        return [next((pairs[0] for pairs in follower.each(value) if pairs), None) for value in values]

    def memo(self, owner: object) -> LookupMemo:
        """A memo that lives as long as the execution; emptied here when it has become large."""
        found = self._memos.get(owner)
        if found is None:
            found = self._memos[owner] = LookupMemo()
        elif len(found) > MEMO_ENTRIES or found.size > MEMO_BYTES:
            found.clear()
            found.size = 0
        return found

    def preparation(self, links: Iterable[Link]) -> Iterator[None]:
        """Read the tables that have to be read as a whole, a slice for each `next`."""
        for link in links:
            follower = self.follower(link)
            if isinstance(follower, _ByScan):
                yield from follower.prepare()

    def _make(self, link: Link) -> Follower:
        to, target = link.relationship.to, link.target
        if to is None or to == target.primary_key:
            return _ByKey(target, self.reads)
        if link.scans:
            return _ByScan(to, target, self.reads)
        return _ByIndex(to, target, self.reads)


def source_name(relationship: Relationship, table: AnyTable) -> str:
    """The attribute of `table`'s records in which the relationship starts."""
    return relationship.from_ or table.primary_key


def back(relationship: Relationship, table: AnyTable, target: AnyTable) -> Link:
    """The relationship of `table` the other way round: from the records of its target to those of `table`."""
    theirs = relationship.to or target.primary_key
    return Link(Relationship(table.name, from_=theirs, to=relationship.from_ or table.primary_key), target, table, many=True)


def memo_key(value: object) -> object:
    """What tells values of a foreign key apart in a memo: cheap for text. None if the value leads nowhere."""
    if type(value) is str:
        return value
    if value is None or value is MISSING:
        return None
    if type(value) is list or type(value) is set:
        return tuple(map(memo_key, value))
    return sort_bytes(value)


def entries_of(link: Link, values: Sequence[object], lookups: Lookups) -> Iterator[bytes]:
    """The stored keys of the records that the values lead to, found one by one as they are asked for."""
    follower = lookups.follower(link)
    for value in values:
        yield from follower.stored(value)


class _ByKey:
    __slots__ = ("_definition", "_memo", "_reads", "_size", "_split", "_target")

    def __init__(self, target: AnyTable, reads: RelatedReads) -> None:
        self._target = target
        self._reads = reads
        self._definition = target.definition
        self._split = target.definition.split_segments
        self._memo: dict[bytes, bytes | None] = {}
        self._size = 0

    def firsts(self, values: Sequence[object]) -> list[Pair | None]:
        if not self._split and set(map(type, values)) == _TEXTS:
            keys: list[bytes | None] = [encode_key(v) if len(v) < _SHORT else storage_key(encode_key(v)) for v in values]  # type: ignore[arg-type]
        else:
            stored = [self.stored(value) for value in values]
            if any(len(some) > 1 for some in stored):
                return [next((pairs[0] for pairs in self.each(value) if pairs), None) for value in values]
            keys = [some[0] if some else None for some in stored]
        memo = self._known(keys)
        return [None if key is None or (raw := memo[key]) is None else (key, raw) for key in keys]

    def pairs(self, values: Sequence[object]) -> Steps[list[list[Pair]]]:
        found: list[list[Pair]] = []
        looked_up = 0
        for value in values:
            some: list[Pair] = []
            for keys in chunks(self.stored(value)):
                memo = self._known(keys)
                some += [(key, raw) for key in keys if (raw := memo[key]) is not None]
                self._reads.budget.hold(PAIR_BYTES * len(keys))
                looked_up += len(keys)
                if looked_up > STEP:
                    looked_up = 0
                    yield
            found.append(some)
        return found

    def each(self, value: object) -> Iterator[list[Pair]]:
        for keys in chunks(self.stored(value), 64):
            memo = self._known(keys)
            yield [(key, raw) for key in keys if (raw := memo[key]) is not None]

    def stored(self, value: object) -> list[bytes]:
        """The stored keys that a value names."""
        if value is None or value is MISSING:
            return []
        if isinstance(value, list | set):
            return [self._stored(element) for element in value if element is not None]
        return [self._stored(value)]

    def _stored(self, value: object) -> bytes:
        if self._split and type(value) is str and "/" in value:
            try:
                return storage_key(encode_key(key_from_text(self._definition, value)))
            except BadValue:
                return b"\xff"
        return storage_key(sort_bytes(value))

    def _known(self, keys: Iterable[bytes | None]) -> dict[bytes, bytes | None]:
        """The memory, with all of these keys in it."""
        memo = self._memo
        if self._size > MEMO_BYTES:
            memo.clear()
            self._size = 0
        missing = {key for key in keys if key is not None and key not in memo}
        if missing:
            found = self._target.get_many(sorted(missing), self._reads.txn)
            memo.update(dict.fromkeys(missing))
            memo.update(found)
            self._size += sum([len(raw) for _, raw in found]) + 100 * len(missing)
            self._reads.add(len(missing))
        return memo


class _ByIndex:
    __slots__ = ("_name", "_reads", "_target", "_value_of")

    def __init__(self, name: str, target: AnyTable, reads: RelatedReads) -> None:
        self._target = target
        self._reads = reads
        self._name = name
        self._value_of = projection((name,))

    def pairs(self, values: Sequence[object]) -> Steps[list[list[Pair]]]:
        keys: list[list[bytes]] = []
        since_pause = 0  # keys
        for value in values:
            stored = iter(self.stored(value))
            found: list[bytes] = []
            while some := list(islice(stored, STEP)):
                found += some
                self._reads.add(len(some))
                self._reads.budget.hold(PAIR_BYTES // 2 * len(some))
                since_pause += len(some)
                if since_pause >= 2 * STEP:
                    since_pause = 0
                    yield
            keys.append(found)
        unique = sorted({key for found in keys for key in found})
        raws = dict((yield from self._reads.fetch(self._target, unique)))
        return [[(key, raw) for key in found if (raw := raws.get(key)) is not None] for found in keys]

    def each(self, value: object) -> Iterator[list[Pair]]:
        stored = iter(self.stored(value))
        count = 8
        while keys := list(islice(stored, count)):
            self._reads.add(len(keys))
            yield self._target.get_many(keys, self._reads.txn)
            count = 64

    def stored(self, value: object) -> Iterator[bytes]:
        """The stored keys of the records whose attribute is, or contains, one of the value's elements: each key once."""
        elements = _elements(value)
        if len(elements) == 1:
            return self._entries(elements[0])
        return self._distinct(elements)

    def _distinct(self, elements: list[object]) -> Iterator[bytes]:
        seen: set[bytes] = set()
        for element in elements:
            for key in self._entries(element):
                if key not in seen:
                    seen.add(key)
                    yield key

    def _entries(self, element: object) -> Iterator[bytes]:
        encoded = sort_bytes(element)
        if encoded == b"\xff":
            return
        low = index_key(element)
        entries = self._target.indexes[self._name].scan(self._reads.txn, low, after(low))
        if not is_cut(low):
            for _, stored in entries:
                yield stored
            return
        for _, stored in entries:  # several values share the key: the records tell
            raw = self._target.get_by(stored, self._reads.txn)
            if raw is not None and encoded in _encoded(self._value_of(raw)[0]):
                yield stored


class _ByScan:
    __slots__ = ("_is_ready", "_keys", "_reads", "_target", "_value_of")

    def __init__(self, name: str, target: AnyTable, reads: RelatedReads) -> None:
        self._target = target
        self._reads = reads
        self._value_of = projection((name,))
        self._keys: dict[bytes, list[bytes]] = {}
        self._is_ready = False

    def prepare(self, at_once: int = 512) -> Iterator[None]:
        rows = self._target.scan(self._reads.txn)
        value_of, keys = self._value_of, self._keys
        size = 0
        while batch := list(islice(rows, at_once)):
            for stored, raw in batch:
                some = set(_encoded(value_of(raw)[0]))
                for encoded in some:
                    keys.setdefault(encoded, []).append(stored)
                size += PAIR_BYTES // 2 * len(some)
            self._reads.add(len(batch))
            self._reads.budget.keep(size)
            size = 0
            yield
        self._is_ready = True

    def pairs(self, values: Sequence[object]) -> Steps[list[list[Pair]]]:
        found: list[list[Pair]] = []
        for value in values:
            keys = list(self.stored(value))
            self._reads.budget.read(len(keys))
            found.append((yield from self._reads.fetch(self._target, keys)))
        return found

    def each(self, value: object) -> Iterator[list[Pair]]:
        for keys in chunks(list(self.stored(value)), 64):
            self._reads.budget.read(len(keys))
            yield self._target.get_many(keys, self._reads.txn)

    def stored(self, value: object) -> Iterable[bytes]:
        if not self._is_ready:
            for _ in self.prepare():
                pass
        return dict.fromkeys(key for encoded in _encoded(value) for key in self._keys.get(encoded, ()))


def _elements(value: object) -> list[object]:
    """The values that can lead somewhere: null never does."""
    if isinstance(value, list | set):
        return [element for element in value if element is not None]
    return [] if value is None or value is MISSING else [value]


def _encoded(value: object) -> list[bytes]:
    """The encodings of the elements that have a place in the order."""
    return [encoded for element in _elements(value) if (encoded := sort_bytes(element)) != b"\xff"]
