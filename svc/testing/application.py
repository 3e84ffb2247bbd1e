"""`svc_app`: the application of a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from svc.api.results import Items
from svc.clock import FakeClock
from svc.testing.instance import FAR, Instance, LoadError
from svc.testing.records import LogEntry, SentMail
from svc.testing.requests import Callers, CallOptions, Requests, Wire
from svc.testing.sockets import HANDSHAKE, Socket
from svc.testing.streams import Rows, Stream
from svc.testing.tracebacks import is_hidden

if TYPE_CHECKING:
    from svc.testing.mqtt import MqttClient

__tracebackhide__ = is_hidden

EVENT_STREAM = "text/event-stream"
PARTS = ("config.yaml", "schema.graphql", "resources.py", "roles.yaml")


class Time:
    """The clock of the application. It stands still, except while something is waited for that needs time."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def advance(self, seconds: float) -> None:
        """Let so many `seconds` pass: timers run, schedules are due, records expire."""
        self._instance.advance(seconds)

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self._instance.clock.wall(), UTC)

    @property
    def seconds(self) -> float:
        """Since the epoch."""
        return self._instance.clock.wall()

    def __repr__(self) -> str:
        return f"<{self.now.isoformat()}>"


class SyncTable:
    """A table outside of the application's event loop: what its methods return is awaited, and of a search it is a list. To a coroutine given to `run` it is
    as to the application."""

    def __init__(self, instance: Instance, table: Any) -> None:
        self._instance = instance
        self._table = table

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._table, name)
        if not callable(value) or isinstance(value, type):
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            self._instance.require_open()
            result = value(*arguments, **options)
            if self._instance.is_running:
                return result
            found = self._instance.run(result)
            return self._instance.run(found.to_list()) if isinstance(found, Items) else found

        return call

    def __repr__(self) -> str:
        return repr(self._table)


