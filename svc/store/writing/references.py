"""What becomes of records whose foreign key names a deleted record (spec: schema-and-store §4.4).

A relationship with `onDelete:` leads from a foreign key to the primary key of another table. When a record of that table is deleted, the records that
name it are found by the index of the foreign key, within the same transaction:

    cascade    they are deleted, and what names them in turn is treated the same
    setNull    the foreign key becomes null; of a list the key is removed
    restrict   the transaction fails, unless at its end they are gone or the record is there again

Cascades go depth first, CHUNK records at a time. What is still to be done is a stack of `_DeletedRecord`: a record whose last chunk was not full is popped
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

CHUNK = 16  # index entries in one step
AT_ONCE = 500  # records that may be touched where the loop cannot be given back
MOST_RESTRICTED = 10_000  # records of one transaction that wait for its end, because others name them
COUNTED = 1000  # index entries that are looked at for the number in a message


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key: `attribute` of `table` names records of another table. `on_delete`: one of `schema.ON_DELETE`."""

    table: Table
    attribute: str
    on_delete: str


class NeedsLongWrite(Exception):
    """A transaction touches more records than the turn has time for: it can be repeated as a long write."""


class _DeletedRecord(NamedTuple):
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
        self._deleted: list[_DeletedRecord] = []
        self._restricted: list[tuple[Reference, Table, bytes]] = []
        self._touched = 0

    def deleted(self, table: Table, key: bytes) -> None:
        """A record that others may name is no longer there."""
        self._deleted.append(_DeletedRecord(table, key))

    def steps(self) -> Iterator[None]:
        """Carry out what the deletions so far entail, in short steps."""
        while self._deleted:
            item = self._deleted.pop()
            references = self._set.database.references_to(item.table)
            reference = references[item.number]
            found, behind = self._chunk(reference, item.key, item.behind)
            if reference.on_delete == RESTRICT:
                if found:
                    self._restrict(reference, item, found[0][1])
                    behind = None
                found = []
            if behind is not None:
                self._deleted.append(item._replace(behind=behind))
            elif item.number + 1 < len(references):
                self._deleted.append(_DeletedRecord(item.table, item.key, item.number + 1))
            for stored, raw in found:
                self._act(reference, item.key, stored, raw)
            yield

    def check(self) -> Iterator[None]:
        """What `restrict` has against the end of the transaction, in short steps. Raises StillReferenced."""
        for reference, table, key in self._restricted:
            behind: Entry | None = None
            while not self._set.has(table, key):
                found, behind = self._chunk(reference, key, behind)
                if found:
                    raise self._refusal(reference, table, key, found[0][1])
                yield
                if behind is None:
                    break
        self._restricted.clear()

    # -- one reference

    def _chunk(
        self, reference: Reference, key: bytes, behind: Entry | None, most: int = CHUNK
    ) -> tuple[list[tuple[bytes, bytes]], Entry | None]:
        """(stored key, raw) of records that name the deleted one, and the index entry behind which there may be more. Looks at `most` entries."""
        table, txn = reference.table, self._set.txn
        if reference.attribute == table.primary_key:
            stored = storage_key(key)
            raw = table.read(stored, txn)
            return [(stored, raw)] if raw is not None and self._counts(table, raw) else [], None
        index = table.indexes[reference.attribute]
        if not index.ready:
            raise IndexRebuilding(reference.attribute)
        low = index_key(decode_key(key))
        value_of = projection((reference.attribute,), default=None) if is_cut(low) else None
        entries = list(islice(index.scan_built(txn, low, after(low), behind=behind), most))
        found = []
        for _, stored in entries:
            raw = table.read(stored, txn)
            if raw is not None and self._counts(table, raw) and (value_of is None or _names(value_of(raw)[0], key)):
                found.append((stored, raw))
        return found, entries[-1] if len(entries) == most else None

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

    def _restrict(self, reference: Reference, item: _DeletedRecord, raw: bytes) -> None:
        """`raw`: a record that names the deleted one."""
        if len(self._restricted) >= MOST_RESTRICTED:
            raise self._refusal(reference, item.table, item.key, raw)
        self._restricted.append((reference, item.table, item.key))

    def _refusal(self, reference: Reference, table: Table, key: bytes, raw: bytes) -> StillReferenced:
        found, behind = self._chunk(reference, key, None, COUNTED)
        count = len(found)
        other = reference.table
        return StillReferenced(
            table,
            decode_key(key),
            other,
            reference.attribute,
            other.key_of(raw),
            f"{count:,}" if behind is None else f"{count:,} or more",
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
