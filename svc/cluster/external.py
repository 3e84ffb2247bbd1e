"""Engines that run elsewhere: `replication.servers` and `replication.credentials` (spec: replication-engine §5)."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from svc.cluster.client import Address, Credentials
from svc.cluster.signing import SigningKey
from svc.errors import ClientError

PORT = 4222
_CREDENTIALS_MAX = 1 << 16  # bytes of a file
_PART = re.compile(r"-----BEGIN ([A-Z ]+)-----\s*([A-Za-z0-9_.=-]+)\s*-+END ")


def server_address(text: str, authorities: str = "") -> Address:
    """From `tls://host:port`, `nats://host:port` (plain) or `host:port`, which is with TLS. `authorities`: PEM of those that sign for it; "": the public ones.

    Raises ClientError. Reads files of the system.

    >>> server_address("nats://engine.example.org").url
    'nats://engine.example.org:4222'
    """
    try:
        parts = urlsplit(text if "://" in text else f"tls://{text}")
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host, port = None, 0
    if not host or parts.scheme not in ("tls", "nats") or parts.username is not None or parts.path.strip("/") or parts.query:
        raise ClientError(f"replication.servers: {text[:200]!r} is no address of an engine, such as tls://host:{PORT}", code="VALIDATION")
    if parts.scheme == "nats":
        return Address(host, port)
    try:
        context = ssl.create_default_context(cadata=authorities or None)
    except (ssl.SSLError, ValueError) as error:
        raise ClientError(f"the authorities of {text[:200]!r} cannot be read: {error}", code="VALIDATION") from None
    return Address(host, port, context, handshake_first=False)


def server_credentials(value: Any, root: Path) -> Credentials | None:
    """From a mapping with `username` and `password`, `token`, `seed` or `file`, or the path of a file of credentials as the engine's tools write it, relative
    to `root`. Raises ClientError; its text holds nothing secret."""
    if value is None:
        return None
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {"file": value}
    if not all(isinstance(each, str) and each for each in fields.values()):
        raise ClientError("replication.credentials: its fields are texts", code="VALIDATION")
    try:
        match sorted(fields):
            case ["password", "username"]:
                return Credentials(user=fields["username"], password=fields["password"])
            case ["token"]:
                return Credentials(token=fields["token"])
            case ["seed"]:
                return Credentials(SigningKey.from_seed(fields["seed"]))
            case ["file"]:
                with (root / Path(fields["file"]).expanduser()).open("rb") as stream:
                    found = dict(_PART.findall(stream.read(_CREDENTIALS_MAX).decode(errors="replace")))
                return Credentials(SigningKey.from_seed(found["USER NKEY SEED"]), found["NATS USER JWT"])
    except OSError as error:
        raise ClientError(f"replication.credentials: {error}", code="VALIDATION") from None
    except (KeyError, ValueError):
        raise ClientError("replication.credentials: it holds no credentials of an engine", code="VALIDATION") from None
    raise ClientError("replication.credentials: username and password, token, seed, or file", code="VALIDATION")
