"""The source of a caching table, in whatever form the application has it, and what its results and errors mean (spec: caching §2)."""

from __future__ import annotations

import inspect
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from svc.api.context import entered
from svc.api.instances import Instance
from svc.api.records import Record
from svc.api.resource import Resource
from svc.awaitables import is_waiting, settled, then
from svc.errors import ClientError, Problem, ServerError
from svc.http.responses import as_response
from svc.loop import contained
from svc.messages import Response
from svc.store.caching import State
from svc.store.values.records import to_ms

logger = logging.getLogger("svc.applications")

METHODS = ("get", "put", "patch", "delete", "publish", "invalidate", "subscribe")
SERVED_STALE = frozenset((500, 502, 503, 504))  # statuses instead of which a stale record may be served
_UNREACHABLE = (ConnectionRefusedError, ConnectionResetError, socket.gaierror)
_CAUSES = 10  # errors behind an error that are looked at

_decode_json = msgspec.json.Decoder().decode


@dataclass(slots=True)
class Answer:
    """What a source says of a record. `record`: if it is NEW; `is_json`: its values are those of JSON. `version`: if the source has said it."""

    state: State
    record: Mapping[str, Any] | None = None
    is_json: bool = False
    version: float | None = None


class Source:
    """An application's source. `name`: for messages and for finding it again when its application is loaded again."""

    def __init__(self, given: Any, *, intermediate: bool = False) -> None:
        """Raises TypeError for what cannot be one."""
        if isinstance(given, Resource):
            given = type(given)
        self.given = given
        self.is_intermediate = intermediate
        self._resource: type[Resource] | None = given if isinstance(given, type) and issubclass(given, Resource) else None
        kind = given if isinstance(given, type) else type(given)
        self.name = f"{kind.__module__}.{kind.__qualname__}"
        self._functions: dict[str, Callable[..., Any]] = {}
        for name in METHODS:
            if self._resource is not None:
                is_there = name in given._own_verbs or (given._table is not None and name != "subscribe")
            else:
                is_there = callable(getattr(given, name, None))
            if is_there:
                self._functions[name] = getattr(given, name) if self._resource is not None else _fitting(getattr(given, name))
        if not self._functions:
            raise TypeError(f"a source needs at least one of {', '.join(METHODS)}: {self.name} has none of them")

    def has(self, name: str) -> bool:
        return name in self._functions

    @property
    def is_available(self) -> Any:
        """Whether it may be asked now; may be an awaitable."""
        try:
            available = getattr(self.given, "available", True)
            return available() if callable(available) else available
        except BaseException as error:
            raise contained(error)

    def call(self, name: str, id: Any, context: Any, *data: Any) -> Any:
        """Call one of its methods in `context`: what it returns, or an awaitable of it."""
        spans = context.state.spans
        if spans is None:
            return self._call(name, id, context, data)
        return spans.call(f"{self.name.rpartition('.')[2]}.{name}", lambda: self._call(name, id, context, data))

    def _call(self, name: str, id: Any, context: Any, data: tuple[Any, ...]) -> Any:
        function = self._functions[name]
        try:
            with entered(context):
                result = settled(function(id, *data, context) if self._resource is None else function(id, *data, context=context))
        except BaseException as error:
            raise contained(error)
        return _in_context(result, context) if is_waiting(result) else result

    def subscribe(self, request: Any) -> Any:
        """Raises whatever the source raises."""
        return settled(self._functions["subscribe"](request))

    def __repr__(self) -> str:
        return f"<Source {self.name}>"


async def _in_context(result: Awaitable[Any], context: Any) -> Any:
    try:
        with entered(context):
            found = settled(await result)
            while is_waiting(found):
                found = settled(await found)
            return found
    except BaseException as error:
        raise contained(error)


def _fitting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called with as many of the arguments as it takes."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a builtin
        return function
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return function
    count = sum(parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) for parameter in parameters)
    return lambda *arguments: function(*arguments[:count])


# --- results -----------------------------------------------------------------------------------------------------------------------------


def understand(result: Any) -> Any:
    """The Answer that a result of `get` is, or an awaitable of it. Raises Problem."""
    if result is None:
        return Answer(State.MISSING)
    if isinstance(result, Record):
        return Answer(State.NEW, result.copy(), version=result.get_updated_time())
    if isinstance(result, Instance):
        return Answer(State.NEW, result._answer(), version=result.get_updated_time() if result._table is not None else None)
    if type(result) is dict:
        result = as_response(result)
    if isinstance(result, Mapping):
        return Answer(State.NEW, result)
    status = _status_of(result)
    if status is None:
        raise ServerError(f"its get returned {type(result).__name__}, which is no record and no response", 502)
    if status == 304:
        return Answer(State.UNCHANGED)
    _check_status(status)
    return then(_body_of(result), _from_body)


