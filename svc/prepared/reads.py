"""GET of one record by its key, the request that almost all traffic is.

    (header block, address before the key) -> a function of the key, which answers or declines

It is found by the bytes of the request, before anything is parsed: `GET /Product/42 HTTP/1.1`, where only the key has not been seen before. It is made when
the general path has answered the same block at the same address with a record for the second time (spec: architecture §7).
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from typing import Protocol

from svc.analytics import Recorder
from svc.auth.identify import Identifier, is_loopback
from svc.auth.roles import ALL_RIGHTS, TableRights, rights
from svc.auth.users import user_of
from svc.connection.input_share import SLICE
from svc.connection.shared import SharedState
from svc.content.cbor_type import CborType
from svc.content.json_type import JsonType
from svc.content.long_records import LONG
from svc.content.msgpack_type import MsgpackType
from svc.errors import Problem
from svc.http.compression import VARY
from svc.http.dispatch import TIMINGS, Dispatcher, timing
from svc.http.preferences import Preferences
from svc.http.response_parts import PRIVATE, PUBLIC
from svc.messages import Request, Response
from svc.protocol.express import BLOCKS
from svc.protocol.request_head import ParsedBlock
from svc.protocol.response_head import encode_fields, status_line
from svc.resources import Resources, TableResource
from svc.resources.table_base import UNCHECKED_KEY_LENGTH
from svc.rest import Rest
from svc.store import Table

MOST = 2048  # of one generation
BLOCK_MAX = 1024  # bytes of a header block that is kept
_OUTSIDE = frozenset(
    ("origin", "sec-fetch-site", "cookie", "range", "traceparent")
)  # fields that the answer, or who asks, may depend on each time
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_PUNCTUATION = b"-_~"  # of keys, beside letters and digits of ASCII
_STEPS = ("handle", "authorize", "on_get", "bind")  # what application code may have instead
_WRITERS = (JsonType, CborType, MsgpackType)
_GET = b"GET /"
_VERSION = b" HTTP/1.1\r\n"
_END = b"\r\n\r\n"

_TAG = "TAG"  # stands for that of a record


class Carrier(Protocol):
    """A connection that is between two requests, with nothing unsent: `connection.http1.Http1Connection`."""

    peer: str

    def send_at_once(self, data: bytes) -> None:
        """Send an answer; what the peer does not take now, as soon as it does."""


_Place = tuple[bytes, bytes]
"""A header block, and an address up to the last slash."""

Read = Callable[[Carrier, SharedState, bytes], bool]
"""Answers GET of the record with this key; False: it declines, and nothing has happened."""


class PreparedReads:
    """Of one port. Bounded: of two generations the older one is forgotten when the younger is full (as `protocol.express.BlockCache`)."""

    prepares_at_once = False
    """Not only for the second request: for tests."""

    def __init__(self, dispatcher: Dispatcher, rest: Rest, resources: Resources, identifier: Identifier, recorder: Recorder) -> None:
        self._dispatcher = dispatcher
        self._rest = rest
        self._resources = resources
        self._identifier = identifier
        self._recorder = recorder
        self._young: dict[_Place, Read | None] = {}  # None: it was answered once, or cannot be prepared
        self._old: dict[_Place, Read | None] = {}
        self._missed: _Place | None = None  # that of the request under way

    def __len__(self) -> int:
        """How many are prepared."""
        return sum([read is not None for reads in (self._young, self._old) for read in reads.values()])

    def answer(self, carrier: Carrier, shared: SharedState, data: bytes) -> bool:
        """Answer a request, if all that has arrived is one that is prepared. False: nothing has happened."""
        self._missed = None
        end = data.find(_VERSION, 5)
        if end < 0 or data[:5] != _GET or data[-4:] != _END or self._dispatcher.chain is not None:
            return False
        slash = data.rfind(b"/", 4, end)
        place = data[end + len(_VERSION) : -2], data[4:slash]
        read = self._young.get(place) or self._former(place)
        if read is not None and len(data) <= shared.limits.max_header_size:
            key = data[slash + 1 : end]
            is_plain = key.isalnum() or key.translate(None, _PUNCTUATION).isalnum()
            if is_plain and len(key) <= UNCHECKED_KEY_LENGTH and read(carrier, shared, key):
                return True
        self._missed = place
        return False

    def consider(self, request: Request, response: Response) -> None:
        """The general path answers a GET without a query, within the call of `answer` that has declined it: prepare the next one, if it can be."""
        place, self._missed = self._missed, None
        if place is None or response.status != 200 or len(place[0]) > BLOCK_MAX:
            return
        parsed = BLOCKS.young.get(place[0])
        if parsed is None or parsed.block is not request.block:
            return
        is_known = place in self._young
        if not is_known and not self.prepares_at_once:
            self._keep(place, None)
        elif is_plain_get(parsed):
            self._keep(place, self._prepare(request, place[1].decode("latin-1")))

    def _former(self, place: _Place) -> Read | None:
        read = self._old.get(place)
        if read is not None:
            self._keep(place, read)
        return read

    def _keep(self, place: _Place, read: Read | None) -> None:
        if len(self._young) >= MOST and place not in self._young:
            self._old, self._young = self._young, {}
        self._young[place] = read

    def _prepare(self, request: Request, address: str) -> Read | None:
        """None: it cannot be prepared."""
        block = request.block
        if (
            self._dispatcher.is_watched
            or request._state is not None
            or request.added_headers is not None
            or not _OUTSIDE.isdisjoint(block.fields)
        ):
            return None
        resource = self._resource(request, address)
        preferences: Preferences | None = block.memo.get("rest")
        asks = self._caller(request)
        if resource is None or preferences is None or asks is None or not _is_whole_record(preferences) or self._rest.shown.last_modified:
            return None
        table = resource.table
        user = user_of(request)
        may = rights(user, table) if user is None or not user.super_user or resource.is_system else ALL_RIGHTS
        if not may.read or may.readable is not None or table.has_enumerable:
            return None
        return self._make(request, table, may, preferences, asks)

    def _caller(self, request: Request) -> Callable[[Carrier, float], bool] | None:
        """Whether a request with the same header block is still this caller's: a function of the connection and the time. None: that cannot be said."""
        block, identifier, directory = request.block, self._identifier, self._identifier.directory
        generation = directory.generation
        if request.user is None:
            return (lambda carrier, now: True) if identifier.is_anonymous(block) else None
        if identifier.is_local(block):
            return lambda carrier, now: directory.generation == generation and is_loopback(carrier.peer)
        known = identifier.remembered(block)
        if known is None or known[2] is not request.user:
            return None
        generation, expires, _ = known
        return lambda carrier, now: directory.generation == generation and now < expires

    def _make(
        self, request: Request, table: Table, may: TableRights, preferences: Preferences, asks: Callable[[Carrier, float], bool]
    ) -> Read:
        rest, resources, types, directory = self._rest, self._resources, self._rest.types, self._identifier.directory
        versions = (rest.version, resources.version, types.generation, directory.generation)
        definition, environment, user = table.definition, table.database.env, user_of(request)
        assert preferences.writer is not None
        encode, threshold = preferences.writer.encode_stored, preferences.threshold
        fields = [preferences.type_pair, ("ETag", f'"{_TAG}"'), VARY, PUBLIC if user is None else PRIVATE]
        before, _, after = f"{status_line(200)}{encode_fields(fields)[0]}".encode("latin-1").partition(_TAG.encode())
        record, path, now = self._recorder.request_done, request.handler_path, self._dispatcher.now
        is_limited = may is not ALL_RIGHTS

        def read(carrier: Carrier, shared: SharedState, key: bytes) -> bool:
            arrived = now()
            try:
                txn = environment.snapshot()  # which may find that another process has changed definitions, users, rights
                if (
                    (rest.version, resources.version, types.generation, directory.generation) != versions
                    or table.definition is not definition
                    or table.caching is not None
                    or (is_limited and rights(user, table) is not may)
                    or not asks(carrier, arrived)
                ):
                    return False
                raw = table.get_plain(b"\x10" + key + b"\0", txn)
                if raw is None or len(raw) > LONG or b"contentType" in raw:
                    return False
                body = encode(raw)
            except Problem:  # the general path says it
                return False
            size = len(body)
            if size > threshold:
                return False
            answered = now()
            hundredths = int((answered - arrived) * 100_000.0)
            carrier.send_at_once(
                b"%b%b%b%bDate: %b\r\nContent-Length: %d\r\n\r\n%b"
                % (
                    before,
                    b2a_base64(raw[1:9]).translate(_URL_SAFE, b"=\n"),
                    after,
                    _TIMING_LINES[hundredths] if hundredths < len(_TIMING_LINES) else _line(timing(hundredths)),
                    shared.date().encode(),
                    size,
                    body,
                )
            )
            share = shared.input
            if arrived >= share.deadline:  # as `InputShare.charge`
                if share.deadline:
                    share.is_over = True
                else:
                    share.deadline = arrived + SLICE
            record(path, "GET", (answered - arrived) * 1000.0, 200, size, (now() - answered) * 1000.0)
            return True

        return read

    def _resource(self, request: Request, address: str) -> type[TableResource] | None:
        """The table whose records have this address, if nothing else answers at any address below it."""
        path = address[1:]
        if not path or self._rest.answers_below(address) or any(each.startswith(f"{path}/") for each in self._resources):
            return None
        found = self._resources.find(request.pathname, "rest")
        if found is None or found[0].path != path or found[0].pattern is not None or found[0].fault:
            return None
        resource = found[0].resource
        if not issubclass(resource, TableResource) or not resource.text_keys:
            return None
        own = [name for name in _STEPS if getattr(resource, name).__func__ is not getattr(TableResource, name).__func__]
        return None if own else resource


def is_plain_get(parsed: ParsedBlock) -> bool:
    """Whether a GET with this header block is complete with it, and leaves the connection open."""
    return not (parsed.content_length or parsed.chunked or parsed.expects_continue or parsed.upgrades) and parsed.keep_alive


def _is_whole_record(preferences: Preferences) -> bool:
    """Whether the answer is the record as a whole, in a type whose writer says all there is to say of it."""
    if preferences.conditional or preferences.page or preferences.events:
        return False
    writer = preferences.writer
    return type(writer) in _WRITERS and writer is not None and not writer.is_tabular and not writer.headers


def _line(field: tuple[str, str]) -> bytes:
    return f"{field[0]}: {field[1]}\r\n".encode()


_TIMING_LINES = [_line(field) for field in TIMINGS]
