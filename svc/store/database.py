"""One database: its tables, its definitions, its log, and what its turn has written so far.

Schema changes are made in a write transaction of their own, whose lock no other process holds at the same time; others notice the
grown generation when they next poll and read the definitions again. None of that blocks readers.

A store (LMDB's named one) is not removed, only emptied: a snapshot that is still being read may have its handle, here or in another
process. The next table or index that is made takes it over (`store_names`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from os import stat, urandom
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svc.clock import Clock
from svc.errors import ClientError, NoSpace, NotFound, Problem, SchemaError, StoreFailure
from svc.store.blobs import BLOBS_STORE, BlobFile, BlobFiles, Ledger, blobs_in
from svc.store.caching.fetch_locks import FetchLocks
from svc.store.definitions import (
    BLOBS_KEY,
    DEFINITIONS_STORE,
    DROPPED_KEY,
    EXPIRY_STORE,
    FORMAT_KEY,
    GENERATION_KEY,
    MQTT_STORE,
    NEXT_TABLE_KEY,
    REPLICATION_KEY,
    REPLICATION_STORE,
    TABLE_PREFIX,
    StoredTable,
    build_key,
    check_definition,
    check_indexes,
    indexed_attributes,
    leftovers_key,
    moves_key,
    sequence_key,
    store_key,
    table_key,
)
from svc.store.disk.faults import MAX_STORES, LmdbError, store_problem
from svc.store.disk.space_reserve import deletions_at_once
from svc.store.env import Environment, Handle, Txn
from svc.store.indexes.build import build_slice
from svc.store.indexes.cache import IndexCaches, enter_changes
from svc.store.indexes.index import Index
from svc.store.indexes.replay import changes_since
from svc.store.key_sequence import KeySequence
from svc.store.leftovers import note_doubts
from svc.store.log.entries import REMOVALS, LogEntry, log_bytes
from svc.store.log.figures import LogFigures
from svc.store.log.last_writes import LastWrites
from svc.store.log.replicated_log import ReplicatedLog
from svc.store.log.transaction_log import DELETED_STORE, LOG_STORE, TransactionLog
from svc.store.moves import MoveNote
from svc.store.schema import Attribute, TableDefinition, compare
from svc.store.schema_changes import table_change
from svc.store.slices import run_now
from svc.store.store_format import REPLICATED_FORMAT, STORE_FORMAT, encode_format, format_problem
from svc.store.store_handles import StoreHandles
from svc.store.store_names import RECORDS, NamePool, StoreNames, forget_names
from svc.store.table import Table
from svc.store.values.records import DAMAGE, decode, has_files
from svc.store.writing.duplicates import refuse_duplicates
from svc.store.writing.references import Reference

if TYPE_CHECKING:
    from svc.store.indexes.index import IndexChange
    from svc.store.replication_state import ReplicationState
    from svc.store.turn import Turn
    from svc.store.writing.unique_proof import DefinitionProof

logger = logging.getLogger("svc.store")

Guard = Callable[[Txn, set[str] | None], None]
"""Called with a read handle and the names of the tables that a transaction has written to, None if it may be any: raises the Problem that
prevents the commit, and the transaction is rolled back. Short; it may be called on another thread while the loop is blocked."""

RESERVE_PAGES = 256  # free pages inside a file that cannot grow, below which they are kept for deleting
EXPIRIES = 1 << 16  # removed in one step where no other work waits
CORE_STORES = (DEFINITIONS_STORE, LOG_STORE, DELETED_STORE, EXPIRY_STORE, BLOBS_STORE, MQTT_STORE)
MAX_TABLE_STORES = MAX_STORES - len(CORE_STORES)  # tables and indexes of a database together
LEARNED_RESERVE = 128  # of these, what attributes learned from data do not use up
BUILD_AT_ONCE = 1000  # records: the index of a smaller table is built with its definition, within 10 ms


class Database:
    """`tables` is live: it has what this process defines and, after a poll, what others define. `guard`: may refuse transactions."""

    def __init__(self, store: Turn, name: str, path: Path, *, map_bytes: int, write_async: bool) -> None:
        self.store = store
        self.name = name
        self.node: str = store.node
        self.audit: bool = store.audit
        self.clock: Clock = store.clock
        self.caches: IndexCaches = store.caches
        self.tables: dict[str, Table] = {}
        self.tables_version = (
            0  # of this process: grows whenever a table comes, goes, is defined again or computes an attribute in another way
        )
        self.on_commit: list[Callable[[Database, list[LogEntry]], None]] = []  # listeners for commits to this database only
        self.watchers: list[Callable[[Database], None]] = []  # that want to know of commits here, and not of what is in them
        self.used_sequences: set[KeySequence] = set()
        self.entries: list[LogEntry] = []  # written in this turn, not yet committed
        self._index_changes: list[IndexChange] = []
        self.new_files: list[BlobFile] = []  # the same for the files of blobs
        self.guard: Guard | None = None
        self.log: TransactionLog
        self.figures: LogFigures
        self.replication: ReplicationState | None = None  # if other nodes take part in it
        self.queued_writes: Any = None  # `writing.queued_writes.QueuedWrites`, which the store sets
        self._references: dict[str, tuple[Reference, ...]] | None = None  # by the table they lead to; None: to be found
        self._generation = -1
        self.is_dropped = False  # by this process or another: it has no tables, and nothing can be written to it
        self.env = Environment(path, map_bytes=map_bytes, write_async=write_async, make_helper=store.make_helper)
        self.env.on_full = lambda: store.snapshots.free_slot(self)
        self._handles = StoreHandles(self.env)
        self.fetch_locks = FetchLocks(path)
        try:
            self.inode = stat(path).st_ino
            self._open()
            self.blobs = BlobFiles(self._blobs_identity(), name, store.blob_paths, sync=not write_async)
            self.blobs.is_expected = self._expects_file
            self.blobs.expected_seconds = store.blob_timeout
            self.blobs.open_references()
        except BaseException:
            self.env.close()
            raise

    def __repr__(self) -> str:
        return f"<Database {self.name}>"

    # -- reading

    def snapshot(self) -> Txn:
        """The read transaction that all reads of this turn share. Valid until the turn's end or the next schema change."""
        return self.env.snapshot()

    def open_snapshot(self) -> Txn:
        """A private read transaction, for work within this turn. The caller calls `abort()`. What goes on in later turns: `Snapshots.hold`."""
        return self.env.open_snapshot()

    # -- the turn's writes

    def writer(self, *, wait: bool = True) -> Txn:
        """The turn's write transaction. Of several databases, the store opens them in the order of their names.

        Raises WriterBusy unless `wait` while a long write is under way.
        """
        self.store.open_writers((self,), wait=wait)
        return self.env.writer()

    def begin_writing(self, *, wait: bool = True) -> None:
        """Called by the store, in the right order. Raises WriterBusy unless `wait`: see `env`; NotFound if the database was dropped."""
        if not self.env.has_writer:
            if not self.is_dropped:
                self.env.writer(wait=wait)
            if self.is_dropped:  # maybe seen just now
                self.env.abort()
                raise NotFound(f"database '{self.name}' does not exist")
            self.store.saw_version(self.log.last_version)

    def require_space(self) -> None:
        """Raise NoSpace if the space left on the volume and in the file is reserved for deleting. To be called before adding records."""
        if self.env.reserve.is_low:
            self.env.reserve.refill()
            if self.env.reserve.is_low and self.env.free_pages(self._all_handles()) < RESERVE_PAGES:
                raise NoSpace

    def free_bytes(self) -> int:
        """Bytes inside the file that nothing as of now uses, about; snapshots may still read them."""
        return self.env.free_pages(self._all_handles()) * self.env.page_bytes

    @property
    def generation(self) -> int:
        """Grows with every change of the definitions."""
        return self._generation

    def _all_handles(self) -> list[Handle]:
        return [*self._core, *self._handles.all()]

    def written(self, version: float, entries: list[LogEntry], index_changes: list[IndexChange]) -> None:
        """A transaction's writes have become part of the turn."""
        self.entries += entries
        self._index_changes += index_changes
        self.log.last_version = version

    def commit(self) -> list[LogEntry]:
        """Make the turn's writes durable and bring the caches up to them; returns the new log entries.

        Raises NoSpace or StoreFailure; then nothing of the turn exists, and memory is as before it.
        """
        entries, changes, new_files = self.entries, self._index_changes, self.new_files
        self.entries, self._index_changes = [], []
        if new_files:
            self.new_files = []  # if the commit fails they stay claimed: what is on disk decides
        try:
            if self.used_sequences:
                writer = self.env.writer()
                for sequence in self.used_sequences:
                    sequence.save(writer)
                self.env.touch()
            self.env.commit()
        except LmdbError as error:
            self._undo()
            raise store_problem(error, self.env.path) from error
        except NoSpace as problem:
            self._undo()
            raise self.explained(problem, entries) from problem
        except BaseException:
            self._undo()
            raise
        finally:
            self.used_sequences.clear()
        for file in new_files:
            file.keep()
        self.enter_in_caches(changes)
        return entries

    def explained(self, problem: Problem, entries: list[LogEntry]) -> Problem:
        """The same, or why so many deletions cannot be made at once, if all entries of the transaction that did not fit are of such."""
        if not entries or not isinstance(problem, NoSpace) or any(entry.kind not in REMOVALS for entry in entries):
            return problem
        return self.too_many_deletions(len(entries), log_bytes(entries), {entry.table for entry in entries})

    def too_many_deletions(self, count: int, size: int, tables: Iterable[str]) -> NoSpace:
        """Why so many records of these tables could not be deleted together on a full volume, and how many can. `size`: bytes of their log entries."""
        indexes = max((len(self.tables[name].index_list) for name in tables if name in self.tables), default=0)
        fit = deletions_at_once(size / max(count, 1), 3 + indexes, self.env.page_bytes)
        if fit >= count:
            return NoSpace(
                "No space left for this deletion: remove log entries first (delete_audit_logs_before), or make room on the volume"
            )
        return NoSpace(
            f"No space left to delete {count:,} records at once, nothing was deleted: the volume is full, and the reserve of the database is enough for "
            f"about {fit:,} of them in one request. Delete that many at a time, or make room on the volume"
        )

    enter_in_caches = staticmethod(enter_changes)  # brings index caches up to what has been committed

    def undo_long_write(self, last_lsn: int, *, changed: bool) -> None:
        """A long write came to nothing: memory is as before it. `changed`: what `WriteSet.end_long` said."""
        self.log.last_lsn = last_lsn
        if changed:
            self.read_definitions()

    def _undo(self) -> None:
        self.env.abort()
        self.env.forget_position()
        self.env.open_snapshot().abort()  # follows to what is stored

    # -- other nodes

    def enable_replication(self) -> ReplicationState:
        """From here on other nodes take part in the database, in all processes (`replication_state`). Commits, unless that is so already."""
        from svc.store.replication_state import ReplicationState

        self.snapshot()  # what others have done by now
        if self.replication is None:
            made: ReplicationState | None = None
            with self._changing() as writer:
                if self.replication is None:  # another process may have been faster
                    made = ReplicationState(self._handles.make_named(REPLICATION_STORE))
                    made.renew_incarnation(writer)
                    made.set_clock(writer, self.log.last_version, self.log.last_version)
                    numbers = {table.number for table in self.tables.values()}
                    for number in range(1, int.from_bytes(writer.get(NEXT_TABLE_KEY, b"", self.definitions))):
                        if number not in numbers:  # it is not known whether what it had may be sent
                            made.leave_out(writer, number)
                    writer.put(REPLICATION_KEY, b"", True, True, False, self.definitions)
                    writer.put(FORMAT_KEY, encode_format(REPLICATED_FORMAT), True, True, False, self.definitions)
                    self._raise_generation(writer)
            if made is not None:
                self._replicate(made)
        assert self.replication is not None
        return self.replication

    @property
    def unpublished_from(self) -> int | None:
        """The LSN from which on the log has what other nodes may not have got yet, and which has to stay; None: nothing of it has to (spec: replication §5)."""
        if self.replication is None or not self.store.is_replicated(self.name):
            return None
        return self.replication.published(self.snapshot()) + 1

    def _replicate(self, state: ReplicationState) -> None:
        self.replication = state
        log = ReplicatedLog(self.log, self._core[1], self._core[2], state, self.clock)
        log.take_clock(self.env.snapshot(), self.log.last_version)
        self.log = log
        self._read_log()

    def _expects_file(self, number: int) -> bool:
        """Whether the content of a blob's file is yet to come from another node. On any thread."""
        if self.replication is None or self.env.has_stopped:
            return False
        txn = self.env.open_snapshot()
        try:
            return self.replication.blobs.remote(txn, number) is not None
        finally:
            txn.abort()

    # -- definitions

    def references_to(self, table: Table) -> tuple[Reference, ...]:
        """The foreign keys that say what becomes of their records when one of `table` is deleted."""
        if self._references is None:
            self._references = _find_references(self.tables)
        return self._references.get(table.name, ())

    def define_table(self, definition: TableDefinition, *, only_new: bool = False, proof: DefinitionProof | None = None) -> Table:
        """Make a table, or give it a new definition (spec: schema-and-store §7). If it is another one it commits, and what the turn has written before
        it. `only_new`: a table that is there, perhaps made by another process just now, stays what it is.

        Indexes of a table with many records are built in the background; until then they are not `ready`. `proof`: that values can be unique; without it
        all of them are read here (`unique_proof`).
        Raises SchemaError for a change that is refused; NoSpace or StoreFailure if it cannot be stored; Unproved if the proof does not hold any more.
        """
        check_definition(definition)
        self.snapshot()  # what others have made by now
        known = self.tables.get(definition.name)
        if known is not None and known.definition == definition:
            return known  # without the writer, which another process may have for long
        former: Table | None = None
        try:
            with self._changing() as writer:
                table = self.tables.get(definition.name)
                if only_new and table is not None:
                    return table
                if proof is not None:
                    proof.complete(writer)
                if table is None and definition.renamed_from is not None:
                    former = self.tables.get(definition.renamed_from)
                if former is not None:
                    table = self._rename(writer, former, definition.name)
                self._check_stores(definition, table)
                if table is None:
                    table = self._create(writer, definition)
                elif table.definition != definition:
                    self._change(
                        writer, table, definition, frozenset() if proof is None else proof.unique, {} if proof is None else proof.kept
                    )
        except BaseException:
            if former is not None and former.name in self.tables:
                self.tables[former.name] = former  # resources refer to this one
                self.tables_version += 1
            raise
        if former is not None:
            self._forget(former)
            logger.info("database %s: the table %s is %s now", self.name, former.name, table.name)
        return table

    def _rename(self, writer: Txn, former: Table, name: str) -> Table:
        """Give a table another name: everything that it has is known by its number. To those who refer to it, `former` is as if it was dropped."""
        names = StoreNames(writer, self.definitions)
        for attribute in (RECORDS, *former.indexes):
            store = names.of(former.stored, attribute)
            writer.put(store_key(former.number, attribute), store.encode(), True, True, False, self.definitions)
        stored = StoredTable(former.number, replace(former.definition, name=name))
        writer.delete(table_key(former.name), b"", self.definitions)
        writer.put(table_key(name), stored.to_bytes(), True, True, False, self.definitions)
        self._raise_generation(writer)
        del self.tables[former.name]
        table = self.tables[name] = Table(self, stored, former.primary, {each: index.handle for each, index in former.indexes.items()})
        for each, index in former.indexes.items():
            table.indexes[each].progress = index.progress
        table.take_moves(former)
        return table

    def learn_attributes(self, table: Table, record: Mapping[str, object]) -> None:
        """A dynamic table gets the attributes of this record that it does not have, each with an index (spec: schema-and-store §6.10).

        Raises ClientError if there cannot be so many, or not of such names.
        """
        unknown = [name for name in record if name not in table.attributes]
        if unknown:
            learned = tuple(Attribute(name, indexed=True) for name in unknown)
            try:
                definition = replace(table.definition, attributes=table.definition.attributes + learned)
                check_indexes(definition, len(table.index_list))
                if len(unknown) + self._stores_used() > MAX_TABLE_STORES - LEARNED_RESERVE:
                    raise SchemaError(self._too_many_stores(MAX_TABLE_STORES - LEARNED_RESERVE, " before new attributes are refused"))
                self.define_table(definition)
            except SchemaError as error:
                raise ClientError(error.message, code="VALIDATION") from None

    def _stores_used(self) -> int:
        return sum(1 + len(table.index_list) for table in self.tables.values()) + (self.replication is not None)

    def _too_many_stores(self, limit: int, when: str = "") -> str:
        return f'The database "{self.name}" can have {limit} tables and indexes together{when}: drop some, or use another database'

    def _check_stores(self, definition: TableDefinition, table: Table | None) -> None:
        """Raise SchemaError if there would be more stores than there can be."""
        before = 0 if table is None else len(table.index_list)
        check_indexes(definition, before)
        more = len(indexed_attributes(definition)) - before + (table is None)
        if more > 0 and self._stores_used() + more > MAX_TABLE_STORES:
            raise SchemaError(self._too_many_stores(MAX_TABLE_STORES))

    def drop_table(self, name: str) -> None:
        """Remove a table with its records and indexes; its entries stay in the log. Nothing happens if there is none. Commits.

        Holds the loop for as long as it takes: see `database_drops` for tables that may be large.
        """
        with self._changing() as writer:
            table = self.tables.get(name)
            if table is None:
                return
            for index in table.index_list:
                self._drop_index(writer, table, index)
            writer.drop(table.primary, False)
            run_now(table.expiry.clear(writer, EXPIRIES))
            self.forget_table(writer, table)
            self._raise_generation(writer)
        del self.tables[name]
        self.tables_version += 1
        self._references = None
        self.store.table_dropped(table)
        logger.info("database %s: dropped the table %s", self.name, name)

    def forget_table(self, txn: Txn, table: Table) -> None:
        """Remove what is known of a table whose stores are empty."""
        if txn.stat(self._core[4])["entries"]:
            self.ledger.drop_table(txn, table.number, self.log.last_lsn, self.clock.wall() * 1000)
        txn.delete(table_key(table.name), b"", self.definitions)
        txn.delete(sequence_key(table.number), b"", self.definitions)
        txn.delete(moves_key(table.number), b"", self.definitions)
        txn.delete(leftovers_key(table.number), b"", self.definitions)
        forget_names(txn, self.definitions, table.stored)

    def mark_dropped(self) -> None:
        """Make the end of the database durable, and forget it (`database_drops`). Commits, and what the turn has written before it."""
        with self._changing() as writer:
            writer.put(DROPPED_KEY, b"", True, True, False, self.definitions)
            self._raise_generation(writer)
        self._mark_removed()
        logger.info("database %s: dropped", self.name)

    def _mark_removed(self) -> None:
        self.is_dropped = True
        tables = list(self.tables.values())
        self.tables.clear()
        for table in tables:
            self._forget(table)
        self.store.database_dropped(self)

    def _forget(self, table: Table) -> None:
        """A table is no longer one of `tables`."""
        self.tables_version += 1
        for index in table.index_list:
            index.drop_cache()
        self.store.table_dropped(table)

    @contextmanager
    def _changing(self) -> Iterator[Txn]:
        """A schema change: all of it, or none in the store nor in memory."""
        self.store.flush()
        self.begin_writing()  # from here on no other process can change what is read
        try:
            yield self.env.writer()
            self.env.commit()
            self.env.end_snapshot()
        except BaseException as error:
            self.env.abort()
            self._handles.forget_made()
            self.read_definitions()
            if isinstance(error, LmdbError):
                raise store_problem(error, self.env.path) from error
            raise
        self._handles.keep_made()
        self._references = None

    def _create(self, writer: Txn, definition: TableDefinition) -> Table:
        next_number = writer.get(NEXT_TABLE_KEY, None, self.definitions)
        number = 1 if next_number is None else int.from_bytes(next_number, "big")
        stored = StoredTable(number, definition)
        pool = self._pool(writer)
        primary = self._handles.make(writer, pool, stored, RECORDS, self.definitions, MAX_TABLE_STORES)
        handles = {
            name: self._handles.make(writer, pool, stored, name, self.definitions, MAX_TABLE_STORES)
            for name in indexed_attributes(definition)
        }
        writer.put(NEXT_TABLE_KEY, (number + 1).to_bytes(8, "big"), True, True, False, self.definitions)
        writer.put(table_key(definition.name), stored.to_bytes(), True, True, False, self.definitions)
        self._raise_generation(writer)
        table = self.tables[definition.name] = Table(self, stored, primary, handles)
        return table

    def _change(self, writer: Txn, table: Table, definition: TableDefinition, proved: Set[str], kept: Mapping[str, str]) -> None:
        """`proved`: attributes whose values are known to be unique. `kept`: former names by the new ones, of attributes whose indexes stay."""
        entries = writer.stat(table.primary)["entries"]
        change = compare(table.definition, definition, empty=entries == 0)
        if not definition.dynamic:
            note_doubts(writer, table, table_change(table.definition, definition, entries), definition)
        wanted = indexed_attributes(definition)
        handles = {name: index.handle for name, index in table.indexes.items() if name in wanted}
        self._keep_indexes(writer, table, kept)
        handles.update((name, table.indexes[former].handle) for name, former in kept.items())
        new = wanted.keys() - handles.keys()
        for name, index in table.indexes.items():
            if name not in wanted and name not in kept.values():
                self._drop_index(writer, table, index)
        stored = StoredTable(table.number, definition)
        if new:
            pool = self._pool(writer, table, handles)
            handles.update(
                (name, self._handles.make(writer, pool, stored, name, self.definitions, MAX_TABLE_STORES)) for name in wanted if name in new
            )
        table.redefine(definition, handles)
        if change.moves:  # first: indexes get the values as they are read
            self._start_moves(writer, table, change.moves)
        built = wanted.keys() - new - set(change.rebuild)
        for name in change.unique:
            if name not in proved:
                index = table.indexes[name]
                is_built = name in built and index.ready and not change.moves
                refuse_duplicates(writer, table, index, self.clock.wall() * 1000, is_built=is_built)
        for name in new | (wanted.keys() & set(change.rebuild)):
            self._start_build(writer, table, table.indexes[name])
        writer.put(table_key(table.name), stored.to_bytes(), True, True, False, self.definitions)
        self._raise_generation(writer)

    def _keep_indexes(self, writer: Txn, table: Table, kept: Mapping[str, str]) -> None:
        """The indexes of attributes get the new names of these: their entries stay what they are."""
        names = StoreNames(writer, self.definitions)
        for name, former in kept.items():
            writer.put(store_key(table.number, name), names.of(table.stored, former).encode(), True, True, False, self.definitions)
            writer.delete(store_key(table.number, former), b"", self.definitions)

    def _start_moves(self, writer: Txn, table: Table, pairs: Sequence[tuple[str, str]]) -> None:
        """From here on the values of attributes are read with their new names; the records are rewritten in the background (`moves`)."""
        key = moves_key(table.number)
        known = writer.get(key, None, self.definitions)
        note = (MoveNote(()) if known is None else MoveNote.from_bytes(known)).adding(pairs, self.store.next_version())
        writer.put(key, note.to_bytes(), True, True, False, self.definitions)
        table.move(note, writer.id())
        for old, new in pairs:
            logger.info("database %s: moving the values of %s.%s to %s", self.name, table.name, old, new)

    def _drop_index(self, writer: Txn, table: Table, index: Index) -> None:
        index.drop_cache()
        writer.drop(index.handle, False)
        writer.delete(build_key(table.number, index.attribute), b"", self.definitions)
        writer.delete(store_key(table.number, index.attribute), b"", self.definitions)

    def _start_build(self, writer: Txn, table: Table, index: Index) -> None:
        """Empty the index; build it now if the table is small, else leave a note that it has to be built."""
        index.drop_cache()
        writer.drop(index.handle, False)
        writer.put(build_key(table.number, index.attribute), b"", True, True, False, self.definitions)
        index.progress = b""
        if not index.has_values:
            logger.info("database %s: the index %s.%s waits for its function", self.name, table.name, index.attribute)
        elif writer.stat(table.primary)["entries"] <= BUILD_AT_ONCE:
            while not build_slice(writer, table, index):
                pass
            index.progress = None
        else:
            logger.info("database %s: building the index %s.%s in the background", self.name, table.name, index.attribute)
        self._raise_generation(writer)

    def outdated(self, indexes: Iterable[Index], txn: Txn | None = None) -> None:
        """These indexes, which the turn, or a long writer, has noted as to be rebuilt, are not ready; part of its writes."""
        for index in indexes:
            index.drop_cache()
            index.progress = b""
        self.announce_change(txn)

    def _pool(self, writer: Txn, changed: Table | None = None, kept: Iterable[str] = ()) -> NamePool:
        """`kept`: the indexes that stay of the table that is `changed`; the others are spare already."""
        existing = {key.decode() for key in writer.cursor().iternext(True, False)} - {*CORE_STORES, REPLICATION_STORE}
        names = StoreNames(writer, self.definitions)
        used = {name for table in self.tables.values() if table is not changed for name in names.all_of(table.stored)}
        if changed is not None:
            used.update(names.of(changed.stored, attribute) for attribute in (RECORDS, *kept))
        return NamePool(existing, used)

    def _raise_generation(self, writer: Txn) -> None:
        self._generation += 1
        self._references = None
        writer.put(GENERATION_KEY, self._generation.to_bytes(8, "big"), True, True, False, self.definitions)
        self.env.touch()

    def announce_change(self, txn: Txn | None = None) -> None:
        """Make other processes read the definitions again after the commit of the turn, or of `txn`."""
        self._raise_generation(self.env.writer() if txn is None else txn)

    # -- opening, and following other processes

    def _open(self) -> None:
        self._core = self._open_core()
        self.definitions, entries, deleted, self.expiry, blobs, self.mqtt_rows = self._core
        self.ledger = Ledger(blobs)
        self.log = TransactionLog(self.env, entries, deleted)
        self._read_log()
        self.env.on_foreign_commit = self._follow
        self._follow()
        self.figures.restore(self.generation)

    def _read_log(self) -> None:
        self.last_writes = LastWrites(self.env, self.log)
        self.figures = LogFigures(self.env, self.definitions, self.log, self.last_writes, self.tables)

    def _open_core(self) -> list[Handle]:
        """The handles of the stores that every database has; made if it is new, or older than one of them."""
        handles = self.env.open_stores(CORE_STORES)
        if None in handles:
            # If another process is faster, this finds what that one made.
            writer = self.env.writer()
            handles = [self.env.create_store(name, duplicates=name == EXPIRY_STORE) for name in CORE_STORES]
            if writer.get(FORMAT_KEY, None, handles[0]) is None:
                writer.put(FORMAT_KEY, encode_format(), True, True, False, handles[0])
                writer.put(GENERATION_KEY, bytes(8), True, True, False, handles[0])
            self.env.commit()
        found = self.env.snapshot().get(FORMAT_KEY, None, handles[0])
        if (problem := format_problem(found)) is not None:
            raise StoreFailure(
                f"The database {self.name} was written by another version of svc: {problem}. Start the version that wrote it, or a newer one, "
                "or restore a backup that this one has made"
            )
        if found not in (encode_format(), encode_format(REPLICATED_FORMAT)):
            self._upgrade(found, handles[0])
        return [handle for handle in handles if handle is not None]

    def _upgrade(self, found: bytes | None, definitions: Handle | None) -> None:
        """Raise the number of its format, before this process writes what the versions of the former one cannot read."""
        with self.env.alone() as is_alone:
            if not is_alone:
                raise StoreFailure(
                    f"The database {self.name} has a format of an earlier version of svc, and another process has it open, which could not read what "
                    "this version writes. Stop that process first; if several are to be started, start one, then the others"
                )
            self.env.writer().put(FORMAT_KEY, encode_format(), True, True, False, definitions)
            self.env.touch()
            self.env.commit()
        self.env.end_snapshot()
        text = found.decode() if found is not None else "?"
        logger.warning(
            "the format of database %s is %s now, and was %s: earlier versions of svc cannot open it any more",
            self.name,
            STORE_FORMAT,
            text,
        )

    def _blobs_identity(self) -> bytes:
        """Eight random bytes; chosen once."""
        identity = self.env.snapshot().get(BLOBS_KEY, None, self.definitions)
        if identity is None:
            self.env.writer().put(BLOBS_KEY, urandom(8), True, False, False, self.definitions)
            self.env.touch()
            self.env.commit()
            self.env.end_snapshot()
            identity = self.env.snapshot().get(BLOBS_KEY, b"", self.definitions)
        return identity

    def _follow(self) -> None:
        """Another process has committed: bring caches up to it, read the definitions again if they changed."""
        snapshot = self.env.snapshot()
        lsn = self.log.last_lsn
        self.log.catch_up(snapshot)
        generation = snapshot.get(GENERATION_KEY, None, self.definitions)
        is_defined = generation is not None and int.from_bytes(generation, "big") == self._generation
        outdated: Iterable[Table] = self.tables.values()
        try:
            if is_defined and self.env.has_position and not self.env.caches_are_behind:
                outdated = self._replay(snapshot, lsn)
        finally:
            for table in outdated:
                for index in table.index_list:
                    index.outdate_cache()
        if not is_defined:
            self.read_definitions()

    def _replay(self, snapshot: Txn, lsn: int) -> Iterable[Table]:
        """Enter what others have written after this LSN in the index caches. Returns the tables whose caches cannot follow it."""
        cached: dict[int, Table] = {}
        for table in self.tables.values():
            for index in table.computed_indexes:
                index.outdate_cache()
            for index in table.stored_indexes:
                if index.cache is not None:
                    cached[table.number] = table
                    break
        if not cached:
            return ()
        try:
            found = changes_since(self.log, snapshot, lsn, cached)
        except (StoreFailure, *DAMAGE):  # who reads that entry or record is told
            found = None
        if found is None:
            return cached.values()
        changes, lost = found
        self.enter_in_caches(changes)
        return lost

    def read_definitions(self) -> None:
        """Make memory agree with what is stored as of now."""
        snapshot = self.env.snapshot()
        if snapshot.get(DROPPED_KEY, None, self.definitions) is not None:
            if not self.is_dropped:
                self._mark_removed()
            return
        self._generation = int.from_bytes(snapshot.get(GENERATION_KEY, b"", self.definitions), "big")
        self._references = None
        number = snapshot.id()
        self.log.counts.forget()  # another process may have removed entries of one table
        cursor = snapshot.cursor(self.definitions)
        found: dict[str, StoredTable] = {}
        building: dict[str, dict[str, bytes | None]] = {}
        moving: dict[str, MoveNote] = {}
        if cursor.set_range(TABLE_PREFIX):
            for key, data in cursor.iternext():
                if not key.startswith(TABLE_PREFIX):
                    break
                try:
                    stored = StoredTable.from_bytes(data)
                except SchemaError as error:
                    raise StoreFailure(f"The database {self.name} cannot be read: {error.message}") from None
                name = stored.definition.name
                found[name] = stored
                note = snapshot.get(moves_key(stored.number), None, self.definitions)
                if note is not None:
                    moving[name] = MoveNote.from_bytes(note)
                building[name] = {
                    attribute: snapshot.get(build_key(stored.number, attribute), None, self.definitions)
                    for attribute in indexed_attributes(stored.definition)
                }
        names = StoreNames(snapshot, self.definitions)
        is_replicated = snapshot.get(REPLICATION_KEY, None, self.definitions) is not None
        needed = [name for stored in found.values() for name in names.all_of(stored)]
        missing = self._handles.open_missing([*needed, REPLICATION_STORE] if is_replicated else needed)
        if missing is not None:
            raise StoreFailure(f"The database {self.name} lacks the store {missing}: it is damaged, restore a backup")
        if is_replicated and self.replication is None:
            from svc.store.replication_state import ReplicationState  # which a database that is not replicated does without

            self._replicate(ReplicationState(self._handles[REPLICATION_STORE]))
        for name in self.tables.keys() - found.keys():
            self._forget(self.tables.pop(name))
        for name, stored in found.items():
            handles = {attribute: self._handles[names.of(stored, attribute)] for attribute in building[name]}
            table = self.tables.get(name)
            if table is None or table.number != stored.number:
                if table is not None:
                    self._forget(table)
                table = self.tables[name] = Table(self, stored, self._handles[names.of(stored)], handles)
            elif table.definition != stored.definition:
                table.redefine(stored.definition, handles)
            for attribute, index in table.indexes.items():
                index.progress = building[name][attribute]
            table.move(moving.get(name), number)
            for move in moving[name].moves if name in moving else ():
                self.store.saw_version(move.version)

    def check(self) -> None:
        """Assert that every table agrees with its indexes and the log is whole. Reads everything."""
        snapshot = self.snapshot()
        self.log.check(snapshot)
        for table in self.tables.values():
            table.check(snapshot)
        self._check_blobs(snapshot)

    def _check_blobs(self, txn: Txn) -> None:
        """Assert that the ledger has each file that a record or a log entry refers to, and no other, and that the file is there."""
        referred: dict[int, tuple[int, bytes]] = {}
        for table in self.tables.values():
            for stored, raw in txn.cursor(table.primary).iternext():
                for blob in blobs_in(decode(raw)) if has_files(raw) else ():
                    owner = (table.number, stored)
                    if blob.number is not None:
                        assert referred.setdefault(blob.number, owner) == owner, f"{blob!r} belongs to two records"
        files = dict(self.ledger.files(txn))
        held = {number: (table, stored) for number, (table, released, stored) in files.items() if not released}
        dropped = self.ledger.dropped_tables(txn)
        assert referred == {number: owner for number, owner in held.items() if owner[0] not in dropped}, (
            "the ledger differs from the records"
        )
        released = {(lsn, number) for number, (_, lsn, _) in files.items() if lsn}
        assert released == set(self.ledger.released(txn)), "the list of released files differs from the ledger"
        for entry in self.log.read(txn):
            for value in (entry.value, entry.image):
                for blob in blobs_in(decode(value)) if value is not None and has_files(value) else ():
                    if blob.number is None:
                        continue
                    assert blob.number in files, f"{blob!r} of log entry {entry.lsn} is not in the ledger"
                    last = files[blob.number][1]
                    assert not last or last >= entry.lsn, f"{blob!r} is released before log entry {entry.lsn}"
        for number in files:
            assert self.blobs.exists(number) or self.blobs.is_expected(number), f"file {number} is missing"

    def close(self) -> None:
        """Undo what is not committed, and close."""
        self.close_handles()
        self.env.close()

    def close_handles(self) -> None:
        """Release everything before the environment is closed, which may be on another thread. Undoes what is not committed."""
        for table in self.tables.values():
            for index in table.index_list:
                index.drop_cache()
        self.blobs.close()
        self.fetch_locks.close()
        self.env.end_snapshot()
        self.env.abort()


def _find_references(tables: Mapping[str, Table]) -> dict[str, tuple[Reference, ...]]:
    found: dict[str, tuple[Reference, ...]] = {}
    for table in tables.values():
        for attribute in table.definition.attributes:
            link = attribute.relationship
            if link is None or link.on_delete is None or link.from_ is None or link.table not in tables:
                continue
            key = table.attributes.get(link.from_)
            if (
                key is not None
                and (key.name in table.indexes or key.name == table.primary_key)
                and not tables[link.table].definition.split_segments
            ):
                found[link.table] = (*found.get(link.table, ()), Reference(table, key.name, link.on_delete))
    return found
