"""The records of one insert, update or upsert on their way into a transaction (spec: operations §3.1).

    check    every record: names, key, values. Nothing has happened yet, and nothing does if one of them is wrong
    reserve  what the table has to have first: the attributes that it learns
    collect  the writes, which `Call.commit` applies

`check` and `collect` go in steps, so that large requests give way to others; `reserve` is short. What depends only on the names of a record is
looked at once for all records that have the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any

from svc.content.list_faults import LONGEST_NAME, MAX_FAULTS, ListFaults, named_write, place_of
from svc.content.unchanged import restore_json, restore_native
from svc.errors import ClientError, Problem, ValidationError
from svc.operations.call import Call
from svc.operations.fields import attribute_name_fault
from svc.operations.refusals import check_written_attributes
from svc.store import Table, Transaction
from svc.store.schema import TableDefinition, key_type
from svc.store.slices import run_now
from svc.store.values.conversion import INT_MAX, INT_MIN, LONG_MAX
from svc.store.values.keys import Key
from svc.store.values.validation import EMPTY_KEYS, check_key

MAX_NAMES = 100  # faulty names of attributes that one message has


class WordedFault(ValidationError):
    """One whose words are all of the message (spec: operations §3.1 rules 5 to 7)."""


class RecordFaults:
    """Made when there is a fault. Errors that the specification words in full come first: the values that are at fault beside them are told the next time."""

    def __init__(self, records: list[dict[str, Any]], table: Table, source: str) -> None:
        """`source`: of the values, as the validator knows it."""
        self._records = records
        self._key_name = table.primary_key
        self._values = ListFaults(records, table, None, source, says_elements=len(records) > 1)
        self._texts: dict[str, None] = {}
        self._faults: list[Mapping[str, Any]] = []

    @property
    def is_full(self) -> bool:
        return len(self._faults) >= MAX_FAULTS or len(self._texts) >= MAX_NAMES or self._values.is_full

    def add(self, index: int, error: ClientError, attribute: str | None = None) -> None:
        """`attribute`: whose name is at fault."""
        if type(error) is not WordedFault:
            self._values.add(index, error)
            return
        if len(self._texts) < MAX_NAMES:
            self._texts[error.message] = None
        if len(self._faults) < MAX_FAULTS:
            named = {} if attribute is None or len(attribute) > LONGEST_NAME else {"attribute": attribute}
            self._faults.append(place_of(index, self._records[index].get(self._key_name)) | named | {"message": error.message})

    def error(self) -> Problem:
        if not self._texts:
            return self._values.error()
        error = ValidationError(list(self._texts))
        error.faults = tuple(self._faults)
        return error


STEP = 32  # records between two polls of the clock
SPLIT_STEP = 1024  # keys, the same
CREATED, UPDATED = "__createdtime__", "__updatedtime__"
_MANAGED_TIME_WRITTEN = f"Internal timestamp attributes - '{CREATED}' and '{UPDATED}' - cannot be inserted to or updated by svc users."
NO_KEY = "a valid hash attribute must be provided with update record, check log for more info"
NO_KEYS = frozenset(("null", "undefined"))  # texts that come from programs which lost the key

INSERT, UPDATE, UPSERT = 1, 2, 3  # positions in `store.log.OPERATIONS`


class RecordWrites:
    """`operation`: INSERT, UPDATE or UPSERT. `keys`: of the records, in their order, once they are collected; None: it is given one when written.

    The records are not modified. `new_attributes`: that the table learned from them, None if it learns none.
    """

    def __init__(self, call: Call, table: Table, operation: int, records: list[dict[str, Any]]) -> None:
        self._call = call
        self._table = table
        self._definition = table.definition
        self._operation = operation
        self._records = records
        self._shapes: dict[tuple[str, ...], frozenset[str]] = {}  # names of a record -> those to be left out
        self._names: dict[str, None] = {}
        self._faults: RecordFaults | None = None
        self._checked: list[tuple[Key | None, dict[str, Any]]] = []
        self.keys: list[Key | None] = []
        self.new_attributes: list[str] | None = [] if table.definition.dynamic else None
        self.transaction: Transaction = call.begin(operation)
        expires_at = call.arguments.get("expiresAt")
        self._expires_at = None if expires_at is None else float(expires_at)
        # From other users a managed time is ignored (spec: operations §3.1 rule 8).
        self._refuses_times = call.authorized and not call.is_super_user and call.rights.attributes is not None
        self._managed = frozenset((CREATED, UPDATED, *table.stamps))
        self._rows = call.row_guard
        self._source = "json" if call.request is not None and not call.request.native_body else "native"

    # -- check

    def check(self) -> Iterator[None]:
        """Raises the Problem of the first records that are at fault."""
        table, inserts, shapes, checked = self._table, self._operation == INSERT, self._shapes, self._checked
        primary_key = table.primary_key
        key_of = key_reader(self._definition)
        source = self._source
        validate = table.validator.record if inserts else table.validator.changes
        for number, record in enumerate(self._records):
            try:
                names = tuple(record)
                left_out = shapes.get(names)
                if left_out is None:
                    left_out = self._look_at(names, number)
                if left_out:
                    record = {name: value for name, value in record.items() if name not in left_out}
                elif inserts:
                    record = record.copy()  # it becomes the stored one
                given = record.get(primary_key)
                if given is None or given in EMPTY_KEYS:
                    if self._operation == UPDATE:
                        raise WordedFault(NO_KEY)
                    key = None
                    if primary_key in record:
                        record = {name: value for name, value in record.items() if name != primary_key}
                else:
                    key = key_of(given)
                    if key in NO_KEYS:
                        raise WordedFault(f"Invalid hash value: '{key}' is not a valid hash attribute value, check log for more info")
                    if inserts:
                        record[primary_key] = key
                    else:
                        record = {name: value for name, value in record.items() if name != primary_key}
                checked.append((key, validate(record, source=source)))
            except ClientError as error:
                self._found().add(number, error)
            if self._faults is not None and self._faults.is_full:
                break
            if not number % STEP:
                yield
        if self._faults is not None:
            raise self._faults.error()

    def _found(self) -> RecordFaults:
        if self._faults is None:
            self._faults = RecordFaults(self._records, self._table, self._source)
        return self._faults

    def _look_at(self, names: tuple[Any, ...], number: int) -> frozenset[str]:
        """The names that a record of this shape, such as that of this number, may not set. Notes faults, and what the table may have to learn."""
        left_out = self._managed.intersection(names)
        if left_out and self._refuses_times:
            raise Problem(_MANAGED_TIME_WRITTEN, 403)
        if self._refuses_times:  # the first records have been looked at before the call (`permissions`)
            written = [name for name in names if isinstance(name, str)]
            check_written_attributes(
                self._table.database.name, self._table.name, self._call.rights, written, self._call.operation.permission.rights
            )
        for name in names:
            if name not in self._names and name not in left_out:
                self._names[name] = None
                fault = attribute_name_fault(name) if isinstance(name, str) else None  # others are refused with the values
                if fault is not None:
                    self._found().add(number, WordedFault(fault), name)
        self._shapes[names] = left_out
        return left_out

    # -- reserve

    def reserve(self) -> None:
        """Let a dynamic table learn. Raises WriterBusy while a long write is under way in the database: to be called again when that has ended."""
        call, table = self._call, self._table
        store, database = call.node.store, table.database
        store.check_tables({table: self._definition})
        if self.new_attributes is not None:
            unknown = [name for name in self._names if name not in table.attributes]
            if unknown:
                store.open_writers((database,), wait=False)
                database.learn_attributes(table, dict.fromkeys(unknown))
                self.new_attributes = unknown

    # -- collect

    def collect(self) -> Iterator[None]:
        table, keys, expires_at = self._table, self.keys, self._expires_at
        transaction = self.transaction
        add: Callable[..., Any] = transaction.insert
        if self._operation != INSERT:
            decide = restore_json if self._source == "json" else restore_native
            add = partial(transaction.update if self._operation == UPDATE else transaction.upsert, decide=decide)
        for number, (key, record) in enumerate(self._checked):
            keys.append(add(table, key, record, expires_at=expires_at, rows=self._rows))
            if not number % STEP:
                yield
        checked, self._checked = self._checked, []
        self._call.node.store.slices.discard(checked)

    # -- all of it

    def run(self) -> None:
        """Everything up to the commit, at once. Raises WriterBusy if it has to wait: go on with `reserve_later`."""
        run_now(self.check())
        self.reserve()
        run_now(self.collect())

    async def run_in_slices(self) -> None:
        """The same for many records."""
        slices = self._call.node.store.slices
        await slices.exhaust(self.check())
        await self.reserve_later()

    async def reserve_later(self) -> None:
        """Wait for what can be reserved, and collect."""
        store = self._call.node.store
        await store.write_when_free(lambda: (self._table.database,), self.reserve)
        await store.slices.exhaust(self.collect())

    def named(self, error: Problem) -> Problem:
        """The error of the transaction, with the record that it is about."""
        return named_write(error, self.transaction, (), None, is_list=len(self.keys) > 1)

    def outcome(self) -> Generator[None, None, tuple[list[Any], list[Any]]]:
        """Returns (keys written, keys skipped), each in the order of the records; once the transaction has been applied."""
        return split_keys(self.transaction.with_assigned(self.keys), self.transaction.skipped)


def split_keys(keys: list[Any], skipped: list[Any], shown: list[Any] | None = None) -> Generator[None, None, tuple[list[Any], list[Any]]]:
    """Returns, after short steps, (keys without the skipped ones, these), both in the order of `keys` and as `shown`, by default as JSON has them.
    None is no key: skipped.

    Of a key that came several times the first may count and the others be skipped, never the other way round.
    """
    if not skipped and None not in keys:
        if shown is None:
            shown = list(map(shown_key, keys)) if tuple in set(map(type, keys)) else keys
        return shown, []
    left = Counter(skipped)
    written: list[Any] = []
    others: list[Any] = []
    for number in range(len(keys) - 1, -1, -1):
        key = keys[number]
        value = shown_key(key) if shown is None else shown[number]
        if key is None:
            others.append(value)
        elif left[key]:
            left[key] -= 1
            others.append(value)
        else:
            written.append(value)
        if not number % SPLIT_STEP:
            yield
    return written[::-1], others[::-1]


def shown_key(key: Any) -> Any:
    """A key as answers have it: a list key as a list."""
    return list(key) if type(key) is tuple else key


def key_reader(definition: TableDefinition) -> Callable[[Any], Key]:
    """A function from what a record has as its key to the key; raises ClientError. What is usual is recognised without a look at the type."""
    kind = key_type(definition)
    takes_text = kind in ("ID", "String", "Any") and not definition.split_segments
    low, high = {"Int": (INT_MIN, INT_MAX), "ID": (1, 0), "String": (1, 0)}.get(kind, (-LONG_MAX, LONG_MAX))

    def key_of(given: Any) -> Key:
        if type(given) is int:
            if low <= given <= high:
                return given
        elif type(given) is str and takes_text and given.isascii():
            return given
        return check_key(definition, given)

    return key_of
