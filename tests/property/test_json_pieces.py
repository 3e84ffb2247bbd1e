"""A body decoded in pieces is what it is as a whole, faults and their places included, wherever it is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.content import json_pieces
from svc.content.json_pieces import decode_in_pieces, decode_member_in_pieces
from svc.content.json_type import decode_json
from svc.errors import BadBody
from tests.support.profile import half_by_day

texts = st.sampled_from(("", "a", "},{", '"', "\\", "},", '{"id":', "é", "😀", "]", "\n", ":"))
scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 2**70), st.floats(allow_nan=False, allow_infinity=False), texts)
names = st.sampled_from(("id", "a", "},{", "é", '"'))
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)), max_leaves=12
)
records = st.fixed_dictionaries(
    {"id": scalars}, optional={"a": values, "items": st.lists(st.fixed_dictionaries({"id": scalars}), max_size=4)}
)
documents = st.one_of(st.lists(records, max_size=20), st.lists(values, max_size=10), values)
styles = st.sampled_from(({"separators": (",", ":")}, {}, {"indent": 2}, {"separators": (" , ", " : ")}))


def outcome(body: bytes) -> tuple[str, Any]:
    try:
        return "value", decode_json(body)
    except BadBody as error:
        return "fault", error.message


def outcome_in_pieces(body: bytes) -> tuple[str, Any]:
    steps = decode_in_pieces(body, decode_json)
    try:
        while True:
            next(steps)
    except StopIteration as done:
        return "value", done.value
    except BadBody as error:
        return "fault", error.message


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_pieces, "MAX_PIECE", 200)


def agree(body: bytes, size: int) -> None:
    json_pieces.PIECE = size  # type: ignore[misc]
    try:
        assert outcome_in_pieces(body) == outcome(body)
    finally:
        json_pieces.PIECE = 1 << 16  # type: ignore[misc]


@given(document=documents, style=styles, escaped=st.booleans(), space=st.sampled_from(("", " ", "\r\n\t")), size=st.integers(1, 60))
@example(document=[{"id": 1}, {"id": 2}], style={}, escaped=True, space="", size=1)
def test_any_document(document: Any, style: dict[str, Any], escaped: bool, space: str, size: int) -> None:
    text = space + json.dumps(document, ensure_ascii=escaped, **style) + space
    agree(text.encode(), size)


@given(
    document=st.lists(records, min_size=2, max_size=10),
    style=styles,
    at=st.integers(0, 10_000),
    change=st.sampled_from((b"", b",", b"}", b"]", b"[", b"{", b'"', b"\\", b"x", b"\xff", b"\x01", b"1e400", b" ")),
    removed=st.integers(0, 3),
    size=st.integers(1, 60),
)
@example(document=[{"id": 1}, {"id": 2}], style={}, at=10_000, change=b",", removed=1, size=5)
def test_any_fault(document: Any, style: dict[str, Any], at: int, change: bytes, removed: int, size: int) -> None:
    body = json.dumps(document, **style).encode()
    at %= len(body) + 1
    agree(body[:at] + change + body[at + removed :], size)


@pytest.mark.parametrize(
    "body",
    [
        b"[{},]",
        b"[{}, ]",
        b"[{},{},]",
        b"[{},]{},{},{}]",
        b"[{}, ] {}, {}]",
        b"[{},,{}]",
        b"[,{}]",
        b"[",
        b"[{}",
        b"[]]",
        b"[{}]x",
        b"",
        b" ",
        b"[[[[",
        b'[{"a":1e400}]',
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_short_ones(body: bytes, size: int) -> None:
    agree(body, size)


# --- a long array as a member of an object --------------------------------------------------------------------------------------------------


def member_outcome(body: bytes) -> tuple[str, Any]:
    steps = decode_member_in_pieces(body, "records", decode_json)
    try:
        while True:
            next(steps)
    except StopIteration as done:
        return "value", done.value
    except BadBody as error:
        return "fault", error.message


def members_agree(body: bytes, size: int) -> None:
    json_pieces.PIECE = size  # type: ignore[misc]
    try:
        assert member_outcome(body) == outcome(body)
    finally:
        json_pieces.PIECE = 1 << 16  # type: ignore[misc]


member_names = st.sampled_from(("records", "table", '"records": [', "operation", "a"))
bodies = st.lists(st.tuples(member_names, st.one_of(st.lists(records, max_size=12), values)), max_size=4)


@settings(max_examples=half_by_day(100))
@given(bodies, styles, st.integers(1, 60))
def test_members_decode_as_whole(pairs: list[tuple[str, Any]], style: dict[str, Any], size: int) -> None:
    text = "{" + ",".join(f"{json.dumps(name)}: {json.dumps(value, **style)}" for name, value in pairs) + "}"
    members_agree(text.encode(), size)


@settings(max_examples=half_by_day(100))
@given(bodies, st.integers(1, 60), st.data())
def test_faults_in_members_are_told_as_for_the_whole(pairs: list[tuple[str, Any]], size: int, data: st.DataObject) -> None:
    body = bytearray(("{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs) + "}").encode())
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.sampled_from(b'{}[],:"x\\ 1'))
    members_agree(bytes(body), size)


@pytest.mark.parametrize(
    "body",
    [
        b'{"records":[{"id":1},{"id":2},{"id":3}],"table":"t"}',
        b'{"a":{"records":[{"id":1},{"id":2}]},"table":"t"}',
        b'{"records":[{"id":1},{"id":2}],"records":[{"id":3}]}',
        b'{"a":"\\"records\\":[","records":[1,2,3]}',
        b'[{"records":[1,2,3]}]',
        b'{"records":[1,2,3],}',
        b'{"records":[1,2,3],"r\\u0065cords":[4]}',
        b'{"records":[1,2,3],"r\\u0065cords":{"a":4}}',
        b'{"records":[1,2,3],"r\\u0065cords":[]}',
        b'{"records":[1,2,3',
        b'{"records":[1,2,3]',
        b'{"records":[]}',
        b'{"records" : [ {"id" : 1} , {"id" : 2} ] }',
    ],
)
@pytest.mark.parametrize("size", [1, 7, 20])
def test_members_by_hand(body: bytes, size: int) -> None:
    members_agree(body, size)
