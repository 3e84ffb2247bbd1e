"""Copying a database from another node, when something of what it has written can be had in no other way (spec: replication §11).

wanted      an inbox has found a gap
fetched     the copy comes into a file, while everything goes on as before. If that fails, another node is tried, and later this one again
put         nothing of other nodes is applied; records are replaced in turns, while others read and write. After a crash it goes on with the file
in place    the inboxes begin again, at the positions of the copy
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from svc.cluster.client import Unavailable
from svc.cluster.copy_offers import COPY, COPY_PIECE, request_copy, request_piece
from svc.cluster.copy_spool import Spool, SpoolWriter
from svc.cluster.definitions import adopt
from svc.cluster.names import token
from svc.cluster.pieces import PIECE, RequestRefused
from svc.cluster.wire import WireError
from svc.errors import ClientError, Problem
from svc.store.database import Database
from svc.store.writing.copied_write import BadCopy
from svc.store.writing.copy_apply import CopyHead, apply_copy, progress_of
from svc.store.writing.remote_transaction import Origin

logger = logging.getLogger("svc.cluster")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between two attempts
ASK_SECONDS = 30.0  # for an answer
ROOM = 256 << 20  # bytes that stay free on the volume
_MORE = 1 << 30  # bytes that a copy may have above twice what was announced
_decode_answer = msgspec.msgpack.Decoder(tuple[bytes, CopyHead]).decode


class CopySource(Protocol):
    """`peer.Peer`."""

    name: str

    @property
    def is_connected(self) -> bool: ...
    async def ask(self, kind: str, data: bytes, *, seconds: float) -> bytes: ...
    def ask_series(self, kind: str, requests: Callable[[int], bytes], *, seconds: float) -> AsyncIterator[bytes]: ...


class CopyStatus(msgspec.Struct):
    """Of a copy that is under way. `node`: whose. `is_fetched`: it is put in place now. `done`, `total`: bytes of what is done now, the total about."""

    node: str
    is_fetched: bool = False
    done: int = 0
    total: int = 0


class DatabaseCopying:
    """Of one database, from `run` on until that is cancelled. Used on the thread of the loop alone. `status`: None: no copy is under way. `reason`: why the
    last attempt has failed, "": it has not."""

    def __init__(
        self,
        database: Database,
        directory: Path,
        sources: Callable[[], Mapping[str, CopySource]],
        pause: Callable[[], Awaitable[None]],
        resume: Callable[[], object],
        *,
        own_stream: str = "",
        fail_over: bool = True,
    ) -> None:
        """`directory`: for the file. `sources`: the nodes that may have the database, by name. `pause`: when it returns nothing of other nodes is applied,
        until `resume`. `own_stream`: what this node writes to. `fail_over`: another node than the one that something is missing of may be asked."""
        self.status: CopyStatus | None = None
        self.reason = ""
        self._database = database
        self._path = directory / f"{token(database.name)}.copy"
        self._sources = sources
        self._pause = pause
        self._resume = resume
        self._own_stream = own_stream
        self._fail_over = fail_over
        self._wanted: dict[str, None] = {}  # nodes of which something is missing
        self._is_wanted = asyncio.Event()

    def want(self, node: str) -> None:
        """Something that this node has written can be had by copying only."""
        self._wanted[node] = None
        self._is_wanted.set()

    @property
    def is_mixed(self) -> bool:
        """A copy was begun to be put in place, and is not yet: nothing of other nodes may be applied."""
        return progress_of(self._database) is not None

    async def run(self) -> None:
        seconds = FIRST_PAUSE
        while True:
            if not self.is_mixed:
                await self._is_wanted.wait()
            try:
                if await self._attempt():
                    seconds = FIRST_PAUSE
                    continue
            except Exception as error:  # a defect, or LMDB: it must not end here for good
                logger.exception("database %s cannot be copied", self._database.name)
                self.reason = f"{type(error).__name__}: see the log"
            finally:
                self.status = None
            await asyncio.sleep(seconds)
            seconds = min(seconds * 2, LONGEST_PAUSE)

    async def _attempt(self) -> bool:
        """Whether a copy is in place, or none is wanted any more."""
        for name in self._wanted.keys() - self._sources().keys():
            del self._wanted[name]
        if not self._wanted and not self.is_mixed:
            self._is_wanted.clear()
            return True
        if self.is_mixed and self._path.exists() and await self._put():
            return True
        for name, source in self._candidates():
            try:
                await self._fetch(source)
            except (RequestRefused, Unavailable, BadCopy, OSError, Problem, WireError) as error:
                self._tell(f"it cannot be copied from {name}: {error}")
                continue
            if await self._put():
                self._wanted.clear()
                self._is_wanted.clear()
                return True
        return False

    def _candidates(self) -> list[tuple[str, CopySource]]:
        sources = self._sources()
        first = [name for name in self._wanted if name in sources]
        others = [name for name in sources if name not in self._wanted] if self._fail_over or not first else []
        found = [(name, sources[name]) for name in (*first, *others) if sources[name].is_connected]
        if not found:
            self._tell("it has to be copied, and no node that has it can be reached")
        return found

    def _tell(self, reason: str) -> None:
        if reason != self.reason:
            logger.warning("database %s: %s", self._database.name, reason)
        self.reason = reason

    # -- the file

    async def _fetch(self, source: CopySource) -> None:
        """Raises RequestRefused, Unavailable, BadCopy, OSError."""
        database, loop = self._database, asyncio.get_running_loop()
        try:
            number, head = _decode_answer(await source.ask(COPY, request_copy(database.name), seconds=ASK_SECONDS))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise BadCopy("it answers something else") from None
        head.check()
        self._check_head(source.name, head)
        status = self.status = CopyStatus(source.name, total=max(head.size, 1))
        logger.info("database %s: it is copied from %s, about %d MB", database.name, source.name, head.size >> 20)
        began = loop.time()
        writer = await loop.run_in_executor(None, SpoolWriter, self._path, head)
        try:
            told = 0
            answers = source.ask_series(COPY_PIECE, lambda place: request_piece(number, place), seconds=ASK_SECONDS)
            is_short = False
            async for data in answers:
                if is_short or len(data) > PIECE:
                    raise BadCopy("its pieces have other sizes than they should have")
                is_short = len(data) < PIECE
                if status.done + len(data) > 2 * max(head.size, 0) + _MORE:
                    raise BadCopy("it has much more than was announced")
                if shutil.disk_usage(self._path.parent).free < ROOM:
                    raise OSError("there is no room for it on the volume")
                await loop.run_in_executor(None, writer.add, data)
                status.done += len(data)
                told = self._tell_progress(told, "fetched")
            await loop.run_in_executor(None, writer.finish)
        except BaseException:
            await asyncio.shield(loop.run_in_executor(None, writer.close))
            raise
        seconds = loop.time() - began
        logger.info(
            "database %s: the copy from %s has come: %d bytes in %.1f s, %.1f MB/s",
            database.name,
            source.name,
            status.done,
            seconds,
            status.done / 1e6 / max(seconds, 1e-6),
        )

    def _check_head(self, node: str, head: CopyHead) -> None:
        database = self._database
        state = database.replication
        assert state is not None
        snapshot = database.snapshot()
        if head.node != node:
            raise BadCopy("it is the copy of another node")
        known, copied = head.known_of(Origin(database.node, state.incarnation(snapshot)), state.former(snapshot)), state.copied(snapshot)
        if known > database.log.newest_lsn(snapshot):
            raise BadCopy("it knows more of what this node has written than this node")
        if known < copied:
            raise BadCopy(f"it has what this node has written up to {known}, and a copy was taken that had it up to {copied}; later")

    def _tell_progress(self, told: int, what: str) -> int:
        """Log every tenth. Returns the last that was."""
        status = self.status
        assert status is not None
        tenth = min(10 * status.done // max(status.total, 1), 10)
        if tenth > told:
            logger.info("database %s: %d %% of the copy from %s is %s", self._database.name, tenth * 10, status.node, what)
        return max(tenth, told)

    # -- putting it in place

    async def _put(self) -> bool:
        """Put what is in the file in place. False: it is none, or does not fit: it is removed."""
        database, loop = self._database, asyncio.get_running_loop()
        try:
            spool = await loop.run_in_executor(None, Spool, self._path)
        except (BadCopy, OSError) as error:
            self._tell(str(error))
            self._path.unlink(missing_ok=True)
            return False
        head = spool.head
        status = self.status = CopyStatus(head.node, is_fetched=True, total=spool.size)
        began = loop.time()
        told = 0

        def tell(number: int) -> None:
            nonlocal told
            status.done = spool.place(number)
            told = self._tell_progress(told, "in place")

        await self._pause()
        try:
            await adopt(database, head.node, head.definitions)
            await apply_copy(database, spool.id, head, spool.piece, (self._own_stream,), tell=tell)
        except (BadCopy, WireError, ClientError) as error:
            self._tell(f"the copy from {head.node} is of no use: {error}")
            self._path.unlink(missing_ok=True)
            return False
        except (Problem, OSError) as error:
            self._tell(f"the copy from {head.node} cannot be put in place: {error}")
            return False
        finally:
            spool.close()
            if not self.is_mixed:
                self._resume()
        self._path.unlink(missing_ok=True)
        seconds = loop.time() - began
        logger.info("database %s: the copy from %s is in place: %d bytes in %.1f s", database.name, head.node, spool.size, seconds)
        self.reason = ""
        return True
