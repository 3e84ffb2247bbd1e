"""What classes of tables offer besides their verbs: figures, history, changes of their definition (spec: applications §3)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from svc.api.context import current_context
from svc.api.frozen import freeze, is_frozen, thaw
from svc.api.records import Record
from svc.api.results import Items
from svc.api.table_settings import Undo, set_on_table
from svc.api.transactions import open_transaction
from svc.awaitables import is_waiting
from svc.errors import ClientError, SchemaError
from svc.loop import contained
from svc.store import LogEntry
from svc.store import Table as StoredTable
from svc.store.log.entries import KINDS, MESSAGE, OPERATIONS
from svc.store.log.table_removal import remove_log_entries
from svc.store.record_counts import count_records
from svc.store.values.conversion import Key
from svc.store.values.keys import encode_primary
from svc.store.values.records import decode, decode_payload, expiry_of, lsn_of, raw_payload
from svc.store.values.validation import check_key, key_from_text

if TYPE_CHECKING:
    from svc.api.current import CurrentInterface

logger = logging.getLogger("svc.applications")


class RecordCount(dict[str, Any]):
    """`record_count`, `estimated_range`: also as attributes."""

    def __init__(self, count: int) -> None:
        super().__init__(record_count=count, estimated_range=[count, count])

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class HistoryEntry(dict[str, Any]):
    """One entry of the transaction log; its members are also attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return freeze(self[name])
        except KeyError:
            raise AttributeError(name) from None


class TableAdministration:
    """Base class of `Table`."""

    _table: ClassVar[Any]
    _interface: ClassVar[Any]

    # --- figures ---------------------------------------------------------------------------------------------------------------------

    @classmethod
    async def get_record_count(cls, exact_count: bool = False) -> RecordCount:
        """The number of records. It is always exact, `exact_count` or not."""
        table = _of(cls)
        transaction = open_transaction(current_context())
        if transaction is None or not transaction.has_written_to(table.database):
            if transaction is None:
                count, _ = await table.database.store.slices.result(count_records(table))
                return RecordCount(count)
            return RecordCount(table.record_count(transaction.snapshot(table.database)))
        preview = transaction.preview(table.database)
        preview = await preview if is_waiting(preview) else preview
        try:
            return RecordCount(table.record_count(preview.use()))
        finally:
            preview.abort()

    @classmethod
    async def get_size(cls) -> int:
        """Bytes of the records."""
        return _of(cls).size()

    @classmethod
    async def get_audit_size(cls) -> int:
        """Entries of the transaction log about this table."""
        table = _of(cls)
        counts = table.database.log.counts
        await table.database.store.slices.exhaust(counts.catch_up())
        return counts.of(table.number)

    @classmethod
    async def get_storage_stats(cls) -> dict[str, Any]:
        """Bytes of the records and of the whole database, free ones among them, and the number of records."""
        table = _of(cls)
        database = table.database
        count, _ = await database.store.slices.result(count_records(table))
        return {
            "table_size": table.size(),
            "record_count": count,
            "database_size": database.env.used_bytes(),
            "free_space": database.free_bytes(),
        }

    # --- keys ------------------------------------------------------------------------------------------------------------------------

    @classmethod
    def get_new_id(cls) -> Key:
        """A key that no record has: a UUID, or the next number. Raises ClientError if keys have to be given."""
        return _of(cls).new_key()

    @classmethod
    def coerce_id(cls, text: Any) -> Key:
        """The key that `text` stands for in an address. Raises ClientError."""
        table = _of(cls)
        return key_from_text(table.definition, text) if isinstance(text, str) else check_key(table.definition, text)

    # --- the definition ----------------------------------------------------------------------------------------------------------------

    @classmethod
    def set_ttl_expiration(
        cls,
        seconds: float | Mapping[str, Any] | None = None,
        *,
        expiration: float | None = None,
        eviction: float | None = None,
        scan_interval: float | None = None,
        scanInterval: float | None = None,
    ) -> None:
        """How long records last from their last write, in seconds, as the arguments of `@table`.

        `seconds`: the same as `expiration`, from when they are stale; or a mapping of all. `eviction`: further seconds until they are removed.
        `scan_interval`, `scanInterval`: between two looks for them. Raises ClientError.
        """
        if isinstance(seconds, Mapping):
            cls.set_ttl_expiration(**seconds)
            return
        interval = scan_interval if scan_interval is not None else scanInterval
        times = {"expiration": expiration if expiration is not None else seconds, "eviction": eviction, "scan_interval": interval}
        given = {name: value for name, value in times.items() if value is not None}
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise ClientError(f"{name} must be a number of seconds, not {value!r}")
        if not given:
            raise TypeError("set_ttl_expiration takes seconds, or expiration=, eviction=, scan_interval=")
        table = _of(cls)
        definition = replace(table.definition, **{name: float(value) for name, value in given.items()})  # type: ignore[arg-type]
        if definition != table.definition:
            try:
                table.database.define_table(definition)
            except SchemaError as error:
                raise ClientError(error.message) from error

    @classmethod
    def set_computed_attribute(cls, name: str, function: Callable[[Any], Any]) -> None:
        """Give the attribute `name`, which is declared `@computed`, the `function` of a record that computes it. Any other name is logged and has no effect.
        What the function raises is logged, the first time, and there is no value."""
        table = _of(cls)
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise TypeError(f"set_computed_attribute takes a plain function of a record, not {type(function).__name__}")
        computation = _Computation(table, name, function)

        def setting() -> Undo:
            try:
                return table.set_computed_attribute(name, computation)
            except ClientError as error:
                logger.error("set_computed_attribute: %s", error.message)
                return lambda: None

        set_on_table((table.database.name, table.name, "computed", name), setting)

    @classmethod
    async def operation(cls, operation: Mapping[str, Any], authorize: bool = False) -> Any:
        """Run `operation` on this table: a mapping, to which `database` and `table` are added. Rights are checked only with `authorize`."""
        table = _of(cls)
        body = {**operation, "database": table.database.name, "table": table.name}
        interface: CurrentInterface = cls._interface
        return await interface.server.operation(body, None, authorize)

    @classmethod
    async def add_attributes(cls, attributes: Iterable[str | Mapping[str, Any]]) -> None:
        """Add `attributes`: names, or `{"name": ...}`."""
        for attribute in attributes:
            name = attribute if isinstance(attribute, str) else attribute["name"]
            await cls.operation({"operation": "create_attribute", "attribute": name})

    @classmethod
    async def remove_attributes(cls, names: Iterable[str]) -> None:
        """Remove the attributes `names`, from the records as well."""
        for name in names:
            await cls.operation({"operation": "drop_attribute", "attribute": name})

    @classmethod
    async def drop_table(cls) -> None:
        """Remove the table with all its records."""
        await cls.operation({"operation": "drop_table"})

    @classmethod
    def enable_auditing(cls, enabled: bool = True) -> None:
        """Whether the transaction log keeps records as they were before a change: yes if `enabled`."""
        table = _of(cls)
        table.database.define_table(replace(table.definition, audit=bool(enabled)))

    # --- history ---------------------------------------------------------------------------------------------------------------------

    @classmethod
    def get_history(cls, start: float = 0, end: float | None = None) -> Items[HistoryEntry]:
        """The entries of the transaction log from `start` to before `end`, ms since the epoch, oldest first."""
        return Items(_History(_of(cls), float(start), None if end is None else float(end)))

    @classmethod
    async def get_history_of_record(cls, id: Any) -> list[HistoryEntry]:
        """The entries of the record with the key `id`, oldest first."""
        table = _of(cls)
        snapshot = table.database.snapshot()
        key = encode_primary(check_key(table.definition, id))
        raw = table.get_by(key, snapshot)
        newest = None if raw is None else lsn_of(raw)
        entries = list(table.database.log.read_record_history(snapshot, table.number, key, newest))
        return [_shown(entry) for entry in reversed(entries)]

    @classmethod
    async def delete_history(cls, end_time: float, cleanup_deleted_records: bool = False) -> int:
        """Remove the entries before `end_time`, ms since the epoch; how many. Marks of deleted records go with their entries, `cleanup_deleted_records` or
        not."""
        return await remove_log_entries(_of(cls), float(end_time))


