"""The entry `dataLoader`: records that the application brings along (spec: components §1)."""

from __future__ import annotations

from collections.abc import Sequence

from svc.apps.data_files import read_data_file
from svc.apps.data_loader import PROGRESS, load_file
from svc.apps.entry import EntryContext, LoadedEntry
from svc.apps.files import FileSet, MatchedFile
from svc.errors import Problem, SchemaError

DEFAULT_FILES = ["data/*.json", "data/*.yaml", "data/*.yml"]


class DataEntry(LoadedEntry):
    """Its records are brought after the switch, when the tables are defined; by the first instance of a node."""

    def __init__(self, context: EntryContext, files: FileSet) -> None:
        super().__init__(context, files)
        self._faults: dict[str, tuple[list[str], list[str]]] = {}  # file -> errors, warnings

    async def start(self) -> None:
        matches = await self._matches()
        if not matches and "files" in self.context.options:
            self.context.status.warn(f"no file matches {self.context.options['files']!r}")
        await self._load(matches)

    async def change(self, names: Sequence[str]) -> bool:
        """Only these files are loaded. What is in the table of a file that has gone stays there."""
        changed = set(names)
        for name in changed:
            self._faults.pop(name, None)
        await self._load([match for match in await self._matches() if match.name in changed])
        return True

    async def _matches(self) -> list[MatchedFile]:
        assert self.file_set is not None
        return [match for match in await self.context.runtime.in_thread(self.file_set.matches) if not match.is_directory]

    async def _load(self, matches: Sequence[MatchedFile]) -> None:
        if self.context.runtime.instance == 0:
            for match in matches:
                self._faults[match.name] = await self._load_file(match)
        status = self.context.status
        for name in sorted(self._faults):
            errors, warnings = self._faults[name]
            for text in errors:
                status.fail(f"{name}: {text}")
            for text in warnings:
                status.warn(f"{name}: {text}")

    async def _load_file(self, match: MatchedFile) -> tuple[list[str], list[str]]:
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
            result = await load_file(runtime, file, tell)
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
