"""Responses with the rows of a query: complete, or streamed; explained plans; links to the next page (spec: query, http §8)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

from svc.content.content_type import ANY_SHAPE, ContentType, Shape
from svc.content.handler_type import HandlerType
from svc.http.compression import VARY
from svc.http.preferences import Preferences
from svc.http.response_parts import PRIVATE, PUBLIC, ResponseParts
from svc.http.row_stream import HEAVY, QueryExecution, RowStream, reader_of
from svc.messages import HeaderPairs, Request, Response
from svc.query.execution import result_columns
from svc.query.explain import Explanation
from svc.query.lasting_run import LastingRun
from svc.query.tables import AnyTable
from svc.query.terms import iter_terms
from svc.resources import PlannedQuery, RequestTarget

_FILE_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
PAGE_ROWS = 1000  # a query with a limit up to this is answered as a whole, with the address of its next page


class RowResponses(ResponseParts):
    """Responses with the rows of a query."""

    def collection(self, request: Request, target: RequestTarget, rows: PlannedQuery, preferences: Preferences) -> Any:
        """The rows of a query: at once if one slice finds them all; else an awaitable, which works a slice at a time."""
        writer = self.writer(preferences, target)
        if preferences.explain:
            return self._explained(request, rows, writer)
        limit = rows.plan.limit
        whole = rows.plan.query.aggregate is not None or (limit is not None and limit <= PAGE_ROWS)
        execution = QueryExecution(rows, native=writer.native, whole=whole, now=self._now, wall_ms=self._wall() * 1000, reader=request)
        if isinstance(writer, HandlerType):
            execution.keep()
            return self._handled(request, rows, execution, writer)
        count_total = None
        try:
            if execution.gather() and (execution.done or not (writer.needs_count or whole)):
                if not _is_total_asked(rows, preferences):
                    return self._begun(request, rows, execution, writer)
                count_total = execution.total()
                total = count_total()
                if total is not None:
                    return self._begun(request, rows, execution, writer, total=total)
            execution.keep()  # a coroutine begins to run in a later turn
        except BaseException:
            execution.close()
            raise
        return self._gathered(request, rows, execution, writer, count_total)

    async def _gathered(
        self,
        request: Request,
        rows: PlannedQuery,
        execution: QueryExecution,
        writer: ContentType,
        count_total: Callable[[], int | None] | None,
    ) -> Response:
        """A query that takes longer than a slice. Cancelled when the peer closes the connection. `count_total`: of `execution.total`, if it has begun."""
        try:
            while count_total is None:
                await execution.wait_for_slice()
                if execution.gather():
                    break
            total = None
            if _is_total_asked(rows, self.preferences(request)):
                total = await self._total(execution, count_total or execution.total())
            count = None
            if writer.needs_count and not execution.done:
                count_slice = execution.count()
                count = count_slice()
                while count is None:
                    await execution.wait_for_slice()
                    count = count_slice()
            return self._begun(request, rows, execution, writer, count, total)
        except BaseException:
            execution.close()
            raise

    @staticmethod
    async def _total(execution: QueryExecution, count_slice: Callable[[], int | None]) -> int:
        while True:
            await execution.wait_for_slice()
            total = count_slice()
            if total is not None:
                return total

    def _begun(
        self,
        request: Request,
        rows: PlannedQuery,
        execution: QueryExecution,
        writer: ContentType,
        count: int | None = None,
        total: int | None = None,
    ) -> Response:
        """The response: complete if all rows are found, else a stream of the rest. `count`: of its rows, where the format needs it; `total`: of the records
        that the query finds in all, where the client asks for it."""
        pairs = self._collection_pairs(request, writer)
        if total is not None:
            pairs += self._total_pairs(request, total)
        aggregate = rows.plan.query.aggregate
        if (
            execution.done and rows.plan.limit and self.options.pages and request.method != "QUERY"
        ):  # the query of QUERY is in its body, so no address repeats it
            cursor = execution.run.next_cursor()
            if cursor is not None:
                pairs.append(("Link", f'<{next_page(request.query or "", cursor, rows.plan.limit)}>; rel="next"'))
        if not execution.done or execution.is_large(writer) or (execution.joins and execution.weight > HEAVY):
            if not execution.done:
                execution.keep()
            elif count is None:
                count = len(execution.found)
            pairs.append(query_timing(rows.plan_seconds, execution.scan_seconds, None))
            row_writer = writer.row_writer(plan_shape(rows) if writer.is_tabular else ANY_SHAPE, count)
            stream = RowStream(execution, row_writer, self._report, request.state, is_slow=writer.is_slow)
            return self._compression.apply(request, Response(stream, 200, pairs=pairs), writer.compressible)
        began = self._now()
        if aggregate is not None and aggregate.kind == "count":
            body = writer.encode(execution.found[0])
        else:
            found = execution.found
            request.state.rows = len(found)
            row_writer = writer.row_writer(plan_shape(rows) if writer.is_tabular else ANY_SHAPE, len(found))
            body = row_writer.begin() + (execution.write(row_writer, found) if found else b"") + row_writer.end()
        execution.close()
        pairs.append(query_timing(rows.plan_seconds, execution.scan_seconds, self._now() - began))
        response = Response(body, 200, pairs=pairs)
        if len(body) <= self.preferences(request).threshold:
            return response
        return self._compression.apply(request, response, writer.compressible)

    async def _explained(self, request: Request, rows: PlannedQuery, writer: ContentType) -> Response:
        """The plan with the measured counts of a run, instead of the records (`Prefer: explain`)."""
        database = rows.table.database
        explanation = Explanation(rows.plan, database.snapshot())
        lasting = LastingRun(explanation.rows, database, lambda: reader_of(request))
        try:
            scan = 0.0
            while True:
                snapshot = lasting.use()
                started = self._now()
                done = explanation.step()
                scan += self._now() - started
                if done:
                    break
                await database.store.slices.take()
            names_rules = request.user is not None and request.user.super_user
            result = explanation.result(snapshot, names_rules=names_rules) | {
                "planMilliseconds": round(rows.plan_seconds * 1000, 3),
                "scanMilliseconds": round(scan * 1000, 3),
            }
        finally:
            explanation.rows.close()
            lasting.close()
        pairs: HeaderPairs = [("Content-Type", writer.content_type), VARY, ("Preference-Applied", "explain")]
        pairs.append(PUBLIC if request.user is None else PRIVATE)
        response = self._respond(request, writer, writer.encode(result), 200, pairs)
        return cast(Response, await response if inspect.isawaitable(response) else response)

    async def _handled(self, request: Request, rows: PlannedQuery, execution: QueryExecution, writer: HandlerType) -> Response:
        """A collection in a content type of an application: as a stream if its handler takes one, else as a list."""
        pairs = self._collection_pairs(request, writer)
        if _is_total_asked(rows, self.preferences(request)):
            try:
                pairs += self._total_pairs(request, await self._total(execution, execution.total()))
            except BaseException:
                execution.close()
                raise
        pairs.append(query_timing(rows.plan_seconds, 0.0, None))
        values = execution.iter_values()
        if writer.streams:
            return self._compression.apply(request, Response(writer.encode_stream(values), 200, pairs=pairs), writer.compressible)
        found = [value async for value in values]
        aggregate = rows.plan.query.aggregate
        result = writer.encode(found[0] if aggregate is not None and aggregate.kind == "count" else found)
        body = await result if inspect.isawaitable(result) else result
        return self._compression.apply(request, Response(body, 200, pairs=pairs), writer.compressible)

    def _total_pairs(self, request: Request, total: int) -> HeaderPairs:
        pairs: HeaderPairs = [("X-Total-Count", str(total))]
        if self.preferences(request).counts:
            pairs.append(("Preference-Applied", "count=exact"))
        return pairs

    def _collection_pairs(self, request: Request, writer: ContentType) -> HeaderPairs:
        pairs: HeaderPairs = [("Content-Type", writer.content_type), VARY]
        pairs.append(PUBLIC if request.user is None else PRIVATE)
        if writer.headers:
            path = request.handler_path
            pairs += [(name, _named(value, path)) for name, value in writer.headers] if path in self._resources else writer.headers
        return pairs


def _named(value: str, path: str) -> str:
    """The field with the name of the resource in place of that of a file, as far as both may stand in it.

    >>> _named('attachment; filename="data.csv"', "shop/Product"), _named('attachment; filename="data.csv"', 'a"b')
    ('attachment; filename="Product.csv"', 'attachment; filename="data.csv"')
    """
    name = path.rpartition("/")[2]
    return value.replace('"data.', f'"{name}.') if _FILE_NAME.fullmatch(name) else value


def _is_total_asked(rows: PlannedQuery, preferences: Preferences) -> bool:
    """Whether the client wants to know how many records there are. An aggregate has none."""
    query = rows.plan.query
    return (preferences.counts or query.counted) and query.aggregate is None


def next_page(query: str, cursor: str, limit: int) -> str:
    """The address of the page behind `cursor`, as a reference relative to that of the first page: a proxy may have received the request
    under another path. Only the first page skips records.

    >>> next_page("price>5&after(x)&limit(1,3)", "AbC", 2), next_page("_limit=2&_offset=4", "AbC", 2)
    ('?price%3E5&limit(2)&after(AbC)', '?_limit=2&_after=AbC')
    """
    terms = [query[start:end] for start, end in iter_terms(query)]
    kept = [term for term in terms if term and _PAGE_CALL.fullmatch(term) is None]
    plain = any(term.startswith(_PLAIN_PAGE) for term in terms)
    page = (f"_limit={limit}", f"_after={cursor}") if plain else (f"limit({limit})", f"after({cursor})")
    return f"?{'&'.join((*kept, *page))}".replace("<", "%3C").replace(">", "%3E").replace('"', "%22")


_PLAIN_PAGE = ("_limit=", "_offset=", "_after=")
_PAGE_CALL = re.compile(r"(?:limit|after)(?:\(|%28)(?:(?!%29)[^)])*(?:\)|%29)=?|_(?:limit|offset|after)=.*", re.IGNORECASE | re.DOTALL)


def plan_shape(rows: PlannedQuery) -> Shape:
    plan = rows.plan
    columns = result_columns(plan)
    if rows.visible is not None:
        columns = tuple([name for name in columns if name in rows.visible])
    if plan.query.aggregate is not None:
        return Shape(columns)
    if plan.select is not None:
        return Shape(columns, plan.select.shape, types=declared_types(rows.table, columns))
    return Shape(columns, open=not rows.table.definition.sealed and rows.visible is None, types=declared_types(rows.table, columns))


def declared_types(table: AnyTable, columns: Iterable[str]) -> dict[str, str]:
    """The declared types of those columns that are plain attributes of a table."""
    attributes = table.attributes
    return {
        name: found.type
        for name in columns
        if (found := attributes.get(name)) is not None and not found.elements and found.relationship is None
    }


def query_timing(plan: float, scan: float, serialise: float | None) -> tuple[str, str]:
    """The `Server-Timing` field of a query, from seconds."""
    if serialise is None:
        return "Server-Timing", f"plan;dur={plan * 1000:.2f}, scan;dur={scan * 1000:.2f}"
    return "Server-Timing", f"plan;dur={plan * 1000:.2f}, scan;dur={scan * 1000:.2f}, serialise;dur={serialise * 1000:.2f}"
