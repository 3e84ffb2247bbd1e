"""What tests of applications import from svc.testing. Written by `svc types`; do not edit."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeAlias, TypedDict, Unpack

Caller: TypeAlias = str | Mapping[str, Any] | None

class Headers(Mapping[str, str]):
    """svc.testing.answer.Headers: get_all, __getitem__, __iter__, __len__"""

class Answer:
    """svc.testing.answer.Answer: is_success, content_type, decoded_content, text, json"""

    request: str
    status: int
    headers: Headers
    content: bytes
    early_hints: list[Headers]

class PendingRequest:
    """svc.testing.requests.PendingRequest: is_answered, answer, __await__, cancel"""

class Event:
    """svc.testing.streams.Event: __getitem__, __getattr__"""

    data: Any
    name: str
    id: str | None

class Stream(list[Any]):
    """svc.testing.streams.Stream: is_open, error, close"""

    def take(self) -> list[Any]: ...

class Rows(Stream):
    """svc.testing.streams.Rows"""

    ids: list[Any]
    events: list[Event]

class Socket(list[Any]):
    """svc.testing.sockets.Socket: is_open, send, close, cancel, take"""

    close_code: int | None
    close_reason: str
    subprotocol: str | None

class Message:
    """svc.testing.mqtt.Message: json"""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int
    properties: Mapping[int, Any]
    content_type: str | None
    user_properties: list[tuple[str, str]]

class MqttClient(list[Message]):
    """svc.testing.mqtt.MqttClient: session_present, subscribe, unsubscribe, publish, ping, acknowledge, disconnect, cancel, take"""

    client_id: str
    version: int
    is_open: bool
    reason: int | None
    reason_string: str

class SentMail:
    """svc.testing.records.SentMail"""

    to: str
    subject: str
    text: str
    html: str | None

class LogEntry:
    """svc.testing.records.LogEntry"""

    level: str
    text: str
    application: str
    tags: tuple[str, ...]

class Time:
    """svc.testing.application.Time: advance, now, seconds"""

class CallOptions(TypedDict, total=False):
    """svc.testing.requests.CallOptions"""

    headers: Mapping[str, str] | None
    user: Caller

class RequestOptions(CallOptions, total=False):
    """svc.testing.requests.RequestOptions"""

    data: Any
    seconds: float

class Requests:
    """svc.testing.requests.Requests: as_user, get, head, post, put, patch, delete, query, options, request"""

    def send(
        self, method: str, path: str, json: Any = ..., *, data: Any = None, headers: Mapping[str, str] | None = None, user: Caller = ...
    ) -> PendingRequest: ...

class Application(Requests):
    """svc.testing.application.Application: server, modules, module, statuses, operation, run_job, run, settle, events, live, connect, mqtt, close, __enter__,
    __exit__"""

    instance: Any
    clock: Time
    logs: list[LogEntry]
    directory: Path
    @property
    def tables(self) -> Any: ...
    @property
    def databases(self) -> Any: ...
    @property
    def mails(self) -> list[SentMail]: ...

class LoadError(AssertionError):
    """svc.testing.instance.LoadError"""

class NotEnded(AssertionError):
    """svc.testing.instance.NotEnded"""

"""svc.testing.application: app"""
