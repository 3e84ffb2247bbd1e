"""Writing records (spec: operations §3.1). How records become writes: `record_writes`; the tables of the system: `system_records`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Generator, Iterator, Sequence
from typing import Any

from svc.errors import BadValue, ClientError, Problem, ValidationError
from svc.operations.accounts import forgetting_initial_password
from svc.operations.call import Call
from svc.operations.fields import DATABASE, IMPERSONATE, REPLICATED, TABLE, Field
from svc.operations.operation import DELETE as DELETING
from svc.operations.operation import INSERT as INSERTING
from svc.operations.operation import UPDATE as UPDATING
from svc.operations.operation import UPSERT as UPSERTING
from svc.operations.operation import Operation
from svc.operations.record_writes import INSERT, SPLIT_STEP, STEP, UPDATE, UPSERT, RecordWrites, key_reader, split_keys
from svc.operations.system_records import is_system, prepare_system_records, refuse_system_write
from svc.store import WriterBusy
from svc.store.slices import run_now
from svc.store.system import USER_TABLE
from svc.store.values.conversion import printable
from svc.store.values.keys import Key
from svc.store.writing.transaction import LONG_WRITES

RECORDS = Field("records", "objects", "Records: objects with any attributes.", required=True)
IDS = Field(
    "ids",
    "keys",
    "Primary keys of the records.",
    required=True,
    aliases=("hash_values",),
    shown_as="hash_values",
    missing="'hash_values' is required",
)
EXPIRES_AT = Field("expiresAt", "number", "When the written records expire, in ms since the epoch.", low=0)

_FIELDS = (DATABASE, TABLE, RECORDS, EXPIRES_AT, REPLICATED, IMPERSONATE)


# --- insert, update, upsert -------------------------------------------------------------------------------------------------------------


def insert(call: Call) -> Any:
    return _write(call, INSERT)


def update(call: Call) -> Any:
    return _write(call, UPDATE)


def upsert(call: Call) -> Any:
    return _write(call, UPSERT)


def _write(call: Call, kind: int) -> Any:
    if is_system(call):
        refuse_system_write(call, "insert" if kind == INSERT else "")
        table = call.table
        prepared = prepare_system_records(call, table, call["records"], inserts=kind != UPDATE)
        if not isinstance(prepared, list):
            return _write_awaited(call, kind, prepared)
        return _write_records(call, kind, prepared)
    return _write_records(call, kind, call["records"])


async def _write_awaited(call: Call, kind: int, records: Any) -> Any:
    """Users with new passwords."""
    prepared = await records
    names = {
        record["username"]: record["password"] for record in call["records"] if record.get("password") and _is_text(record.get("username"))
    }
    return await forgetting_initial_password(call, names, lambda: _write_records(call, kind, prepared))


def _write_records(call: Call, kind: int, records: list[dict[str, Any]]) -> Any:
    table = call.table
    writes = RecordWrites(call, table, kind, records)
    if len(records) > LONG_WRITES:
        call.node.store.queue_of(table.database).check()
        return _write_many(call, kind, writes)
    try:
        writes.run()
    except WriterBusy:
        return _write_later(call, kind, writes)
    return _commit(call, kind, writes)


async def _write_many(call: Call, kind: int, writes: RecordWrites) -> Any:
    await writes.run_in_slices()
    return _commit(call, kind, writes)


async def _write_later(call: Call, kind: int, writes: RecordWrites) -> Any:
    await writes.reserve_later()
    return _commit(call, kind, writes)


def _commit(call: Call, kind: int, writes: RecordWrites) -> Any:
    """The answer once the writes are on disk; the error names the record that is why it fails."""
    try:
        answer = call.commit(writes.transaction, lambda: _answer(call, kind, writes))
    except ClientError as error:
        raise writes.named(error) from None
    return _committed(answer, writes) if inspect.isawaitable(answer) else answer


async def _committed(answer: Awaitable[Any], writes: RecordWrites) -> Any:
    try:
        return await answer
    except ClientError as error:
        raise writes.named(error) from None


_VERBS = {INSERT: "inserted", UPDATE: "updated", UPSERT: "upserted"}
_LISTS = {INSERT: "inserted_hashes", UPDATE: "update_hashes", UPSERT: "upserted_hashes"}


def _answer(call: Call, kind: int, writes: RecordWrites) -> Any:
    return _in_steps(call, _answer_steps(call, kind, writes), len(writes.keys))


def _in_steps(call: Call, steps: Generator[None, None, dict[str, Any]], size: int) -> Any:
    """The result of the steps; if there are many an awaitable of it."""
    if size > SPLIT_STEP:
        return call.node.store.slices.result(steps)
    try:
        while True:
            next(steps)
    except StopIteration as done:
        return done.value


def _answer_steps(call: Call, kind: int, writes: RecordWrites) -> Generator[None, None, dict[str, Any]]:
    written, skipped = yield from writes.outcome()
    answer: dict[str, Any] = {
        "message": f"{_VERBS[kind]} {len(written)} of {len(written) + len(skipped)} records",
        _LISTS[kind]: written,
    }
    if kind != UPSERT:
        answer["skipped_hashes"] = skipped
    if writes.new_attributes is not None:
        answer["new_attributes"] = writes.new_attributes
    answer["txn_time"] = _time(call, writes.transaction.version)
    return answer


def _time(call: Call, version: float) -> float:
    """Of the transaction; of now if there was nothing to write."""
    return version or call.node.clock.wall() * 1000


# --- delete ---------------------------------------------------------------------------------------------------------------------------------


class _Deletes:
    """The keys of one delete. An id that no record of the table can have is that of an absent one."""

    def __init__(self, call: Call) -> None:
        self.table = call.table
        self.ids: list[Any] = call["ids"]
        self.transaction = call.begin()
        self._rows = call.row_guard
        self.keys: list[Key | None] = []  # of `ids`; None: it cannot be one

    def collect(self) -> Iterator[None]:
        key_of, delete, table = key_reader(self.table.definition), self.transaction.delete, self.table
        for number, given in enumerate(self.ids):
            key: Key | None
            try:
                key = key_of(given)
                delete(table, key, rows=self._rows)
            except (ValidationError, BadValue):
                key = None
            self.keys.append(key)
            if not number % STEP:
                yield

    def answer(self, call: Call) -> Any:
        return _in_steps(call, self._answer_steps(call), len(self.ids))

    def _answer_steps(self, call: Call) -> Generator[None, None, dict[str, Any]]:
        deleted, skipped = yield from split_keys(self.keys, self.transaction.skipped, self.ids)
        total = len(self.ids)
        return {
            "message": f"{len(deleted)} of {total} record{'' if total == 1 else 's'} successfully deleted",
            "deleted_hashes": deleted,
            "skipped_hashes": skipped,
            "txn_time": _time(call, self.transaction.version),
        }


def delete(call: Call) -> Any:
    if is_system(call):
        refuse_system_write(call)
    deletes = _Deletes(call)
    if is_system(call) and deletes.table.name == USER_TABLE:
        _refuse_accounts(call, deletes.ids)
    if len(deletes.ids) > LONG_WRITES:
        call.node.store.queue_of(deletes.table.database).check()
        return _delete_many(call, deletes)
    if is_system(call) and deletes.table.name == USER_TABLE:
        return forgetting_initial_password(call, dict.fromkeys(filter(_is_text, deletes.ids)), lambda: _delete_all(call, deletes))
    return _delete_all(call, deletes)


def _refuse_accounts(call: Call, ids: Sequence[Any]) -> None:
    """Raise Problem 409 for a user with an account's record, which would stay without its user."""
    accounts = call.node.accounts
    if accounts is None:
        return
    found = next((each for each in ids if isinstance(each, str) and accounts.has_record(each)), None)
    if found is not None:
        raise Problem(f"The user {printable(found)} has the record of an account: remove both with drop_user", 409, "CONFLICT")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _delete_all(call: Call, deletes: _Deletes) -> Any:
    run_now(deletes.collect())
    return call.commit(deletes.transaction, lambda: deletes.answer(call))


