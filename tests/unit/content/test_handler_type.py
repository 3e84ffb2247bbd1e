import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from svc.content.handler_type import HandlerType
from svc.errors import BadBody, NotFound


def run(awaitable: Any) -> Any:
    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())


class Lines:
    """An object, with coroutine functions."""

    q = 0.25
    compressible = False

    async def serialize(self, data: list[Any]) -> str:
        return "\n".join(map(str, data))

    async def deserialize(self, raw: str) -> list[int]:
        return [int(line) for line in raw.split("\n")]


async def stream(data: Any) -> AsyncIterator[bytes | str]:
    for element in data:
        yield f"{element};"


def test_an_object_with_coroutine_functions() -> None:
    kind = HandlerType("text/x-lines", Lines())
    assert (kind.q, kind.compressible, kind.streams, kind.reads, kind.writes) == (0.25, False, False, True, True)
    assert run(kind.encode([1, "é"])) == "1\né".encode()
    assert run(kind.decode(b"1\n2", {})) == [1, 2]
    with pytest.raises(BadBody, match="not valid text/x-lines"):
        run(kind.decode(b"x", {}))


def test_text_types_are_given_text_and_others_bytes() -> None:
    text = HandlerType("text/x", {"deserialize": lambda raw: raw})
    assert text.decode(b"\xe9", {"charset": "latin-1"}) == "é"
    for body, parameters in ((b"\xe9", {}), (b"a", {"charset": "klingon"}), (b"a", {"charset": "base64"})):
        with pytest.raises(BadBody):
            text.decode(body, parameters)
    assert HandlerType("application/x", {"deserialize": lambda raw: raw}).decode(b"\xe9", {}) == b"\xe9"


def test_streams() -> None:
    async def read(pieces: AsyncIterator[bytes]) -> bytes:
        return b"".join([piece async for piece in pieces])

    kind = HandlerType("application/x", {"serialize_stream": stream, "deserialize_stream": read, "deserialize": None})
    assert kind.streams and kind.compressible and kind.q == 1.0
    assert run(kind.encode([1, 2])) == b"1;2;"
    assert run(kind.decode(b"abc", {})) == b"abc"

    def plain(data: Any) -> Iterator[bytes]:
        return iter((b"a", b"b"))

    async def later(data: Any) -> Iterator[bytes]:
        return plain(data)

    for function in (plain, later):
        assert run(HandlerType("a/b", {"serialize_stream": function}).encode([])) == b"ab"


def test_a_value_error_is_the_clients_and_everything_else_a_defect() -> None:
    def fails(error: Exception) -> HandlerType:
        def deserialize(raw: bytes) -> None:
            raise error

        return HandlerType("a/b", {"deserialize": deserialize})

    with pytest.raises(BadBody, match="not valid a/b") as caught:
        fails(ValueError("secret")).decode(b"", {})
    assert "secret" not in caught.value.message
    with pytest.raises(NotFound):
        fails(NotFound()).decode(b"", {})
    with pytest.raises(KeyError):
        fails(KeyError("x")).decode(b"", {})


def test_what_is_neither_bytes_nor_text_is_a_defect() -> None:
    with pytest.raises(TypeError, match="made a int, not bytes or str"):
        HandlerType("a/b", {"serialize": len}).encode([])
    assert HandlerType("a/b", {"serialize": bytearray}).encode(b"x") == b"x"
