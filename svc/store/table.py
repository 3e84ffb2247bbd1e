"""One table: its records by key, its indexes, and their agreement.

Records are stored as `records` encodes them, under their encoded primary key; a key too long for LMDB is stored as its beginning and a
hash (`keys.storage_key`), and the record has the whole key. *Stored key* always means these bytes: it is what scans and indexes yield and
what `get_by` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from math import inf
from typing import TYPE_CHECKING, Any

from svc.errors import ClientError
from svc.store.definitions import StoredTable, indexed_attributes
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.env import Handle, Txn, store_bytes
from svc.store.expiry_index import PARTIAL, TableExpiry, expiry_key
from svc.store.indexes.index import Index
from svc.store.key_sequence import KeySequence
from svc.store.log.entries import REMOVALS
from svc.store.moves import MoveNote, Moves
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.computed import ComputedAttribute, ComputeFunction, computed_attributes
from svc.store.values.keys import (
    MAX_STORED,
    Key,
    decode_key,
    encode_key,
    encode_primary,
    index_keys,
    is_hashed,
    storage_high,
    storage_key,
    storage_low,
)
from svc.store.values.records import FORMAT, IS_COPY, IS_PARTIAL, MISSING, are_plain, decode, expiry_of, projection
from svc.store.values.validation import Validator
from svc.store.writing.constraints import Constraints, constraints_of

if TYPE_CHECKING:
    from svc.store.database import Database

_TEXT_KEYS = frozenset(("ID", "String"))
_NUMBER_KEYS = frozenset(("Int", "Long", "BigInt", "Any"))
_NO_DEFAULT = repeat(None)  # of `Txn.get`, for `map`


class Table:
    """A table of `database`. It stays the same object when its definition changes."""

    def __init__(self, database: Database, stored: StoredTable, primary: Handle, index_handles: dict[str, Handle]) -> None:
        self.database = database
        self._uuids = database.store.uuids
        self.number = stored.number
        self.name = stored.definition.name
        self.primary = primary
        self.indexes: dict[str, Index] = {}
        self._functions: dict[str, ComputeFunction] = {}
        self.expiry = TableExpiry(database.expiry, self.number)
        self.caching: Any = None  # what loads records from a source, if the application has named one (`api.caching.cache.TableCache`)
        self.is_caching = False
        self.loading: dict[bytes, object] = {}  # stored keys of the records that are being fetched from the source
        self.unproved: tuple[str, ...] = ()  # attributes that are to be unique, while their values are compared
        self.next_scan: float | None = None  # wall time, s: when expired records are removed next
        self._keeps_images = False
        self.moves: Moves | None = None  # of values to new names, while records have them under the old ones
        self.plain_format = FORMAT  # the first byte of the header of records that can be returned as they are
        self.redefine(stored.definition, index_handles)

    def __repr__(self) -> str:
        return f"<Table {self.database.name}.{self.name}>"

    def redefine(self, definition: TableDefinition, index_handles: dict[str, Handle]) -> None:
        """Take over a definition. Indexes whose store is the same stay what they are, with their caches."""
        self.definition = definition
        self.primary_key = definition.primary_key
        self.attributes: dict[str, Attribute] = {attribute.name: attribute for attribute in definition.attributes}
        self.validator = Validator(definition)
        self.audit = self._keeps_images or (self.database.audit if definition.audit is None else definition.audit)
        self.expiry.redefine(definition, self.validator)
        # Names of the attributes that `validator.stamp` sets; most tables have none, and then it need not be called.
        self.stamps = tuple(a.name for a in definition.attributes if a.created_time or a.updated_time)
        old, self.indexes = self.indexes, {}
        for name, attribute in indexed_attributes(definition).items():
            index = old.pop(name, None)
            if index is None or index.handle is not index_handles[name] or index.shape != (attribute.type, attribute.elements):
                if index is not None:
                    index.drop_cache()
                index = Index(self.database.env, self.database.caches, attribute, f"{self.name}/{name}", index_handles[name])
            index.unique = attribute.unique
            self.indexes[name] = index
        for index in old.values():
            index.drop_cache()
        self.index_list: list[Index] = list(self.indexes.values())
        self._compute()
        key = self.attributes.get(self.primary_key)
        self._key_type = "Any" if key is None else "enum" if key.enum is not None else key.type
        self._sequence: KeySequence | None = None
        self._key_of = projection((self.primary_key,))

    @property
    def stored(self) -> StoredTable:
        """What the database's definitions have of it."""
        return StoredTable(self.number, self.definition)

    @property
    def is_there(self) -> bool:
        """Whether it is one of the database's tables, under this name: not dropped or renamed, as far as this process has seen."""
        return self.database.tables.get(self.name) is self

    def cache(self, caching: object | None) -> None:
        """From here on records are copies of what a source has (spec: caching), which `caching` fetches. None: they are not any more."""
        self.caching = caching
        self.is_caching = caching is not None

    def keep_images(self) -> None:
        """From here on, and until the process ends, the log gets the images before a change, whatever the definition says: a subscriber
        needs them. It does not end before, because a write under way relies on it.
        """
        self._keeps_images = self.audit = True

    def move(self, note: MoveNote | None, since: int) -> None:
        """Take over what is stored of moves. `since`: LMDB's number of the transaction that has it."""
        if note is not None:
            self.moves = Moves(note, since, self.moves)
            self.plain_format = -1
        elif self.moves is not None and self.moves.since > since:
            self.end_moves()  # what began them was not committed
        elif self.moves is not None:
            self.moves.is_done = True

    def take_moves(self, former: Table) -> None:
        """The moves of the table that this one is under another name."""
        self.moves, self.plain_format = former.moves, former.plain_format

    def end_moves(self) -> None:
        """No snapshot is left that has records with old names."""
        self.moves = None
        self.plain_format = FORMAT

    def _compute(self) -> None:
        self.database.tables_version += 1
        self.has_enumerable = any(attribute.enumerable and not attribute.stored for attribute in self.definition.attributes)
        self.computed: dict[str, ComputedAttribute] = computed_attributes(
            self.definition, self._functions, f"{self.database.name}.{self.name}"
        )
        for name, index in self.indexes.items():
            index.computed = self.computed.get(name)
        self.stored_indexes = [index for index in self.index_list if index.computed is None]
        self.computed_indexes = [index for index in self.index_list if index.computed is not None]
        self.constraints: Constraints | None = constraints_of(self)
        kept = {self.primary_key, *(index.attribute for index in self.stored_indexes)}
        for index in self.computed_indexes:
            kept.update((index.computed is not None and index.computed.names) or ())
        self._kept = frozenset(kept)

    def set_computed_attribute(self, name: str, function: ComputeFunction) -> Callable[[], None]:
        """Give an attribute that is declared `@computed` without `from:` the function of a decoded record that computes it.

        It must be set before records are written, in every process that writes; an index of its values is built again if it was not.
        Returns what takes the function back, unless there is another one then. Raises ClientError for any other attribute.
        """
        attribute = self.attributes.get(name)
        if attribute is None or attribute.computed_from is None:
            raise ClientError(f"{name} is not a computed attribute of {self.name}")
        if attribute.computed_from:
            raise ClientError(f"{self.name}.{name} is computed from an expression")
        self._functions[name] = function
        self._compute()

        def take_back() -> None:
            if self._functions.get(name) is function:
                del self._functions[name]
                self._compute()

        return take_back

    # -- reading

    def get_raw(self, key: Key, txn: Txn | None = None) -> bytes | None:
        """The record with this primary key, undecoded; None if there is none or it has expired. Default: the turn's snapshot.

        Of a caching table a stale one too, but not what is left of one: that is `get_entry`.
        """
        data = encode_key(key)
        if len(data) >= MAX_STORED:
            data = storage_key(data)
        if txn is None:
            txn = self.database.env.snapshot()
        try:
            raw = txn.get(data, None, self.primary)
        except LmdbError as error:
            raise store_problem(error, self.database.env.path) from error
        # The common header has no expiry.
        return raw if raw is None or raw[0] == self.plain_format else self._whole(raw, txn)

    def get_entry(self, stored: bytes, txn: Txn | None = None) -> bytes | None:
        """What there is under this stored key, expired or partial as it may be. Default: the turn's snapshot."""
        if txn is None:
            txn = self.database.env.snapshot()
        try:
            return self.read(stored, txn)
        except LmdbError as error:
            raise store_problem(error, self.database.env.path) from error

    def read(self, stored: bytes, txn: Txn) -> bytes | None:
        """The same with the errors of LMDB as they are: for what is part of a write."""
        raw = txn.get(stored, None, self.primary)
        return raw if raw is None or self.moves is None else self.moves.translate(raw, txn)

    def deleted_version(self, key: Key) -> float | None:
        """The version of the deletion of a record that is not there; None if the log knows of none. On the turn's snapshot."""
        try:
            entries = self.database.log.read_record_history(self.database.env.snapshot(), self.number, encode_primary(key), None)
            entry = next(entries, None)
        except LmdbError as error:
            raise store_problem(error, self.database.env.path) from error
        return None if entry is None or entry.kind not in REMOVALS else entry.version

    def get_by(self, key: bytes, txn: Txn) -> bytes | None:
        """The same by the stored key that scans and indexes yield, or by an encoded one."""
        if len(key) < MAX_STORED:
            return self._live(key, txn)
        # An encoded key of exactly MAX_STORED bytes looks like a stored one.
        raw = self._live(key, txn) if len(key) == MAX_STORED else None
        return self._live(storage_key(key), txn) if raw is None else raw

    def get_many(self, keys: Iterable[bytes], txn: Txn) -> list[tuple[bytes, bytes]]:
        """(stored key, raw) of those stored keys, from scans and indexes, whose records exist and have not expired, in the order given."""
        get, primary, unexpired = txn.get, self.primary, self._unexpired
        if self.moves is not None:
            return [(key, raw) for key in keys if (raw := self._live(key, txn)) is not None]
        try:
            return [
                (key, raw)
                for key in keys
                if (raw := get(key, None, primary)) is not None and (raw[0] == FORMAT or unexpired(raw) is not None)
            ]
        except LmdbError as error:
            raise store_problem(error, self.database.env.path) from error

    def get_many_plain(self, keys: Iterable[bytes], txn: Txn) -> list[bytes] | None:
        """The records under these stored keys, if each is there and needs no further look: no time at which it expires, no former definition. None:
        `get_many` tells more."""
        try:
            raws: list[Any] = list(map(txn.get, keys, _NO_DEFAULT, repeat(self.primary)))
            return raws if self.plain_format == FORMAT and are_plain(raws) else None
        except (LmdbError, TypeError):  # TypeError: one is None
            return None

    def _live(self, stored: bytes, txn: Txn) -> bytes | None:
        try:
            raw = txn.get(stored, None, self.primary)
        except LmdbError as error:
            raise store_problem(error, self.database.env.path) from error
        if raw is not None and self.moves is not None:
            raw = self.moves.translate(raw, txn)
        return raw if raw is None or raw[0] == FORMAT else self._unexpired(raw)

    def _unexpired(self, raw: bytes) -> bytes | None:
        """The record if queries find it: of a caching table every one, stale or partial."""
        expiry = expiry_of(raw)
        return raw if expiry is None or self.is_caching or expiry > self.database.clock.wall() * 1000 else None

    def is_live(self, raw: bytes | None, now_ms: float) -> bool:
        """Whether a write finds this record, undecoded or None: of a caching table every one, stale or partial."""
        if raw is None:
            return False
        expiry = expiry_of(raw)
        return expiry is None or self.is_caching or expiry > now_ms

    def _whole(self, raw: bytes, txn: Txn) -> bytes | None:
        if self.moves is not None:
            raw = self.moves.translate(raw, txn)
        return None if raw[0] & IS_PARTIAL else self._unexpired(raw)

    def scan(
        self,
        txn: Txn,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        behind: bytes | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """(stored key, raw) of the records with low <= encoded key < high in key order; expired ones are skipped, but not in a caching table.

        `behind`: the stored key of a record, there or not any more; the scan goes on behind it, in its own direction.

        Keys over 509 bytes that agree in their first 494 cannot be written (`keys`); earlier versions did, and they come in any order.
        """
        now_ms = -inf if self.is_caching else self.database.clock.wall() * 1000
        start = None if low is None else storage_low(low)
        end = None if high is None else storage_high(high)
        exact = start == low and end == high
        moves = self.moves
        try:
            cursor = txn.cursor(self.primary)
            if reverse:
                stop = end if behind is None or (end is not None and end < behind) else behind
                if not (cursor.last() if stop is None or not cursor.set_range(stop) else cursor.prev()):
                    return
                items = cursor.iterprev()
            else:
                if behind is not None and start is not None and behind < start:
                    behind = None
                first = start if behind is None else behind
                if not (cursor.first() if first is None else cursor.set_range(first)):
                    return
                if behind is not None and cursor.key() == behind and not cursor.next():
                    return
                items = cursor.iternext()
            for item in items:
                stored, raw = item
                if reverse:
                    if start is not None and stored < start:
                        return
                elif end is not None and stored >= end:
                    return
                expiry = expiry_of(raw)
                if expiry is not None and expiry <= now_ms:
                    continue
                if (not exact or is_hashed(stored)) and not self._within(stored, raw, low, high):
                    continue
                yield item if moves is None else (stored, moves.translate(raw, txn))
        except LmdbError as error:
            raise store_problem(error, self.database.env.path) from error

    def _within(self, stored: bytes, raw: bytes, low: bytes | None, high: bytes | None) -> bool:
        key = encode_key(self.key_of(raw)) if is_hashed(stored) else stored
        return (low is None or low <= key) and (high is None or key < high)

    def key_of(self, raw: bytes) -> Key:
        """The primary key of an undecoded record; a list key as a tuple."""
        key = self._key_of(raw)[0]
        if isinstance(key, list):
            return decode_key(encode_key(key))  # type: ignore[return-value]
        return key  # type: ignore[no-any-return]

    def encoded_key(self, stored: bytes, record: dict[str, Any]) -> bytes:
        """The whole encoded key of a record that is stored under `stored`."""
        return encode_key(record[self.primary_key]) if is_hashed(stored) else stored

    def entry_count(self, txn: Txn) -> int:
        """The number of records, those included that have expired and are not yet removed. O(1)."""
        return txn.stat(self.primary)["entries"]

    def record_count(self, txn: Txn | None = None) -> int:
        """The exact number of records. O(1), but for records that have expired and are not yet removed: these are counted off."""
        txn = self.database.env.snapshot() if txn is None else txn
        return self.entry_count(txn) - sum(self.expired_counts(txn))

    def expired_counts(self, txn: Txn) -> Iterator[int]:
        """The numbers of records that have expired and are not yet removed: one for each time of expiry. None in a caching table, which has
        stale records instead."""
        if self.is_caching:
            return iter(())
        return self.expiry.counts(txn, self.database.clock.wall() * 1000)

    def size(self, txn: Txn | None = None) -> int:
        """Bytes of the pages of the primary store."""
        return store_bytes(self.database.env.snapshot() if txn is None else txn, self.primary)

    def part_of(self, record: dict[str, Any]) -> dict[str, Any]:
        """What stays of a record whose rest the source has: its key, and what the entries of its indexes are made of."""
        return {name: value for name, value in record.items() if name in self._kept}

    # -- keys

    @property
    def has_sequence(self) -> bool:
        """Whether new keys are integers of a sequence: making one opens the turn's writer."""
        return self._key_type in _NUMBER_KEYS

    def new_key(self, prefix: str = "") -> Key:
        """A key for a record that comes without one: a UUID for string keys, the next integer otherwise (spec: schema-and-store §6.5).

        `prefix` is put in front of a string. Raises ClientError if keys of this type have to be given.
        """
        kind = self._key_type
        if kind in _TEXT_KEYS or (prefix and kind == "Any"):
            return prefix + self._uuids.new()
        if prefix or kind not in _NUMBER_KEYS:
            raise ClientError(f"A record of {self.name} needs a value for its primary key {self.primary_key}")
        return self._key_sequence().next_key()

    def _key_sequence(self) -> KeySequence:
        if self._sequence is None:
            self._sequence = KeySequence(self, small=self._key_type == "Int")
        return self._sequence

    def new_keys(self, count: int, prefix: str = "") -> Iterator[Key]:
        """`new_key` that many times; integers are taken from the sequence at once. Raises ClientError at once too."""
        if not count:
            return iter(())
        if self._key_type in _NUMBER_KEYS and not prefix:
            return self._key_sequence().next_keys(count)
        first = self.new_key(prefix)
        return iter((first,)) if count == 1 else chain((first,), (self.new_key(prefix) for _ in range(count - 1)))

    def new_keys_in(self, txn: Txn, count: int) -> Iterator[int]:
        """The same from a sequence, for a long writer, with which they are kept or undone."""
        return self._key_sequence().next_keys_in(txn, count)

    def expired(self, txn: Txn, limit: int) -> list[tuple[bytes, bytes]] | None:
        """(stored key, raw) of the records that have expired and are not yet removed: indexes still have their entries, `record_count` has
        them counted off. None if there are more than `limit`."""
        now_ms = self.database.clock.wall() * 1000
        if self.is_caching or not self.expiry.has_due(txn, now_ms):
            return []
        keys = self.expiry.keys(txn, now_ms, limit + 1)
        if len(keys) > limit:
            return None
        return [(key, raw) for key in keys if (raw := self.read(key, txn)) is not None]

    # -- invariants

    def check(self, txn: Txn | None = None) -> None:
        """Assert that indexes, expiry and caches agree with the records. Reads the whole table."""
        txn = self.database.env.snapshot() if txn is None else txn
        expected: dict[str, set[tuple[bytes, bytes]]] = {name: set() for name in self.indexes}
        expiries = set()
        for stored, raw in txn.cursor(self.primary).iternext():
            record = decode(raw if self.moves is None else self.moves.translate(raw, txn))
            key = encode_key(record[self.primary_key])
            assert stored == storage_key(key), f"{self!r}: the record {key!r} is stored under another key"
            expiry = expiry_of(raw)
            if expiry is not None:
                expiries.add((expiry_key(self.number, expiry), stored))
            assert raw[0] & IS_PARTIAL == 0 or (raw[0] & IS_COPY and expiry == PARTIAL), f"{self!r}: {key!r} is partial, and not as a copy"
            for name, entries in expected.items():
                computed = self.computed.get(name)
                value = record.get(name) if computed is None else computed(record)
                entries.update((entry, stored) for entry in index_keys(value))
        for name, index in self.indexes.items():
            if index.ready and index.has_values:
                assert list(index.scan_built(txn)) == sorted(expected[name]), f"{index!r} differs from the records"
                index.check_cache(txn)
        assert self.expiry.entries(txn) == expiries, f"{self!r}: the expiry store differs from the records"


__all__ = ["MISSING", "Table"]
