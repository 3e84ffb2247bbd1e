"""The entry `static`: files of the application, served as they are (spec: http §13)."""

from __future__ import annotations

from collections.abc import Sequence

from svc.apps.entry import EntryContext, LoadedEntry
from svc.apps.files import FileSet
from svc.static import FileCache, StaticFiles, StaticOptions, read_options

DEFAULT_FILES = "web/**"
LISTENER = "static"
COMPRESSION_THRESHOLD = 1200  # bytes, where the configuration says nothing


class StaticEntry(LoadedEntry):
    """Changed files need nothing: every request looks at the disk."""

    def __init__(self, context: EntryContext, files: FileSet, options: StaticOptions) -> None:
        super().__init__(context, files)
        server = self.server = context.make_server()
        http = server.config.get("http") or {}
        runtime = context.runtime
        if runtime.file_cache is None:
            runtime.file_cache = FileCache(clock=runtime.clock)
        self._static = StaticFiles(
            files, options, runtime.file_cache, compression_threshold=http.get("compressionThreshold", COMPRESSION_THRESHOLD)
        )
        server.http(self._static, name=LISTENER, before=options.before, after=options.after)

    def withdraw(self) -> None:
        super().withdraw()
        self._static.close()

    async def change(self, names: Sequence[str]) -> bool:
        return True


async def load_static(context: EntryContext) -> LoadedEntry | None:
    if context.runtime.interface is None:
        return None
    try:
        files = context.files(DEFAULT_FILES)
        options = read_options(context.options)
    except ValueError as error:
        context.status.fail(str(error))
        return None
    if options.unused:
        context.status.warn(options.unused)
    return StaticEntry(context, files, options)
