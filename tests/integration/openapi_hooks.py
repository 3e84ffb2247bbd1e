"""What schemathesis cannot know by itself. Loaded by it, not by pytest; see test_openapi.py."""

from __future__ import annotations

import gc
from datetime import datetime
from itertools import count, cycle
from typing import Any

import cbor2
import msgspec
import requests.sessions
import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance, response_schema_conformance

from tests.support.profile import NIGHTLY

gc.disable()  # the process is short, and the collector would look at all that it has loaded again and again
requests.sessions.get_environ_proxies = lambda url, no_proxy=None: {}  # the environment need not be searched for proxies at each request

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


TRIED_IN_FULL = 3  # paths: those of one table
OTHER_TYPES = 3  # one operation of so many is tried with another type than JSON
untried: dict[tuple[str, str], type] = {}  # (method, path) -> the kind of body that is not tried there


@schemathesis.hook
def before_load_schema(context: schemathesis.HookContext, raw_schema: dict[str, Any]) -> None:
    """What every operation has alike is tried with some, for each costs its seconds: bodies in JSON, some in one other type in turn, preconditions
    with the first tables only. A collection takes a record or a list of them: one of both by POST and the other by PUT, by turns."""
    number = count()
    for position, item in enumerate(raw_schema["paths"].values()):
        for method in ("get", "put", "patch", "post", "delete"):
            if method in item and position >= TRIED_IN_FULL:
                item[method]["parameters"] = [p for p in item[method].get("parameters", ()) if "$ref" not in p]
            if method in item and "requestBody" in item[method]:
                content = item[method]["requestBody"]["content"]
                content.pop("text/csv", None)  # no schema says what such a text is
                others = sorted(set(content) - {JSON})
                turn, left_out = divmod(next(number), OTHER_TYPES)
                kept = {JSON} if left_out else {JSON, others[turn % len(others)]}
                item[method]["requestBody"]["content"] = {name: schema for name, schema in content.items() if name in kept}
    if not NIGHTLY:
        collections = [(path, item) for path, item in raw_schema["paths"].items() if path.endswith("/") and {"post", "put"} <= item.keys()]
        for turn, (path, item) in enumerate(collections):
            for method, is_list in (("post", turn % 2 == 1), ("put", turn % 2 == 0)):
                untried[method.upper(), path] = dict if is_list else list
                for media in item[method]["requestBody"]["content"].values():  # lines are records in any case
                    media["schema"] = media["schema"].get("anyOf", [media["schema"]] * 2)[is_list]


accepted = cycle((JSON, CBOR, JSON, MSGPACK[0], JSON, "text/csv"))


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    """Answers in every type, too. Most in JSON, where everything is checked."""
    case.headers = {**(case.headers or {})}
    case.headers.setdefault("Accept", next(accepted))


# --- checks ----------------------------------------------------------------------------------------------------------------------------


@schemathesis.check
def patch_acceptance(ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case) -> bool | None:
    """`positive_data_acceptance` for PATCH, which may be refused for what is stored: an increment leads beyond the range of its type, or there
    is no record, so that one is made and needs all that is required. OpenAPI has no words for either."""
    if case.method != "PATCH":
        return None
    if response.status_code == 400:
        body = case.body if isinstance(case.body, dict) else {}
        increments = [name for name, value in body.items() if isinstance(value, dict) and "__op__" in value]
        places = tuple(f"in property {name} must be " for name in increments)
        errors = problem_of(response).get("errors", [])
        if errors and all(error.endswith(" is required") or any(place in error for place in places) for error in errors):
            return None
    return positive_data_acceptance(ctx, response, case)  # type: ignore[no-any-return]


@schemathesis.check
def rejection(ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case) -> bool | None:
    """`negative_data_rejection`, but for types with values of their own, where text is as good as bytes and base64 nothing special; and for what
    is no property behind a dot, so that the whole is a key."""
    if case.media_type == CBOR or case.media_type in MSGPACK:
        return None
    if "}.{" in case.path and response.status_code == 200:
        return None
    if type(case.body) is untried.get((case.method, case.path)):
        return None  # it is as good
    if any(isinstance(value, list) and len(value) == 1 for value in (case.query or {}).values()):
        return None  # a list of one is not to be told from its element
    return negative_data_rejection(ctx, response, case)  # type: ignore[no-any-return]


@schemathesis.check
def conformance(ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case) -> bool | None:
    """`response_schema_conformance`, but for what is no property behind a dot: the answer is a record then, `/Measured/0.0` that of the number."""
    if "}.{" in case.path and response.status_code == 200 and not str((case.path_parameters or {}).get("property")).isidentifier():
        return None
    return response_schema_conformance(ctx, response, case)  # type: ignore[no-any-return]


def problem_of(response: schemathesis.Response) -> dict[str, Any]:
    content_type = response.headers.get("content-type", [""])[0]
    if content_type == CBOR:
        return cbor2.loads(response.content)
    return unpack(response.content) if content_type in MSGPACK else msgspec.json.decode(response.content)
