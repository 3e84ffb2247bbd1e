"""What tests of applications import from svc.testing. Written by `svc types`; do not edit."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeAlias

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

class LogEntry:
    level: str
    text: str
    tags: tuple[str, ...]
    @property
    def application(self) -> str: ...

class Time:
    """svc.testing.application.Time: advance, now, seconds"""

class Requests:
    """svc.testing.requests.Requests: as_user"""

    def get(
        self, path: str, *, data: Any = None, headers: Mapping[str, str] | None = None, user: Caller = ..., seconds: float = ...
    ) -> Answer: ...
    def head(self, path: str, *, headers: Mapping[str, str] | None = None, user: Caller = ..., seconds: float = ...) -> Answer: ...
    def post(
        self,
        path: str,
        json: Any = ...,
        *,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        user: Caller = ...,
        seconds: float = ...,
    ) -> Answer: ...
    def put(
        self,
        path: str,
        json: Any = ...,
        *,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        user: Caller = ...,
        seconds: float = ...,
    ) -> Answer: ...
    def patch(
        self,
        path: str,
        json: Any = ...,
        *,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        user: Caller = ...,
        seconds: float = ...,
    ) -> Answer: ...
    def delete(self, path: str, *, headers: Mapping[str, str] | None = None, user: Caller = ..., seconds: float = ...) -> Answer: ...
    def query(
        self,
        path: str,
        json: Any = ...,
        *,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        user: Caller = ...,
        seconds: float = ...,
    ) -> Answer: ...
    def options(self, path: str, *, headers: Mapping[str, str] | None = None, user: Caller = ..., seconds: float = ...) -> Answer: ...
    def request(
        self,
        method: str,
        path: str,
        json: Any = ...,
        *,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        user: Caller = ...,
        seconds: float = ...,
    ) -> Answer: ...
    def send(
        self, method: str, path: str, json: Any = ..., *, data: Any = None, headers: Mapping[str, str] | None = None, user: Caller = ...
    ) -> PendingRequest: ...

class Application(Requests):
    """svc.testing.application.Application: server, modules, module, statuses, operation, run, settle, close, __enter__, __exit__"""

    instance: Any
    clock: Time
    logs: list[LogEntry]
    directory: Path
    @property
    def tables(self) -> Any: ...
    @property
    def databases(self) -> Any: ...
    def events(self, path: str, *, headers: Mapping[str, str] | None = None, user: Caller = ...) -> Stream: ...
    def live(self, path: str, *, headers: Mapping[str, str] | None = None, user: Caller = ...) -> Rows: ...

class LoadError(Exception): ...
class NotEnded(Exception): ...

def app(
    directory: str | Path = ".", *, check: bool = True, now: datetime | float | None = None, patience: float = 10, **settings: Any
) -> Application:
    """Start the application in `directory`; `close` it, or use it as a context manager."""
