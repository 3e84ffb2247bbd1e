"""HTTP/2 denial of service: limits against floods of frames, rapid reset (CVE-2023-44487), CONTINUATION floods (CVE-2024-27316), HPACK bombs and
peers that do not read their answers.

`FrameRateLimiter` is a token bucket for each kind of frame that costs us work and the peer nothing. A peer that exceeds a limit gets GOAWAY with
ENHANCE_YOUR_CALM. Requests beyond MAX_STREAMS or BUFFER_MAX are refused one by one (REFUSED_STREAM), which uses up the bucket OUR_RESET.
"""

from __future__ import annotations

from dataclasses import dataclass

from svc.protocol.http2_frames import (
    CONTINUATION,
    ENHANCE_YOUR_CALM,
    GOAWAY,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    UNKNOWN,
    WINDOW_UPDATE,
    ConnectionFault,
)

MAX_STREAMS = 100  # concurrent requests of a connection, the least that RFC 9113 recommends: each may hold its body and its answer
HEADER_BLOCK_MAX = 128 * 1024  # compressed bytes of one header block with its CONTINUATION frames. More can only be padding, or an attack
HEADER_LIST_MAX = 64 * 1024  # decoded bytes of one, as RFC 9113 §6.5.2 counts, beyond which the connection ends; below, the stream gets 431
BUFFER_MAX = 16 << 20  # bytes of answers waiting for the peer's windows, beyond which new requests are refused

# Kinds of events that are counted beside the types of frames.
EMPTY_DATA = 11  # DATA without data that does not end its stream
OUR_RESET = 12  # a stream that the peer made us reset (CVE-2025-8671)


@dataclass(frozen=True)
class Allowance:
    """A token bucket: `burst` frames at once, `per_second` more with each second that passes."""

    burst: int
    per_second: int
    name: str


# What a well-behaved peer stays far below. Each of these costs us work, and some an answer, without asking for anything.
ALLOWANCES = {
    PRIORITY: Allowance(1000, 100, "PRIORITY"),
    RST_STREAM: Allowance(300, 30, "RST_STREAM"),  # a page given up cancels all that it asked for; CVE-2023-44487 sent thousands a second
    SETTINGS: Allowance(100, 5, "SETTINGS"),
    PUSH_PROMISE: Allowance(1, 0, "PUSH_PROMISE"),
    PING: Allowance(200, 10, "PING"),  # some clients send one with every WINDOW_UPDATE to measure the line
    GOAWAY: Allowance(10, 1, "GOAWAY"),
    WINDOW_UPDATE: Allowance(2000, 100, "WINDOW_UPDATE"),  # and WINDOW_UPDATES_PER_FRAME with each DATA frame of ours
    CONTINUATION: Allowance(200, 20, "CONTINUATION"),  # CVE-2024-27316
    UNKNOWN: Allowance(1000, 100, "unknown"),
    EMPTY_DATA: Allowance(200, 10, "empty DATA"),
    OUR_RESET: Allowance(300, 30, "refused"),
}
WINDOW_UPDATES_PER_FRAME = 2  # a simple client answers each DATA frame with one for the stream and one for the connection


class FrameRateLimiter:
    """Token buckets, one for each kind of frame in ALLOWANCES. DATA with data and HEADERS are not counted here."""

    __slots__ = ("_tokens",)

    def __init__(self) -> None:
        self._tokens = [ALLOWANCES[kind].burst if kind in ALLOWANCES else 0 for kind in range(OUR_RESET + 1)]

    def consume(self, kind: int) -> None:
        """Take a token for one frame of this kind. Raises ConnectionFault (ENHANCE_YOUR_CALM) if the bucket is empty."""
        left = self._tokens[kind] = self._tokens[kind] - 1
        if left < 0:
            raise ConnectionFault(ENHANCE_YOUR_CALM, f"Too many {ALLOWANCES[kind].name} frames")

    def refill(self, kind: int, count: int) -> None:
        """Add `count` tokens to one bucket, up to its burst."""
        self._tokens[kind] = min(self._tokens[kind] + count, ALLOWANCES[kind].burst)

    def tick(self, seconds: int) -> None:
        """Refill all buckets for `seconds` that have passed."""
        for kind, allowance in ALLOWANCES.items():
            self.refill(kind, allowance.per_second * seconds)
