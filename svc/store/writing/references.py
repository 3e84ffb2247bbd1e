"""What becomes of records whose foreign key names a deleted record (spec: schema-and-store §4.4).

A relationship with `onDelete:` leads from a foreign key to the primary key of another table. When a record of that table is deleted, the records that
name it are found by the index of the foreign key, within the same transaction:

    cascade    they are deleted, and what names them in turn is treated the same
    setNull    the foreign key becomes null; of a list the key is removed
    restrict   the transaction fails, unless at its end they are gone or the record is there again

Cascades go depth first, CHUNK records at a time. What is still to be done is a stack of `_Deleted`: a record whose last chunk was not full is popped
before the records of that chunk are pushed. So the stack stays short in a chain of any length and below a record with any number of others, and a
cycle ends, because a deleted record is not found again.

Rights are those of the schema, not of the user: who may delete a record may delete what depends on it. Expired records and copies of what a source
has (`svc.store.caching`) are left alone: the ones are gone, the others belong to the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from svc.errors import BadValue, ClientError, IndexRebuilding, StillReferenced
from svc.store.log.entries import DELETE
from svc.store.schema import CASCADE, RESTRICT
from svc.store.values.keys import after, decode_key, encode_key, index_key, is_cut, storage_key
from svc.store.values.records import decode, is_copy, projection

if TYPE_CHECKING:
    from svc.store.indexes.index import Entry
    from svc.store.table import Table
    from svc.store.writing.write_set import WriteSet

CHUNK = 16  # records in one step
AT_ONCE = 500  # records that may be touched where the loop cannot be given back
MOST_RESTRICTED = 10_000  # records of one transaction that wait for its end, because others name them
COUNTED = 1000  # records that a message counts


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key: `attribute` of `table` names records of another table. `on_delete`: one of `schema.ON_DELETE`."""

    table: Table
    attribute: str
    on_delete: str


class NeedsLongWrite(Exception):
    """A transaction touches more records than the turn has time for: it can be repeated as a long write."""


class _Deleted(NamedTuple):
    """A record that was deleted, as far as its references have been followed. `number`: of the reference. `behind`: the last index entry that was seen."""

    table: Table
    key: bytes  # encoded, whole
    number: int = 0
    behind: Entry | None = None


class ReferenceActions:
    """The actions of one transaction. `limit`: of records that may be touched; `may_repeat`: whether more than that is NeedsLongWrite."""

    def __init__(self, write_set: WriteSet, limit: int | None, may_repeat: bool) -> None:
        self._set = write_set
        self._limit = limit
        self._may_repeat = may_repeat
        self._deleted: list[_Deleted] = []
        self._restricted: list[tuple[Reference, Table, bytes]] = []
        self._touched = 0

    def deleted(self, table: Table, key: bytes) -> None:
        """A record that others may name is no longer there."""
        self._deleted.append(_Deleted(table, key))

    def steps(self) -> Iterator[None]:
        """Carry out what the deletions so far entail, in short steps."""
        while self._deleted:
            item = self._deleted.pop()
            references = self._set.database.references_to(item.table)
            reference = references[item.number]
            if reference.on_delete == RESTRICT:
                found: list[tuple[bytes, bytes]] = []
                if next(self._matching(reference, item.key), None) is not None:
                    self._restrict(reference, item)
                behind = None
            else:
                found, behind = self._chunk(reference, item)
            if behind is not None:
                self._deleted.append(item._replace(behind=behind))
            elif item.number + 1 < len(references):
                self._deleted.append(_Deleted(item.table, item.key, item.number + 1))
            for stored, raw in found:
                self._act(reference, item.key, stored, raw)
            yield

    def check(self) -> Iterator[None]:
        """What `restrict` has against the end of the transaction, in short steps. Raises StillReferenced."""
        for reference, table, key in self._restricted:
            if not self._set.has(table, key):
                first = next(self._matching(reference, key), None)
                if first is not None:
                    raise self._refusal(reference, table, key, first[1])
            yield
        self._restricted.clear()

    # -- one reference

    def _chunk(self, reference: Reference, item: _Deleted) -> tuple[list[tuple[bytes, bytes]], Entry | None]:
        """The next (stored key, raw) that name the record, and the index entry behind which there may be more."""
        seen: list[Entry] = []
        found = list(islice(self._matching(reference, item.key, item.behind, seen), CHUNK))
        return found, seen[-1] if len(found) == CHUNK and seen else None

    def _matching(
        self, reference: Reference, key: bytes, behind: Entry | None = None, seen: list[Entry] | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """(stored key, raw) of the records that name the deleted one. `seen`: gets the entry of each, where they are found by an index."""
        table, txn = reference.table, self._set.txn
        if reference.attribute == table.primary_key:
            stored = storage_key(key)
            raw = table.read(stored, txn)
            if raw is not None and self._counts(table, raw):
                yield stored, raw
            return
        index = table.indexes[reference.attribute]
        if not index.ready:
            raise IndexRebuilding(reference.attribute)
        low = index_key(decode_key(key))
        value_of = projection((reference.attribute,), default=None) if is_cut(low) else None
        for entry in index.scan_built(txn, low, after(low), behind=behind):
            raw = table.read(entry[1], txn)
            if raw is None or not self._counts(table, raw) or (value_of is not None and not _names(value_of(raw)[0], key)):
                continue
            if seen is not None:
                seen.append(entry)
            yield entry[1], raw

    def _counts(self, table: Table, raw: bytes) -> bool:
        return not is_copy(raw) and table.is_live(raw, self._set.wall_ms)

    def _act(self, reference: Reference, key: bytes, stored: bytes, raw: bytes) -> None:
        self._touched += 1
        if self._limit is not None and self._touched > self._limit:
            if self._may_repeat:
                raise NeedsLongWrite
            raise ClientError(
                f"More than {self._limit} records refer to what is deleted, too many for this transaction: delete those first",
                code="TOO_MANY_REFERENCES",
            )
        table, write_set = reference.table, self._set
        record = decode(raw)
        encoded = table.encoded_key(stored, record)
        if reference.on_delete == CASCADE:
            write_set.remove_record(table, DELETE, encoded, stored, raw, record)
            if write_set.database.references_to(table):
                self.deleted(table, encoded)
            return
        value = record.get(reference.attribute)
        rest = [element for element in value if not _names(element, key)] if isinstance(value, list) else None
        write_set.patch(table, encoded, record[table.primary_key], {reference.attribute: rest}, None)

    def _restrict(self, reference: Reference, item: _Deleted) -> None:
        if len(self._restricted) >= MOST_RESTRICTED:
            raise self._refusal(reference, item.table, item.key, next(self._matching(reference, item.key))[1])
        self._restricted.append((reference, item.table, item.key))

    def _refusal(self, reference: Reference, table: Table, key: bytes, raw: bytes) -> StillReferenced:
        count = sum(1 for _ in islice(self._matching(reference, key), COUNTED))
        other = reference.table
        return StillReferenced(
            other.database.name,
            table.name,
            decode_key(key),
            other.name,
            reference.attribute,
            other.key_of(raw),
            f"{count:,} or more" if count == COUNTED else f"{count:,}",
        )


def _names(value: Any, key: bytes) -> bool:
    """Whether the value of a foreign key is, or contains, this encoded key."""
    elements = value if isinstance(value, list) else (value,)
    for element in elements:
        try:
            if encode_key(element) == key:
                return True
        except BadValue:
            continue
    return False