class SyncTables(Mapping[str, SyncTable]):
    """`tables.Product`, `tables["Product"]`."""

    def __init__(self, instance: Instance, tables: Any) -> None:
        self._instance = instance
        self._tables = tables

    def __getitem__(self, name: str) -> SyncTable:
        return SyncTable(self._instance, self._tables[name])

    def __getattr__(self, name: str) -> SyncTable:
        if name.startswith("__"):
            raise AttributeError(name)
        return SyncTable(self._instance, getattr(self._tables, name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        return repr(self._tables)


class SyncDatabases(Mapping[str, SyncTables]):
    """`databases.shop.Product`, `databases["shop"]["Product"]`."""

    def __init__(self, instance: Instance, databases: Any) -> None:
        self._instance = instance
        self._databases = databases

    def __getitem__(self, name: str) -> SyncTables:
        return SyncTables(self._instance, self._databases[name])

    def __getattr__(self, name: str) -> SyncTables:
        if name.startswith("__"):
            raise AttributeError(name)
        return SyncTables(self._instance, getattr(self._databases, name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._databases)

    def __len__(self) -> int:
        return len(self._databases)


class Application(Requests):
    """An application on an instance of its own, without ports and with an empty store.

    `clock`: see Time. `logs`: what has been logged, the latest last. `instance`: what it runs on. A context manager that ends it.
    """

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance, Callers(instance))
        self.instance = instance
        self.clock = Time(instance)
        self.logs: list[LogEntry] = instance.logs
        self.directory = instance.directory

    # --- data and code ---------------------------------------------------------------------------------------------------------------

    @property
    def mails(self) -> list[SentMail]:
        """The mails that the application has sent, oldest first. In tests none leaves the process."""
        self.instance.require_open()
        service = self.instance.interface.find_mail()
        kept = [] if service is None else service.kept()
        return [SentMail(mail.to, mail.subject, mail.text, mail.html) for mail in kept]

    @property
    def tables(self) -> SyncTables:
        """The tables of the database `data`. Their methods return results, not awaitables; to code that `run` runs they are as to the application's."""
        self.instance.require_open()
        return SyncTables(self.instance, self.instance.interface.tables)

    @property
    def databases(self) -> SyncDatabases:
        self.instance.require_open()
        return SyncDatabases(self.instance, self.instance.interface.databases)

    @property
    def server(self) -> Any:
        """`server`, as the code of the application sees it."""
        code = self.instance.app.code
        return self.instance.server.application_server if code is None or code.server is None else code.server

    @property
    def modules(self) -> list[ModuleType]:
        """The modules of the application that its configuration names, as they are loaded."""
        modules = self.instance.app.modules
        return [] if modules is None else list(modules.loaded)

    def module(self, name: str) -> Any:
        """The module `name` of the application: `resources`, `shop.orders`. Raises LookupError if it is not loaded."""
        modules = self.instance.app.modules
        if modules is not None:
            import sys

            found = sys.modules.get(f"{modules.package}.{name}")
            if found is not None:
                return found
        raise LookupError(f"the application has loaded no module {name!r}")

    @property
    def statuses(self) -> dict[str, Any]:
        """Entry of config.yaml -> how it was loaded: `status`, `messages`."""
        return dict(self.instance.app.entries)

    def operation(self, name: str, /, **fields: Any) -> Any:
        """The answer of the operation `name` with these `fields`. Raises Problem."""
        self.instance.require_open()
        return self.run(self.instance.server.operations_interface.operations.perform({"operation": name, **fields}))

    def run_job(self, name: str, application: str | None = None, *, seconds: float = FAR) -> dict[str, Any]:
        """Run the job `name` of `scheduler` now, whatever its schedule says. Returns `status`, `error` (the traceback, None without), `duration` and
        `number` of the run.

        `application`: where several have a job of that name. `seconds`: as for `run`. Raises Problem for one that is not there or is running.
        """
        self.instance.require_open()
        state = self.run(self.instance.server.scheduler.run_now(application, name), seconds=seconds)
        return {"status": state.status, "error": state.error, "duration": state.duration, "number": state.number}

    # --- time ------------------------------------------------------------------------------------------------------------------------

    def run(self, awaitable: Any, *, seconds: float = FAR) -> Any:
        """The result of `awaitable`, run on the event loop of the application for up to so many `seconds` of the test's clock; anything else is
        returned as it is."""
        return self.instance.run(awaitable, seconds=seconds)

    def settle(self) -> None:
        """Wait until nothing more happens by itself, while the time stands still. Requests and `run` do so at their end."""
        self.instance.settle()

    # --- streams ---------------------------------------------------------------------------------------------------------------------

    def events(self, path: str, **options: Unpack[CallOptions]) -> Stream:
        """The event stream at `path`, as a list that grows. Options: `headers`, `user`. Raises AssertionError if there is none."""
        return Stream(*self._opened(path, _with_accept({**options})))

    def live(self, path: str, **options: Unpack[CallOptions]) -> Rows:
        """The rows of a live query, as a list that is kept up to date. `path`: of the query; `live()` is added. Options: `headers`, `user`."""
        if "live()" not in path:
            path += "&live()" if "?" in path else "?live()"
        return Rows(*self._opened(path, _with_accept({**options})))

    def connect(self, path: str, **options: Unpack[CallOptions]) -> Socket:
        """A WebSocket to `path`, as a list of the server's messages that grows. Options: `headers`, `user`. Raises AssertionError if it is refused."""
        return Socket(*self._opened(path, {**options, "headers": {**HANDSHAKE, **(options.get("headers") or {})}}))

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
        from svc.testing.mqtt import MqttClient, connect_packet

        caller = options.get("user", self._user)
        self._callers.authorization(caller)  # is verified from now on
        name = self._callers.username(caller)
        packet = connect_packet(
            client_id, version, clean, name, None if name is None else "", keep_alive, will, {} if properties is None else properties
        )
        return MqttClient(self._instance, packet, acknowledges=acknowledges)

    def _opened(self, path: str, options: dict[str, Any]) -> tuple[Wire, str]:
        return self._wire("GET", path, **options, on_data=lambda data: None), f"GET {path}"

    # --- the end ---------------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the application and remove its data."""
        self.instance.close()

    def __enter__(self) -> Application:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<application {self.directory.name}>"


def _with_accept(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "headers": {"Accept": EVENT_STREAM, **(options.get("headers") or {})}}


def app(
    directory: str | Path = ".", *, check: bool = True, now: datetime | float | None = None, patience: float | None = None, **settings: Any
) -> Application:
    """Start the application in `directory`; `close` it, or use it as a context manager.

    `check`: raise LoadError if a part of it cannot be loaded. `now`: what its clock shows at first, the time by default. `patience`: real seconds that
    a call may take; None: those of the environment, `SVC_TESTING_PATIENCE`, or 10. `settings`: by their names with `_` for the dots, `http_timeout=5`.
    Raises TypeError for an unknown setting, ConfigError.
    """
    path = Path(directory).absolute()
    if not path.is_dir():
        raise LoadError(f"there is no directory {path}")
    if not any((path / name).exists() for name in PARTS):
        raise LoadError(f"{path} holds no application: it has neither {' nor '.join(PARTS)}")
    wall = now.timestamp() if isinstance(now, datetime) else now
    clock = None if wall is None else FakeClock(wall=wall)
    return Application(Instance(path, settings, check=check, clock=clock, patience=patience))
