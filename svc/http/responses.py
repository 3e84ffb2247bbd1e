"""What a handler returned -> a Response in the type the client prefers (spec: http §2, §4, query, http §7-§8, architecture §11).

response_parts     content type, header fields, 304, raw content, compression
record_responses   one record, a selection of it, one property
row_responses      the rows of a query
found_rows         rows that are found in parts
here               everything else: no value, plain values, new records, a handler's own Response
"""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from math import inf
from typing import Any

from svc.awaitables import then
from svc.content.content_type import ContentType
from svc.content.handler_type import HandlerType
from svc.content.values import NotAwaited, is_blob
from svc.errors import NotFound
from svc.http.compression import VARY, choice_of
from svc.http.conditional import matched_tag
from svc.http.found_rows import FoundRowsResponses
from svc.http.item_stream import gather_items, item_stream
from svc.http.preferences import Preferences
from svc.http.raw_content import blob_response
from svc.http.record_responses import RecordResponses
from svc.http.response_check import check_response
from svc.http.row_responses import RowResponses
from svc.messages import HeaderPairs, Headers, Request, Response
from svc.resources import CreatedRecords, PlannedQuery, RequestTarget, StoredRecord
from svc.resources.resource import NullableValue, StreamedItems, StreamedRows
from svc.store.entity_tags import etag_of_version

SLICE = 1000  # values that are looked at in one turn
_LEAVES = frozenset((str, int, float, bool, type(None), bytes))


async def resolved(value: Any) -> Any:
    """`value` with the results of all awaitables in its mappings and lists, at any depth, one after the other; of what is iterated, a list. Raises what they
    raise, NotAcceptable for one of too many items."""
    return await _Walk().resolve(value)


