"""Results as pages: the same methods as `ResponseBuilder`, for requests of browsers (spec: http §7.7).

What is no data stays what it is: raw content, files, and responses of applications with a type of their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, cast
from urllib.parse import unquote

from svc.auth.users import User, user_of
from svc.clock import Clock
from svc.content.content_type import ContentType
from svc.content.registry import ContentTypes
from svc.content.values import is_blob
from svc.errors import REASONS, ClientError, NotFound, Problem, QueryError
from svc.http.compression import Compression
from svc.http.preferences import Preferences
from svc.http.raw_content import is_raw_content
from svc.http.response_check import check_response
from svc.http.response_parts import RestOptions
from svc.http.responses import ResponseBuilder
from svc.http.row_stream import SLICE, QueryExecution, narrow
from svc.messages import HeaderPairs, Request, Response
from svc.pages.cells import shortened
from svc.pages.collection import MOST_ROWS, ROWS, collection_page, data_page, filterable, limited, shown_attributes
from svc.pages.described import is_description, table_page
from svc.pages.filters import LINE, OPEN, faulty_line, filled_form, filtered, form_of, is_view, opened_key, reference_to
from svc.pages.frame import NO_STORE, PAIRS, frame_of, root_of
from svc.pages.home import MOST_RESOURCES, MOST_WAYS, facts, ways_of
from svc.pages.links import Links, printed
from svc.pages.record import LONG_RECORD, RecordPage, json_of, live_address, may_see_history, record_page, selected_page
from svc.pages.statement import StatementForm, found_page, place_of
from svc.pages.templates import Templates
from svc.query.nodes import Query
from svc.resources import PlannedQuery, Registration, RequestTarget, Resource, Resources, StoredRecord, TableResource
from svc.resources.resource import CreatedRecords, StreamedItems
from svc.store.values.records import MISSING, decode, payload_size, projection

NAME_LABEL = "User name"
_SHOWN_QUERY = 2000  # characters of a query with a fault
_LONGEST_TITLE = 200
_LONGEST_DESCRIPTION = 2000
_LONGEST_DETAIL = 5000
_MOST_ERRORS = 100
_TOGETHER = 1 << 16  # bytes of records that become values between two looks at the clock: less than a millisecond
_NOT_OF_PAGES = frozenset(("content-length", "content-encoding", "etag", "last-modified", "expires", *(name.lower() for name, _ in PAIRS)))
"""Header fields that a handler has set for its data, and that do not hold for a page with the user's name."""


Operate = Callable[[Mapping[str, Any], User | None], Awaitable[Any]]
"""The body of an operation, and who asks -> what it answers. Raises Problem."""


class _Native(ContentType):
    """Values as pages want them: with types of their own."""

    name = "text/html"
    native = True
    reads = False


_NATIVE = _Native()


