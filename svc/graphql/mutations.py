"""Mutations: `create_X`, `put_X`, `patch_X` and `delete_X` (spec: graphql §7.2).

    fields -> changes -> carried out one after the other, in one transaction -> committed -> what is selected of the records is read

A change is what REST does for POST, PUT, PATCH or DELETE of one record: the same rights, checks and preconditions. Resources with code of an application take
part in the transaction: their handlers see what was written before them. What fails undoes all.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, cast

from svc.api.transactions import Transaction
from svc.auth.users import user_of
from svc.content.list_faults import MAX_FAULTS, named_write, told_faults
from svc.content.values import json_form
from svc.errors import ClientError, NotUnique, Problem, ServerError, StillReferenced, ValidationError
from svc.graphql.changes import Change, Inputs, changes_of
from svc.graphql.code_fields import refuse_nested_arguments, selected
from svc.graphql.faults import problem_of_abort, with_location
from svc.graphql.mutation_reading import MutationInput
from svc.graphql.names import Names
from svc.graphql.reading import is_plain_table
from svc.graphql.selection import Field
from svc.graphql.table_fields import TableFields
from svc.http.conditional import parse_tags, with_identities
from svc.messages import Abort, Request, Response
from svc.query.conflicts import explained_to
from svc.resources import CreatedRecords, PlannedQuery, RequestTarget, StoredRecord, TableResource
from svc.resources.resource import NullableValue, StreamedItems
from svc.resources.target import id_path, parse_target
from svc.store import Precondition, Store, Table
from svc.store import Transaction as StoreTransaction
from svc.store.schema import key_type
from svc.store.slices import SLICE
from svc.store.values.conversion import check_key, key_from_text
from svc.store.values.records import decode_json
from svc.store.values.validation import EMPTY_KEYS
from svc.store.writing.commit import wait_committed

_TEXT_KEYS = frozenset(("ID", "String"))


class MutationRun:
    """One run of a mutation. `execute` returns what has been written, and is to be shown."""

    def __init__(
        self, fields: tuple[Field, ...], variables: Mapping[str, Any], request: Request, store: Store, tables: TableFields, names: Names
    ) -> None:
        """Raises DocumentError; nothing has been written then."""
        self._request = request
        self._store = store
        self._tables = tables
        self._changes = changes_of(fields, names)
        self._inputs = Inputs(self._changes, json_form(variables) if request.native_body else variables)
        self._written: list[MutationInput] = []
        self._begins: list[tuple[int, Change]] = []  # number of the first write of a change
        self._writes: StoreTransaction | None = None
        self._created: list[MutationInput] = []  # by `_writes`, in tables without code; their keys may be assigned by the commit
        self._deleted: list[MutationInput] = []  # by `_writes`

    async def execute(self) -> list[MutationInput]:
        """All or nothing. Returns when it is on disk. Raises Problem, with the place of the field that it concerns."""
        request = self._request
        request.restore, request.native_body = None, False  # values are as in JSON
        transaction = Transaction(self._store, request)
        transaction.is_shared = transaction.is_lasting = True
        now = self._store.clock.monotonic
        deadline = now() + SLICE
        try:
            for change in self._changes:
                if now() >= deadline:
                    deadline = await self._store.slices.take()
                request._state = request.state.next_call()  # what a handler has set in its context is for its own call
                request.state.transaction = transaction
                begin = self._current(transaction).size
                self._begins.append((begin, change))
                try:
                    await self._carry_out(change, transaction)
                except Abort as abort:
                    raise with_location(problem_of_abort(abort), change.field.node) from None
                except Problem as problem:
                    raise with_location(problem, change.field.node) from None
                finally:
                    request.precondition = None
            writes = self._current(transaction)
            waiting = transaction.apply()
            if waiting is not None:
                await waiting
            self._settle(writes)
        except BaseException as error:
            transaction.abort()
            if isinstance(error, StillReferenced | NotUnique):
                error = explained_to(user_of(request), error)
            if isinstance(error, Problem):
                raise self._located(error) from None
            raise
        finally:
            transaction.close()
        if request.pending_commit is not None:
            applied, request.pending_commit = request.pending_commit, None
            await wait_committed(applied, request.state.spans)
        return self._written

    def _current(self, transaction: Transaction) -> StoreTransaction:
        """What collects the writes; another one after a handler has committed by itself."""
        writes = transaction.writes
        if writes is not self._writes:
            if self._writes is not None:
                self._settle(self._writes)
            self._begins = []
            self._writes = writes
        return writes

    def _settle(self, writes: StoreTransaction) -> None:
        """Take over what is known since the writes are applied: the keys that were assigned, and whether there were records that are deleted."""
        for written, key in zip(self._created, writes.with_assigned([written.key for written in self._created]), strict=True):
            written.key = key
        skipped = set(map(id, writes.skipped))  # there may be thousands
        for written in self._deleted:
            written.existed = id(written) not in skipped
        self._created, self._deleted = [], []

    def _located(self, problem: Problem) -> Problem:
        """The problem with the place of the field whose write has failed, if that is known, and its key if that is why."""
        failed_at = None if self._writes is None else self._writes.failed_at
        fields = [] if failed_at is None else [change.field for begin, change in self._begins if begin <= failed_at]
        if self._writes is not None:
            problem = named_write(problem, self._writes, (), None, is_list=False)
        return with_location(problem, fields[-1].node) if fields else problem

    async def _carry_out(self, change: Change, transaction: Transaction) -> None:
        field, resource = change.field, change.resource
        if resource is None:
            self._written.append(MutationInput(field, value=change.type_name))
            return
        arguments = {name: self._inputs.value(argument) for name, argument in change.arguments.items()}
        written = MutationInput(field, resource, change.type_name)
        target = self._target(change, arguments.get("id"))
        data = arguments.get("input")
        if change.verb != "post":
            written.key = target.id
            self._request.precondition = precondition_of(arguments.get("ifMatch"))
        if issubclass(resource, TableResource):
            if change.verb != "delete" and not isinstance(data, dict):
                raise ClientError(f"The input of {change.name} is an object with the attributes of a record", code="BAD_VALUE")
            if change.verb == "delete" and not is_plain_table(resource):
                raw = transaction.get_raw(resource.table, target.id)
                written.existed = raw is not None and resource.may_see(raw, self._request)
        try:
            if is_plain_table(resource):
                self._collect(change, cast(type[TableResource], resource), target, data, written, transaction)
            else:
                await self._call(change, target, data, written)
        except ValidationError as error:
            if not error.faults and issubclass(resource, TableResource):
                error.faults = tuple(told_faults(error, data, resource.table.validator, "json")[:MAX_FAULTS])
            raise
        if change.verb == "delete":
            written.is_deleted = True
            if is_plain_table(resource):
                self._deleted.append(written)
        elif not written.is_known:
            await self._check_reading(written)
        self._written.append(written)

    def _collect(
        self,
        change: Change,
        resource: type[TableResource],
        target: RequestTarget,
        data: Any,
        written: MutationInput,
        transaction: Transaction,
    ) -> None:
        """A change of a table that answers for itself."""
        request, writes, verb = self._request, transaction.writes, change.verb
        resource.authorize(verb, target, data, request)
        if verb == "post":
            written.key = resource.create_in(writes, data, target, request)
            self._created.append(written)
        elif verb == "put":
            resource.put_in(writes, target.id, data, target, request)
        elif verb == "patch":
            data.pop(resource.table.primary_key, None)
            resource.patch_in(writes, target, data, request)
        else:
            writes.delete(
                resource.table,
                target.id,
                cast(Precondition | None, request.precondition),
                mark=written,
                rows=resource.guard(target, request),
            )

    async def _call(self, change: Change, target: RequestTarget, data: Any, written: MutationInput) -> None:
        """A change that code of an application carries out. From what a handler returns is selected; where it returns nothing, the record is read."""
        resource, fields = change.resource, change.field.nested or ()
        assert resource is not None
        refuse_nested_arguments(fields)
        if change.verb not in resource.verbs:
            raise resource.not_allowed(change.verb, target=target)
        result = resource.handle(change.verb, target, data, self._request)
        while inspect.isawaitable(result):
            result = await result
        if type(result) is CreatedRecords:
            if issubclass(resource, TableResource):
                written.key = result.value
                return
            result = result.value
        if change.verb == "delete":
            _refuse_failure(result)
            written.existed = written.existed if issubclass(resource, TableResource) else result is not False
        elif result is not None or not issubclass(resource, TableResource):
            written.set_value(selected(_form(result), fields, change.type_name))

    async def _check_reading(self, written: MutationInput) -> None:
        """Refuse a selection of what the caller may not read, before anything is written. Raises AccessViolation."""
        resource, request = written.resource, self._request
        assert resource is not None and issubclass(resource, TableResource)
        if written.selects_key_only:
            return
        target = RequestTarget()
        if is_plain_table(resource):
            resource.authorize("get", target, None, request)
        else:
            target = target_of(resource, written.key) if written.key is not None else target
            waiting = resource.permit("get", target, request)
            if inspect.isawaitable(waiting):
                await waiting
        self._tables.checked_select(written.field, resource, target)

    def _target(self, change: Change, key: Any) -> RequestTarget:
        """What REST addresses for the change."""
        resource = change.resource
        assert resource is not None
        if change.verb == "post":
            target = RequestTarget()
            target.is_collection = True
            return target
        if issubclass(resource, TableResource):
            key = record_key(key, resource.table)
        elif isinstance(key, bool) or not isinstance(key, str | int) or key == "":
            raise ClientError("An id is a string or an integer", code="BAD_VALUE")
        return target_of(resource, key)


def target_of(resource: type[Any], key: Any) -> RequestTarget:
    """The target of a record, as an address of it has."""
    untyped = getattr(resource, "untyped_keys", False)
    target = parse_target("/" + id_path(key, resource.properties, untyped=untyped), None, resource.properties, False)
    if issubclass(resource, TableResource):
        target.id = key
    else:
        resource.bind(target)
    return target


def record_key(value: Any, table: Table) -> Any:
    """The key that an argument `id` stands for: text of numbers for keys that are numbers, numbers for keys that are text. Raises ClientError."""
    definition = table.definition
    if value is None or (type(value) is str and value in EMPTY_KEYS):
        raise ClientError("The id must not be empty", code="BAD_VALUE")
    kind = key_type(definition)
    if type(value) is str and kind not in _TEXT_KEYS and kind != "Any":
        return key_from_text(definition, value)
    if kind in _TEXT_KEYS and isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return check_key(definition, value)


def precondition_of(value: Any) -> Precondition | None:
    """`ifMatch`: entity tags as `If-Match` has them, or one without its quotes. Raises ClientError."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ClientError('ifMatch is the entity tag of a record, such as "Qnm3baqAAAA", or "*"', code="BAD_VALUE")
    text = value.strip()
    tags = parse_tags(text, weak_counts=False) if text == "*" or '"' in text else (text,)
    return Precondition(if_match=with_identities(tags))


def _form(result: Any) -> Any:
    """What a handler has returned, in JSON form. Raises ServerError for what nothing can be selected from."""
    kind = type(result)
    if kind is PlannedQuery or kind is StreamedItems:
        raise ServerError("The resource answers a mutation with a list, of which nothing can be selected")
    if kind is StoredRecord:
        record = decode_json(result.raw)
        return record if result.visible is None else {name: value for name, value in record.items() if name in result.visible}
    if kind is NullableValue:
        return json_form(result.value)
    if isinstance(result, Response):
        _refuse_failure(result)
        if result.data is None and result.body is not None:
            raise ServerError("The resource answers with a body of its own, from which nothing can be selected")
        return json_form(result.data)
    return json_form(result)


def _refuse_failure(result: Any) -> None:
    """Raise Problem for an answer that says that it did not work."""
    if isinstance(result, Response) and result.status >= 400:
        raise Problem(str(result.data) if isinstance(result.data, str) else "", result.status)
