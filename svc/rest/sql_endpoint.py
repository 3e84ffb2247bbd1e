"""`/sql`: statements over all tables, on the ports of the applications (spec: sql §1).

    POST  {"sql", "parameters", "explain"} in any type of bodies that is read, or the statement as `application/sql`
    GET   in a browser: a form that posts them

No code of an application is asked: what a caller may do here follows from its role alone, and `sql.access` says who is let in at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from svc.api.statements import Statement, Statements
from svc.auth.roles import rights
from svc.auth.users import User, user_of
from svc.awaitables import is_waiting, then
from svc.connection.exchange import BodyLimit
from svc.content.json_type import decode_json
from svc.content.texts import decode_text
from svc.errors import AccessViolation, BadBody, ClientError, MethodNotAllowed, NotAcceptable, NotFound, Problem, ValidationError
from svc.http.bodies import LONG_BODY, QUERY_MAX, Bodies, query_limit
from svc.http.media_types import media_type_of, parameters_of
from svc.http.preferences import Preferences
from svc.http.problems import problem_response
from svc.http.responses import ResponseBuilder
from svc.http.row_stream import reader_of
from svc.messages import Request, Response
from svc.pages import Pages
from svc.pages.collection import MOST_ROWS
from svc.pages.statement import Found, StatementForm
from svc.resources import RequestTarget
from svc.resources.resource import StreamedRows
from svc.rest.html_forms import is_html_form
from svc.store import Store

if TYPE_CHECKING:
    from svc.sql.errors import MissingRights

ADDRESS = "/sql"
METHODS = ("GET", "HEAD", "POST", "OPTIONS")
SQL_TYPE = "application/sql"  # RFC 6922
SUPER_USERS = "super_users"
_READS = ("GET", "HEAD")
_MOST_FIELDS = 20  # of an address
_CSV = "text/csv"


class SqlEndpoint:
    """Answers at `ADDRESS` where no resource does."""

    methods = METHODS

    def __init__(self, statements: Statements, store: Store, access: str, bodies: Bodies, responses: ResponseBuilder, pages: Pages) -> None:
        """`access`: the setting `sql.access`."""
        self._statements = statements
        self._store = store
        self._access = access
        self._bodies = bodies
        self._responses = responses
        self._pages = pages

    def handle(self, request: Request) -> Any:
        """A Response, or an awaitable of one. Raises Problem."""
        request.handler_path = ADDRESS[1:]
        preferences = self._responses.preferences(request)
        if request.method in _READS:
            if not preferences.page:
                raise NotAcceptable(f"GET {ADDRESS} is a form for browsers (text/html); programs POST statements")
            self._admit(request)
            fields = _fields(request.query)
            return self._pages.statement(request, StatementForm(fields.get("sql", ""), fields.get("parameters", "")))
        if request.method != "POST":
            raise MethodNotAllowed(f"{request.method[:40]} is no method of {ADDRESS}", METHODS)
        is_form = preferences.page and is_html_form(request)
        may_log_in = is_form and request.user is None and self._pages.can_log_in(request)
        if not may_log_in:
            self._admit(request)
        if request.user is None and (len(request.content) > LONG_BODY or "content-encoding" in request.block.fields):
            raise _too_long_for(None)
        media_type = media_type_of(request.block.get("content-type"))
        if media_type != SQL_TYPE and (not media_type or self._bodies.types.reader(media_type) is None):
            raise ClientError(
                f"{media_type[:100] or 'A body without a type'} cannot hold a statement; send application/json or {SQL_TYPE}", 415
            )
        if may_log_in:
            return self._after_login(request)
        if is_form:
            return self._by_form(request)
        if preferences.writer is None:
            raise NotAcceptable(preferences.refusal)
        body = self._bodies.read(request, max_bytes=QUERY_MAX)
        return then(body, lambda value: self._answer(request, _statement_of(request, media_type, value), preferences))

    def receive(self, request: Request) -> BodyLimit:
        """How a body is collected that is not here yet: a long one only of callers who may do something here."""
        user = user_of(request)
        if user is None or not self.may_use(user):
            return BodyLimit(LONG_BODY, _too_long_for(user))
        return query_limit(request)

    def may_use(self, user: User | None) -> bool:
        """Whether something is allowed to a caller here. O(tables)."""
        if user is not None and user.super_user:
            return True
        if self._access == SUPER_USERS:
            return False
        return any(rights(user, table).any for database in self._store.databases.values() for table in database.tables.values())

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        return problem_response(error, self._bodies.types, request, request_id)

    # --- running ---------------------------------------------------------------------------------------------------------------------

    def _admit(self, request: Request) -> None:
        """Raises AccessViolation."""
        user = user_of(request)
        if self._access == SUPER_USERS and (user is None or not user.super_user):
            raise AccessViolation(user, "" if user is None else "SQL is for super users here (sql.access)")

    def _answer(self, request: Request, statement: Statement, preferences: Preferences) -> Any:
        statement.explain = statement.explain or preferences.explain
        result = self._statements.run(statement, _told)
        answer = then(result, lambda found: self._responses.answer(request, RequestTarget(), found))
        return then(answer, _with_preference) if preferences.explain else answer

    async def _after_login(self, request: Request) -> Response:
        """A form of somebody who may have been logged in when it was shown (http §7.8). Raises Problem."""
        from svc.pages.log_in_again import answered_after_login  # few logins end meanwhile
        from svc.pages.sent_form import sent_form

        async def answer(has_logged_in: bool) -> Response:
            self._admit(request)
            response: Response = await self._by_form(request)
            return response

        return await answered_after_login(self._pages, request, await sent_form(request), answer)

    async def _by_form(self, request: Request) -> Any:
        """A browser gets a page with the form, and what the statement has found or what is wrong with it; or the rows as a file."""
        form = StatementForm()
        try:
            body = self._bodies.read(request, max_bytes=QUERY_MAX)
            fields = await body if is_waiting(body) else body
            form = StatementForm(_text(fields, "sql"), _text(fields, "parameters"))
            statement = _statement(request, form.text or None, _parameters(form.parameters), _flag(fields.get("explain")))
            result = self._statements.run(statement, _told)
            if is_waiting(result):
                result = await result
            if type(result) is StreamedRows and fields.get("as") == "csv":
                target = RequestTarget()
                target.extension = _CSV
                response = self._responses.answer(request, target, result)
                return await response if is_waiting(response) else response
            form.found = await _found(result)
        except Problem as fault:
            if fault.status_code == 401:
                raise  # to the page that leads to the login
            form.fault = fault
        return await self._pages.statement(request, form)


def _told(error: MissingRights) -> Problem:
    """What is hidden from a user does not exist for it."""
    from svc.sql.errors import unknown_column

    if not error.is_hidden or error.status_code == 401:
        return error
    database, table, _, attribute = error.missing[0]
    return unknown_column(attribute) if attribute else NotFound(f"Table '{database}.{table}' does not exist")


def _with_preference(response: Response) -> Response:
    response.pairs.append(("Preference-Applied", "explain"))
    return response


async def _found(result: Any) -> Found:
    """As much of a result as a page shows."""
    if type(result) is not StreamedRows:
        return Found(value=result)
    rows = result.rows
    try:
        found = list(rows.found)
        while not rows.done and len(found) <= MOST_ROWS:
            found += await rows.more()
        return Found(tuple(rows.columns), found[:MOST_ROWS], is_cut=len(found) > MOST_ROWS, seconds=result.seconds)
    finally:
        rows.close()


# --- bodies ------------------------------------------------------------------------------------------------------------------------------


def _statement_of(request: Request, media_type: str, value: Any) -> Statement:
    """Of a body, or of a statement with parameters in the address. Raises ClientError."""
    if media_type == SQL_TYPE:
        fields = _fields(request.query)
        if fields.keys() - {"parameters", "explain"}:
            raise ClientError(f"Beside a statement as {SQL_TYPE} the address has 'parameters', as JSON, and 'explain'; nothing else")
        text = decode_text(request.content, parameters_of(request.block.get("content-type") or ""))  # which is decoded by now
        return _statement(request, text, _parameters(fields.get("parameters", "")), _flag(fields.get("explain")))
    if type(value) is not dict:
        raise BadBody("The body must be an object with 'sql'" + ("; one statement per request" if type(value) is list else ""))
    parameters, explain = value.get("parameters"), value.get("explain")
    if is_html_form(request):
        parameters, explain = _parameters(parameters), _flag(explain)
    return _statement(request, value.get("sql"), parameters, explain)


def _statement(request: Request, text: Any, parameters: Any, explain: Any) -> Statement:
    """Raises ValidationError."""
    if text is None:
        raise ValidationError("The 'sql' parameter is missing from the request body")
    if not isinstance(text, str):
        raise ValidationError("'sql' must be a string")
    if not text:
        raise ValidationError("'sql' is not allowed to be empty")
    if explain is not None and not isinstance(explain, bool):
        raise ValidationError("'explain' must be a boolean")
    return Statement(text, parameters, user_of(request), request, reader_of(request), explain=bool(explain))


def _text(fields: Mapping[str, Any], name: str) -> str:
    """Of a field of a form, as it was typed: browsers send the line breaks of text areas as CRLF."""
    text = fields.get(name)
    return text.replace("\r\n", "\n") if isinstance(text, str) else ""


def _parameters(given: Any) -> Any:
    """Of a text. Raises BadBody."""
    if not isinstance(given, str) or not given.strip():
        return None
    try:
        return decode_json(given.encode("utf-8", "surrogatepass"))
    except BadBody as error:
        raise BadBody(f"'parameters' must be JSON, a list or an object: {error.message}") from None


def _flag(given: Any) -> bool:
    return given in ("", "true", "on", "1")


def _fields(query: str | None) -> dict[str, str]:
    """Of an address. Raises ClientError."""
    try:
        return dict(parse_qsl(query or "", keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"))
    except ValueError:
        raise ClientError(f"The query string is not UTF-8 after percent-decoding, or has more than {_MOST_FIELDS} fields") from None


def _too_long_for(user: User | None) -> AccessViolation:
    if user is None:
        return AccessViolation(None, f"Must login: without it a body has at most {LONG_BODY} bytes, and no content coding")
    return AccessViolation(user, f"Nothing is allowed to this user here: a body has at most {LONG_BODY} bytes")