class Pages(ResponseBuilder):
    """`has_login`: whether one can log in. `endpoints`: the paths at which something answers besides resources. `account_links`: what the login page leads to
    besides, (text, path without the first slash); `name_label`: what one logs in with."""

    def __init__(
        self,
        types: ContentTypes,
        compression: Compression,
        clock: Clock,
        report: Callable[[BaseException], None],
        options: RestOptions,
        resources: Resources,
        executor: Executor | None = None,
    ) -> None:
        """`executor`: a thread that loads the templates."""
        super().__init__(types, compression, clock, report, options, resources)
        self._templates = Templates(clock.monotonic, executor)
        self.has_login = False
        self.account_links: tuple[tuple[str, str], ...] = ()
        self.name_label = NAME_LABEL
        self.endpoints: Mapping[str, Any] = {}
        self.operate: Operate | None = None
        """Runs an operation in the name of a user, whose rights are checked; None: there is nothing that could."""
        self.console_addresses: Callable[[], Sequence[str]] = tuple
        """Where the port of the console listens (`http://127.0.0.1:9925`)."""

    # --- before a resource is asked --------------------------------------------------------------------------------------------------

    def prepare(self, request: Request, resource: type[Resource], target: RequestTarget) -> Any:
        """Narrow the query of a collection to what a page can show; if a form of it was sent, a redirect, or the form once more. Code of an application gets
        the query as it is: it may read it in its own way. A view has an answer of its own. Raises Problem."""
        if is_view(target.query, resource):
            return self.view(request, cast(type[TableResource], resource), target)
        if not issubclass(resource, TableResource) or hasattr(resource, "application") or not (target.is_collection or target.query):
            return None
        if target.id_text is not None:
            return None
        resource.admit(request)
        if form := form_of(target.query, resource.table):
            return self._form_sent(request, resource, target, form)
        query = resource.queries.parse(target.query, resource.table) if target.query else Query()
        narrowed = limited(query)
        shorter = None if narrowed is None or query.live else printed(narrowed)
        if shorter is not None:
            target.query = shorter[1:]
        return None

    def _form_sent(self, request: Request, resource: type[TableResource], target: RequestTarget, form: str) -> Any:
        """`form`: its first field."""
        text, table = target.query or "", resource.table
        resource.authorize("get", target, None, request)
        if form == OPEN:
            registration = self._registration(request)
            location = "" if registration is None else self.links(request).record_at(registration, opened_key(text))
            if not location:
                raise ClientError("No record can have this key", code="BAD_VALUE")
            return Response(None, 303, pairs=[("Location", location), NO_STORE])
        try:
            query = filtered(text, table, resource.queries)
            reference = reference_to(query)
            resource.planned(query, target, request, self._now())
        except ClientError as error:
            visible = resource.visible(target)
            values = self._error_values(error, request)
            if form == LINE:
                values |= {"line": faulty_line(text, error, shown_attributes(table, visible)), "before": None}
            else:
                values["filter"] = filled_form(text, filterable(table, visible))
            return self._show(request, "error.html", values, error.status_code)
        return Response(None, 303, pairs=[("Location", reference), NO_STORE])

    def view(self, request: Request, resource: type[TableResource], target: RequestTarget) -> Any:
        """An awaitable of the answer to GET of a view, or to its form. Raises Problem."""
        from svc.pages.views import answer_view  # few servers show forms

        registration = self._registration(request)
        if registration is None or registration.pattern is not None:
            raise NotFound("Not found")
        return answer_view(self, request, resource, target, registration)

    def can_log_in(self, request: Request) -> bool:
        """Whether there are forms for it; without sessions they would be of no use."""
        return self.has_login and request.sessions is not None

    def actions(self, request: Request) -> list[tuple[str, str, str]]:
        """(text, address, key) of what can be done at the address of a request besides reading."""
        from svc.pages.editing.actions import actions_at  # few servers show pages

        return actions_at(self._resources, request)

    # --- results ---------------------------------------------------------------------------------------------------------------------

    def writer(self, preferences: Preferences, target: RequestTarget | None = None) -> ContentType:
        """The type of what cannot be a page; JSON if the client accepts nothing but HTML."""
        return preferences.writer or cast(ContentType, self.types.named("application/json"))

    def record(self, request: Request, target: RequestTarget, record: StoredRecord, preferences: Preferences) -> Any:
        raw = record.raw
        value = decode(raw)
        is_visible = record.visible is None or record.visible.issuperset(("contentType", "data"))
        if is_visible and is_raw_content(value):
            return super().record(request, target, record, preferences)
        if record.visible is not None:
            value = narrow(value, record.visible)
        return self._record_page(request, target, record, value, is_short=payload_size(raw) <= LONG_RECORD)

    def selected(
        self, request: Request, resource: type[TableResource], target: RequestTarget, record: StoredRecord, preferences: Preferences
    ) -> Any:
        rows = resource.select_one(record, target, request)
        registration, links = self._registration(request), self.links(request)

        def answer(value: Any, execution: QueryExecution) -> Any:
            return self._show_record(request, registration, target, selected_page(resource, value, target.id, links))

        return self._only_row(rows, _NATIVE, answer)

    def property(
        self, request: Request, resource: type[TableResource], target: RequestTarget, record: StoredRecord, preferences: Preferences
    ) -> Any:
        name = cast(str, target.property)
        if resource.properties[name].stored and not target.query:
            value = projection((name,))(record.raw)[0]
            if isinstance(value, bytes) or is_blob(value) or is_raw_content(value):
                return super().property(request, resource, target, record, preferences)
            if value is MISSING or (record.visible is not None and name not in record.visible):
                return super().property(request, resource, target, record, preferences)  # which refuses
            return self._show(request, "data.html", self._data_values(request, value) | {"actions": []})
        rows = resource.select_one(record, target, request)

        def answer(value: Any, execution: QueryExecution) -> Any:
            if name not in value:
                raise NotFound("Record has no such property")
            return self._show(request, "data.html", self._data_values(request, value[name]) | {"actions": []})

        return self._only_row(rows, _NATIVE, answer)

    async def collection(self, request: Request, target: RequestTarget, rows: PlannedQuery, preferences: Preferences) -> Any:
        execution = QueryExecution(rows, native=True, whole=True, now=self._now, wall_ms=self._wall() * 1000, reader=request)
        limit = rows.plan.limit
        aggregate = rows.plan.query.aggregate
        is_bounded = execution.whole = (limit is not None and limit <= MOST_ROWS) or (aggregate is not None and aggregate.kind == "count")
        most = MOST_ROWS if limit is not None else ROWS
        total = None
        try:
            while not execution.gather() or not (execution.done or (not is_bounded and len(execution.found) > most)):
                execution.keep()
                await execution.wait_for_slice()
            if rows.plan.query.counted:
                execution.keep()
                total = await self._total(execution, execution.total())
            values = await self._values(execution)
            cursor = execution.run.next_cursor() if execution.done and limit else None
        finally:
            execution.close()
        if aggregate is not None and aggregate.kind == "count":
            return await self._show(request, "data.html", self._data_values(request, values[0]))
        is_cut = not is_bounded and len(values) > most
        values = values[:most]
        request.state.rows = len(values)
        registration = self._registration(request)
        links = self.links(request)
        query = None if registration is None else _query_of(request, registration.resource, rows.plan.query)
        page = collection_page(
            rows,
            values,
            query,
            cursor,
            registration,
            links,
            is_whole=target.prefix is None,
            is_plain=registration is not None and not hasattr(registration.resource, "application"),
            is_cut=is_cut,
        )
        page.total = page.total if total is None else total
        everything = None if query is None else printed(replace(query, limit=None, offset=0, after=None))
        from svc.pages.table_tools import Surroundings, TableTools, table_tools  # many servers never show a page

        tools = TableTools()
        if (
            query is not None
            and registration is not None
            and registration.pattern is None
            and not _reads_paths_itself(registration.resource)
        ):
            around = Surroundings(request, registration, self.endpoints, user_of(request), links, target.prefix is None)
            tools = table_tools(page, rows, query, around)
        shown = {
            "page": page,
            "tools": tools,
            "title": shortened(target.prefix or _name_of(registration) or rows.table.name, _LONGEST_TITLE),
            "actions": self.actions(request),
            "trail": [] if target.prefix is None else self.trail(registration),
            "description": shortened(rows.table.definition.description, _LONGEST_DESCRIPTION),
            "formats": [
                *self._formats(request, registration, target.query, None if everything is None else everything[1:]),
                *self._description(request, registration),
                *self._import(request, registration),
            ],
        }
        return await self._show(request, "collection.html", shown)

    async def found_values(self, rows: PlannedQuery, request: Request) -> list[Any]:
        """All rows of a query that has a limit, as values."""
        execution = QueryExecution(rows, native=True, whole=True, now=self._now, wall_ms=self._wall() * 1000, reader=request)
        try:
            while not execution.gather() or not execution.done:
                execution.keep()
                await execution.wait_for_slice()
            return await self._values(execution)
        finally:
            execution.close()

    async def _values(self, execution: QueryExecution) -> list[Any]:
        """The found rows as values, some at a time; some of them may be large."""
        if execution.shaped:
            return execution.found
        found, values = execution.found, []
        at, deadline = 0, self._now() + SLICE
        while at < len(found):
            end, size = at, 0
            while end < len(found) and size < _TOGETHER:
                size += len(found[end])
                end += 1
            execution.found = found[at:end]
            values += execution.values()
            at = end
            if at < len(found) and self._now() >= deadline:
                execution.keep()
                await execution.wait_for_slice()
                deadline = self._now() + SLICE
        return values

    async def _record_page(
        self, request: Request, target: RequestTarget, record: StoredRecord, value: dict[str, Any], *, is_short: bool
    ) -> Response:
        """`is_short`: it can be made JSON in one go."""
        from svc.pages.address_forms import record_forms  # what no other page needs
        from svc.pages.lookups import Lookups
        from svc.pages.related import related_records

        registration, links, table = self._registration(request), self.links(request), record.table
        page = record_page(table, value, record.visible, registration, links)
        page.json = json_of(value) if is_short else ""
        lookups = Lookups(request, self._now, self._wall)
        page.related = await related_records(table, value, record.visible, links, lookups)
        if registration is not None and target.id is not None:
            address = f"{request.scheme}://{request.host}{request.prefix}{request.pathname}"
            page.forms = record_forms(address, table, target.id)
            page.live = live_address(registration, target.id, request, links)
            page.previous, page.next = await lookups.neighbours(registration, target.id, links)
            if self.operate is not None and may_see_history(registration, user_of(request)):
                page.views.append(("History", "?_view=history", "h"))
        response: Response = await self._show_record(request, registration, target, page)
        return response

    def _show_record(self, request: Request, registration: Registration | None, target: RequestTarget, page: RecordPage) -> Any:
        shown = {
            "page": page,
            "title": page.key or "record",
            "actions": self.actions(request),
            "trail": self.trail(registration),
            "formats": self._formats(request, registration, target.query, target.query),
        }
        return self._show(request, "record.html", shown)

    def _data(self, request: Request, writer: ContentType, value: Any) -> Any:
        registration = self._registration(request)
        resource = None if registration is None else registration.resource
        if resource is not None and is_description(resource, value):
            page = table_page(cast(type[TableResource], resource), value, self.links(request))
            shown = {"page": page, "title": page.name, "trail": [], "formats": self._formats(request, registration, request.query, None)}
            return self._show(request, "table.html", shown)
        return self._show(request, "data.html", self._data_values(request, value))

    def _data_values(self, request: Request, value: Any, *, has_more: bool = False) -> dict[str, Any]:
        registration = self._registration(request)
        return {
            "page": data_page(value, has_more=has_more),
            "actions": self.actions(request),
            "title": shortened(unquote(request.pathname.rstrip("/").rpartition("/")[2]) or "data", _LONGEST_TITLE),
            "trail": self.trail(registration) if request.pathname.count("/") > 1 else [],
            "formats": self._formats(request, registration, request.query, request.query if isinstance(value, list) else None),
        }

    async def _items(self, request: Request, writer: ContentType, streamed: StreamedItems) -> Any:
        """The first items of an iterator; it is closed then."""
        items: list[Any] = []
        has_more = False
        try:
            async for item in streamed.items:
                if len(items) == MOST_ROWS:
                    has_more = True
                    break
                items.append(item)
        finally:
            close = getattr(streamed.items, "aclose", None)
            if close is not None:
                await close()
        return await self._show(request, "data.html", self._data_values(request, items, has_more=has_more))

    def _handlers_response(self, request: Request, target: RequestTarget, response: Response, preferences: Preferences) -> Any:
        if response.data is None or response.body is not None or response.headers.has("Content-Type"):
            return super()._handlers_response(request, target, response, preferences)
        check_response(response)
        kept = [pair for pair in response.pairs if pair[0].lower() not in _NOT_OF_PAGES]
        return self._show(request, "data.html", self._data_values(request, response.data), response.status, kept)

    def ended(self, request: Request, response: Response) -> Any:
        """The answer to a form of a browser: what has no content becomes a page, too, or leads to what was made."""
        status = response.status
        if response.body not in (None, b"") or 300 <= status < 400:
            return response
        if status == 201 and response.headers.has("Location"):
            return Response(None, 303, pairs=[*response.pairs, NO_STORE])
        kept = [pair for pair in response.pairs if pair[0].lower() not in _NOT_OF_PAGES]
        title = "Done" if status < 400 else REASONS.get(status, "Error")
        shown = {"title": title, "status": status, "trail": self.trail(self._registration(request)), "formats": []}
        return self._show(request, "done.html", shown, 200 if status in (204, 205) else status, [*kept, NO_STORE])

    def _created(self, request: Request, created: CreatedRecords, preferences: Preferences) -> Any:
        """A form of a browser has made records: it is led to the new one, or to the collection."""
        location = request.prefix + self._resources.path_to(request.handler_path, created.location)
        return Response(None, 303, pairs=[("Location", location), NO_STORE])

    # --- pages of the server itself --------------------------------------------------------------------------------------------------

    async def home(self, request: Request, *, is_page: bool) -> Any:
        """What there is: as a page, or as data for other clients."""
        found = await facts(self._resources, self._endpoints_for(user_of(request)), request, has_login=self.can_log_in(request))
        if not is_page:
            return found
        from svc.pages.neighbours import neighbour  # few servers show it
        from svc.pages.views import VIEWS

        root, user = root_of(request.pathname), user_of(request)
        there = {each["path"] for each in found["interfaces"]}
        for number, entry in enumerate((*found["resources"], *found["interfaces"])):
            registration = self._resources.get(entry["name"]) if number < min(len(found["resources"]), MOST_WAYS) else None
            entry["ways"] = [] if registration is None else ways_of(registration, entry["path"], there, request)
            entry["new"] = "new" in VIEWS and entry.get("kind") == "table" and "POST" in entry["methods"]
            entry["href"] = root + entry["path"][1:]
            entry["form"] = shortened(entry.get("form", ""), _LONGEST_TITLE)
            entry["name"] = shortened(entry["name"], _LONGEST_TITLE)
            entry["description"] = shortened(entry.get("description", ""), _LONGEST_DESCRIPTION)
        is_admin = user is not None and user.super_user
        shown = {"facts": found, "root": root, "console": neighbour(self.console_addresses(), request) if is_admin else ""}
        return await self._show(request, "home.html", {**shown, "title": "svc", "trail": [], "formats": [], "most": MOST_RESOURCES})

    def _endpoints_for(self, user: User | None) -> Iterator[str]:
        """The paths of those that may do something for a caller, as far as they say for whom they do."""
        for path, endpoint in self.endpoints.items():
            may_use = getattr(endpoint, "may_use", None)
            if may_use is None or may_use(user):
                yield path

    def form(
        self,
        request: Request,
        name: str,
        *,
        status: int = 200,
        pairs: HeaderPairs | None = None,
        templates: Templates | None = None,
        **values: Any,
    ) -> Any:
        """A page that is nothing but a form, `login.html` and the like. `templates`: others than those of the pages."""
        common = {"trail": [], "formats": [], "account_links": self.account_links, "name_label": self.name_label}
        return self._show(request, name, {**common, **values}, status, pairs, templates)

    def statement(self, request: Request, form: StatementForm) -> Any:
        """The form for SQL."""
        fault = form.fault
        values: dict[str, Any] = {
            "text": form.text,
            "parameters": form.parameters,
            "fault": "" if fault is None else shortened(fault.message, _LONGEST_DETAIL),
            "fault_place": place_of(form),
            "page": None if form.found is None else found_page(form.found),
        }
        if form.found is not None:
            request.state.rows = len(form.found.rows)
        pairs: HeaderPairs = [NO_STORE, *(() if fault is None else fault.headers)]
        return self.form(request, "statement.html", status=200 if fault is None else fault.status_code, pairs=pairs, title="SQL", **values)

    def problem(self, error: Problem, request: Request, request_id: str) -> Response:
        """An error, with what its problem object says."""
        values = self._error_values(error, request, request_id)
        values["frame"] = frame_of(request, has_login=self.can_log_in(request))
        whole = self._templates.maybe_render("error.html", values)
        body = self._templates.stream("error.html", values) if whole is None else whole
        return Response(body, error.status_code, pairs=[*PAIRS, *error.headers])

    def _error_values(self, error: Problem, request: Request, request_id: str = "") -> dict[str, Any]:
        query = position = None
        if isinstance(error, QueryError) and error.position is not None and request.query and len(request.query) <= _SHOWN_QUERY:
            query, position = request.query, min(error.position, len(request.query))
        return {
            "title": REASONS.get(error.status_code, "Error"),
            "trail": [],
            "formats": [],
            "status": error.status_code,
            "code": error.code,
            "detail": shortened(error.message, _LONGEST_DETAIL),
            "errors": [shortened(each, _LONGEST_TITLE) for each in error.errors[:_MOST_ERRORS]] if len(error.errors) > 1 else [],
            "faults": [_fault_text(each) for each in error.faults[:_MOST_ERRORS]],
            "retryable": error.retryable,
            "request": request_id,
            "before": None if query is None else query[:position],
            "at": None if query is None else query[position:],
            "filter": None,
            "line": None,
        }

    # --- what pages have in common ---------------------------------------------------------------------------------------------------

    async def _show(
        self,
        request: Request,
        name: str,
        values: dict[str, Any],
        status: int = 200,
        pairs: HeaderPairs | None = None,
        templates: Templates | None = None,
    ) -> Response:
        """`pairs`: header fields that go before those of pages."""
        values["frame"] = frame_of(request, has_login=self.can_log_in(request))
        body = await (templates or self._templates).render(name, values)
        own = pairs or []
        names = {pair[0].lower() for pair in own}
        response = Response(body, status, pairs=[*own, *(pair for pair in PAIRS if pair[0].lower() not in names)])
        return self._compression.apply(request, response)

    def _registration(self, request: Request) -> Registration | None:
        return self._resources.get(request.handler_path)

    def links(self, request: Request) -> Links:
        return Links(self._resources, request, root_of(request.pathname))

    def _description(self, request: Request, registration: Registration | None) -> list[tuple[str, str]]:
        """(name, address) of what describes a table."""
        if registration is None or not registration.path or registration.pattern is not None:
            return []
        path = self._resources.path_to(registration.path, "")[1:].rstrip("/")
        return [("Attributes", root_of(request.pathname) + path)]

    def _import(self, request: Request, registration: Registration | None) -> list[tuple[str, str]]:
        """(name, address) of the view that loads a file into a table."""
        from svc.pages.importing.offer import may_import

        is_offered = self.operate is not None and registration is not None and may_import(registration, user_of(request))
        return [("Import", "?_view=import")] if is_offered else []

    def trail(self, registration: Registration | None) -> list[tuple[str, str]]:
        """(text, path from the root) of the resource that a page is below."""
        if registration is None or registration.pattern is not None or not registration.path:
            return []
        return [(shortened(registration.path, _LONGEST_TITLE), self._resources.path_to(registration.path, "")[1:])]

    def _formats(self, request: Request, registration: Registration | None, query: str | None, rows: str | None) -> list[tuple[str, str]]:
        """(name, address) of the same in types for programs. `query`: of one page. `rows`: of all rows; None: it has none."""
        if registration is None or registration.pattern is not None or _reads_paths_itself(registration.resource):
            return []
        last = "./" + request.pathname.rpartition("/")[2]
        found = [("JSON", f"{last}.json{'?' + query if query else ''}")]
        if rows is not None:
            found.append(("CSV", f"{last}.csv{'?' + rows if rows else ''}"))
        return found


def _query_of(request: Request, resource: type[Resource], planned: Query) -> Query | None:
    """What the address asks for; None where code of an application has made something else of it. `planned`: what was run."""
    if not issubclass(resource, TableResource):
        return None
    if not hasattr(resource, "application"):
        return resource.queries.parse(request.query, resource.table) if request.query else Query()
    try:
        query = resource.queries.parse(request.query, resource.table) if request.query else Query()
    except QueryError:
        return None
    return (
        query
        if replace(query, where=None, select=planned.select if query.select is None else query.select) == replace(planned, where=None)
        else None
    )


def _fault_text(fault: Mapping[str, object]) -> str:
    """Where a fault lies: `index: 3, attribute: price`."""
    return ", ".join(f"{name}: {shortened(str(value), _LONGEST_TITLE)}" for name, value in fault.items() if name != "message")


def _name_of(registration: Registration | None) -> str:
    return "" if registration is None else registration.path


def _reads_paths_itself(resource: type[Resource]) -> bool:
    """Whether the rest of the path is an id as it is, extensions included."""
    return bool(getattr(getattr(resource, "application", None), "direct_url_mapping", False))
