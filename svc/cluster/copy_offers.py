"""Copies of databases for other nodes (spec: replication §11).

    request `copy`         [1, database]       -> [id, head]: from here on a snapshot is held
    request `copypiece`    [id, number]        -> the next 512 KiB of the frames, empty behind the last of them; in the order of the numbers

A frame is the length of a piece in 4 bytes, and the piece (`store.copy_reader`).

A snapshot costs one of the reader slots of LMDB, and keeps pages from being used again. So a copy ends when nothing was asked of it for IDLE seconds, when it
is read more slowly than LEAST bytes a second, and when the same node begins another one of that database; and there are no more than MOST at a time.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from svc.cluster.pieces import PIECE, RequestRefused
from svc.errors import Problem
from svc.store.copy_reader import CopyReader
from svc.store.database import Database
from svc.store.schema import definition_to_bytes
from svc.store.table import Table
from svc.store.writing.copy_apply import CopyHead

logger = logging.getLogger("svc.cluster")

COPY, COPY_PIECE = "copy", "copypiece"  # kinds of requests
COPY_FORMAT = 1
MOST = 2
IDLE = 30.0  # seconds
LEAST = 256 << 10  # bytes a second, after the first minute
_AHEAD = 16  # answers that are made and not yet fetched, at most
_decode_copy = msgspec.msgpack.Decoder(tuple[int, str]).decode
_decode_piece = msgspec.msgpack.Decoder(tuple[bytes, int]).decode
_encode = msgspec.msgpack.Encoder().encode

Position = Callable[[str], tuple[str, str, int] | None]
"""Name of a database -> (stream with what this node has written to it, when that was made, sequence of its last message); None: that is not known now."""


class CopyOffers:
    """Used on the thread of the loop alone."""

    def __init__(
        self,
        node: str,
        databases: Callable[[str], Database | None],
        position: Position,
        is_sent: Callable[[Table], bool],
        may_read: Callable[[str], bool] = lambda node: True,
    ) -> None:
        """`node`: the own name. `databases`: those that are replicated. `may_read`: whether a node may read our streams."""
        self._node = node
        self._databases = databases
        self._position = position
        self._is_sent = is_sent
        self._may_read = may_read
        self._open: dict[bytes, _Offer] = {}

    def __len__(self) -> int:
        """Copies that are read now."""
        return sum(not offer.is_done for offer in self._open.values())

    async def copy(self, node: str, data: bytes) -> bytes:
        """An `Answerer`."""
        try:
            form, name = _decode_copy(data)
        except (msgspec.MsgspecError, ValueError):
            raise RequestRefused("this is no request for a copy") from None
        if form != COPY_FORMAT:
            raise RequestRefused(f"this node makes copies of format {COPY_FORMAT}")
        if not self._may_read(node):
            raise RequestRefused("nothing is sent to this node")
        database = self._databases(name)
        if database is None or database.replication is None:
            raise RequestRefused("this node does not have the database")
        for number, offer in list(self._open.items()):
            if (offer.node, offer.database) == (node, name):
                self._end(number)
        if len(self) >= MOST:
            raise RequestRefused(f"{MOST} copies are read already, later")
        state = database.replication
        if state.copying(database.snapshot()):
            raise RequestRefused("it is being copied itself, later")
        position = self._position(name)
        if position is None:
            raise RequestRefused("its stream is not known yet, later")
        try:
            offer = _Offer(node, database, [table for table in database.tables.values() if self._is_sent(table)])
        except Problem as problem:
            raise RequestRefused(problem.message) from problem
        try:
            head = self._head(offer, database, position)
        except BaseException:
            offer.close()
            raise
        number = secrets.token_bytes(8)
        self._open[number] = offer
        self._watch(number, offer)
        logger.info("database %s: %s copies it, about %d MB", name, node, head.size >> 20)
        return _encode((number, head))

    def _head(self, offer: _Offer, database: Database, position: tuple[str, str, int]) -> CopyHead:
        state, reader = database.replication, offer.reader
        assert state is not None
        txn = reader.txn
        hints = [(stream, hint.created, hint.sequence) for stream, hint in state.all_hints(txn).items() if stream != position[0]]
        return CopyHead(
            self._node,
            state.incarnation(txn),
            reader.newest,
            state.clock(txn)[0],
            [(origin.node, origin.incarnation, lsn) for origin, lsn in state.all_applied(txn).items()],
            [*hints, position],
            {table.name: definition_to_bytes(table.definition) for table in offer.tables},
            reader.size,
        )

    async def piece(self, node: str, data: bytes) -> bytes:
        """An `Answerer`."""
        try:
            name, number = _decode_piece(data)
        except (msgspec.MsgspecError, ValueError):
            raise RequestRefused("this is no request for a piece") from None
        offer = self._open.get(name)
        if offer is None or offer.node != node:
            raise RequestRefused("there is no such copy, or it was read too slowly")
        offer.used = asyncio.get_running_loop().time()
        try:
            return await offer.answer(number)
        except Problem as problem:
            self._end(name)
            raise RequestRefused(problem.message) from problem

    def close(self) -> None:
        """End all of them. Harmless when done."""
        for number in list(self._open):
            self._end(number)

    def _watch(self, number: bytes, offer: _Offer) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._open.get(number) is not offer:
            return
        if now - offer.used >= IDLE or offer.is_slow(now):
            self._end(number)
        else:
            offer.timer = loop.call_later(IDLE / 4, self._watch, number, offer)

    def _end(self, number: bytes) -> None:
        offer = self._open.pop(number)
        if not offer.is_done:
            logger.warning("database %s: the copy for %s has ended before all of it was read", offer.database, offer.node)
        offer.close()


class _Offer:
    """A copy that a node reads."""

    def __init__(self, node: str, database: Database, tables: list[Table]) -> None:
        self.node = node
        self.database = database.name
        self.tables = tables
        self.reader = CopyReader(database, tables)
        self.is_done = False
        self.began = self.used = asyncio.get_running_loop().time()
        self.timer: Any = None
        self._slices = database.store.slices
        self._lock = asyncio.Lock()
        self._answers = _cut(self.reader.pieces())
        self._made: dict[int, bytes] = {}
        self._next = 0
        self._sent = 0

    def is_slow(self, now: float) -> bool:
        seconds = now - self.began - 60
        return not self.is_done and seconds > 0 and self._sent < seconds * LEAST

    async def answer(self, number: int) -> bytes:
        """Raises Problem, RequestRefused."""
        async with self._lock:
            while self._next <= number and not self.is_done:
                if len(self._made) >= _AHEAD:
                    raise RequestRefused("the pieces were not fetched in their order")
                await self._make()
            return self._made.pop(number, b"")

    async def _make(self) -> None:
        while True:
            await self._slices.take()
            try:
                found = next(self._answers, b"")
            except BaseException:
                self.close()
                raise
            if found is not None:
                break
        if not found:
            self.is_done = True
            self.reader.close()
            return
        self._made[self._next] = found
        self._next += 1
        self._sent += len(found)

    def close(self) -> None:
        self.reader.close()
        if self.timer is not None:
            self.timer.cancel()


def _cut(pieces: Iterator[bytes | None]) -> Iterator[bytes | None]:
    """The frames in answers of PIECE bytes; None where others may have their turn."""
    waiting = bytearray()
    for piece in pieces:
        if piece is None:
            yield None
            continue
        waiting += len(piece).to_bytes(4)
        waiting += piece
        while len(waiting) >= PIECE:
            yield bytes(waiting[:PIECE])
            del waiting[:PIECE]
    if waiting:
        yield bytes(waiting)


def request_copy(database: str) -> bytes:
    return _encode((COPY_FORMAT, database))


def request_piece(copy: bytes, number: int) -> bytes:
    return _encode((copy, number))


__all__ = ["COPY", "COPY_PIECE", "CopyOffers", "request_copy", "request_piece"]
