"""HTTP/1.1 and 1.0, the server's side of one connection: bytes -> events, answers -> bytes. The only home of h11.

Heads are read in two lanes. `express` recognises the plain ones; h11 reads the others. Each head takes its own lane, whatever came before it on the
connection: behind a proxy that shares its connections among all clients, one client's odd head says nothing about the next request. A new
`h11.Connection` reads each head (creating it costs 1 us), so the lanes meet at a message boundary and share only the unread bytes.
Bodies with a length are counted, chunked ones are for `chunked`, h11 reads the fields of their trailers. Both lanes share one writer, so the answer
cannot depend on the lane.

The lifecycle of the connection is in `http1_states`. Requests are answered in order; bytes of later ones wait in the buffer.

A request answered before its body has arrived ends the connection: reading on could mean up to a gigabyte of unused bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

import h11

from svc.errors import PeerError
from svc.messages import HeaderBlock, HeaderPairs
from svc.protocol.chunked import ChunkedReader, encode_chunk
from svc.protocol.events import DataReceived, Event, PeerClosed, ProtocolFailed, RequestEnded, RequestReceived, SwitchTo
from svc.protocol.express import recognise
from svc.protocol.http1_states import NEXT, Http1Input, Http1State
from svc.protocol.request_head import FIELDS_MAX, ParsedBlock, explain_request_line, interpret_block, reduce_target, tokens
from svc.protocol.response_head import STATUS_LINES, encode_fields, encode_trailers, status_line

_BLANK_LINE = re.compile(rb"\n\r?\n")  # what ends a head for h11
_NEVER_IN_FIELDS = re.compile(rb"[\x00\x0b\x0c]|\r(?!\n)")  # h11 refuses these too, but in quadratic time
_BEFORE_TRAILERS = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"  # h11 must read this before trailers
_CLOSE = "Connection: close\r\n"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113 §3.4: a client that knows we speak HTTP/2 begins with this

_IDLE, _RECEIVING, _EARLY, _RECEIVED, _ANSWERING, _FAILED, _CLOSED = list(Http1State)[:7]
_HEAD, _WHOLE, _BODY_END, _ANSWER, _DONE, _CLOSE_INPUT, _FAULT, _SWITCH = Http1Input


@dataclass(frozen=True)
class Limits:
    max_header_size: int = 16394  # bytes of a head, request line and blank line included
    max_body_size: int = 1 << 30  # bytes of a body, transfer coding removed


class Http1:
    """The driver. `stream_id` counts the requests of the connection from 1; an answer must name the request being answered.

    Raises ValueError for a status, field name or field value that cannot be sent, before anything of that answer is written: another answer can
    follow. Any other misuse is an AssertionError and leaves the state ERROR.
    """

    __slots__ = (
        "_buffer", "_chunked_reader", "_draining", "_eof", "_express", "_failure", "_http_version", "_is_silent", "_last", "_limits", "_max_head",
        "_method", "_out", "_parsed", "_prior_knowledge", "_remaining", "_searched", "_skipped_line", "_state", "_stream_id", "_to_send",
        "_waits_for_continue", "_writes_chunks",
    )  # fmt: skip

    def __init__(self, limits: Limits, express: bool = True, *, prior_knowledge: bool = False) -> None:
        """`prior_knowledge`: a connection that begins with the preface of HTTP/2 is handed over: `SwitchTo("h2c")`, with all its bytes."""
        self._limits = limits
        self._prior_knowledge = prior_knowledge
        self._max_head = limits.max_header_size
        self._express = express
        self._state = _IDLE
        self._stream_id = 0
        # Input.
        self._buffer = bytearray()
        self._searched = 0  # where the search for the end of the head goes on
        self._skipped_line = False  # an empty line before this request was skipped
        self._eof = False
        self._failure: PeerError | None = None  # to be reported after the events before it
        # The request in hand.
        self._method = ""
        self._http_version = ""
        self._parsed = _NO_BLOCK
        self._remaining = 0  # bytes of its body yet to come, if it has a length
        self._chunked_reader: ChunkedReader | None = None
        self._waits_for_continue = False
        # The answer.
        self._out: list[bytes] = []
        self._last = False  # the answer begun says that it is the last
        self._writes_chunks = False
        self._is_silent = False  # it has no body: send_body drops what it gets
        self._to_send: int | None = None  # bytes that the announced length still wants; None: no length, or no body is sent
        self._draining = False

    # --- input ---------------------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> list[Event]:
        """Bytes from the peer. Reports at most one request; what follows it waits for `next_events`."""
        state = self._state
        if state is _IDLE and self._express and not self._buffer:
            # The express lane at its best: nothing is copied into the buffer.
            end = data.find(b"\r\n\r\n") + 4
            if 4 <= end <= self._max_head and (plain := recognise(data, end)) is not None:
                method, target, parsed = plain
                length = parsed.content_length
                stop = end + length
                if stop <= len(data) and length <= self._limits.max_body_size:
                    if stop < len(data):
                        self._buffer += data[stop:]
                    return [self._accept(method, target, parsed, "1.1", data[end:stop])]
        if state >= _FAILED:
            if state is Http1State.SWITCHED:
                self._misused("input belongs to the other protocol")
            return []
        self._buffer += data
        return self.next_events()

    def receive_eof(self) -> list[Event]:
        """The peer's FIN. The complete requests received are still answered; `next_events` reports the rest."""
        self._eof = True
        return self.next_events()

    def next_events(self) -> list[Event]:
        """After an answer is complete, or while `has_failed`: the events of the bytes received meanwhile. Cheap without such bytes.

        A failure comes alone. What was reported with it could no more be answered, as by an application that decides at the head of a request.
        """
        events: list[Event] = []
        error = self._failure
        if error is None:
            try:
                while (event := self._read()) is not None:
                    events.append(event)
            except PeerError as found:
                error = found
        if error is not None:
            if events:
                self._buffer.clear()
                self._failure = error
                return events
            self._move(_FAULT)
            self._forget_input()
            events.append(ProtocolFailed(error))
        if self._eof and self._state <= _EARLY and not events:
            if self._state is _IDLE and not self._buffer:
                events.append(PeerClosed())
            else:
                # The peer closed in the middle of a request and expects no answer: not FAILED, which allows one.
                events.append(ProtocolFailed(PeerError("The connection was closed in the middle of a request")))
            self._close()
        return events

    def _read(self) -> Event | None:
        """Consume the next thing in the buffer. None: more bytes, or an answer, are needed. Raises PeerError."""
        state = self._state
        if state is _IDLE:
            return self._read_head() if self._buffer else None
        if state is _RECEIVING or state is _EARLY:
            return self._read_body()
        return None

    # --- heads ---------------------------------------------------------------------------------------------------------------------

    def _read_head(self) -> Event | None:
        buffer = self._buffer
        self._method = ""
        if self._prior_knowledge and not self._stream_id and _PREFACE.startswith(buffer[: len(_PREFACE)]):
            if len(buffer) < len(_PREFACE):
                return None
            self._move(_SWITCH)
            trailing = bytes(buffer)
            self._forget_input()
            return SwitchTo("h2c", trailing)
        if buffer[0] <= 0x20:
            # One empty line before a request is forgiven (RFC 9112 §2.2). Anything else here is not HTTP: TLS begins with 0x16.
            if not b"\r\n".startswith(buffer[:2]) or self._skipped_line:
                raise PeerError("This is not an HTTP request")
            if len(buffer) == 1:
                return None
            del buffer[:2]
            self._skipped_line = True
            return self._read_head() if buffer else None
        found = _BLANK_LINE.search(buffer, self._searched)
        size = found.end() if found else len(buffer)
        if size > self._max_head:
            if buffer.find(b"\n", 0, self._max_head) < 0:
                raise PeerError(f"The request line is longer than {self._max_head} bytes", 414)
            raise PeerError(f"The header fields are longer than {self._max_head} bytes", 431)
        if found is None:
            self._searched = max(0, size - 2)
            return None
        head = bytes(buffer[:size])
        del buffer[:size]
        self._searched = 0
        if self._express and (plain := recognise(head, size)) is not None:
            method, target, parsed = plain
            return self._begin_request(method, target, parsed, "1.1")
        return self._read_odd_head(head)

    def _read_odd_head(self, head: bytes) -> Event:
        """The h11 lane."""
        if _NEVER_IN_FIELDS.search(head):
            raise PeerError("NUL, vertical tab, form feed or bare CR in the request head")
        if head.count(b"\n") > FIELDS_MAX + 2:
            raise PeerError(f"More than {FIELDS_MAX} lines of header fields", 431)
        reader = h11.Connection(h11.SERVER)
        try:
            reader.receive_data(head)
            request = reader.next_event()
        except h11.RemoteProtocolError as error:
            if str(error).startswith("illegal request line"):
                raise PeerError(explain_request_line(head)) from None
            raise _translate(error) from None
        assert isinstance(request, h11.Request)
        method = request.method.decode("ascii")
        self._method = method
        if not request.http_version.startswith(b"1."):
            raise PeerError(f"HTTP version {request.http_version.decode('ascii')} is not supported", 505)
        # A higher minor version is treated as the highest we know (RFC 9110 §2.5).
        version = "1.0" if request.http_version == b"1.0" else "1.1"
        pairs = _decode_pairs(request.headers)
        target = reduce_target(method, request.target.decode("ascii"), pairs)
        parsed = interpret_block(pairs, version)
        return self._begin_request(method, target, parsed, version)

    def _begin_request(self, method: str, target: str, parsed: ParsedBlock, version: str) -> RequestReceived:
        """The head is read and out of the buffer; its body may be there too."""
        buffer = self._buffer
        limit = self._limits.max_body_size
        length = parsed.content_length
        self._method = method
        if length > limit:
            error = PeerError(f"The body is longer than {limit} bytes", 413)
            error.head = RequestReceived(self._stream_id + 1, method, target, parsed.block, version, None)
            raise error
        if length <= len(buffer) and not parsed.chunked:
            body = bytes(buffer[:length])
            del buffer[:length]
            event = self._accept(method, target, parsed, version, body)
            if parsed.upgrades:
                offered = tokens(parsed.block.fields["upgrade"])
                event.upgrade = "websocket" if "websocket" in offered else offered[0] if offered else ""
            return event
        self._remaining = length
        if parsed.chunked:
            self._chunked_reader = ChunkedReader(limit)
        self._waits_for_continue = parsed.expects_continue
        return self._accept(method, target, parsed, version, None)

    def _accept(self, method: str, target: str, parsed: ParsedBlock, version: str, body: bytes | None) -> RequestReceived:
        self._move(_HEAD if body is None else _WHOLE)
        self._method = method
        self._http_version = version
        self._parsed = parsed
        self._stream_id += 1
        self._skipped_line = False
        return RequestReceived(self._stream_id, method, target, parsed.block, version, body, body is None and parsed.expects_continue)

    # --- bodies --------------------------------------------------------------------------------------------------------------------

    def _read_body(self) -> Event | None:
        buffer = self._buffer
        reader = self._chunked_reader
        if reader is None:
            data = bytes(buffer) if len(buffer) <= self._remaining else bytes(buffer[: self._remaining])
            del buffer[: len(data)]
            self._remaining -= len(data)
        else:
            data = reader.read(buffer)
        if data:
            self._waits_for_continue = False
            return DataReceived(self._stream_id, data)
        if self._remaining:
            return None
        trailers: HeaderPairs = []
        if reader is not None:
            if reader.trailer_section is None:
                return None
            trailers = _read_trailers(reader.trailer_section)
            self._chunked_reader = None
        self._move(_BODY_END)
        return RequestEnded(self._stream_id, trailers)

    def _forget_input(self) -> None:
        self._buffer.clear()
        self._searched = 0
        self._chunked_reader = None
        self._failure = None

    # --- answers -------------------------------------------------------------------------------------------------------------------

    def send_continue(self) -> None:
        """100 Continue, if the peer still waits for it."""
        if self._waits_for_continue and self._state is _RECEIVING:
            self._waits_for_continue = False
            self._out.append(b"HTTP/1.1 100 Continue\r\n\r\n")

    def send_informational(self, status: int, pairs: HeaderPairs) -> None:
        """103 Early Hints and the like. Nothing is sent to HTTP/1.0 or after the head of the answer."""
        if not 102 <= status <= 199:
            raise ValueError(f"not an informational status to send: {status}")
        if self._http_version != "1.0" and (self._state is _RECEIVED or self._state is _RECEIVING):
            lines, _ = encode_fields(pairs)
            self._out.append(f"{status_line(status)}{lines}\r\n".encode("latin-1"))

    def respond(self, stream_id: int, status: int, pairs: HeaderPairs, body: bytes, date: str) -> None:
        """The whole answer. `date` as in RFC 9110 §5.6.7; a `Date` among `pairs` wins over it.

        To HEAD, 204 and 304 `body` is not sent; to HEAD its length still is, or the Content-Length among `pairs`.
        """
        last = self._check_answer(stream_id, status)
        lines, own = encode_fields(pairs)
        silent = self._method == "HEAD" or status == 204 or status == 304
        if own is None and not silent:
            line = STATUS_LINES.get(status) or status_line(status)
            head = f"{line}{lines}Date: {date}\r\nContent-Length: {len(body)}\r\n{_CLOSE if last else ''}\r\n"
        else:
            own = own or {}
            last = last or ("connection" in own and "close" in tokens(own["connection"]))
            length = None if status == 304 and not body else len(body)
            if silent and not body:
                length = _numeral(own.get("content-length")) or length
            framing = "" if length is None or status == 204 else f"Content-Length: {length}\r\n"
            head = f"{status_line(status)}{lines}Date: {own.get('date', date)}\r\n{framing}{_CLOSE if last else ''}\r\n"
        self._out.append(head.encode("latin-1") if silent else head.encode("latin-1") + body)
        if last:
            self._close()
        else:
            self._move(_DONE)

    def begin_response(self, stream_id: int, status: int, pairs: HeaderPairs, date: str, length: int | None = None) -> None:
        """The head of an answer whose body follows in `send_body`. `length`: of the body in bytes, if it is known.

        Without a length the body goes in chunks, to HTTP/1.0 until the connection is closed. To HEAD, 204 and 304 no body is sent.
        """
        last = self._check_answer(stream_id, status)
        lines, own = encode_fields(pairs)
        own = own or {}
        if length is None:
            length = _numeral(own.get("content-length"))
        silent = self._method == "HEAD" or status == 204 or status == 304
        chunked = length is None and self._http_version != "1.0" and status != 204 and status != 304
        last = last or ("connection" in own and "close" in tokens(own["connection"]))
        framing = "Transfer-Encoding: chunked\r\n" if chunked else ""
        if length is not None and status != 204:
            framing = f"Content-Length: {length}\r\n"
        head = f"{status_line(status)}{lines}Date: {own.get('date', date)}\r\n{framing}{_CLOSE if last else ''}\r\n"
        self._out.append(head.encode("latin-1"))
        self._move(_ANSWER)
        self._last = last
        self._is_silent = silent
        self._writes_chunks = chunked and not silent
        self._to_send = None if silent else length

    def send_body(self, stream_id: int, data: bytes) -> None:
        """A piece of the answer's body. Raises ValueError, and sends nothing, if the announced length is exceeded."""
        piece = self.body_piece(stream_id, data)
        if piece:
            self._out.append(piece)

    def body_piece(self, stream_id: int, data: bytes) -> bytes:
        """The same, for a caller that has taken all earlier output: returns the bytes to send, maybe none."""
        self._check_begun(stream_id)
        if not data or self._is_silent:
            return b""
        if self._writes_chunks:
            return encode_chunk(data)
        if self._to_send is not None:
            if len(data) > self._to_send:
                raise ValueError(f"{len(data) - self._to_send} bytes more than the announced Content-Length")
            self._to_send -= len(data)
        return data

    def count_body(self, stream_id: int, size: int) -> None:
        """The caller, which has taken all output, has sent this many bytes of a body with a length itself."""
        self._check_begun(stream_id)
        assert self._to_send is not None and size <= self._to_send, "only a body with a length can be sent beside the output"
        self._to_send -= size

    def end_response(self, stream_id: int, trailers: HeaderPairs | tuple[()] = ()) -> None:
        """The answer's body is complete. Trailers go only with chunks, else they are dropped (RFC 9110 §6.5).

        Raises ValueError if the announced length is not reached; the connection is then closed, the only way to signal it to the peer.
        """
        self._check_begun(stream_id)
        if self._to_send:
            missing, self._to_send = self._to_send, None
            self._close()
            raise ValueError(f"{missing} bytes less than the announced Content-Length")
        if self._writes_chunks:
            self._out.append(b"0\r\n%b\r\n" % encode_trailers(trailers))
        if self._last:
            self._close()
        else:
            self._move(_DONE)

    def switch_protocol(self, stream_id: int, pairs: HeaderPairs | None) -> SwitchTo:
        """101: accept the offered `Upgrade` that `pairs` names. Only when `can_switch`. The bytes already read go with the command.

        `pairs` None: the next protocol writes the answer to the request, too.
        """
        if stream_id != self._stream_id or not self.can_switch:
            self._misused("no Upgrade to accept")
        names = [""]
        if pairs is not None:
            lines, _ = encode_fields(pairs)
            names = [value for name, value in pairs if name.lower() == "upgrade"]
            if len(names) != 1:
                raise ValueError("101 without one Upgrade field")
            self._out.append(f"{status_line(101)}{lines}Connection: Upgrade\r\n\r\n".encode("latin-1"))
        self._move(_SWITCH)
        trailing = bytes(self._buffer)
        self._forget_input()
        return SwitchTo(names[0].lower(), trailing)

    def fail(self, error: PeerError, pairs: HeaderPairs, body: bytes, date: str) -> None:
        """Answer with `error` if nothing of a final answer was sent, and end the connection: after ProtocolFailed, or when time is up."""
        state = self._state
        if state >= _CLOSED:
            return
        if state is _IDLE:
            self._method = ""
        if state is not _EARLY and state is not _ANSWERING:
            lines, _ = encode_fields(pairs)
            head = f"{status_line(error.status_code)}{lines}Date: {date}\r\nContent-Length: {len(body)}\r\n{_CLOSE}\r\n".encode("latin-1")
            self._out.append(head if self._method == "HEAD" else head + body)
        self._close()

    def drain(self) -> None:
        """Graceful stop: the next answer to begin is the last."""
        self._draining = True

    def data_to_send(self) -> bytes:
        """The output since the last call; the caller owns it from here."""
        out = self._out
        if not out:
            return b""
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    @property
    def unsent(self) -> int:
        """Bytes of output that `data_to_send` would return."""
        return sum(map(len, self._out))

    # --- state ---------------------------------------------------------------------------------------------------------------------

    @property
    def should_close(self) -> bool:
        """Close the connection once all output is sent."""
        return self._state is _CLOSED or self._state is Http1State.ERROR

    @property
    def idle(self) -> bool:
        """Between two requests, with nothing buffered."""
        return self._state is _IDLE and not self._buffer

    def takes_any(self) -> bool:
        """Whether it is idle, and neither of the two lanes is preferred, nor the next answer the last: a whole request may be answered beside it."""
        return self._state is _IDLE and not self._buffer and self._express and not self._draining and not self._skipped_line

    def begin(self) -> None:
        """A request has been answered beside it: none that follows is the first of the connection."""
        self._prior_knowledge = False

    @property
    def reading_head(self) -> bool:
        """A head has begun and is not complete."""
        return self._state is _IDLE and bool(self._buffer)

    @property
    def body_remaining(self) -> int:
        """Bytes to come of a body with a length; 0 if none is coming or its length is unknown. For choosing the size of a read.

        Not so for chunked bodies, which may be made of one-byte chunks.
        """
        return self._remaining if self._chunked_reader is None and (self._state is _RECEIVING or self._state is _EARLY) else 0

    @property
    def has_failed(self) -> bool:
        """The peer broke the protocol, or closed, right after the last event: the next `next_events` reports it."""
        return self._failure is not None or (self._eof and (self._state is _RECEIVING or self._state is _EARLY))

    @property
    def can_switch(self) -> bool:
        """The request in hand is complete, unanswered, and offers another protocol."""
        return self._state is _RECEIVED and self._parsed.upgrades

    def check(self) -> None:
        """Assert what the states guarantee."""
        state = self._state
        assert self._chunked_reader is None or state in (_RECEIVING, _EARLY), self
        assert state < _FAILED or not self._buffer, self
        assert state is not _EARLY or self._last, self
        assert self._remaining >= 0, self
        assert self._failure is None or (state in (_RECEIVING, _EARLY) and not self._buffer), self
        assert self._to_send is None or self._to_send >= 0, self
        assert 0 <= self._searched <= len(self._buffer), self

    def _move(self, input: Http1Input) -> None:
        """The one function that changes the state, except for misuse."""
        after = NEXT[self._state][input]
        if after is Http1State.ERROR:
            self._misused(input.name)
        self._state = after

    def _close(self) -> None:
        self._move(_CLOSE_INPUT)
        self._forget_input()

    def _check_answer(self, stream_id: int, status: int) -> bool:
        """An answer may begin now. True: it is the last."""
        state = self._state
        if (state is not _RECEIVED and state is not _RECEIVING) or stream_id != self._stream_id:
            self._misused("nothing to answer")
        if status < 200:
            raise ValueError(f"not a final status: {status}")
        return state is _RECEIVING or not self._parsed.keep_alive or self._draining or (self._eof and not self._buffer)

    def _check_begun(self, stream_id: int) -> None:
        if stream_id != self._stream_id or (self._state is not _ANSWERING and self._state is not _EARLY):
            self._misused("no answer has begun")

    def _misused(self, what: str) -> NoReturn:
        before, self._state = self._state, Http1State.ERROR
        self._forget_input()
        raise AssertionError(f"{what} in state {before.name}")

    def __repr__(self) -> str:
        return f"<Http1 {self._state.name} request {self._stream_id} buffered {len(self._buffer)}>"


