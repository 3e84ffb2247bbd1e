from typing import Any

import pytest

from svc.content.content_type import ContentType
from svc.content.json_type import JsonType
from svc.content.registry import ContentTypes
from svc.errors import NotAcceptable


@pytest.fixture
def types() -> ContentTypes:
    return ContentTypes.built_in()


def lines(data: Any) -> str:
    return "\n".join(map(str, data))


def test_no_accept_and_no_preference_mean_json(types: ContentTypes) -> None:
    json = types["application/json"]
    assert types.writer(None) is types.writer("") is types.writer("*/*") is types.writer("application/json") is json


def test_a_type_of_an_application_takes_part_at_once_and_leaves_at_once(types: ContentTypes) -> None:
    with pytest.raises(NotAcceptable, match="supported are application/json") as caught:
        types.writer("text/x-lines")
    assert caught.value.status_code == 406
    before = types.generation
    types["text/x-lines"] = {"serialize": lines, "q": 0.3}
    assert types.generation > before
    kind = types.writer("text/x-lines")
    assert (kind.name, kind.content_type, kind.q) == ("text/x-lines", "text/x-lines", 0.3)
    assert kind.encode([1, 2]) == b"1\n2"
    before = types.generation
    del types["text/x-lines"]
    assert types.generation > before
    with pytest.raises(NotAcceptable):
        types.writer("text/x-lines")


def test_a_built_in_can_be_replaced(types: ContentTypes) -> None:
    assert types.writer("application/json").encode([]) == b"[]"
    types["Application/JSON"] = {"serialize": lambda data: b"mine"}
    assert types.writer("application/json").encode([]) == b"mine"
    assert types.writer("*/*").encode([]) == b"[]"  # an entry of its own
    types["*/*"] = {"serialize": lambda data: b"any", "type": "text/any"}
    assert types.writer(None).encode([]) == b"any"
    assert types.writer(None).content_type == "text/any"
    assert types.reader("application/json") is None  # the new one cannot read


def test_msgpack_answers_to_two_names(types: ContentTypes) -> None:
    assert types["application/x-msgpack"] is types["application/msgpack"]
    for name in ("application/x-msgpack", "application/msgpack"):
        assert types.writer(name).content_type == name
        assert types.writer(f"{name};sequence=true").content_type == f"{name};sequence=true"
    assert types.writer("application/msgpack, application/x-msgpack").name == "application/x-msgpack"


def test_readers(types: ContentTypes) -> None:
    assert isinstance(types.reader("application/json"), JsonType)
    assert types.reader("application/vnd.shop+json") is types.reader("application/json")
    assert types.reader("image/png") is types.reader("text/plain") is types.reader("") is types.reader("*/*") is None
    types["*/*"] = {"deserialize": len}
    reader = types.reader("image/png")
    assert reader is not None and reader.decode(b"123", {}) == 3
    assert types.reader("") is None


def test_named_finds_what_can_be_written(types: ContentTypes) -> None:
    assert types.named("application/json") is types["application/json"]
    assert types.named("image/png") is None
    types["text/x-read"] = {"deserialize": str}
    assert types.named("text/x-read") is None


@pytest.mark.parametrize(
    ("name", "handler"),
    [
        ("json", {"serialize": str}),
        ("a/b; q=1", {"serialize": str}),
        ("", {"serialize": str}),
        ("a/b", {}),
        ("a/b", None),
        ("a/b", {"serialize": "str"}),
        ("a/b", {"serialize": str, "q": 2}),
        ("a/b", {"serialize": str, "q": "high"}),
    ],
)
def test_what_cannot_be_registered(types: ContentTypes, name: str, handler: Any) -> None:
    before = dict(types)
    with pytest.raises(ValueError):
        types[name] = handler
    assert dict(types) == before


def test_it_is_a_mapping(types: ContentTypes) -> None:
    assert "APPLICATION/json" in types
    assert len(types) == len(list(types))
    with pytest.raises(KeyError):
        types["a/b"]
    with pytest.raises(KeyError):
        del types["a/b"]
    assert isinstance(types["*/*"], ContentType)
    assert types["application/json"].serialize({"a": 1}) == b'{"a":1}'
    assert types["application/json"].deserialize('{"a":1}') == {"a": 1}


def test_what_is_remembered_is_bounded(types: ContentTypes) -> None:
    for number in range(1000):
        types.writer(f"application/json;v={number}")
    assert len(types._writers) <= 256
    types.writer("application/json;v=" + "x" * 10_000)
    assert all(len(text or "") < 1000 for text in types._writers)
