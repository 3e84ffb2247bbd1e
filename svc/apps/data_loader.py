"""Records of files brought into their tables (spec: components §1).

For each record that was brought, a hash is kept in `system.svc_dataloader_hash`: what the file had, and what the table has of it. So a record that was
changed by something else is known, and left alone.

Hashes and records are in two databases, which are not committed together. So in three commits, after each of which a process may end:

    1. hashes     the new ones. In place of others, they have these in `before`
    2. records    those that there are none of, and those that are what the hashes say, the new ones or those in `before`
    3. settled    `before` goes; of records that something else has made in the meantime the hashes go

Each step looks at what there is within its write transaction, which one process at a time has. So several processes may load the same files at once:
what one has done is nothing to do for the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from svc.apps.data_files import DataFile, FileRecord, chunks, hashed_records, stored_hash
from svc.apps.data_lines import record_lines
from svc.apps.entry import Runtime
from svc.errors import ClientError, NotFound, Overloaded, SchemaError, ServerError
from svc.store import Database, Store, Table
from svc.store.blobs import UnsavedContent, blobs_in, save
from svc.store.log.entries import PATCH, PUT
from svc.store.schema import Attribute, TableDefinition
from svc.store.slices import Slices
from svc.store.system import LOADER_TABLE, SYSTEM
from svc.store.values.conversion import printable
from svc.store.values.keys import MAX_STORED, Key, encode_primary, storage_key
from svc.store.values.records import decode
from svc.store.writing.batch_write import BatchItem, BatchWriter
from svc.store.writing.long_write import LongWrite
from svc.store.writing.write_set import WriteSet

CHUNK = 1000  # records that are looked at, and then written, together
PROGRESS = 20_000  # records between two lines in the log
MAX_FAULTS = 50  # of records that are told of a file
TRIES = 20  # while the database is overloaded, or the table is being changed
TRY_AGAIN_AFTER = 0.5  # seconds
MAX_BEFORE = 10  # changes that were begun and not done, one after the other
MAX_KEY_TEXT = 400  # characters; of longer keys a hash is the id of their record of hashes
KEY = "id"

Fault = tuple[int, str]
"""(number of a record from 0, what is wrong with it)."""


@dataclass(slots=True)
class Result:
    """What has become of the records of a file. `left`: changed or made by something else. `faults`: the first ones, of `failed`."""

    made: int = 0
    changed: int = 0
    same: int = 0
    left: int = 0
    failed: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        self.made += other.made
        self.changed += other.changed
        self.same += other.same
        self.left += other.left

    def fail(self, faults: Iterable[str]) -> None:
        for fault in faults:
            self.failed += 1
            if len(self.faults) < MAX_FAULTS:
                self.faults.append(fault)

    def __str__(self) -> str:
        parts = [
            f"{count} {name}"
            for count, name in (
                (self.made, "made"),
                (self.changed, "changed"),
                (self.same, "as they were"),
                (self.left, "left as something else has made them"),
                (self.failed, "at fault"),
            )
            if count
        ]
        return ", ".join(parts) or "no records"


@dataclass(slots=True, eq=False)
class _Item:
    """A record that may have to be written. `record`: validated. `id`: of its hashes. `names`: of its attributes that the file decides on. `stored`: hash of
    these. `kept`: {fields, stored}, what the table may have for the record to be ours. `is_there`: a record was seen. `has_before`: its hashes have a
    `before`."""

    source: FileRecord
    record: dict[str, Any]
    key: Key
    encoded: bytes
    id: str
    names: list[str]
    stored: str
    is_there: bool = False
    kept: list[dict[str, Any]] = field(default_factory=list)
    has_before: bool = False

    @property
    def place(self) -> bytes:
        """The stored key."""
        return self.encoded if len(self.encoded) < MAX_STORED else storage_key(self.encoded)


@dataclass(slots=True)
class _LookedUpRecords:
    """What a look at some records has found. `items`: that may have to be written. `tally`: of the others."""

    items: list[_Item] = field(default_factory=list)
    tally: Result = field(default_factory=Result)
    faults: list[Fault] = field(default_factory=list)


class NoTable(SchemaError):
    """There is no table for the records, and none was to be made."""


async def load_file(
    runtime: Runtime, file: DataFile, progress: Callable[[int], None] = lambda done: None, *, makes_table: bool = True
) -> Result:
    """Bring the records of a file into its table. `progress`: called with the number of records that are done, now and then. `makes_table`: if there is
    none.

    Raises NoTable, or the Problem or SchemaError that hinders all further records. What was written before stays, and a repetition goes on from there.
    """
    return await _FileLoad(runtime, file, progress, makes_table).run()


class _FileLoad:
    def __init__(self, runtime: Runtime, file: DataFile, progress: Callable[[int], None], makes_table: bool) -> None:
        self._makes_table = makes_table
        self._runtime = runtime
        self._store: Store = runtime.store
        self._slices: Slices = runtime.store.slices
        self._file = file
        self._progress = progress
        self._key = KEY
        self._lines: list[int] | None = None  # of the records; None: not asked for
        self._seen: dict[bytes, int] = {}  # stored key -> number of the first record with it
        self.result = Result()

    @property
    def _hashes(self) -> Table:
        return self._store.databases[SYSTEM].tables[LOADER_TABLE]

    async def run(self) -> Result:
        records = self._file.records
        try:
            table = await self._table()
            if table is None:
                return self.result
            self._key = table.primary_key
            if table.is_caching:
                raise ClientError(f"the records of {table.name} come from its source, and not from files")
            for start, end in chunks(len(records), CHUNK):
                await self._bring(table, await self._runtime.in_thread(hashed_records, records, start, end))
                if end // PROGRESS > start // PROGRESS and end < len(records):
                    self._progress(end)
        finally:
            self._slices.discard(records)
        return self.result

    # --- the table -----------------------------------------------------------------------------------------------------------------------

    async def _table(self) -> Table | None:
        """The table, made of the fields of the first record if there is none; None if there is nothing to make it of."""
        file = self._file
        database = self._store.find_database(file.database)
        table = None if database is None else database.tables.get(file.table)
        if table is not None or not file.records:
            return table
        if not self._makes_table:
            raise NoTable(f"there is no table {file.database}.{file.table}, and none is made of the records while the schema has errors")
        definition = _definition_of(file)
        if database is None:
            database = await self._store.make_database(file.database)
        return database.define_table(definition, only_new=True)

    # --- a chunk -------------------------------------------------------------------------------------------------------------------------

    async def _bring(self, table: Table, found: list[FileRecord | Fault]) -> None:
        faults = [each for each in found if type(each) is tuple]
        sources = [each for each in found if type(each) is FileRecord]
        for tries_left in reversed(range(TRIES)):
            definition = table.definition
            looked = await self._slices.result(self._look_at(table, sources))
            try:
                if definition.dynamic:
                    self._learn(table, looked)
                    definition = table.definition
                await self._write(table, definition, looked)
                break
            except Overloaded:
                if not tries_left:
                    raise
                await asyncio.sleep(TRY_AGAIN_AFTER)
            except ServerError:  # the table has been changed meanwhile
                if not tries_left or table.definition is definition or table.database.tables.get(table.name) is not table:
                    raise
        self.result.add(looked.tally)
        faults += looked.faults
        if faults and self._lines is None:
            self._lines = await self._runtime.in_thread(record_lines, self._file.path)
        self.result.fail(self._told(*fault) for fault in sorted(faults))

    def _look_at(self, table: Table, sources: list[FileRecord]) -> Generator[None, None, _LookedUpRecords]:
        """Check records, and find those that may have to be written. In short steps."""
        looked = _LookedUpRecords()
        tally = looked.tally
        for source in sources:
            try:
                item = self._item(table, source)
            except ClientError as error:
                looked.faults.append((source.number, error.message))
                yield
                continue
            raw = table.get_raw(item.key)
            raw_hashes = self._hashes.get_raw(item.id)
            hashes = None if raw_hashes is None else decode(raw_hashes)
            if raw is None:
                looked.items.append(item)
            elif hashes is None:
                tally.left += 1
            elif hashes["hash"] == source.hash and not hashes.get("before"):
                tally.same += 1
            elif _is_ours(decode(raw), _kept(hashes)):
                item.is_there = True
                looked.items.append(item)
            else:
                tally.left += 1
            yield
        return looked

    @staticmethod
    def _learn(table: Table, looked: _LookedUpRecords) -> None:
        """A dynamic table gets the attributes of the records."""
        try:
            table.database.learn_attributes(table, {name: None for item in looked.items for name in item.record})
        except ClientError:
            for item in list(looked.items):
                try:
                    table.database.learn_attributes(table, item.record)
                except ClientError as error:
                    looked.items.remove(item)
                    looked.faults.append((item.source.number, error.message))

    def _item(self, table: Table, source: FileRecord) -> _Item:
        """Raises ClientError for a record that cannot be stored."""
        primary_key = table.primary_key
        if source.data.get(primary_key) is None:
            raise ClientError(f"it has no value for the primary key {primary_key}")
        record = dict(table.validator.record(dict(source.data), source="json"))
        key = record[primary_key]
        key = tuple(key) if type(key) is list else key
        encoded = encode_primary(key)
        first = self._seen.setdefault(encoded, source.number)
        if first != source.number:
            raise ClientError(f"record {first} has the same {primary_key}")
        names = [name for name in record if name not in table.stamps]
        return _Item(source, record, key, encoded, _id_of(table, key), names, stored_hash(record, names))

    async def _write(self, table: Table, definition: TableDefinition, looked: _LookedUpRecords) -> None:
        """The three commits. Where one record hinders all, it is found by halves."""
        parts = [looked.items]
        while parts:
            items = parts.pop()
            try:
                looked.tally.add(await self._write_together(table, definition, items))
            except NotFound:  # the table has gone
                raise
            except ClientError as error:
                if len(items) == 1:
                    looked.faults.append((items[0].source.number, error.message))
                else:
                    parts += [items[: len(items) // 2], items[len(items) // 2 :]]

    async def _write_together(self, table: Table, definition: TableDefinition, items: list[_Item]) -> Result:
        for item in items:
            if UnsavedContent.alive:
                for blob in blobs_in(item.record):
                    if blob.unsaved is not None:
                        await save(blob, table.database.blobs, self._store.helper)
        await self._run(_Hashes(self._hashes, items), None)
        records = _Records(table, items)
        await self._run(records, (table, definition))
        await self._run(_SettlingWork(self._hashes, [item for item in records.done if item.has_before], records.foreign), None)
        return records.tally

    async def _run(self, work: _Work, checked: tuple[Table, TableDefinition] | None) -> None:
        if work.size:
            await LongWrite(self._store, work, {} if checked is None else dict([checked]), None, 0).run()

    def _told(self, number: int, text: str) -> str:
        record = self._file.records[number]
        key = record.get(self._key) if isinstance(record, dict) else None
        said = [] if key is None or isinstance(key, dict | list) else [f"{self._key} {printable(str(key))[:100]}"]
        if self._lines is not None and number < len(self._lines):
            said.append(f"line {self._lines[number]}")
        place = f" ({', '.join(said)})" if said else ""
        return f"record {number}{place}: {text}"


class _Work:
    """`long_write.Work` and `batch_write.BatchRules`: some records of one table."""

    adds = True
    kind = PUT

    def __init__(self, table: Table, items: dict[bytes, BatchItem]) -> None:
        self.database: Database = table.database
        self.size = len(items)
        self._table = table
        self._items = items

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        self.begin()
        yield from BatchWriter(write_set, self._table, self).steps(sorted(self._items), self._items)

    def begin(self) -> None:
        """It is carried out, perhaps once more."""

    def forget(self, slices: Slices) -> None:
        pass

    def new(self, item: BatchItem) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
        raise NotImplementedError

    def over(self, item: BatchItem, old: dict[str, Any], is_live: bool) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
        raise NotImplementedError


def _of_hashes(items: list[_Item]) -> tuple[dict[bytes, BatchItem], dict[bytes, _Item]]:
    found: dict[bytes, BatchItem] = {}
    by_place: dict[bytes, _Item] = {}
    for item in items:
        encoded = encode_primary(item.id)
        place = encoded if len(encoded) < MAX_STORED else storage_key(encoded)
        row = {"id": item.id, "hash": item.source.hash, "stored": item.stored, "fields": item.names, "before": None}
        found[place], by_place[place] = BatchItem(place, encoded, row, item.source.number), item
    return found, by_place


class _Hashes(_Work):
    """Step 1. Each item learns what the table may have for its record to be ours."""

    def __init__(self, table: Table, items: list[_Item]) -> None:
        found, self._by_place = _of_hashes(items)
        super().__init__(table, found)

    def new(self, item: BatchItem) -> tuple[dict[str, Any], None]:
        mine = self._by_place[item.stored]
        mine.kept, mine.has_before = [], False
        return dict(item.data), None

    def over(self, item: BatchItem, old: dict[str, Any], is_live: bool) -> tuple[dict[str, Any], None] | None:
        mine = self._by_place[item.stored]
        mine.kept = _kept(old)
        if old["hash"] == item.data["hash"] and old["stored"] == item.data["stored"]:
            mine.has_before = bool(old.get("before"))
            return None
        mine.has_before = True
        return {**item.data, "before": mine.kept[:MAX_BEFORE]}, None


class _Records(_Work):
    """Step 2. After it: `done`, the items whose records are what the file has; `foreign`, those that something else has made; `tally`."""

    kind = PATCH

    def __init__(self, table: Table, items: list[_Item]) -> None:
        self._by_place = {item.place: item for item in items}
        super().__init__(table, {item.place: BatchItem(item.place, item.encoded, item.record, item.source.number) for item in items})
        self.begin()

    def begin(self) -> None:
        self.tally = Result()
        self.done: list[_Item] = []
        self.foreign: list[_Item] = []

    def new(self, item: BatchItem) -> tuple[dict[str, Any], None]:
        self.tally.made += 1
        self.done.append(self._by_place[item.stored])
        return self._table.validator.complete(dict(item.data), is_new=True), None

    def over(self, item: BatchItem, old: dict[str, Any], is_live: bool) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
        if not is_live:
            return self.new(item)
        mine = self._by_place[item.stored]
        if stored_hash(old, mine.names) == mine.stored:
            self.tally.same += 1  # by another process, or by one that was ended before it could say so
            self.done.append(mine)
            return None
        if not _is_ours(old, mine.kept):
            self.tally.left += 1
            if not mine.is_there and not mine.kept:
                self.foreign.append(mine)
            return None
        self.tally.changed += 1
        self.done.append(mine)
        primary_key = self._table.primary_key
        changes = {name: value for name, value in item.data.items() if name != primary_key}
        return {**old, **changes}, changes


class _SettlingWork(_Work):
    """Step 3."""

    def __init__(self, table: Table, changed: list[_Item], foreign: list[_Item]) -> None:
        found, self._by_place = _of_hashes(changed)
        super().__init__(table, found)
        self._foreign = [encode_primary(item.id) for item in foreign]
        self.size += len(foreign)

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        for key in self._foreign:
            write_set.delete(self._table, key, None)
            yield
        yield from super().steps(write_set)

    def new(self, item: BatchItem) -> None:
        return None

    def over(self, item: BatchItem, old: dict[str, Any], is_live: bool) -> tuple[dict[str, Any], None] | None:
        """Unless another process has begun another change."""
        if old["hash"] != item.data["hash"] or not old.get("before"):
            return None
        return {**old, "before": None}, None


def _kept(hashes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"fields": hashes["fields"], "stored": hashes["stored"]}, *(hashes.get("before") or ())]


def _is_ours(record: dict[str, Any], kept: list[dict[str, Any]]) -> bool:
    """Whether it is what was stored from a file."""
    return any(stored_hash(record, each["fields"]) == each["stored"] for each in kept)


def _id_of(table: Table, key: Key) -> str:
    """`database:table:key`. Of keys of any type, a text that another key would be written as is in quotes."""
    if type(key) is str:
        attribute = table.attributes.get(table.primary_key)
        is_any = attribute is None or attribute.type == "Any"
        text = json.dumps(key) if is_any and _looks_like_other(key) else key
    else:
        text = json.dumps(key)
    if len(text) > MAX_KEY_TEXT:
        text = f"sha256-{hashlib.sha256(text.encode()).hexdigest()}"
    return f"{table.database.name}:{table.name}:{text}"


_looks_like_other = re.compile(r'["\[].*|-?[0-9][0-9.]*(?:e[+-]?[0-9]+)?', re.ASCII | re.DOTALL).fullmatch


def _definition_of(file: DataFile) -> TableDefinition:
    """Of the fields of the first record. Raises SchemaError."""
    first = file.records[0]
    if not isinstance(first, dict) or KEY not in first:
        raise SchemaError(f"there is no table {file.database}.{file.table}, and the first record has no {KEY} to make one of")
    others = tuple(Attribute(str(name), indexed=True) for name in first if name != KEY)
    key = Attribute(KEY, primary_key=True)
    return TableDefinition(file.table, file.database, type_name=file.table, attributes=(key, *others), primary_key=KEY, dynamic=True)
