import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from svc.content.yaml_type import YamlType, yaml_pieces
from svc.errors import NotAcceptable
from svc.store.values.records import encode

YAML = YamlType()
RECORD = {
    "id": "a",
    "when": datetime(2024, 1, 5, tzinfo=UTC),
    "tags": ["x", "é"],
    "n": 1.5,
    "bytes": b"\xff",
    "no": "no",
    "t": "2024-01-05",
    "z": None,
}
PLAIN = RECORD | {"when": "2024-01-05T00:00:00.000Z"}


def test_values() -> None:
    assert YAML.encode({"b": 1, "a": [1, "x"]}) == b"b: 1\na:\n- 1\n- x\n"
    assert yaml.safe_load(YAML.encode(RECORD)) == PLAIN
    assert yaml.safe_load(YAML.encode("\ud800")) == "\ufffd"
    shared = [1]
    assert b"&" not in YAML.encode([shared, shared])
    assert yaml.safe_load(YAML.encode({"a": "x " * 1000 + "\n\r\t\x00"})) == {"a": "x " * 1000 + "\n\r\t\x00"}
    with pytest.raises(TypeError):
        YAML.encode(object())
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(NotAcceptable):
        YAML.encode(deep)


def test_a_collection_is_one_sequence() -> None:
    writer = YAML.row_writer()
    assert writer.begin() + writer.end() == b"[]\n"
    writer = YAML.row_writer()
    body = writer.begin() + writer.raw([encode(RECORD, 1.0, 1, None)]) + writer.rows([1, [2]]) + writer.values([{3}]) + writer.end()
    assert yaml.safe_load(body) == [PLAIN, 1, [2], [3]]
    assert writer.failure({"error": "x"}) is None


LONG: dict[str, Any] = {
    "list": list(range(1000)),
    "text": "one\ntwo\n\n  three: 'x' \"y\"\n",
    "nested": {"a": [{"b": n, "c": {"d": [n, "line\nline", None, True, "# no", "- no", ""]}} for n in range(300)], "empty": [], "none": {}},
    "k" * 200: {"many": {f"key {n}: [": f"value {n}\nmore\n\nend" for n in range(600)}},
    "lists": [[list(range(400)), []], [{"x": list(range(400))}]],
    "long": "word " * 5000,
    "1": {"two": {"three": {"four": list(range(500))}}},
}


def test_a_long_value_is_written_in_pieces() -> None:
    pieces = list(yaml_pieces(LONG))
    assert yaml.safe_load(b"".join(pieces)) == LONG
    assert len(pieces) > 30
    assert max(len(piece) for piece in pieces) < 40_000, "but for a string"


def test_a_long_record_gives_the_turn_back() -> None:
    assert type(YamlType().encode_stored(encode({"id": "a", "n": [1, 2]}, 1.0, 1, None))) is bytes
    turns = 0

    async def main() -> bytes:
        nonlocal turns
        encoding = asyncio.ensure_future(YamlType().encode_stored(encode(LONG, 1.0, 1, None)))
        while not encoding.done():
            turns += 1
            await asyncio.sleep(0)
        return encoding.result()

    assert yaml.safe_load(asyncio.run(main())) == LONG
    assert turns > 30
