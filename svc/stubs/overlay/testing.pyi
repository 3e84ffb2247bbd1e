"""What tests of applications import from svc.testing. Written by `svc types`; do not edit."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeAlias, TypedDict, Unpack

Caller: TypeAlias = str | Mapping[str, Any] | None

class Headers(Mapping[str, str]):
    """The fields of an answer; names in any case. Of a field that comes several times: the values with `, ` in between; `get_all` has each."""
    def get_all(self, name: str) -> list[str]:
        """The values of the fields `name`, in their order."""
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
        """Wait for it, for so many `seconds` of the test's clock. Raises NotEnded."""
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

class Socket(list[Any]):
    """Messages: of a text what it is as JSON, or the text; bytes. `close_code`, `close_reason`: of the server's close frame, 1006 without one; None while it is
    open. `subprotocol`: that the server has chosen.
    """

    close_code: int | None
    close_reason: str
    subprotocol: str | None
    @property
    def is_open(self) -> bool: ...
    def send(self, message: Any) -> None:
        """Send `message`: a text or bytes as they are, anything else as JSON. Raises RuntimeError if the WebSocket is closed."""
    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close it as a client does, with `code` and `reason` in the close frame."""
    def cancel(self) -> None:
        """The client goes away without a word."""
    def take(self) -> list[Any]:
        """What is there, which is removed from the list."""

class Message:
    """A message that has come. `topic`; `payload`: bytes; `qos`, `retain`, `dup`: of the packet; `content_type` and `user_properties`: of version 5."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int
    properties: Mapping[int, Any]
    content_type: str | None
    user_properties: list[tuple[str, str]]
    @property
    def json(self) -> Any:
        """The payload as JSON. Raises AssertionError if it is none."""

class MqttClient(list[Message]):
    """The messages that have come, as a list that grows. `session_present`: the server knew the session. `reason`: why the connection has ended, a code of
    version 5; None while it is open, or where the server has not said.
    """

    client_id: str
    version: int
    is_open: bool
    reason: int | None
    reason_string: str
    @property
    def session_present(self) -> bool: ...
    def subscribe(
        self,
        filter: str,
        qos: int = 0,
        *,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        properties: Mapping[int, Any] = ...,
    ) -> int:
        """Subscribe to `filter` at `qos`; the QoS that is granted, or the code of the refusal. `no_local`, `retain_as_published`,
        `retain_handling` (0 to 2) and `properties`: of version 5.
        """
    def unsubscribe(self, filter: str) -> int:
        """The code of the answer for `filter`; 0 in version 3.1.1."""
    def publish(self, topic: str, payload: Any = b"", qos: int = 0, *, retain: bool = False, properties: Mapping[int, Any] = ...) -> int:
        """Publish `payload` to `topic` at `qos`: bytes, a text, or a value that is sent as JSON; `retain`: as the record there. Returns the code of the answer,
        when all of the exchange is over. `properties`: of version 5.
        """
    def ping(self) -> None:
        """PINGREQ; returns with its answer."""
    def acknowledge(self, message: Message) -> None:
        """Answer `message`, for a client that does not do so at once."""
    def disconnect(self, reason: int = 0, properties: Mapping[int, Any] = ...) -> None:
        """DISCONNECT with `reason` and `properties`: the will is not published, but with another reason than 0."""
    def cancel(self) -> None:
        """The client goes away without a word."""
    def take(self) -> list[Message]:
        """What is there, which is removed from the list."""

class SentMail:
    """`html`: None for one that has its text only."""

    to: str
    subject: str
    text: str
    html: str | None

class LogEntry:
    """`level`: "debug", "info", "warn", "error", "fatal" or "notify". `application`: its name; "" for what svc itself has logged. `tags`: as in the log."""

    level: str
    text: str
    application: str
    tags: tuple[str, ...]

class Time:
    """The clock of the application. It stands still, except while something is waited for that needs time."""
    def advance(self, seconds: float) -> None:
        """Let so many `seconds` pass: timers run, schedules are due, records expire."""
    @property
    def now(self) -> datetime: ...
    @property
    def seconds(self) -> float:
        """Since the epoch."""

class CallOptions(TypedDict, total=False):
    """Whose request it is: `user` None is an anonymous caller, a name that of a user, a dict one with a role; default: the super user."""

    headers: Mapping[str, str] | None
    user: Caller

class RequestOptions(CallOptions, total=False):
    """`data`: bytes or text for the body, or a dict for a form. `seconds`: of the test's clock, in which the answer must come."""

    data: Any
    seconds: float

