"""Running operations, for whatever transport has brought them (spec: graphql §3, §7).

parameters -> document, kept -> operation -> a run: `FieldReading`, complete, or `LiveField`
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any

from svc.awaitables import then
from svc.errors import AccessViolation, MethodNotAllowed
from svc.graphql.document import LONG, Document, Documents, parse_document
from svc.graphql.introspection import Introspection
from svc.graphql.mutation_reading import MutationReading, mark_stored
from svc.graphql.mutations import MutationRun
from svc.graphql.names import Names
from svc.graphql.one_record import maybe_record
from svc.graphql.operation import QUERY, SUBSCRIPTION, Operation, known_operation, selected_operation
from svc.graphql.reading import FieldReading
from svc.graphql.request_parameters import Parameters
from svc.graphql.selection import Field
from svc.graphql.settings import DEFAULT_OPTIONS, GraphQLOptions
from svc.graphql.table_fields import TableFields
from svc.messages import Request
from svc.resources import Resources
from svc.store import Store

ANONYMOUS_LENGTH = 1 << 14  # characters of a document of a caller who is not known


class Execution:
    """What all transports share. `options` may change at any time."""

    def __init__(
        self,
        resources: Resources,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        report: Callable[[BaseException], None],
        options: GraphQLOptions = DEFAULT_OPTIONS,
    ) -> None:
        """`executor`: a thread for what would hold the loop: long documents, the description of a schema. `report` logs a defect."""
        self.options = options
        self._report = report
        self.store = store
        self.names = Names(resources)
        self._in_thread = partial(loop.run_in_executor, executor)
        self._introspection = Introspection(self.names, loop, executor)
        self._documents = Documents()
        self._now = store.clock.monotonic

    def operation(self, parameters: Parameters, request: Request) -> Any:
        """The operation that is asked for, or an awaitable of it. Raises DocumentError; AccessViolation for a long document of a caller who is not known."""
        text, name, extended = parameters.query, parameters.operation_name, self.options.extended
        if request.user is None and len(text) > ANONYMOUS_LENGTH:
            raise AccessViolation(None, f"Must login: without it a document has at most {ANONYMOUS_LENGTH} characters")
        document = self._documents.find(text)
        found = None if document is None else known_operation(document, name, extended=extended)
        if found is not None:
            return found
        if is_long(text):
            return then(self._in_thread(_prepared, text, document, name, extended), self._kept)
        return self._kept(_prepared(text, document, name, extended))

    def _kept(self, operation: Operation) -> Operation:
        self._documents.keep(operation.document)
        return operation

    def maybe_record(self, request: Request, operation: Operation, given: Mapping[str, Any] | None) -> tuple[bytes, float] | None:
        """(body of the answer, seconds) of a query of one record by its key that was planned before; else None: `run` it. Raises Problem."""
        if operation.only_field is None:
            return None
        began = self._now()
        body = maybe_record(operation, operation.variables(given), request, self.names)
        return None if body is None else (body, self._now() - began)

    def run(self, request: Request, operation: Operation, given: Mapping[str, Any] | None) -> Any:
        """A complete Reading, or an awaitable of it. `given`: the values of variables. The operation is no subscription. Raises Problem."""
        assert operation.kind is not SUBSCRIPTION
        began = self._now()
        variables = operation.variables(given)
        if operation.is_fixed or not is_long(operation.document.text):
            return self._run(request, operation, operation.fields(variables), variables, began)
        collected = self._in_thread(operation.fields, variables)
        return then(collected, lambda fields: self._run(request, operation, fields, variables, self._now()))

    def _run(self, request: Request, operation: Operation, fields: tuple[Field, ...], variables: Mapping[str, Any], began: float) -> Any:
        if operation.kind is not QUERY:
            if request.method != "POST":
                raise MethodNotAllowed("A mutation is sent with POST", ("POST",))
            tables = TableFields(request, self.names, variables, extended=True)
            return self._mutated(MutationRun(fields, variables, request, self.store, tables, self.names), variables, request, tables)
        introspection = self._introspection if self.options.introspection else None
        reading = FieldReading(
            fields, variables, request, self.store, self.names, introspection, self._in_thread, extended=self.options.extended
        )
        waiting = reading.start()
        if waiting is None:
            reading.seconds = self._now() - began
            return reading
        return then(waiting, lambda _: reading)

    async def _mutated(self, run: MutationRun, variables: Mapping[str, Any], request: Request, tables: TableFields) -> FieldReading:
        began = self._now()
        written = await run.execute()
        seconds = self._now() - began
        reading = MutationReading(written, variables, request, self.store, self.names, self._in_thread, tables)
        with mark_stored(self._report):
            waiting = reading.start()
            if waiting is not None:
                await waiting
        reading.seconds += seconds
        return reading


def _prepared(text: str, document: Document | None, name: str | None, extended: bool) -> Operation:
    """An operation of a document, which is parsed if it is None. Called on a helper thread for what takes long. Raises DocumentError."""
    return selected_operation(parse_document(text) if document is None else document, name, extended=extended)


def is_long(text: str) -> bool:
    """Whether a document takes long to parse, or may: fragments within fragments make many fields of few characters."""
    return len(text) > LONG or text.count("...") > 16
