import pytest

from svc.content.ndjson_type import NdjsonType
from svc.errors import BadBody
from svc.store.values.records import encode

NDJSON = NdjsonType()


def test_writing() -> None:
    assert NDJSON.encode({"a": "x\ny"}) == b'{"a":"x\\ny"}\n'
    assert NDJSON.encode([1, {2}]) == b"1\n[2]\n"
    assert NDJSON.encode([]) == b""
    writer = NDJSON.row_writer()
    body = writer.begin() + writer.rows([{"a": 1}, None]) + writer.values([{1}]) + writer.raw([encode({"id": 1}, 1.0, 1, None)])
    assert body + (writer.failure({"error": "x"}) or b"") + writer.end() == b'{"a":1}\nnull\n[1]\n{"id":1}\n{"error":"x"}\n'


def test_reading() -> None:
    assert NDJSON.decode(b'{"a":1.0}\n\n  \r\n[2]\r\n"x"', {}) == [{"a": 1}, [2], "x"]
    assert NDJSON.decode(b"", {}) == []
    with pytest.raises(BadBody, match=r"Invalid JSON: .*byte 1.*, in line 3"):
        NDJSON.decode(b"1\n\n{x}\n2", {})
    with pytest.raises(BadBody, match=r"trailing characters .*, in line 1"):
        NDJSON.decode(b"1 2\n", {})
