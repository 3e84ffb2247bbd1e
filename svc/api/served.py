"""A class of an application as a resource that protocols call (spec: applications §2, §8).

    permission -> handler -> its result as an answer -> commit

Each call runs in a transaction of its own. A plain handler is answered in the same turn, without a task and without a future.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, cast

from svc.api.calls import each
from svc.api.connecting import Connection
from svc.api.context import current_context, enter, leave
from svc.api.instances import NOT_LOADED, Instance
from svc.api.readable import of_instance, readable
from svc.api.records import FoundRecord, Record
from svc.api.resource import Resource
from svc.api.results import Items, Results
from svc.api.table import Table
from svc.api.target import ParameterTarget, RequestTarget, as_target, check_parameters, for_application, with_parameters
from svc.api.transactions import Transaction, shared_transaction
from svc.api.verbs import WITH_DATA, Verb
from svc.auth.roles import OPENED, TableRights
from svc.awaitables import is_waiting, settled, then
from svc.errors import ClientError, NotFound, ServerError
from svc.http.media_types import encode_text
from svc.http.raw_content import is_raw_content
from svc.http.row_stream import narrow
from svc.loop import contained
from svc.messages import AppliedWrites, Request, Response
from svc.query.explain import explain
from svc.resources import CreatedRecords, PlannedQuery, StoredRecord, TableResource
from svc.resources import RequestTarget as ProtocolTarget
from svc.resources import Resource as ProtocolResource
from svc.resources.resource import CONNECTING, NullableValue, StreamedItems
from svc.resources.table_writing import DELETED_COUNT
from svc.store import Table as StoredTable
from svc.store.values.records import decode
from svc.store.writing.commit import wait_committed

_READING = frozenset(("get", "search", "query"))


class _CodeResource(ProtocolResource):
    """What resources with and without a table share."""

    application: ClassVar[type[Resource]]
    store: ClassVar[Any] = None  # of a table

    @classmethod
    def is_same(cls, other: type[ProtocolResource]) -> bool:
        another = getattr(other, "application", None)
        if another is None:
            return False
        own = cls.application
        return (another.__module__, another.__qualname__) == (own.__module__, own.__qualname__)

    @classmethod
    def set_parameters(cls, target: ProtocolTarget, values: Mapping[str, str]) -> None:
        with_parameters(target, values)
        key = values.get("id")
        if key is not None and not target.id_text:  # what is addressed, if nothing follows
            target.id_text, target.is_collection, target.is_root = key, False, False
            cls.bind(target)

    @classmethod
    def set_subscription_options(cls, target: ProtocolTarget, options: Mapping[str, Any]) -> None:
        found = for_application(target)
        for name, value in options.items():
            setattr(found, name, value)

    @classmethod
    def handle(cls, verb: str, target: ProtocolTarget, data: Any, request: Request) -> Any:
        application = cls.application
        found = application._verbs.get(verb)
        if verb not in cls.verbs or found is None:
            raise cls.not_allowed(verb, request.method if verb in CONNECTING else "", target=target)
        if verb in CONNECTING:
            return Connection(application, found, for_application(target), request, cls._visible).open(data)
        if not application._own_rights:
            application._check_default(verb, cast(RequestTarget, target), data, request)
        return cls.call_handler(found, for_application(target), data, request)

    @classmethod
    def call_handler(cls, verb: Verb, target: RequestTarget, data: Any, request: Request) -> Any:
        """Ask the rights that are the application's own, run the handler in its transaction, and commit: its answer, or an awaitable of it. Those that roles
        decide have been looked at."""
        if request._state is not None:
            shared = shared_transaction(request)
            if shared is not None:
                return cls._take_part(shared, verb, target, data, request)
        application, state = cls.application, request.state
        transaction = Transaction(cls.store or application._store(), request)
        state.transaction = transaction
        state.owner = application._table
        state.handler = verb
        state.target = target
        token = enter(request)
        try:
            allowed = settled(application._check_permission(verb, target, data, request)) if application._own_rights else None
            if allowed is not None and is_waiting(allowed):
                transaction.is_lasting = True
                return cls._finish_later(cls._call_when_allowed(allowed, verb, target, data, request), transaction, target, request)
            result = (verb.call if state.spans is None else partial(cls._call_traced, verb))(application, target, data, request)
            if type(result) is not FoundRecord:
                result = settled(result)
            if is_waiting(result):
                transaction.is_lasting = True
                return cls._finish_later(result, transaction, target, request)
            answer = cls._answer(result, target, request)
            if transaction.has_work:
                waiting = transaction.apply()
                if waiting is not None:
                    return cls._finish_applied(waiting, answer, transaction, request)
                if verb.name == "delete":
                    answer = _counted(answer, target, transaction)
            if type(answer) is not StoredRecord and is_waiting(answer):
                return cls._finish_applied(None, answer, transaction, request)
            transaction.close()
            return answer if request.pending_commit is None else _behind(answer, request)
        except BaseException as error:
            transaction.abort()
            transaction.close()
            raise contained(error, "the handler")
        finally:
            leave(token)

    @classmethod
    def _caller(cls, verb: Verb, request: Request) -> Callable[..., Any]:
        """What calls the handler: in a span of its own if the request is traced."""
        return verb.call if request.state.spans is None else partial(cls._call_traced, verb)

    @staticmethod
    def _call_traced(verb: Verb, application: type[Resource], target: RequestTarget, data: Any, request: Request) -> Any:
        """`verb.call` in a span of its own."""
        spans = request.state.spans
        assert spans is not None
        return spans.call(f"{application.__name__}.{verb.name}", lambda: settled(verb.call(application, target, data, request)))

    @classmethod
    async def _take_part(cls, transaction: Transaction, verb: Verb, target: RequestTarget, data: Any, request: Request) -> Any:
        """A call within a transaction that others take part in. What it writes is collected when it has returned, and not committed."""
        application, state = cls.application, request.state
        state.owner, state.handler, state.target = application._table, verb, target
        state.response = state.new_location = transaction.instances = None
        state.created_resource = False
        token = enter(request)
        try:
            with application._own_interface().running.run(verb, f"{request.method} {request.target[:200]}"):
                if application._own_rights:
                    allowed = settled(application._check_permission(verb, target, data, request))
                    if is_waiting(allowed):
                        await allowed
                result = settled(cls._caller(verb, request)(application, target, data, request))
                while is_waiting(result):
                    result = settled(await result)
            answer = cls._answer(result, target, request)
            collected = transaction.collect_changes()
            if collected is not None:
                await collected
            return await answer if is_waiting(answer) else answer
        except BaseException as error:
            raise contained(error, "the handler")
        finally:
            leave(token)

    @classmethod
    def permit(cls, verb: str, target: ProtocolTarget, request: Request) -> Any:
        application = cls.application
        found = application._verbs.get(verb)
        if verb not in cls.verbs or found is None:
            raise cls.not_allowed(verb, target=target)
        token = enter(request)
        try:
            allowed = settled(application._check_permission(found, for_application(target), None, request))
        finally:
            leave(token)
        return cls._permit_later(allowed, request) if is_waiting(allowed) else None

    @classmethod
    async def _permit_later(cls, allowed: Awaitable[Any], request: Request) -> None:
        token = enter(request)
        try:
            await allowed
        finally:
            leave(token)

    @classmethod
    async def _call_when_allowed(cls, allowed: Awaitable[Any], verb: Verb, target: RequestTarget, data: Any, request: Request) -> Any:
        await allowed
        result = settled(cls._caller(verb, request)(cls.application, target, data, request))
        return settled(await result) if is_waiting(result) else result

    @classmethod
    async def _finish_later(cls, result: Awaitable[Any], transaction: Transaction, target: RequestTarget, request: Request) -> Any:
        token = enter(request)
        try:
            with cls.application._own_interface().running.run(request.state.handler, f"{request.method} {request.target[:200]}"):
                found = settled(await result)
                while is_waiting(found):
                    found = settled(await found)
            answer = cls._answer(found, target, request)
            waiting = transaction.apply()
            if waiting is not None:
                await waiting
            answer = await answer if is_waiting(answer) else answer
            answer = _counted(answer, target, transaction) if request.method == "DELETE" else answer
        except BaseException as error:
            transaction.abort()
            raise contained(error, "the handler")
        finally:
            transaction.close()
            leave(token)
        answer = _behind(answer, request)
        return await answer if is_waiting(answer) else answer

    @classmethod
    async def _finish_applied(cls, waiting: Awaitable[None] | None, answer: Any, transaction: Transaction, request: Request) -> Any:
        try:
            if waiting is not None:
                await waiting
            answer = await answer if is_waiting(answer) else answer
        finally:
            transaction.close()
        answer = _behind(answer, request)
        return await answer if is_waiting(answer) else answer

    @classmethod
    def prepare_connect(cls, target: ProtocolTarget, request: Request) -> Any:
        """Rights are asked for once, by `handle`."""
        if CONNECTING.isdisjoint(cls.verbs):
            raise cls.not_allowed("connect", request.method, target=target)
        return None

    # --- answers ---------------------------------------------------------------------------------------------------------------------

    @classmethod
    def _visible(cls, target: RequestTarget) -> frozenset[str] | None:
        """The attributes that the caller may read, None: all."""
        return None

    @classmethod
    def _answer(cls, result: Any, target: RequestTarget, request: Request) -> Any:
        """What a handler returned in a form that protocols know, or an awaitable of it."""
        state = request._state
        assert state is not None
        if state.created_resource:
            if isinstance(result, Instance):
                result = result.get_id()
            elif type(result) is list:
                result = [each.get_id() if isinstance(each, Instance) else each for each in result]
            if not isinstance(result, Response):
                if state.response is not None:
                    _add_headers(request, state.response)
                return CreatedRecords(cls._plain(result, target), state.new_location or "")
        answer = cls._plain(result, target)
        if (response := state.response) is not None and not isinstance(answer, Response):
            return then(answer, lambda value: cls._with_response(value, response, target, request))
        return answer

    @classmethod
    def _with_response(cls, answer: Any, response: Response, target: RequestTarget, request: Request) -> Any:
        """An answer with the status and the header fields that `get_response()` was given."""
        if response.status == 200 and not any(response.headers.has(name) for name in _OF_ANSWERS):
            _add_headers(request, response)
            return answer
        kind = type(answer)
        if kind is PlannedQuery or kind is StreamedItems:
            raise ServerError("get_response() cannot change the answer of a search or of a stream: return Response(data=a list)")
        if kind is StoredRecord:
            if target.property is None and target.query and "select" in target.query and answer.table is cls.application._table:
                whole = RequestTarget()
                whole.query, whole.rights = target.query, target.rights
                found = cast(type[Table], cls.application)._select(whole, target.id, request)
                return then(found, lambda value: _filled(response, value))
            answer = decode(answer.raw) if answer.visible is None else narrow(decode(answer.raw), answer.visible)
            kind = dict
        if kind is dict and target.property is not None and cls.store is not None:
            if target.property not in answer:
                raise NotFound("Record has no such property")
            answer = answer[target.property]
        elif kind is NullableValue:
            answer = answer.value
        elif answer is True and request.method == "DELETE":
            answer, response.status = None, 204 if response.status == 200 else response.status
        return _filled(response, answer)

    @classmethod
    def _plain(cls, result: Any, target: RequestTarget) -> Any:
        kind = type(result)
        if kind is RequestTarget or kind is ParameterTarget:
            return str(result)  # not what the server knows of it
        if kind is Results:
            planned = result.ready()
            go_on = partial(cls._of_search, result, target)
            return then(planned, go_on) if is_waiting(planned) else go_on(planned)
        if kind is FoundRecord:
            return cls._found_record(result, target)
        if kind is Record:
            return cls._record(result, target)
        if isinstance(result, Instance):
            return cls._instance(result, target)
        visible = cls._visible(target)
        shown = None if visible is None else partial(readable, table=cls.application._table, visible=visible)
        if shown is not None:
            result = shown(result)
        if kind is dict and is_raw_content(result):
            body, content_type = result["data"], result["contentType"]
            if isinstance(body, str):
                body, content_type = encode_text(body, content_type)
            return Response(body, headers={"Content-Type": content_type})
        if kind is Response or kind is dict or kind is str or kind is list or result is None:
            return result
        if isinstance(result, Items):
            result._prepare()
        if hasattr(result, "__aiter__"):
            return StreamedItems(_in_context(result, cast(Request, current_context()), shown))
        if isinstance(result, Iterator):
            return StreamedItems(_in_context(each(result), cast(Request, current_context()), shown))
        return result

    @classmethod
    def _of_search(cls, results: Results[Any], target: RequestTarget, planned: PlannedQuery) -> Any:
        """The answer of a search."""
        visible = cls._visible(target)
        if visible is None or planned.visible is not None or planned.table is not cls.application._table or planned.plan.query.explain:
            return _planned(planned)
        if planned.plan.is_shaped and planned.table.has_enumerable:
            shown = partial(readable, table=planned.table, visible=visible)
            return StreamedItems(_in_context(results, cast(Request, current_context()), shown))
        return replace(planned, visible=visible)

    @classmethod
    def _found_record(cls, found: FoundRecord, target: RequestTarget) -> Any:
        table = found.table
        if not _is_whole(table, target):
            return cls._record(found.run(), target)
        return StoredRecord(table, found.raw, cls._visible(target) if table is cls.application._table else None)

    @classmethod
    def _record(cls, record: Record, target: RequestTarget) -> Any:
        table = record._table
        visible = cls._visible(target) if table is cls.application._table else None
        if record._raw is not None and (_is_whole(table, target) or (table is cls.application._table and record.get_id() == target.id)):
            return StoredRecord(table, record._raw, visible)
        return record._decoded() if visible is None else readable(record, table, visible)

    @classmethod
    def _instance(cls, instance: Instance, target: RequestTarget) -> Any:
        table = type(instance)._table
        if table is None:
            raise ServerError(f"{type(instance).__name__} has no table, so an instance of it is no answer: return data")
        own = instance.__dict__
        raw = own.get("_raw", NOT_LOADED)
        if raw is NOT_LOADED:
            raw = instance._stored()
        is_own = table is cls.application._table
        visible = cls._visible(target) if is_own else None
        changes = own.get("_changes") or ()
        is_unchanged = not changes and not own.get("_is_saving")
        if is_unchanged and raw is None:
            return None
        asked = target.property
        is_stored = is_unchanged or (asked is not None and asked not in changes and asked not in table.computed)
        if raw is not None and is_stored and ((is_own and own["_id"] == target.id) or _is_whole(table, target)):
            return StoredRecord(table, raw, visible)
        answer = of_instance(instance, visible, cls._asked(target))
        if target.query and "select" in target.query:
            return then(cls._select(answer, instance, target), NullableValue)
        return answer

    @staticmethod
    def _asked(target: RequestTarget) -> frozenset[str]:
        """The properties that a request asks for by name."""
        if target.property is not None:
            return frozenset((target.property,))
        select = target.query_for(None).select if target.query and "select" in target.query else None
        return frozenset() if select is None else frozenset(item.path[0] for item in select.items if item.path)

    @classmethod
    def _select(cls, answer: dict[str, Any], instance: Instance, target: RequestTarget) -> Any:
        """What a query selects of a record that a handler has changed. Related records, and parts of values, are selected by the store."""
        select = target.query_for(None).select
        table, key = instance._table, instance.get_id()
        if select is None or "*" in (names := [item.path[0] for item in select.items]):
            return answer
        stored = {item.path[0] for item in select.items if item.nested is not None or item.path[0] not in answer or len(item.path) > 1}
        if table is None or not stored or stored <= (instance._changes or {}).keys():
            return _shaped(answer, names, select.shape)
        shape = select.shape
        whole = RequestTarget()
        whole.query, whole.rights = target.query, target.rights
        kept = {name: value for name, value in answer.items() if name not in stored}
        instance.get_context().last_modified = None  # values of other tables have versions of their own
        found = cast(type[Table], type(instance))._select_object(whole, key, instance.get_context())
        return then(
            found,
            lambda values: _shaped(
                {**kept, **{name: value for name, value in (values or {}).items() if name in stored}, **_own(instance, answer)},
                names,
                shape,
            ),
        )


class ServedResource(_CodeResource):
    """A resource without a table. `needs_key`: it has nothing to show at its own address, as far as its code tells."""

    needs_key: ClassVar[bool] = False


class ServedTable(_CodeResource, TableResource):
    """A table with code of an application in front of it. What the application has not written is answered as if there were none."""

    @classmethod
    def handle(cls, verb: str, target: ProtocolTarget, data: Any, request: Request) -> Any:
        application = cls.application
        if verb == "get" and target.id is None and verb not in application._own_verbs and "search" in application._own_verbs:
            verb = "search"
        if verb == "query" and verb not in application._own_verbs and application._own_verbs & {"search", "get"}:
            return cls._query(target, data, request)
        if verb in application._own_verbs:
            return super().handle(verb, target, data, request)
        if verb in _READING and application._own_rights:
            return cls._read_when_allowed(verb, target, data, request)
        if application._own_rights or cast(type[Table], application)._validates:
            return super().handle(verb, target, data, request)
        if verb not in _READING and verb not in CONNECTING and shared_transaction(request) is not None:
            return super().handle(verb, target, data, request)
        if verb == "connect" and "subscribe" in application._own_verbs:
            return super().handle(verb, target, data, request)
        return super(_CodeResource, cls).handle(verb, target, data, request)

    @classmethod
    def _query(cls, target: ProtocolTarget, data: Any, request: Request) -> Any:
        """QUERY where the application has written how a collection is read: the same with the query of the body."""
        application = cls.application
        query = as_target(data, application._table)
        if query.id is not None:
            raise ClientError("The body is a query object without an id", code="QUERY_SYNTAX")
        query.rights, query.is_root = target.rights, False
        return super().handle("search" if "search" in application._own_verbs else "get", query, None, request)

    @classmethod
    def _read_when_allowed(cls, verb: str, target: ProtocolTarget, data: Any, request: Request) -> Any:
        """What the table answers, if the application lets the caller read."""
        application = cls.application
        token = enter(request)
        try:
            allowed = settled(application._check_permission(application._verbs[verb], for_application(target), data, request))
        finally:
            leave(token)
        if allowed is not None and is_waiting(allowed):
            return cls._read_later(allowed, verb, target, data, request)
        return super(_CodeResource, cls).handle(verb, target, data, request)

    @classmethod
    async def _read_later(cls, allowed: Awaitable[Any], verb: str, target: ProtocolTarget, data: Any, request: Request) -> Any:
        token = enter(request)
        try:
            await allowed
        finally:
            leave(token)
        result = super(_CodeResource, cls).handle(verb, target, data, request)
        return await result if is_waiting(result) else result

    @classmethod
    def admit(cls, request: Request) -> None:
        if not cls.application._own_rights:
            super(_CodeResource, cls).admit(request)

    @classmethod
    def authorize(cls, verb: str, target: ProtocolTarget, data: Any, request: Request) -> None:
        if not cls.application._own_rights:
            super(_CodeResource, cls).authorize(verb, target, data, request)
        elif target.rights is None:
            target.rights = OPENED

    @classmethod
    def methods_missing(cls, target: ProtocolTarget) -> tuple[str, ...]:
        missing = super(_CodeResource, cls).methods_missing(target)
        if target.property is None:
            own = {name.upper() for name in cls.application._own_verbs}
            return tuple(method for method in missing if method not in own)
        return missing

    @classmethod
    def _visible(cls, target: RequestTarget) -> frozenset[str] | None:
        may: TableRights | None = target.rights
        return None if may is None else may.readable

    @classmethod
    def prepare_connect(cls, target: ProtocolTarget, request: Request) -> Any:
        if CONNECTING & cls.application._own_verbs:
            return None
        if cls.application._own_rights:  # messages are ignored, so nothing has to wait for the connection
            return cls.handle("connect", target, None, request)
        return super(_CodeResource, cls).prepare_connect(target, request)


def serve(application: type[Resource], address: str, **options: Any) -> type[ProtocolResource]:
    """The resource that answers at `address` with the code of `application`. `options`: class attributes of a table's resource. Raises ValueError for an
    address with a parameter that a target cannot have."""
    check_parameters(address)
    own = application._own_verbs
    members = options | {
        "application": application,
        "name": address,
        "without_body": own & WITH_DATA,
        "own_rights": application._own_rights or None,
        "own_events": not own.isdisjoint(CONNECTING),
    }
    if issubclass(application, Table):
        base = application._served
        if any(options.get(name) != getattr(base, name) for name in options):  # what `super()` of a handler does follows them, too
            base = application._served = type(base.__name__, (base,), dict(options))
        members = {name: getattr(base, name) for name in _TABLE_MEMBERS} | members
        if application._says_what_is_stale:
            members["staleness"] = application
        made = type(application.__name__, (ServedTable,), {**members, "verbs": TableResource.verbs | own})
        if "_exported" not in application.__dict__:
            application._exported = made
        return made
    members["needs_key"] = "search" not in own and "get" in own and application._verbs["get"].reads_key
    verbs = (
        own | ({"get"} if "search" in own else set()) | ({"connect", "subscribe"} if own & {"connect", "subscribe", "publish"} else set())
    )
    return type(application.__name__, (ServedResource,), {**members, "verbs": verbs})


_TABLE_MEMBERS = (
    "table", "store", "queries", "realtime", "allow_full_scan", "shows_record_count", "is_system", "text_keys", "untyped_keys", "properties",
)  # fmt: skip


async def _in_context(items: Any, request: Request, shown: Callable[[Any], Any] | None) -> AsyncIterator[Any]:
    """The items of an iterable, made in the context of the request. It is closed with this. `shown`: what is sent of an item."""
    iterator = aiter(items)
    try:
        while True:
            token = enter(request)
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                return
            finally:
                leave(token)
            yield item if shown is None else shown(item)
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()


def _is_whole(table: StoredTable, target: RequestTarget) -> bool:
    """Whether the stored bytes of a record are the answer: nothing is computed, and no part of it is asked for, which REST takes from the addressed record."""
    return target.property is None and not table.has_enumerable and (target.query is None or "select" not in target.query)


def _own(instance: Instance, answer: dict[str, Any]) -> dict[str, Any]:
    """What the handler itself has set."""
    return {name: answer[name] for name in instance._changes or () if name in answer}


def _shaped(record: Mapping[str, Any], names: list[str], shape: str) -> Any:
    """These properties of a record in the shape of a selection."""
    if shape == "value":
        return record.get(names[0])
    if shape == "array":
        return [record.get(name) for name in names]
    return {name: record[name] for name in names if name in record}


def _planned(planned: PlannedQuery) -> Any:
    return explain(planned.plan, planned.table.database.snapshot()) if planned.plan.query.explain else planned


def _counted(answer: Any, target: RequestTarget, transaction: Transaction) -> Any:
    """The answer to a DELETE of a collection says how many records it has removed, unless the handler says something else."""
    if answer is True and target.id is None:
        return Response(None, 204, pairs=[(DELETED_COUNT, str(transaction.deleted))])
    return answer


def _behind(answer: Any, request: Request) -> Any:
    """The answer; of what is still to be found an awaitable, until what the handler has written is committed: then it is found."""
    applied = request.pending_commit
    if applied is None or type(answer) not in _FOUND_LATER:
        return answer
    request.pending_commit = None
    return _found_behind(answer, applied, request)


async def _found_behind(answer: Any, applied: AppliedWrites, request: Request) -> Any:
    await wait_committed(applied, request.state.spans)
    return answer


_FOUND_LATER = (PlannedQuery, StreamedItems)
_OF_ANSWERS = ("Content-Type", "ETag", "Cache-Control", "Vary", "Location")  # header fields that answers have anyway


def _add_headers(request: Request, response: Response) -> None:
    for name, value in response.headers:
        request.response_headers.append(name, value)


def _filled(response: Response, value: Any) -> Response:
    if value is not None:
        response.data = value
    return response