def _status_of(result: Any) -> int | None:
    for name in ("status", "status_code"):
        status = getattr(result, name, None)
        if isinstance(status, int) and not isinstance(status, bool):
            return status
    return None


def _check_status(status: int) -> None:
    """Raise Problem for the status of a response that has no record, or refuses one."""
    if status >= 300:
        raise Problem(f"its status is {status}", status if status < 600 else 502)


def _body_of(response: Any) -> Any:
    """The data of a response, decoded or as bytes, or an awaitable of that."""
    data = getattr(response, "data", None)
    if data is not None:
        return data
    if isinstance(response, Response):
        return _gathered(response.body) if hasattr(response.body, "__aiter__") else response.body
    json = getattr(response, "json", None)
    if callable(json):
        return json()
    body = getattr(response, "body", None)
    return getattr(response, "content", None) if body is None else body


async def _gathered(body: Any) -> bytes:
    return b"".join([chunk async for chunk in body])


def _from_body(body: Any) -> Answer:
    if isinstance(body, bytes | bytearray | memoryview | str):
        try:
            body = _decode_json(body)
        except (msgspec.MsgspecError, RecursionError):  # no JSON, or nested too deeply
            raise ServerError("the body of its response is not JSON", 502) from None
        if isinstance(body, dict):
            return Answer(State.NEW, body, is_json=True)
    if body is None:
        return Answer(State.MISSING)
    if isinstance(body, Mapping):
        return Answer(State.NEW, body, is_json=True)
    raise ServerError(f"the body of its response is {type(body).__name__}, not an object", 502)


def to_version(value: Any) -> float:
    """`last_modified` as a source sets it: ms, a datetime, an HTTP date or another date of text. Raises ServerError.

    >>> to_version("Thu, 01 Jan 1970 00:00:01 GMT"), to_version(5)
    (1000.0, 5.0)
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e17:
        return float(value)
    try:
        if isinstance(value, str):
            try:
                value = parsedate_to_datetime(value)
            except ValueError:
                value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return float(to_ms(value if value.tzinfo is not None else value.replace(tzinfo=UTC)))
    except (ValueError, OverflowError):
        pass
    raise ServerError("the last_modified that it has set is no time: set ms, a datetime or the text of an HTTP date", 502)


# --- errors ------------------------------------------------------------------------------------------------------------------------------


def is_unreachable(error: BaseException) -> bool:
    """Whether the source could not be reached: connection refused or reset, or no address for its name. Libraries wrap such errors."""
    found: BaseException | None = error
    for _ in range(_CAUSES):
        if found is None:
            return False
        if isinstance(found, _UNREACHABLE):
            return True
        if isinstance(found, BaseExceptionGroup):  # one for each address of a name
            return all(map(is_unreachable, found.exceptions))
        found = found.__cause__ or found.__context__
    return False


def status_of_error(error: BaseException) -> int | None:
    """The status that an error stands for; None: it does not say."""
    for name in ("status_code", "statusCode", "status"):
        status = getattr(error, name, None)
        if isinstance(status, int) and 300 <= status <= 599:
            return status
    response = getattr(error, "response", None)  # of an error that a library has made of a response
    return None if response is None else _status_of(response)


def problem_of(error: BaseException, what: str, call: str = "") -> Problem:
    """The answer to a caller whose record the source has failed to give, or `call`: to write. `what`: names the record. Other errors are logged."""
    doing = f"{what} cannot be written: {call}" if call else f"{what} cannot be loaded: its source"
    if is_unreachable(error):
        return ServerError(f"{doing} cannot be reached", 502)
    status = status_of_error(error)
    if isinstance(error, Problem):
        message, code, headers, retryable = f"{doing}: {error.message}", error.code, error.headers, error.retryable
        return _kind_of(error.status_code)(message, error.status_code, code, headers=headers, retryable=retryable)
    if status is None:
        logger.error("%s has failed", doing, exc_info=error)
        return ServerError(f"{doing} has failed", 500)
    # The text of a library's error may have the address of the source in it, with its key.
    logger.log(logging.WARNING if status >= 500 else logging.INFO, "%s: %s", doing, error)
    return _kind_of(status)(f"{doing} has answered {status}", status)


def again(problem: Problem) -> Problem:
    """The same problem for someone else, with a traceback of its own."""
    kind = _kind_of(problem.status_code)
    return kind(problem.message, problem.status_code, problem.code, headers=problem.headers, retryable=problem.retryable)


def _kind_of(status: int) -> type[Problem]:
    return ServerError if status >= 500 else ClientError if status >= 400 else Problem


def check_written(result: Any) -> None:
    """Raise Problem if what a source has returned for a write is a response that refuses it."""
    if type(result) is dict:
        result = as_response(result)
    if result is None or isinstance(result, Mapping | str | bytes | bool):
        return
    status = _status_of(result)
    if status is not None:
        _check_status(status)
