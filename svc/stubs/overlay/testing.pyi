"""What tests of applications import from svc.testing. Written by `svc types`; do not edit."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeAlias

Caller: TypeAlias = str | Mapping[str, Any] | None

class Headers(Mapping[str, str]):
    """The fields of an answer; names in any case. Of a field that comes several times: the values with `, ` in between; `get_all` has each."""
    def get_all(self, name: str) -> list[str]: ...
    def __getitem__(self, name: str) -> str: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

class Answer:
    """`status`; `headers`; `content`: the bytes of the body as they were sent; `text`, `json`: decoded. `early_hints`: headers of the 103 before it."""

    request: str
    status: int
    headers: Headers
    content: bytes
    early_hints: list[Headers]
    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
    @property
    def content_type(self) -> str:
        """Without its parameters; "" if there is none."""
    @property
    def decoded_content(self) -> bytes:
        """The content without its `Content-Encoding`. Raises AssertionError if it cannot be undone."""
    @property
    def text(self) -> str:
        """Raises AssertionError if it is none."""
    @property
    def json(self) -> Any:
        """The content as JSON. Raises AssertionError if it is none."""

class PendingRequest:
    """A request under way. `await` it in an `async` test, or ask for its `answer()`."""
    @property
    def is_answered(self) -> bool: ...
    def answer(self, *, seconds: float = ...) -> Answer:
        """Wait for it, for so many seconds of the test's clock. Raises NotEnded."""
    def __await__(self) -> Any: ...
    def cancel(self) -> None:
        """The client goes away."""

class Event:
    """One event of a stream. `data`: decoded, if it is JSON; `name`: its `event` field; `id`: its `id` field, None without one.

    It is equal to its data, and has their members: `event["type"]`, `event.type`.
    """

    data: Any
    name: str
    id: str | None
    def __getitem__(self, key: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class Stream(list[Any]):
    """The events of an event stream."""

    def take(self) -> list[Any]:
        """What is there, which is removed from the list."""
    @property
    def is_open(self) -> bool: ...
    @property
    def error(self) -> str | None: ...
    def close(self) -> None:
        """The client goes away."""

class Rows(Stream):
    """The rows of a live query, as of now. `ids`: theirs; `events`: from which they were made."""

    ids: list[Any]
    events: list[Event]

class LogEntry:
    level: str
    text: str
    tags: tuple[str, ...]
    @property
    def application(self) -> str: ...

class Time:
    """The clock of the application. It stands still, except while something is waited for that needs time."""
    def advance(self, seconds: float) -> None:
        """Let so many seconds pass: timers run, schedules are due, records expire."""
    @property
    def now(self) -> datetime: ...
    @property
    def seconds(self) -> float:
        """Since the epoch."""

class Requests:
    """Makes requests as one user. Each is sent over a connection of its own through the whole server, and answered as on the network.

    `cookies`: that answers have set; they are sent as by a browser.
    """

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
    ) -> Answer:
        """Make a request and wait for its answer. `json`: a value for the body. `data`: bytes or text for the body, or a dict for a form. `headers`: a dict.
        `user`: None is an anonymous caller, a name that of a user, a dict one with a role (`Caller`); default: the super user.
        """
    def send(
        self, method: str, path: str, json: Any = ..., *, data: Any = None, headers: Mapping[str, str] | None = None, user: Caller = ...
    ) -> PendingRequest:
        """Begin a request: several may be under way. See `request`."""
    def as_user(self, user: Caller) -> Requests:
        """The same application for another user, with cookies of its own: see `request`."""

class Application(Requests):
    """An application on an instance of its own, without ports and with an empty store.

    `clock`: see Time. `logs`: what has been logged, the latest last. `instance`: what it runs on. A context manager that ends it.
    """

    instance: Any
    clock: Time
    logs: list[LogEntry]
    directory: Path
    @property
    def tables(self) -> Any:
        """The tables of the database `data`. Their methods return results, not awaitables; to code that `run` runs they are as to the application's."""
    @property
    def databases(self) -> Any: ...
    def events(self, path: str, *, headers: Mapping[str, str] | None = None, user: Caller = ...) -> Stream:
        """The event stream at a path, as a list that grows. Options: `headers`, `user`. Raises AssertionError if there is none."""
    def live(self, path: str, *, headers: Mapping[str, str] | None = None, user: Caller = ...) -> Rows:
        """The rows of a live query, as a list that is kept up to date. `path`: of the query; `live()` is added."""
    @property
    def server(self) -> Any:
        """`server`, as the code of the application sees it."""
    @property
    def modules(self) -> list[ModuleType]:
        """The modules of the application that its configuration names, as they are loaded."""
    def module(self, name: str) -> Any:
        """A module of the application: `resources`, `shop.orders`. Raises LookupError if it is not loaded."""
    @property
    def statuses(self) -> dict[str, Any]:
        """Entry of config.yaml -> how it was loaded: `status`, `messages`."""
    def operation(self, name: str, **fields: Any) -> Any:
        """The answer of an operation. Raises Problem."""
    def run(self, awaitable: Any, *, seconds: float = ...) -> Any:
        """The result of an awaitable, run on the event loop of the application; anything else is returned as it is."""
    def settle(self) -> None:
        """Wait until nothing more happens by itself, while the time stands still. Requests and `run` do so at their end."""
    def close(self) -> None:
        """End the application and remove its data."""
    def __enter__(self) -> Application: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None: ...

class LoadError(Exception): ...
class NotEnded(Exception): ...

def app(
    directory: str | Path = ".", *, check: bool = True, now: datetime | float | None = None, patience: float = 10, **settings: Any
) -> Application:
    """Start the application in `directory`; `close` it, or use it as a context manager."""
