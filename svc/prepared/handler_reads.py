"""GET of one record where code of an application answers: what is around its handler is prepared, and the handler is called as the general path calls it.

found -> called -> sent at once: it has returned a record as it is stored, or values, and done nothing else that an answer shows
            '----> answered as others are, by the connection, the dispatcher and REST, who go on as behind any handler: whatever else has come of it

A handler is called once. From then on nothing declines.
"""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec

from svc.analytics import Recorder
from svc.api.served import ServedTable
from svc.api.target import RequestTarget, new_target
from svc.auth.roles import ALL_RIGHTS
from svc.auth.users import user_of
from svc.connection.exchange import Exchange
from svc.connection.shared import SharedState
from svc.errors import Problem
from svc.http.compression import VARY
from svc.http.dispatch import TIMINGS_MADE, Dispatcher
from svc.http.responses import as_response
from svc.messages import HeaderPairs, Request
from svc.prepared.answers import TIMING_LINES, Carrier, charge, timing_line
from svc.prepared.premises import Premises
from svc.prepared.record_reads import TAG, Read, is_whole_record, plain_body, record_fields, tag_of
from svc.query.narrowing import view_of
from svc.resources import StoredRecord
from svc.rest import Rest
from svc.store.entity_tags import etag_of_version


class HandlerCall(msgspec.Struct):
    """The transport of a request whose handler runs, which has no exchange until something happens that takes one. `data`: all of it, as it has come."""

    carrier: Carrier
    data: bytes
    arrived: float
    request: Request
    exchange: Exchange | None = None

    def adopt(self, exchange: Exchange) -> None:
        self.exchange = exchange

    def made(self) -> Exchange:
        """Its exchange."""
        if self.exchange is None:
            self.carrier.wait_for(self)
            self.exchange = self.carrier.make_exchange()
        return self.exchange

    def send_early_hints(self, pairs: HeaderPairs) -> None:
        if self.request.exchange is not None:  # else it has been answered, and code has kept this
            self.made().send_early_hints(pairs)

    def decode_content(self, request: Request) -> Any:
        """None: it has no body."""


class HandlerReads:
    """Prepares reads through handlers of one port."""

    def __init__(self, premises: Premises, dispatcher: Dispatcher, rest: Rest, recorder: Recorder) -> None:
        self._premises = premises
        self._dispatcher = dispatcher
        self._rest = rest
        self._recorder = recorder

    def prepare(self, request: Request, address: str) -> Read | None:
        """For requests at `address` with the header block of this one, which the general path has answered. None: they cannot be prepared."""
        premises = self._premises
        if not premises.names_caller(request) or request.added_headers is not None or request._session is not None:
            return None
        resource, preferences = premises.table_resource(request, address, text_keys=False), premises.preferences(request)
        if resource is None or not issubclass(resource, ServedTable) or "get" not in resource.application._own_verbs:
            return None
        if preferences is None or not is_whole_record(request, preferences, "") or self._rest.shown.last_modified:
            return None
        table, application = resource.table, resource.application
        own_rights = bool(application._own_rights)  # `call_handler` asks them; the others are a part of what this rests on
        may = ALL_RIGHTS if own_rights else premises.rights(request, resource)
        holds = premises.premise(request, table, may)
        if (
            holds is None
            or not may.read
            or table.has_enumerable
            or table.caching is not None
            or view_of(user_of(request), table) is not table
        ):
            return None
        now, environment = self._dispatcher.now, table.database.env
        block, user, sessions, path, before = request.block, request.user, request.sessions, request.handler_path, f"{address}/"
        verb, call_handler = application._verbs["get"], resource.call_handler
        bind = None if resource.text_keys else resource.bind
        record = self._recorder.request_bucket(path, "GET")
        writer, threshold, body_of = preferences.writer, preferences.threshold, plain_body(preferences)
        assert writer is not None
        encode = writer.encode
        of_record = premises.head(request, [preferences.type_pair, *record_fields(request)])
        of_data = premises.head(request, [preferences.type_pair, VARY, TAG])

        def read(carrier: Carrier, shared: SharedState, data: bytes, key: bytes, tag: bytes) -> bool | None:
            arrived = now()
            target = new_target()
            target.raw = target.id_text = target.id = text = key.decode()
            if not own_rights:
                target.rights = may
            try:
                environment.snapshot()
                if not holds(carrier, arrived):
                    return None
                if bind is not None:
                    bind(target)
            except Problem:  # the general path says it
                return False
            request = Request("GET", before + text, block)
            request.peer = carrier.peer
            request.scheme = carrier.scheme
            request.arrived = arrived
            request.user = user
            request.sessions = sessions
            request.handler_path = path
            request.exchange = call = HandlerCall(carrier, data, arrived, request)
            share = shared.input
            if arrived >= share.deadline:  # else it is nothing to call for
                charge(share, arrived)
            try:
                result = call_handler(verb, target, None, request)
            except Exception as error:
                self._go_on(call, resource, target, error)
                return True
            body = None
            if (
                target.property is target.query is target.extension is None
                and request.exchange is call
                and request.user is user
                and request.block is block
                and request.added_headers is request._session is request.pending_commit is None
                and ((state := request._state) is None or state.metric_type is None)
            ):
                kind = type(result)
                try:
                    if kind is StoredRecord:
                        if (raw := result.raw)[0] == table.plain_format and result.table is table and result.visible is None:
                            head, behind = of_record
                            tag = tag_of(raw)
                            body = body_of(raw)
                    elif kind is dict and as_response(result) is result and "contentType" not in result:
                        version = request._last_modified
                        if version is not None and version < inf:
                            head, behind = of_data
                            tag = etag_of_version(version).encode()
                            body = encode(result)
                            if len(body) > threshold:
                                body = None
                except Exception:  # the general path says it
                    body = None
            if body is None:
                self._go_on(call, resource, target, result)
                return True
            request.exchange = None  # a cycle
            answered = now()
            hundredths = int((answered - arrived) * 100_000.0)
            line = TIMING_LINES[hundredths] if hundredths < TIMINGS_MADE else timing_line(hundredths)
            date = shared.date_line or shared.make_date_line()
            size = len(body)
            sent = carrier.send_at_once(b"".join((head, tag, behind, line, date, b"Content-Length: %d\r\n\r\n" % size, body)))
            record((answered - arrived) * 1000.0, 200, size, (sent - answered) * 1000.0)
            return True

        return read

    def _go_on(self, call: HandlerCall, resource: type[ServedTable], target: RequestTarget, outcome: Any) -> None:
        """Answer as others are answered, with what the handler has returned or raised."""
        exchange, rest = call.made(), self._rest
        response = self._dispatcher.go_on(exchange, lambda request: rest.answer_read(request, resource, target, outcome))
        if response is not None:
            exchange.respond(response)