class _Computation:
    """A function of an application, as the store calls it: with a decoded record."""

    __slots__ = ("_function", "_has_failed", "_name", "_table")

    def __init__(self, table: StoredTable, name: str, function: Callable[[Any], Any]) -> None:
        self._table = table
        self._name = name
        self._function = function
        self._has_failed = False

    def __call__(self, record: dict[str, Any]) -> Any:
        try:
            value = self._function(Record(self._table, None, record))
        except BaseException as raised:
            error = contained(raised, "the function")
            if not self._has_failed:  # it may be called for each record of a search
                self._has_failed = True
                logger.error(
                    "%s.%s could not be computed, so it has no value; the next times are logged at debug",
                    self._table.name,
                    self._name,
                    exc_info=error,
                )
            raise error
        return thaw(value) if is_frozen(value) else value


class _History:
    """Reads the log in slices; each iteration on a snapshot of its own."""

    def __init__(self, table: StoredTable, start: float, end: float | None) -> None:
        self._table, self._start, self._end = table, start, end

    async def __aiter__(self) -> AsyncIterator[HistoryEntry]:
        table = self._table
        store = table.database.store
        held = store.snapshots.hold(table.database, reader=f"the history of {table.name}")
        try:
            slice_ends = await store.slices.take()
            for entry in held.read(lambda txn: table.database.log.read_table(txn, table.number)):
                if entry is not None and entry.version >= self._start:
                    if self._end is not None and entry.version >= self._end:
                        return
                    yield _shown(entry)
                if store.clock.monotonic() >= slice_ends:
                    slice_ends = await store.slices.take()
        finally:
            held.abort()


def _of(cls: Any) -> StoredTable:
    table: StoredTable = cls._table
    return table


def _shown(entry: LogEntry) -> HistoryEntry:
    value: Any = None
    if entry.value is not None:
        value = decode_payload(raw_payload(entry.value)) if entry.kind == MESSAGE else decode(entry.value)
    return HistoryEntry(
        type="delete" if KINDS[entry.kind] == "expire" else KINDS[entry.kind],
        id=entry.id,
        value=value,
        version=entry.version,
        timestamp=entry.version,
        local_time=entry.lsn,
        localTime=entry.lsn,
        user=entry.user,
        node=entry.node,
        previous_local_time=entry.previous or None,
        expires_at=None if entry.value is None or entry.kind == MESSAGE else expiry_of(entry.value),
        operation=OPERATIONS[entry.operation] or None,
    )
