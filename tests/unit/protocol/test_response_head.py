"""Response heads: no field ends a line early, the driver's own fields are not a handler's."""

from __future__ import annotations

import pytest

from svc.protocol import response_head
from svc.protocol.response_head import encode_fields, encode_trailers, status_line


def test_status_lines() -> None:
    assert status_line(200) == "HTTP/1.1 200 OK\r\n"
    assert status_line(299) == "HTTP/1.1 299 \r\n"


@pytest.mark.parametrize("status", [-1, 0, 99, 1000])
def test_no_status(status: int) -> None:
    with pytest.raises(ValueError, match="not a status"):
        status_line(status)


def test_order_spelling_and_repetition_are_kept() -> None:
    assert encode_fields([("B", "1"), ("a", "x\ty \xe9"), ("B", "")]) == ("B: 1\r\na: x\ty \xe9\r\nB: \r\n", None)


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\n", "\r", "a\0b", "\x0b", "\x7f", "\u2028"])
def test_no_field_value(value: str) -> None:
    with pytest.raises(ValueError, match="not a field value"):
        encode_fields([("X", value)])
    with pytest.raises(ValueError, match="not a field value"):
        encode_fields([("Date", value)])


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\nb", "\xe9", "X\n", "(a)", " a", "a\0"])
def test_no_field_name(name: str) -> None:
    for _ in range(2):  # a refused name is not remembered
        with pytest.raises(ValueError, match="not a field name"):
            encode_fields([(name, "v")])


def test_the_drivers_own_fields_are_set_apart() -> None:
    pairs = [
        ("DATE", "d"),
        ("Content-Length", "3"),
        ("transfer-encoding", "gzip"),
        ("Connection", "close"),
        ("Keep-Alive", "1"),
        ("X", "y"),
    ]
    for _ in range(2):
        lines, own = encode_fields(pairs)
        assert lines == "X: y\r\n"
        assert own == {"date": "d", "content-length": "3", "transfer-encoding": "gzip", "connection": "close", "keep-alive": "1"}


def test_trailers_frame_nothing() -> None:
    assert encode_trailers([("X-Sum", "1")]) == b"X-Sum: 1\r\n"
    with pytest.raises(ValueError, match="trailers"):
        encode_trailers([("Transfer-Encoding", "chunked")])


def test_names_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    known: set[str] = set()
    monkeypatch.setattr(response_head, "_PLAIN_NAMES", known)
    monkeypatch.setattr(response_head, "_PLAIN_NAMES_MAX", 10)
    encode_fields([(f"X-{number}", "") for number in range(100)])
    assert len(known) == 10
