"""What a mutation answers with: what is selected of the records that it has written, read when they are on disk (spec: graphql §7.2)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from svc.content.values import json_form
from svc.errors import Problem, ServerError
from svc.graphql.code_fields import items_of, query_text, selected
from svc.graphql.faults import DocumentError, FieldError, with_location
from svc.graphql.names import Names
from svc.graphql.reading import FieldReading, Steps, is_plain_table
from svc.graphql.selection import TYPE_NAME, Field
from svc.graphql.table_fields import TableFields
from svc.messages import Abort, Request
from svc.resources import PlannedQuery, Resource, StoredRecord, TableResource
from svc.resources.target import id_path, parse_target
from svc.store import Store


class MutationInput:
    """The outcome of one field. `resource` None, or `is_known`: the answer is `value`. `is_deleted`: it is `existed`. Else the record `key` is read."""

    __slots__ = ("existed", "field", "is_deleted", "is_known", "key", "resource", "type_name", "value")

    def __init__(self, field: Field, resource: type[Resource] | None = None, type_name: str = "", value: Any = None) -> None:
        self.field = field
        self.resource = resource
        self.type_name = type_name
        self.key: Any = None
        self.existed = False
        self.is_deleted = False
        self.is_known = resource is None
        self.value = value

    def set_value(self, value: Any) -> None:
        self.is_known, self.value = True, value

    @property
    def selects_key_only(self) -> bool:
        """Whether nothing is selected but what REST says of a record that it has written: its key. For that no right to read is needed."""
        assert self.resource is not None and issubclass(self.resource, TableResource)
        names = (TYPE_NAME, self.resource.table.primary_key)
        return all(field.name in names and field.nested is None for field in self.field.nested or ())

    def key_only(self) -> dict[str, Any]:
        key = list(self.key) if type(self.key) is tuple else self.key
        return {field.key: self.type_name if field.name == TYPE_NAME else key for field in self.field.nested or ()}


class MutationReading(FieldReading):
    """The run that reads. All that it reads is of one snapshot of each database, taken after the commit."""

    def __init__(
        self,
        written: list[MutationInput],
        variables: Mapping[str, Any],
        request: Request,
        store: Store,
        names: Names,
        in_thread: Callable[..., Awaitable[Any]],
        tables: TableFields,
    ) -> None:
        super().__init__(tuple(each.field for each in written), variables, request, store, names, None, in_thread, extended=True)
        self._tables = tables
        self._results = written
        self._registrations = [each for each in written if self._is_read(each)]

    @staticmethod
    def _is_read(written: MutationInput) -> bool:
        """Whether the record has to be read."""
        return not written.is_known and not written.is_deleted and not written.selects_key_only

    def _run(self) -> Steps:
        for written in self._results:
            field = written.field
            if written.is_known:
                self.answer.value(field.key, written.value)
            elif written.is_deleted:
                self.answer.value(field.key, written.existed)
            elif written.selects_key_only:
                self.answer.value(field.key, written.key_only())
            else:
                try:
                    yield from self._record(written, cast(type[TableResource], written.resource))
                except Problem as problem:
                    raise with_location(problem, field.node) from None
            yield None

    def _record(self, written: MutationInput, resource: type[TableResource]) -> Steps:
        field = written.field
        if is_plain_table(resource) and resource.table.caching is None:
            database = resource.table.database
            txn = self._held[database].use() if self._is_held else database.snapshot()
            yield from self._written(field, self._tables.record(field, resource, written.key, txn), is_single=True)
            return
        relative = "/" + id_path(written.key, resource.properties, untyped=resource.untyped_keys)
        target = parse_target(relative, query_text([], [], field) or None, resource.properties, False)
        target.id = written.key
        result = resource.handle("get", target, None, self._request)
        while inspect.isawaitable(result):
            result = yield result
        if type(result) is StoredRecord:
            result = resource.select_one(result, target, self._request)
        fields = field.nested or ()
        if type(result) is PlannedQuery:
            rows = result
            yield from self._written(field, rows, lambda found: [selected(row, fields, written.type_name) for row in found], is_single=True)
            return
        items = items_of(result)
        form = json_form(items[0]) if isinstance(items, list) and items else None
        self.answer.value(field.key, selected(form, fields, written.type_name))


@contextmanager
def mark_stored(report: Callable[[BaseException], None]) -> Iterator[None]:
    """For what is done when the changes are on disk: its problems say so, and its defects, which `report` logs."""
    try:
        yield
    except (DocumentError, FieldError) as problem:
        problem.is_stored = True
        raise
    except Problem as problem:
        raise _stored(problem) from None
    except Abort:
        raise
    except Exception as defect:
        report(defect)
        raise _stored(ServerError("Internal Server Error")) from None


def _stored(problem: Problem) -> FieldError:
    error = FieldError(problem, None)
    error.is_stored = True
    return error
