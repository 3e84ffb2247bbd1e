"""The entry `dataLoader`: records that the application brings along (spec: components §1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext

from svc.apps.data_files import LARGE, read_data_file, size_of
from svc.apps.data_loader import PROGRESS, NoTable, load_file
from svc.apps.entry import EntryContext, LoadedEntry
from svc.apps.files import FileSet, MatchedFile
from svc.errors import Problem, SchemaError
from svc.siblings import Lead

DEFAULT_FILES = ["data/*.json", "data/*.yaml", "data/*.yml"]


class DataEntry(LoadedEntry):
    """Its records are brought after the switch, when the tables are defined; by one of the instances that have the application.

    The load of the application waits for that for `Runtime.patience`. What takes longer goes on behind it, while requests are served.
    """

    def __init__(self, context: EntryContext, files: FileSet) -> None:
        super().__init__(context, files)
        self._faults: dict[str, tuple[list[str], list[str]]] = {}  # file -> errors, warnings
        self._queue: list[MatchedFile] = []
        self._work: asyncio.Task[None] | None = None
        self._is_waited_for = False
        self._lacks_tables = False  # that the schema may declare once it has no errors
        self._lead: Lead | None = None

    async def start(self) -> None:
        app = self.context.app
        self._lead = self.context.runtime.lead(f"data of {app.name}: {self.context.key}", self._take_over)
        await self._bring_all()

    def _take_over(self) -> None:
        """The instance that brought them has ended, perhaps before it had all, or when files had changed."""
        self.context.runtime.loop.create_task(self._bring_all())

    async def _bring_all(self) -> None:
        matches = await self._matches()
        if not matches and "files" in self.context.options:
            self.context.status.warn(f"no file matches {self.context.options['files']!r}")
        await self._bring(matches)

    async def change(self, names: Sequence[str]) -> bool:
        """Only these files are loaded. What is in the table of a file that has gone stays there."""
        changed = set(names)
        for name in changed:
            self._faults.pop(name, None)
        await self._bring([match for match in await self._matches() if match.name in changed])
        return True

    def goes_with(self, keys: Collection[str]) -> bool:
        return self._lacks_tables and "graphqlSchema" in keys

    def withdraw(self) -> None:
        if self._lead is not None:
            self._lead.close()
        if self._work is not None:
            ending = self.context.runtime.ending
            ending.add(self._work)
            self._work.add_done_callback(ending.discard)
            self._work.cancel()
        super().withdraw()

    async def _matches(self) -> list[MatchedFile]:
        assert self.file_set is not None
        return [match for match in await self.context.runtime.in_thread(self.file_set.matches) if not match.is_directory]

    async def _bring(self, matches: Sequence[MatchedFile]) -> None:
        runtime, status = self.context.runtime, self.context.status
        self._queue += matches if self._lead is not None and self._lead.is_held else ()
        work = self._work
        if work is None:
            work = self._work = runtime.loop.create_task(self._load_queue())
            work.add_done_callback(self._on_end)
        self._is_waited_for = True
        await asyncio.wait({work}, timeout=runtime.patience)
        self._is_waited_for = False
        if not work.done():
            status.go_on()
            runtime.tell(self.context.app.name, "notify", f"{self.context.key}: records are still being loaded, while requests are served")
        elif not work.cancelled():
            status.reported = None
            work.result()
            for tell, _, text in self._told():
                tell(text)

    def _on_end(self, work: asyncio.Task[None]) -> None:
        """All records are there. If nothing waits for that, it is told here."""
        self._work = None
        error = None if work.cancelled() else work.exception()
        if self._is_waited_for or work.cancelled():
            return
        runtime, context = self.context.runtime, self.context
        told = self._told()
        if error is not None:
            told.append((context.status.fail, "error", f"{type(error).__name__}: {error}"))
        for tell, level, text in told:
            tell(text)
            runtime.tell(context.app.name, level, f"{context.key}: {text}")
        context.status.complete(int(runtime.clock.wall() * 1000))

    def _told(self) -> list[tuple[Callable[[str], None], str, str]]:
        """(what takes it, level in the log, text) for each fault and warning."""
        status = self.context.status
        told: list[tuple[Callable[[str], None], str, str]] = []
        for name, (errors, warnings) in sorted(self._faults.items()):
            told += [(status.fail, "error", f"{name}: {text}") for text in errors]
            told += [(status.warn, "warn", f"{name}: {text}") for text in warnings]
        return told

    async def _load_queue(self) -> None:
        while self._queue:
            match = self._queue.pop(0)
            self._faults[match.name] = await self._load_file(match)

    async def _load_file(self, match: MatchedFile) -> tuple[list[str], list[str]]:
        runtime = self.context.runtime
        size = await runtime.in_thread(size_of, match.path)
        async with runtime.large_data if size > LARGE else nullcontext():
            return await self._load_alone(match)

    async def _load_alone(self, match: MatchedFile) -> tuple[list[str], list[str]]:
        runtime, application = self.context.runtime, self.context.app.name
        try:
            file = await runtime.in_thread(read_data_file, match.path)
        except OSError as error:
            return [f"it cannot be read: {error.strerror or error}"], []
        except ValueError as error:
            return [str(error)], []
        count = len(file.records)

        def tell(done: int) -> None:
            runtime.report(application, "notify", f"{self.context.key}: {match.name}: {done} of {count} records")

        try:
            result = await load_file(runtime, file, tell, makes_table=not self.context.app.has_failed_schema)
        except NoTable as error:
            self._lacks_tables = True
            return [error.message], file.warnings
        except (Problem, SchemaError) as error:
            return [error.message], file.warnings
        if result.made or result.changed:
            level = "notify" if count > PROGRESS else "info"
            runtime.report(application, level, f"{self.context.key}: {match.name}: {file.database}.{file.table}: {result}")
        faults = result.faults
        if result.failed > len(faults):
            faults = [*faults, f"{result.failed - len(faults)} more records are at fault"]
        return faults, file.warnings


async def load_data(context: EntryContext) -> LoadedEntry | None:
    context.warn_of_unknown_options(("files",))
    try:
        return DataEntry(context, context.files(DEFAULT_FILES))
    except ValueError as error:
        context.status.fail(str(error))
        return None
