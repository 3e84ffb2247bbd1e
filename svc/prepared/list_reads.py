"""GET of a table's collection with a query: short lists, sorted or selected, and counts, of which the values alone differ from those that came before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from svc.analytics import Recorder
from svc.auth.roles import ALL_RIGHTS
from svc.auth.users import user_of
from svc.connection.shared import SharedState
from svc.content.cbor_type import CborType
from svc.content.content_type import ANY_SHAPE, ContentType
from svc.content.json_type import JsonType
from svc.content.msgpack_type import MsgpackType
from svc.errors import Problem
from svc.http.compression import VARY, choice_of
from svc.http.dispatch import TIMINGS_MADE, Dispatcher
from svc.http.preferences import Preferences
from svc.http.response_parts import PRIVATE, PUBLIC
from svc.http.row_responses import query_timing
from svc.messages import Request, Response
from svc.prepared.answers import TIMING_LINES, Carrier, charge, encode_head, milliseconds, timing_line
from svc.prepared.kept import is_time
from svc.prepared.premises import Premises
from svc.query.compiled_lists import CompiledList, compiled_list
from svc.query.form import may_be_form
from svc.query.shaped_plan import UNRESTRICTED
from svc.query.shapes import cut, decoded, pattern_of
from svc.rest import Rest
from svc.store.values.records import DAMAGE

_STEPS = ("handle", "authorize", "on_get", "on_search", "planned")  # what application code may have instead
_WRITERS = (JsonType, CborType, MsgpackType)
_PATIENCE = 8  # requests in a row that may be declined before most are not tried any more
_SPARED = 16  # one of so many is, then
_SHAPES = 8  # that are prepared for one place
_COUNTED = 64  # shapes whose answers are counted for one place
_ANSWER = (
    b"%bServer-Timing: plan;dur=0.00, scan;dur=%b, serialise;dur=%b\r\n%bDate: %b\r\nContent-Length: %d\r\n\r\n%b"  # nothing is planned
)
_CODED = b"%b%bDate: %b\r\nContent-Length: %d\r\n\r\n%b"

Read = Callable[[Carrier, SharedState, Sequence[str]], bool | None]
"""Answers the query with these values. False: it declines, and nothing has happened. None: the same, and what it rests on holds no more."""


class PreparedList:
    """What answers the queries of one shape. `pattern`: of those with plain values."""

    __slots__ = ("_declined", "_read", "pattern", "shape")

    def __init__(self, shape: str, read: Read) -> None:
        self.shape = shape
        self.pattern = pattern_of(shape)
        self._read = read
        self._declined = 0  # in a row

    def answer(self, carrier: Carrier, shared: SharedState, values: Sequence[str]) -> bool | None:
        """As `Read`. What is found to be too long again and again is tried now and then only."""
        declined = self._declined
        if declined > _PATIENCE and declined % _SPARED:
            self._declined = declined + 1
            return False
        answered = self._read(carrier, shared, values)
        self._declined = 0 if answered else declined + 1
        return answered


class PlaceLists:
    """What is prepared for the queries of one place: a collection and a header block."""

    __slots__ = ("_answers", "_lists")

    def __init__(self) -> None:
        self._lists: list[PreparedList] = []  # the last one used first
        self._answers: dict[str, int] = {}  # of the general path, by shape

    def __len__(self) -> int:
        return len(self._lists)

    def answer(self, carrier: Carrier, shared: SharedState, text: bytes) -> bool:
        """Answer the query `text`, which is as it came. False: nothing has happened."""
        query = text.decode("latin-1")
        for lists in self._lists:
            found = lists.pattern.fullmatch(query)
            if found is not None:
                return self._answer(lists, carrier, shared, found.groups())
        if ("%" in query or ":" in query) and self._lists:  # values that are not plain
            return self._answer_by_cut(query, carrier, shared)
        return False

    def _answer_by_cut(self, query: str, carrier: Carrier, shared: SharedState) -> bool:
        found = None if " " in query or may_be_form(query) else cut(query)
        if found is None:
            return False
        for lists in self._lists:
            if lists.shape == found[0]:
                try:
                    values = decoded(found[1])
                except Problem:
                    return False
                return self._answer(lists, carrier, shared, values)
        return False

    def _answer(self, lists: PreparedList, carrier: Carrier, shared: SharedState, values: Sequence[str]) -> bool:
        answered = lists.answer(carrier, shared, values)
        if answered is None:
            self._lists.remove(lists)
            self._answers[lists.shape] = 1  # the next answer of the general path makes it anew
        elif lists is not self._lists[0]:
            self._lists.remove(lists)
            self._lists.insert(0, lists)
        return answered is True

    def is_due(self, shape: str, *, at_once: bool) -> bool:
        """The general path has answered a query of this shape: whether to prepare the next one, as `Kept.is_due`."""
        if any(lists.shape == shape for lists in self._lists):
            return at_once
        if len(self._answers) >= _COUNTED and shape not in self._answers:
            self._answers.clear()
        answers = self._answers[shape] = self._answers.get(shape, 0) + 1
        return at_once or is_time(answers)

    def keep(self, made: PreparedList) -> None:
        self._lists = [made, *[lists for lists in self._lists if lists.shape != made.shape]][:_SHAPES]


class ListReads:
    """Prepares reads of collections of one port."""

    def __init__(self, premises: Premises, dispatcher: Dispatcher, rest: Rest, recorder: Recorder) -> None:
        self._premises = premises
        self._dispatcher = dispatcher
        self._rest = rest
        self._recorder = recorder

    def prepare(self, request: Request, address: str, text: str) -> PreparedList | None:
        """For requests of the collection at `address` with the header block of this one, which the general path has answered, whose query has the shape of
        `text`. None: they cannot be prepared."""
        premises = self._premises
        if not premises.can_be_prepared(request):
            return None
        resource, preferences = premises.table_resource(request, address, *_STEPS, text_keys=False), premises.preferences(request)
        if resource is None or preferences is None or not _is_usual(preferences):
            return None
        table, may, writer = resource.table, premises.rights(request, resource), preferences.writer
        holds = premises.premise(request, table, may)
        if holds is None or not may.read or table.has_enumerable or writer is None:
            return None
        reader = UNRESTRICTED if may is ALL_RIGHTS else user_of(request)
        found = resource.queries.shapes.shaped_plan(text, table, reader, resource.allow_full_scan)
        if found is None:
            return None
        shape, plan = found
        compiled = compiled_list(plan, table, json=not writer.native)
        if compiled is None or (may.readable is not None and plan.query.select is None and plan.query.aggregate is None):
            return None
        find, encode = compiled.find, _encoder(compiled, writer)
        environment, now, record, path = table.database.env, self._dispatcher.now, self._recorder.request_done, request.handler_path
        threshold, choice, compression = preferences.threshold, choice_of(request.block), self._rest.compression
        fields = [preferences.type_pair, VARY, PUBLIC if user_of(request) is None else PRIVATE]
        before = encode_head(200, fields)[0]

        def read(carrier: Carrier, shared: SharedState, values: Sequence[str]) -> bool | None:
            arrived = now()
            try:
                txn = environment.snapshot()
                if not holds(carrier, arrived) or not plan.holds(table, reader):
                    return None
                rows = find(values, txn)
                if rows is None:
                    return False
                found = now()
                body = encode(rows)
                answered = now()
                scan, serialise = found - arrived, answered - found
                coded: Response | None = None
                if len(body) > threshold:
                    coded = Response(body, 200, pairs=[*fields, query_timing(0.0, scan, serialise)])
                    compression.apply_choice(coded, choice, writer.compressible)
                    if type(coded.body) is not bytes:
                        return False
                    body, answered = coded.body, now()
            except Problem:  # the general path says it
                return False
            except DAMAGE:
                return False
            size = len(body)
            hundredths = int((answered - arrived) * 100_000.0)
            line = TIMING_LINES[hundredths] if hundredths < TIMINGS_MADE else timing_line(hundredths)
            date = shared.date().encode()
            if coded is None:
                answer = _ANSWER % (before, milliseconds(scan), milliseconds(serialise), line, date, size, body)
            else:
                answer = _CODED % (encode_head(200, coded.pairs)[0], line, date, size, body)
            sent = carrier.send_at_once(answer)
            record(path, "GET", (answered - arrived) * 1000.0, 200, size, (sent - answered) * 1000.0)
            charge(shared.input, arrived)
            return True

        return PreparedList(shape, read)


def _is_usual(preferences: Preferences) -> bool:
    """Whether the answer is the list, in a type whose writer says all there is to say of it, and nothing more is asked for."""
    if preferences.page or preferences.events or preferences.conditional or preferences.explain or preferences.counts:
        return False
    writer = preferences.writer
    return type(writer) in _WRITERS and writer is not None and not writer.is_tabular and not writer.headers


def _encoder(compiled: CompiledList, writer: ContentType) -> Callable[[list[Any]], bytes]:
    """What makes the body of an answer of rows."""
    if compiled.kind == "count":
        return lambda rows: writer.encode(rows[0])
    if compiled.kind == "records":
        return partial(_written, writer)
    steps = writer.plain_steps()
    assert steps is not None
    return steps[1]


def _written(writer: ContentType, raws: list[bytes]) -> bytes:
    rows = writer.row_writer(ANY_SHAPE, len(raws))
    return rows.begin() + (rows.raw(raws) if raws else b"") + rows.end()
