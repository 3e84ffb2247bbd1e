"""One application: its entries, and the switch from one version of them to the next (spec: configuration §9.2).

    config.yaml -> entries loaded aside, by phase -> the switch -> what starts afterwards

A failing entry gets status `error` and a log line. At the first load everything else of the application starts, and the addresses of what failed answer
with the reason. Later, nothing of a version with a failing entry takes effect: the version before goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from svc.apps.address_conflicts import conflict_of
from svc.apps.code import CodeVersion
from svc.apps.config_file import CONFIG_FILE, DEFAULT_CONFIG, options_of, read_config
from svc.apps.entry import LoadedEntry, Runtime
from svc.apps.entry_load import EntryLoad, kinds_of, traceback_of
from svc.apps.faults import class_addresses, fault_registrations, schema_addresses, text_of
from svc.apps.files import FileSet
from svc.apps.kinds import READ_BY_SERVER, kind_of, remark_on_unknown
from svc.apps.modules import ApplicationModules
from svc.apps.packages import DIRECTORY, PROJECT, REQUIREMENTS
from svc.apps.reading import line_of
from svc.apps.schema_entry import rest_options, warn_of_rest
from svc.apps.status import ERROR, EntryStatus, worst
from svc.listeners.routes import make_route
from svc.store.schema import TableDefinition

CONFIG = "config"
PACKAGES = "packages"
"""The keys of statuses that are no entries': of config.yaml itself, and of the packages that the application needs."""

RESTART_WANTED = "asks for a restart of the service"

GOES_ON = "the version before goes on serving"
"""The last message of an entry that cannot be loaded once more."""

Decide = Callable[[list[str]], Awaitable[bool]]
"""Gets the faults of a version that is loaded aside. Returns whether it is to serve; else the version before goes on, or nothing does."""

Known = Mapping[str, Mapping[str, TableDefinition]]


