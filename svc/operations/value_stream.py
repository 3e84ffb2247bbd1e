"""Long answers that are no query's: values made one after the other from a snapshot (spec: operations §1.4).

What fits into one slice of work is answered as a value like any other. Of what does not, a client gets a stream, made as it is read and encoded in
the type it asked for; code gets all of it, made in slices. So neither memory nor the loop cares how long an answer is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from svc.content.content_type import ContentType, Shape
from svc.content.handler_type import HandlerType
from svc.content.json_type import JsonType, encode_json
from svc.errors import ClientError
from svc.http.compression import VARY
from svc.http.response_parts import PRIVATE
from svc.http.row_stream import RowStream
from svc.messages import HeaderPairs, Response
from svc.store.env import Txn
from svc.store.slices import SLICE
from svc.store.snapshots import HeldSnapshot

if TYPE_CHECKING:
    from svc.operations.call import Call
    from svc.store import Database

logger = logging.getLogger("svc.operations")

MOST_VALUES = 10_000  # of an object with lists, for a client whose type cannot be streamed

Steps = Callable[[Txn], Iterator[Any]]
"""The values of a snapshot. None is not a value: others may be served then."""


class Values:
    """The values of one list, some at a time. What `RowStream` asks of an execution."""

    joins = False  # no value has a list of related records, however long, inside
    shaped = True  # they are no stored records

    def __init__(self, held: HeldSnapshot, steps: Steps, now: Callable[[], float]) -> None:
        """`held`: of the caller; the values are those of its snapshot, also when it has been closed."""
        self._held = held.share()
        self._steps = self._held.read(steps)
        self._now = now
        self.found: list[Any] = []
        self.done = False
        self.closed = False

    def step(self) -> list[Any]:
        """Those of one slice, maybe none: see `done`. Raises SnapshotLost if the last one was too long ago."""
        self._held.use()
        now, end = self._now, self._now() + SLICE
        found = []
        for value in self._steps:
            if value is not None:
                found.append(value)
            if now() >= end:
                return found
        self.done = True
        return found

    @staticmethod
    def write(writer: Any, batch: list[Any]) -> bytes:
        return writer.values(batch)  # type: ignore[no-any-return]

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._steps = iter(())
            self._held.abort()

    def __del__(self) -> None:
        if not getattr(self, "closed", True):
            self.close()  # of an answer that was not read


async def answer_list(call: Call, database: Database, steps: Steps, columns: tuple[str, ...]) -> Any:
    """The 200 answer of a list. `columns`: the names of its values' members, for types that need them first."""
    slices, now = call.node.store.slices, call.node.clock.monotonic
    await slices.take()
    held = call.node.store.snapshots.hold(database, reader=call.reader)
    values = Values(held, steps, now)
    try:
        found = values.step()
        writer = streaming_type(call)
        while not values.done and writer is None:
            await slices.take()
            found += values.step()
        if values.done or writer is None:
            values.close()
            return found
        count = None
        if writer.needs_count:
            count = 0
            counted = Values(held, steps, now)
            while not counted.done:
                await slices.take()
                count += len(counted.step())
            counted.close()
        values.found = found
        rows = writer.row_writer(Shape(columns), count)
        return Response(RowStream(values, rows, _report), pairs=stream_pairs(writer))  # type: ignore[arg-type]  # it asks no more of an execution
    except BaseException:
        values.close()
        raise
    finally:
        held.abort()


async def answer_lists(call: Call, database: Database, lists: Sequence[tuple[str, Steps]]) -> Any:
    """The 200 answer of an object with a list under each of these names. Raises 400 if it is long and the client's type has no stream for it."""
    slices, now = call.node.store.slices, call.node.clock.monotonic
    await slices.take()
    held = call.node.store.snapshots.hold(database, reader=call.reader)
    values = Values(held, _no_values, now)
    try:
        writer = streaming_type(call)
        streams = isinstance(writer, JsonType)
        found: dict[str, list[Any]] = {name: [] for name, _ in lists}
        count = 0
        end = now() + SLICE
        for name, steps in lists:
            values.close()
            values = Values(held, steps, now)
            while not values.done:
                if now() >= end:
                    if streams and writer is not None:
                        return Response(_stream_lists(held.share(), lists, writer, now), pairs=stream_pairs(writer))
                    await slices.take()
                    end = now() + SLICE
                some = values.step()
                found[name] += some
                count += len(some)
                if count > MOST_VALUES and call.request is not None:
                    raise ClientError(f"The answer has more than {MOST_VALUES} entries: ask for JSON, or narrow the search")
        return found
    finally:
        values.close()
        held.abort()


def _no_values(txn: Txn) -> Iterator[Any]:
    return iter(())


def _stream_lists(held: HeldSnapshot, lists: Sequence[tuple[str, Steps]], writer: ContentType, now: Callable[[], float]) -> Iterator[bytes]:
    try:
        before = b"{"
        for name, steps in lists:
            values = Values(held, steps, now)
            yield before + encode_json(name) + b":"
            before = b","
            yield from RowStream(values, writer.row_writer(), _report)  # type: ignore[arg-type]
            if not values.done:
                break  # the failure is the last element
        yield b"}"
    finally:
        held.abort()


def streaming_type(call: Call) -> ContentType | None:
    """The type the client asked for, if it can be written bit by bit; None for calls from code too."""
    if call.request is None:
        return None
    writer = call.node.types.writer(call.request.block.get("accept"))
    return None if isinstance(writer, HandlerType) else writer


def stream_pairs(writer: ContentType) -> HeaderPairs:
    return [("Content-Type", writer.content_type), VARY, PRIVATE, *writer.headers]


def _report(error: BaseException) -> None:
    logger.error("an answer broke off", exc_info=error)
