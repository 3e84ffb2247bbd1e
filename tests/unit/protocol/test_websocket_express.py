"""The express lane: what it takes, and what it leaves to wsproto. That both agree is for tests/property/test_websocket.py."""

from __future__ import annotations

import pytest

from svc.protocol.websocket_express import recognise_message, recognise_ping
from tests.support.websocket_frames import binary, close, frame, more, ping, pong, text

LIMIT = 70_000


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535])
def test_plain_messages(size: int) -> None:
    for sent, message in ((text("x" * size), "x" * size), (binary(b"x" * size), b"x" * size)):
        assert recognise_message(sent, 0, LIMIT) == (message, len(sent))
        assert recognise_message(b"???" + sent + b"next", 3, LIMIT) == (message, len(sent) + 3)
        for missing in {len(sent), len(sent) - 1, len(sent) - 2, 8, 7, 6, 5, 1} - {0}:
            assert recognise_message(sent[:-missing], 0, LIMIT) is None
        assert recognise_message(sent, 0, size) is not None
        assert recognise_message(sent, 0, size - 1) is None


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        text("a", fin=False),
        more("a"),
        text("a", key=None) + b"more than a header",
        text("a", rsv=4),
        text("a", rsv=2),
        text("a", rsv=1),
        text("a", form=2),
        text("a", form=8),
        binary(b"x" * 65536),
        text(b"\xff"),
        text(b"\xed\xa0\x80"),
        text(b"\xc3"),
        ping(b"a"),
        close(1000),
        frame(3, b"a"),
        frame(15, b"a"),
    ],
)
def test_what_is_not_plain_is_declined(sent: bytes) -> None:
    assert recognise_message(sent, 0, LIMIT) is None


def test_pings_and_pongs() -> None:
    assert recognise_ping(ping(b"abc"), 0) == (9, b"abc", 9)
    assert recognise_ping(b"?" + pong(b"x" * 125) + b"?", 1) == (10, b"x" * 125, 132)
    for sent in (
        ping(b"abc")[:-1],
        ping(b"a", fin=False),
        ping(b"x" * 126),
        ping(b"a", key=None) + b"....",
        ping(b"", rsv=4),
        text("a"),
        close(1000),
    ):
        assert recognise_ping(sent, 0) is None
