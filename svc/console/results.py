"""What an operation answers, as much of it as a page shows: rows as a table, the same as JSON, size and time (spec: console §14)."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from svc.console.page import ConsolePage
from svc.content.content_type import ContentType
from svc.http.row_stream import SLICE, QueryExecution
from svc.messages import Response
from svc.operations.call import Call
from svc.operations.node import Node
from svc.pages.cells import shown
from svc.pages.collection import MOST_ROWS
from svc.pages.statement import Found
from svc.resources import PlannedQuery
from svc.resources.resource import StreamedRows

MOST_JSON = 100_000  # characters of a result that are shown as JSON
_MOST_FORMATTED = 1 << 18  # bytes of JSON that are put into lines
FILES = {"csv": "text/csv", "json": "application/json"}


@dataclass(slots=True)
class Outcome:
    """`json`: as text, as far as it is shown; `is_json_cut`: there is more. `size`: bytes of all that is shown, as JSON. `seconds`: of the server."""

    found: Found
    status: int = 200
    json: str = ""
    is_json_cut: bool = False
    size: int = 0
    seconds: float = 0.0


async def run(page: ConsolePage, body: Mapping[str, Any], file: str = "") -> Outcome | Response:
    """Run a body in the name of the caller. `file`: "csv" or "json" for a file with all of the result. A Response is what is sent instead of a page. Raises
    Problem."""
    now = page.node.clock.monotonic
    began = now()
    call, result = await page.begin(body, streams=bool(file))
    if file in FILES:
        return await page.file(result, f"{call.operation.name}.{file}", FILES[file])
    if isinstance(result, Response) and result.data is None:
        return result
    found = await _found(call, result)
    writer = page.node.types.named("application/json")
    assert writer is not None
    outcome = Outcome(found, result.status if isinstance(result, Response) else 200, seconds=now() - began)
    await _add_json(outcome, writer, page.node)
    return outcome


async def _found(call: Call, result: Any) -> Found:
    if isinstance(result, StreamedRows):
        return await first_rows(result)
    if isinstance(result, PlannedQuery):
        return await _queried(call, result)
    value = result.data if isinstance(result, Response) else {} if result is None else result
    if isinstance(value, list) and len(value) > MOST_ROWS:
        return Found(value=value[:MOST_ROWS], is_cut=True)
    return Found(value=value)


async def first_rows(result: StreamedRows) -> Found:
    """As many rows of a statement as a page shows; it is ended then."""
    rows = result.rows
    try:
        found = list(rows.found)
        while not rows.done and len(found) <= MOST_ROWS:
            found += await rows.more()
        return Found(tuple(rows.columns), found[:MOST_ROWS], is_cut=len(found) > MOST_ROWS, seconds=result.seconds)
    finally:
        rows.close()


async def _queried(call: Call, rows: PlannedQuery) -> Found:
    node = call.node
    now = node.clock.monotonic
    execution = QueryExecution(rows, native=True, whole=False, now=now, wall_ms=node.clock.wall() * 1000, reader=call.reader)
    values: list[Any] = []
    try:
        while not execution.gather() or not (execution.done or len(execution.found) > MOST_ROWS):
            execution.keep()
            await execution.wait_for_slice()
        found, deadline = execution.found, now() + SLICE
        is_cut = len(found) > MOST_ROWS or not execution.done
        for row in found[:MOST_ROWS]:
            execution.found = [row]
            values += execution.values()
            if now() >= deadline:
                execution.keep()
                await execution.wait_for_slice()
                deadline = now() + SLICE
    finally:
        execution.close()
    return Found(value=values, is_cut=is_cut)


async def _add_json(outcome: Outcome, writer: ContentType, node: Node) -> None:
    """The text, made a row at a time: each may be large."""
    found = outcome.found
    rows = found.rows if found.columns else found.value
    if not isinstance(rows, list):
        encoded = writer.encode(rows)
        assert isinstance(encoded, bytes)
        outcome.size = len(encoded)
        outcome.json, outcome.is_json_cut = _text(encoded, 0)
        return
    now = node.clock.monotonic
    pieces: list[str] = []
    room, deadline = MOST_JSON, now() + SLICE
    for row in rows:
        encoded = writer.encode(row)
        assert isinstance(encoded, bytes)
        outcome.size += len(encoded) + 1
        if room > 0:
            text, is_cut = _text(encoded, 2, room)
            pieces.append(text)
            room -= len(text)
            outcome.is_json_cut = is_cut
        else:
            outcome.is_json_cut = True
        if now() >= deadline:
            await sleep(0)
            deadline = now() + SLICE
    outcome.size += 1 if rows else 2
    outcome.json = "[]" if not rows else "[\n" + ",\n".join(pieces) + ("\n…" if outcome.is_json_cut else "\n]")


def _text(encoded: bytes, indent: int, most: int = MOST_JSON) -> tuple[str, bool]:
    """(JSON in lines, whether some is missing)."""
    if len(encoded) <= _MOST_FORMATTED:
        encoded = msgspec.json.format(encoded, indent=2)
    text = encoded[: 4 * most].decode(errors="ignore")
    margin = " " * indent
    lines = "\n".join(f"{margin}{shown(line)}" for line in text[:most].split("\n"))
    return lines, len(text) > most or len(encoded) > 4 * most
