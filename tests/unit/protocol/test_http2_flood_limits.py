"""The token buckets of HTTP/2 frames; `test_http2` tries the floods themselves."""

from __future__ import annotations

import pytest

from svc.protocol.http2_flood_limits import ALLOWANCES, FrameRateLimiter
from svc.protocol.http2_frames import ENHANCE_YOUR_CALM, PING, RST_STREAM, ConnectionFault


@pytest.mark.parametrize("kind", ALLOWANCES, ids=lambda kind: ALLOWANCES[kind].name)
def test_a_bucket_holds_its_burst_and_refills_with_time(kind: int) -> None:
    allowance = ALLOWANCES[kind]
    limiter = FrameRateLimiter()
    for _ in range(allowance.burst):
        limiter.consume(kind)
    limiter.tick(1)
    for _ in range(min(allowance.per_second, allowance.burst)):
        limiter.consume(kind)
    with pytest.raises(ConnectionFault, match=allowance.name) as caught:
        limiter.consume(kind)
    assert caught.value.code == ENHANCE_YOUR_CALM


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    limiter = FrameRateLimiter()
    limiter.tick(1000)
    limiter.refill(PING, 1000)
    for _ in range(ALLOWANCES[PING].burst):
        limiter.consume(PING)
    with pytest.raises(ConnectionFault):
        limiter.consume(PING)
    limiter.consume(RST_STREAM)  # a bucket of its own
