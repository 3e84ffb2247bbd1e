"""The body of an operation as the log shows it: without secrets, cut (spec: configuration §5.3).

A field is secret by its name, at any depth: passwords, tokens, keys, credentials, and what an operation declares secret. Addresses in
strings lose their user part and the values of parameters that look like secrets. The size of the result is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from functools import lru_cache
from typing import Any

HIDDEN = "***"

MAX_TEXT = 200  # characters of a string
MAX_ITEMS = 20  # of a list or an object
MAX_DEPTH = 4
MAX_VALUES = 200  # in all

BULKY = frozenset({"records", "data"})
"""Fields with records: only their size is shown."""

_SECRET = re.compile(
    r"password|passwd|passphrase|secret|authorization|credential|privatekey|apikey|accesskey|cookie|(?<!public)tokens?$|^keys?$|^payload$|^envelope$"
)
_KEY = re.compile(r"(svc_[0-9A-Za-z]{10})_[0-9A-Za-z]{16,}")  # also what is left of one that was cut off
_NOT_LETTERS = re.compile(r"[^a-z]")
_USER_PART = re.compile(r"([a-z][a-z0-9+.-]*://)[^/@\s]+@", re.IGNORECASE)
_PARAMETER = re.compile(
    r"([?&;](?:[^=&;\s]*(?:token|secret|password|signature|credential|api[_-]?key|access[_-]?key)[^=&;\s]*|sig|ticket)=)[^&;\s]+",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether a field of this name holds something that no log shows.

    >>> [is_secret(name) for name in ("password", "refresh_token", "aws_secret_access_key", "privateKey", "primary_key", "ids")]
    [True, True, True, True, False, False]
    """
    return _is_secret(name) if len(name) <= MAX_TEXT else _is_secret.__wrapped__(name[:MAX_TEXT])


@lru_cache(1000)
def _is_secret(name: str) -> bool:
    return _SECRET.search(_NOT_LETTERS.sub("", name.lower())) is not None


def redacted(body: Mapping[Any, Any], secrets: Set[str] = frozenset()) -> dict[str, Any]:
    """A copy of an operation's body for the log. `secrets`: further names of secret fields. Bounded in time and size; never raises.

    >>> redacted({"operation": "add_user", "username": "ann", "password": "x"})
    {'operation': 'add_user', 'username': 'ann', 'password': '***'}
    >>> redacted({"operation": "insert", "records": [{"id": 1}, {"id": 2}]})
    {'operation': 'insert', 'records': '2 items'}
    """
    return _Redaction(secrets).mapping(body, 0)


class _Redaction:
    def __init__(self, secrets: Set[str]) -> None:
        self._secrets = secrets
        self._left = MAX_VALUES

    def mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, inner in value.items():
            if len(found) == MAX_ITEMS:
                found["..."] = f"{len(value) - MAX_ITEMS} more"
                break
            key = name if isinstance(name, str) else str(name) if isinstance(name, int | float) else type(name).__name__
            if inner is not None and (key in self._secrets or is_secret(key)):
                found[_short(key)] = HIDDEN
            elif depth == 0 and key in BULKY:
                found[key] = _size(inner)
            else:
                found[_short(key)] = self._value(inner, depth + 1)
        return found

    def _value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if isinstance(value, str):
            return _short(without_credentials(value[: 4 * MAX_TEXT]), len(value))
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if -(2**63) <= value < 2**64 else "large number"
        if isinstance(value, float):
            return value
        if self._left < 0 or depth > MAX_DEPTH:
            return _size(value)
        if isinstance(value, Mapping):
            return self.mapping(value, depth)
        if isinstance(value, list | tuple):
            if len(value) > MAX_ITEMS:
                return _size(value)
            return [self._value(item, depth + 1) for item in value]
        return _size(value)


def _short(text: str, length: int = 0) -> str:
    length = length or len(text)
    return text if length <= MAX_TEXT and len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}... ({length} characters)"


def without_credentials(text: str) -> str:
    """A string with the user parts of its addresses removed, API keys, and the values of parameters that look like secrets.

    >>> without_credentials("/Plant/?token=x&name=fern")
    '/Plant/?token=***&name=fern'
    """
    text = without_keys(text)
    if "://" in text:
        text = _USER_PART.sub(rf"\1{HIDDEN}@", text)
    return _PARAMETER.sub(rf"\1{HIDDEN}", text) if "=" in text else text


def without_keys(text: str) -> str:
    """A string in which of API keys (`auth.api_key_format`) the public part is left.

    >>> without_keys("of svc_Zk3vR8aQ1x_Jq0bT5yVwK2mXcN9eLhD4sGfUoP3kXz9Q: no")
    'of svc_Zk3vR8aQ1x_***: no'
    """
    return _KEY.sub(rf"\1_{HIDDEN}", text) if "svc_" in text else text


def _size(value: Any) -> str:
    """A placeholder for a value that is not shown."""
    if isinstance(value, list | tuple):
        return f"{len(value)} item{'' if len(value) == 1 else 's'}"
    if isinstance(value, Mapping):
        return f"object of {len(value)}"
    if isinstance(value, str):
        return f"{len(value)} characters"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    return type(value).__name__
