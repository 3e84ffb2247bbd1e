"""Reading and removing history: the audit log, the transaction log, old records (spec: operations §10, §4).

Both logs are the transaction log of the database, shown in two forms. `timestamp` of an entry is the version its transaction gave to all it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from svc.errors import BadValue, ValidationError
from svc.operations.call import Call
from svc.operations.fields import DATABASE, TABLE, Field, bad_request, is_key
from svc.operations.job import Job, JobFailed
from svc.operations.jobs import iso_to_ms
from svc.operations.log_entries import (
    AUDIT_COLUMNS,
    TOGETHER,
    TRANSACTION_COLUMNS,
    Entries,
    Presenter,
    chosen,
    history,
    limited,
    newest_first,
    window,
)
from svc.operations.operation import SUPER_USER, Operation
from svc.operations.row_rules import VisibleEntries, read_view, refuse_narrowed
from svc.operations.system_records import refuse_system
from svc.operations.value_stream import Steps, answer_list, answer_lists
from svc.query.views import TableView
from svc.store import Table
from svc.store.env import Txn
from svc.store.log.table_removal import remove_log_entries
from svc.store.log.transaction_log import SKEW_MS
from svc.store.system import SYSTEM
from svc.store.values.conversion import check_key
from svc.store.values.keys import encode_primary
from svc.store.writing.delete_records_before import remove_records_before

SEARCH_TYPES = ("timestamp", "username", "hash_value")
LOG_OFF = "To use this operation audit log must be enabled in svc-config.yaml"


# --- reading ------------------------------------------------------------------------------------------------------------------------------


def read_audit_log(call: Call) -> Any:
    search_type = "timestamp" if call["search_type"] is None else call["search_type"]
    if search_type not in SEARCH_TYPES:
        raise bad_request(f"Invalid searchType '{str(search_type)[:250]}'")
    values = call["search_values"] or []
    if search_type == "timestamp":
        times = _range(values)
        table = _audited(call)
        reader, show = _Reader(call, table), Presenter(table, original=True).together
        reader.narrow(*times)
        return answer_list(call, table.database, lambda txn: show(reader.read(txn)), AUDIT_COLUMNS)
    if search_type == "username":
        if not all(isinstance(value, str) for value in values):
            raise bad_request("'search_values' must be an array of strings")
        return _by_user(call, _audited(call), list(dict.fromkeys(values)))
    if not values:
        raise bad_request("'search_values' is required")
    if not all(map(is_key, values)):
        raise bad_request("'search_values' must be strings or numbers")
    table = _audited(call)
    reader, show_each = _Reader(call, table), Presenter(table, original=True).each
    lists: dict[str, Steps] = {}
    for value in values:
        lists.setdefault(_text(value), partial(_changes, reader, value, show_each))
    return answer_lists(call, table.database, list(lists.items()))


def _changes(reader: _Reader, value: Any, show: Any, txn: Txn) -> Iterator[Any]:
    try:
        key = check_key(reader.table.definition, value)
        encode_primary(key)
    except (ValidationError, BadValue):  # no record can have it
        return iter(())
    return show(reader.read_of(key, txn))  # type: ignore[no-any-return]


def _text(value: Any) -> str:
    """An id as the name of a member."""
    if isinstance(value, list):
        return "/".join(map(_text, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _range(values: list[Any]) -> tuple[float, float]:
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise bad_request("'search_values' must be numbers")
    if len(values) > 2:
        raise bad_request("'search_values' must contain at most 2 items")
    first = float(values[0]) if values else 0.0
    return first, float(values[1]) if len(values) == 2 else float("inf")


class _Reader:
    """The entries of a table that a call asks for by `from`, `until`, `order`, `start` and `limit`, and that are there for its caller."""

    def __init__(self, call: Call, table: Table) -> None:
        self.table = table
        self._view = read_view(call, table)
        self._first = 0.0 if call["from"] is None else float(call["from"])
        self._last = float("inf") if call["until"] is None else float(call["until"])
        self._reverse = call["order"] == "desc"
        self._start = int(call["start"])
        self._limit = None if call["limit"] is None else int(call["limit"])

    def narrow(self, first: float, last: float) -> None:
        """To these times, too."""
        self._first, self._last = max(self._first, first), min(self._last, last)

    def read(self, txn: Txn, user: str | None = None) -> Entries:
        """`user`: only of this one."""
        entries = _between(self.table, txn, self._first, self._last, reverse=self._reverse)
        if user is not None:
            entries = chosen(entries, lambda entry: entry.user == user)
        return window(_seen(entries, self._view, txn), self._start, self._limit)

    def read_of(self, key: Any, txn: Txn) -> Entries:
        """The changes of one record."""
        first, last = self._first, self._last
        entries = chosen(history(self.table, key, txn, reverse=self._reverse), lambda entry: first <= entry.version <= last)
        return window(_seen(entries, self._view, txn), self._start, self._limit)


def _between(table: Table, txn: Txn, first: float, last: float, *, reverse: bool = False) -> Entries:
    log, node = table.database.log, table.database.node
    start = log.first_since(txn, first, node)
    if not reverse:
        return chosen(log.read_table(txn, table.number, start), lambda entry: first <= entry.version <= last)
    end = None if last == float("inf") else log.first_since(txn, last + 2 * SKEW_MS, node)
    return chosen(newest_first(table, txn, start, end), lambda entry: first <= entry.version <= last)


def _seen(entries: Entries, view: TableView | None, txn: Txn) -> Entries:
    """Those that are there for the caller. `view`: as the caller sees the table, None: all of it."""
    return entries if view is None else chosen(entries, VisibleEntries(view, txn))


async def _by_user(call: Call, table: Table, names: list[str]) -> Any:
    """One pass through the log for each user: so the lists can be sent one after the other, however long they are."""
    reader = _Reader(call, table)
    if not names:
        view = read_view(call, table)
        seen: dict[str, None] = {}

        def collect() -> Iterator[None]:
            for entry in held.read(lambda txn: _seen(table.database.log.read_table(txn, table.number), view, txn)):
                if entry is not None and entry.user is not None:
                    seen.setdefault(entry.user)
                yield

        held = call.node.store.snapshots.hold(table.database, reader=call.reader)
        try:
            await call.node.store.slices.exhaust(collect())
        finally:
            held.abort()
        names = sorted(seen)
    show = Presenter(table, original=True).together
    lists: list[tuple[str, Steps]] = [(name, lambda txn, name=name: show(reader.read(txn, name))) for name in names]  # type: ignore[misc]
    return await answer_lists(call, table.database, lists)


def read_transaction_log(call: Call) -> Any:
    table = call.table
    if table.database.name == SYSTEM:
        _audited(call)
    first = 0.0 if call["from"] is None else float(call["from"])
    last = float("inf") if call["to"] is None else float(call["to"])
    show, view = Presenter(table, original=False).together, read_view(call, table)
    limit = None if call["limit"] is None else int(call["limit"])
    reverse = call["order"] == "desc"

    def steps(txn: Txn) -> Iterator[Any]:
        return limited(show(_seen(_between(table, txn, first, last, reverse=reverse), view, txn)), limit)

    return answer_list(call, table.database, steps, TRANSACTION_COLUMNS)


def _audited(call: Call) -> Table:
    """The table, if its log keeps what was there before a change. Raises 404, and 400 if it does not."""
    table = call.table
    if not table.audit:
        raise bad_request(LOG_OFF)
    return table


# --- removing -----------------------------------------------------------------------------------------------------------------------------


def delete_audit_logs_before(call: Call) -> Any:
    table = _audited(call)
    refuse_narrowed(call, table, "the log, which is of all of them, is not removed")
    before_ms = float(call["timestamp"])

    async def work(job: Job) -> None:
        removed = await remove_log_entries(table, before_ms, job.progress)
        await job.progress(removed)

    return call.node.jobs.start(call, work, frees=True)


def delete_records_before(call: Call) -> Any:
    moment = iso_to_ms(call["date"])
    if moment is None:
        raise bad_request("'date' must be in ISO 8601 date format")
    if call["database"] == SYSTEM:
        raise refuse_system()
    table, rows = call.table, call.row_guard

    async def work(job: Job) -> str:
        attribute = next((attribute.name for attribute in table.definition.attributes if attribute.created_time), None)
        if attribute is None:
            raise JobFailed("Table must have a '__createdtime__' attribute or @createdTime timestamp defined to perform this operation")
        deleted, found = await remove_records_before(table, attribute, moment[0], call.username, job.progress, rows)
        return f"{deleted} of {found} record{'' if found == 1 else 's'} successfully deleted" if found else "No records found to delete"

    return call.node.jobs.start(call, work, frees=True)


# --- rows -----------------------------------------------------------------------------------------------------------------------------------

_ORDER = Field("order", "choice", "`asc` (default) begins with the oldest, `desc` with the newest.", choices=("asc", "desc"))
_TIMESTAMP = Field("timestamp", "number", "Time in ms since the epoch.", required=True, low=0)
_STARTED = {"message": "Starting job with id 2fe2a2c0-46e3-4a4e-93a0-9d6c2c9d9a57", "job_id": "2fe2a2c0-46e3-4a4e-93a0-9d6c2c9d9a57"}
_DOG = {"id": 1, "name": "Penny"}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="read_audit_log",
        category="logs",
        summary="Read the changes to the records of a table: user, time, former content.",
        permission=SUPER_USER,
        handler=read_audit_log,
        fields=(
            DATABASE,
            TABLE,
            Field("search_type", "any", "`timestamp` (default), `username` or `hash_value`."),
            Field("search_values", "list", "Up to two times in ms, user names, or primary keys."),
            Field("from", "number", "First time, in ms since the epoch, whatever is searched for."),
            Field("until", "number", "Last time, in ms since the epoch."),
            _ORDER,
            Field("start", "integer", "Changes to skip, of each list.", default=0, low=0),
            Field("limit", "integer", "Number of changes at most, of each list.", low=1),
        ),
        returns="For `timestamp` a list of entries; for `username` and `hash_value` an object with a list of entries for each of the values.",
        notes="An entry has `operation` (`insert`, `update`, `upsert`, `delete`), `user_name`, `timestamp`, `hash_values`, `records` with the new "
        "values and, for what changed or removed records, `original_records` with the former ones. Writes of one transaction share an entry, up to "
        f"{TOGETHER} of them; for `hash_value` each change has its own. With `timestamp`, one value is the first time, two are the first and the last, "
        "both included. `username` without values answers for all users. `start` and `limit` count changes of records, so that an answer is as long as its "
        "reader wants. Records that expired have a null `user_name`. Entries are kept "
        "for `logging.auditRetention`. `trace_id` is there for requests that were part of a trace (`traceparent`): 32 hexadecimal digits. Long answers are "
        "streamed. Where rules on rows narrow what the caller may read, the entries are those about records that may be read, as they are now and as they were "
        "before and after the entry.",
        example={"table": "dog", "search_type": "hash_value", "search_values": [1]},
        example_answer={
            "1": [
                {
                    "operation": "insert",
                    "user_name": "admin",
                    "timestamp": 1767225600000,
                    "hash_values": [1],
                    "records": [_DOG | {"__createdtime__": 1767225600000, "__updatedtime__": 1767225600000}],
                }
            ]
        },
    ),
    Operation(
        name="read_transaction_log",
        category="logs",
        summary="Read the changes of a table in the order of their commits.",
        permission=SUPER_USER,
        handler=read_transaction_log,
        fields=(
            DATABASE,
            TABLE,
            Field("from", "number", "First time, in ms since the epoch."),
            Field("to", "number", "Last time, in ms since the epoch."),
            _ORDER,
            Field("limit", "integer", "Number of entries at most.", low=1),
        ),
        returns="A list of entries: `operation`, `user`, `user_name`, `timestamp`, `hash_values`, `records`, `trace_id`.",
        notes="`user` and `user_name` are the same. `trace_id`, and which entries there are: as for `read_audit_log`. Long answers are streamed.",
        example={"table": "dog", "limit": 1},
        example_answer=[
            {
                "operation": "insert",
                "user": "admin",
                "user_name": "admin",
                "timestamp": 1767225600000,
                "hash_values": [1],
                "records": [_DOG | {"__createdtime__": 1767225600000, "__updatedtime__": 1767225600000}],
            }
        ],
    ),
    Operation(
        name="delete_audit_logs_before",
        category="logs",
        summary="Remove the log entries of a table that are older than a time.",
        permission=SUPER_USER,
        handler=delete_audit_logs_before,
        fields=(
            DATABASE,
            TABLE,
            _TIMESTAMP.but(sentence="Entries before this time go; ms since the epoch."),
            Field("cleanup_deleted_records", "bool", "Entries of deleted records are always removed with their traces.", default=False),
        ),
        returns="A message and the id of the job.",
        notes="Of the newest entry of the database its number and time stay: the numbers of entries count on from there. Refused (403 `ROW_NOT_ALLOWED`) "
        "to callers for whom rules on rows narrow the table.",
        example={"table": "dog", "timestamp": 1767225600000},
        example_answer=_STARTED,
        starts_job=True,
    ),
    Operation(
        name="delete_transaction_logs_before",
        category="logs",
        summary="Remove the log entries of a table that are older than a time.",
        permission=SUPER_USER,
        handler=delete_audit_logs_before,
        fields=(DATABASE, TABLE, _TIMESTAMP.but(sentence="Entries before this time go; ms since the epoch.")),
        returns="A message and the id of the job.",
        notes="The same as `delete_audit_logs_before`: there is one log.",
        example={"table": "dog", "timestamp": 1767225600000},
        example_answer=_STARTED,
        starts_job=True,
    ),
    Operation(
        name="delete_records_before",
        aliases=("delete_files_before",),
        category="bulk",
        summary="Delete the records of a table that were made before a time.",
        permission=SUPER_USER,
        handler=delete_records_before,
        fields=(DATABASE, TABLE, Field("date", "string", "ISO 8601; without zone it is UTC.", required=True)),
        returns="A message and the id of the job. Its message is `3 of 3 records successfully deleted`, or `No records found to delete`.",
        notes="The table needs an attribute with the time of creation. Records go in batches; those of a batch together. What rules on rows do not let the "
        "caller see or delete stays, and is not counted.",
        example={"table": "dog", "date": "2026-01-01"},
        example_answer=_STARTED,
        starts_job=True,
    ),
)
