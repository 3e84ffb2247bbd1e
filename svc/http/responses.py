"""What a handler returned -> a Response in the type the client wants (contract: http §2, §4, §6-§8, §12.4).

The plain path, a record as JSON, is one function and builds nothing but the answer. Everything else pays for what it needs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from svc.clock import Clock
from svc.content.content_type import ANY_SHAPE, ContentType, Shape
from svc.content.handler_type import HandlerType
from svc.content.registry import ContentTypes
from svc.content.values import is_blob
from svc.errors import NotAcceptable, NotFound
from svc.http.compression import Compression, choice_of
from svc.http.conditional import last_modified, matched_tag
from svc.http.preferences import Preferences, preferences_of
from svc.http.raw_content import blob_response, is_raw_content, raw_response
from svc.http.row_stream import HEAVY, QueryExecution, RowStream, narrow
from svc.messages import HeaderPairs, Headers, Request, Response
from svc.query.execution import result_columns
from svc.query.explain import Explanation
from svc.query.select import joins
from svc.resources import Created, PlannedQuery, RequestTarget, Resources, StoredRecord, TableResource
from svc.store import Table
from svc.store.values.records import COMPRESSED, MISSING, decode, decode_json, etag_of, etag_of_version, projection, version_of

VARY = ("Vary", "Accept, Accept-Encoding")
PRIVATE = ("Cache-Control", "private, no-cache")
TABULAR = "text/csv"  # the type whose rows need to know their columns
PAGE_ROWS = 1000  # a query with a limit up to this is answered as a whole, with the way to its next page


@dataclass(frozen=True)
class RestOptions:
    """`pages`: pages of a query name the address of the next one."""

    last_modified: bool = False
    pages: bool = True


class ResponseBuilder:
    """Makes the responses of `Rest`."""

    def __init__(
        self,
        types: ContentTypes,
        compression: Compression,
        clock: Clock,
        report: Callable[[BaseException], None],
        options: RestOptions,
        resources: Resources | None = None,
    ) -> None:
        """`resources`: where new records are found, None: none are made here."""
        self._resources = Resources() if resources is None else resources
        self.types = types
        self._compression = compression
        self._now = clock.monotonic
        self._wall = clock.wall
        self._report = report
        self._options = options

    # --- which type ------------------------------------------------------------------------------------------------------------------

    def writer(self, preferences: Preferences, target: RequestTarget | None = None) -> ContentType:
        """The type to answer in; an extension beats `Accept` (http §1.2). Raises NotAcceptable."""
        if target is not None and target.extension is not None:
            named = self.types.named(target.extension)
            if named is None:
                raise NotAcceptable(f"{target.extension} is not served here")
            return named
        if preferences.writer is None:
            raise NotAcceptable(preferences.refusal)
        return preferences.writer

    def preferences(self, request: Request) -> Preferences:
        preferences: Preferences | None = request.block.memo.get("rest")
        if preferences is None or preferences.generation != self.types.generation:
            return preferences_of(request.block, self.types, self._compression)
        return preferences

    # --- one record ------------------------------------------------------------------------------------------------------------------

    def record(self, request: Request, target: RequestTarget, record: StoredRecord, preferences: Preferences) -> Any:
        """A stored record, in JSON form or native."""
        raw = record.raw
        tag = etag_of(raw)
        if target.extension is None:
            writer, type_pair = preferences.writer, preferences.type_pair
        else:
            writer = self.writer(preferences, target)
            type_pair = ("Content-Type", writer.content_type)
        if request.user is None or self._options.last_modified:
            pairs = self._record_pairs(request, type_pair, raw, tag)
        else:
            pairs = [type_pair, ("ETag", f'"{tag}"'), VARY, PRIVATE]
        if preferences.conditional:
            matched = matched_tag(request.block, tag, version_of(raw), preferences.coding)
            if matched is not None:
                return self._unchanged(request, preferences, matched, pairs, partial(self.record, request, target, record))
        if target.extension is None and (b"contentType" in raw or raw[0] & COMPRESSED):
            content = decode(raw)
            if is_raw_content(content) and (record.visible is None or record.visible.issuperset(("contentType", "data"))):
                return self._raw_content(request, content, pairs)
        if writer is None:
            raise NotAcceptable(preferences.refusal)
        if record.visible is None and writer.name != TABULAR:
            body = writer.encode_stored(raw)
        else:
            rows = writer.row_writer(_shape_of(record), 1)
            value = decode(raw) if writer.native else decode_json(raw)
            if record.visible is not None:
                value = narrow(value, record.visible)
            body = rows.begin() + rows.rows([value]) + rows.end() if writer.name == TABULAR else writer.encode(value)
        if type(body) is not bytes:
            return self._respond(request, writer, body, 200, pairs)
        if writer.headers:
            pairs += writer.headers
        response = Response(body, 200, pairs=pairs)
        if len(body) <= preferences.threshold:
            return response
        return self._compression.apply(request, response, writer.compressible)

    def no_record(self, table: Table, key: Any) -> NotFound:
        """404, which says when the record was deleted, where times are shown and as long as the log knows it (http §4.1)."""
        version = table.deleted_version(key) if self._options.last_modified else None
        return NotFound("Record not found", headers=() if version is None else (("Last-Modified", last_modified(version)),))

    def _record_pairs(self, request: Request, type_pair: tuple[str, str], raw: bytes, tag: str) -> HeaderPairs:
        pairs: HeaderPairs = [type_pair, ("ETag", f'"{tag}"'), VARY]
        if request.user is not None:
            pairs.append(PRIVATE)
        if self._options.last_modified:
            pairs.append(("Last-Modified", last_modified(version_of(raw))))
        return pairs

    def selected(
        self, request: Request, resource: type[TableResource], target: RequestTarget, record: StoredRecord, preferences: Preferences
    ) -> Any:
        """A record through `select`. With values of other tables in it, its version says nothing about it: no validators (http §4.1)."""
        writer = self.writer(preferences, target)
        rows = resource.select_one(record, target, request)
        pairs = self._part_pairs(request, rows, record, writer)
        if pairs[1][0] == "ETag" and preferences.conditional:
            matched = matched_tag(request.block, etag_of(record.raw), version_of(record.raw), preferences.coding)
            if matched is not None:
                return self._unchanged(request, preferences, matched, pairs, partial(self.selected, request, resource, target, record))

        def answer(value: Any, execution: QueryExecution) -> Any:
            if writer.name == TABULAR:
                tabular = writer.row_writer(plan_shape(rows), 1)
                return self._respond(request, writer, tabular.begin() + tabular.rows([value]) + tabular.end(), 200, pairs)
            return self._respond_row(request, writer, value, execution, pairs)

        return self._only_row(rows, writer, answer)

    def property(
        self, request: Request, resource: type[TableResource], target: RequestTarget, record: StoredRecord, preferences: Preferences
    ) -> Any:
        """One declared property of a record (http §1.2, §2.2): 404 if the record does not have it."""
        name = cast(str, target.property)
        if resource.properties[name].stored and target.extension is None and not target.query:
            return self._stored_property(request, name, record, preferences)
        writer = self.writer(preferences, target)
        rows = resource.select_one(record, target, request)
        pairs = self._part_pairs(request, rows, record, writer)
        if pairs[1][0] == "ETag" and preferences.conditional:
            matched = matched_tag(request.block, etag_of(record.raw), version_of(record.raw), preferences.coding)
            if matched is not None:
                return self._unchanged(request, preferences, matched, pairs, partial(self.property, request, resource, target, record))

        def answer(value: Any, execution: QueryExecution) -> Any:
            if name not in value:
                raise _no_property(name, record)
            return self._respond_row(request, writer, value[name], execution, pairs)

        return self._only_row(rows, writer, answer)

    def _stored_property(self, request: Request, name: str, record: StoredRecord, preferences: Preferences) -> Any:
        raw = record.raw
        value = projection((name,))(raw)[0]
        if value is MISSING or (record.visible is not None and name not in record.visible):
            raise _no_property(name, record)
        pairs = self._record_pairs(request, preferences.type_pair, raw, etag_of(raw))
        if preferences.conditional:
            matched = matched_tag(request.block, etag_of(raw), version_of(raw), preferences.coding)
            if matched is not None:
                return self._unchanged(request, preferences, matched, pairs, partial(self._stored_property, request, name, record))
        if isinstance(value, bytes) or is_blob(value):
            return self._raw(request, value, pairs)
        if is_raw_content(value):
            return self._raw_content(request, value, pairs)
        writer = preferences.writer
        if writer is None:
            raise NotAcceptable(preferences.refusal)
        if not writer.native:
            value = projection((name,), json=True)(raw)[0]
        return self._respond(request, writer, writer.encode(value), 200, pairs)

    def _only_row(self, rows: PlannedQuery, writer: ContentType, answer: Callable[[Any, QueryExecution], Any]) -> Any:
        """What `answer` makes of the one row of a query; later, if it takes more than a slice to find."""
        execution = QueryExecution(rows, native=writer.native, whole=True, now=self._now, wall_ms=self._wall() * 1000)
        try:
            if execution.gather():
                return self._of_only_row(execution, answer)
            execution.keep()  # a coroutine begins to run in a later turn
        except BaseException:
            execution.close()
            raise
        return self._only_row_later(execution, answer)

    async def _only_row_later(self, execution: QueryExecution, answer: Callable[[Any, QueryExecution], Any]) -> Any:
        try:
            while True:
                await execution.give_way()
                if execution.gather():
                    break
            result = self._of_only_row(execution, answer)
        except BaseException:
            execution.close()
            raise
        return await result if inspect.isawaitable(result) else result

    def _of_only_row(self, execution: QueryExecution, answer: Callable[[Any, QueryExecution], Any]) -> Any:
        if not execution.found:
            raise NotFound("Record not found")  # it expired while we looked
        result = answer(execution.found[0], execution)
        if not execution.is_streaming:
            execution.close()
        return result

    def _respond_row(self, request: Request, writer: ContentType, value: Any, execution: QueryExecution, pairs: HeaderPairs) -> Any:
        """One value, which may hold very many related records: then in pieces."""
        pieces = execution.value_pieces(writer, value) if execution.joins else None
        if pieces is None:
            return self._respond(request, writer, writer.encode(value), 200, pairs)
        return self._compression.apply(request, Response(pieces, 200, pairs=pairs + (writer.headers or [])), writer.compressible)

    def _part_pairs(self, request: Request, rows: PlannedQuery, record: StoredRecord, writer: ContentType) -> HeaderPairs:
        type_pair = ("Content-Type", writer.content_type)
        if not joins(rows.plan.select, rows.table):
            return self._record_pairs(request, type_pair, record.raw, etag_of(record.raw))
        return [type_pair, VARY] if request.user is None else [type_pair, VARY, PRIVATE]

    def _unchanged(
        self, request: Request, preferences: Preferences, matched: str, pairs: HeaderPairs, whole: Callable[[Preferences], Any]
    ) -> Response:
        """304, with the fields of the 200 but for `Content-Type`, which is the first of `pairs`.

        Its entity tag says which representation is still good: the one that the client has named, or (`matched` is "") the one that it would be sent now.
        Whether that has a coding is known when it has been made: `whole` makes it.
        """
        if matched == "":
            if preferences.coding is None or "range" in request.block.fields:
                return Response(None, 304, pairs=pairs[1:])
            response = whole(preferences.without_conditions())
            if type(response) is Response:
                matched = (response.headers.get("ETag") or "")[1:-1]
            close = getattr(response.body if type(response) is Response else response, "close", None)
            if close is not None:
                close()
        return Response(None, 304, pairs=[("ETag", f'"{matched}"') if pair[0] == "ETag" and matched else pair for pair in pairs[1:]])

    # --- content as it came ----------------------------------------------------------------------------------------------------------

    def _raw_content(self, request: Request, content: dict[str, Any], pairs: HeaderPairs) -> Response:
        """A stored `{contentType, data}` goes out as what it was (http §7.4)."""
        data = content["data"]
        content_type = content["contentType"]
        if isinstance(data, str):
            if content_type.startswith("text/"):
                content_type += "; charset=utf-8"
            data = data.encode()
        return self._raw(request, data, pairs, content_type)

    def _raw(self, request: Request, data: Any, pairs: HeaderPairs, content_type: str | None = None) -> Response:
        """`data`: bytes or a blob, which knows its own type."""
        kept = [pair for pair in pairs if pair[0] not in ("Content-Type", "Vary")]
        return self._compression.apply(request, raw_response(request, content_type, data, kept))

    # --- collections -----------------------------------------------------------------------------------------------------------------

    def collection(self, request: Request, target: RequestTarget, rows: PlannedQuery, preferences: Preferences) -> Any:
        """The rows of a query: at once if a slice finds them all; else, served in between with others, when the answer can begin."""
        writer = self.writer(preferences, target)
        if preferences.explain:
            return self._explained(request, rows, writer)
        limit = rows.plan.limit
        whole = rows.plan.query.aggregate is not None or (limit is not None and limit <= PAGE_ROWS)
        execution = QueryExecution(rows, native=writer.native, whole=whole, now=self._now, wall_ms=self._wall() * 1000, reader=request)
        if isinstance(writer, HandlerType):
            execution.keep()
            return self._handled(request, rows, execution, writer)
        try:
            if execution.gather() and (execution.done or not (writer.needs_count or whole)):
                return self._begun(request, rows, execution, writer)
            execution.keep()  # a coroutine begins to run in a later turn
        except BaseException:
            execution.close()
            raise
        return self._gathered(request, rows, execution, writer)

    async def _gathered(self, request: Request, rows: PlannedQuery, execution: QueryExecution, writer: ContentType) -> Response:
        """What takes longer than a slice. The peer going away cancels this, and with it the work."""
        try:
            while True:
                await execution.give_way()
                if execution.gather():
                    break
            count = None
            if writer.needs_count and not execution.done:
                count_slice = execution.count()
                count = count_slice()
                while count is None:
                    await execution.give_way()
                    count = count_slice()
            return self._begun(request, rows, execution, writer, count)
        except BaseException:
            execution.close()
            raise

    def _begun(
        self, request: Request, rows: PlannedQuery, execution: QueryExecution, writer: ContentType, count: int | None = None
    ) -> Response:
        """The answer: complete if all rows are found, else a stream of the rest."""
        pairs = self._collection_pairs(request, writer)
        aggregate = rows.plan.query.aggregate
        if not execution.done or (execution.joins and execution.weight > HEAVY):
            if not execution.done:
                execution.keep()
            pairs.append(_timing(rows.plan_seconds, execution.scan_seconds, None))
            stream = RowStream(execution, writer.row_writer(plan_shape(rows) if writer.name == TABULAR else ANY_SHAPE, count), self._report)
            return self._compression.apply(request, Response(stream, 200, pairs=pairs), writer.compressible)
        began = self._now()
        if aggregate is not None and aggregate.kind == "count":
            body = writer.encode(execution.found[0])
        else:
            found = execution.found
            row_writer = writer.row_writer(plan_shape(rows) if writer.name == TABULAR else ANY_SHAPE, len(found))
            body = row_writer.begin() + (execution.write(row_writer, found) if found else b"") + row_writer.end()
        if rows.plan.limit and self._options.pages and request.method != "QUERY":  # whose query no address can repeat
            cursor = execution.run.next_cursor()
            if cursor is not None:
                pairs.append(("Link", f'<{next_page(request.query or "", cursor, rows.plan.limit)}>; rel="next"'))
        execution.close()
        pairs.append(_timing(rows.plan_seconds, execution.scan_seconds, self._now() - began))
        response = Response(body, 200, pairs=pairs)
        if len(body) <= self.preferences(request).threshold:
            return response
        return self._compression.apply(request, response, writer.compressible)

    async def _explained(self, request: Request, rows: PlannedQuery, writer: ContentType) -> Response:
        """The plan with what it really found, instead of the records (`Prefer: explain`)."""
        snapshot = rows.table.database.take_snapshot()
        try:
            explanation = Explanation(rows.plan, snapshot)
            scan = 0.0
            while True:
                moment = self._now()
                done = explanation.step()
                scan += self._now() - moment
                if done:
                    break
                await rows.table.database.store.slices.take()
            result = explanation.result() | {
                "planMilliseconds": round(rows.plan_seconds * 1000, 3),
                "scanMilliseconds": round(scan * 1000, 3),
            }
        finally:
            snapshot.abort()
        pairs: HeaderPairs = [("Content-Type", writer.content_type), VARY, ("Preference-Applied", "explain")]
        if request.user is not None:
            pairs.append(PRIVATE)
        response = self._respond(request, writer, writer.encode(result), 200, pairs)
        return cast(Response, await response if inspect.isawaitable(response) else response)

    async def _handled(self, request: Request, rows: PlannedQuery, execution: QueryExecution, writer: HandlerType) -> Response:
        """A collection in a type that an application brought: as a stream if its handler takes one, else as a list."""
        pairs = self._collection_pairs(request, writer)
        pairs.append(_timing(rows.plan_seconds, 0.0, None))
        values = execution.iter_values()
        if writer.streams:
            return self._compression.apply(request, Response(writer.encode_stream(values), 200, pairs=pairs), writer.compressible)
        found = [value async for value in values]
        aggregate = rows.plan.query.aggregate
        result = writer.encode(found[0] if aggregate is not None and aggregate.kind == "count" else found)
        body = await result if inspect.isawaitable(result) else result
        return self._compression.apply(request, Response(body, 200, pairs=pairs), writer.compressible)

    def _collection_pairs(self, request: Request, writer: ContentType) -> HeaderPairs:
        pairs: HeaderPairs = [("Content-Type", writer.content_type), VARY]
        if request.user is not None:
            pairs.append(PRIVATE)
        if writer.headers:
            pairs += writer.headers
        return pairs

    # --- what else a handler returns -------------------------------------------------------------------------------------------------

    def answer(self, request: Request, target: RequestTarget, result: Any, missing: str = "") -> Any:
        """Data, nothing, a response, new records, or an awaitable of one of these (http §2.1, §12.4)."""
        kind = type(result)
        if kind is dict:
            result = as_response(result)
            kind = type(result)
        if result is None or (result is True and request.method == "DELETE"):
            if request.method in ("GET", "HEAD"):
                raise NotFound(missing or "Not found")
            return Response(None, 204)
        if inspect.isawaitable(result):
            return self._await(request, target, result, missing)
        preferences = self.preferences(request)
        if kind is Response:
            if result.data is not None and result.body is None:
                writer = self.writer(preferences, target)
                result.body = writer.encode(result.data)
                if not result.headers.has("Content-Type"):
                    result.pairs += [("Content-Type", writer.content_type), VARY]
            elif is_blob(result.body):
                result = blob_response(request, result, result.body)
            if "if-none-match" in request.block.fields and request.method in ("GET", "HEAD") and result.status == 200:
                unchanged = _unchanged_coded(request, result)
                if unchanged is not None:
                    return unchanged
            return self._compression.apply(request, result, True)
        if kind is StoredRecord:
            return self.record(request, target, result, preferences)
        if kind is PlannedQuery:
            return self.collection(request, target, result, preferences)
        if kind is Created:
            writer = self.writer(preferences)
            pairs: HeaderPairs = [("Content-Type", writer.content_type), VARY]
            if result.location:
                pairs.append(("Location", self._resources.path_to(request.handler_path, result.location)))
            return self._respond(request, writer, writer.encode(result.value), 201, pairs)
        if isinstance(result, bytes) or is_blob(result):
            return self._raw(request, result, [])
        return self._data(request, self.writer(preferences, target), result)

    def _data(self, request: Request, writer: ContentType, value: Any) -> Any:
        pairs: HeaderPairs = [("Content-Type", writer.content_type), VARY]
        if request.last_modified is not None:
            tag = etag_of_version(request.last_modified)
            pairs.append(("ETag", f'"{tag}"'))
        if request.user is not None:
            pairs.append(PRIVATE)
        if request.last_modified is not None and request.method in ("GET", "HEAD"):
            preferences = self.preferences(request)
            matched = matched_tag(request.block, tag, request.last_modified, preferences.coding)
            if matched is not None:
                whole = list(pairs)
                return self._unchanged(
                    request, preferences, matched, pairs, lambda plain: self._respond(request, writer, writer.encode(value), 200, whole)
                )
        return self._respond(request, writer, writer.encode(value), 200, pairs)

    async def _await(self, request: Request, target: RequestTarget, result: Any, missing: str) -> Any:
        return self.answer(request, target, await result, missing)

    def _respond(self, request: Request, writer: ContentType, body: Any, status: int, pairs: HeaderPairs) -> Any:
        """`body`: bytes, or an awaitable of them from an application's content type."""
        if writer.headers:
            pairs += writer.headers
        if type(body) is not bytes:
            return self._respond_later(request, writer, body, status, pairs)
        response = Response(body, status, pairs=pairs)
        if len(body) <= self.preferences(request).threshold:
            return response
        return self._compression.apply(request, response, writer.compressible)

    async def _respond_later(self, request: Request, writer: ContentType, body: Any, status: int, pairs: HeaderPairs) -> Response:
        return self._compression.apply(request, Response(await body, status, pairs=pairs), writer.compressible)


