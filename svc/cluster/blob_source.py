"""The content of blobs for other nodes (spec: replication §10): the request `blob`, answered piece by piece, so that no content is in memory as a whole.

    request    MessagePack: [format, database, identity, number, offset]: of the file as the reference names it that the other node has got
    answer     C <content>     as much as a piece has, and more follows
               E <content>     to the end of the file
               (nothing)       behind the end
               F <text>        the content will never be there: what the writing of the file failed with
               L               no more has arrived yet: ask again later
               N               the file is not here

What still arrives here is waited for. A file that this node itself has got from another one is given out when it is complete.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from svc.clock import Clock
from svc.cluster.pieces import PIECE, RequestRefused
from svc.errors import Problem
from svc.store import Table
from svc.store.blobs.files import ERROR, BlobFiles
from svc.store.database import Database

BLOB = "blob"
"""The kind of the requests."""
CONTENT = PIECE // 2  # bytes of content in an answer
MORE, END, FAILED, LATER, NOT_HERE = b"C", b"E", b"F", b"L", b"N"
FORMAT = 1
_WAIT = 10.0  # seconds for content that is still arriving
_POLL = 0.1
_ACTIVE = 5.0  # seconds after its last request for which a transfer counts as running
_ACTIVE_MAX = 1000


class BlobRequest(msgspec.Struct, array_like=True):
    format: int
    database: str
    identity: bytes
    number: int
    offset: int


class HasDatabase(Protocol):
    @property
    def database(self) -> Database: ...


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BlobRequest).decode


def encode_request(database: str, identity: bytes, number: int, offset: int) -> bytes:
    return _encode(BlobRequest(FORMAT, database, identity, number, offset))


def decode_request(data: bytes) -> BlobRequest:
    """Raises RequestRefused."""
    try:
        request = _decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise RequestRefused("it is no request for a blob") from None
    if request.format != FORMAT:
        raise RequestRefused(f"requests for blobs of the format {request.format} are not known here")
    if not (0 <= request.number < 1 << 63 and 0 <= request.offset < 1 << 62):
        raise RequestRefused("it is no request for a blob")
    return request


class BlobSource:
    """`on_sent`: called with the name of a node, of a database, and bytes. Used on the thread of the loop alone."""

    def __init__(self, databases: Mapping[str, HasDatabase], clock: Clock, is_sent: Callable[[Table], bool]) -> None:
        """`databases`: those that are replicated, live. `is_sent`: whether what is written to a table goes to other nodes."""
        self.on_sent: Callable[[str, str, int], None] = lambda node, database, size: None
        self._databases = databases
        self._now = clock.monotonic
        self._is_sent = is_sent
        self._active: dict[Any, float] = {}

    async def answer(self, node: str, data: bytes) -> bytes:
        """For `NodeRequests.answer`. Raises RequestRefused."""
        request = decode_request(data)
        found = self._find(request)
        if found is None:
            return NOT_HERE
        files, number, is_own = found
        key = (node, request.database, request.identity, request.number)
        answer = await self._read(files, number, request.offset, is_own=is_own)
        if answer[:1] == MORE or (answer[:1] == LATER and request.offset):
            self._keep_active(key)
        else:
            self._active.pop(key, None)
        self.on_sent(node, request.database, len(answer))
        return answer

    def _find(self, request: BlobRequest) -> tuple[BlobFiles, int, bool] | None:
        """(files, number, whether the request names our own file)."""
        log = self._databases.get(request.database)
        if log is None:
            return None
        database = log.database
        files, state, txn = database.blobs, database.replication, database.snapshot()
        is_own = request.identity == files.identity
        number = request.number if is_own or state is None else state.blobs.local(txn, request.identity, request.number)
        owner = None if number is None else database.ledger.owner(txn, number)
        if number is None or owner is None:
            return None
        if not any(table.number == owner[0] and self._is_sent(table) for table in database.tables.values()):
            return None
        return files, number, is_own

    async def _read(self, files: BlobFiles, number: int, offset: int, *, is_own: bool) -> bytes:
        loop = asyncio.get_running_loop()
        end = self._now() + _WAIT
        while True:
            answer = await loop.run_in_executor(None, read_content, files, number, offset)
            if answer[:1] != LATER:
                return answer
            if not is_own:
                return NOT_HERE
            left = end - self._now()
            if left <= 0:
                return answer
            file = files.arriving.get(number)
            try:
                if file is None or file.is_done:
                    await asyncio.sleep(min(_POLL, left))
                else:
                    await file.progress(left)
            except TimeoutError:
                return answer

    def _keep_active(self, key: Any) -> None:
        if len(self._active) >= _ACTIVE_MAX:
            self._drop_inactive()
        self._active[key] = self._now()

    def _drop_inactive(self) -> None:
        before = self._now() - _ACTIVE
        self._active = {key: at for key, at in self._active.items() if at > before}

    @property
    def is_busy(self) -> bool:
        """Whether some node is fetching a file, bit by bit, and makes progress."""
        self._drop_inactive()
        return bool(self._active)

    async def drain(self, seconds: float) -> bool:
        """Wait until nobody fetches anything. False: somebody still does after this time."""
        end = self._now() + seconds
        while self.is_busy:
            if self._now() >= end:
                return False
            await asyncio.sleep(_POLL)
        return True


def read_content(files: BlobFiles, number: int, offset: int) -> bytes:
    """The answer, as far as it is known without waiting. Blocks: for a helper thread."""
    is_complete = files.is_complete(number)  # asked first: then what is read next is all there is
    try:
        if not files.exists(number):
            return LATER if files.is_arriving(number) else NOT_HERE
        if files.find(number, ERROR) is not None:
            return FAILED + files.incomplete(number).message.encode()
        descriptor = files.open_arriving(number)
        try:
            content = os.pread(descriptor, CONTENT, offset)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if is_complete:
            if offset >= size and offset:
                return b""
            return (END if offset + len(content) >= size else MORE) + content
        if len(content) == CONTENT:
            return MORE + content
        if files.is_arriving(number) or files.is_complete(number):
            return LATER
        return FAILED + files.incomplete(number).message.encode()
    except (Problem, OSError):  # it goes away meanwhile
        return NOT_HERE
