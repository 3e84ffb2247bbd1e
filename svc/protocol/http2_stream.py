"""One stream of HTTP/2: the driver's state of a request and its answer."""

from __future__ import annotations

from collections import deque

from h2.windows import WindowManager

from svc.messages import HeaderPairs
from svc.protocol.events import RequestReceived
from svc.protocol.http2_frames import NO_ERROR

UNANSWERED, ANSWERING, ANSWERED = range(3)  # nothing of the final answer is written; its head is; all of it was given


class Stream:
    """State of one request and its answer."""

    __slots__ = (
        "answer", "buffered", "chunks", "content_length", "fresh", "has_failed", "id", "intake_window", "is_accepted", "is_ended", "is_head", "is_paused",
        "is_queued", "is_silent", "is_tunnel", "is_wide", "offset", "pieces", "received", "reset_code", "sent", "to_send", "trailers", "unacknowledged",
        "waits_for_continue", "window",
    )  # fmt: skip

    def __init__(self, stream_id: int, is_head: bool, is_ended: bool, window: int | None) -> None:
        self.id = stream_id
        self.window = window  # bytes of its answer that the peer has room for, if it is in the express lane; None: h2 counts it
        self.is_head = is_head
        # The request.
        self.is_ended = is_ended  # all of it is here
        self.has_failed = False  # it was reported as failed; the rest of it is ignored
        self.is_tunnel = False  # an extended CONNECT
        self.is_accepted = False  # ... answered with 200
        self.waits_for_continue = False
        self.content_length: int | None = None
        self.received = 0  # bytes of its body
        self.unacknowledged = 0  # ... that the peer's window does not get back yet, padding included
        self.is_paused = False
        self.is_wide = False  # its window for the body has been enlarged
        self.intake_window: WindowManager | None = None  # that window, in the express lane, once a frame has come that is not the last
        self.fresh: RequestReceived | None = None  # reported by the `receive_data` under way
        self.pieces: list[bytes] | None = None  # of its body, came with it
        # The answer.
        self.answer = UNANSWERED
        self.is_silent = False  # no body is sent
        self.to_send: int | None = None  # bytes that the announced length still wants
        self.chunks: deque[bytes] | None = None
        self.offset = 0  # of the first unsent byte, in the first chunk
        self.buffered = 0
        self.sent = 0  # bytes of body framed
        self.trailers: HeaderPairs | None = None
        self.is_queued = False  # among the streams that have something to send
        self.reset_code = (
            NO_ERROR  # code of the RST_STREAM after an answer that came before the end of the request; others end a malformed one
        )

    def put(self, data: bytes) -> None:
        """More of the answer."""
        if self.chunks is None:
            self.chunks = deque()
        self.chunks.append(data)
        self.buffered += len(data)

    def take(self, size: int) -> bytes:
        """The next bytes of the answer, at most `size`. O(bytes taken)."""
        chunks = self.chunks
        assert chunks is not None
        taken: list[bytes] = []
        room = size
        while chunks and room:
            first = chunks[0]
            piece = first if self.offset == 0 and len(first) <= room else first[self.offset : self.offset + room]
            taken.append(piece)
            room -= len(piece)
            self.offset += len(piece)
            if self.offset == len(first):
                chunks.popleft()
                self.offset = 0
        data = taken[0] if len(taken) == 1 else b"".join(taken)
        self.buffered -= len(data)
        self.sent += len(data)
        return data

    def __repr__(self) -> str:
        return f"<Stream {self.id} answer {self.answer} buffered {self.buffered}>"
