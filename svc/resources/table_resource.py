"""A table as a resource (contract: applications §2-§3, http §2). One subclass per table, made by `table_resource`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import quote

from svc.auth.roles import ALL_RIGHTS, TableRights, rights
from svc.auth.users import User, user_of
from svc.content.unchanged import Restore, deciding, restore_json, restore_row
from svc.errors import AccessViolation, BadBody, ClientError
from svc.messages import Request, Response
from svc.query import AnyRows, QueryCache, plan_query
from svc.query.authorization import narrow_query
from svc.query.execution import execute
from svc.query.explain import explain
from svc.query.functions import still_found_by
from svc.query.mapping import query_from_mapping
from svc.query.nodes import Comparator, Condition, Query, Select, SelectItem
from svc.query.select import enumerable_select
from svc.realtime.event import EventSource
from svc.resources.resource import Created, PlannedQuery, Resource, StoredRecord
from svc.resources.subscribing import subscribed_query, subscription_request
from svc.resources.target import RequestTarget, id_path, whole_text
from svc.store import Store, Table, Transaction, WriterBusy
from svc.store.entity_tags import Precondition
from svc.store.env import Txn
from svc.store.schema import Attribute, key_type
from svc.store.system import SYSTEM
from svc.store.values.validation import EMPTY_KEYS, check_key, key_from_text
from svc.store.writing.transaction import LONG_WRITES
from svc.store.writing.write_set import Decide, Found

if TYPE_CHECKING:
    from svc.realtime.realtime import Realtime

LONG_CONTENT = 1 << 18  # bytes of a body, after which its commit takes too long for a turn however few records it holds
DELETE_STEP = 64  # records found by a DELETE between two looks at the clock
DELETED_COUNT = "X-Deleted-Count"  # of the records that a DELETE of a collection removed

SURELY_SHORT = 400  # characters of a key that is within every limit, whatever its characters are

NO_QUERY = Query()
WRITTEN = frozenset(("put", "patch", "post", "publish"))  # verbs whose data are the properties of records


class TableResource(Resource):
    """Class attributes are set per table; every verb is a class method that returns at once."""

    table: ClassVar[Table]
    store: ClassVar[Store]
    allow_full_scan: ClassVar[bool] = False
    queries: ClassVar[QueryCache]
    text_keys: ClassVar[bool] = False  # the text of an id is its key
    untyped_keys: ClassVar[bool] = False
    shows_record_count: ClassVar[bool] = False  # in its description
    is_system: ClassVar[bool] = False  # of the system database, where a super user's rights end
    realtime: ClassVar[Realtime | None] = None  # None: the table has no events
    verbs = frozenset({"get", "search", "put", "patch", "post", "delete", "query", "subscribe", "connect", "publish"})

    @classmethod
    def is_same(cls, other: type[Resource]) -> bool:
        if not issubclass(other, TableResource):
            return False
        table, another = cls.table, other.table
        return (table.name, table.database.name) == (another.name, another.database.name)

    @classmethod
    def bind(cls, target: RequestTarget) -> None:
        if target.extension is not None and cls._is_whole_key(target):
            return
        text = target.id_text
        if text is not None:
            short = cls.text_keys and len(text) <= SURELY_SHORT
            target.id = text if short else key_from_text(cls.table.definition, text, target.raw or "")

    @classmethod
    def _is_whole_key(cls, target: RequestTarget) -> bool:
        """Whether there is a record whose key ends like a file, `report.csv`: then the extension is none, and the target is that record (http §1.2)."""
        text = whole_text(target)
        if text is None:
            return False
        try:
            key = key_from_text(cls.table.definition, text)
            if cls.table.get_raw(key) is None:
                return False
        except ClientError:  # no key of this table
            return False
        target.id_text, target.id = text, key
        target.extension = target.property = target.prefix = None
        target.is_collection = False
        return True

    @classmethod
    def methods_missing(cls, target: RequestTarget) -> tuple[str, ...]:
        missing = super().methods_missing(target)
        return missing if target.id_text is None else (*missing, "POST")

    @classmethod
    def refuse_query(cls, target: RequestTarget, method: str) -> None:
        """A condition is no precondition: a client that sends one here believes in a protection that there is not."""
        if method != "POST":  # which is not allowed on a record anyway
            message = f"{method} of one record takes no query in its address; a precondition is sent as If-Match"
            raise ClientError(message, code="QUERY_SYNTAX")

    # --- permission ----------------------------------------------------------------------------------------------------------------

    @classmethod
    def admit(cls, request: Request) -> None:
        user = request.user
        if user is None:
            raise AccessViolation
        if (not user.super_user or cls.is_system) and not rights(user_of(request), cls.table.database.name, cls.table.name).any:
            raise AccessViolation(user)

    @classmethod
    def authorize(cls, verb: str, target: RequestTarget, data: Any, request: Request) -> None:
        """http §11.1: read, insert, update or delete; attribute rights on what is written. Sets `target.rights`."""
        user = request.user
        if user is not None and user.super_user and not cls.is_system:
            target.rights = ALL_RIGHTS
            return
        assert user is None or type(user) is User
        may = target.rights = rights(user, cls.table.database.name, cls.table.name)
        if may.all:
            return
        if verb in ("get", "query", "subscribe", "connect"):
            allowed = may.read
        elif verb == "delete":
            allowed = may.delete
        elif verb == "publish":
            allowed = may.insert
        elif verb == "post":
            allowed = may.insert if target.is_collection or target.is_root else may.update
        else:
            allowed = may.insert or may.update  # which of them it takes, whether there is a record, is decided where it is written
        if not allowed:
            raise AccessViolation(user)
        if data is not None and verb in WRITTEN and may.attributes is not None and not (isinstance(data, list) and len(data) > LONG_WRITES):
            insert = verb == "post" or verb == "publish" or None
            for record in data if isinstance(data, list) else (data,):
                if isinstance(record, dict):
                    may.check_write(record, insert=insert, user=user)

    @staticmethod
    def visible(target: RequestTarget) -> frozenset[str] | None:
        may: TableRights = target.rights
        return None if may.attributes is None else may.readable

    # --- reading -------------------------------------------------------------------------------------------------------------------

    @classmethod
    def on_get(cls, target: RequestTarget, data: Any, request: Request) -> Any:
        if target.id is not None:
            table = cls.table
            raw = table.get_raw(target.id)
            if raw is None:
                return None
            may: TableRights = target.rights
            return StoredRecord(table, raw, None if may.attributes is None else may.readable)
        if target.is_root:
            return cls.describe(cls.visible(target))
        return cls.on_search(target, data, request)

    @classmethod
    def select_one(cls, record: StoredRecord, target: RequestTarget, request: Request) -> PlannedQuery:
        """`/Product/42?select(name)`: the selection of one record; other conditions on its URL are ignored (http §2.2). A property of the
        target is selected as an object with this one name; what the query selects is then selected from its value."""
        select = None
        if target.query and "select" in target.query:
            select = cls.queries.parse(target.query, cls.table).select
        if target.property is not None:
            select = Select((SelectItem((target.property,), nested=select),))
        elif select is None:
            select = enumerable_select(cls.table) or Select((SelectItem(("*",)),))
        query = narrow_query(Query(select=select), cls.table, user_of(request))
        only = Query(Condition((cls.table.primary_key,), Comparator.EQUALS, target.id), query.select, limit=1)
        return PlannedQuery(cls.table, plan_query(only, cls.table, cls.table.database.snapshot()), record.visible)

    @classmethod
    def on_search(cls, target: RequestTarget, data: Any, request: Request) -> PlannedQuery:
        began = cls.store.clock.monotonic()
        query = cls.queries.parse(target.query, cls.table) if target.query else NO_QUERY
        return cls._planned(query, target, request, began)

    @classmethod
    def on_query(cls, target: RequestTarget, data: Any, request: Request) -> Any:
        """The records that a query object finds, or its plan, if it asks for that (http §6.9)."""
        began = cls.store.clock.monotonic()
        rows = cls._planned(query_from_mapping(data), target, request, began)
        return explain(rows.plan, cls.table.database.snapshot()) if rows.plan.query.explain else rows

    @classmethod
    def _planned(cls, query: Query, target: RequestTarget, request: Request, began: float) -> PlannedQuery:
        table = cls.table
        visible = cls.visible(target)
        if table.has_enumerable and query.select is None and query.aggregate is None and request.method != "DELETE":
            query = replace(query, select=enumerable_select(table))
        if target.rights is not ALL_RIGHTS:  # all rights on this table say nothing of those that its relationships lead to
            query = narrow_query(query, table, user_of(request))
        plan = plan_query(query, table, table.database.snapshot(), allow_full_scan=cls.allow_full_scan, key_prefix=target.prefix)
        return PlannedQuery(table, plan, visible, cls.store.clock.monotonic() - began)

    @classmethod
    def describe(cls, visible: frozenset[str] | None = None) -> Any:
        """http §10.1. An awaitable if there is much of the log to be counted: it is looked through once, later only what is new."""
        steps = cls.table.database.log.counts.catch_up()
        if not cls.store.slices.run(steps):
            return cls._describe_later(steps, visible)
        return cls._description(visible)

    @classmethod
    async def _describe_later(cls, steps: Iterator[None], visible: frozenset[str] | None) -> dict[str, Any]:
        await cls.store.slices.exhaust(steps)
        return cls._description(visible)

    @classmethod
    def _description(cls, visible: frozenset[str] | None) -> dict[str, Any]:
        table = cls.table
        definition = table.definition
        found: dict[str, Any] = {
            "records": f"/{quote(cls.name)}/" if cls.name else "/",
            "name": table.name,
            "database": table.database.name,
            "auditSize": table.database.log.counts.of(table.number),
        }
        if cls.shows_record_count:
            # The store knows the number: an estimate whose range is a point.
            count = table.record_count()
            found |= {"recordCount": count, "estimatedRecordRange": [count, count]}
        found["attributes"] = [describe_attribute(a) for a in definition.attributes if visible is None or a.name in visible]
        return found

    # --- events --------------------------------------------------------------------------------------------------------------------

    @classmethod
    def prepare_connect(cls, target: RequestTarget, request: Request) -> EventSource:
        super().prepare_connect(target, request)
        return cls.on_subscribe(target, None, request)

    @classmethod
    def on_subscribe(cls, target: RequestTarget, data: Any, request: Request) -> EventSource:
        """The events of a record or a collection (realtime §1); with `live()`, those of a query's result."""
        if cls.realtime is None:
            raise cls.not_allowed("subscribe", request.method, target=target)
        query = subscribed_query(cls, target)
        if not query.live:
            return cls.realtime.subscribe(subscription_request(cls, query, target, request))
        subscription = cls.realtime.subscribe_to_query(
            query,
            cls.table,
            user_of(request),
            key_prefix=target.prefix,
            allow_full_scan=cls.allow_full_scan,
            reconnected="last-event-id" in request.block.fields,
        )
        return cast(EventSource, subscription)

    # --- writing -------------------------------------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, request: Request) -> Transaction:
        user = request.user
        return cls.store.begin(None if user is None else user.username)

    @classmethod
    def commit(cls, transaction: Transaction, request: Request) -> Awaitable[None] | None:
        """Apply the writes now; the answer waits for the turn's commit. What takes too long for a turn, or has to wait for something that
        does, is returned to be awaited."""
        if transaction.unsaved:
            return cls._commit_saved(transaction, request)
        if transaction.is_long or (len(request.content) > LONG_CONTENT and transaction.has_writes):
            return transaction.apply_long()
        if transaction.unsaved:
            return cls._save_and_commit(transaction, request)
        try:
            transaction.apply(wait=False)
        except WriterBusy:
            return cls._apply_in_turn(transaction, request)
        request.transaction = transaction
        return None

    @classmethod
    async def _commit_saved(cls, transaction: Transaction, request: Request) -> None:
        """The same once the content of new blobs is on disk."""
        await transaction.save_blobs()
        waiting = cls.commit(transaction, request)
        if waiting is not None:
            await waiting

    @classmethod
    async def _save_and_commit(cls, transaction: Transaction, request: Request) -> None:
        await transaction.save_blobs()
        waiting = cls.commit(transaction, request)
        if waiting is not None:
            await waiting

    @classmethod
    async def _apply_in_turn(cls, transaction: Transaction, request: Request) -> None:
        await transaction.apply_in_turn()
        request.transaction = transaction

    @classmethod
    def _commit_all(cls, steps: Iterator[None], records: list[Any], transaction: Transaction, request: Request) -> Awaitable[None] | None:
        """Take `steps`, which collect what is done with `records`, and commit; what takes too long for a turn is returned to be awaited."""
        if len(records) > LONG_WRITES:
            cls.store.queue_of(cls.table.database).check()
            return cls._commit_in_slices(steps, records, transaction, request)
        for _ in steps:
            pass
        return cls.commit(transaction, request)

    @classmethod
    async def _commit_in_slices(cls, steps: Iterator[None], records: list[Any], transaction: Transaction, request: Request) -> None:
        try:
            await cls.store.slices.exhaust(steps)
        except BaseException:
            transaction.abort()
            cls.store.slices.discard(records)
            raise
        cls.store.slices.discard(records)
        waiting = cls.commit(transaction, request)
        if waiting is not None:
            await waiting

    @classmethod
    def on_put(cls, target: RequestTarget, data: Any, request: Request) -> Awaitable[None] | None:
        transaction = cls.begin(request)
        if target.id is not None:
            cls._put(transaction, target.id, cls._one_record(data), target, request)
            return cls.commit(transaction, request)
        if target.prefix is not None:
            raise ClientError("PUT needs the address of a record or of the whole collection")
        if not isinstance(data, list):
            record = cls._one_record(data)
            if record.get(cls.table.primary_key, "") in EMPTY_KEYS:
                raise ClientError(f"The body has no {cls.table.primary_key}")
            cls._put(transaction, check_key(cls.table.definition, record[cls.table.primary_key]), record, target, request)
            return cls.commit(transaction, request)
        return cls._commit_all(cls._put_each(transaction, data, target, request), data, transaction, request)

    @classmethod
    def _put_each(cls, transaction: Transaction, records: list[Any], target: RequestTarget, request: Request) -> Iterator[None]:
        definition, primary_key = cls.table.definition, cls.table.primary_key
        for number, record in enumerate(records):
            if not isinstance(record, dict):
                raise BadBody(f"Element {number} of the body is not an object")
            if record.get(primary_key, "") in EMPTY_KEYS:
                raise ClientError(f"Element {number} has no {primary_key}")
            cls._put(transaction, check_key(definition, record[primary_key]), record, target, request)
            yield

    @classmethod
    def _write_check(cls, records: list[Any], target: RequestTarget, request: Request) -> Callable[[dict[str, Any]], None] | None:
        """What `authorize` leaves to those who take the records one by one."""
        may: TableRights = target.rights
        if may.attributes is None or len(records) <= LONG_WRITES:
            return None
        return lambda record: may.check_write(record, insert=True, user=user_of(request))

    @classmethod
    def _put(cls, transaction: Transaction, key: Any, record: dict[str, Any], target: RequestTarget, request: Request) -> None:
        may: TableRights = target.rights
        restore: Restore = request.restore or restore_json
        columns = getattr(record, "columns", None)
        if columns is not None:
            record = dict(record)
            restore = partial(restore_row, columns, cls.table.attributes)
        decide = deciding(restore) if may.writes_all else cls._put_decision(may, tuple(record), restore, user_of(request))
        record[cls.table.primary_key] = key  # the address wins (http §2.3)
        record = cls.table.validator.record(record, source=source_of(request), complete=may.writes_all)
        precondition = request.precondition
        assert precondition is None or type(precondition) is Precondition
        transaction.put(cls.table, key, record, precondition, decide=decide)

    @classmethod
    def _put_decision(cls, may: TableRights, sent: tuple[str, ...], restore: Restore, user: User | None) -> Decide:
        """What a caller with bounded rights, who has sent properties of these names, puts over the record that is there when it is written."""

        def decide(record: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
            may.check_over(sent, stored, user)
            kept = may.keep_forbidden(dict(record), stored)
            if stored is not None:
                kept = restore(stored, kept)
            cls.table.validator.require_all(kept)
            return kept

        return decide

    @classmethod
    def _patch(cls, target: RequestTarget, changes: dict[str, Any], request: Request) -> Awaitable[None] | None:
        transaction = cls.begin(request)
        may: TableRights = target.rights
        restore: Restore = request.restore or restore_json
        decide = deciding(restore)
        if not may.writes_all:

            def decide(changes: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
                may.check_over(changes, stored, user_of(request))
                return changes if stored is None else restore(stored, changes)

        changes = cls.table.validator.changes(changes, source=source_of(request))
        precondition = request.precondition
        assert precondition is None or type(precondition) is Precondition
        transaction.patch(cls.table, target.id, changes, precondition, decide=decide)
        return cls.commit(transaction, request)

    @classmethod
    def on_patch(cls, target: RequestTarget, data: Any, request: Request) -> Awaitable[None] | None:
        if target.id is None:
            raise cls.not_allowed("patch", target=target)
        changes = cls._one_record(data)
        changes.pop(cls.table.primary_key, None)
        return cls._patch(target, changes, request)

    @classmethod
    def put_property(cls, target: RequestTarget, name: str, value: Any, request: Request) -> Awaitable[None] | None:
        """Change one property only (http §2.5)."""
        cls.authorize("patch", target, {name: value}, request)
        return cls._patch(target, {name: value}, request)

    @classmethod
    def on_post(cls, target: RequestTarget, data: Any, request: Request) -> Any:
        if target.id is not None:
            raise cls.not_allowed("post", target=target)
        transaction = cls.begin(request)
        keys: list[Any] = []  # None: it is given one when it is written
        if isinstance(data, list):
            waiting = cls._commit_all(cls._create_each(transaction, data, keys, target, request), data, transaction, request)
        else:
            keys.append(cls._create(transaction, cls._one_record(data), target, request))
            waiting = cls.commit(transaction, request)
        if waiting is not None:
            return cls._created_later(waiting, transaction, keys, isinstance(data, list))
        return cls._created(transaction, keys, isinstance(data, list))

    @classmethod
    def _created(cls, transaction: Transaction, keys: list[Any], is_list: bool) -> Created:
        keys = transaction.with_assigned(keys)
        return Created(keys) if is_list else Created(keys[0], id_path(keys[0], cls.properties, untyped=cls.untyped_keys))

    @classmethod
    async def _created_later(cls, waiting: Awaitable[None], transaction: Transaction, keys: list[Any], is_list: bool) -> Created:
        await waiting
        return cls._created(transaction, keys, is_list)

    @classmethod
    def _create_each(
        cls, transaction: Transaction, records: list[Any], keys: list[Any], target: RequestTarget, request: Request
    ) -> Iterator[None]:
        """Appends the keys to `keys`."""
        check = cls._write_check(records, target, request)
        for number, record in enumerate(records):
            if not isinstance(record, dict):
                raise BadBody(f"Element {number} of the body is not an object")
            if check is not None:
                check(record)
            keys.append(cls._create(transaction, record, target, request))
            yield

    @classmethod
    def _create(cls, transaction: Transaction, record: dict[str, Any], target: RequestTarget, request: Request) -> Any:
        table = cls.table
        key = record.get(table.primary_key)
        if key in EMPTY_KEYS:  # there would be no address for it (http §1.3)
            key = None
        prefix = target.prefix or ""
        if key is not None:
            key = check_key(table.definition, key)
            if prefix and not str(key).startswith(prefix):
                key = check_key(table.definition, prefix + str(key))
        record[table.primary_key] = key
        return transaction.create(table, key, table.validator.record(record, source=source_of(request)), key_prefix=prefix)

    @classmethod
    def on_publish(cls, target: RequestTarget, data: Any, request: Request) -> Awaitable[None] | None:
        """A message to all who have subscribed to the record, or to the table; no record changes (applications §9)."""
        if target.prefix is not None:
            raise ClientError("A message goes to a record or to the table, not to the records below a prefix")
        transaction = cls.begin(request)
        transaction.publish(cls.table, target.id, data, source=source_of(request))
        return cls.commit(transaction, request)

    @classmethod
    def on_delete(cls, target: RequestTarget, data: Any, request: Request) -> Any:
        if target.is_root:
            raise cls.not_allowed("delete", target=target)
        transaction = cls.begin(request)
        if target.id is not None:
            precondition = request.precondition
            assert precondition is None or type(precondition) is Precondition
            transaction.delete(cls.table, target.id, precondition)
            return cls.commit(transaction, request)
        rows = cls.on_search(target, None, request)
        if rows.plan.select is not None or rows.plan.query.aggregate is not None:
            raise ClientError("DELETE takes conditions, sort and limit, but no select and nothing that counts")
        database = cls.table.database
        cls.store.queue_of(database).check()
        snapshot = database.snapshot()
        found = Found(database.log.newest_lsn(snapshot), still_found_by(rows.plan))
        steps = cls._delete_each(transaction, execute(rows.plan, snapshot), found)
        if not cls.store.slices.run(steps):
            return cls._delete_in_slices(steps, database.take_snapshot(), transaction, request)
        waiting = cls.commit(transaction, request)
        return _deleted(transaction) if waiting is None else cls._deleted_later(waiting, transaction)

    @classmethod
    def _delete_each(cls, transaction: Transaction, run: AnyRows, found: Found) -> Iterator[None]:
        """What `run` finds, as stored keys: records are not kept."""
        table = cls.table
        try:
            while not run.done:
                for stored, raw in run.step_pairs(DELETE_STEP):
                    transaction.delete_stored(table, stored, raw, found)
                yield
        finally:
            run.close()

    @classmethod
    async def _delete_in_slices(cls, steps: Iterator[None], snapshot: Txn, transaction: Transaction, request: Request) -> Response:
        try:
            await cls.store.slices.exhaust(steps)
        finally:
            snapshot.abort()
        waiting = cls.commit(transaction, request)
        if waiting is not None:
            await waiting
        return _deleted(transaction)

    @classmethod
    async def _deleted_later(cls, waiting: Awaitable[None], transaction: Transaction) -> Response:
        await waiting
        return _deleted(transaction)

    @classmethod
    def _one_record(cls, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            what = "nothing" if data is None else "a list" if isinstance(data, list) else "no object"
            raise BadBody(f"The body must be one object, it is {what}")
        return cast(dict[str, Any], data)


def _deleted(transaction: Transaction) -> Response:
    return Response(None, 204, pairs=[(DELETED_COUNT, str(transaction.deleted))])


def source_of(request: Request) -> str:
    """The kind of source that a request's body is to the validator."""
    return "native" if request.native_body else "json"


def table_resource(
    table: Table,
    store: Store,
    queries: QueryCache,
    *,
    path: str | None = None,
    allow_full_scan: bool = False,
    shows_record_count: bool = False,
    realtime: Realtime | None = None,
) -> type[TableResource]:
    """The resource class of `table`. `path`: its address, default the type's name. `realtime`: the source of its events, if it has any."""
    name = path if path is not None else (table.definition.export.path if table.definition.export else table.name)
    return type(
        table.name,
        (TableResource,),
        {
            "table": table,
            "store": store,
            "queries": queries,
            "realtime": realtime,
            "name": name,
            "allow_full_scan": allow_full_scan,
            "shows_record_count": shows_record_count,
            "is_system": table.database.name == SYSTEM,
            "text_keys": key_type(table.definition) in ("ID", "String") and not table.definition.split_segments,
            "untyped_keys": key_type(table.definition) == "Any",
            "properties": {a.name: a for a in table.definition.attributes},
        },
    )


def describe_attribute(attribute: Attribute) -> dict[str, Any]:
    """One element of `attributes` in a description (http §10.1)."""
    shown: dict[str, Any] = {"name": attribute.name, "attribute": attribute.name, "type": "array" if attribute.elements else attribute.type}
    if attribute.primary_key:
        shown["isPrimaryKey"] = True
    if attribute.required:
        shown["nullable"] = False
    if attribute.indexed:
        shown["indexed"] = True
    if attribute.elements:
        shown["elements"] = attribute.type
    if attribute.relationship is not None:
        relationship = attribute.relationship
        shown["relationship"] = {k: v for k, v in (("from", relationship.from_), ("to", relationship.to)) if v}
    if attribute.computed_from is not None:
        shown["computed"] = True
    if attribute.created_time:
        shown["assignCreatedTime"] = True
    if attribute.updated_time:
        shown["assignUpdatedTime"] = True
    if attribute.expires_at:
        shown["expiresAt"] = True
    if attribute.description:
        shown["description"] = attribute.description
    return shown
