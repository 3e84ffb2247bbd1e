"""What a table demands of its records beyond the types of their values: `@check` and `@unique` (spec: schema-and-store §3.1).

A record is tested where it is written, in the transaction, after it is merged, completed and stamped: `Constraints.admit` for a write of its own, `refuse` for
one among many of a load (`batch_write`). Copies of what a source has are not tested: the source decides what they are.

`@unique` rests on the index of the attribute. A record that takes a value which another one has is a suspect only: a later write of the same transaction may
move that other value out of the way, so that two records can exchange theirs. What is still double at the end is refused. In a load each record counts by
itself, so there it is refused at once.

An index key of a long string holds its beginning only (`keys.index_key`): the records are asked for the rest, at most MOST_COMPARED of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from svc.errors import BadValue, ClientError, NotUnique, ServerError
from svc.store.values.checks import RecordCheck, checks_of, test_checks
from svc.store.values.comparison import changed_names
from svc.store.values.conversion import shown
from svc.store.values.keys import NULL_KEY, encode_key, index_key, is_cut
from svc.store.values.records import decode

if TYPE_CHECKING:
    from svc.store.env import Txn
    from svc.store.indexes.index import Index
    from svc.store.table import Table
    from svc.store.writing.write_set import WriteSet

MOST_COMPARED = 200  # records with one index key
STEP = 16  # values in one step

Record = Mapping[str, Any]


Suspects = dict[tuple["Table", "Index", bytes], set[bytes]]
"""(table, index, stored key) of a record -> the index keys of its values that another record had when it was written."""


class Constraints:
    """Those of one table, as it is defined."""

    __slots__ = ("checks", "unique")

    def __init__(self, checks: tuple[RecordCheck, ...], unique: tuple[Index, ...]) -> None:
        self.checks = checks
        self.unique = unique

    def admit(
        self, writes: WriteSet, table: Table, stored: bytes, old: dict[str, Any] | None, record: dict[str, Any], *, is_whole: bool
    ) -> None:
        """Test the record that is about to be written in place of `old`, None if there is none that is live. `is_whole`: all of it was given.

        Raises CheckFailed; IndexRebuilding if it is not known whether another record has a value. Notes suspects for `remaining`.
        """
        changed = None if old is None else changed_names(old, record)
        if self.checks:
            test_checks(self.checks, record, None if is_whole else changed)
        for index in self.unique:
            if changed is None or _may_change(index, changed):
                for entry, value in values_of(index, record):
                    rival, expired = find_rival(writes.txn, table, index, entry, value, stored, writes.wall_ms)
                    for other in expired:  # they would be met again and again
                        writes.expire(table, other, writes.wall_ms)
                    if rival is not None:
                        writes.suspects.setdefault((table, index, stored), set()).add(entry)
                    elif not index.ready:
                        raise _unknown(index)

    def refuse(
        self,
        writes: WriteSet,
        table: Table,
        stored: bytes,
        old: dict[str, Any] | None,
        record: dict[str, Any],
        pending: Mapping[bytes, Record],
    ) -> None:
        """The same for a record of a load, without waiting for others. `pending`: by stored key, records that are written and not to be found yet.

        Raises CheckFailed, NotUnique, IndexRebuilding.
        """
        changed = None if old is None else changed_names(old, record)
        if self.checks:
            test_checks(self.checks, record, changed)
        for index in self.unique:
            if changed is None or _may_change(index, changed):
                for entry, value in values_of(index, record):
                    rival, _ = find_rival(writes.txn, table, index, entry, value, stored, writes.wall_ms, pending)
                    if rival is not None:
                        raise _not_unique(writes.txn, table, index, value, stored, rival, pending)
                    if not index.ready:
                        raise _unknown(index)


def constraints_of(table: Table) -> Constraints | None:
    """None: the table demands nothing but types."""
    checks = checks_of(table.definition, f"{table.database.name}.{table.name}")
    unique = tuple([index for index in table.index_list if index.unique])
    return Constraints(checks, unique) if checks or unique else None


def remaining(writes: WriteSet) -> Iterator[None]:
    """What the end of a transaction says of its suspects, in short steps. Raises NotUnique."""
    suspects, writes.suspects = writes.suspects, {}
    number = 0
    for (table, index, stored), entries in suspects.items():
        raw = table.read(stored, writes.txn)
        if raw is None or not table.is_live(raw, writes.wall_ms):
            continue
        for entry, value in values_of(index, decode(raw)):
            if entry in entries:
                rival, _ = find_rival(writes.txn, table, index, entry, value, stored, writes.wall_ms)
                if rival is not None:
                    raise _not_unique(writes.txn, table, index, value, stored, rival, {})
                number += 1
                if not number % STEP:
                    yield


def values_of(index: Index, record: Record) -> Iterator[tuple[bytes, Any]]:
    """(index key, value) of the values of a record that nothing else may have: not of null, nor of what cannot be indexed."""
    return unique_values(record.get(index.attribute) if index.computed is None else index.computed(dict(record)))


def unique_values(value: Any) -> Iterator[tuple[bytes, Any]]:
    """The same of a value of the attribute: each element of a list is one."""
    for element in value if isinstance(value, list | tuple | set) else (value,):
        try:
            entry = index_key(element)
        except BadValue:
            continue
        if entry != NULL_KEY:
            yield entry, element


def find_rival(
    txn: Txn,
    table: Table,
    index: Index,
    entry: bytes,
    value: Any,
    stored: bytes,
    now_ms: float,
    pending: Mapping[bytes, Record] | None = None,
) -> tuple[bytes | None, list[bytes]]:
    """The stored key of another live record with this value, None if there is none; and those of records with it that have expired.

    Raises ClientError if too many records would have to be compared.
    """
    first = txn.get(entry, None, index.handle)
    if first is None:
        return None, []
    expired: list[bytes] = []
    cursor = txn.cursor(index.handle)
    cursor.set_key(entry)
    is_exact = not is_cut(entry)
    for number, other in enumerate(cursor.iternext_dup()):
        if other == stored:
            continue
        if number >= MOST_COMPARED:
            raise ClientError(
                f"More than {MOST_COMPARED} records have a value of {index.attribute} that begins like this one: they cannot be compared",
                409,
                code="KEY_CONFLICT",
            )
        record = None if pending is None else pending.get(other)
        if record is None:
            raw = table.read(other, txn)
            if raw is None or not table.is_live(raw, now_ms):
                expired.append(other)
                continue
            if is_exact:
                return other, expired
            record = decode(raw)
        if is_exact or any(encode_key(each) == encode_key(value) for key, each in values_of(index, record) if key == entry):
            return other, expired
    return None, expired


def _may_change(index: Index, changed: tuple[str, ...]) -> bool:
    return index.attribute in changed if index.computed is None else index.computed.depends_on(changed)


def _unknown(index: Index) -> ServerError:
    return ServerError(
        f'"{index.attribute}" is unique and not indexed yet: whether another record has this value is not known', 503, "INDEX_REBUILDING"
    )


def _not_unique(
    txn: Txn, table: Table, index: Index, value: Any, stored: bytes, rival: bytes, pending: Mapping[bytes, Record]
) -> NotUnique:
    record = pending.get(rival)
    raw = table.read(rival, txn) if record is None else None
    key = table.key_of(raw) if raw is not None else (record or {}).get(table.primary_key)
    return NotUnique(table, index.attribute, shown(value), key, shown(key), stored)