class App:
    """`config`: of the version that serves. `entries`: key of config.yaml -> how it went. `definitions`: of its tables. `url_path`, `host`: where it is
    mounted. `known`: database -> type name -> definition of the other applications."""

    def __init__(
        self,
        name: str,
        directory: Path,
        config: Mapping[str, Any] | None = None,
        entries: Mapping[str, EntryStatus] | None = None,
        *,
        runtime: Runtime | None = None,
        known: Known | None = None,
        url_path: str | None = None,
        host: str | None = None,
    ) -> None:
        self.name = name
        self.directory = directory
        self.config: Mapping[str, Any] = config or {}
        self.entries: dict[str, EntryStatus] = dict(entries or {})
        self.definitions: list[TableDefinition] = []
        self.url_path = url_path
        self.host = host
        self.known: Known = known or {}
        self.code: CodeVersion | None = None
        self.is_serving = False
        """Whether a version of it is in effect."""
        self.restart_wanted: list[str] = []
        """The entries that ask for a restart, until all of it is loaded."""
        self.role_files: dict[str, str] = {}
        """Name of a role that it brings along -> the file."""
        self.loads = 0
        """How often all of it has been loaded."""
        self.served_directory = directory
        """Of the version in effect, links resolved: `directory` may be a link, which leads to another one after a deployment."""
        self._given_runtime = runtime
        self._loaded: dict[str, LoadedEntry] = {}

    @property
    def _runtime(self) -> Runtime:
        assert self._given_runtime is not None
        return self._given_runtime

    @property
    def status(self) -> str:
        return worst({entry.status for entry in self.entries.values()})

    @property
    def modules(self) -> ApplicationModules | None:
        return None if self.code is None else self.code.modules

    @property
    def has_config_file(self) -> bool:
        return self.config is not DEFAULT_CONFIG

    def loaded(self, key: str) -> LoadedEntry | None:
        """The entry that is in effect."""
        return self._loaded.get(key)

    @property
    def has_root_page(self) -> bool:
        """Whether it has a page of its own at `/`, as far as that is known without asking for it."""
        return any(entry.has_root_page for entry in self._loaded.values())

    def keys_of_plugin(self, name: str) -> list[str]:
        """Of the entries that another application, which is a plugin, handles."""
        return [key for key, entry in self._loaded.items() if entry.plugin == name]

    def has_failed(self, key: str) -> bool:
        status = self.entries.get(key)
        return status is not None and status.status == ERROR

    @property
    def has_failed_schema(self) -> bool:
        """Whether the schema in effect has errors, so that tables of it may be missing."""
        return any(entry.is_read_by_code and entry.context.status.status == ERROR for entry in self._loaded.values())

    def ask_for_restart(self, key: str) -> None:
        if key not in self.restart_wanted:
            self.restart_wanted.append(key)
            self._runtime.report(self.name, "warn", f"{key}: {RESTART_WANTED}")
        status = self.entries.get(key)
        if status is not None and RESTART_WANTED not in status.messages:
            status.warn(RESTART_WANTED)

    def known_definitions(self) -> Known:
        """Of the tables of the other applications."""
        return self.known

    # --- loading -------------------------------------------------------------------------------------------------------------------------

    async def load(self, keys: Collection[str] | None = None, decide: Decide | None = None) -> bool:
        """Load all entries, or those of `keys`, and switch to them. Returns False if the version before goes on, or nothing could be loaded."""
        status = EntryStatus(checked_ms=self._now_ms())
        config = await self._read_config(status)
        if config is None:
            if decide is not None:
                await decide(faults_of({CONFIG: status}))
            return False
        if keys is not None:
            keys = {*keys, *(key for key, entry in self._loaded.items() if entry.goes_with(keys))}
        load = EntryLoad(self, self._runtime, config, self.code, keys)
        if keys is None:
            load.statuses[CONFIG] = status
        former_config, self.config = self.config, config
        try:
            await load.run()
            is_accepted = await _accepted(load, decide) if decide is not None else not (self.is_serving and load.has_failed)
        except BaseException:
            self.config = former_config
            raise
        if not is_accepted:
            load.discard()
            self.config = former_config
            self._go_on(load.statuses)
            return False
        self._switch(load.loaded, load.code, load.keys)
        await self._after_switch(load)
        return True

    async def _read_config(self, status: EntryStatus) -> Mapping[str, Any] | None:
        """config.yaml, or that of an application without one. None: it cannot be used, or the application cannot be mounted where it shall be."""
        try:
            make_route(self.host, self.url_path, app=self.name)
        except (TypeError, ValueError) as error:
            status.fail(f"the entry '{self.name}' in the configuration of the service: {_in_configuration(error)}")
            await self._refuse_config(status)
            return None
        try:
            return await self._runtime.in_thread(read_config, self.directory)  # type: ignore[no-any-return]
        except (OSError, ValueError) as error:
            status.fail(f"{CONFIG_FILE}: {error}")
            await self._refuse_config(status)
            return None

    def _go_on(self, statuses: Mapping[str, EntryStatus]) -> None:
        """A version with faults does not take effect: say so at the entries that have them."""
        for key, status in statuses.items():
            if status.status == ERROR:
                status.messages.append(GOES_ON)
            if status.status == ERROR or key == CONFIG:
                self._take_status(key, status)

    async def _after_switch(self, load: EntryLoad) -> None:
        """Start the entries that are in effect now, and note how all has gone."""
        statuses = load.statuses
        for key in [key for key in self.entries if key not in statuses and (load.keys is None or key in load.keys)]:
            del self.entries[key]
        for key, entry in load.loaded.items():
            self._find_conflicts(entry, statuses[key])
        self._runtime.on_switched(self, statuses)
        for key, entry in load.loaded.items():
            await _to_status(entry.start(), statuses[key])
        for key, entry in load.loaded.items():
            await _to_status(entry.complete(), statuses[key])
        await self._warn_of_unknown(self.config, statuses)
        if load.code is not None and load.keys is None:
            await self._warn_of_packages(statuses)
        for key, status in statuses.items():
            self._take_status(key, status)

    async def _warn_of_unknown(self, config: Mapping[str, Any], statuses: dict[str, EntryStatus]) -> None:
        if CONFIG in statuses:
            warn_of_rest(rest_options(config), statuses[CONFIG])
        if config is DEFAULT_CONFIG:
            return
        unknown = [
            key
            for key, entry in config.items()
            if entry and key not in statuses and key not in READ_BY_SERVER and kind_of(key, entry) is None
        ]
        text = await self._runtime.in_thread(text_of, self.directory / CONFIG_FILE) if unknown else ""
        for key in unknown:
            statuses[key] = EntryStatus()
            statuses[key].warn(f"{CONFIG_FILE}{line_of(text, key)}: {remark_on_unknown(key)}", unknown=True)

    async def _warn_of_packages(self, statuses: dict[str, EntryStatus]) -> None:
        messages: list[str] = await self._runtime.in_thread(_unmet_requirements, self.directory)
        if messages:
            statuses[PACKAGES] = EntryStatus()
            for message in messages:
                statuses[PACKAGES].warn(message)

    async def _refuse_config(self, status: EntryStatus) -> None:
        """The configuration cannot be read: nothing changes; at the first load, what the default files have answers with the reason."""
        if self.is_serving:
            status.messages.append(GOES_ON)
        else:
            addresses = await self._runtime.in_thread(_default_addresses, self.directory)
            registry = self._runtime.resources
            registry.change(fault_registrations(addresses, self.name, status, self), registry.owned_by(self))
        self._take_status(CONFIG, status)

    # --- the switch ------------------------------------------------------------------------------------------------------------------

    def _switch(self, loaded: Mapping[str, LoadedEntry], code: CodeVersion | None, keys: Collection[str] | None) -> None:
        """`keys`: of the entries that are replaced; None: all."""
        registry = self._runtime.resources
        removed = registry.owned_by(self)
        for entry in loaded.values():
            entry.prepare_switch()
        for key, former in list(self._loaded.items()):
            if keys is not None and key not in keys and (code is None or former.context.code is None):
                continue
            del self._loaded[key]
            removed += registry.owned_by(former)
            former.withdraw()
        if keys is None or code is not None:
            if self.code is not None:
                removed += registry.owned_by(self.code)
                if code is None:
                    self.code.withdraw()
            self.code = code
        added = [registration for entry in loaded.values() for registration in entry.registrations]
        if code is not None:
            registrations, faults = code.activate()
            added += registrations
            for fault in faults:
                owner = next((each for each in loaded.values() if each.context.code is code), None)
                if owner is not None:
                    owner.context.status.fail(f"{type(fault).__name__}: {fault}", traceback_of(fault))
        self._loaded.update(loaded)
        self.is_serving = True
        if keys is None:
            self.restart_wanted.clear()
            self.loads += 1
            self.served_directory = self.directory.resolve()
        for entry in loaded.values():
            entry.activate()
        registry.change(added, removed)

    def _find_conflicts(self, entry: LoadedEntry, status: EntryStatus) -> None:
        newest = {registration.path: registration for registration in entry.registrations}
        for registration in newest.values():
            if registration.fault and not registration.load_fault:
                status.fail(f"{entry.place_of(registration)}{conflict_of(self._runtime.resources, registration)}")

    def withdraw(self) -> None:
        """The application goes."""
        self._switch({}, None, None)
        self.is_serving = False
        self.entries.clear()
        self.definitions = []

    async def all_loaded(self) -> None:
        """All applications of the service have been loaded, at its start."""
        for entry in list(self._loaded.values()):
            await _to_status(entry.all_loaded(), entry.context.status)

    # --- changed files -----------------------------------------------------------------------------------------------------------------

    async def change(self, names: Sequence[str], *, reloads_code: bool) -> list[str]:
        """Files have been added, changed or removed: paths below the application. Returns those of Python code, unless it `reloads_code`.

        After a deployment `directory` is that of another version, of which nothing is taken alone.
        """
        if self.is_serving and self.directory.resolve() != self.served_directory:
            if reloads_code:
                await self.load()
            return [] if reloads_code else list(names)
        has_failed = (
            self.status == ERROR if reloads_code else self.has_failed(CONFIG)
        )  # by this file perhaps: then it takes a load to know better
        if CONFIG_FILE in names and not has_failed and await self._change_options():
            names = [name for name in names if name != CONFIG_FILE]
        if CONFIG_FILE in names or any(entry.needs_whole_load(names) for entry in self._loaded.values()):
            if reloads_code:
                await self.load()
                return []
            return list(names)
        has_code = self.code is not None
        modules = [name for name in names if name.endswith(".py")]
        keys, waiting = await self._change_entries(names)
        code_keys = {key for key, kind in kinds_of(self.config) if kind.is_code}
        if not reloads_code:
            keys -= code_keys
        elif modules or any(self._loaded[key].is_read_by_code for key in keys):
            keys |= code_keys
        if keys or not self.is_serving:
            await self.load(keys if self.is_serving else None)
        return [*modules, *waiting] if has_code and not reloads_code else []

    async def _change_entries(self, names: Sequence[str]) -> tuple[set[str], list[str]]:
        """Let each entry take over the files that concern it. Returns the keys of those that have to be loaded again, and the names of files of entries
        with code among them."""
        keys: set[str] = set()
        waiting: list[str] = []
        for key, entry in list(self._loaded.items()):
            own = entry.concerned_by(names)
            if own and not await self._guarded(key, entry, entry.change(own)):
                keys.add(key)
                if entry.context.code is not None:
                    waiting += own
        return keys, waiting

    def contains(self, name: str) -> bool:
        """Whether the file of this name, a path below the application, is one of any of its entries."""
        return any(entry.contains(name) for entry in self._loaded.values())

    async def _guarded(self, key: str, entry: LoadedEntry, changing: Awaitable[Any]) -> Any:
        """What it returns; True if it raises, which goes to the status."""
        status = entry.context.status
        status.begin()
        try:
            done = await changing
        except Exception as error:
            status.fail(f"{type(error).__name__}: {error}", traceback_of(error))
            done = True
        self._take_status(key, status)
        return done

    async def _change_options(self) -> bool:
        """config.yaml has changed. Returns whether that needs no more: all entries whose options differ have taken them over."""
        try:
            config = await self._runtime.in_thread(read_config, self.directory)
        except (OSError, ValueError):
            return False
        if not self.is_serving or config is DEFAULT_CONFIG or not self.has_config_file:
            return False
        keys = [key for key in {**self.config, **config} if self.config.get(key) != config.get(key)]
        for key in keys:
            entry = self._loaded.get(key)
            if entry is None or not isinstance(config.get(key), Mapping) or not entry.takes_options(options_of(config[key])):
                return False
        self.config = config
        if self.code is not None:
            self.code.modules.use_config(config)
        for key in keys:
            entry = self._loaded[key]
            await self._guarded(key, entry, entry.change_options(options_of(config[key]), config))
        return True

    # --- statuses --------------------------------------------------------------------------------------------------------------------

    def fail(self, error: Exception) -> None:
        """Loading has raised what it should have caught."""
        status = EntryStatus()
        status.fail(f"{type(error).__name__}: {error}", traceback_of(error))
        self._take_status(CONFIG, status)

    def _take_status(self, key: str, status: EntryStatus) -> None:
        status.end(self._now_ms())
        self.entries[key] = status
        for is_fault, message in status.graded():
            self._runtime.report(self.name, "error" if is_fault or message == GOES_ON else "warn", f"{key}: {message}")
        for details in status.details:
            self._runtime.report(self.name, "debug", f"{key}: {details}")

    def _now_ms(self) -> int:
        return int(self._runtime.clock.wall() * 1000)

    def __repr__(self) -> str:
        return f"<App {self.name} {self.status}>"


