"""What the entries of a `config.yaml` become: loaded aside, put in effect together, replaced (spec: configuration §9.2).

load(context) -> LoadedEntry      reads, imports, checks; nothing of it is in effect yet. Faults go to `context.status`
activate()                        part of the switch: all entries that were loaded together take effect in one go, those before them end
start()                           afterwards: what takes long or writes to the store
withdraw()                        part of the switch to the next version, or the application goes
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from svc.apps.files import FileSet
from svc.apps.status import EntryStatus
from svc.clock import Clock
from svc.query import QueryCache
from svc.resources import Registration, Resources
from svc.siblings import Lead, lead_alone
from svc.store import Store

if TYPE_CHECKING:
    from svc.accounts.parts import AccountParts
    from svc.api.interface import Interface
    from svc.api.server import Server
    from svc.apps.code import CodeVersion
    from svc.realtime.realtime import Realtime
    from svc.scheduler import Scheduler
    from svc.static import FileCache
    from svc.store.schema import TableDefinition


PATIENCE = 5.0


class ServedApplication(Protocol):
    """What an entry needs of its application: `app.App`."""

    definitions: list[TableDefinition]
    role_files: dict[str, str]

    @property
    def name(self) -> str: ...
    @property
    def directory(self) -> Path: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def has_config_file(self) -> bool: ...
    @property
    def url_path(self) -> str | None: ...
    @property
    def host(self) -> str | None: ...
    @property
    def is_serving(self) -> bool: ...
    @property
    def has_failed_schema(self) -> bool: ...
    def known_definitions(self) -> Mapping[str, Mapping[str, TableDefinition]]: ...
    def loaded(self, key: str) -> LoadedEntry | None: ...


@dataclass
class Runtime:
    """What the applications of an instance work with. `interface`: None where no Python code is loaded. `grantable()`: each operation and group ->
    whether the list of a role may hold it, None: it may hold anything. `executor`: threads for what blocks. `components`: the entries of components in
    the configuration of the service. `report(application, level, text)` logs. `lead`: as `Siblings.lead`. `directory_of`: of another
    application, by its name. `scheduler`: None where no jobs run. `request_restart(application, key)`: an entry asks to be loaded once more.
    `hides_rules(application)`: whether others may have rules about rows that are not known, since they are not loaded yet, or could not be.
    `on_switched(app, statuses)`: a version is in effect, and its entries are about to start. `patience`: how long, in seconds, a load waits for an
    entry that goes on by itself behind the open ports; None: until its end."""

    store: Store
    resources: Resources
    queries: QueryCache
    loop: asyncio.AbstractEventLoop
    clock: Clock
    executor: Executor
    realtime: Realtime | None = None
    interface: Interface | None = None
    grantable: Callable[[], Mapping[str, bool] | None] = lambda: None
    components: Mapping[str, Any] = field(default_factory=dict)
    report: Callable[[str, str, str], None] = lambda application, level, text: None
    lead: Callable[..., Lead] = lead_alone
    scheduler: Scheduler | None = None
    answer_graphql: Callable[[Any], Any] | None = None
    """Answers a request at /graphql on a port of its own; None where there is no GraphQL."""
    serve_graphql: Callable[[Any, Any], Any] | None = None
    """The same for a WebSocket and its request."""
    file_cache: FileCache | None = None
    """Contents of the static files of all applications, once there is an entry of such."""
    directory_of: Callable[[str], Path | None] = lambda name: None
    request_restart: Callable[[str, str], None] = lambda application, key: None
    ending: set[asyncio.Task[Any]] = field(default_factory=set)
    """What entries that have been withdrawn still do."""
    on_switched: Callable[[ServedApplication, Mapping[str, EntryStatus]], None] = lambda app, statuses: None
    hides_rules: Callable[[str], bool] = lambda application: False
    patience: float | None = PATIENCE
    report_alone: Callable[[str, str, str], None] | None = None
    """Logs what is no part of a load, which is told of as a whole on the screen of `svc dev`; None: as `report`."""
    account_parts: Callable[[], AccountParts] | None = None
    """What accounts of applications work with, made when the first application has some; None: there are none."""
    large_data: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held for a large file of records: one of them is in memory at a time."""

    def tell(self, application: str, level: str, text: str) -> None:
        """Log what has happened while nothing was loaded."""
        (self.report_alone or self.report)(application, level, text)

    async def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What `function` returns or raises, called on a helper thread."""
        return await self.loop.run_in_executor(self.executor, function, *arguments)


@dataclass
class EntryContext:
    """One entry that is being loaded. `key`: its name in config.yaml. `options`: its mapping; empty for `true`. `status`: how it goes.

    `code`: modules and `server` of the version of the application's Python code that is being loaded; None without an interface. `beside`: by key, the
    entries of the same load that have been loaded before; empty when it is loaded.
    """

    app: ServedApplication
    key: str
    options: Mapping[str, Any]
    status: EntryStatus
    runtime: Runtime
    code: CodeVersion | None = None
    beside: Mapping[str, LoadedEntry] = field(default_factory=dict)

    def files(self, default: Any) -> FileSet:
        """The files of the entry, by its `files` and `urlPath`. Raises ValueError."""
        return FileSet(self.app.directory, self.options.get("files", default), self.options.get("urlPath"), app=self.app.name)

    def warn_of_unknown_options(self, known: Collection[str]) -> None:
        """Options of the entry that it does not have are a warning."""
        for name in self.options:
            if name not in known:
                self.status.warn(f"'{name}' is not an option of {self.key}; there is {', '.join(known)}")

    def make_server(self) -> Server:
        """A `server` for this entry alone: what is registered through it is in effect from `Server.activate` on, which `LoadedEntry` calls."""
        assert self.runtime.interface is not None
        server: Server = self.runtime.interface.server.of_application(
            self.app.name, url_path=self.app.url_path, host=self.app.host, staged=True
        )
        return server


class LoadedEntry:
    """One entry of an application that has been loaded. Kinds derive from it what they need.

    `registrations`: the resources that it registers. `server`: activated and withdrawn with it.
    """

    def __init__(self, context: EntryContext, files: FileSet | None = None) -> None:
        self.context = context
        self.file_set = files
        self.registrations: list[Registration] = []
        self.server: Server | None = None
        self.plugin = ""
        """The package of the plugin that handles it, which may be the name of an application; "": none does."""

    is_read_by_code = False
    """Whether the modules of the application have what it defines, and are loaded again with it."""

    ends_load = False
    """Whether nothing else of the application may be served, since rules about its rows could not be applied."""

    @property
    def has_root_page(self) -> bool:
        """Whether it has a page at `/`, as far as that is known without asking for it."""
        return any(not registration.path for registration in self.registrations)

    def activate(self) -> None:
        """Take effect; registrations have. Must not raise."""
        if self.server is not None:
            self.server.activate()

    def prepare_switch(self) -> None:
        """The switch to its version begins: nothing has been withdrawn yet. Must not raise."""

    async def start(self) -> None:
        """Do what may wait, once the entry is in effect. Faults go to `context.status`."""

    async def complete(self) -> None:
        """All entries of the load have been started. Faults go to `context.status`."""

    async def all_loaded(self) -> None:
        """All applications of the service have been loaded, at its start. Faults go to `context.status`."""

    def withdraw(self) -> None:
        """End; registrations have gone. Must not raise."""
        if self.server is not None:
            self.server.withdraw()

    async def change(self, names: Sequence[str]) -> bool:
        """Files of the entry have been added, changed or removed: paths below the application with slashes. Returns False if it has to be loaded again."""
        return False

    def concerned_by(self, names: Sequence[str]) -> list[str]:
        """Those of the changed files that `change` is asked about. Modules of the application are loaded again by themselves."""
        return [name for name in names if self.contains(name) and not (self.context.code is not None and name.endswith(".py"))]

    def needs_whole_load(self, names: Sequence[str]) -> bool:
        """Whether these changed files need a load of the whole application."""
        return False

    def place_of(self, registration: Registration) -> str:
        """What is put before a message about one of its registrations: its file, where that is known, and a colon."""
        return ""

    def goes_with(self, keys: Collection[str]) -> bool:
        """Whether it has to be loaded again when the entries of these keys are."""
        return False

    def takes_options(self, options: Mapping[str, Any]) -> bool:
        """Whether `change_options` can take over these."""
        return False

    async def change_options(self, options: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """Its options in config.yaml have changed. `config`: all of that."""

    def contains(self, name: str) -> bool:
        """Whether the file of this name is one of the entry's."""
        return self.file_set is not None and self.file_set.contains(name)


Loader = Callable[[EntryContext], Awaitable[LoadedEntry | None]]
"""Loads the entries of one kind. None: it has no effect. Raises nothing for what is wrong in the application: that goes to `context.status`."""
