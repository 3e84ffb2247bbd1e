"""REST on resources: methods, addresses, conditions (spec: http §1-§5). `Answers` makes the responses.

The plain path is a chain of function calls: address -> resource -> verb -> bytes. Nothing here waits; a handler that must returns an awaitable,
which is handed on to the dispatcher untouched.
"""

from __future__ import annotations

import inspect
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from svc.api.statements import Statements
from svc.auth.tickets import Tickets
from svc.awaitables import then
from svc.content.registry import ContentTypes
from svc.errors import AccessViolation, ClientError, MethodNotAllowed, NotAcceptable, NotFound, Problem, ValidationError
from svc.http.bodies import LONG_BODY, QUERY_MAX, Bodies, accept_patch, one_row, query_limit
from svc.http.compression import Compression
from svc.http.conditional import write_precondition
from svc.http.decoding import RequestDecoder
from svc.http.event_stream import EventStreams
from svc.http.preferences import Preferences
from svc.http.problems import problem_response
from svc.http.raw_content import is_raw_content
from svc.http.response_parts import RestOptions
from svc.http.responses import ResponseBuilder
from svc.messages import Request, Response
from svc.pages import Pages
from svc.pages.filters import VIEW, is_view
from svc.pages.frame import ASSETS, FILES
from svc.pages.links import near_address
from svc.pages.pages import NAME_LABEL, Operate
from svc.reactor import Reactor
from svc.resources import PlannedQuery, RequestTarget, Resource, Resources, StoredRecord, TableResource, addressed
from svc.resources.addressing import WRITES
from svc.resources.resource import CreatedRecords
from svc.resources.table_reading import LONG_QUERY
from svc.rest.html_forms import ends_at_page, is_html_form, redirected, take_redirect
from svc.rest.login import PATHS as LOGIN_PATHS
from svc.rest.login import LoginEndpoint
from svc.rest.openapi import ADDRESS, OpenApi
from svc.rest.page_assets import HomePage, PageAssets
from svc.rest.sql_endpoint import ADDRESS as SQL_ADDRESS
from svc.rest.sql_endpoint import SqlEndpoint
from svc.rest.ticket import TICKET_PATH, TicketEndpoint
from svc.rest.uploads import receive, refuse_range, upload_name, uploaded_record
from svc.rest.viewer import PATHS as VIEWER_PATHS
from svc.rest.viewer import Viewer
from svc.store import Store, Table

UNKNOWN_METHOD = 501


class Endpoint(Protocol):
    """What answers at a path before resources are looked for."""

    @property
    def methods(self) -> tuple[str, ...]:
        """For `Allow`."""

    def handle(self, request: Request) -> Any:
        """A Response, or an awaitable of one. Raises Problem."""

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        """An error as an answer. `request_id`: of a defect, also in the log."""


READS = ("GET", "HEAD")
ROOT = "/"
ROOT_METHODS = (*READS, "OPTIONS")
_ROOT_IS_READ = "The root is only read; operations are posted to the operations port, 9925 by default"
NO_OPTIONS = RestOptions()
DEFAULT_THRESHOLD = 1200  # bytes, http.compressionThreshold
DEFAULT_MAX_BODY = 1 << 30


