from __future__ import annotations

import pytest

from svc.siblings.messages import Ask, Hello, Message, MessageReader, Reply, Tell, encode_message

MESSAGES: list[Message] = [
    Hello("1-2-abcdef01"),
    Ask(7, "topic", {"a": [1, 2.5, None, True, "ü", b"\0"]}),
    Tell("topic", None),
    Reply(7, None, "why"),
    Reply(8, b"x" * 70000, None),
]


def test_whole_and_byte_by_byte() -> None:
    data = b"".join(map(encode_message, MESSAGES))
    assert MessageReader().receive_data(data) == MESSAGES
    reader = MessageReader()
    assert [message for byte in data for message in reader.receive_data(bytes([byte]))] == MESSAGES


def test_what_follows_waits() -> None:
    reader = MessageReader()
    data = encode_message(MESSAGES[0])
    assert reader.receive_data(data + data[:5]) == [MESSAGES[0]]
    assert reader.receive_data(data[5:]) == [MESSAGES[0]]


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x01\xc1", b"\0\0\0\x02\x91\x09", b"\0\0\0\x02\x91\x00"])
def test_what_is_none(data: bytes) -> None:
    with pytest.raises(ValueError):
        MessageReader().receive_data(data)
