"""Archives are cut out of long bodies, and nothing else is."""

from __future__ import annotations

import base64
import json
from typing import Any

import cbor2
import msgspec
import pytest

from svc.content.registry import ContentTypes
from svc.deploying.payloads import Payload
from svc.operations.long_payload import without_payload

TYPES = ContentTypes.built_in()
ARCHIVE = bytes(range(256)) * 2000
ENCODE = {
    "application/json": lambda value: json.dumps(value).encode(),
    "application/cbor": cbor2.dumps,
    "application/msgpack": msgspec.msgpack.encode,
}


def read(body: bytes, media_type: str) -> Any:
    reader = TYPES.reader(media_type)
    assert reader is not None
    steps = without_payload(body, media_type, lambda rest: reader.decode(rest, {}, None))
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


@pytest.mark.parametrize("media_type", ENCODE)
@pytest.mark.parametrize("is_text", [True, False])
def test_the_archive_is_what_was_sent(media_type: str, is_text: bool) -> None:
    if media_type == "application/json" and not is_text:
        pytest.skip("JSON has no bytes")
    sent: Any = base64.b64encode(ARCHIVE).decode() if is_text else ARCHIVE
    value = read(ENCODE[media_type]({"operation": "deploy_component", "payload": sent, "project": "shop", "restart": True}), media_type)
    payload = value.pop("payload")
    assert isinstance(payload, Payload)
    assert (bytes(payload.data), payload.is_text) == (sent.encode() if is_text else sent, is_text)
    assert value == {"operation": "deploy_component", "project": "shop", "restart": True}


def test_a_long_text_is_looked_at_in_steps() -> None:
    """So that other requests can be served in between."""
    body = json.dumps({"operation": "deploy_component", "payload": "x" * (20 << 20)}).encode()
    decoded: list[bytes] = []
    steps = without_payload(body, "application/json", lambda rest: decoded.append(rest) or json.loads(rest))
    assert sum(1 for _ in steps) == 20
    assert len(decoded[0]) < 200


@pytest.mark.parametrize("media_type", ENCODE)
@pytest.mark.parametrize(
    "body",
    [
        {"operation": "set_component_file", "payload": "x" * 200_000},
        {"operation": "deploy_component", "project": "x" * 200_000},
        {"operation": "deploy_component", "inner": {"payload": "x" * 200_000}},
        {"operation": "deploy_component", "note": '"payload":"' + "x" * 200_000},
        {"operation": "deploy_component", "payload": ["x" * 200_000]},
        {"operation": "deploy_component", "payload": "x" * 200_000, "more": "y" * 200_000},
        {"payload": "x" * 200_000},
        ["payload", "x" * 200_000],
    ],
)
def test_other_bodies_are_decoded_as_ever(media_type: str, body: Any) -> None:
    assert read(ENCODE[media_type](body), media_type) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"operation":"deploy_component","payload":"abc',
        b'{"operation":"deploy_component","payload":"a\\u0041"}',
        b'{"operation":"deploy_component","payload"::"a"}',
        b'{"operation":"deploy_component","payload":"a","payload":"b"}',
        b'{"operation":"deploy_component","payload":"a"',
    ],
)
def test_faulty_json_is_left_to_the_decoder(body: bytes) -> None:
    assert read(body, "application/json") is None


@pytest.mark.parametrize("kind", [b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff", b"\x5a", b"\x5f", b""])
def test_a_length_that_is_only_claimed_is_left_to_the_decoder(kind: bytes) -> None:
    assert (
        read(b"\xa2" + cbor2.dumps("operation") + cbor2.dumps("deploy_component") + cbor2.dumps("payload") + kind, "application/cbor")
        is None
    )