class _Walk:
    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen = 0

    async def resolve(self, value: Any) -> Any:
        self._seen += 1
        if self._seen % SLICE == 0:
            await asyncio.sleep(0)
        while inspect.isawaitable(value):
            made = await value
            if made is value:  # it need not be awaited: the results of a search
                break
            value = made
        if hasattr(type(value), "__aiter__"):
            value = await gather_items(aiter(value))
        if isinstance(value, dict):
            return {name: each if type(each) in _LEAVES else await self.resolve(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [each if type(each) in _LEAVES else await self.resolve(each) for each in value]
        return value


class ResponseBuilder(RecordResponses, RowResponses, FoundRowsResponses):
    """Makes the responses of REST and of the operations."""

    def answer(self, request: Request, target: RequestTarget, result: Any, missing: str = "") -> Any:
        """The response to any result of a handler: a value, None, a Response, new records, or an awaitable of one of these (spec: http §2.1)."""
        kind = type(result)
        if kind is dict:
            result = as_response(result)
            kind = type(result)
        if result is None or (result is True and request.method == "DELETE"):
            if request.method in ("GET", "HEAD"):
                raise NotFound(missing or "Not found")
            return Response(None, 204)
        if inspect.isawaitable(result):
            return then(result, lambda value: self.answer(request, target, value, missing))
        preferences = self.preferences(request)
        if kind is Response:
            try:
                return self._handlers_response(request, target, result, preferences)
            except NotAwaited:
                return self._handlers_response_later(request, target, result, preferences)
        if kind is StoredRecord:
            return self.record(request, target, result, preferences)
        if kind is PlannedQuery:
            return self.collection(request, target, result, preferences)
        if kind is StreamedRows:
            return self.found_rows(request, self.writer(preferences, target), result)
        if kind is CreatedRecords:
            return self._created(request, result, preferences)
        if isinstance(result, bytes) or is_blob(result):
            return self._raw(request, result, [])
        if kind is NullableValue:
            return self.value(request, target, result.value)
        if kind is StreamedItems:
            return self._items(request, self.writer(preferences, target), result)
        writer = self.writer(preferences, target)
        try:
            return self._data(request, writer, result)
        except NotAwaited:
            return self._data_later(request, writer, result)

    def value(self, request: Request, target: RequestTarget, value: Any) -> Any:
        """200 with the value of a property, also if it is null."""
        if value is None:
            return self._data(request, self.writer(self.preferences(request), target), None)
        return self.answer(request, target, value)

    def _handlers_response(self, request: Request, target: RequestTarget, response: Response, preferences: Preferences) -> Response:
        """The Response that a handler made, with its `data` encoded and its blob opened."""
        check_response(response)
        body: Any = response.body
        if response.data is not None and body is None:
            writer = self.writer(preferences, target)
            response.body = writer.encode(response.data)
            if not response.headers.has("Content-Type"):
                response.pairs += [("Content-Type", writer.content_type), VARY]
        elif is_blob(body):
            response = blob_response(request, response, body)
        if "if-none-match" in request.block.fields and request.method in ("GET", "HEAD") and response.status == 200:
            unchanged = _unchanged_coded(request, response)
            if unchanged is not None:
                return unchanged
        return self._compression.apply(request, response, True)

    async def _data_later(self, request: Request, writer: ContentType, value: Any) -> Response:
        """Data with awaitables in it."""
        response = self._data(request, writer, await _resolve(request, value))
        made: Response = await response if inspect.isawaitable(response) else response
        return made

    async def _handlers_response_later(
        self, request: Request, target: RequestTarget, response: Response, preferences: Preferences
    ) -> Response:
        data = await _resolve(request, response.data)
        copy = Response(None, response.status, None, data, pairs=list(response.pairs))  # others may be answered with it, too
        return self._handlers_response(request, target, copy, preferences)

    def _items(self, request: Request, writer: ContentType, streamed: StreamedItems) -> Any:
        """The items of an iterator, sent while they are made."""
        pairs: HeaderPairs = [("Content-Type", writer.content_type), VARY]
        if isinstance(writer, HandlerType):
            if not writer.streams:
                return self._gathered_items(request, writer, streamed, pairs)
            stream = writer.encode_stream(streamed.items)
        elif writer.needs_count:
            return self._gathered_items(request, writer, streamed, pairs)
        else:
            where = f"{request.method} {request.target[:200]}"
            if request.handler is not None:
                where += f", answered by {request.handler.place}"
            resolve = partial(_resolve, request)
            stream = item_stream(streamed.items, writer.row_writer(), self._now, self._report, where, request.state, resolve)
        return self._compression.apply(request, Response(stream, 200, pairs=pairs), writer.compressible)

    async def _gathered_items(self, request: Request, writer: ContentType, streamed: StreamedItems, pairs: HeaderPairs) -> Any:
        items = await gather_items(streamed.items)
        try:
            body = writer.encode(items)
        except NotAwaited:
            body = writer.encode(await _resolve(request, items))
        response = self._respond(request, writer, await body if inspect.isawaitable(body) else body, 200, pairs)
        return await response if inspect.isawaitable(response) else response

    def _created(self, request: Request, created: CreatedRecords, preferences: Preferences) -> Any:
        """201 with the new record, or the keys of new records, and `Location`."""
        writer = self.writer(preferences)
        pairs: HeaderPairs = [("Content-Type", writer.content_type), VARY]
        if created.location:
            pairs.append(("Location", request.prefix + self._resources.path_to(request.handler_path, created.location)))
        return self._respond(request, writer, writer.encode(created.value), 201, pairs)

    def _data(self, request: Request, writer: ContentType, value: Any) -> Any:
        if type(value) is list:
            request.state.rows = len(value)
        pairs: HeaderPairs = [("Content-Type", writer.content_type), VARY]
        version = request.last_modified
        if version is not None and version < inf:
            tag = etag_of_version(version)
            pairs.append(("ETag", f'"{tag}"'))
        if version is not None and version < inf and request.method in ("GET", "HEAD"):
            preferences = self.preferences(request)
            matched = matched_tag(request.block, tag, version, preferences.coding)
            if matched is not None:
                whole = list(pairs)
                return self._unchanged(
                    request, preferences, matched, pairs, lambda plain: self._respond(request, writer, writer.encode(value), 200, whole)
                )
        return self._respond(request, writer, writer.encode(value), 200, pairs)


async def _resolve(request: Request, value: Any) -> Any:
    """In the context of the handler, if there is one."""
    handler = request.handler
    return await (resolved(value) if handler is None else handler.run_in_context(resolved(value), request))


def _unchanged_coded(request: Request, response: Response) -> Response | None:
    """304 for a handler's response that the client has cached with a content coding: the handler itself compares only the tag without a coding."""
    tag = response.headers.get("ETag") or ""
    if tag[:1] != '"':
        return None
    matched = matched_tag(request.block, tag[1:-1], 0.0, choice.name if (choice := choice_of(request.block).coding) else None)
    if matched is None or matched in ("", tag[1:-1]):
        return None
    close = getattr(response.body, "close", None)
    if close is not None:
        close()
    kept = [pair for pair in response.pairs if not pair[0].lower().startswith(("content-", "etag", "accept-ranges"))]
    return Response(None, 304, pairs=[("ETag", f'"{matched}"'), *kept])


def as_response(result: dict[str, Any]) -> Any:
    """A plain mapping that a handler returned is a response if it has `status` and `headers`, or exactly `status` and one of `data` and `body`;
    anything else is data, for attributes of records may be called `status` (architecture §11)."""
    status = result.get("status")
    if type(status) is not int:
        return result
    keys = result.keys()
    if "headers" not in keys and not (100 <= status <= 599 and keys in ({"status", "data"}, {"status", "body"})):
        return result
    headers = result.get("headers")
    return Response(result.get("body"), status, headers if isinstance(headers, Headers) else Headers(headers), result.get("data"))
