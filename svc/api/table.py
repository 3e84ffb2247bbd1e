"""Classes of tables: `tables.Product` (spec: applications §3).

One class for each table of a server instance, made when it is first asked for. Applications call its verbs, or derive from it. What its verbs do by default is
what REST does on an exported table; calls of code are made with all rights.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from svc.api.administration import TableAdministration
from svc.api.caching import name_source, spelled
from svc.api.calls import Call
from svc.api.context import AnyContext, Context, context_of, current_context
from svc.api.instances import NOT_LOADED
from svc.api.records import FoundRecord, Record
from svc.api.resource import Resource
from svc.api.results import Results
from svc.api.subscriptions import Subscription, subscribe_to_table
from svc.api.target import RequestTarget, as_target, target_with
from svc.api.transactions import Transaction, open_transaction
from svc.api.verbs import split_arguments
from svc.auth.roles import ALL_RIGHTS, ON_ROWS, TableRights
from svc.auth.users import User
from svc.awaitables import Ready, is_waiting, ready, then
from svc.content.list_faults import ListFaults, named
from svc.errors import AccessViolation, BadBody, ClientError, RecordExists
from svc.query.execution import execute
from svc.query.functions import still_found_by
from svc.query.lasting_run import LastingRun
from svc.query.nodes import Select
from svc.query.plan import Plan
from svc.query.tables import rule_members
from svc.resources import PlannedQuery, TableResource
from svc.resources.table_writing import check_deleted, source_of
from svc.resources.target import id_path
from svc.store import Table as StoredTable
from svc.store.slices import run_now
from svc.store.snapshots import HeldSnapshot
from svc.store.values.conversion import EMPTY_KEYS, check_key
from svc.store.values.keys import encode_primary, storage_key
from svc.store.values.records import version_of
from svc.store.writing.transaction import LONG_WRITES
from svc.store.writing.write_set import RemovalReason

if TYPE_CHECKING:
    from svc.api.as_user import TableAsUser
    from svc.query.row_guard import RowGuard


class ClassProperty:
    """A property of the class. An instance whose record has an attribute of this name shows that instead."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None and self._name in owner._table.attributes:  # type: ignore[attr-defined]
            return instance.get_property(self._name)
        return self._function(owner)


class TableClass(ABCMeta):
    """The class of the classes of tables. That of a table is one for all code: what an application would set on it, others would find."""

    def __setattr__(cls, name: str, value: Any) -> None:
        _refuse_change(cls, name)
        super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        _refuse_change(cls, name)
        super().__delattr__(name)


def _refuse_change(cls: type, name: str) -> None:
    if not name.startswith("_") and cls.__dict__.get("_is_complete"):
        raise TypeError(f"the class of table {cls.__name__} cannot be changed: derive one from it")


