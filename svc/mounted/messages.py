"""Messages of ASGI 3 (https://asgi.readthedocs.io/en/latest/specs/www.html): their types, and the checks of what an application sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from svc.messages import HeaderPairs
from svc.protocol.response_head import is_field_name, is_field_value

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApplication = Callable[[Scope, Receive, Send], Awaitable[None]]

VERSIONS = {"version": "3.0", "spec_version": "2.4"}
LIFESPAN_VERSIONS = {"version": "3.0", "spec_version": "2.0"}

_CONNECTION_FIELDS = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
"""Fields that are the server's: those of an application are not sent."""


_CHAIN = 10  # exceptions that another one is followed back


class MessageError(RuntimeError):
    """The application has sent something that ASGI does not allow here."""


class ClientDisconnected(OSError):
    """The client is gone: nothing can be sent to it any more."""

    def __init__(self) -> None:
        super().__init__("the client has disconnected")


def is_of_disconnection(error: BaseException) -> bool:
    """Whether an exception comes from a client that is gone: frameworks raise one of their own from ours."""
    found: BaseException | None = error
    for _ in range(_CHAIN):
        if found is None or isinstance(found, ClientDisconnected):
            return found is not None
        if isinstance(found, BaseExceptionGroup):
            return all(is_of_disconnection(each) for each in found.exceptions)
        found = found.__cause__ or found.__context__
    return False


def kind_of(message: Any) -> str:
    """The type of a message. Raises MessageError."""
    kind = message.get("type") if isinstance(message, MutableMapping) else None
    if not isinstance(kind, str):
        raise MessageError(f"a message is a mapping with a type, not {_shown(message)}")
    return kind


def status_of(message: Message) -> int:
    """The status of a final answer. Raises MessageError."""
    status = message.get("status")
    if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
        raise MessageError(f"{message['type']}: status is an integer from 200 to 599, not {_shown(status)}")
    return int(status)


def pairs_of(message: Message) -> HeaderPairs:
    """The header fields, without those of the connection. Raises MessageError."""
    pairs: HeaderPairs = []
    try:
        for raw_name, raw_value in message.get("headers") or ():
            name, value = bytes(raw_name).decode("latin-1"), bytes(raw_value).decode("latin-1").strip(" \t")
            if not is_field_name(name) or not is_field_value(value):
                raise MessageError(f"{message['type']}: not a header field: {_shown((raw_name, raw_value))}")
            if name.lower() not in _CONNECTION_FIELDS:
                pairs.append((name, value))
    except (TypeError, ValueError) as error:
        raise MessageError(f"{message['type']}: headers are pairs of bytes, not {_shown(message.get('headers'))}") from error
    return pairs


def body_of(message: Message) -> tuple[bytes, bool]:
    """(the piece of the body, whether more follows). Raises MessageError."""
    body = message.get("body", b"")
    if type(body) is not bytes:
        if not isinstance(body, bytes | bytearray | memoryview):
            raise MessageError(f"{message['type']}: body is bytes, not {_shown(body)}")
        body = bytes(body)
    return body, bool(message.get("more_body", False))


def length_of(pairs: HeaderPairs) -> int | None:
    """The announced length of the body. Raises MessageError for one that is no number, and for different ones."""
    found = {value for name, value in pairs if name.lower() == "content-length"}
    if not found:
        return None
    text = found.pop()
    if found or not (text.isascii() and text.isdecimal()):
        raise MessageError(f"not a Content-Length: {_shown(text)}")
    return int(text)


def _shown(value: Any) -> str:
    """For messages: not too long."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
