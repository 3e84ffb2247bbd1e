"""Objects in S3, for loads and exports (spec: operations §4). The client library is optional: extra `s3`, imported on first use.

Everything that talks to S3 blocks and belongs on a helper thread; so does the first import of the library, which takes a while. What S3 or
the network refuses becomes a `Problem` whose message names the cause and never the credentials.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, BinaryIO, Protocol, TypeVar
from urllib.parse import urlsplit

from svc.errors import Problem, ServerError
from svc.operations.fields import Field, bad_request
from svc.operations.outbound import PORTS, HostRules

EXTENSIONS = (".csv", ".json")
TIMEOUT = 30.0  # seconds to connect, and without a byte
_NEEDED = ("aws_access_key_id", "aws_secret_access_key", "bucket", "key", "region")

T = TypeVar("T")

S3 = Field(
    "s3",
    "object",
    "Where the object is: `aws_access_key_id`, `aws_secret_access_key`, `bucket`, `key`, `region`.",
    required=True,
    missing="s3 is missing.",
    secret=True,
)


class Body(Protocol):
    """The content of an object, read in pieces."""

    def read(self, amt: int | None = None) -> bytes: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class S3Object:
    """An object and who may touch it."""

    aws_access_key_id: str = field(repr=False)
    aws_secret_access_key: str = field(repr=False)
    bucket: str
    key: str
    region: str


def read_target(value: Mapping[str, Any], *, extensions: tuple[str, ...] = EXTENSIONS) -> S3Object:
    """The checked `s3` field of a body. Raises 400 with a sentence for each member at fault.

    `extensions`: what the key has to end with; none for exports, which add their own.

    >>> read_target({"aws_access_key_id": "a", "aws_secret_access_key": "s", "bucket": "b", "key": "k.csv", "region": "r"})
    S3Object(bucket='b', key='k.csv', region='r')
    """
    faults = []
    for name in _NEEDED:
        given = value.get(name)
        if given is None or given == "":
            faults.append(f"{name} is missing.")
        elif not isinstance(given, str):
            faults.append(f"'{name}' must be a string")
    key = value.get("key")
    if isinstance(key, str) and key and extensions and not key.lower().endswith(extensions):
        shown = ", ".join(f"'{extension}'" for extension in extensions)
        faults.append(f"S3 key must include one of the following valid file extensions - {shown}")
    if faults:
        raise bad_request(*faults)
    return S3Object(**{name: value[name] for name in _NEEDED})


def require_library() -> None:
    """Raise 501 unless the client library is installed. Does not import it."""
    if find_spec("botocore") is None:
        raise ServerError("S3 support is not installed", 501)


def get_object(target: S3Object, rules: HostRules) -> Body:
    """The object's content, to be read in pieces and closed. Blocks. Raises Problem."""
    with _translated():
        body: Body = _client(target, rules).get_object(Bucket=target.bucket, Key=target.key)["Body"]
        return body


def put_object(target: S3Object, content: BinaryIO | bytes, rules: HostRules) -> dict[str, Any]:
    """Store the object; returns what S3 says of it (`ETag`, ...). `content`: a file at its beginning, or bytes. Blocks. Raises Problem."""
    with _translated():
        details = _client(target, rules).put_object(Bucket=target.bucket, Key=target.key, Body=content)
        return {name: value for name, value in details.items() if name != "ResponseMetadata" and isinstance(value, str | int | bool)}


def _client(target: S3Object, rules: HostRules) -> Any:
    """A client each of whose requests, repeated and redirected ones too, goes to a permitted host."""
    require_library()
    from botocore.config import Config  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from botocore.session import Session  # type: ignore[import-not-found, import-untyped, unused-ignore]

    session = Session()
    session.register_component("data_loader", _data_loader())
    client = session.create_client(
        "s3",
        aws_access_key_id=target.aws_access_key_id,
        aws_secret_access_key=target.aws_secret_access_key,
        region_name=target.region,
        config=Config(connect_timeout=TIMEOUT, read_timeout=TIMEOUT, retries={"max_attempts": 3, "mode": "standard"}),
    )

    # Bucket and region are part of the host's name, so what the library makes of them is checked, and not the fields. It resolves the name once more;
    # names below its endpoint are not the caller's.
    def check(request: Any, **_: Any) -> None:
        parts = urlsplit(request.url)
        rules.permitted(parts.hostname or "", parts.port or PORTS.get(parts.scheme, 443))

    client.meta.events.register("before-send.s3", check)
    return client


@functools.cache
def _data_loader() -> Any:
    """What reads the library's descriptions of the service, and keeps them: reading takes most of the time that a client takes to make."""
    from botocore.loaders import create_loader  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return create_loader()


class _translated:
    """Turns what the library raises into a Problem."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if error is not None and isinstance(error, Exception):
            problem = s3_problem(error)
            if problem is not None:
                raise problem from error


def s3_problem(error: Exception) -> ServerError | None:
    """The Problem for an exception of the library, also of reading a body; None for others. Only after the library has been used."""
    if isinstance(error, Problem):  # ours already, perhaps that the library is not there
        return None
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if isinstance(error, ClientError):
        details = error.response.get("Error", {})
        return ServerError(f"S3 refused the request: {details.get('Code', 'unknown')}, {details.get('Message', 'no message')}", 502)
    if isinstance(error, BotoCoreError | ValueError):  # ValueError: of an invalid region or endpoint
        return ServerError(f"S3 could not be reached: {type(error).__name__}", 502)
    return None
