"""Items that application code makes while they are sent, as one document (spec: applications §8).

An item is asked for when the connection has room, so a client that reads slowly holds back the code that makes them; one that leaves ends it. What is ready is
sent together, what has to be waited for is not waited for by what is ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from svc.content.content_type import RowWriter
from svc.content.values import NotAwaited
from svc.errors import NotAcceptable, Problem
from svc.http.row_stream import failure_text
from svc.loop import contained
from svc.messages import CallState

BATCH = 64  # items that are encoded together
SLICE = 0.002  # seconds of work until what there is is sent


MOST_GATHERED = 100_000  # items of a type that begins with their number


async def item_stream(
    items: AsyncIterator[Any],
    rows: RowWriter,
    now: Callable[[], float],
    report: Callable[[BaseException], None],
    where: str,
    state: CallState,
    resolve: Callable[[Any], Awaitable[Any]],
) -> AsyncIterator[bytes]:
    """The chunks of the document. `report` logs a defect of the code that makes the items; `where`: the request, for that. `state`: its `rows` are
    counted. `resolve`: awaits what is in items."""
    waiting: list[Any] = []
    try:
        first = rows.begin()
        if first:
            yield first
        try:
            deadline = now() + SLICE
            async for item in items:
                waiting.append(item)
                if len(waiting) >= BATCH or now() >= deadline:
                    try:
                        chunk = rows.values(waiting)
                    except NotAwaited:
                        chunk = rows.values(await resolve(waiting))
                    state.rows = (state.rows or 0) + len(waiting)
                    waiting = []
                    yield chunk
                    if now() >= deadline:
                        await asyncio.sleep(0)  # others have their turn, also beside code that never waits
                        deadline = now() + SLICE
            try:
                last = rows.values(waiting) if waiting else b""
            except NotAwaited:
                last = rows.values(await resolve(waiting))
            state.rows = (state.rows or 0) + len(waiting)
            yield last + rows.end()
        except BaseException as raised:
            error = contained(raised)
            if not isinstance(error, Problem):
                error.add_note(where)
                report(error)
            before = _encodable(rows, waiting)
            failure = rows.failure({"error": failure_text(error)})
            if failure is None:
                raise error
            yield before + failure + rows.end()
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


def _encodable(rows: RowWriter, items: list[Any]) -> bytes:
    """The items up to the one that cannot be encoded."""
    chunk = b""
    for item in items:
        try:
            chunk += rows.values([item])
        except BaseException as error:  # it has been reported
            contained(error)
            break
    return chunk


async def gather_items(items: AsyncIterator[Any]) -> list[Any]:
    """All items. Raises NotAcceptable if they are too many to be held."""
    found: list[Any] = []
    try:
        async for item in items:
            found.append(item)
            if len(found) > MOST_GATHERED:
                raise NotAcceptable(f"This content type begins with the number of items, and there are more than {MOST_GATHERED}: use JSON")
        return found
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()
