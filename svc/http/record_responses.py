"""Responses to GET of one record: whole, through `select`, or one of its properties (spec: http §1.2, §2.2, §4, §7.4).

`record`, the path of almost all requests, is one function that builds only the answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from svc.content.content_type import ContentType, Shape
from svc.content.long_records import LONG, is_long, record_pieces
from svc.content.values import is_blob
from svc.errors import NotAcceptable, NotFound
from svc.http.compression import VARY
from svc.http.conditional import last_modified, matched_tag
from svc.http.preferences import Preferences
from svc.http.raw_content import is_raw_content
from svc.http.response_parts import PRIVATE, PUBLIC, ResponseParts
from svc.http.row_responses import declared_types, plan_shape
from svc.http.row_stream import QueryExecution, narrow
from svc.messages import HeaderPairs, Request, Response
from svc.query.select import joins
from svc.resources import PlannedQuery, RequestTarget, StoredRecord, TableResource
from svc.store import Table
from svc.store.entity_tags import etag_of, tag_of_view
from svc.store.values.records import COMPRESSED, MISSING, decode, decode_json, projection, version_of


class RecordResponses(ResponseParts):
    """Responses with one record, or a part of one."""

    def record(self, request: Request, target: RequestTarget, record: StoredRecord, preferences: Preferences) -> Any:
        """200 with a whole record, 304, or 406."""
        raw = record.raw
        tag = etag_of(raw) if record.visible is None else tag_of_view(raw, record.visible)
        if target.extension is None:
            writer, type_pair = preferences.writer, preferences.type_pair
        else:
            writer = self.writer(preferences, target)
            type_pair = ("Content-Type", writer.content_type)
        if request.user is None or self.options.last_modified:
            pairs = self._record_pairs(request, type_pair, raw, tag)
        else:
            pairs = [type_pair, ("ETag", f'"{tag}"'), VARY, PRIVATE]
        if preferences.conditional:
            matched = matched_tag(request.block, tag, version_of(raw), preferences.coding)
            if matched is not None:
                return self._unchanged(request, preferences, matched, pairs, partial(self.record, request, target, record))
        if target.extension is None and (raw.find(b"contentType") >= 0 or raw[0] & COMPRESSED):
            content = decode(raw)
            if is_raw_content(content) and (record.visible is None or record.visible.issuperset(("contentType", "data"))):
                return self._raw_content(request, content, pairs)
        if writer is None:
            raise NotAcceptable(preferences.refusal)
        if (len(raw) > LONG or raw[0] & COMPRESSED) and writer.style is not None and is_long(raw):
            response = Response(record_pieces(raw, writer, record.visible), 200, pairs=pairs)  # holds nothing while it is not read
            return self._compression.apply(request, response, writer.compressible)
        if record.visible is None and not writer.is_tabular:
            body = writer.encode_stored(raw)
        else:
            rows = writer.row_writer(_shape_of(record), 1)
            value = decode(raw) if writer.native else decode_json(raw)
            if record.visible is not None:
                value = narrow(value, record.visible)
            body = rows.begin() + rows.rows([value]) + rows.end() if writer.is_tabular else writer.encode_long(value)
        if type(body) is not bytes:
            return self._respond(request, writer, body, 200, pairs)
        if writer.headers:
            pairs += writer.headers
        response = Response(body, 200, pairs=pairs)
        if len(body) <= preferences.threshold:
            return response
        return self._compression.apply(request, response, writer.compressible)

    def no_record(self, table: Table, key: Any) -> NotFound:
        """404, with `Last-Modified` set to the time of deletion if that option is on and the log still has it (spec: http §4.1)."""
        version = table.deleted_version(key) if self.options.last_modified else None
        return NotFound("Record not found", headers=() if version is None else (("Last-Modified", last_modified(version)),))

    def selected(
        self, request: Request, resource: type[TableResource], target: RequestTarget, record: StoredRecord, preferences: Preferences
    ) -> Any:
        """A record through `select`. With values of other tables in it, its version does not identify the content: no validators (spec: http §4.1)."""
        writer = self.writer(preferences, target)
        rows = resource.select_one(record, target, request)
        pairs = self._part_pairs(request, rows, record, writer)
        if pairs[1][0] == "ETag" and preferences.conditional:
            matched = matched_tag(request.block, tag_of_view(record.raw, record.visible), version_of(record.raw), preferences.coding)
            if matched is not None:
                return self._unchanged(request, preferences, matched, pairs, partial(self.selected, request, resource, target, record))

        def answer(value: Any, execution: QueryExecution) -> Any:
            if writer.is_tabular:
                tabular = writer.row_writer(plan_shape(rows), 1)
                return self._respond(request, writer, tabular.begin() + tabular.rows([value]) + tabular.end(), 200, pairs)
            return self._respond_row(request, writer, value, execution, pairs)

        return self._only_row(rows, writer, answer)

    def property(
        self, request: Request, resource: type[TableResource], target: RequestTarget, record: StoredRecord, preferences: Preferences
    ) -> Any:
        """One declared property of a record (spec: http §1.2, §2.2): 404 if the record does not have it."""
        name = cast(str, target.property)
        if resource.properties[name].stored and target.extension is None and not target.query:
            return self._stored_property(request, name, record, preferences)
        writer = self.writer(preferences, target)
        rows = resource.select_one(record, target, request)
        pairs = self._part_pairs(request, rows, record, writer)
        if pairs[1][0] == "ETag" and preferences.conditional:
            matched = matched_tag(request.block, tag_of_view(record.raw, record.visible), version_of(record.raw), preferences.coding)
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
        return self._respond(request, writer, writer.encode_long(value), 200, pairs)

    def _only_row(self, rows: PlannedQuery, writer: ContentType, answer: Callable[[Any, QueryExecution], Any]) -> Any:
        """The result of `answer` for the one row of a query; an awaitable of it if the row takes more than a slice to find."""
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
                await execution.wait_for_slice()
                if execution.gather():
                    break
            result = self._of_only_row(execution, answer)
        except BaseException:
            execution.close()
            raise
        return await result if inspect.isawaitable(result) else result

    def _of_only_row(self, execution: QueryExecution, answer: Callable[[Any, QueryExecution], Any]) -> Any:
        if not execution.found:
            raise NotFound("Record not found")  # it expired since the request began
        result = answer(execution.found[0], execution)
        if not execution.is_streaming:
            execution.close()
        return result

    def _respond_row(self, request: Request, writer: ContentType, value: Any, execution: QueryExecution, pairs: HeaderPairs) -> Any:
        """One value; in pieces if it holds very many related records."""
        pieces = execution.value_pieces(writer, value) if execution.joins else None
        if pieces is None:
            return self._respond(request, writer, writer.encode_long(value), 200, pairs)
        return self._compression.apply(request, Response(pieces, 200, pairs=pairs + (writer.headers or [])), writer.compressible)

    def _part_pairs(self, request: Request, rows: PlannedQuery, record: StoredRecord, writer: ContentType) -> HeaderPairs:
        type_pair = ("Content-Type", writer.content_type)
        if not joins(rows.plan.select, rows.table):
            return self._record_pairs(request, type_pair, record.raw, tag_of_view(record.raw, record.visible))
        return [type_pair, VARY, PUBLIC if request.user is None else PRIVATE]


def _no_property(name: str, record: StoredRecord) -> NotFound:
    """404. A property that the caller may not read is answered like one that the table does not have: `/Plant/42.nothing` is a key then."""
    return NotFound("Record has no such property" if record.visible is None or name in record.visible else "Record not found")


def _shape_of(record: StoredRecord) -> Shape:
    columns = [attribute.name for attribute in record.table.definition.attributes if attribute.stored]
    if record.visible is not None:
        columns = [name for name in columns if name in record.visible]
    is_open = record.visible is None and not record.table.definition.sealed
    return Shape(tuple(columns), open=is_open, types=declared_types(record.table, columns))
