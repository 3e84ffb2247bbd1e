"""`/graphql`: queries of all exported resources, on the ports of the applications (spec: graphql)."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from svc.content.registry import ContentTypes
from svc.errors import ClientError, MethodNotAllowed, Problem
from svc.graphql.document import LONG, Documents, parse_document
from svc.graphql.faults import fault_at
from svc.graphql.introspection_fields import IntrospectionFields
from svc.graphql.names import Names
from svc.graphql.operation import QUERY, Operation, selected_operation
from svc.graphql.page import PATHS as PAGE_PATHS
from svc.graphql.page import asset, page
from svc.graphql.reading import Reading
from svc.graphql.request_parameters import Parameters, from_address, from_body, is_query_given
from svc.graphql.responses import error_response, response_type
from svc.http.bodies import Bodies
from svc.http.compression import Compression
from svc.http.decoding import RequestDecoder
from svc.http.media_types import media_type_of
from svc.http.response_parts import PRIVATE, VARY
from svc.loop import then
from svc.messages import Request, Response
from svc.resources import Resources
from svc.store import Store

ADDRESS = "/graphql"
PATHS = (ADDRESS, ADDRESS + "/", *PAGE_PATHS)
READS = ("GET", "HEAD")
METHODS = (*READS, "POST")
ENTRY_OPTIONS = ("extended", "introspection", "port", "securePort")
"""Of the entry `graphql` in the configuration of an application."""
HANDLER_PATH = "graphql"  # in the metrics (spec: analytics §3)

_KEPT_ADDRESSES, _KEPT_LENGTH = 512, 2048  # query strings whose parameters are kept, and characters of such


@dataclass(frozen=True, slots=True)
class GraphQLOptions:
    """Of the entries `graphql` of all applications. `extended`: the extended form (spec: graphql §7). `introspection`: whether the schema may be asked for."""

    extended: bool = False
    introspection: bool = True


DEFAULT_OPTIONS = GraphQLOptions()


class GraphQLEndpoint:
    """Answers at `PATHS`. It is an endpoint of `rest.Rest`, and of the chains of ports that an application names."""

    methods = METHODS

    def __init__(
        self,
        resources: Resources,
        store: Store,
        types: ContentTypes,
        compression: Compression,
        decoder: RequestDecoder,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        options: GraphQLOptions = DEFAULT_OPTIONS,
    ) -> None:
        """`executor`: threads for what would hold the loop: long documents, the description of a schema."""
        self.options = options
        self._store = store
        self._types = types
        self._bodies = Bodies(types, decoder)
        self._compression = compression
        self._loop = loop
        self._executor = executor
        self._names = Names(resources)
        self._introspection = IntrospectionFields(self._names, loop, executor)
        self._documents = Documents()
        self._addresses: dict[str, Parameters] = {}  # by query string
        self._now = store.clock.monotonic

    def handle(self, request: Request) -> Any:
        """A Response, or an awaitable of one. Raises Problem, which `problem` makes a response of."""
        request.handler_path = HANDLER_PATH
        method = request.method
        file = asset(request.pathname)
        if file is not None:
            if method not in READS:
                raise MethodNotAllowed(f"{method[:40]} is no method of {request.pathname}", READS)
            return file.response(request, self._compression)
        if method == "POST":
            media_type = media_type_of(request.block.get("content-type"))
            if not media_type or self._types.reader(media_type) is None:
                raise ClientError(f"{media_type or 'A body without a type'} cannot hold a GraphQL request; send application/json", 415)
            value = self._bodies.read(request)
            if inspect.isawaitable(value):
                return then(value, lambda value: self._run(request, from_body(value)))
            return self._run(request, from_body(value))
        if method in READS:
            if response_type(request.block).prefers_page and not is_query_given(request.query):
                return page().response(request, self._compression)
            return self._run(request, self._of_address(request.query or ""))
        raise MethodNotAllowed(f"{method[:40]} is no method of {ADDRESS}", METHODS)

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        """Any error as an answer."""
        return error_response(error, request, request_id)

    def _of_address(self, query_string: str) -> Parameters:
        """The parameters of a query string. Clients send the same ones again, so some are kept."""
        found = self._addresses.get(query_string)
        if found is None:
            found = from_address(query_string)
            if len(query_string) <= _KEPT_LENGTH:
                if len(self._addresses) >= _KEPT_ADDRESSES:
                    self._addresses.clear()
                self._addresses[query_string] = found
        return found

    # --- running ---------------------------------------------------------------------------------------------------------------------

    def _run(self, request: Request, parameters: Parameters) -> Any:
        document = self._documents.find(parameters.query)
        if document is not None:
            operation = selected_operation(document, parameters.operation_name, extended=self.options.extended)
            return self._operate(request, operation, parameters)
        if is_long(parameters.query):
            made = self._loop.run_in_executor(self._executor, self._prepared, parameters)
            return then(made, lambda operation: self._operate(request, self._kept(operation), parameters))
        return self._operate(request, self._kept(self._prepared(parameters)), parameters)

    def _prepared(self, parameters: Parameters) -> Operation:
        """Called on a helper thread for what takes long. Raises DocumentError."""
        return selected_operation(parse_document(parameters.query), parameters.operation_name, extended=self.options.extended)

    def _kept(self, operation: Operation) -> Operation:
        self._documents.keep(operation.document)
        return operation

    def _operate(self, request: Request, operation: Operation, parameters: Parameters) -> Any:
        began = self._now()
        variables = operation.variables(parameters.variables)
        if operation.kind is not QUERY:
            raise fault_at(operation.node, f"The kind of operation {operation.kind.value} is not available.")
        reading = Reading(
            operation.fields(variables),
            variables,
            request,
            self._store,
            self._names,
            self._introspection,
            extended=self.options.extended,
        )
        waiting = reading.start()
        if waiting is None:
            return self._answer(request, reading, self._now() - began)
        return then(waiting, lambda _: self._answer(request, reading, reading.seconds))

    def _answer(self, request: Request, reading: Reading, seconds: float) -> Response:
        pairs = [response_type(request.block).pair, VARY]
        if request.user is not None:
            pairs.append(PRIVATE)
        pairs.append(("Server-Timing", f"execute;dur={seconds * 1000:.2f}"))
        body = reading.answer.body()
        response = Response(body, 200, pairs=pairs)
        if type(body) is bytes and len(body) <= self._compression.threshold_for(request.block):
            return response
        return self._compression.apply(request, response)


def is_long(text: str) -> bool:
    """Whether a document takes long to parse, or may: fragments within fragments make many fields of few characters."""
    return len(text) > LONG or text.count("...") > 16
