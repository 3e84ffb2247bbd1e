"""What the parent leaves for the program that it executes."""

from __future__ import annotations

import json

import msgspec
import pytest

from svc.parent.state import MemberState, ParentState, PortState, decode_state, encode_state

STATE = ParentState(
    3,
    {0: 1, 1: 0},
    4,
    5,
    [MemberState(0, 3, 100, 6, 64, 1.5, "ready")],
    [PortState("http.port", 9926, ("127.0.0.1", "::1"), "", -1, [[7, 8], [9, 10]])],
)


def test_it_is_as_it_was() -> None:
    assert decode_state(encode_state(STATE)) == STATE
    assert sorted(STATE.descriptors) == list(range(4, 11))


def test_fields_of_another_version() -> None:
    document = json.loads(encode_state(STATE))
    document["later"] = document["members"][0]["later"] = document["ports"][0]["later"] = {"a": [1]}
    assert decode_state(json.dumps(document)) == STATE
    del document["ports"][0]["path"]
    with pytest.raises(msgspec.DecodeError, match="missing required field `path`"):
        decode_state(json.dumps(document))
