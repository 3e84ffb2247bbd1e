"""A JSON document that is split is what it is as a whole, whatever its shape and wherever the windows end; faults stay faults."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from svc.content import json_split
from svc.content.json_split import decode_split
from svc.content.json_type import decode_json
from svc.errors import BadBody

texts = st.sampled_from(("", "a", "},{", '"', "\\", "[]{},:", "é", "😀", "\n"))
scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 2**70), st.floats(allow_nan=False, allow_infinity=False), texts)
names = st.sampled_from(("id", "a", "},{", "é", '"', ""))
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(names, inner, max_size=5)), max_leaves=40
)
styles = st.sampled_from(({"separators": (",", ":")}, {}, {"indent": 2}, {"separators": (" , ", " : ")}))


def split(body: bytes) -> Any:
    steps = decode_split(body, decode_json)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


@pytest.fixture(autouse=True)
def no_second_opinion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_split, "EXACT", 0)


def agree(body: bytes, window: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_split, "WINDOW", window)
        try:
            expected = decode_json(body)
        except BadBody:
            with pytest.raises(BadBody):
                split(body)
        else:
            assert repr(split(body)) == repr(expected)  # 1 and 1.0 differ, and the order of names counts


@given(document=values, style=styles, escaped=st.booleans(), space=st.sampled_from(("", " ", "\r\n\t")), window=st.integers(1, 60))
def test_any_document(document: Any, style: dict[str, Any], escaped: bool, space: str, window: int) -> None:
    agree((space + json.dumps(document, ensure_ascii=escaped, **style) + space).encode(), window)


@given(
    document=values,
    style=styles,
    at=st.integers(0, 10_000),
    change=st.sampled_from(
        (b"", b",", b"}", b"]", b"[", b"{", b'"', b":", b"\\", b"x", b"\xff", b"\x01", b"1e400", b" ", b",,", b"[]", b'{"a":')
    ),
    removed=st.integers(0, 3),
    window=st.integers(1, 60),
)
@example(document=[{"a": {"b": 1}}], style={}, at=7, change=b",", removed=0, window=2)
@example(document={"a": [{}], "b": {}}, style={}, at=9, change=b"", removed=1, window=2)
def test_any_fault(document: Any, style: dict[str, Any], at: int, change: bytes, removed: int, window: int) -> None:
    body = json.dumps(document, **style).encode()
    at %= len(body) + 1
    agree(body[:at] + change + body[at + removed :], window)


@pytest.mark.parametrize(
    "body", [b"", b" ", b"[", b"{", b"[]]", b"[}", b'{"a"}', b'{"a":1,}', b"[,]", b"[[],]", b"[[]1]", b"{[]:1}", b'["a', b"1", b"nul"]
)
@pytest.mark.parametrize("window", [1, 2, 3, 100])
def test_short_ones(body: bytes, window: int) -> None:
    agree(body, window)


def test_names_that_occur_twice() -> None:
    agree(b'{"a":[1,2,3,4,5],"b":2,"a":{"c":[1,2,3]},"b":[]}', 3)


def test_the_place_of_a_fault_is_one_in_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_split, "WINDOW", 20)
    body = json.dumps({"a": list(range(50)), "b": {"c": list(range(50))}}).encode()
    at = body.index(b" 37", body.index(b'"c"')) + 1
    with pytest.raises(BadBody, match=rf"\(byte {at}\)"):
        split(body[:at] + b"x" + body[at + 1 :])
