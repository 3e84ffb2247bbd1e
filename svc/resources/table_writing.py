"""Writing to a table: PUT, PATCH, POST, DELETE, messages (architecture §11; spec: realtime §1, http §2.3-§2.6)."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from svc.auth.roles import TableRights
from svc.auth.users import User, user_of
from svc.awaitables import then
from svc.content.list_faults import ListFaults, named_write, not_an_object
from svc.content.unchanged import Restore, restore_json, restore_row
from svc.errors import BadBody, ClientError, Problem
from svc.messages import Caller, Request, Response, WritePrecondition
from svc.query import AnyRows
from svc.query.execution import execute
from svc.query.functions import still_found_by
from svc.query.lasting_run import LastingRun
from svc.query.nodes import Query
from svc.query.plain_parameters import maybe_empty_parameter
from svc.resources.resource import CreatedRecords
from svc.resources.table_reading import TableReading
from svc.resources.target import RequestTarget, id_path
from svc.store import Transaction
from svc.store.entity_tags import Precondition
from svc.store.values.validation import EMPTY_KEYS, check_key
from svc.store.writing.commit import commit
from svc.store.writing.transaction import LONG_WRITES
from svc.store.writing.write_set import Decide, RemovalReason

if TYPE_CHECKING:
    from svc.query.row_guard import RowGuard

DELETE_STEP = 64  # records found by a DELETE between two polls of the clock
DELETED_COUNT = "X-Deleted-Count"  # of the records that a DELETE of a collection removed


class WriteContext(Protocol):
    """What a write has to know of its request. `user`, `restore`, `native_body`, `precondition`: as of a `Request`."""

    restore: Any
    native_body: bool
    precondition: WritePrecondition | None

    @property
    def user(self) -> Caller | None: ...


class TableWriting(TableReading):
    """The verbs that write. Each applies its writes at once and returns, or returns an awaitable if that takes longer than a turn."""

    @classmethod
    def begin(cls, request: Request) -> Transaction:
        user = request.user
        transaction = cls.store.begin(None if user is None else user.username, request.trace_id)
        transaction.mqtt = request.mqtt
        return transaction

    @classmethod
    def _commit_all(cls, steps: Iterator[None], records: list[Any], transaction: Transaction, request: Request) -> Awaitable[None] | None:
        """Take `steps`, which collect the writes of `records`, and commit. Returns an awaitable of that if it takes longer than a turn."""
        if len(records) > LONG_WRITES:
            cls.store.queue_of(cls.table.database).check()
            return cls._commit_in_slices(steps, records, transaction, request)
        for _ in steps:
            pass
        return cls._commit_named(transaction, records, request, is_list=True)

    @classmethod
    def _commit_named(
        cls, transaction: Transaction, records: Sequence[Any], request: Request, *, is_list: bool = False
    ) -> Awaitable[None] | None:
        """`commit`; the error names the record that is why it fails. `records`: whose writes these are, if they are still known."""
        try:
            waiting = commit(transaction, request, len(request.content))
        except Problem as error:
            raise named_write(error, transaction, records, request, is_list) from None
        return None if waiting is None else cls._committed(waiting, transaction, records, request, is_list)

    @classmethod
    async def _committed(
        cls, waiting: Awaitable[None], transaction: Transaction, records: Sequence[Any], request: Request, is_list: bool
    ) -> None:
        try:
            await waiting
        except Problem as error:
            raise named_write(error, transaction, records, request, is_list) from None

    @classmethod
    async def _commit_in_slices(cls, steps: Iterator[None], records: list[Any], transaction: Transaction, request: Request) -> None:
        try:
            await cls.store.slices.exhaust(steps)
        except BaseException:
            transaction.abort()
            raise
        finally:
            cls.store.slices.discard(records)
        waiting = cls._commit_named(transaction, (), request, is_list=True)
        if waiting is not None:
            await waiting

    # --- PUT and PATCH ---------------------------------------------------------------------------------------------------------------

    @classmethod
    def on_put(cls, target: RequestTarget, data: Any, request: Request) -> Awaitable[None] | None:
        transaction = cls.begin(request)
        if target.id is not None:
            cls.put_in(transaction, target.id, data if type(data) is dict else _one_record(data, _WHERE_LISTS_GO), target, request)
            return commit(transaction, request, len(request.content))
        if target.prefix is not None:
            raise ClientError("PUT needs the address of a record or of the whole collection")
        if not isinstance(data, list):
            record = _one_record(data)
            if record.get(cls.table.primary_key, "") in EMPTY_KEYS:
                raise ClientError(f"The body has no {cls.table.primary_key}: PUT it at the address of a record, or POST it")
            cls.put_in(transaction, check_key(cls.table.definition, record[cls.table.primary_key]), record, target, request)
            return commit(transaction, request, len(request.content))
        return cls._commit_all(cls._put_each(transaction, data, target, request), data, transaction, request)

    @classmethod
    def _put_each(cls, transaction: Transaction, records: list[Any], target: RequestTarget, request: Request) -> Iterator[None]:
        definition, primary_key = cls.table.definition, cls.table.primary_key
        faults: ListFaults | None = None
        for number, record in enumerate(records):
            try:
                if not isinstance(record, dict):
                    raise not_an_object(number)
                if record.get(primary_key, "") in EMPTY_KEYS:
                    raise ClientError(f"Element {number} has no {primary_key}")
                cls.put_in(transaction, check_key(definition, record[primary_key]), record, target, request)
            except ClientError as error:
                faults = faults or ListFaults(records, cls.table, request, source_of(request))
                faults.add(number, error)
                if faults.is_full:
                    break
            yield
        if faults is not None:
            raise faults.error()

    @classmethod
    def put_in(cls, transaction: Transaction, key: Any, record: dict[str, Any], target: RequestTarget, request: WriteContext) -> None:
        """Collect the write of a whole record, by `target.rights`. The record belongs to the transaction from now on."""
        may: TableRights = target.rights
        restore: Restore = request.restore or restore_json
        columns = getattr(record, "columns", None)
        if columns is not None:
            record = dict(record)
            restore = partial(restore_row, columns, cls.table.attributes)
        writes_all = may.writes_all
        decide = restore if writes_all else cls._put_decision(may, tuple(record), restore, user_of(request))
        record[cls.table.primary_key] = key  # the address wins (spec: http §2.3)
        record = cls.table.validator.record(record, source=source_of(request), complete=writes_all)
        precondition = request.precondition
        assert precondition is None or type(precondition) is Precondition
        transaction.put(cls.table, key, record, precondition, decide=decide, rows=cls.guard(target, request))

    @classmethod
    def _put_decision(cls, may: TableRights, sent: tuple[str, ...], restore: Restore, user: User | None) -> Decide:
        """For a caller with rights on some attributes: the record to store, decided by the stored record inside the transaction.

        `sent`: the names of the properties in the body.
        """

        def decide(record: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
            may.check_over(sent, stored, user)
            kept = may.keep_forbidden(dict(record), stored)
            kept = restore(kept, stored)
            cls.table.validator.require_all(kept)
            return kept

        return decide

    @classmethod
    def _patch(cls, target: RequestTarget, changes: dict[str, Any], request: Request) -> Awaitable[None] | None:
        transaction = cls.begin(request)
        cls.patch_in(transaction, target, changes, request)
        return commit(transaction, request, len(request.content))

    @classmethod
    def patch_in(cls, transaction: Transaction, target: RequestTarget, changes: dict[str, Any], request: WriteContext) -> None:
        """Collect the change of a record, by `target.rights`."""
        may: TableRights = target.rights
        restore: Restore = request.restore or restore_json
        decide = restore if may.writes_all else cls._patch_decision(may, restore, user_of(request))
        changes = cls.table.validator.changes(changes, source=source_of(request))
        precondition = request.precondition
        assert precondition is None or type(precondition) is Precondition
        transaction.patch(cls.table, target.id, changes, precondition, decide=decide, rows=cls.guard(target, request))

    @staticmethod
    def _patch_decision(may: TableRights, restore: Restore, user: User | None) -> Decide:
        """For a caller with rights on some attributes: the changes to store, decided by the stored record inside the transaction."""

        def decide(changes: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
            may.check_over(changes, stored, user)
            return restore(changes, stored)

        return decide

    @classmethod
    def on_patch(cls, target: RequestTarget, data: Any, request: Request) -> Awaitable[None] | None:
        if target.id is None:
            raise cls.not_allowed("patch", target=target)
        changes = _one_record(data)
        changes.pop(cls.table.primary_key, None)
        return cls._patch(target, changes, request)

    @classmethod
    def put_property(cls, target: RequestTarget, name: str, value: Any, request: Request) -> Awaitable[None] | None:
        """Change one property only (spec: http §2.5)."""
        cls.authorize("patch", target, {name: value}, request)
        return cls._patch(target, {name: value}, request)

    # --- POST ------------------------------------------------------------------------------------------------------------------------

    @classmethod
    def on_post(cls, target: RequestTarget, data: Any, request: Request) -> Any:
        if target.id is not None:
            raise cls.not_allowed("post", target=target)
        transaction = cls.begin(request)
        keys: list[Any] = []  # None: the key is assigned when the record is written
        if isinstance(data, list):
            waiting = cls._commit_all(cls._create_each(transaction, data, keys, target, request), data, transaction, request)
        else:
            keys.append(cls.create_in(transaction, _one_record(data), target, request))
            waiting = cls._commit_named(transaction, (), request)
        if waiting is not None:
            return then(waiting, lambda _: cls._created(transaction, keys, isinstance(data, list)))
        return cls._created(transaction, keys, isinstance(data, list))

    @classmethod
    def _created(cls, transaction: Transaction, keys: list[Any], is_list: bool) -> CreatedRecords:
        keys = transaction.with_assigned(keys)
        return CreatedRecords(keys) if is_list else CreatedRecords(keys[0], id_path(keys[0], cls.properties, untyped=cls.untyped_keys))

    @classmethod
    def _create_each(
        cls, transaction: Transaction, records: list[Any], keys: list[Any], target: RequestTarget, request: Request
    ) -> Iterator[None]:
        """Appends the keys to `keys`."""
        may: TableRights = target.rights
        is_checked = may.attributes is None or len(records) <= LONG_WRITES  # by `authorize`
        faults: ListFaults | None = None
        for number, record in enumerate(records):
            try:
                if not isinstance(record, dict):
                    raise not_an_object(number)
                if not is_checked:
                    cls.check_element(records, number, True, may, request)
                keys.append(cls.create_in(transaction, record, target, request))
            except ClientError as error:
                faults = faults or ListFaults(records, cls.table, request, source_of(request))
                faults.add(number, error)
                if faults.is_full:
                    break
            yield
        if faults is not None:
            raise faults.error()

    @classmethod
    def create_in(cls, transaction: Transaction, record: dict[str, Any], target: RequestTarget, request: WriteContext) -> Any:
        """Collect the write of a new record; returns its key, None if it is assigned when it is written."""
        table = cls.table
        key = record.get(table.primary_key)
        if key in EMPTY_KEYS:  # there would be no address for it (spec: http §1.3)
            key = None
        prefix = target.prefix or ""
        if key is not None:
            key = check_key(table.definition, key)
            if prefix and not str(key).startswith(prefix):
                key = check_key(table.definition, prefix + str(key))
        record[table.primary_key] = key
        record = table.validator.record(record, source=source_of(request))
        return transaction.create(table, key, record, key_prefix=prefix, rows=cls.guard(target, request))

    # --- messages --------------------------------------------------------------------------------------------------------------------

    @classmethod
    def on_publish(cls, target: RequestTarget, data: Any, request: Request) -> Awaitable[None] | None:
        """Send a message to the subscribers of a record, or of the table; no record changes (spec: realtime §1)."""
        if target.prefix is not None:
            raise ClientError("A message goes to a record or to the table, not to the records below a prefix")
        transaction = cls.begin(request)
        transaction.publish(cls.table, target.id, data, source=source_of(request), rows=cls.guard(target, request))
        return commit(transaction, request, len(request.content))

    # --- DELETE ----------------------------------------------------------------------------------------------------------------------

    @classmethod
    def on_delete(cls, target: RequestTarget, data: Any, request: Request) -> Any:
        if target.is_root:
            raise cls.not_allowed("delete", target=target)
        transaction = cls.begin(request)
        if target.id is not None:
            precondition = request.precondition
            assert precondition is None or type(precondition) is Precondition
            transaction.delete(cls.table, target.id, precondition, rows=cls.guard(target, request))
            return commit(transaction, request, len(request.content))
        rows = cls.on_search(target, None, request)
        check_deleted(rows.plan.query, target.query)
        database = cls.table.database
        cls.store.queue_of(database).check()
        snapshot = database.snapshot()
        found = RemovalReason(database.log.newest_lsn(snapshot), still_found_by(rows.plan))
        run = execute(rows.plan, snapshot)
        steps = cls.delete_each(transaction, run, found, cls.guard(target, request))
        if not cls.store.slices.run(steps):
            lasting = LastingRun(run, database, lambda: f"a deletion of records of {cls.table.name}")
            return cls._delete_in_slices(steps, lasting, transaction, request)
        return then(commit(transaction, request, len(request.content)), lambda _: _deleted(transaction))

    @classmethod
    def delete_each(cls, transaction: Transaction, run: AnyRows, found: RemovalReason, rows: RowGuard | None) -> Iterator[None]:
        """Delete the records that a query finds, in steps; only their stored keys are kept. `rows`: of the caller, see `guard`."""
        table = cls.table
        try:
            while not run.done:
                for stored, raw in run.step_pairs(DELETE_STEP):
                    transaction.delete_stored(table, stored, raw, found, rows)
                yield
        finally:
            run.close()

    @classmethod
    async def _delete_in_slices(cls, steps: Iterator[None], lasting: LastingRun, transaction: Transaction, request: Request) -> Response:
        try:
            await cls.store.slices.exhaust(lasting.steps(steps))
        finally:
            lasting.close()
        waiting = commit(transaction, request, len(request.content))
        if waiting is not None:
            await waiting
        return _deleted(transaction)


_WHERE_LISTS_GO = ": a list is put at the address of the table, which ends with /"


def _one_record(data: Any, about_lists: str = "") -> dict[str, Any]:
    """`about_lists`: what is added to the message about a list. Raises BadBody."""
    if not isinstance(data, dict):
        what = "null" if data is None else "a list" if isinstance(data, list) else "a single value"
        raise BadBody(f"The body must be one object, not {what}{about_lists if isinstance(data, list) else ''}")
    return cast(dict[str, Any], data)


def check_deleted(query: Query, text: str | None) -> None:
    """Raise ClientError unless `query` may say what DELETE removes. `text`: in which it was given, None without any: then it is the whole collection.

    A query that narrows nothing is most likely one whose values turned out empty in the client: it must not mean all records.
    """
    if query.select is not None or query.aggregate is not None or query.counted:
        raise ClientError("DELETE takes conditions, sort and limit, but no select and nothing that counts")
    if text is None:
        return
    empty = maybe_empty_parameter(text)
    if empty is not None:
        raise ClientError(f"{empty} is empty, and DELETE would take that for all records", code="QUERY_SYNTAX")
    if query.where is None and query.limit is None:
        raise ClientError(
            "The query has no condition, and DELETE would take that for all records: the whole collection is deleted without a query",
            code="QUERY_SYNTAX",
        )


def _deleted(transaction: Transaction) -> Response:
    return Response(None, 204, pairs=[(DELETED_COUNT, str(transaction.deleted))])


def source_of(request: WriteContext) -> str:
    """The `source` argument of the validator for the body of a request."""
    return "native" if request.native_body else "json"
