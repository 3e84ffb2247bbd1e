"""The older form of a plugin: functions that are called for the entry and for each of its files (spec: plugins §4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from svc.apps.files import FileSet, MatchedFile
from svc.apps.plugins.calls import PluginCalls
from svc.apps.plugins.entries import read_some
from svc.apps.plugins.forms import NEWER, members_of
from svc.apps.plugins.tables import table_maker

Functions = dict[str, Callable[..., Any]]

_FOR_DIRECTORIES = ("setup_directory", "handle_directory")
_FOR_FILES = ("setup_file", "handle_file")
_ONCE = ("setup_directory", "setup_file", "start_on_main_thread")  # on the first instance of the node
_STARTS = ("start_on_main_thread", "start")


class OlderPlugin:
    """`file_set`: None without `files`."""

    def __init__(self, calls: PluginCalls, functions: Functions, resources: Any, server: Any) -> None:
        context = calls.context
        self._calls = calls
        self._functions = functions
        self._resources = resources
        self._server = server
        self._is_first = context.runtime.instance == 0
        self._known: set[str] = set()
        self._ended: tuple[str, ...] = ()  # what the names of files begin with in whose directory the search has ended
        self.file_set: FileSet | None = None
        if context.options.get("files") is not None:
            self.file_set = context.files(None)

    async def load(self) -> None:
        """Raises ModuleFault, PluginFault."""
        options = self._options()
        for name in _STARTS:
            function = self._functions.get(name)
            if function is not None and self._runs(name):
                made = await self._calls.run(function, dict(options), during=name)
                if made is not None:
                    found = members_of(made)
                    found.pop(NEWER, None)
                    self._functions = {**self._functions, **{each: value for each, value in found.items() if each not in _STARTS}}
        if self.file_set is not None:
            await self._handle(await self._calls.in_thread(self.file_set.matches))

    def _runs(self, name: str) -> bool:
        return name in self._functions and (self._is_first or name not in _ONCE)

    def _options(self) -> Mapping[str, Any]:
        context = self._calls.context
        interface = context.runtime.interface
        assert interface is not None
        http = self._server.config.get("http") or {}
        ports = {name: http.get(name) for name in ("port", "securePort")}
        ensure_table = table_maker(interface)
        return {
            **ports,
            **context.options,
            "server": self._server,
            "resources": self._resources,
            "ensure_table": ensure_table,
            "ensureTable": ensure_table,
        }

    async def _handle(self, matches: Sequence[MatchedFile]) -> None:
        """Directories come before what is in them; a function that returns something true for one ends the search in it."""
        position = 0
        while position < len(matches):
            read = await self._calls.in_thread(read_some, matches, position)
            position += len(read)
            for match, found in read:
                if match.name.startswith(self._ended):
                    continue
                if isinstance(found, str):
                    self._calls.warn(f"{match.name}: {found}")
                    continue
                if found is None:
                    continue
                self._known.add(match.name)
                await self._calls.give_way()
                if match.is_directory:
                    if await self._handle_directory(match):
                        self._ended += (f"{match.name}/",)
                else:
                    contents, _, remark = found
                    if remark:
                        self._calls.warn(f"{match.name}: {remark}")
                    for name in filter(self._runs, _FOR_FILES):
                        await self._call(name, contents, match.url_path, str(match.path), self._resources)

    async def _handle_directory(self, match: MatchedFile) -> bool:
        results = [
            await self._call(name, match.url_path, str(match.path), self._resources) for name in filter(self._runs, _FOR_DIRECTORIES)
        ]
        return any(results)

    async def _call(self, name: str, *arguments: Any) -> Any:
        """What the function returns; None if it raises, which goes to the status."""
        returned: list[Any] = []
        function = self._functions[name]

        def keep(value: Any) -> None:
            returned.append(value)

        place = arguments[-3]
        await self._calls.call(function, *arguments, during=f"{name} of {place}", take=keep)
        return returned[0] if returned else None

    async def changed(self, names: Sequence[str]) -> bool:
        """Call the functions for files that have been added or have changed. Returns False for others: the functions cannot be told that one is gone."""
        if self.file_set is None:
            return True
        matches = {match.name: match for match in await self._calls.in_thread(self.file_set.matches)}
        if any(name in self._known and name not in matches for name in names):
            return False
        wanted = [match for name, match in matches.items() if name in names or name not in self._known]
        await self._handle(wanted)
        return True
