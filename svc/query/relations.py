"""From records to the records that a relationship leads to (spec: schema-and-store §4.1, query §7).

    from: fk            the record of the other table whose key is self.fk; fk a list: one for each key, in the order of the list
    to: fk              the records of the other table whose fk is, or contains, this record's key
    from: a, to: b      the records of the other table whose b is self.a

Dangling keys lead nowhere. Look-ups are made for a batch of records at once, each different key once, and what was found is remembered,
within bounds, for as long as the execution lasts: a plan may look up one relationship in its filter, its sort and its selection.

Look-ups are generators of short steps (`SteppedFunction`), because one value may lead to very many records; what they read and hold counts towards the
budget of the execution (`budget`).

Where the attribute at the other end is not indexed, the other table is read once for each execution, a slice at a time before the first row,
and its keys are kept by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from svc.freeing import AT_ONCE as FREED
from svc.freeing import free_later
from svc.query.budget import AT_ONCE, Budget
from svc.query.followers import MEMO_BYTES, Follower, FollowerByIndex, FollowerByKey, FollowerByScan, Pair, RelatedReads
from svc.query.links import Link
from svc.query.matching import sort_bytes
from svc.store.values.records import MISSING

MEMO_ENTRIES = 16_384  # values of a foreign key for which a result is remembered


class LookupMemo(dict[Any, Any]):
    """What was found, by `memo_key`. `size`: bytes of the records it was made from, if these are what takes the space."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        super().__init__()
        self.size = 0


class Lookups:
    """What one execution has looked up in other tables: a bounded memory of what was found, and the reading itself."""

    __slots__ = ("_followers", "_memos", "_reads", "_weights", "budget", "txn")

    def __init__(self, txn: Any, budget: Budget | None = None) -> None:
        """`budget`: of the execution; None: that of work that cannot pause."""
        self.txn = txn
        self.budget = Budget(AT_ONCE) if budget is None else budget
        self._reads: RelatedReads | None = None  # until a relationship is followed
        self._followers: dict[tuple[str, str, type], Follower] = {}
        self._memos: dict[object, LookupMemo] = {}
        self._weights: dict[int, tuple[object, int]] = {}

    # A shaped record is made once and is referenced wherever it is selected, so a few records may be very many in the answer. The weight of a value is one
    # and the number of records in the lists that it holds; values are kept with their weights, so that no other gets their id.

    def weigh(self, value: object, weight: int) -> None:
        if weight > 1:
            self.budget.check_rows(weight)
            self._weights[id(value)] = value, weight

    def weight(self, value: object) -> int:
        found = self._weights.get(id(value))
        return 1 if found is None else found[1]

    @property
    def has_weights(self) -> bool:
        """Whether any value weighs more than one."""
        return bool(self._weights)

    def forget_weights(self) -> None:
        weights, self._weights = self._weights, {}
        for value, weight in weights.values():
            if weight > FREED and type(value) is list:
                free_later(value.copy())  # the row may still be written
        free_later(weights)

    @property
    def examined(self) -> int:
        """Related records read so far."""
        return 0 if self._reads is None else self._reads.examined

    def close(self) -> None:
        """The execution has ended: release its transaction, even if the execution is still referenced."""
        self.txn = None
        if self._reads is not None:
            self._reads.txn = None
        if self._followers:
            self._free()
        if self._weights:
            self.forget_weights()

    def _free(self) -> None:
        for follower in self._followers.values():
            if type(follower) is FollowerByScan:
                follower.free()
        self._followers.clear()
        for memo in self._memos.values():
            free_later(memo)
        self._memos.clear()

    def let_go(self) -> None:
        """Release the transaction and what was looked up in it; the weights of rows that were made stay."""
        weights, self._weights = self._weights, {}
        self.close()
        self._weights = weights

    def follower(self, link: Link) -> Follower:
        found = self._followers.get(link.end)
        if found is None:
            found = self._followers[link.end] = self._make(link)
        return found

    def firsts(self, link: Link, values: Sequence[object]) -> list[Pair | None]:
        """For each value the record it leads to, of several the first."""
        follower = self.follower(link)
        if isinstance(follower, FollowerByKey):
            return follower.firsts(values)
        return [next((pairs[0] for pairs in follower.each(value) if pairs), None) for value in values]

    def memo(self, owner: object) -> LookupMemo:
        """A memo that lives as long as the execution; emptied here when it has become large."""
        found = self._memos.get(owner)
        if found is None:
            found = self._memos[owner] = LookupMemo()
        elif len(found) > MEMO_ENTRIES or found.size > MEMO_BYTES:
            free_later(found)
            found = self._memos[owner] = LookupMemo()
        return found

    def preparation(self, links: Iterable[Link]) -> Iterator[None]:
        """Read the tables that have to be read as a whole, a slice for each `next`."""
        for link in links:
            follower = self.follower(link)
            if isinstance(follower, FollowerByScan):
                yield from follower.prepare()

    def _make(self, link: Link) -> Follower:
        to, target = link.relationship.to, link.target
        reads = self._reads
        if reads is None:
            reads = self._reads = RelatedReads(self.txn, self.budget)
        if to is None or to == target.primary_key:
            return FollowerByKey(target, reads)
        if link.scans:
            return FollowerByScan(to, target, reads)
        return FollowerByIndex(to, target, reads)


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
