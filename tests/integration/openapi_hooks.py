"""What schemathesis cannot know by itself. Loaded by it, not by pytest; see test_openapi.py."""

from __future__ import annotations

from datetime import datetime
from itertools import count, cycle
from typing import Any

import cbor2
import msgspec
import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

JSON = "application/json"
CBOR = "application/cbor"
MSGPACK = ("application/x-msgpack", "application/msgpack")
LINES = ("application/x-ndjson", "application/ndjson")

# --- content types ---------------------------------------------------------------------------------------------------------------------


@schemathesis.serializer(CBOR)
def as_cbor(ctx: schemathesis.SerializationContext, value: Any) -> bytes:
    return cbor2.dumps(value)


@schemathesis.serializer(*MSGPACK)
def as_msgpack(ctx: schemathesis.SerializationContext, value: Any) -> bytes:
    return msgspec.msgpack.encode(native_form(value))


@schemathesis.serializer(*LINES)
def as_lines(ctx: schemathesis.SerializationContext, value: Any) -> bytes:
    rows = value if isinstance(value, list) else [value]
    return b"".join([msgspec.json.encode(row) + b"\n" for row in rows])


@schemathesis.deserializer(CBOR)
def from_cbor(ctx: schemathesis.DeserializationContext, response: schemathesis.Response) -> Any:
    return json_form(cbor2.loads(response.content))


@schemathesis.deserializer(*MSGPACK)
def from_msgpack(ctx: schemathesis.DeserializationContext, response: schemathesis.Response) -> Any:
    return json_form(unpack(response.content))


BIG = 0x42  # extension of integers beyond 64 bits: two's complement, big-endian


def native_form(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: native_form(member) for name, member in value.items()}
    if isinstance(value, list):
        return [native_form(element) for element in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return msgspec.msgpack.Ext(BIG, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    return value


def extension(code: int, data: memoryview) -> Any:
    return int.from_bytes(data, "big", signed=True) if code == BIG else msgspec.msgpack.Ext(code, bytes(data))


unpack = msgspec.msgpack.Decoder(ext_hook=extension).decode


def json_form(value: Any) -> Any:
    """The schemas speak of values as JSON has them."""
    if isinstance(value, dict):
        return {str(name): json_form(member) for name, member in value.items()}
    if isinstance(value, list):
        return [json_form(element) for element in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return msgspec.to_builtins(value) if isinstance(value, bytes) else value


@schemathesis.hook
def before_load_schema(context: schemathesis.HookContext, raw_schema: dict[str, Any]) -> None:
    """Bodies are drawn in every type for each operation, which takes long: JSON everywhere, and one of the others in turn."""
    number = count()
    for item in raw_schema["paths"].values():
        for method in ("put", "patch", "post"):
            if method in item:
                content = item[method]["requestBody"]["content"]
                content.pop("text/csv", None)  # no schema says what such a text is
                others = sorted(set(content) - {JSON})
                kept = {JSON, others[next(number) % len(others)]}
                item[method]["requestBody"]["content"] = {name: schema for name, schema in content.items() if name in kept}


accepted = cycle((JSON, CBOR, JSON, MSGPACK[0], JSON, "text/csv"))


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    """Answers in every type, too. Most in JSON, where everything is checked."""
    case.headers = {**(case.headers or {})}
    case.headers.setdefault("Accept", next(accepted))


# --- checks ----------------------------------------------------------------------------------------------------------------------------


@schemathesis.check
def patch_acceptance(ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case) -> bool | None:
    """`positive_data_acceptance` for PATCH. It makes a record that does not exist, and then needs all that is required; OpenAPI has no words for it."""
    if case.method != "PATCH":
        return None
    if response.status_code == 400:
        errors = json_form(response_value(response)).get("errors", [])
        if errors and all(error.endswith(" is required") for error in errors):
            return None
    return positive_data_acceptance(ctx, response, case)  # type: ignore[no-any-return]


@schemathesis.check
def rejection(ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case) -> bool | None:
    """`negative_data_rejection`, but for types with values of their own: text is as good as bytes there, and base64 nothing special."""
    if case.media_type == CBOR or case.media_type in MSGPACK:
        return None
    return negative_data_rejection(ctx, response, case)  # type: ignore[no-any-return]


def response_value(response: schemathesis.Response) -> Any:
    content_type = response.headers.get("content-type", [""])[0]
    if content_type == CBOR:
        return cbor2.loads(response.content)
    return unpack(response.content) if content_type in MSGPACK else msgspec.json.decode(response.content)