_NO_BLOCK = ParsedBlock(HeaderBlock([]), 0, chunked=False, keep_alive=True, expects_continue=False, upgrades=False)


def _decode_pairs(headers: Iterable[tuple[bytes, bytes]]) -> HeaderPairs:
    return [(name.decode("ascii"), value.decode("latin-1")) for name, value in headers]


def _read_trailers(section: bytes) -> HeaderPairs:
    """The fields of a trailer section, which ends with its blank line. Raises PeerError."""
    if len(section) <= len(b"\r\n"):
        return []
    if _NEVER_IN_FIELDS.search(section):
        raise PeerError("NUL, vertical tab, form feed or bare CR in the trailers")
    reader = h11.Connection(h11.SERVER)
    try:
        reader.receive_data(_BEFORE_TRAILERS + section)
        reader.next_event()
        end = reader.next_event()
    except h11.RemoteProtocolError as error:
        raise _translate(error) from None
    assert isinstance(end, h11.EndOfMessage)
    return _decode_pairs(end.headers)


def _translate(error: h11.RemoteProtocolError) -> PeerError:
    """h11's sentence without the bytes it quotes, which are for a log, and its status."""
    text = str(error).partition(": bytearray(")[0]
    return PeerError(text[:1].upper() + text[1:], error.error_status_hint)


def _numeral(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