def _unchanged_coded(request: Request, response: Response) -> Response | None:
    """304 for a handler's answer that the client has with a content coding: what the handler compares knows only the tag that it gave."""
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


def _no_property(name: str, record: StoredRecord) -> NotFound:
    """What may not be seen is answered as a property that the table does not have: `/Plant/42.nothing` is a key then."""
    return NotFound("Record has no such property" if record.visible is None or name in record.visible else "Record not found")


def as_response(result: dict[str, Any]) -> Any:
    """A plain mapping that a handler returned is a response if it has `status` and `headers`, or exactly `status` and one of `data` and `body`;
    anything else is data, for attributes of records may be called `status` (http §12.4)."""
    status = result.get("status")
    if type(status) is not int:
        return result
    keys = result.keys()
    if "headers" not in keys and not (100 <= status <= 599 and keys in ({"status", "data"}, {"status", "body"})):
        return result
    headers = result.get("headers")
    return Response(result.get("body"), status, headers if isinstance(headers, Headers) else Headers(headers), result.get("data"))


def next_page(query: str, cursor: str, limit: int) -> str:
    """The address of the page behind `cursor`, as a reference relative to that of the first page: whoever forwarded the request may know that by another
    path. Only the first page skips records.

    >>> next_page("price>5&after(x)&limit(1,3)", "AbC", 2)
    '?price%3E5&limit(2)&after(AbC)'
    """
    kept = [term for term in _top_terms(query) if _PAGE_CALL.fullmatch(term) is None]
    terms = "&".join((*kept, f"limit({limit})", f"after({cursor})"))
    return f"?{terms}".replace("<", "%3C").replace(">", "%3E").replace('"', "%22")


