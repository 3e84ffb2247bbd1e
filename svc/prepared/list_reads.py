"""GET of a table's collection with a query: short lists, sorted or selected, and counts, of which the values alone differ from those that came before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from svc.analytics import Recorder
from svc.auth.roles import ALL_RIGHTS
from svc.auth.users import user_of
from svc.connection.shared import SharedState
from svc.content.content_type import ANY_SHAPE, ContentType
from svc.errors import Problem
from svc.http.compression import VARY, choice_of
from svc.http.dispatch import TIMINGS_MADE, Dispatcher
from svc.http.preferences import Preferences
from svc.http.response_parts import PRIVATE, PUBLIC
from svc.http.row_responses import query_timing
from svc.messages import HeaderPairs, Request, Response
from svc.prepared.answers import HUNDREDTHS, TIMING_LINES, WRITERS, Carrier, charge, encode_head, timing_line
from svc.prepared.kept import Candidate, is_time
from svc.prepared.premises import Premises
from svc.query.compiled_lists import CompiledList, compiled_list
from svc.query.form import may_be_form
from svc.query.narrowing import is_view, view_of
from svc.query.shaped_plan import UNRESTRICTED
from svc.query.shapes import cut, decoded, pattern_of
from svc.query.tables import AnyTable
from svc.rest import Rest
from svc.store.values.records import DAMAGE

_STEPS = ("handle", "authorize", "on_get", "on_search", "planned")  # what application code may have instead
_PATIENCE = 8  # requests in a row that may be declined before most are not tried any more
_SPARED = 16  # one of so many is, then
_LOOKS = 16  # answers that nothing is prepared after before most are not looked at any more
_SHAPES = 16  # that are prepared for one place
_COUNTED = 64  # shapes whose answers are counted for one place
_ANSWER = b"%bServer-Timing: plan;dur=0.00, scan;dur=%b, serialise;dur=%b\r\n%b%bContent-Length: %d\r\n\r\n%b"  # nothing is planned
_CODED = b"%b%b%bContent-Length: %d\r\n\r\n%b"

Read = Callable[[Carrier, SharedState, Sequence[str]], bool | None]
"""Answers the query with these values. False: it declines, and nothing has happened. None: the same, and what it rests on holds no more."""


class PreparedList:
    """What answers the queries of one shape. `match`: finds the plain values of one, else None."""

    __slots__ = ("declined", "match", "read", "shape")

    def __init__(self, shape: str, read: Read) -> None:
        self.shape = shape
        self.match = pattern_of(shape).fullmatch
        self.read = read
        self.declined = 0  # in a row


class PreparedLists:
    """What is prepared for the queries of one place: what comes `before` them and `behind`, that is a collection and a header block."""

    __slots__ = ("_answers", "_end", "_lists", "_start", "_unprepared", "before", "behind")

    def __init__(self, before: bytes, behind: bytes) -> None:
        self.before = before
        self.behind = behind
        self._start, self._end = len(before), -len(behind)
        self._lists: list[PreparedList] = []  # the last one used first
        self._answers: dict[str, int] = {}  # of the general path, by shape
        self._unprepared = 0  # answers of the general path since something was prepared

    def answer(self, carrier: Carrier, shared: SharedState, data: bytes) -> bool:
        """Answer a request of this place. False: nothing has happened."""
        query = data[self._start : self._end].decode("latin-1")
        for prepared in self._lists:
            found = prepared.match(query)
            if found is not None:
                if prepared.declined > _PATIENCE and _spare(prepared):
                    return False
                answered = prepared.read(carrier, shared, found.groups())
                return True if answered and not prepared.declined and prepared is self._lists[0] else self._note(prepared, answered)
        if self._lists and ("%" in query or ":" in query):
            return self._answer_by_cut(query, carrier, shared)
        return False

    def _answer_by_cut(self, query: str, carrier: Carrier, shared: SharedState) -> bool:
        """With values that are not plain."""
        found = None if " " in query or may_be_form(query) else cut(query)
        prepared = None if found is None else next((each for each in self._lists if each.shape == found[0]), None)
        if found is None or prepared is None or (prepared.declined > _PATIENCE and _spare(prepared)):
            return False
        try:
            values = decoded(found[1])
        except Problem:
            return False
        return self._note(prepared, prepared.read(carrier, shared, values))

    def _note(self, prepared: PreparedList, answered: bool | None) -> bool:
        """What has been tried is first the next time; what no longer holds is prepared again after the next answer of the general path."""
        self._lists.remove(prepared)
        if answered is None:
            self._answers[prepared.shape], self._unprepared = 1, 0
            return False
        prepared.declined = 0 if answered else prepared.declined + 1
        self._lists.insert(0, prepared)
        return answered

    def is_worth_a_look(self) -> bool:
        """The general path has answered a query of this place: whether to find out its shape, and whether `is_due`. Where that comes to nothing again and again
        it is done now and then only."""
        self._unprepared += 1
        return self._unprepared <= _LOOKS or self._unprepared % _SPARED == 0 or Candidate.prepares_at_once

    def is_due(self, shape: str) -> bool:
        """Whether to prepare the next query of this shape, as a `Candidate` says it."""
        if any(prepared.shape == shape for prepared in self._lists):
            return False
        if len(self._answers) >= _COUNTED and shape not in self._answers:
            self._answers.clear()
        answers = self._answers[shape] = self._answers.get(shape, 0) + 1
        return is_time(answers)

    def keep(self, made: PreparedList) -> None:
        self._unprepared = 0
        self._lists = [made, *[prepared for prepared in self._lists if prepared.shape != made.shape]][:_SHAPES]


def _spare(prepared: PreparedList) -> bool:
    """Whether not to try what has been found too long, or otherwise too much, again and again: it is tried now and then only."""
    prepared.declined += 1
    return prepared.declined % _SPARED > 0


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
        seen: AnyTable = table if may is ALL_RIGHTS else view_of(user_of(request), table)
        if is_view(seen) and not seen.is_stable:
            return None
        found = resource.queries.shapes.shaped_plan(text, seen, reader, resource.allow_full_scan)
        if found is None:
            return None
        shape, plan = found
        compiled = compiled_list(plan, seen, json=not writer.native)
        if compiled is None or (may.readable is not None and plan.query.select is None and plan.query.aggregate is None):
            return None
        find, encode = compiled.find, _encoder(compiled, writer)
        environment, now = table.database.env, self._dispatcher.now
        record = self._recorder.request_bucket(request.handler_path, "GET")
        threshold, code = preferences.threshold, self._coder(request, writer)
        fields = [preferences.type_pair, VARY, PUBLIC if user_of(request) is None and seen is table else PRIVATE]
        before = encode_head(200, fields)[0]
        reads_others = may is not ALL_RIGHTS or plan.query.select is not None  # and so rests on more than its table

        def read(carrier: Carrier, shared: SharedState, values: Sequence[str]) -> bool | None:
            arrived = now()
            try:
                txn = environment.snapshot()
                if not holds(carrier, arrived) or (reads_others and not plan.holds(seen, reader)):
                    return None
                rows = find(values, txn)
                if rows is None:
                    return False
                found = now()
                body = encode(rows)
                answered = now()
                if len(body) > threshold:
                    coded = code(body, [*fields, query_timing(0.0, found - arrived, answered - found)])
                    if coded is None:
                        return False
                    head, body = coded
                    answered = now()
                else:
                    head = before
            except (Problem, *DAMAGE):  # the general path says it
                return False
            size = len(body)
            date = shared.date_line or shared.make_date_line()
            hundredths = int((answered - arrived) * 100_000.0)
            if hundredths < TIMINGS_MADE:
                line = TIMING_LINES[hundredths]
                scan, serialise = HUNDREDTHS[int((found - arrived) * 100_000.0)], HUNDREDTHS[int((answered - found) * 100_000.0)]
            else:
                line = timing_line(hundredths)
                scan, serialise = b"%.2f" % ((found - arrived) * 1000.0), b"%.2f" % ((answered - found) * 1000.0)
            if head is before:
                sent = carrier.send_at_once(_ANSWER % (head, scan, serialise, line, date, size, body))
            else:
                sent = carrier.send_at_once(_CODED % (head, line, date, size, body))
            record((answered - arrived) * 1000.0, 200, size, (sent - answered) * 1000.0)
            charge(shared.input, arrived)
            return True

        return PreparedList(shape, read)

    def _coder(self, request: Request, writer: ContentType) -> Callable[[bytes, HeaderPairs], tuple[bytes, bytes] | None]:
        """From a body that is longer than the threshold, and its fields, to the head and the body that are sent; None: it is sent in pieces."""
        choice, compression, compressible = choice_of(request.block), self._rest.compression, writer.compressible

        def code(body: bytes, pairs: HeaderPairs) -> tuple[bytes, bytes] | None:
            response = compression.apply_choice(Response(body, 200, pairs=pairs), choice, compressible)
            return (encode_head(200, response.pairs)[0], response.body) if type(response.body) is bytes else None

        return code


def _is_usual(preferences: Preferences) -> bool:
    """Whether the answer is the list, in a type whose writer says all there is to say of it, and nothing more is asked for."""
    if preferences.page or preferences.events or preferences.conditional or preferences.explain or preferences.counts:
        return False
    writer = preferences.writer
    return type(writer) in WRITERS and writer is not None and not writer.is_tabular and not writer.headers


def _encoder(compiled: CompiledList, writer: ContentType) -> Callable[[list[Any]], bytes]:
    """What makes the body of an answer of rows."""
    if compiled.kind == "records":
        return partial(_written, writer)
    steps = None if writer.native else writer.plain_steps()
    encode = writer.encode if steps is None else steps[1]  # of JSON: rows are in its form
    return (lambda rows: encode(rows[0])) if compiled.kind == "count" else encode


def _written(writer: ContentType, raws: list[bytes]) -> bytes:
    rows = writer.row_writer(ANY_SHAPE, len(raws))
    return rows.begin() + (rows.raw(raws) if raws else b"") + rows.end()
