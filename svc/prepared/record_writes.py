"""PUT and DELETE of one record, POST of a new one: checked when they arrive, carried out together at the end of the turn (`store.writing.queued_writes`).

arrives -> queued -> committed: answered at once, if nothing else has happened on the connection meanwhile
             |           '---> answered as others are: more has come, the peer has ended, the server stops, the commit has failed
             '---> the general path, as if it had just arrived: the table, or what is stored, is not what it was taken for
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from svc.analytics import Recorder
from svc.auth.roles import TableRights
from svc.connection.exchange import Exchange
from svc.connection.shared import SharedState
from svc.content.json_type import JsonType, decode_json
from svc.content.unchanged import restore_json
from svc.errors import Problem
from svc.http.bodies import BodyType, body_type
from svc.http.confirmed_writes import HEADER
from svc.http.dispatch import TIMINGS_MADE, Dispatcher
from svc.messages import HeaderPairs, Request, Response
from svc.prepared.answers import PLACE, TIMING_LINES, WRITERS, Carrier, charge, encode_head, is_plain_key, timing_line
from svc.prepared.premises import Premise, Premises
from svc.resources import TableResource
from svc.resources.resource import WRITE_CONDITIONS, CreatedRecords
from svc.rest import Rest
from svc.store import Table
from svc.store.entity_tags import CREATE
from svc.store.values.validation import EMPTY_KEYS
from svc.store.writing.queued_writes import NotPlain, is_queueable
from svc.store.writing.write_set import Decide

_STEPS = {  # what application code may have instead
    "PUT": ("handle", "authorize", "admit", "bind", "on_put"),
    "POST": ("handle", "authorize", "admit", "on_post"),
    "DELETE": ("handle", "authorize", "bind", "on_delete"),
}
_OUTSIDE = WRITE_CONDITIONS | {"content-encoding", "content-range", HEADER}
_MARK = f"~{PLACE}~"  # a key
_NOTHING = b"%b%b%b\r\n"
_CREATED = b"%b%b%b%b%bContent-Length: %d\r\n\r\n%b"

Queue = Callable[[Carrier, SharedState, bytes, bytes, bytes], bool | None]
"""Queues the write of the record with this key, b"" of a new one, and this body, b"" of a deletion; the last is all that has arrived. False: it declines, and
nothing has happened. None: the same, and what it rests on holds no more."""


class RecordWrites:
    """Prepares writes to the tables of one port."""

    def __init__(self, premises: Premises, dispatcher: Dispatcher, rest: Rest, recorder: Recorder) -> None:
        self._premises = premises
        self._rest = rest
        self.dispatcher = dispatcher
        self.recorder = recorder

    def prepare(self, request: Request, address: str) -> Queue | None:
        """For requests of the method of this one at `address`, with its header block but for the length of the body; this one is being carried out by the
        general path. None: they cannot be prepared."""
        premises, method = self._premises, request.method
        if not premises.can_be_prepared(request) or not _OUTSIDE.isdisjoint(request.block.fields) or request.handler_path != address[1:]:
            return None
        resource = premises.table_resource(request, address, *_STEPS[method])
        if resource is None or not is_queueable(resource.table, deletes=method == "DELETE"):
            return None
        may = premises.rights(request, resource)
        holds = premises.premise(request, resource.table, may)
        if holds is None or not _may_write_all(may, method) or may.rows is not None:
            return None
        if method == "DELETE":
            return _queue_deletion(self._group(request, resource), holds)
        body: BodyType = body_type(request.block, self._rest.types)
        if type(body.reader) is not JsonType or body.restore is not restore_json:
            return None
        if method == "PUT":
            return _queue_put(self._group(request, resource), holds)
        preferences = premises.preferences(request)
        if preferences is None or preferences.page or type(preferences.writer) not in WRITERS or self._rest.answers_at(request.pathname):
            return None
        assert preferences.writer is not None
        group = self._group(request, resource)
        encode, threshold = preferences.writer.encode, preferences.threshold
        return _queue_post(group, holds, encode, threshold) if len(group.head) == 2 else None

    def _group(self, request: Request, resource: type[TableResource]) -> WriteGroup:
        response = self.response(request, _MARK)
        pairs = self._premises.template(request, response).pairs
        return WriteGroup(self, request, resource.table, response.status, pairs)

    def response(self, request: Request, key: str) -> Response:
        """As the general path answers a write that it has carried out. `key`: of a new record."""
        if request.method != "POST":
            return Response(None, 204)
        response: Response = self._rest.answer(request, CreatedRecords(key, key))
        return response


class WriteGroup:
    """What the writes of one preparation have in common. `head`: of their answers, cut where the key is."""

    __slots__ = ("decide", "head", "method", "now", "path", "precondition", "record", "status", "table", "user", "username", "writes")

    def __init__(self, writes: RecordWrites, request: Request, table: Table, status: int, pairs: HeaderPairs) -> None:
        self.writes = writes
        self.table = table
        self.precondition = CREATE if request.method == "POST" else None
        self.decide: Decide | None = _keep_stored if request.method == "PUT" else None
        self.user = request.user
        self.username = None if request.user is None else request.user.username
        self.method = request.method
        self.path = request.handler_path
        self.now = writes.dispatcher.now
        self.record = writes.recorder.request_bucket(self.path, self.method)
        self.status = status
        self.head = encode_head(status, pairs, _MARK)


class QueuedRequest:
    """A request whose write is queued. `key`: of the record, as it is in an address. `body`: of the answer, if it has one."""

    request: Request | None = None

    __slots__ = (
        "_body", "_carrier", "_exchange", "_group", "_shared", "_text", "arrived", "data", "decide", "definition", "key", "precondition", "record", "table",
        "username",
    )  # fmt: skip

    def __init__(
        self,
        group: WriteGroup,
        carrier: Carrier,
        shared: SharedState,
        arrived: float,
        data: bytes,
        key: bytes,
        record: dict[str, Any] | None,
        body: bytes = b"",
    ) -> None:
        self._group = group
        self._carrier = carrier
        self._shared = shared
        self._exchange: Exchange | None = None
        self._text = key
        self._body = body
        self.arrived = arrived
        self.data = data
        self.table = table = group.table
        self.definition = table.definition
        self.key = b"\x10%b\0" % key
        self.record = record
        self.precondition = group.precondition
        self.decide = group.decide
        self.username = group.username

    def adopt(self, exchange: Exchange) -> None:
        self._exchange = exchange
        request = exchange.request
        request.user, request.handler_path = self._group.user, self._group.path

    def done(self, problem: Problem | None) -> None:
        if self._exchange is not None or problem is not None:
            self._answer_as_others(problem)
            return
        group = self._group
        answered = group.now()
        hundredths = int((answered - self.arrived) * 100_000.0)
        line = TIMING_LINES[hundredths] if hundredths < TIMINGS_MADE else timing_line(hundredths)
        date, head, body = self._shared.date_line or self._shared.make_date_line(), group.head, self._body
        size = len(body)
        data = _CREATED % (head[0], self._text, head[1], line, date, size, body) if body else _NOTHING % (head[0], line, date)
        sent = self._carrier.answer_waiting(data)
        group.record((answered - self.arrived) * 1000.0, group.status, size, (sent - answered) * 1000.0)

    def _answer_as_others(self, problem: Problem | None) -> None:
        exchange = self._exchange or self._carrier.make_exchange()
        writes, request = self._group.writes, exchange.request
        exchange.respond(writes.dispatcher.outcome(request, problem or writes.response(request, self._text.decode())))

    def write_generally(self) -> None:
        exchange = self._exchange or self._carrier.make_exchange()
        request = exchange.request
        request.user, request.handler_path = None, ""
        self._shared.woken = True  # what has to wait may be a task now, of a turn that is over
        response = self._shared.application.handle(exchange)
        if response is not None:
            exchange.respond(response)


def _queue_put(group: WriteGroup, holds: Premise) -> Queue:
    take, primary_key, maybe_record = _taker(group, holds), group.table.primary_key, group.table.validator.plain_records.maybe_record

    def queue_put(carrier: Carrier, shared: SharedState, key: bytes, body: bytes, data: bytes) -> bool | None:
        arrived = group.now()
        record = take(carrier, arrived, body)
        if not record:
            return None if record is None else False
        record[primary_key] = key.decode()
        checked = maybe_record(record)
        if checked is None:
            return False
        _queue(QueuedRequest(group, carrier, shared, arrived, data, key, checked), carrier, shared)
        return True

    return queue_put


def _queue_post(group: WriteGroup, holds: Premise, encode: Callable[[Any], bytes], threshold: int) -> Queue:
    take, table = _taker(group, holds), group.table
    primary_key, maybe_record = table.primary_key, table.validator.plain_records.maybe_record

    def queue_post(carrier: Carrier, shared: SharedState, _: bytes, body: bytes, data: bytes) -> bool | None:
        arrived = group.now()
        record = take(carrier, arrived, body)
        if not record:
            return None if record is None else False
        key = record.get(primary_key)
        if key is None or key in EMPTY_KEYS:
            key = table.new_key()
        if type(key) is not str:
            return False
        raw_key = key.encode()
        record[primary_key] = key
        checked = maybe_record(record)
        answer = encode(key)
        if checked is None or not is_plain_key(raw_key) or len(answer) > threshold:
            return False
        _queue(QueuedRequest(group, carrier, shared, arrived, data, raw_key, checked, answer), carrier, shared)
        return True

    return queue_post


def _taker(group: WriteGroup, holds: Premise) -> Callable[[Carrier, float, bytes], dict[str, Any] | Literal[False] | None]:
    """What decodes the body of a request that has arrived now. False, None: as those of `Queue`; an empty object is left to the general path, too."""
    environment = group.table.database.env

    def take(carrier: Carrier, arrived: float, body: bytes) -> dict[str, Any] | Literal[False] | None:
        try:
            environment.snapshot()
            if not holds(carrier, arrived):
                return None
            record = decode_json(body)
        except Problem:  # the general path says it
            return False
        return record if type(record) is dict and record and environment.holder is None else False

    return take


def _queue_deletion(group: WriteGroup, holds: Premise) -> Queue:
    environment, now = group.table.database.env, group.now

    def queue_deletion(carrier: Carrier, shared: SharedState, key: bytes, _: bytes, data: bytes) -> bool | None:
        arrived = now()
        try:
            environment.snapshot()
        except Problem:  # the general path says it
            return False
        if not holds(carrier, arrived):
            return None
        if environment.holder is not None:
            return False
        _queue(QueuedRequest(group, carrier, shared, arrived, data, key, None), carrier, shared)
        return True

    return queue_deletion


def _queue(queued: QueuedRequest, carrier: Carrier, shared: SharedState) -> None:
    carrier.wait_for(queued)
    queued.table.database.queued_writes.add(queued)
    charge(shared.input, queued.arrived)


def _keep_stored(record: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """A `Decide`: of values that the body shows in the form of JSON the stored ones. Raises NotPlain for raw content, which a body shows as a whole."""
    if stored is not None and "contentType" in stored:
        raise NotPlain
    return restore_json(record, stored)


def _may_write_all(may: TableRights, method: str) -> bool:
    """Whether nothing of the record has to be looked at for what the caller may do."""
    if method == "DELETE":
        return may.delete or may.all
    return may.all or (may.attributes is None and may.insert and (may.update or method == "POST"))
