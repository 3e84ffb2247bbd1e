"""GET of one record by its key, the request that almost all traffic is.

    (header block, address before the key) -> a function of the key, which answers or declines

It is found by the bytes of the request, before anything is parsed: `GET /Product/42 HTTP/1.1`, where only the key has not been seen before. It is made when
the general path has answered the same block at the same address with a record for the second time (spec: architecture §5).
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from math import inf
from typing import Protocol

from svc.analytics import Recorder
from svc.auth.identify import Identifier
from svc.auth.roles import ALL_RIGHTS, rights
from svc.auth.users import user_of
from svc.connection.input_share import SLICE
from svc.connection.shared import SharedState
from svc.content.cbor_type import CborType
from svc.content.content_type import ContentType
from svc.content.json_type import JsonType
from svc.content.long_records import LONG
from svc.content.msgpack_type import MsgpackType
from svc.errors import Problem
from svc.http.compression import VARY
from svc.http.dispatch import TIMINGS, Dispatcher, timing
from svc.http.preferences import Preferences
from svc.http.response_parts import PRIVATE, PUBLIC
from svc.messages import Request, Response
from svc.protocol.express import BLOCK_MAX, BLOCKS
from svc.protocol.response_head import encode_fields, status_line
from svc.resources import Resources, TableResource
from svc.resources.table_base import UNCHECKED_KEY_LENGTH
from svc.rest import Rest
from svc.store.values.keys import encode_key

MOST_BLOCKS = 512  # header blocks of one generation
MOST_ADDRESSES = 64  # of one block
_OUTSIDE = frozenset(
    ("origin", "sec-fetch-site", "cookie", "range", "traceparent")
)  # fields that the answer, or who asks, may depend on each time
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_PUNCTUATION = b"-_~"  # of keys, beside letters and digits of ASCII
_WRITERS = (JsonType, CborType, MsgpackType)
_GET = b"GET /"
_VERSION = b" HTTP/1.1\r\n"
_END = b"\r\n\r\n"

_TAG = "TAG"  # stands for that of a record
_TIMING_LINES = [f"{name}: {value}\r\n".encode() for name, value in TIMINGS]


class Carrier(Protocol):
    """A connection that is between two requests, with nothing unsent: `connection.http1.Http1Connection`."""

    def send_at_once(self, data: bytes) -> None:
        """Send an answer; what the peer does not take now, as soon as it does."""


Read = Callable[[Carrier, SharedState, bytes], bool]
"""Answers GET of the record with this key; False: it declines, and nothing has happened."""


class PreparedReads:
    """Of one port."""

    def __init__(self, dispatcher: Dispatcher, rest: Rest, resources: Resources, identifier: Identifier, recorder: Recorder) -> None:
        self._dispatcher = dispatcher
        self._rest = rest
        self._resources = resources
        self._identifier = identifier
        self._recorder = recorder
        self._young: dict[bytes, dict[bytes, Read | None]] = {}  # header block -> address -> None: it was answered once
        self._old: dict[bytes, dict[bytes, Read | None]] = {}
        self._missed: tuple[bytes, bytes] | None = None  # (block, address) of the request under way
        self._prepares_at_once = False

    def __len__(self) -> int:
        """How many are prepared."""
        return sum([read is not None for blocks in (self._young, self._old) for reads in blocks.values() for read in reads.values()])

    def clear(self) -> None:
        self._young, self._old, self._missed = {}, {}, None

    def answer(self, carrier: Carrier, shared: SharedState, data: bytes) -> bool:
        """Answer a request, if all that has arrived is one that is prepared. False: nothing has happened."""
        self._missed = None
        end = data.find(_VERSION, 5)
        if (
            end < 0
            or data[:5] != _GET
            or data[-4:] != _END
            or len(data) > shared.limits.max_header_size
            or self._dispatcher.chain is not None
        ):
            return False
        slash = data.rfind(b"/", 4, end)
        block, address = data[end + 11 : -2], data[4:slash]
        reads = self._young.get(block)
        if reads is None:
            reads = self._old.get(block)
            if reads is None:
                self._missed = block, address
                return False
            self._keep(block, reads)
        read = reads.get(address)
        if read is None:
            self._missed = block, address
            return False
        key = data[slash + 1 : end]
        if not (key.isalnum() or key.translate(None, _PUNCTUATION).isalnum()) or len(key) > UNCHECKED_KEY_LENGTH:
            return False
        if read(carrier, shared, key):
            return True
        self._missed = block, address
        return False

    def consider(self, request: Request, response: Response) -> None:
        """The general path answers a GET without a query, within the call of `answer` that has declined it: prepare the next one, if it can be."""
        missed, self._missed = self._missed, None
        if missed is None or response.status != 200:
            return
        block, address = missed
        parsed = BLOCKS.young.get(block)
        if parsed is None or parsed.block is not request.block or len(block) > BLOCK_MAX:
            return
        reads = self._young.get(block)
        if reads is None:
            reads = {}
            self._keep(block, reads)
        if address not in reads and not self._prepares_at_once:
            if len(reads) < MOST_ADDRESSES:
                reads[address] = None
            return
        if not parsed.keep_alive or parsed.content_length or parsed.chunked or parsed.expects_continue or parsed.upgrades:
            return
        reads[address] = self._prepare(request, address.decode("latin-1"), response)

    def _keep(self, block: bytes, reads: dict[bytes, Read | None]) -> None:
        if len(self._young) >= MOST_BLOCKS:
            self._old, self._young = self._young, {}
        self._young[block] = reads

    def _prepare(self, request: Request, address: str, response: Response) -> Read | None:
        """None: it cannot be prepared."""
        dispatcher, rest = self._dispatcher, self._rest
        block = request.block
        if (
            dispatcher.is_watched
            or request._state is not None
            or request.added_headers is not None
            or not _OUTSIDE.isdisjoint(block.fields)
        ):
            return None
        user = request.user
        generation, expires = 0, inf
        if user is None:
            if not self._identifier.is_anonymous(block):
                return None
        else:
            known = self._identifier.remembered(block)
            if known is None or known[2] is not user:
                return None
            generation, expires = known[0], known[1]
        resource = self._resource(request, address)
        preferences: Preferences | None = block.memo.get("rest")
        if resource is None or preferences is None:
            return None
        table = resource.table
        may = rights(user_of(request), table) if user is None or not user.super_user or resource.is_system else ALL_RIGHTS
        if not may.read or may.readable is not None or table.caching is not None or table.has_enumerable:
            return None
        writer = preferences.writer
        if (
            writer is None
            or preferences.conditional
            or preferences.page
            or preferences.events
            or not _is_plain(writer)
            or rest.shown.last_modified
        ):
            return None
        fields = [preferences.type_pair, ("ETag", f'"{_TAG}"'), VARY, PUBLIC if user is None else PRIVATE]
        before, _, after = f"{status_line(200)}{encode_fields(fields)[0]}".encode("latin-1").partition(_TAG.encode())
        versions = (rest.version, self._resources.version, rest.types.generation)
        resources, types, directory = self._resources, rest.types, self._identifier.directory
        definition, environment = table.definition, table.database.env
        encode, threshold = writer.encode_stored, preferences.threshold
        record, handler_path = self._recorder.request_done, request.handler_path
        now = dispatcher.now
        anonymous = None if user is not None else may

        def read(carrier: Carrier, shared: SharedState, key: bytes) -> bool:
            arrived = now()
            try:
                txn = environment.snapshot()  # which may find that another process has changed definitions
            except Problem:
                return False
            if (
                (rest.version, resources.version, types.generation) != versions
                or table.definition is not definition
                or table.caching is not None
                or (anonymous is None and (directory.generation != generation or arrived >= expires))
                or (anonymous is not None and rights(None, table) is not anonymous)
            ):
                return False
            raw = table.get_plain(b"\x10" + key + b"\0", txn)
            if raw is None or len(raw) > LONG or b"contentType" in raw:
                return False
            try:
                body = encode(raw)
            except Problem:  # it is damaged
                return False
            size = len(body)
            if size > threshold:
                return False
            tag = b2a_base64(raw[1:9]).translate(_URL_SAFE, b"=\n")
            answered = now()
            hundredths = int((answered - arrived) * 100_000.0)
            line = (
                _TIMING_LINES[hundredths] if hundredths < len(_TIMING_LINES) else b"%s: %s\r\n" % tuple(map(str.encode, timing(hundredths)))
            )
            date = shared.date().encode()
            carrier.send_at_once(b"%b%b%b%bDate: %b\r\nContent-Length: %d\r\n\r\n%b" % (before, tag, after, line, date, size, body))
            share = shared.input
            if arrived >= share.deadline:
                if share.deadline:
                    share.is_over = True
                else:
                    share.deadline = arrived + SLICE
            record(handler_path, "GET", (answered - arrived) * 1000.0, 200, size, (now() - answered) * 1000.0)
            return True

        return read

    def _resource(self, request: Request, address: str) -> type[TableResource] | None:
        """The table whose records have this address, if nothing else answers at any address below it."""
        path = address[1:]
        if self._rest.answers_below(address) or any(each.startswith(f"{path}/") for each in self._resources):
            return None
        found = self._resources.find(request.pathname, "rest")
        if found is None or found[0].path != path or found[0].pattern is not None:
            return None
        resource = found[0].resource
        if not issubclass(resource, TableResource) or not resource.text_keys:
            return None
        key = request.pathname[len(address) + 1 :]
        if encode_key(key) != b"\x10" + key.encode() + b"\0" or any(
            getattr(resource, name).__func__ is not getattr(TableResource, name).__func__
            for name in ("handle", "authorize", "on_get", "bind")
        ):
            return None
        return resource


def _is_plain(writer: ContentType) -> bool:
    """Whether what it writes of a stored record is all there is to say."""
    return type(writer) in _WRITERS and not writer.is_tabular and not writer.headers
