"""One load of the entries of a config.yaml, aside: nothing of it is in effect before the switch (spec: configuration §9.2)."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from svc.apps.code import CodeVersion
from svc.apps.config_file import options_of
from svc.apps.entry import EntryContext, LoadedEntry, Runtime, ServedApplication
from svc.apps.kinds import Kind, is_built_in, kind_of
from svc.apps.status import ERROR, LOADING, EntryStatus


class EntryLoad:
    """The entries of one version of an application while they are loaded, and what has become of each.

    `keys`: of the entries that are loaded, and those that may have gone from config.yaml; None: all. `code`: the version of the Python code that they
    share. `statuses`: key -> how it goes; `loaded`: key -> entry.
    """

    def __init__(
        self, app: ServedApplication, runtime: Runtime, config: Mapping[str, Any], code: CodeVersion | None, keys: Collection[str] | None
    ) -> None:
        """`config`: the mapping of config.yaml. `code`: in effect, which that of this load replaces. `keys`: of the entries to load; those with code of
        the application are loaded together. None: all."""
        self.keys: set[str] | None = None
        self.code: CodeVersion | None = None
        self.statuses: dict[str, EntryStatus] = {}
        self.loaded: dict[str, LoadedEntry] = {}
        self._app = app
        self._runtime = runtime
        self._config = config
        self._former_code = code
        kinds = dict(kinds_of(config))
        self._chosen = {key: kind for key, kind in kinds.items() if keys is None or key in keys}
        self._has_code = any(kind.is_code for kind in self._chosen.values())
        if self._has_code:
            self._chosen = {key: kind for key, kind in kinds.items() if key in self._chosen or kind.is_code}
        if keys is not None:
            self.keys = {*keys, *self._chosen}

    @property
    def has_failed(self) -> bool:
        return any(status.status == ERROR for status in self.statuses.values())

    async def run(self) -> None:
        """Load, phase by phase. What is wrong in the application goes to the statuses. Raises for a defect, or the end of the task; then nothing is left
        behind."""
        try:
            if self._has_code:
                self.code = self._make_code()
            for key, kind in sorted(self._chosen.items(), key=lambda item: item[1].phase):
                status = self.statuses[key] = EntryStatus(LOADING)
                entry = await self._load(key, kind, status)
                if entry is not None:
                    self.loaded[key] = entry
                    if entry.ends_load:
                        break
        except BaseException:
            self.discard()
            raise

    def _make_code(self) -> CodeVersion | None:
        interface, app = self._runtime.interface, self._app
        if interface is None:
            return None
        return CodeVersion(
            interface, app.name, app.directory, self._config, url_path=app.url_path, host=app.host, replaces=self._former_code
        )

    async def _load(self, key: str, kind: Kind, status: EntryStatus) -> LoadedEntry | None:
        options = options_of(self._config[key])
        if is_built_in(key) and "package" in options:
            status.fail(f"'{key}' is built in: an entry that a plugin handles needs another name")
            return None
        code = self.code if kind.is_code else None
        context = EntryContext(self._app, key, options, status, self._runtime, code, self.loaded)
        try:
            return await kind.load(context)
        except Exception as error:  # a defect of ours: the rest of the application starts
            status.fail(f"{type(error).__name__}: {error}", traceback_of(error))
            return None
        finally:
            context.beside = {}  # they may be replaced before it is

    def discard(self) -> None:
        """It does not take effect."""
        for entry in self.loaded.values():
            entry.withdraw()
        if self.code is not None:
            self.code.withdraw()


def kinds_of(config: Mapping[str, Any]) -> Iterator[tuple[str, Kind]]:
    """The key and kind of each entry that is loaded."""
    for key, entry in config.items():
        kind = kind_of(key, entry)
        if kind is not None:
            yield key, kind


def traceback_of(error: BaseException) -> str:
    """The traceback as text, for the details of a status."""
    return "".join(traceback.format_exception(error))