async def _delete_many(call: Call, deletes: _Deletes) -> Any:
    await call.node.store.slices.exhaust(deletes.collect())
    return call.commit(deletes.transaction, lambda: deletes.answer(call))


_KEYS_NOTE = """\
Without a value for the primary key, or with an empty string, a record gets a new key: a UUID where keys are strings, else the next integer.
A request is one transaction: all of it is written, or nothing. `txn_time` is its time, in ms since the epoch.
Values of `__createdtime__` and `__updatedtime__` are set by the server; what a client sends is ignored."""

OPERATIONS = (
    Operation(
        name="insert",
        category="records",
        summary="Add records; those whose key exists are skipped.",
        permission=INSERTING,
        handler=insert,
        fields=_FIELDS,
        returns="`{message, inserted_hashes, skipped_hashes, new_attributes, txn_time}`",
        notes=_KEYS_NOTE,
        example={"table": "plant", "records": [{"id": 8, "species": "moss", "height": 2}, {"id": 7, "species": "fern"}]},
        example_answer={
            "message": "inserted 1 of 2 records",
            "inserted_hashes": [8],
            "skipped_hashes": [7],
            "new_attributes": ["height"],
            "txn_time": 1761000000456.1,
        },
        missing_status=400,
        logged=False,
    ),
    Operation(
        name="update",
        category="records",
        summary="Change records that exist; attributes that are not sent keep their values.",
        permission=UPDATING,
        handler=update,
        fields=_FIELDS,
        returns="`{message, update_hashes, skipped_hashes, new_attributes, txn_time}`",
        notes="Each record must have its primary key. Unknown keys are skipped.",
        example={"table": "plant", "records": [{"id": 7, "height": 12}, {"id": 99, "height": 3}]},
        example_answer={
            "message": "updated 1 of 2 records",
            "update_hashes": [7],
            "skipped_hashes": [99],
            "new_attributes": ["height"],
            "txn_time": 1761000000456.1,
        },
        missing_status=400,
        logged=False,
    ),
    Operation(
        name="upsert",
        category="records",
        summary="Change records that exist, and add the others.",
        permission=UPSERTING,
        handler=upsert,
        fields=_FIELDS,
        returns="`{message, upserted_hashes, new_attributes, txn_time}`",
        notes=_KEYS_NOTE,
        example={"table": "plant", "records": [{"id": 7, "height": 12}, {"id": 8, "species": "moss"}]},
        example_answer={
            "message": "upserted 2 of 2 records",
            "upserted_hashes": [7, 8],
            "new_attributes": ["height"],
            "txn_time": 1761000000456.1,
        },
        missing_status=400,
        logged=False,
    ),
    Operation(
        name="delete",
        category="records",
        summary="Remove records by primary key.",
        permission=DELETING,
        handler=delete,
        fields=(DATABASE, TABLE, IDS, REPLICATED, IMPERSONATE),
        returns="`{message, deleted_hashes, skipped_hashes, txn_time}`",
        notes="Keys of records that do not exist are in `skipped_hashes`.",
        example={"table": "plant", "ids": [7]},
        example_answer={
            "message": "1 of 1 record successfully deleted",
            "deleted_hashes": [7],
            "skipped_hashes": [],
            "txn_time": 1761000000456.1,
        },
        logged=False,
    ),
)