def _top_terms(query: str) -> list[str]:
    """The terms between those `&` that are in no brackets: a relation filter has a limit of its own.

    >>> _top_terms("a=1&b[c=2&limit(3)]&limit(4)")
    ['a=1', 'b[c=2&limit(3)]', 'limit(4)']
    """
    terms = [""]
    depth = 0
    for piece in query.split("&"):
        terms[-1] = f"{terms[-1]}&{piece}" if depth else piece
        depth += sum(map(piece.count, "([{")) - sum(map(piece.count, ")]}"))
        if depth <= 0:
            depth = 0
            terms.append("")
    return [term for term in terms if term]


_PAGE_CALL = re.compile(r"(?:limit|after)\([^)]*\)")


def plan_shape(rows: PlannedQuery) -> Shape:
    plan = rows.plan
    columns = result_columns(plan)
    if rows.visible is not None:
        columns = tuple([name for name in columns if name in rows.visible])
    if plan.query.aggregate is not None:
        return Shape(columns)
    if plan.select is not None:
        return Shape(columns, plan.select.shape)
    return Shape(columns, open=not rows.table.definition.sealed and rows.visible is None)


def _shape_of(record: StoredRecord) -> Shape:
    columns = [attribute.name for attribute in record.table.definition.attributes if attribute.stored]
    if record.visible is not None:
        return Shape(tuple([name for name in columns if name in record.visible]))
    return Shape(tuple(columns), open=not record.table.definition.sealed)


def _timing(plan: float, scan: float, serialise: float | None) -> tuple[str, str]:
    """Where the time of a query went, ms."""
    if serialise is None:
        return "Server-Timing", f"plan;dur={plan * 1000:.2f}, scan;dur={scan * 1000:.2f}"
    return "Server-Timing", f"plan;dur={plan * 1000:.2f}, scan;dur={scan * 1000:.2f}, serialise;dur={serialise * 1000:.2f}"
