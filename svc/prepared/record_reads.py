"""GET of one record by its key, the request that almost all traffic is: the record, that it has not changed (304), or that there is none (404)."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any

from svc.analytics import Recorder
from svc.auth.roles import ALL_RIGHTS
from svc.auth.users import user_of
from svc.connection.shared import SharedState
from svc.content.long_records import LONG
from svc.errors import Problem
from svc.http.compression import VARY
from svc.http.conditional import READ_CONDITIONS
from svc.http.dispatch import TIMINGS_MADE, Dispatcher
from svc.http.preferences import Preferences
from svc.http.response_parts import PRIVATE, PUBLIC
from svc.messages import HeaderPairs, Request
from svc.prepared.answers import PLACE, TIMING_LINES, WRITERS, answer_stream, charge, encode_head, timing_line
from svc.prepared.premises import Premises, while_tables_stay
from svc.protocol.response_head import RepeatedHead
from svc.query.matching import reads_others
from svc.query.narrowing import is_view, view_of
from svc.rest import Rest
from svc.store.disk.faults import LmdbError
from svc.store.entity_tags import URL_SAFE
from svc.store.values.records import DAMAGE, PAYLOAD_AT

if TYPE_CHECKING:
    from svc.query.record_tests import RecordTest

_STEPS = ("handle", "authorize", "on_get", "bind")  # what application code may have instead
_TAG_ONLY = frozenset(("if-none-match",))
_TAG_CHARACTERS = b"-_" + (digits + ascii_letters).encode()

TAG = ("ETag", f'"{PLACE}"')
"""In the fields of a head."""

Read = Callable[[Any, SharedState, bytes, bytes, bytes], bool | None]
"""Answers GET, all of which is the first of the three (b"": on a stream), of the record with this key, to a client that has it with this entity tag, b"": it
has none. False: it declines, and nothing has happened. None: the same, and what it rests on holds no more."""


class RecordReads:
    """Prepares reads of the tables of one port."""

    def __init__(self, premises: Premises, dispatcher: Dispatcher, rest: Rest, recorder: Recorder) -> None:
        self._premises = premises
        self._dispatcher = dispatcher
        self._rest = rest
        self._recorder = recorder

    def prepare(self, request: Request, address: str, tag: str) -> Read | None:
        """For requests at `address` with the header block of this one, which the general path has answered; `tag`: that of its `If-None-Match`, "" without.
        None: they cannot be prepared."""
        premises = self._premises
        if not premises.can_be_prepared(request):
            return None
        resource, preferences = premises.table_resource(request, address, *_STEPS), premises.preferences(request)
        if resource is None or preferences is None or not is_whole_record(request, preferences, tag) or self._rest.shown.last_modified:
            return None
        table, may = resource.table, premises.rights(request, resource)
        holds = premises.premise(request, table, may)
        if holds is None or not may.read or may.readable is not None or table.has_enumerable:
            return None
        environment, now = table.database.env, self._dispatcher.now
        view = table if may is ALL_RIGHTS else view_of(user_of(request), table)
        can_see: RecordTest | None = None
        if is_view(view) and view.is_narrowed:
            if not view.is_stable:
                return None
            can_see = view.record_test("read")
            if any(map(reads_others, view.rule_members)):
                holds = while_tables_stay(table.database, holds)
        record = self._recorder.request_bucket(request.handler_path, "GET")
        decode, encode, threshold = body_steps(preferences)
        fields = record_fields(request)
        whole = encode_head(200, [preferences.type_pair, *fields])
        unchanged = encode_head(304, fields)
        problem = premises.template(request, self._rest.no_record(table))
        missing = encode_head(404, problem.pairs)[0]
        missing_body = problem.body if type(problem.body) is bytes else b""

        heads = (
            None
            if request.http_version != "2"
            else {
                200: RepeatedHead(200, [preferences.type_pair], True, fields[1:], True),
                304: RepeatedHead(304, [], True, fields[1:], False),
                404: RepeatedHead(404, problem.pairs, False, [], True),
            }
        )

        def read(carrier: Any, shared: SharedState, data: bytes, key: bytes, tag: bytes) -> bool | None:
            arrived = now()
            try:
                txn = environment.snapshot()
                if not holds(carrier, arrived):
                    return None
                stored = b"\x10" + key + b"\0"
                raw = txn.get(stored, None, table.primary)
                if raw is None or (can_see is not None and raw[0] == table.plain_format and not can_see(raw, txn)):
                    status, before, own, behind, body = 404, missing, b"", b"", missing_body
                elif raw[0] != table.plain_format:
                    return False
                else:
                    own = b2a_base64(raw[1:9])[:-2].translate(URL_SAFE)  # to delete a character takes as long as the rest
                    if tag == own:
                        status, (before, behind), body = 304, unchanged, b""
                    else:
                        if len(raw) > LONG or raw.find(b"contentType") >= 0 or (tag and tag.translate(None, _TAG_CHARACTERS)):
                            return False
                        status, (before, behind) = 200, whole
                        body = encode(raw) if decode is None else encode(decode(raw[PAYLOAD_AT:]))
                        if len(body) > threshold:
                            return False
            except (Problem, LmdbError, *DAMAGE):  # the general path says it
                return False
            size = len(body)
            answered = now()
            if heads is not None:
                return answer_stream(carrier, shared, record, heads[status], own, arrived, answered, body)
            hundredths = int((answered - arrived) * 100_000.0)
            line = TIMING_LINES[hundredths] if hundredths < TIMINGS_MADE else timing_line(hundredths)
            date = shared.date_line or shared.make_date_line()
            if status == 304:
                answer = b"".join((before, own, behind, line, date, b"\r\n"))
            else:
                answer = b"".join((before, own, behind, line, date, b"Content-Length: %d\r\n\r\n" % size, body))
            sent = carrier.send_at_once(answer)
            record((answered - arrived) * 1000.0, status, size, (sent - answered) * 1000.0)
            share = shared.input
            if arrived >= share.deadline:  # else it is nothing to call for
                charge(share, arrived)
            return True

        return read


def record_fields(request: Request) -> HeaderPairs:
    """The fields of an answer with a record, behind its type; PLACE is that of the entity tag."""
    return [TAG, VARY, PUBLIC if user_of(request) is None and not request.is_narrowed else PRIVATE]


def tag_of(raw: bytes) -> bytes:
    """The entity tag of a stored record, as `store.entity_tags.etag_of`."""
    return b2a_base64(raw[1:9])[:-2].translate(URL_SAFE)


def body_steps(preferences: Preferences) -> tuple[Callable[[bytes], Any] | None, Callable[[Any], bytes], int]:
    """(decode, encode, the bytes that are not coded) of a stored record that is neither long nor raw content. Without `decode`, `encode` takes it as it is."""
    writer = preferences.writer
    assert writer is not None
    steps = writer.plain_steps()
    return (None, writer.encode_stored, preferences.threshold) if steps is None else (*steps, preferences.threshold)


def plain_body(preferences: Preferences) -> Callable[[bytes], bytes | None]:
    """What makes the body of an answer of a record that is stored in the plain format of its table. It gives None for one that is to be sent in another way: as
    content of its own, in pieces, or with a content coding. `RecordReads` does the same without a call."""
    decode, encode, threshold = body_steps(preferences)

    def body_of(raw: bytes) -> bytes | None:
        if len(raw) > LONG or raw.find(b"contentType") >= 0:
            return None
        body = encode(raw) if decode is None else encode(decode(raw[PAYLOAD_AT:]))
        return body if len(body) <= threshold else None

    return body_of


def is_whole_record(request: Request, preferences: Preferences, tag: str) -> bool:
    """Whether the answer is the record as a whole, in a type whose writer says all there is to say of it, and the only condition is this tag."""
    if preferences.page or preferences.events:
        return False
    fields = request.block.fields
    if preferences.conditional and (fields.get("if-none-match") != f'"{tag}"' or READ_CONDITIONS.intersection(fields) != _TAG_ONLY):
        return False
    writer = preferences.writer
    return type(writer) in WRITERS and writer is not None and not writer.is_tabular and not writer.headers
