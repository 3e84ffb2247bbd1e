"""The entry `graphqlSchema`: tables, and the resources of those that are exported (spec: schema-and-store §1).

Tables are defined while the entry is loaded, for the code of the application refers to them. A version whose schema has faults defines none, unless it
is the first: then those that are right are served.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from svc.apps.config_file import options_of
from svc.apps.entry import EntryContext, LoadedEntry, ServedApplication
from svc.apps.faults import class_addresses, fault_registrations, schema_addresses, text_of
from svc.apps.files import FileSet
from svc.apps.reading import read_limited
from svc.apps.schema_files import SchemaResult, load_schema_files
from svc.apps.schema_kept_rules import KeptRules, settle_rules, with_kept_rules
from svc.apps.schema_leftovers import LeftoverTask
from svc.apps.schema_rules import NamedRole, unknown_roles
from svc.apps.schema_uniqueness import UniqueLater, UniquenessTask, define, without_unique
from svc.apps.status import EntryStatus
from svc.auth.roles import role_names, roles_with_rights
from svc.errors import SchemaError
from svc.resources import make_registration, table_resource
from svc.store import Store, Table
from svc.store.schema import TableDefinition
from svc.store.writing.unique_proof import unproved

DEFAULT_FILES = "*.graphql"
MAX_SIZE = 4 << 20  # bytes of a file
REST_OPTIONS = ("path", "lastModified", "webSocket", "allowFullScan", "includeExpensiveRecordCountEstimates", "sandbox")

WITHOUT_REST = {"rest": False, "ws": False, "sse": False}
"""Flags of the resources of an application without the entry `rest`."""


class SchemaEntry(LoadedEntry):
    """`definitions`: of the tables that it has defined, without the rules about rows that other applications declare. `roles`: those that rules name.
    `kept`: tables that still have rules, though they are declared without."""

    definitions: list[TableDefinition]
    roles: list[NamedRole]
    kept: list[KeptRules]
    is_read_by_code = True
    leftovers: LeftoverTask | None = None
    uniqueness: UniquenessTask | None = None

    def activate(self) -> None:
        super().activate()
        self.context.app.definitions = self.definitions

    async def start(self) -> None:
        if self.leftovers is not None:
            await self.leftovers.start()
        if self.uniqueness is not None:
            await self.uniqueness.start()

    async def complete(self) -> None:
        """Of the roles that are named, the application may have brought some along."""
        if self.roles:
            for warning in unknown_roles(self.roles, role_names(self.context.runtime.store.databases)):
                self.context.status.warn(warning)

    async def all_loaded(self) -> None:
        await settle_rules(self.kept, self.context)

    def needs_whole_load(self, names: Sequence[str]) -> bool:
        return self.ends_load

    def withdraw(self) -> None:
        if self.leftovers is not None:
            self.leftovers.cancel()
        if self.uniqueness is not None:
            self.uniqueness.cancel()
        super().withdraw()


async def load_schema(context: EntryContext) -> LoadedEntry:
    app, status, runtime = context.app, context.status, context.runtime
    entry = SchemaEntry(context)
    entry.definitions, entry.roles, entry.kept = [], [], []
    try:
        entry.file_set = context.files(DEFAULT_FILES)
        matches = [match for match in await runtime.in_thread(entry.file_set.matches) if not match.is_directory]
    except ValueError as error:
        status.fail(str(error))
        return entry
    files: list[tuple[str, str]] = []
    for match in matches:
        try:
            files.append((match.name, await runtime.in_thread(_read, match.path)))
        except (OSError, ValueError) as error:
            status.fail(f"{match.name}: {error}")
    if not files and app.has_config_file and not status.messages:
        status.warn(f"no file matches {context.options.get('files', DEFAULT_FILES)!r}")
    result: SchemaResult = await runtime.in_thread(load_schema_files, files, app.known_definitions())
    for fault in result.faults:
        if not fault.error:
            status.warn(str(fault), unknown=fault.unknown)
    for failure in result.errors:
        status.fail(failure)
    if result.errors and app.is_serving:
        return entry
    entry.ends_load, entry.roles = result.ends_load, result.roles
    options = rest_options(app.config)
    defined: list[Table] = []
    later: list[UniqueLater] = []
    for declared in result.definitions:
        definition = declared
        try:
            database = runtime.store.open_database(definition.database)
            definition = with_kept_rules(declared, database, context)
            late = () if app.is_serving else unproved(database, definition)
            change, known, table = await define(database, without_unique(definition, late) if late else definition)
        except SchemaError as error:
            status.fail(f"table {definition.database}.{definition.name}: {error}")
            entry.ends_load = entry.ends_load or bool(definition.allow)
            continue
        entry.definitions.append(result.as_declared(definition))
        if definition is not declared:
            entry.kept.append(KeptRules(table, is_final=bool(late)))
        if definition.renamed_from is not None:
            _warn_of_former_name(runtime.store, definition, known, status)
        for each in change.changes if known is not None else ():
            runtime.report(app.name, "info", f"{context.key}: {definition.database}.{definition.name}: {each.sentence}")
        defined.append(table)
        if late:
            later.append(UniqueLater(table, definition, late))
        _register(entry, definition, table, options)
    if entry.ends_load:
        return await _without_rules(entry, files, options)
    entry.leftovers = LeftoverTask(context, defined)
    entry.uniqueness = UniquenessTask(context, later, entry.leftovers)
    if status.status == "error":
        served = {registration.path for registration in entry.registrations}
        addresses = [address for address in _addresses(files, options) if address not in served]
        entry.registrations += fault_registrations(addresses, app.name, status, entry)
    return entry


def _register(entry: SchemaEntry, definition: TableDefinition, table: Table, options: Mapping[str, Any]) -> None:
    """Make a resource of the table if it is exported. `options`: of `rest`."""
    app, status, runtime = entry.context.app, entry.context.status, entry.context.runtime
    if definition.export is None or not (app.config.get("rest") or app.config.get("graphql")):
        return
    path = rest_prefix(options) + definition.export.path
    resource = table_resource(table, runtime.store, runtime.queries, path=path, realtime=runtime.realtime, **table_options(options))
    protocols = dict(definition.export.protocols)
    if options.get("webSocket") is False:
        protocols["ws"] = False
    if not app.config.get("rest"):
        protocols |= WITHOUT_REST
    try:
        entry.registrations.append(make_registration(path, resource, protocols, owner=entry))
    except ValueError as error:
        status.fail(f"table {definition.database}.{definition.name} is exported as /{path}: {error}")


def _addresses(files: Iterable[tuple[str, str]], options: Mapping[str, Any]) -> list[str]:
    """Of the tables that the files export, as far as can be seen."""
    return [rest_prefix(options) + address for _, text in files for address in schema_addresses(text)]


async def _without_rules(entry: SchemaEntry, files: Iterable[tuple[str, str]], options: Mapping[str, Any]) -> SchemaEntry:
    """Rules about rows could not be applied: whatever the application serves could show rows that they would hide, so it serves nothing."""
    context = entry.context
    context.status.warn("nothing of the application is served: without the rules of its schema, rows would be seen that are to be hidden")
    addresses = _addresses(files, options) + await context.runtime.in_thread(_code_addresses, context.app, options)
    entry.registrations = fault_registrations(addresses, context.app.name, context.status, entry)
    return entry


def _code_addresses(app: ServedApplication, options: Mapping[str, Any]) -> list[str]:
    """Of the classes in the modules of the entry `resources`. Reads files."""
    if not app.config.get("resources"):
        return []
    own = options_of(app.config["resources"])
    try:
        matches = FileSet(app.directory, own.get("files", "resources.py"), own.get("urlPath"), app=app.name).matches()
    except ValueError:
        return []
    found: list[str] = []
    for match in matches:
        if match.path.suffix == ".py" and not match.is_directory:
            directory = rest_prefix(options) + match.url_path[1 : match.url_path.rfind("/") + 1]
            found += class_addresses(text_of(match.path), directory)
    return found


def _warn_of_former_name(store: Store, definition: TableDefinition, known: Table | None, status: EntryStatus) -> None:
    """Rights do not go with a name: warn of roles that have some on the former table. `known`: the table before it got its definition."""
    database, former, name = definition.database, definition.renamed_from, definition.name
    if known is not None and known.name == name and former in store.databases[database].tables:
        status.warn(f"{name}: @renamedFrom has no effect, since there are both tables, {former} and {name}")
    if known is None or known.name != former:
        return
    roles = roles_with_rights(store.databases, database, former)
    if roles:
        status.warn(f"the table {former} is {name} now: rights that roles have on {former} do not hold for it ({', '.join(roles)})")


def _read(path: Path) -> str:
    """Raises OSError, ValueError."""
    raw = read_limited(path, MAX_SIZE)
    if len(raw) > MAX_SIZE:
        raise ValueError(f"is larger than {MAX_SIZE} bytes")
    return raw.decode("utf-8")


def rest_options(config: Mapping[str, Any]) -> Mapping[str, Any]:
    rest = config.get("rest")
    return rest if isinstance(rest, dict) else {}


def rest_prefix(options: Mapping[str, Any]) -> str:
    """What all addresses of the application begin with, by the option `path` of `rest`.

    >>> rest_prefix({"path": "/api/v1/"}), rest_prefix({})
    ('api/v1/', '')
    """
    path = options.get("path")
    return f"{path.strip('/')}/" if isinstance(path, str) and path.strip("/") else ""


def warn_of_rest(options: Mapping[str, Any], status: EntryStatus) -> None:
    """Say what of the options of `rest` has no effect."""
    for name in options:
        if name in ("port", "securePort"):
            status.warn(f"rest: {name} has no effect: resources are served on the ports of http")
        elif name not in REST_OPTIONS:
            status.warn(f"rest: there is no option {name!r}; there are {', '.join(REST_OPTIONS)}")
    path = options.get("path")
    if path is not None and (not isinstance(path, str) or ".." in path.split("/") or "?" in path or "#" in path):
        status.fail(f"rest: path is the beginning of addresses, such as /api, not {path!r}")


def table_options(options: Mapping[str, Any]) -> dict[str, bool]:
    """What the options of `rest` say of the resources of tables."""
    return {
        "allow_full_scan": bool(options.get("allowFullScan")),
        "shows_record_count": bool(options.get("includeExpensiveRecordCountEstimates")),
    }
