"""The in-process interface of one server instance: the objects that its applications see as globals (spec: applications §1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from svc.analytics.recorder import IdleRecorder, Recorder
from svc.api.caching import TableCache
from svc.api.current import current, end_current, make_current
from svc.api.registry import ResourceRegistry
from svc.api.resource import Resource
from svc.api.running import TIMEOUT, RunningHandlers
from svc.api.statements import SqlFunction, Statements
from svc.api.table import Table, TableClass
from svc.api.thread_guard import note_loop_thread
from svc.api.threads import HelperThreads
from svc.api.transactions import TransactionFunction
from svc.content.registry import ContentTypes
from svc.query import QueryCache
from svc.resources import Resources, table_resource
from svc.siblings import Lead, lead_alone
from svc.store import Database, Store
from svc.store import Table as StoredTable
from svc.store.schema import DEFAULT_DATABASE

if TYPE_CHECKING:
    from svc.logs import Logger
    from svc.realtime.realtime import Realtime


class Tables(Mapping[str, type[Table]]):
    """The tables of one database: `tables.Product` or `tables["Product"]` is the class of a table."""

    def __init__(self, interface: Interface, database: str) -> None:
        self._interface = interface
        self._database = database
        self._classes: dict[str, type[Table]] = {}

    def _find(self) -> Database | None:
        return self._interface.store.find_database(self._database)

    def __getitem__(self, name: str) -> type[Table]:
        database = self._find()
        table = None if database is None else database.tables.get(name)
        if table is None:
            self._classes.pop(name, None)
            raise KeyError(name)
        known = self._classes.get(name)
        if known is None or known._table is not table:
            known = self._classes[name] = self._interface.make_table_class(table)
        return known

    def __getattr__(self, name: str) -> type[Table]:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the database {self._database} has no table {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        database = self._find()
        return iter(()) if database is None else iter(sorted(database.tables))

    def __len__(self) -> int:
        database = self._find()
        return 0 if database is None else len(database.tables)

    def __dir__(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        return f"<tables of {self._database}: {', '.join(self)}>"


class Databases(Mapping[str, Tables]):
    """All databases: `databases.shop.Product`, `databases["shop"]["Product"]`."""

    def __init__(self, interface: Interface) -> None:
        self._interface = interface
        self._tables: dict[str, Tables] = {}

    def __getitem__(self, name: str) -> Tables:
        if self._interface.store.find_database(name) is None and name != DEFAULT_DATABASE:
            raise KeyError(name)
        return self.of(name)

    def of(self, name: str) -> Tables:
        """The tables of a database, whether it is there or not yet."""
        tables = self._tables.get(name)
        if tables is None:
            tables = self._tables[name] = Tables(self._interface, name)
        return tables

    def __getattr__(self, name: str) -> Tables:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no database {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        self._interface.store.refresh()
        return iter(sorted(self._interface.store.databases))

    def __len__(self) -> int:
        return len(self._interface.store.databases)

    def __dir__(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        return f"<databases: {', '.join(self)}>"


class Interface:
    """The objects of one server instance. `server`: set when the instance is built."""

    def __init__(
        self,
        store: Store,
        registry: Resources,
        queries: QueryCache,
        realtime: Realtime | None,
        loop: asyncio.AbstractEventLoop,
        logger: Logger | None = None,
        content_types: ContentTypes | None = None,
        handler_timeout: float = TIMEOUT,
    ) -> None:
        """To be made on the thread of the loop. `handler_timeout`: seconds that a handler may take to answer."""
        note_loop_thread()
        self.store = store
        self.registry = registry
        self.queries = queries
        self.realtime = realtime
        self.loop = loop
        self.logger: Any = logger
        self.content_types = content_types
        self.server: Any = None
        self.auth: Any = None
        self.on_code: Callable[[Path, str], None] = lambda directory, name: None
        """Called with the directory of an application before its modules are loaded, and with its name."""
        self.on_dropped: Callable[[CodeType, int], bool] = lambda code, instruction: False
        """Called for a call that was never awaited, with the code and the instruction that asked for it. Returns whether it is logged."""
        self.on_end: list[Callable[[], None]] = []  # called when no code of an application runs any more
        self.recorder: Recorder = IdleRecorder()
        self.lead: Callable[..., Lead] = lead_alone
        """As `Siblings.lead`."""
        self.find_mail: Callable[[], Any] = lambda: None
        """The `mail.service.MailService` of the instance; None: mail is not configured."""
        self.caches: set[TableCache] = set()  # of tables with a source
        self.Resource = Resource
        self.transaction = TransactionFunction(lambda: self)
        self.sql = SqlFunction(lambda: self)
        self.statements: Statements | None = None  # what runs SQL; None: nothing does
        self.threads = HelperThreads()
        self.running: RunningHandlers = RunningHandlers(store.clock, handler_timeout)
        self.app_configs: dict[str, Mapping[str, Any]] = {}  # package of the modules of an application -> its configuration
        self.app_servers: dict[str, Any] = {}  # ... -> its `server`
        self.app_directories: dict[str, tuple[str, Path]] = {}  # ... -> its name and its directory
        self.versions: int = 0  # of applications that have been loaded
        self.resources: ResourceRegistry = ResourceRegistry(self)
        self.databases = Databases(self)
        self.tables = self.databases.of(DEFAULT_DATABASE)

    def make_table_class(self, table: StoredTable) -> type[Table]:
        """The class of a table."""
        served = table_resource(table, self.store, self.queries, realtime=self.realtime)
        members = {
            "_table": table,
            "_served": served,
            "_interface": self,
            "__module__": "svc.tables",
            "__doc__": table.definition.description,
        }
        made: Any = TableClass(table.name, (Table,), members)
        made._is_complete = True
        return made  # type: ignore[no-any-return]

    def global_of(self, name: str, module: str) -> Any:
        """The object that `from svc import name` gives to a module."""
        if name == "config":
            return self.app_config(module)
        if name == "server":
            return _of_module(self.app_servers, module, self.server)
        if name == "resources":
            return getattr(_of_module(self.app_servers, module, None), "resources", self.resources)
        if name == "mail":
            from svc.api.mail import Mail  # few applications send any

            return Mail(self, *_of_module(self.app_directories, module, ("", None)))
        if name in ("is_main_thread", "worker_index"):
            return getattr(self.server, name)
        return getattr(self, "content_types" if name == "contentTypes" else name)

    def app_config(self, module: str) -> Mapping[str, Any]:
        """The configuration of the application that a module belongs to."""
        found: Mapping[str, Any] = _of_module(self.app_configs, module, {})
        return found

    def module_globals(self) -> dict[str, Any]:
        """The names that a module of an application finds without importing them."""
        return {
            "tables": self.tables,
            "databases": self.databases,
            "Resource": self.Resource,
            "auth": self.auth,
            "sql": self.sql,
            "logger": self.logger,
            "server": self.server,
            "content_types": self.content_types,
            "contentTypes": self.content_types,
        }

    def make_current(self) -> None:
        """From now on code that belongs to no instance in particular works on this one."""
        make_current(self)

    def drop_unused_caches(self) -> None:
        """Tables whose sources have gone are no caches any more."""
        for cache in [cache for cache in self.caches if cache.drop_unused()]:
            self.caches.discard(cache)

    def close(self) -> None:
        """The instance has ended."""
        self.threads.close()
        for cache in self.caches:
            cache.close()
        end_current(self)

    def end(self) -> None:
        """No code of an application runs any more: nothing of it is kept."""
        while self.on_end:
            self.on_end.pop()()


def _of_module(by_package: Mapping[str, Any], module: str, default: Any) -> Any:
    """The value of the application that a module belongs to."""
    return next((value for package, value in by_package.items() if module == package or module.startswith(f"{package}.")), default)


transaction = TransactionFunction(current)
