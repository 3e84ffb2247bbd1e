"""Answers that arrive in pieces."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.cli.client import Unreachable
from svc.cli.sql.answers import LONG_ROW, StatementAnswer, StatementFailed
from tests.support.cli import FakeAnswer

ROWS = [
    {"id": 1, "name": 'ä € 𝄞 \\ " ]'},
    {"id": 2**70, "name": None},
    {"id": -1.5, "name": {"a": [1, {"b": "}"}]}},
    {"id": True, "name": ""},
]
TEXT = json.dumps(ROWS, ensure_ascii=False).encode()


class Pieces(FakeAnswer):
    def __init__(self, *pieces: bytes, content_type: str = "") -> None:
        super().__init__(content=b"".join(pieces), content_type=content_type)
        self.pieces = pieces

    def chunks(self) -> Iterator[bytes]:
        yield from self.pieces


def read(*pieces: bytes) -> Any:
    found = StatementAnswer(Pieces(*pieces))  # type: ignore[arg-type]
    rows = [row for batch in found.batches() for row in batch]
    return rows if found.body is None else found.body


@given(st.lists(st.integers(0, len(TEXT)), max_size=8))
def test_rows_however_they_are_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    assert read(*(TEXT[begin:end] for begin, end in itertools.pairwise(places))) == ROWS


def test_byte_by_byte() -> None:
    spaced = json.dumps(ROWS, indent=1).encode() + b"\n"
    assert read(*(spaced[at : at + 1] for at in range(len(spaced)))) == ROWS


def test_rows_come_before_the_end() -> None:
    batches = StatementAnswer(Pieces(b'[{"a":1},{"a"', b":2},", b'{"a":3}]')).batches()  # type: ignore[arg-type]
    assert [next(batches) for _ in range(3)] == [[{"a": 1}], [{"a": 2}], [{"a": 3}]]


def test_none() -> None:
    assert read(b"[]") == read(b" [ ] ") == []


def test_a_body() -> None:
    body = {"message": "inserted 1 of 1 records", "inserted_hashes": [10**30]}
    text = json.dumps(body).encode()
    assert read(*(text[at : at + 7] for at in range(0, len(text), 7))) == body


def test_the_bytes_are_copied_as_they_are() -> None:
    copied: list[bytes] = []
    found = StatementAnswer(Pieces(TEXT[:9], TEXT[9:]), copied.append)  # type: ignore[arg-type]
    assert sum(map(len, found.batches())) == len(ROWS)
    assert copied == [TEXT[:9], TEXT[9:]]


def test_a_failure_behind_some_rows() -> None:
    batches = StatementAnswer(Pieces(b'[{"a":1},{"error":"QueryTooLarge: too {long}"}]')).batches()  # type: ignore[arg-type]
    assert next(batches) == [{"a": 1}]
    with pytest.raises(StatementFailed, match=r"QueryTooLarge: too \{long\}"):
        next(batches)


def test_a_column_that_is_called_error_is_no_failure() -> None:
    assert read(b'[{"error":"a"},{"error":"b"}]') == [{"error": "a"}, {"error": "b"}]
    assert read(b'[{"error":"a","id":1},{"error":"b","id":2}]')[1] == {"error": "b", "id": 2}


@pytest.mark.parametrize("text", [b"", b"[", b'[{"a":1}', b'[{"a":1},', b'[{"a":}]', b"[1]", b"<html>", b'{"a":', b"[]x", b'[{"a":1}]]'])
def test_what_is_not_json_or_not_whole(text: bytes) -> None:
    with pytest.raises(Unreachable, match="not JSON"):
        read(text)


def test_an_answer_that_breaks_off() -> None:
    found = StatementAnswer(FakeAnswer(content=TEXT, breaks=True))  # type: ignore[arg-type]
    with pytest.raises(Unreachable, match="broke"):
        list(found.batches())


def test_what_python_cannot_read_is_an_error_or_text() -> None:
    deep = b'[{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}]"
    with pytest.raises(StatementFailed, match="nested too deeply"):
        read(deep)
    with pytest.raises(StatementFailed, match="nested too deeply"):
        read(deep[1:-1])
    assert read(b'[{"a":' + b"9" * 5000 + b"}]") == [{"a": "9" * 5000}]


def test_a_long_row_is_not_read_again_with_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    from svc.cli.sql import answers

    calls = 0
    decode = answers._decode

    def counting(text: str, at: int) -> Any:
        nonlocal calls
        calls += 1
        return decode(text, at)

    monkeypatch.setattr(answers, "_decode", counting)
    long = b'[{"a":"' + b"x" * (64 * LONG_ROW) + b'"}]'
    assert len(read(*(long[at : at + LONG_ROW] for at in range(0, len(long), LONG_ROW)))[0]["a"]) == 64 * LONG_ROW
    assert calls < 12
