"""Load one application directory (spec: configuration §9.1, §9.2).

A failing entry gets status `error` and a log line; everything else of the application, and every other application, starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from svc.apps.modules import ApplicationModules, Exported, ModuleFault, exports, register
from svc.apps.roles_file import DEFAULT_FILE, apply_roles, read_roles
from svc.apps.schema_files import load_schema_files
from svc.errors import SchemaError
from svc.query import QueryCache
from svc.resources import Resources, TableResource, table_resource
from svc.store import Store
from svc.store.schema import TableDefinition

if TYPE_CHECKING:
    from svc.api.interface import Interface
    from svc.realtime.realtime import Realtime

# Without a config.yaml (spec: configuration §9.1).
DEFAULT_CONFIG: Mapping[str, Any] = {
    "rest": True,
    "graphqlSchema": {"files": "*.graphql"},
    "roles": {"files": DEFAULT_FILE},
    "resources": {"files": "resources.py"},
}
_ALIASES = {"jsResource": "resources"}

_ORDER = {"roles": 1, "resources": 2}
_SERVED = frozenset(("rest", "login"))  # entries that the server reads itself


@dataclass(slots=True)
class EntryStatus:
    """`status`: "healthy", "warning" or "error"."""

    status: str = "healthy"
    messages: list[str] = field(default_factory=list)

    def warn(self, message: str) -> None:
        self.messages.append(message)
        if self.status == "healthy":
            self.status = "warning"

    def fail(self, message: str) -> None:
        self.messages.append(message)
        self.status = "error"


@dataclass(slots=True)
class App:
    """A loaded application. `entries`: key of config.yaml -> how it went."""

    name: str
    directory: Path
    config: Mapping[str, Any]
    entries: dict[str, EntryStatus] = field(default_factory=dict)
    definitions: list[TableDefinition] = field(default_factory=list)
    modules: ApplicationModules | None = None

    @property
    def status(self) -> str:
        statuses = {entry.status for entry in self.entries.values()}
        return next((s for s in ("error", "warning") if s in statuses), "healthy")


def load_app(
    directory: Path,
    store: Store,
    resources: Resources,
    queries: QueryCache,
    known: Mapping[str, Mapping[str, TableDefinition]],
    *,
    operations: Mapping[str, bool] | None = None,
    realtime: Realtime | None = None,
    interface: Interface | None = None,
) -> App:
    """Read the application in `directory`, define its tables, register its resources, bring its roles.

    `known`: database -> type name -> definition of the applications loaded before (spec: schema-and-store §1.5). `operations`: each
    operation and group -> whether the list of a role may hold it, None: it may hold anything. `realtime`: the source of the events of its tables.
    `interface`: what its Python modules see; None: they are not loaded.
    """
    app = App(directory.resolve().name, directory, {})
    status = app.entries["config"] = EntryStatus()
    try:
        app.config = read_config(directory)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        status.fail(f"config.yaml: {error}")
        return app
    # Roles and Python code refer to tables, so they come after the schema, in any order of the file.
    for name, entry in sorted(app.config.items(), key=lambda item: _ORDER.get(_ALIASES.get(item[0], item[0]), 0)):
        key = _ALIASES.get(name, name)
        if not entry or key in _SERVED:
            continue
        status = app.entries[name] = EntryStatus()
        if key == "graphqlSchema":
            _load_schema(app, entry, status, store, resources, queries, known, realtime)
        elif key == "roles":
            _load_roles(app, entry, status, store, operations)
        elif key == "resources":
            if interface is not None:
                _load_modules(app, entry, status, interface)
        else:
            status.warn(f"'{key}' is not available in this version of svc and was skipped")
    return app


def read_config(directory: Path) -> Mapping[str, Any]:
    """`config.yaml`, which replaces the defaults entirely, or the defaults."""
    path = directory / "config.yaml"
    if not path.exists():
        return DEFAULT_CONFIG
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ValueError("must be a mapping of entries")
    return {str(key): value for key, value in loaded.items()}


def matching_files(directory: Path, files: Any) -> list[tuple[str, Path]]:
    """(path below `directory` with slashes, file) for `files` of an entry: a glob, a list of them, or `{source, ignore}` (spec: configuration §9.1)."""
    ignored: set[Path] = set()
    if isinstance(files, dict):
        ignored = {path for _, path in matching_files(directory, files["ignore"])} if files.get("ignore") else set()
        files = files.get("source")
    patterns = files if isinstance(files, list) else [files]
    found: dict[str, Path] = {}
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            raise ValueError(f"files: {pattern!r} is not a pattern")
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise ValueError(f"files: '{pattern}' leads out of the application")
        for path in directory.glob("**/*" if pattern == "." else pattern.removeprefix("./")):
            if path.is_file() and path not in ignored:
                found[path.relative_to(directory).as_posix()] = path
    return sorted(found.items())


def _files_of(app: App, entry: Any, status: EntryStatus, default: str) -> list[tuple[str, Path]]:
    """The files of an entry, whose `files` may also be the entry itself. What is wrong with them goes to `status`."""
    pattern = entry.get("files", default) if isinstance(entry, dict) else entry if isinstance(entry, str) else default
    try:
        files = matching_files(app.directory, pattern)
    except ValueError as error:
        status.fail(str(error))
        return []
    if not files and app.config is not DEFAULT_CONFIG:
        status.warn(f"no file matches {pattern!r}")
    return files


def _rest_options(app: App) -> Mapping[str, Any]:
    rest = app.config.get("rest")
    return rest if isinstance(rest, dict) else {}


def _table_options(options: Mapping[str, Any]) -> dict[str, bool]:
    """What the options of `rest` say of the resources of tables."""
    return {
        "allow_full_scan": bool(options.get("allowFullScan")),
        "shows_record_count": bool(options.get("includeExpensiveRecordCountEstimates")),
    }


def _load_roles(app: App, entry: Any, status: EntryStatus, store: Store, operations: Mapping[str, bool] | None) -> None:
    for name, path in _files_of(app, entry, status, DEFAULT_FILE):
        try:
            roles = read_roles(path)
        except (OSError, ValueError) as error:
            status.fail(f"{name}: {error}")
            continue
        for fault in apply_roles(roles, store, operations):
            status.fail(f"{name}: {fault}")


def _load_modules(app: App, entry: Any, status: EntryStatus, interface: Interface) -> None:
    files = _files_of(app, entry, status, "resources.py")
    if not files:
        return
    modules = app.modules = ApplicationModules(interface, app.name, app.directory, app.config)
    options = _rest_options(app)
    protocols = {"ws": False} if options.get("webSocket") is False else {}
    if not app.config.get("rest"):
        protocols = {"rest": False, "ws": False, "sse": False}
    for name, path in files:
        try:
            module = modules.load(path)
            found = list(exports(module, name[: name.rfind("/") + 1]))
        except ModuleFault as fault:
            status.fail(f"{name}: {fault}")
            continue
        for exported in found:
            try:
                fault_of_address = register(interface, exported, protocols, **_table_options(options))
            except ValueError as error:
                fault_of_address = str(error)
            if fault_of_address:
                status.fail(
                    f"{name}: {exported.resource.__qualname__} at /{exported.address}: {fault_of_address}{_hint(interface, exported)}"
                )


def _hint(interface: Interface, exported: Exported) -> str:
    """What to do about a class that is derived from a table which is exported at the same address."""
    table = exported.resource._table
    claims = interface.registry.claims(exported.address)
    if table is None or not any(
        not hasattr(claim.resource, "application") and getattr(claim.resource, "table", None) is table for claim in claims
    ):
        return ""
    return f", for type {table.name} is exported there: remove its @export, or give the class another name"


def _load_schema(
    app: App,
    entry: Any,
    status: EntryStatus,
    store: Store,
    resources: Resources,
    queries: QueryCache,
    known: Mapping[str, Mapping[str, TableDefinition]],
    realtime: Realtime | None,
) -> None:
    pattern = entry.get("files", "*.graphql") if isinstance(entry, dict) else entry if isinstance(entry, str) else "*.graphql"
    files: list[tuple[str, str]] = []
    try:
        for name, path in matching_files(app.directory, pattern):
            try:
                files.append((name, path.read_text(encoding="utf-8")))
            except (OSError, UnicodeDecodeError) as error:
                status.fail(f"{name}: {error}")
    except ValueError as error:
        status.fail(str(error))
        return
    result = load_schema_files(files, known)
    for warning in result.warnings:
        status.warn(warning)
    for failure in result.errors:
        status.fail(failure)
    options = _rest_options(app)
    for definition in result.definitions:
        try:
            table = store.open_database(definition.database).define_table(definition)
        except SchemaError as error:
            status.fail(f"table {definition.database}.{definition.name}: {error}")
            continue
        app.definitions.append(definition)
        if app.config.get("rest") and definition.export is not None:
            resource = table_resource(
                table,
                store,
                queries,
                path=definition.export.path,
                realtime=realtime,
                **_table_options(options),
            )
            protocols = dict(definition.export.protocols)
            if options.get("webSocket") is False:
                protocols["ws"] = False
            if resources.set(definition.export.path, resource, protocols).fault:
                status.fail(_conflict(resources, definition))


def _conflict(resources: Resources, definition: TableDefinition) -> str:
    """The message about a path of several tables."""
    assert definition.export is not None
    path = definition.export.path
    others = [claim.resource for claim in resources.claims(path)[:-1]]
    names = [f"{each.table.database.name}.{each.table.name}" if issubclass(each, TableResource) else each.__qualname__ for each in others]
    return (
        f"table {definition.database}.{definition.name} is exported as /{path}, and so is {' and '.join(names)}:"
        " every request there is answered 500 until one of them has another @export(name: ...)"
    )
