"""HTTP/2's rules, by the table of `tests.support.http2_cases`: in both lanes, in one piece and byte by byte, answered at once and at the end."""

from __future__ import annotations

import hpack
import pytest

from svc.protocol.events import Event, RequestEnded, RequestFailed, RequestReceived
from svc.protocol.http1 import Limits
from svc.protocol.http2 import Http2
from tests.support.http2_cases import CASES, CONTINUATION, HEADERS, LAST_PING, PREFACE, Case, iter_frames, outcome, settings

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


class Server:
    """Answers each request that is complete with 200; those that fail at once."""

    def __init__(self, express: bool, at_once: bool) -> None:
        self.driver = Http2(Limits(), express)
        self.output = self.driver.data_to_send()
        self._at_once = at_once
        self._complete: list[int] = []

    def receive(self, data: bytes) -> None:
        self._on_events(self.driver.receive_data(data))
        if self._at_once:
            self.answer()
        self._collect()

    def _on_events(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, RequestFailed):
                self.driver.fail(event.stream_id, event.error, [], b"sorry", DATE)
            elif (isinstance(event, RequestReceived) and event.body is not None) or isinstance(event, RequestEnded):
                self._complete.append(event.stream_id)

    def answer(self) -> None:
        if not self._complete:
            return
        for stream_id in self._complete:
            self.driver.respond(stream_id, 200, [], b"ok", DATE)
        self._complete.clear()
        self._collect()

    def _collect(self) -> None:
        self.driver.check()
        self.output += self.driver.data_to_send()
        self.driver.finished.clear()


def status_of(output: bytes, stream_id: int) -> str:
    decoder = hpack.Decoder()
    status = ""
    for kind, _, on, content in iter_frames(output):
        assert kind != CONTINUATION
        if kind == HEADERS:
            fields = dict(decoder.decode(content))
            status = fields.get(":status", status) if on == stream_id else status
    return status


def behave(case: Case, express: bool, at_once: bool, by_byte: bool) -> Server:
    server = Server(express, at_once)
    data = PREFACE + settings() + case.data + LAST_PING
    for piece in [data[n : n + 1] for n in range(len(data))] if by_byte else [data]:
        server.receive(piece)
    server.answer()
    return server


WAYS = [
    (express, at_once, by_byte) for express in (True, False) for at_once in (True, False) for by_byte in (False, True)
]  # in which lane, answered at once or at the end, in one piece or byte by byte


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rules(case: Case) -> None:
    for express, at_once, by_byte in WAYS:
        output = behave(case, express, at_once, by_byte).output
        found = outcome(output, case.stream_id, status_of(output, case.stream_id))
        assert found in case.expected, f"{express=} {at_once=} {by_byte=}"
