"""The body of a request that is received while it comes."""

from __future__ import annotations

import pytest

from svc.messages import HeaderBlock, Request
from svc.mounted.request_body import COLLECTED, HIGH_WATER, RequestBody, body_of_request


@pytest.mark.parametrize(
    ("length", "streams"),
    [("0", False), (str(COLLECTED), False), (str(COLLECTED + 1), True), ("9" * 40, True), (None, True), ("²", True), ("x", True)],
)
def test_which_bodies_are_received_while_they_come(length: str | None, streams: bool) -> None:
    request = Request("PUT", "/", HeaderBlock([] if length is None else [("content-length", length)]))
    assert (body_of_request(request) is not None) is streams


def test_pieces_and_the_end() -> None:
    body, arrivals = RequestBody(), list[bool]()
    body.on_arrival = lambda: arrivals.append(True)
    assert body.take() is None
    assert body.write(b"a") and body.write(b"b")
    assert body.take() == (b"ab", True) and body.take() is None and not body.is_over
    body.finish(None)
    assert body.take() == (b"", False) and body.is_over and body.take() is None and len(arrivals) == 3


def test_the_last_piece_says_that_it_is_the_last() -> None:
    body = RequestBody()
    body.write(b"a")
    body.finish(None)
    body.discard()  # the answer has begun
    assert body.take() == (b"a", False) and body.is_over and not body.is_lost


def test_room() -> None:
    body, changes = RequestBody(), list[object]()
    body.on_change = changes.append
    assert body.write(bytes(HIGH_WATER - 1)) and not body.write(b"xx")
    assert body.take() is not None and changes == [None]
    body.write(b"x")
    assert body.held == 1
    assert body.take() == (b"x", True) and changes == [None, None] and body.held == 0
    body.finish(None)
    assert body.take() == (b"", False) and changes == [None, None]


def test_the_rest_that_does_not_come() -> None:
    body = RequestBody()
    body.write(b"a")
    body.discard()
    assert body.is_lost and body.is_over and body.take() is None
