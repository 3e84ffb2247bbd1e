"""Rows that are found in parts as the body of an answer: what SQL finds (spec: sql §1, http §8).

What is found at once is one body. Of anything more a part is asked for when the connection has room, so a client that reads slowly holds back the statement,
and one that leaves ends it. A failure after the first byte becomes the last element of the document if its format can contain one, else the connection is
aborted.
"""

from __future__ import annotations

import inspect
from asyncio import sleep
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from svc.content.content_type import ContentType, Shape, SlowRowWriter
from svc.content.handler_type import HandlerType
from svc.errors import Problem, QueryTooLarge
from svc.http.compression import VARY
from svc.http.response_parts import PRIVATE, PUBLIC, ResponseParts
from svc.http.row_stream import BATCH_ROWS, failure_text
from svc.loop import contained
from svc.messages import CallState, HeaderPairs, Request, Response
from svc.resources.resource import FoundRows, StreamedRows

AT_ONCE = 1024  # rows that are encoded in one slice


class FoundRowsResponses(ResponseParts):
    """Responses with rows that are found in parts."""

    def found_rows(self, request: Request, writer: ContentType, result: StreamedRows) -> Any:
        """The response, or an awaitable of it where the type begins with the number of rows."""
        rows = result.rows
        pairs: HeaderPairs = [
            ("Content-Type", writer.content_type),
            VARY,
            PUBLIC if request.user is None else PRIVATE,
            ("Server-Timing", f"execute;dur={result.seconds * 1000:.2f}"),
        ]
        try:
            if isinstance(writer, HandlerType):
                return self._handled_rows(request, writer, result, pairs)
            if writer.needs_count and not rows.done:
                return self._counted_rows(request, writer, result, pairs)
            return self._rows_response(request, writer, rows, pairs)
        except BaseException:
            rows.close()
            raise

    def _rows_response(self, request: Request, writer: ContentType, rows: FoundRows, pairs: HeaderPairs) -> Any:
        found = rows.found
        is_whole = rows.done and len(found) <= AT_ONCE and (not writer.is_slow or writer.is_light(found))
        if not is_whole:
            stream = RowParts(rows, writer, self._report, request.state)
            return self._compression.apply(request, Response(stream, 200, pairs=pairs + (writer.headers or [])), writer.compressible)
        request.state.rows = len(found)
        row_writer = writer.row_writer(Shape(tuple(rows.columns)), len(found))
        body = row_writer.begin() + (row_writer.values(found) if found else b"") + row_writer.end()
        rows.close()
        return self._respond(request, writer, body, 200, pairs)

    async def _counted_rows(self, request: Request, writer: ContentType, result: StreamedRows, pairs: HeaderPairs) -> Response:
        columns = result.rows.columns
        found = await gather_rows(result)
        response = self._rows_response(request, writer, _Gathered(tuple(columns), found), pairs)
        return cast(Response, await response if inspect.isawaitable(response) else response)

    def _handled_rows(self, request: Request, writer: HandlerType, result: StreamedRows, pairs: HeaderPairs) -> Any:
        """In a content type of an application: as a stream if its handler takes one, else as a list."""
        if not writer.streams:
            return self._listed_rows(request, writer, result, pairs)
        stream = writer.encode_stream(each_row(result.rows))
        return self._compression.apply(request, Response(stream, 200, pairs=pairs), writer.compressible)

    async def _listed_rows(self, request: Request, writer: HandlerType, result: StreamedRows, pairs: HeaderPairs) -> Response:
        body = writer.encode(await gather_rows(result))
        response = self._respond(request, writer, await body if inspect.isawaitable(body) else body, 200, pairs)
        return cast(Response, await response if inspect.isawaitable(response) else response)


class _Gathered:
    """Rows that are all there."""

    done = True

    def __init__(self, columns: tuple[str, ...], found: list[dict[str, Any]]) -> None:
        self.columns = columns
        self.found = found

    async def more(self) -> list[dict[str, Any]]:
        return []

    def close(self) -> None:
        self.found = []


class RowParts:
    """The chunks of one document."""

    __slots__ = ("_chunks", "_rows")

    def __init__(self, rows: FoundRows, writer: ContentType, report: Callable[[BaseException], None], state: CallState) -> None:
        """`report` logs a defect met while streaming. `state`: its `rows` are counted."""
        self._rows = rows
        self._chunks = _chunks(rows, writer, report, state)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._chunks)

    def close(self) -> None:
        """It is not sent."""
        self._rows.close()

    async def aclose(self) -> None:
        await self._chunks.aclose()
        self._rows.close()


async def _chunks(
    rows: FoundRows, writer: ContentType, report: Callable[[BaseException], None], state: CallState
) -> Any:  # an asynchronous generator of bytes
    row_writer = writer.row_writer(Shape(tuple(rows.columns)), len(rows.found) if rows.done else None)
    try:
        found = rows.found
        yield row_writer.begin()
        while True:
            for start in range(0, len(found), BATCH_ROWS):
                if start:
                    await sleep(0)
                batch = found[start : start + BATCH_ROWS]
                state.rows = (state.rows or 0) + len(batch)
                if not writer.is_slow:
                    yield row_writer.values(batch)
                    continue
                for piece in cast(SlowRowWriter, row_writer).steps(batch):
                    yield piece
                    await sleep(0)
            if rows.done:
                break
            found = await rows.more()
        yield row_writer.end()
    except BaseException as raised:
        error = contained(raised)
        failure = row_writer.failure({"error": failure_text(error)})
        if failure is None:
            raise error
        if not isinstance(error, Problem):
            report(error)
        yield failure + row_writer.end()
    finally:
        rows.close()


async def each_row(rows: FoundRows) -> AsyncIterator[dict[str, Any]]:
    """One row after the other."""
    try:
        found = rows.found
        while True:
            for row in found:
                yield row
            if rows.done:
                return
            found = await rows.more()
    finally:
        rows.close()


async def gather_rows(result: StreamedRows) -> list[dict[str, Any]]:
    """All rows. Raises QueryTooLarge if they are more than an answer may have that is not streamed."""
    rows, most = result.rows, result.most
    try:
        found = list(rows.found)
        while not rows.done and len(found) <= most:
            found += await rows.more()
        if len(found) > most:
            raise QueryTooLarge(
                f"The statement finds more than {most} rows, which is what one answer may have that is not streamed (sql.maxRows): use LIMIT,"
                " or have them streamed, over HTTP as JSON, CSV or CBOR, in code by `async for`",
                budget="rows",
            )
        return found
    finally:
        rows.close()