class Table(TableAdministration, Resource, metaclass=TableClass):
    """`tables.Product`: a table as a resource. Its verbs are called on the class and awaited; a class derived from it overrides them.

    `target`: an id, a `RequestTarget`, or a query object.
    """

    _is_built_in = True
    _is_complete = False  # the class of a table is made
    _table: ClassVar[StoredTable]
    _served: ClassVar[type[TableResource]]
    _exported: ClassVar[Any] = None  # what answers at the address of a class of an application
    _validates: ClassVar[bool] = False  # a subclass has a `validate` of its own
    _says_what_is_stale: ClassVar[bool] = False  # the same of `allow_stale_while_revalidate`

    def __init_subclass__(cls, **options: Any) -> None:
        if "_is_built_in" not in cls.__dict__:
            cls._is_built_in = False
        super().__init_subclass__(**options)
        cls._validates = cls.validate is not Table.validate
        cls._says_what_is_stale = cls.allow_stale_while_revalidate is not Table.allow_stale_while_revalidate

    # --- what it is ------------------------------------------------------------------------------------------------------------------

    primary_key = ClassProperty(lambda cls: cls._table.primary_key)
    table_name = ClassProperty(lambda cls: cls._table.name)
    database_name = ClassProperty(lambda cls: cls._table.database.name)
    attributes = ClassProperty(lambda cls: cls._served._description(None)["attributes"])
    indices = ClassProperty(lambda cls: list(cls._table.indexes))
    audit = ClassProperty(lambda cls: cls._table.audit)
    sealed = ClassProperty(lambda cls: cls._table.definition.sealed)
    replicate = ClassProperty(lambda cls: getattr(cls._table.definition, "replicate", True))
    schema_defined = ClassProperty(lambda cls: not cls._table.definition.dynamic)
    split_segments = ClassProperty(lambda cls: cls._table.definition.split_segments)
    expiration_ms = ClassProperty(lambda cls: cls._table.expiry.duration_ms)
    is_caching = ClassProperty(lambda cls: cls._table.is_caching)

    # Names for annotations, `product: tables.Product.Record`: the stubs that `svc types` writes say what is in them (spec: applications §11).
    Record = ClassProperty(lambda cls: Record)
    Data = ClassProperty(lambda cls: dict)
    Changes = ClassProperty(lambda cls: dict)
    Query = ClassProperty(lambda cls: dict)
    Condition = ClassProperty(lambda cls: dict)

    # --- as a user -------------------------------------------------------------------------------------------------------------------

    @classmethod
    def as_user(cls, user: User | str | None) -> TableAsUser:
        """The table as `user` sees and writes it: by the rights of the user's role and the rules about rows. `user`: a user, as from `server.get_user`, or the
        name of one; None: an anonymous caller. Raises ClientError for a name that no active user has.

        `await tables.Issue.as_user("ann").get("7")`, `async for issue in tables.Issue.as_user(user).search({...})`.
        """

        from svc.api.as_user import TableAsUser

        return TableAsUser(cls, user)

    # --- sources -------------------------------------------------------------------------------------------------------------------------

    @classmethod
    def source_from(cls, source: Any, given: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        """Make the table a cache of `source`: a resource class, or an object with `get(id, context)` and perhaps `put`, `delete`, `subscribe` and others.

        `given`, `options`: a mapping or keyword arguments. `expiration`, `eviction`, `scan_interval`: seconds, as of `@table`. `intermediate_source`: it
        is asked before the canonical one. Raises ClientError for a second canonical source.
        """
        assert cls._interface is not None
        name_source(cls, cls._interface, source, spelled(given, options))

    sourced_from = sourcedFrom = sourceFrom = source_from

    # --- permission ------------------------------------------------------------------------------------------------------------------

    def _allow_by_default(self, verb: str, user: Any, data: Any, target: Any) -> bool:
        try:
            self._served.authorize(verb, as_target(target, self._table), data, Context(user))  # type: ignore[arg-type]
        except AccessViolation:
            return False
        return True

    @classmethod
    def _check_default(cls, verb: str, target: RequestTarget, data: Any, context: AnyContext) -> None:
        cls._served.authorize(verb, target, data, context)  # type: ignore[arg-type]

    # --- reading ---------------------------------------------------------------------------------------------------------------------

    def get(self, target: Any = None) -> Any:
        """The record, or None; of a collection or a query what `search` finds; of the resource itself its description."""
        cls, own = type(self), self.__dict__
        bound = own.get("_target")
        if (bound is not None and (target is None or target is bound)) or self._is_self(target):
            key = own["_id"]
            if key is None:
                return self._get_collection(own["_target"])
            raw = self._stored()
            if raw is not None:
                _note_version(own["_context"] or current_context(), version_of(raw))
            elif not own.get("_is_saving"):
                return Ready(None)
            return Ready(self)
        found = as_target(target, cls._table)
        if found.rights is None:
            rights = self._rights_of_code()
            found.rights = None if rights is ALL_RIGHTS else rights
        if found.id is None:
            return self._get_collection(found)
        return ready(cls._read(found, own["_context"] or current_context()))

    def _is_self(self, target: Any) -> bool:
        """Whether what is asked for is what the instance is bound to."""
        own = self.__dict__
        bound = own.get("_target")
        if bound is None and target is None and own["_id"] is not None:
            bound = own["_target"] = as_target(own["_id"], self._table)
        return bound is not None and (target is None or target is bound or not isinstance(target, RequestTarget))

    def _rights_of_code(self) -> TableRights:
        """What code may do that calls a verb with a target of its own: everything; as `super()` in a handler that a caller has called, of the rows that
        the caller may see and write (spec: rows §1.8)."""
        bound: RequestTarget | None = self.__dict__.get("_target")
        if bound is None or bound.rights is None or "_is_complete" in type(self).__dict__:
            return ALL_RIGHTS
        context = self.get_context()
        return ALL_RIGHTS if context is None or self._served.guard(bound, context) is None else ON_ROWS

    def _get_collection(self, target: RequestTarget) -> Any:
        if target.is_root and not target.query and target.is_plain:
            if target.rights is None or target.rights is ALL_RIGHTS:
                return ready(self._served.describe())
            seen = self._served.seen_by(self.get_context())
            return ready(self._served.describe(self._served.visible(target), is_whole=not rule_members(seen)))
        return self.search(target)

    @classmethod
    def _read(cls, target: RequestTarget, context: AnyContext | None) -> Any:
        """One record, or a selection of it."""
        table, key = cls._table, target.id
        if type(key) is not str or not cls._served.text_keys or not key.isascii():  # else it is one already
            key = check_key(table.definition, key)
        transaction = open_transaction(context)
        selects = (target.query and "select" in target.query) or (target.details is not None and "select" in target.details.given)
        if table.caching is not None:
            raw = cls._read_through(key, target, context, transaction, is_part=bool(selects))
            return then(raw, lambda raw: None if raw is None else cls._shown(raw, key, target, context, bool(selects)))
        raw = table.get_raw(key) if transaction is None else transaction.read_raw(table, key)
        if type(raw) is not bytes and is_waiting(raw):
            return then(raw, lambda raw: None if raw is None else cls._shown(raw, key, target, context, bool(selects)))
        return None if raw is None else cls._shown(raw, key, target, context, bool(selects))

    @classmethod
    def _shown(cls, raw: bytes, key: Any, target: RequestTarget, context: AnyContext | None, selects: bool) -> Any:
        if target.rights is not None:
            if not cls._is_seen(raw, target, context):
                if cls._table.caching is not None:
                    cls._table.caching.refuse_hidden(target, context)
                return None
            if target.rights is not ON_ROWS:
                _note_version(context, version_of(raw))
            selects = selects and (
                context is None or context.state.target is not target
            )  # the protocol selects from what its request addresses
        return cls._select(target, key, context) if selects else FoundRecord(cls._table, raw, context)

    @classmethod
    def _is_seen(cls, raw: bytes, target: RequestTarget, context: AnyContext | None) -> bool:
        """Whether a record is there for the caller whose rights count: as what is read in the transaction says."""
        rows = None if context is None else cls._served.guard(target, context)
        if rows is None:
            return True
        assert context is not None
        context.is_narrowed = True
        table, transaction = cls._table, open_transaction(context)
        txn = table.database.snapshot() if transaction is None else transaction.reading(table.database)
        return rows.can_see(table, txn, storage_key(encode_primary(table.key_of(raw))), raw)

    @classmethod
    def _read_through(
        cls, key: Any, target: RequestTarget | None, context: AnyContext | None, transaction: Transaction | None, *, is_part: bool = False
    ) -> Any:
        """The stored record of a table with a source, loaded if it has to be, or an awaitable of it."""
        table = cls._table
        if transaction is not None and transaction.has_written(table, key):
            return transaction.get_raw(table, key)
        if not is_part:
            snapshot = None if transaction is None else transaction.snapshot(table.database)
            return table.caching.read(key, target, context, snapshot, rules=cls if cls._says_what_is_stale else None)

        def loaded(raw: bytes | None) -> bytes | None:
            if transaction is not None:
                transaction.reset_read_snapshot()  # what was loaded is newer
            return raw

        return then(table.caching.load_stored(key, target, context, rules=cls if cls._says_what_is_stale else None), loaded)

    def _load_first(self, verb: str) -> Any:
        return self._load() if verb == "get" and self._id is not None and self._table.caching is not None else None

    def _load(self) -> Any:
        """Have the record of a table with a source loaded; an awaitable if that takes longer."""
        context = self.get_context()
        target = self._target if isinstance(self._target, RequestTarget) else None
        raw = self._read_through(self._id, target, context, open_transaction(context))
        if is_waiting(raw):
            return then(raw, self._take_loaded)
        self._take_loaded(raw)
        return None

    def _take_loaded(self, raw: bytes | None) -> Table:
        if raw is not None and self._rows is not None and not self._is_there(raw, open_transaction(self.get_context())):
            self._table.caching.refuse_hidden(self._target, self.get_context())
            raw = None
        self.__dict__["_raw"] = raw
        if not self._changes:
            self.__dict__["_values"] = None
        return self

    def ensure_loaded(self) -> Awaitable[Any]:
        """Have the record of a table with a source loaded, if it is not here or is stale: `await self.ensure_loaded()`."""
        if self._id is None or self._table.caching is None:
            return Ready(self)
        loading = self._load()
        return Ready(self) if loading is None else loading

    def allow_stale_while_revalidate(self, entry: Any, id: Any, /) -> bool:
        """Whether a stale record, `entry`, with the key `id`, is served while it is loaded behind the answer. For tables with a source; subclasses say
        otherwise."""
        return False

    @classmethod
    def _select(cls, target: RequestTarget, key: Any, context: AnyContext | None) -> Any:
        return cls._selection(target, key, context, target.query_for(cls._table).select)

    @classmethod
    def _select_object(cls, target: RequestTarget, key: Any, context: AnyContext | None) -> Any:
        """The selection of a record as an object, whatever shape it is to have."""
        select = target.query_for(cls._table).select
        return cls._selection(target, key, context, None if select is None else replace(select, shape="object"))

    @classmethod
    def _selection(cls, target: RequestTarget, key: Any, context: AnyContext | None, select: Select | None) -> Any:
        only = as_target({"conditions": [{"attribute": cls._table.primary_key, "value": key}]}, cls._table)
        only.rights = target.rights

        def plan() -> PlannedQuery:
            query = only.query_for(cls._table)
            query.select = select
            return cls._served.planned(query, only, context or Context(), 0.0, True)  # type: ignore[arg-type]

        if only.rights is None:
            only.rights = ALL_RIGHTS
        return Results(plan, context).first()

    def search(self, target: Any = None) -> Any:
        """The records that a query finds: awaited or iterated."""
        cls = type(self)
        found = self._target if target is None and self._target is not None else as_target(target, cls._table)
        is_own = found.rights is None
        if is_own:
            found.rights = self._rights_of_code()
        if is_own or found.rights is ON_ROWS:
            return cls._search_as_code(found, self.get_context())
        return cls._search(found, self.get_context())

    @classmethod
    def _search(cls, target: RequestTarget, context: AnyContext | None) -> Results[Any]:
        if target.rights is None:
            target.rights = ALL_RIGHTS
            return cls._search_as_code(target, context)
        return Results(partial(cls._plan, target, context, None), context, cls._load_for(target))

    @classmethod
    def _search_as_code(cls, target: RequestTarget, context: AnyContext | None) -> Results[Any]:
        """A search that needs no index, unless it says so."""
        allow = target.option("allow_full_scan")
        plan = partial(cls._plan, target, context, True if allow is None else bool(allow))
        return Results(plan, context, cls._load_for(target))

    @classmethod
    def _search_checked(cls, target: RequestTarget, context: AnyContext) -> Results[Any]:
        """The same by the rights of the user of the context, which are asked for when the query is planned."""

        def plan() -> PlannedQuery:
            cls._check_default("get", target, None, context)
            allow = target.option("allow_full_scan")
            return cls._plan(target, context, True if allow is None else bool(allow))

        return Results(plan, context, cls._load_for(target))

    @classmethod
    def _load_for(cls, target: RequestTarget) -> Any:
        """What loads the records that a query finds of a table with a source; None: it has none."""
        caching = cls._table.caching
        return None if caching is None else partial(caching.find, target=target)

    @classmethod
    def _plan(cls, target: RequestTarget, context: AnyContext | None, allow_full_scan: bool | None) -> PlannedQuery:
        served: Any = cls._served
        request = Context() if context is None else context
        if allow_full_scan is None and target.is_plain:
            return served.on_search(target, None, request)  # type: ignore[no-any-return]
        began = served.store.clock.monotonic()
        return served.planned(target.query_for(cls._table), target, request, began, allow_full_scan)  # type: ignore[no-any-return]

    def query(self, data: Any, target: Any = None) -> Any:
        """The records that a query object finds."""
        found = as_target(data, self._table)
        if target is not None:
            found.rights = target.rights
        return self.search(found)

    # --- writing ---------------------------------------------------------------------------------------------------------------------

    def _of_write(self, target: Any) -> tuple[RequestTarget, Any, AnyContext]:
        """(target, context for the store's checks, context) of a write. A call of code has all rights, and values with Python's own types."""
        context = self._writing_context()
        if self._is_self(target):
            found: RequestTarget = self._target
        else:
            found = as_target(target, self._table)
        if found.rights is None:
            found.rights = self._rights_of_code()
            own = Context.within(context)
            own.precondition = _transaction_of(context).precondition(self._table, found.id)
            return found, own, context
        if found is not context.state.target:
            return found, Context.within(context), context
        return found, context, context

    def put(self, data: Any, target: Any = None) -> Any:
        """Store a record in place of what was there. A list on the collection stores each element."""
        found, request, context = self._of_write(target)
        table = self._table
        if isinstance(data, list) and found.id is None:
            return self._all(self._put_each(data, found, request, context), len(data), None, context)
        what = _what(found, context)
        record = _record(data, what)
        key = check_key(table.definition, _required_key(record, table, what) if found.id is None else found.id)
        return self._admitted(context, lambda: self._put_one(found, key, record, request, context))

    def _put_each(self, data: list[Any], target: RequestTarget, request: Any, context: AnyContext) -> Iterator[None]:
        table = self._table
        faults: ListFaults | None = None
        for number, element in enumerate(data):
            try:
                record = _element(element, number, target, context)
                key = check_key(table.definition, _required_key(record, table, f"Element {number}"))
                self._put_one(target, key, record, request, context)
            except ClientError as error:
                faults = faults or ListFaults(data, table, context, source_of(request))
                faults.add(number, error)
                if faults.is_full:
                    break
            yield
        if faults is not None:
            raise faults.error()

    def _all(self, steps: Iterator[None], count: int, result: Any, context: AnyContext) -> Any:
        """`result` once all steps are taken: at once if they are few, else in slices, with others served in between. If one fails, nothing of it is written."""
        if count > LONG_WRITES:
            return self._in_slices(steps, result, context)
        return self._admitted(context, lambda: _exhausted(steps, result))

    async def _in_slices(self, steps: Iterator[None], result: Any, context: AnyContext) -> Any:
        transaction = _transaction_of(context)
        start = transaction.writes.size
        try:
            await self._served.store.slices.exhaust(steps)
            admitting = transaction.admit(self._table, start)
            if admitting is not None:
                await admitting
        except BaseException as error:
            transaction.fail(error)  # other calls may have written in between
            raise
        return result

    def _admitted(self, context: AnyContext, write: Callable[[], Any]) -> Any:
        """What `write` returns, once what it has written has been tested (spec: applications §3.1). What it raises leaves nothing of that."""
        transaction, state = _transaction_of(context), context.state
        start, created = transaction.writes.size, (state.created_resource, state.new_location)
        try:
            result = write()
            admitting = transaction.admit(self._table, start)
        except BaseException:
            transaction.writes.forget_from(start)
            state.created_resource, state.new_location = created
            raise
        return Ready(result) if admitting is None else then(admitting, lambda _: result)

    def _put_one(self, target: RequestTarget, key: Any, record: dict[str, Any], request: Any, context: AnyContext) -> None:
        transaction = _transaction_of(context)
        transaction.discard_changes(self._table, key)
        self._check_later(context, record, partial=False)
        self._served.put_in(transaction.writes, key, record, target, request)
        self._forget(context, key)

    def patch(self, data: Any, target: Any = None) -> Any:
        """Change these properties of the record and leave the others. Makes the record if there is none."""
        found, request, context = self._of_write(target)
        if found.id is None:
            raise ClientError(f"PATCH of {type(self).__name__} needs the id of a record")
        changes = _record(data, _what(found, context))
        changes.pop(self._table.primary_key, None)
        key = found.id = check_key(self._table.definition, found.id)
        self._check_later(context, changes, partial=True)
        self._forget(context, key)
        return self._admitted(context, lambda: self._served.patch_in(_transaction_of(context).writes, found, changes, request))

    def post(self, data: Any, target: Any = None) -> Any:
        """Create a record in the collection; a list creates each element. On a record there is nothing to post by default."""
        found, request, context = self._of_write(target)
        if found.id is not None:
            raise self._served.not_allowed("post", target=found)
        if not isinstance(data, list):
            record = _record(data, _what(found, context))
            return self._admitted(context, lambda: self._create_one(record, found, request, context))
        created: list[Table] = []
        return self._all(self._create_each(data, created, found, request, context), len(data), created, context)

    def _create_each(
        self, data: list[Any], created: list[Table], target: RequestTarget, request: Any, context: AnyContext
    ) -> Iterator[None]:
        faults: ListFaults | None = None
        may: TableRights = target.rights
        is_checked = may.attributes is None or len(data) <= LONG_WRITES  # by `authorize`
        for number, element in enumerate(data):
            try:
                record = _element(element, number, target, context)
                if not is_checked:
                    self._served.check_element([record], 0, True, may, request)
                created.append(self._create_one(record, target, request, context, number))
            except RecordExists:
                if faults is None:
                    raise
            except ClientError as error:
                faults = faults or ListFaults(data, self._table, context, source_of(request))
                faults.add(number, error)
                if faults.is_full:
                    break
            context.state.new_location = None  # one address for several there is not
            yield
        if faults is not None:
            raise faults.error()

    def create(self, data: Any, target: Any = None) -> Any:
        """Create a record under a new key, or under the one it has; returns it. Raises RecordExists for a key that is taken."""
        found, request, context = self._of_write(target)
        if found.id is not None:  # what new keys begin with
            found.prefix, found.id = str(found.id), None
        record = _record(data, _what(found, context))
        return self._admitted(context, lambda: self._create_one(record, found, request, context))

    def _create_one(
        self, record: dict[str, Any], target: RequestTarget, request: Any, context: AnyContext, number: int | None = None
    ) -> Table:
        """`number`: of the element in a list."""
        table = self._table
        if record.get(table.primary_key, "") in EMPTY_KEYS or record[table.primary_key] is None:
            record.pop(table.primary_key, None)
            if table.has_sequence:
                record[table.primary_key] = table.new_key()
        transaction = _transaction_of(context)
        self._check_later(context, record, partial=False)
        given = record.get(table.primary_key)
        if given is not None and not target.prefix and transaction.get_raw(table, check_key(table.definition, given)) is not None:
            raise named(RecordExists(), given, number, (), context)
        key = self._served.create_in(transaction.writes, record, target, request)
        state = context.state
        if state.owner is table:
            state.new_location = id_path(key, self._served.properties, untyped=self._served.untyped_keys)
            state.created_resource = True
        self._forget(context, key)
        created = type(self)(key, context)
        created.__dict__["_values"] = {**table.validator.complete(record, is_new=True), table.primary_key: key}
        return created

    def delete(self, target: Any = None) -> Any:
        """Delete the record, or all that a query finds. True, also if nothing was there."""
        found, request, context = self._of_write(target)
        if found.id is None:
            if found.is_root and found.is_plain:
                raise self._served.not_allowed("delete", target=found)
            return self._delete_found(found, request, context)
        key = check_key(self._table.definition, found.id)
        transaction = _transaction_of(context)
        transaction.discard_changes(self._table, key)
        transaction.writes.delete(self._table, key, request.precondition, rows=self._served.guard(found, request))
        self._forget(context, key)
        return Ready(True)

    def _delete_found(self, target: RequestTarget, request: Any, context: AnyContext) -> Any:
        rows = self._plan(target, context, None if target is context.state.target else True)
        is_query = target.query is not None or (target.details is not None and target is not context.state.target)
        check_deleted(target.query_for(self._table), (target.query or "") if is_query else None)
        transaction = _transaction_of(context)
        preview = transaction.preview(self._table.database)
        return then(preview, partial(self._delete_previewed, rows.plan, transaction, self._served.guard(target, request)))

    def _delete_previewed(self, plan: Plan, transaction: Transaction, guard: RowGuard | None, preview: HeldSnapshot) -> Any:
        """Delete what the query finds in what the transaction sees."""
        table, served = self._table, self._served
        try:
            snapshot = preview.use()
            found = RemovalReason(table.database.log.newest_lsn(snapshot), still_found_by(plan))
            run = execute(plan, snapshot)
            steps = served.delete_each(transaction.writes, run, found, guard)
            if served.store.slices.run(steps):
                return Ready(True)
            return self._delete_in_slices(
                steps, LastingRun(run, table.database, lambda: f"a deletion of records of {table.name} by an application", preview)
            )
        finally:
            preview.abort()

    async def _delete_in_slices(self, steps: Iterator[None], lasting: LastingRun) -> bool:
        try:
            await self._served.store.slices.exhaust(lasting.steps(steps))
        finally:
            lasting.close()
        return True

    def update(self, changes: Any = None, target: Any = None) -> Any:
        """On an instance: from now on its changes are saved; `changes` are merged. On the class, `update(id)` or `update(id, changes)`: the instance."""
        if target is not None and target is not self._target:
            return Ready(self._update_at(as_target(target, self._table), changes))
        return self._update_self(changes)

    def _update_at(self, target: RequestTarget, changes: Any) -> Table:
        context = self._writing_context()
        if target.id is None:
            raise ClientError(f"{type(self).__name__}.update needs the id of a record")
        target.id = check_key(self._table.definition, target.id)
        instance: Any = type(self)._bind(target, context)
        return instance._update_self(changes)  # type: ignore[no-any-return]

    def _update_self(self, changes: Any) -> Table:
        self._start_saving()
        if changes is not None:
            for name, value in _record(changes, "The changes").items():
                if name != self._table.primary_key:
                    self.set(name, value)
        return self

    def publish(self, message: Any, target: Any = None) -> Any:
        """Send a message to the subscribers of the record, or of the table. No record changes."""
        found, request, context = self._of_write(target)
        if found.prefix is not None:
            raise ClientError("A message goes to a record or to the table, not to the records below a prefix")
        key = None if found.id is None else check_key(self._table.definition, found.id)
        source = "native" if request.native_body else "json"
        _transaction_of(context).writes.publish(self._table, key, message, source=source, rows=self._served.guard(found, request))
        return Ready(None)

    def subscribe(self, request: Any = None, **options: Any) -> Subscription:
        """The events of the record, of those below it, or of the table: first what is there, then what is committed. Options: those of a query that speak of
        single records, and `target.SUBSCRIPTION_OPTIONS`."""
        cls = type(self)
        bound = self._target if request is None and self._target is not None else request
        return subscribe_to_table(cls._served, cls._own_interface(), target_with(bound, options, cls._table), self.get_context())

    def invalidate(self, target: Any = None) -> Any:
        """Say that what is known of the record does not hold any more."""
        found, _, context = self._of_write(target)
        if found.id is None:
            raise ClientError(f"{type(self).__name__}.invalidate needs the id of a record")
        _transaction_of(context).writes.invalidate(self._table, check_key(self._table.definition, found.id))
        return Ready(None)

    # --- rules of subclasses -----------------------------------------------------------------------------------------------------------

    def validate(self, record: Mapping[str, Any], partial: bool = False) -> Any:
        """Check `record` before it is committed; `partial`: it has only the properties that change. Subclasses add rules: raise ClientError. May be async."""
        check = self._table.validator.changes if partial else self._table.validator.record
        check(dict(record), source="native")

    def _check_later(self, context: AnyContext, record: dict[str, Any], *, partial: bool) -> None:
        if self._validates:
            transaction = _transaction_of(context)
            if transaction.before_commit is None:
                transaction.before_commit = []
            transaction.before_commit.append(lambda: self.validate(dict(record), partial))

    def _check_changes(self, changes: dict[str, Any]) -> None:
        if self._validates:
            self._check_later(self._writing_context(), changes, partial=True)

    def _forget(self, context: AnyContext, key: Any) -> None:
        """Instances of the record have to read it again."""
        instances = _transaction_of(context).instances
        cascades = bool(instances) and _transaction_of(context).writes.may_cascade
        for (_, known), instance in (instances or {}).items():
            if (cascades or (known == key and instance._table is self._table)) and not instance._changes:
                instance.__dict__["_raw"], instance.__dict__["_values"] = NOT_LOADED, None


def _transaction_of(context: AnyContext | None) -> Transaction:
    transaction = open_transaction(context)
    if transaction is None:
        raise RuntimeError("there is no open transaction: await the class's own method, or use transaction()")
    return transaction


def _exhausted(steps: Iterator[None], result: Any) -> Any:
    run_now(steps)
    return result


def _note_version(context: AnyContext | None, version: float) -> None:
    """The version of what is read becomes the entity tag of the answer, unless more than one record is."""
    if context is not None:
        known = context._last_modified
        context._last_modified = version if known is None or known < version else known


def _record(data: Any, what: str) -> dict[str, Any]:
    if isinstance(data, Table):
        return data._answer()
    if isinstance(data, dict):
        return dict(data) if not hasattr(data, "columns") else data
    if isinstance(data, Mapping):
        return {**data}
    raise BadBody(f"{what} must be one object, not {'null' if data is None else 'a list' if isinstance(data, list) else 'a single value'}")


def _what(target: RequestTarget, context: AnyContext) -> str:
    """What messages call the data of a write."""
    return "The body" if target is context.state.target else "The data"


def _element(element: Any, number: int, target: RequestTarget, context: AnyContext) -> dict[str, Any]:
    if not isinstance(element, Mapping | Table):
        raise BadBody(f"Element {number} of {_what(target, context).lower()} is not an object")
    return _record(element, "")


def _required_key(record: Mapping[str, Any], table: StoredTable, what: str) -> Any:
    key = record.get(table.primary_key, "")
    if key in EMPTY_KEYS:
        raise ClientError(f"{what} has no {table.primary_key}")
    return key


def _search_now(owner: type[Table], arguments: tuple[Any, ...], options: dict[str, Any], context: Any) -> Any:
    """`T.search(q)`: nothing has to be awaited to begin to iterate."""
    target, _ = split_arguments("search", owner, arguments, options)
    if target.id is not None:
        raise TypeError(f"{owner.__name__}.search takes a query, not an id: a record is read with get(id)")
    return _search_of_class(owner, target, current_context() if context is None else context_of(context))


def _get_now(owner: type[Table], arguments: tuple[Any, ...], options: dict[str, Any], context: Any) -> Any:
    """`T.get(id)` without the making of an instance."""
    if len(arguments) == 1 and isinstance(arguments[0], RequestTarget) and arguments[0].id is not None and not options and context is None:
        return ready(_read_of_class(owner, arguments[0], current_context()))  # `super().get(target)` of a handler
    target, _ = split_arguments("get", owner, arguments, options)
    within = current_context() if context is None else context_of(context)
    if target.id is None:
        if target.is_root or "search" in owner._own_verbs:
            return Call(_get_of_class, (owner, target, within), 3)
        return _search_of_class(owner, target, within)
    return Call(_read_of_class, (owner, target, within), 3)


def _is_checked(target: RequestTarget, context: AnyContext | None) -> bool:
    """Whether a call of code is checked like one of a protocol, and was not yet."""
    if target.check_permission:
        return True
    return target.rights is None and context is not None and context._state is not None and context._state.authorize


def _search_of_class(owner: type[Table], target: RequestTarget, context: AnyContext | None) -> Any:
    if not _is_checked(target, context):
        return owner._search(target, context)
    own = context or Context()
    if not owner._own_rights:
        return owner._search_checked(target, own)
    search = owner._verbs["search"]
    return Call(lambda: then(owner._check_permission(search, target, None, own), lambda _: owner._search(target, own)), (), 4)


def _get_of_class(owner: type[Table], target: RequestTarget, context: AnyContext | None) -> Any:
    return owner(None, context)._get_collection(target)


def _read_of_class(owner: type[Table], target: RequestTarget, context: AnyContext | None) -> Any:
    if _is_checked(target, context):
        return then(
            owner._check_permission(owner._verbs["get"], target, None, context or Context()), lambda _: owner._read(target, context)
        )
    return owner._read(target, context)


def _make_direct(cls: type[Resource]) -> None:
    cls._direct_calls = {"search": _search_now, "get": _get_now}


_make_direct(Table)