class Requests:
    """Makes requests as one user. Each is sent over a connection of its own through the whole server, and answered as on the network.

    `cookies`: that answers have set; they are sent as by a browser.
    """

    def send(
        self, method: str, path: str, json: Any = ..., *, data: Any = None, headers: Mapping[str, str] | None = None, user: Caller = ...
    ) -> PendingRequest:
        """Begin a request, `method` at `path`: several may be under way. `json`, `data`, `headers`, `user`: see `request`."""
    def as_user(self, user: Caller) -> Requests:
        """The same application for another user, with cookies of its own. `user`: see `request`."""
    def get(self, path: str, **options: Unpack[RequestOptions]) -> Answer: ...
    def head(self, path: str, **options: Unpack[RequestOptions]) -> Answer: ...
    def post(self, path: str, json: Any = ..., **options: Unpack[RequestOptions]) -> Answer: ...
    def put(self, path: str, json: Any = ..., **options: Unpack[RequestOptions]) -> Answer: ...
    def patch(self, path: str, json: Any = ..., **options: Unpack[RequestOptions]) -> Answer: ...
    def delete(self, path: str, **options: Unpack[RequestOptions]) -> Answer: ...
    def query(self, path: str, json: Any = ..., **options: Unpack[RequestOptions]) -> Answer: ...
    def options(self, path: str, **options: Unpack[RequestOptions]) -> Answer: ...
    def request(
        self, method: str, path: str, json: Any = ..., *, data: Any = None, seconds: float = ..., **options: Unpack[CallOptions]
    ) -> Answer:
        """Make a request, `method` at `path`, and wait for its answer, for so many `seconds` of the test's clock. `json`: a value for the body. `data`:
        bytes or text for the body, or a dict for a form. Options: `headers`, a dict; `user`: None is an anonymous caller, a name that of a user, a dict one
        with a role (`Caller`); default: the super user.
        """

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
    @property
    def mails(self) -> list[SentMail]:
        """The mails that the application has sent, oldest first. In tests none leaves the process."""
    @property
    def server(self) -> Any:
        """`server`, as the code of the application sees it."""
    @property
    def modules(self) -> list[ModuleType]:
        """The modules of the application that its configuration names, as they are loaded."""
    def module(self, name: str) -> Any:
        """The module `name` of the application: `resources`, `shop.orders`. Raises LookupError if it is not loaded."""
    @property
    def statuses(self) -> dict[str, Any]:
        """Entry of config.yaml -> how it was loaded: `status`, `messages`."""
    def operation(self, name: str, /, **fields: Any) -> Any:
        """The answer of the operation `name` with these `fields`. Raises Problem."""
    def run_job(self, name: str, application: str | None = None, *, seconds: float = ...) -> dict[str, Any]:
        """Run the job `name` of `scheduler` now, whatever its schedule says. Returns `status`, `error` (the traceback, None without), `duration` and
        `number` of the run.

        `application`: where several have a job of that name. `seconds`: as for `run`. Raises Problem for one that is not there or is running.
        """
    def run(self, awaitable: Any, *, seconds: float = ...) -> Any:
        """The result of `awaitable`, run on the event loop of the application for up to so many `seconds` of the test's clock; anything else is
        returned as it is.
        """
    def settle(self) -> None:
        """Wait until nothing more happens by itself, while the time stands still. Requests and `run` do so at their end."""
    def events(self, path: str, **options: Unpack[CallOptions]) -> Stream:
        """The event stream at `path`, as a list that grows. Options: `headers`, `user`. Raises AssertionError if there is none."""
    def live(self, path: str, **options: Unpack[CallOptions]) -> Rows:
        """The rows of a live query, as a list that is kept up to date. `path`: of the query; `live()` is added. Options: `headers`, `user`."""
    def connect(self, path: str, **options: Unpack[CallOptions]) -> Socket:
        """A WebSocket to `path`, as a list of the server's messages that grows. Options: `headers`, `user`. Raises AssertionError if it is refused."""
    def mqtt(
        self,
        client_id: str = "",
        *,
        version: int = 5,
        clean: bool = True,
        keep_alive: int = 0,
        will: tuple[Any, ...] | None = None,
        acknowledges: bool = True,
        properties: Mapping[int, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> MqttClient:
        """A client of MQTT, connected; a list of the messages that come.

        `client_id`: "" has the server make one. `version`: 5, or 4 for MQTT 3.1.1. `clean`: without the session of before. `keep_alive`: seconds, 0: none.
        `will`: (topic, payload), perhaps with QoS, RETAIN and properties. `acknowledges`: messages at QoS 1 and 2 are answered at once. `properties`: of
        CONNECT, by their identifiers. Options: `user`. Raises AssertionError if it is refused.
        """
    def close(self) -> None:
        """End the application and remove its data."""
    def __enter__(self) -> Application: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None: ...

class LoadError(AssertionError):
    """The application, or an entry of it, could not be loaded."""

class NotEnded(AssertionError):
    """What the test waits for does not come."""

def app(
    directory: str | Path = ".", *, check: bool = True, now: datetime | float | None = None, patience: float | None = None, **settings: Any
) -> Application:
    """Start the application in `directory`; `close` it, or use it as a context manager.

    `check`: raise LoadError if a part of it cannot be loaded. `now`: what its clock shows at first, the time by default. `patience`: real seconds that
    a call may take; None: those of the environment, `SVC_TESTING_PATIENCE`, or 10. `settings`: by their names with `_` for the dots, `http_timeout=5`.
    Raises TypeError for an unknown setting, ConfigError.
    """