class Rest:
    """The `rest` step of the request chain."""

    def __init__(
        self,
        resources: Resources,
        reactor: Reactor,
        options: RestOptions = NO_OPTIONS,
        *,
        types: ContentTypes | None = None,
        compression: Compression | None = None,
        decoder: RequestDecoder | None = None,
        login: bool = False,
        tickets: Tickets | None = None,
    ) -> None:
        """`login`: whether there are `/login` and `/logout`. `tickets`: that are made at `/ticket`, None: none are."""
        report = reactor.report_stream
        self._resources = resources
        self.types = ContentTypes.built_in() if types is None else types
        self._bodies = Bodies(self.types, decoder or RequestDecoder(DEFAULT_MAX_BODY, DEFAULT_MAX_BODY))
        compression = compression or Compression(DEFAULT_THRESHOLD)
        self.compression = compression
        self._responses = ResponseBuilder(self.types, compression, reactor.clock, report, options, resources)
        self._pages = Pages(self.types, compression, reactor.clock, report, options, resources, reactor.executor)
        self._streams = EventStreams(reactor.loop, reactor.clock.monotonic, report)
        self.version = 0
        """Grows with each change of what answers, and how."""
        self.endpoints: dict[str, Endpoint] = {}
        self.forms: dict[str, Endpoint] = {}
        """The endpoints that have errors of a form of their own, by the name in the metrics that they give to a request."""
        assets = PageAssets(self.types, compression)
        for path in ASSETS:
            self.serve(path, assets)
        self.serve(FILES, HomePage(self.types, compression, self._home))
        openapi = OpenApi(resources, self.types, self.answer)
        self.serve(ADDRESS, openapi)
        self._fallbacks: dict[str, Endpoint] = dict.fromkeys(VIEWER_PATHS, Viewer(self.types, compression, openapi.has_something))
        """What answers where no resource does."""
        if tickets is not None:
            self._fallbacks[TICKET_PATH] = TicketEndpoint(tickets, self.types, self.answer)
        self._pages.endpoints = ChainMap(self.endpoints, self._fallbacks)
        self._login = LoginEndpoint(self._bodies, self._responses, self._pages)
        self._login_paths: frozenset[str] = frozenset()  # none without login
        self._account_paths: tuple[str, ...] = ()
        self.configure(options, login=login)
        self._methods: Mapping[str, Callable[[Request, type[Resource], RequestTarget], Any]] = {
            "GET": self._get,
            "HEAD": self._get,
            "PUT": self._put,
            "PATCH": self._patch,
            "POST": self._post,
            "DELETE": self._delete,
            "QUERY": self._query,
            "COPY": self._other,
            "MOVE": self._other,
            "TRACE": self._other,
        }

    def configure(self, options: RestOptions, *, login: bool) -> None:
        """Take over what the applications want. `login`: whether there are `/login` and `/logout`."""
        self.version += 1
        self._responses.options = self._pages.options = options
        self._login_paths = LOGIN_PATHS if login else frozenset()
        self._pages.has_login = login
        if login:
            self._resources.reserved |= LOGIN_PATHS
        else:
            self._resources.reserved -= LOGIN_PATHS

    def serve(self, path: str, endpoint: Endpoint | None) -> None:
        """From now on this endpoint answers at the path; None: no endpoint does."""
        self.version += 1
        if endpoint is None:
            self.endpoints.pop(path, None)
            self._resources.reserved.discard(path)
        else:
            self.endpoints[path] = endpoint
            self._resources.reserved.add(path)

    def serve_sql(self, statements: Statements, store: Store, access: str) -> None:
        """From now on statements in SQL are answered. `access`: for whom, the setting `sql.access`."""
        self._fallbacks[SQL_ADDRESS] = SqlEndpoint(statements, store, access, self._bodies, self._responses, self._pages)

    def use_operations(self, operate: Operate, console_addresses: Callable[[], Sequence[str]] = tuple) -> None:
        """From now on pages may run operations in the name of their callers. `console_addresses`: where the port of the console listens."""
        self._pages.operate = operate
        self._pages.console_addresses = console_addresses

    def serve_accounts(self, make: Callable[[Bodies, ResponseBuilder, Pages], Mapping[str, Endpoint]] | None) -> None:
        """From now on the accounts of an application are served at the paths of the endpoints that `make` makes; None: there are none any more."""
        for path in self._account_paths:
            self.serve(path, None)
        self._pages.account_links, self._pages.name_label = (), NAME_LABEL
        made = {} if make is None else make(self._bodies, self._responses, self._pages)
        self._account_paths = tuple(made)
        for path, endpoint in made.items():
            self.serve(path, endpoint)

    @property
    def login_pages(self) -> LoginEndpoint:
        """The login page, for other ways to log in."""
        return self._login

    @property
    def shown(self) -> RestOptions:
        """What the applications want of answers."""
        return self._responses.options

    def answers_below(self, address: str) -> bool:
        """Whether something else than resources answers at a path that begins with this one and a slash."""
        return any(path.startswith(f"{address}/") for paths in (self.endpoints, self._fallbacks, self._login_paths) for path in paths)

    def no_record(self, table: Table) -> NotFound:
        """What is raised for a record that is not there, unless `last_modified` is shown."""
        assert not self.shown.last_modified
        return self._responses.no_record(table, "")

    def answers_at(self, path: str) -> bool:
        """Whether something else than resources answers there first."""
        return path in self.endpoints or path in self._login_paths

    # --- entry ---------------------------------------------------------------------------------------------------------------------

    def handle(self, request: Request) -> Any:
        """A Response, or an awaitable of one. Raises Problem."""
        method = self._methods.get(request.method)
        if method is None:
            raise ClientError(f"Method {request.method[:40]} is not recognized", UNKNOWN_METHOD, "NOT_IMPLEMENTED")
        if request.pathname in self.endpoints:
            return self.endpoints[request.pathname].handle(request)
        if request.pathname in self._login_paths:
            answer = self._login_answer(request)
            if answer is not None:
                return answer
        found = addressed(self._resources, request, "rest")
        if found is None:
            return self._unclaimed(request)
        try:
            return method(request, *found)
        except ClientError as error:
            self._admit_first(request, found[0], error)
            raise

    def answer_read(self, request: Request, resource: type[Resource], target: RequestTarget, outcome: Any) -> Any:
        """`handle` from its handler on, which has returned this, or raised it if it is an Exception. Only for a GET that asks neither for events nor for a
        page, by a client that accepts a type that there is."""
        preferences = self._responses.preferences(request)
        try:
            if isinstance(outcome, Exception):
                raise outcome
            return then(outcome, lambda result: self._got(request, resource, target, result, preferences, False, self._responses))
        except ClientError as error:
            self._admit_first(request, resource, error)
            raise

    @staticmethod
    def _admit_first(request: Request, resource: type[Resource], error: Exception) -> None:
        """Raise AccessViolation to a caller who may do nothing at this address, who does not get to know what else is wrong."""
        if isinstance(error, ClientError) and type(error) is not NotFound:
            resource.admit(request)

    def _unclaimed(self, request: Request) -> Any:
        """The answer where no resource is: events, a fallback, or what there is at the root. Raises Problem."""
        if request.method in READS and self._responses.preferences(request).events:
            stream = self._stream(request)  # an address may be one of events only
            if stream is not None:
                return stream
        if request.pathname in self._fallbacks:
            return self._fallbacks[request.pathname].handle(request)
        if request.pathname != ROOT or request.method not in READS:
            raise self._refused(request)
        return self._home(request)

    def _refused(self, request: Request) -> Problem:
        """The answer to a write where no resource is: the same before its body has come and after that."""
        if request.pathname != ROOT:
            return NotFound(f"Not found{near_address(self._resources, request)}")
        return MethodNotAllowed(_ROOT_IS_READ, ROOT_METHODS)

    def _home(self, request: Request) -> Any:
        """What there is, for browsers and for programs."""
        if self._responses.preferences(request).page:
            return self._pages.home(request, is_page=True)
        return self._responses.answer(request, RequestTarget(), self._pages.home(request, is_page=False))

    def _login_answer(self, request: Request) -> Any:
        """The answer at one of the login paths; None where something else is to answer: there are forms for browsers only, and an application may have its
        own."""
        if request.method == "POST":
            return self._login.handle(request)
        if request.method not in READS or not self._responses.preferences(request).page or not self._pages.can_log_in(request):
            return None
        found = self._resources.find(request.pathname, "rest")
        if found is not None and (found[0].path or not issubclass(found[0].resource, TableResource)):
            return None
        return self._login.form(request)

    def receive(self, request: Request) -> Any:
        """What becomes of a body that is not here yet: a sink, or None or a limit to have it collected. Raises Problem."""
        if self._is_login(request):
            return self._login.receive(request)
        path = request.pathname
        if path in self.endpoints:
            own = getattr(self.endpoints[path], "receive", None)
            return query_limit(request, LONG_BODY) if own is None else own(request)
        if path in self._fallbacks and self._resources.find(path, "rest", False) is None:
            if path == TICKET_PATH and request.user is None:
                raise AccessViolation
            if path == SQL_ADDRESS:
                return cast(SqlEndpoint, self._fallbacks[path]).receive(request)
            return query_limit(request, LONG_BODY)
        if request.method == "POST" and request.query is not None and request.query.startswith(VIEW) and is_html_form(request):
            found = addressed(self._resources, request, "rest", bind=False)
            if found is not None and is_view(request.query, found[0]):
                from svc.pages.log_in_again import limit_at

                return limit_at(self._pages, request, found[0])
        return receive(request, self._resources, self.types, self._refused)

    def _is_login(self, request: Request) -> bool:
        return request.method == "POST" and request.pathname in self._login_paths

    def options(self, request: Request) -> Response:
        """OPTIONS that is not a preflight: the methods of the addressed resource; needs no authentication."""
        allow: tuple[str, ...] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY")
        if request.pathname in self.endpoints:
            allow = self.endpoints[request.pathname].methods
        elif request.target != "*":
            found = addressed(self._resources, request, "rest", bind=False)
            if found is not None:
                allow = found[0].allowed_methods(found[1])
            elif request.pathname == ROOT:
                allow = ROOT_METHODS
            elif request.pathname in self._fallbacks:
                allow = self._fallbacks[request.pathname].methods
            else:
                raise NotFound("Not found")
        response = Response(status=204)
        response.pairs.append(("Allow", ", ".join(allow)))
        if "PATCH" in allow:
            response.pairs.append(accept_patch(self.types))
        return response

    def decode_content(self, request: Request) -> Any:
        """The body of a request as a value, for handlers that ask for it; None without a body."""
        if request.upload is not None:
            return request.upload.bytes()
        return self._bodies.read(request) if request.content else None

    def problem(self, error: Problem, request: Request | None, request_id: str = "") -> Response:
        if request is not None:
            endpoint = self.endpoints.get(request.pathname) or self.forms.get(request.handler_path)
            if endpoint is not None and endpoint in self.forms.values():
                return endpoint.problem(error, request, request_id)
            if self._responses.preferences(request).page:
                return self._pages.problem(error, request, request_id)
        return problem_response(error, self.types, request, request_id)

    def answer(self, request: Request, result: Any) -> Any:
        """The Response for what application code returned, or an awaitable of it."""
        return self._responses.answer(request, RequestTarget(), result)

    def has_endpoint(self, request: Request) -> bool:
        endpoint = self.endpoints.get(request.pathname)
        return endpoint is not None and endpoint in self.forms.values()

    def knows(self, request: Request) -> bool:
        """Whether something answers at this address, if only with a refusal."""
        path = request.pathname
        if path in self.endpoints or path in self._fallbacks or self._is_login(request):
            return True
        reads = request.method not in WRITES
        return self._resources.find(path, "rest", reads) is not None or (
            request.method in READS and self._responses.preferences(request).events and self._resources.find(path, "sse") is not None
        )

    # --- reading -------------------------------------------------------------------------------------------------------------------

    def _get(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        responses = self._responses
        preferences = responses.preferences(request)
        if preferences.events:
            stream = self._stream(request)
            if stream is not None:
                return stream
        if preferences.page and target.extension is None:
            return self._get_page(request, resource, target, preferences)
        refused = preferences.writer is None and target.extension is None
        if refused and (target.id_text is None or not issubclass(resource, TableResource)):
            raise NotAcceptable(preferences.refusal)  # before any work is done
        result = resource.handle("get", target, None, request)
        kind = type(result)
        if kind is not StoredRecord and inspect.isawaitable(result):
            return then(result, lambda result: self._got(request, resource, target, result, preferences, refused, responses))
        return self._got(request, resource, target, result, preferences, refused, responses)

    def _get_page(self, request: Request, resource: type[Resource], target: RequestTarget, preferences: Preferences) -> Any:
        """The same result as a page."""
        if target.query is not None and len(target.query) > LONG_QUERY and issubclass(resource, TableResource):
            return then(resource.store.slices.take(), lambda _: self._get_prepared_page(request, resource, target, preferences))
        return self._get_prepared_page(request, resource, target, preferences)

    def _get_prepared_page(self, request: Request, resource: type[Resource], target: RequestTarget, preferences: Preferences) -> Any:
        redirect = self._pages.prepare(request, resource, target)
        if redirect is not None:
            return redirect
        result = resource.handle("get", target, None, request)
        return then(result, lambda result: self._got(request, resource, target, result, preferences, False, self._pages))

    def _got(
        self,
        request: Request,
        resource: type[Resource],
        target: RequestTarget,
        result: Any,
        preferences: Preferences,
        refused: bool,
        responses: ResponseBuilder,
    ) -> Any:
        """The answer to GET. `refused`: the client accepts no type that there is. `responses`: what makes it of the result."""
        if refused and type(result) is not StoredRecord:  # a record may be raw content, which is sent whatever is accepted
            raise NotAcceptable(preferences.refusal)
        kind = type(result)
        if kind is StoredRecord:
            if target.property is None:
                if (target.query is None or "select" not in target.query) and not result.table.has_enumerable:
                    return responses.record(request, target, result, preferences)
                return responses.selected(request, cast(type[TableResource], resource), target, result, preferences)
            return responses.property(request, cast(type[TableResource], resource), target, result, preferences)
        if kind is PlannedQuery:
            return responses.collection(request, target, result, preferences)
        if issubclass(resource, TableResource):
            if result is None and target.id_text is not None:
                return self._uploaded_property(request, resource, target, responses)
            if target.property is not None:
                return self._property_of(request, resource, target, result, responses)
        return responses.answer(request, target, result, missing="Record not found")

    def _stream(self, request: Request) -> Any:
        """The events of a resource, or an awaitable of that answer; None if it has none to show (spec: realtime §3)."""
        found = addressed(self._resources, request, "sse")
        if found is None:
            return None
        resource, target = found
        return then(
            resource.handle("connect", target, None, request),
            lambda result: self._streams.respond(result) or self._responses.answer(request, target, result),
        )

    def _query(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        """QUERY: the query is the body (spec: query §9)."""
        if target.id_text is not None or "query" not in resource.verbs:
            raise resource.not_allowed("query", target=target)
        if request.query:
            raise ClientError("QUERY takes its query from the body, not from the address", code="QUERY_SYNTAX")
        return self._with_body("query", request, resource, target)

    def _uploaded_property(self, request: Request, resource: type[TableResource], target: RequestTarget, responses: ResponseBuilder) -> Any:
        """GET of an upload's address, when no record has the full id. Raises NotFound if it is not such an address, or the property is missing."""
        name = upload_name(resource, target)
        if name is None:
            raise self._responses.no_record(resource.table, target.id)
        record = uploaded_record(target)
        record.property = name
        resource.bind(record)
        return then(
            resource.handle("get", record, None, request), lambda result: self._property_of(request, resource, record, result, responses)
        )

    def _property_of(
        self, request: Request, resource: type[TableResource], record: RequestTarget, result: Any, responses: ResponseBuilder
    ) -> Any:
        """The property of `record` in the record that a handler has found, or in the mapping that it has made of it."""
        if type(result) is StoredRecord:
            return responses.property(request, resource, record, result, responses.preferences(request))
        if result is None:
            raise self._responses.no_record(resource.table, record.id)
        if type(result) is dict:
            name = record.property
            if name not in result:
                raise NotFound("Record has no such property")
            return responses.value(request, record, result[name])
        return responses.answer(request, record, result)

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def _put(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        if target.property is not None:
            raise resource.not_allowed("put", target=target)
        if target.raw is not None and "/" in target.raw and issubclass(resource, TableResource):
            name = upload_name(resource, target)
            if name is not None:
                return self._upload(request, resource, target, name)
        if target.id_text is not None:
            request.precondition = write_precondition(request.block)
        return self._with_body("put", request, resource, target)

    def _patch(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        if target.id_text is None or target.property is not None:
            raise resource.not_allowed("patch", target=target)
        request.precondition = write_precondition(request.block)
        return self._with_body("patch", request, resource, target)

    def _post(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        preferences = self._responses.preferences(request)
        if request.query is not None and preferences.page and is_view(request.query, resource) and is_html_form(request):
            return self._pages.view(request, cast(type[TableResource], resource), target)
        if preferences.writer is None and not (preferences.page and is_html_form(request)):
            raise NotAcceptable(preferences.refusal)
        if target.id_text is not None and "POST" in resource.methods_missing(target):
            raise resource.not_allowed("post", target=target)
        return self._with_body("post", request, resource, target)

    def _delete(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        if target.is_root or target.property is not None:
            raise resource.not_allowed("delete", target=target)
        if request.content:
            resource.refuse_body(target, request)
        if target.id_text is not None:
            request.precondition = write_precondition(request.block)
        return self._responses.answer(request, target, resource.handle("delete", target, None, request))

    def _other(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        verb = request.method.lower()
        if verb not in resource.verbs:
            raise resource.not_allowed(verb, request.method, target=target)
        return self._responses.answer(request, target, resource.handle(verb, target, None, request))

    def _with_body(self, verb: str, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        if verb not in resource.verbs:
            raise resource.not_allowed(verb, target=target)
        resource.admit(request)
        if issubclass(resource, TableResource) and (len(request.content) > LONG_BODY or "content-encoding" in request.block.fields):
            resource.authorize(verb, target, None, request)  # before work is done for a caller who may do nothing here
        if "content-range" in request.block.fields and issubclass(resource, TableResource):
            resource.authorize(verb, target, None, request)
            refuse_range(request)
        if not request.content and verb in resource.without_body and request.upload is None:
            return self._with_data(verb, request, resource, target, None)
        data = self._bodies.read(request, resource, QUERY_MAX if verb == "query" else None)
        if inspect.isawaitable(data):  # asked here because `then` costs two more calls
            return then(data, lambda data: self._with_data(verb, request, resource, target, data))
        return self._with_data(verb, request, resource, target, data)

    def _with_data(self, verb: str, request: Request, resource: type[Resource], target: RequestTarget, data: Any) -> Any:
        if type(data) is list and target.id_text is not None:
            data = one_row(request, data, resource, target.id)
        redirect = None
        responses = self._responses
        is_form = verb == "post" and ends_at_page(request) and responses.preferences(request).page
        if is_form:
            responses, redirect = self._pages, take_redirect(data, resource)
        try:
            result = resource.handle(verb, target, data, request)
        except ValidationError as error:
            if "content-type" in request.block.fields or not is_raw_content(data):
                raise
            # A body without a type became raw content (spec: http §7.4), which the table does not take.
            raise ValidationError([*error.errors, "The body has no type: send Content-Type: application/json if it is JSON"]) from None
        if not is_form:
            return responses.answer(request, target, result)

        def answered(result: Any) -> Any:
            answer = responses.answer(request, target, result)
            if redirect is not None:
                answer = then(answer, lambda response: redirected(response, redirect, is_created=type(result) is CreatedRecords))
            return then(answer, lambda response: self._pages.ended(request, response))

        return then(result, answered)

    # --- property uploads (spec: http §2.5) ------------------------------------------------------------------------------------------------

    def _upload(self, request: Request, resource: type[TableResource], target: RequestTarget, name: str) -> Any:
        resource.admit(request)
        record = uploaded_record(target)
        resource.bind(record)
        if "content-range" in request.block.fields:
            resource.authorize("patch", record, {name: None}, request)
            refuse_range(request)
        request.precondition = write_precondition(request.block)
        return then(
            self._bodies.read_property(request, resource.properties[name]),
            lambda value: self._responses.answer(request, record, resource.put_property(record, name, value, request)),
        )