async def _accepted(load: EntryLoad, decide: Decide) -> bool:
    try:
        return await decide(faults_of(load.statuses))
    except BaseException:
        load.discard()
        raise


async def _to_status(starting: Awaitable[None], status: EntryStatus) -> None:
    """Wait for what an entry does once it is in effect; what that raises is a fault of it."""
    try:
        await starting
    except Exception as error:
        status.fail(f"{type(error).__name__}: {error}", traceback_of(error))


def faults_of(statuses: Mapping[str, EntryStatus]) -> list[str]:
    """Why a version cannot be loaded, `key: text` each."""
    found = [(key, text) for key, status in statuses.items() if status.status == ERROR for text in status.messages]
    return [f"{key}: {text}" for key, text in found if text != GOES_ON]


def _default_addresses(directory: Path) -> list[str]:
    """Those that the default files of an application have, as far as they can be read."""
    addresses: list[str] = []
    for pattern, find in (("*.graphql", schema_addresses), ("resources.py", lambda text: class_addresses(text, ""))):
        for match in FileSet(directory, pattern).matches():
            addresses += find(text_of(match.path))
    return addresses


def _in_configuration(error: Exception) -> str:
    return str(error).replace("url_path", "urlPath")


def _unmet_requirements(directory: Path) -> list[str]:
    """What is to be said of the packages of an application. Reads files: for a helper thread."""
    if not any((directory / name).exists() for name in (REQUIREMENTS, PROJECT, DIRECTORY)):
        return []
    from svc.apps.requirements import unmet_requirements  # with the libraries for it: 20 ms

    return unmet_requirements(directory)
