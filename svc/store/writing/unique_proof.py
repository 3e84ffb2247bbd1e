"""Proving beside requests what a new definition rests on, before it takes effect (spec: schema-and-store §3.1, §7, §7.1).

That attributes can become `@unique`, and that no record has a value under the name that an attribute gets, so that it keeps its index.

    scan       on a snapshot of its own, in slices: duplicates are an error. If there are none, values are unique as of this snapshot. A name that is
               used is no error: the index is built again, and values that have to be unique are read.
    catch up   the log names the records that were written since. If none of them shares a value with another record, as of a newer snapshot,
               values are unique as of that one: any pair that is equal now, and was not, has one of them.
    switch     `Database.define_table` catches up once more, in the write transaction that stores the definition, with at most FEW entries of the log.

So writers never wait, and no write can come between: all that were committed before the switch are looked at, and all that come later are held to the new
definition. Whatever is doubtful (a record that seems to share a value, another definition or index, a log that was cut) is not decided here but by scanning
again. After SCANS of that the switch decides, by reading all in one go.

Where an index has the values, it is asked for others with the same value. Else each value is kept as a number (`SeenValues`), and what a record had as of the
snapshot before is read from that one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from svc.errors import ClientError, IndexRebuilding
from svc.store.definitions import StoredTable, build_key, check_definition, store_key, table_key
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.indexes.build import reader_of
from svc.store.log.written_since import written_since
from svc.store.moves import Move, MoveNote, Moves
from svc.store.schema import TableDefinition, compare
from svc.store.schema_changes import former_name
from svc.store.snapshots import HeldSnapshot
from svc.store.values.computed import computed_attributes
from svc.store.values.records import COMPRESSED, MISSING, decode, projection
from svc.store.writing.constraints import find_rival, values_of
from svc.store.writing.duplicates import STEP, Duplicates, SeenValues, numbers_of, search_index, search_records

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.env import Txn
    from svc.store.indexes.index import Index
    from svc.store.table import Table

SMALL = 1000  # records: a table with no more of them is read at once, within 10 ms
FEW = 200  # entries of the log that the switch looks at: within 10 ms
MOST_WRITTEN = 100_000  # records that are caught up with
ROUNDS = 50  # of catching up: each is shorter than the one before, unless writers are faster
SCANS = 5
LOOKED_AT = 16  # records or values in one step

Check = Generator[None, None, bool]  # short steps, and what came of them


class UnprovedChange(Exception):
    """What a proof is about has changed since: it has to be proved again."""


async def prove(database: Database, definition: TableDefinition) -> DefinitionProof | None:
    """That nothing speaks against what `definition` makes unique, and which indexes stay, for `define_table`; to be closed. None: there is nothing to be
    proved before.

    Raises SchemaError with duplicates.
    """
    slices = database.store.slices
    for _ in range(SCANS):
        proof = _proof_of(database, definition)
        if proof is None:
            return None
        try:
            with closing(proof.steps()) as steps:
                await slices.exhaust(steps)
            if proof.is_complete:
                return proof
        except LmdbError as error:
            proof.close()
            raise store_problem(error, database.env.path) from error
        except BaseException:
            proof.close()
            raise
        proof.close()
    return None


def unproved(database: Database, definition: TableDefinition) -> tuple[str, ...]:
    """The attributes of a large table whose values have to be compared before they can be unique, as `definition` says."""
    known = database.tables.get(former_name(definition, database.tables))
    change = None if known is None or known.entry_count(database.snapshot()) <= SMALL else compare(known.definition, definition)
    if known is None or change is None:
        return ()
    stay = {name for former, name in change.keepable if known.indexes[former].unique}  # nothing but the name changes
    return tuple([name for name in change.unique if name not in stay])


def _proof_of(database: Database, definition: TableDefinition) -> DefinitionProof | None:
    check_definition(definition)
    table = database.tables.get(former_name(definition, database.tables))
    if table is None or table.definition == definition or table.entry_count(database.snapshot()) <= SMALL:
        return None
    change = compare(table.definition, definition)
    computed = computed_attributes(definition, {}, definition.name) if change.unique else {}
    names = [name for name in change.unique if name not in computed or computed[name].is_set]
    kept = [(former, name) for former, name in change.keepable if table.indexes[former].ready]
    if not names and not kept:
        return None
    moves = (*(() if table.moves is None else table.moves.note.moves), *(Move(old, new, inf) for old, new in change.moves))

    def read(name: str) -> _ReadValues:
        reader = computed[name].reader() if name in computed else reader_of(name)
        return _ReadValues(table, name, Moves(MoveNote(moves), 0) if moves else None, reader)

    facts: list[Fact] = []
    for former, name in kept:
        was_unique = table.indexes[former].unique
        # Values that are unique stay so, unless others are under the new name.
        facts.append(_UnusedName(table, former, name, partial(read, name) if name in names and was_unique else None))
        if was_unique and name in names:
            names.remove(name)
    for name in names:
        index = table.indexes.get(name)
        is_indexed = index is not None and index.ready and name not in change.rebuild and not change.moves
        facts.append(_IndexedValues(table, index) if index is not None and is_indexed else read(name))
    return DefinitionProof(table, facts)


class DefinitionProof:
    """Of one table. `is_complete`: it holds as of a snapshot that is FEW entries of the log old at most."""

    def __init__(self, table: Table, facts: list[Fact]) -> None:
        self.is_complete = False
        self._table = table
        self._database = table.database
        self._facts = facts
        self._latest_ms = 0.0
        self._watched = sorted({name for each in facts for name in (each.attribute, each.index_name) if name})
        self._held = self._hold()
        self._lsn = self._database.log.newest_lsn(self._held.use())
        self._basis = self._read_basis(self._held.use())

    def _hold(self) -> HeldSnapshot:
        reader = f"a proof about all records of {self._table.name}"
        return self._database.store.snapshots.hold(self._database, fresh=True, reader=reader, is_kept=True)

    @property
    def unique(self) -> frozenset[str]:
        """The attributes whose values are unique."""
        return frozenset([each.attribute for each in self._facts if type(each) is not _UnusedName or each.is_unique])

    @property
    def kept(self) -> dict[str, str]:
        """The former names of attributes by their new ones, whose indexes stay."""
        return {each.attribute: each.former for each in self._facts if type(each) is _UnusedName}

    def close(self) -> None:
        self._held.abort()
        for each in self._facts:
            each.close()

    def _read_basis(self, txn: Txn) -> list[bytes | None]:
        """What the definitions have of the table and of these indexes."""
        number = self._table.number
        keys = [table_key(self._table.name)]
        for name in self._watched:
            keys += [store_key(number, name), build_key(number, name)]
        return [txn.get(key, None, self._database.definitions) for key in keys]

    def _is_as_known(self) -> bool:
        """Whether no other process has changed the table or its indexes, unnoticed so far."""
        stored = self._basis[0]
        notes = [build_key(self._table.number, each.index_name) for each in self._facts if each.index_name]
        txn = self._held.use()
        is_built = all(txn.get(note, None, self._database.definitions) is None for note in notes)
        return is_built and stored is not None and StoredTable.from_bytes(stored) == self._table.stored

    def steps(self) -> Generator[None]:
        """Scan and catch up, in short steps. Raises SchemaError."""
        database = self._database
        if not self._is_as_known():
            return
        try:
            for each in list(self._facts):
                yield from self._scan(each)
        except IndexRebuilding:
            return
        for _ in range(ROUNDS):
            newer = self._hold()
            try:
                if self._basis != self._read_basis(newer.use()):
                    return
                lsn = database.log.newest_lsn(newer.use())
                if lsn - self._lsn <= FEW:
                    self.is_complete = True
                    return
                if not (yield from self._follow(newer.use(), MOST_WRITTEN)):
                    return
                newer, self._held = self._held, newer
                self._lsn = lsn
            finally:
                newer.abort()

    def _scan(self, fact: Fact) -> Generator[None]:
        found = Duplicates()
        yield from fact.scan(self._held.use(), self._now_ms(), found)
        if type(fact) is _UnusedName and fact.is_used:
            self._facts.remove(fact)
            if fact.instead is not None:
                self._facts.append(fact.instead())
                yield from self._scan(self._facts[-1])
        found.refuse(self._table.name, fact.attribute)

    def _follow(self, newer: Txn, most: int) -> Check:
        """Whether it holds as of `newer`, too."""
        written: set[bytes] = set()
        if not (yield from written_since(self._database.log, newer, self._table.number, self._lsn, written, most=most)):
            return False
        now_ms = self._now_ms()
        for each in self._facts:
            if not (yield from each.follow(self._held.use(), newer, written, now_ms)):
                return False
        return True

    def _now_ms(self) -> float:
        """It does not go back: what has expired stays so."""
        self._latest_ms = max(self._latest_ms, self._database.clock.wall() * 1000)
        return self._latest_ms

    def complete(self, writer: Txn) -> None:
        """Follow to the write transaction that stores the definition. Raises Unproved."""
        is_near = self._database.log.newest_lsn(writer) - self._lsn <= FEW
        if not (self.is_complete and is_near and self._basis == self._read_basis(writer) and _at_once(self._follow(writer, FEW))):
            raise UnprovedChange


class _UnusedName:
    """That no record has a value under the name that an attribute gets. `is_unique`: the former values are, and so are these then. `instead`: makes what has to
    be proved if the name is used."""

    def __init__(self, table: Table, former: str, attribute: str, instead: Callable[[], _ReadValues] | None) -> None:
        self.attribute = attribute
        self.former = self.index_name = former
        self.is_unique = instead is not None
        self.is_used = False
        self.instead = instead
        self._table = table
        self._name = attribute.encode()
        self._value_of = projection((attribute,), default=MISSING)

    def scan(self, txn: Txn, now_ms: float, found: Duplicates) -> Iterator[None]:
        for count, raw in enumerate(txn.cursor(self._table.primary).iternext(False, True), 1):
            if self._has_value(raw):
                self.is_used = True
                return
            if not count % STEP:
                yield

    def _has_value(self, raw: bytes) -> bool:
        # Nearly all records are passed without being decoded: names are in them as they are.
        return (raw[0] & COMPRESSED > 0 or self._name in raw) and self._value_of(raw)[0] is not MISSING

    def follow(self, older: Txn, newer: Txn, written: set[bytes], now_ms: float) -> Check:
        for count, stored in enumerate(written, 1):
            raw = newer.get(stored, None, self._table.primary)
            if raw is not None and self._has_value(raw):
                return False
            if not count % LOOKED_AT:
                yield
        return True

    def close(self) -> None:
        pass


class _IndexedValues:
    """Of an attribute whose index has all values."""

    def __init__(self, table: Table, index: Index) -> None:
        self.attribute = self.index_name = index.attribute
        self._table = table
        self._index = index

    def scan(self, txn: Txn, now_ms: float, found: Duplicates) -> Iterator[None]:
        return search_index(txn, self._table, self._index, now_ms, found)

    def follow(self, older: Txn, newer: Txn, written: set[bytes], now_ms: float) -> Check:
        table, index = self._table, self._index
        count = 0
        for stored in written:
            raw = table.read(stored, newer)
            if raw is None or not table.is_live(raw, now_ms):
                continue
            for entry, value in values_of(index, decode(raw)):
                try:
                    rival, _ = find_rival(newer, table, index, entry, value, stored, now_ms)
                except ClientError:  # too many begin like it
                    return False
                if rival is not None:
                    return False
                count += 1
                if not count % LOOKED_AT:
                    yield
        return True

    def close(self) -> None:
        pass


class _ReadValues:
    """Of an attribute without such an index. `moves`: those that are under way, and those of the new definition."""

    index_name = ""

    def __init__(self, table: Table, attribute: str, moves: Moves | None, value_of: Callable[[bytes], Any]) -> None:
        self.attribute = attribute
        self._table = table
        self._moves = moves
        self._value_of = value_of
        self._seen = SeenValues()

    def scan(self, txn: Txn, now_ms: float, found: Duplicates) -> Iterator[None]:
        return search_records(lambda: self._records(txn, now_ms), self._value_of, self._table.key_of, self._seen, found)

    def _records(self, txn: Txn, now_ms: float) -> Iterator[tuple[bytes, bytes]]:
        for stored, raw in txn.cursor(self._table.primary).iternext():
            if self._table.is_live(raw, now_ms):
                yield stored, raw if self._moves is None else self._moves.translate(raw, txn)

    def _numbers(self, txn: Txn, stored: bytes, now_ms: float) -> set[int]:
        raw = txn.get(stored, None, self._table.primary)
        if raw is None or not self._table.is_live(raw, now_ms):
            return set()
        return numbers_of(self._value_of(raw if self._moves is None else self._moves.translate(raw, txn)))

    def follow(self, older: Txn, newer: Txn, written: set[bytes], now_ms: float) -> Check:
        seen = self._seen
        # What had expired when the records were scanned was not entered, and is not removed. What expires later stays: it may only raise doubts.
        for count, stored in enumerate(written, 1):
            for number in self._numbers(older, stored, now_ms):
                seen.remove(number)
            if not count % LOOKED_AT:
                yield
        for count, stored in enumerate(written, 1):
            for number in self._numbers(newer, stored, now_ms):
                if not seen.add(number):
                    return False
            if not count % LOOKED_AT:
                yield
        return True

    def close(self) -> None:
        self._table.database.store.slices.discard(self._seen.parts)


Fact = _UnusedName | _IndexedValues | _ReadValues


def _at_once(check: Check) -> bool:
    while True:
        try:
            next(check)
        except StopIteration as end:
            return bool(end.value)
