"""The entry `static`: files of the application, served as they are (spec: http §13)."""

from __future__ import annotations

from collections.abc import Sequence

from svc.api.server import Server
from svc.apps.entry import EntryContext, LoadedEntry
from svc.apps.faults import reason_of
from svc.apps.files import FileSet
from svc.static import FaultyFiles, FileCache, StaticFiles, StaticOptions, read_options
from svc.static.lookup import INDEX

DEFAULT_FILES = "web/**"
LISTENER = "static"
COMPRESSION_THRESHOLD = 1200  # bytes, where the configuration says nothing


class StaticEntry(LoadedEntry):
    """Changed files need nothing: every request looks at the disk. As long as there is no directory with files, no request does."""

    def __init__(self, context: EntryContext, files: FileSet, options: StaticOptions) -> None:
        super().__init__(context, files)
        server = self.server = context.make_server()
        runtime = context.runtime
        if runtime.file_cache is None:
            runtime.file_cache = FileCache(clock=runtime.clock)
        threshold = (server.config.get("http") or {}).get("compressionThreshold", COMPRESSION_THRESHOLD)
        self._static = StaticFiles(files, options, runtime.file_cache, compression_threshold=threshold)
        self._options = options
        self._listens = False
        if not options.fallthrough or any((files.directory / root).is_dir() for root in files.roots()):
            self._listen(server)

    def _listen(self, server: Server) -> None:
        self._listens = True
        server.http(self._static, name=LISTENER, before=self._options.before, after=self._options.after)

    @property
    def has_root_page(self) -> bool:
        files = self.file_set
        if files is None or files.prefix != "/" or not self._options.index:
            return False
        return any((files.directory / root / INDEX).is_file() for root in files.roots())

    def withdraw(self) -> None:
        super().withdraw()
        self._static.close()

    async def change(self, names: Sequence[str]) -> bool:
        if not self._listens and self.server is not None:
            self._listen(self.server)
        return True


class FaultyEntry(LoadedEntry):
    """Its options are wrong: its files answer with the reason."""

    def __init__(self, context: EntryContext, files: FileSet) -> None:
        super().__init__(context, files)
        server = self.server = context.make_server()
        server.http(
            FaultyFiles(files, reason_of(context.app.name, context.status)), name=LISTENER
        )  # behind the authentication, for the reason


async def load_static(context: EntryContext) -> LoadedEntry | None:
    if context.runtime.interface is None:
        return None
    try:
        files = context.files(DEFAULT_FILES)
        if files.only == "directories":
            raise ValueError("files: static serves files, so only cannot be directories")
    except ValueError as error:
        context.status.fail(str(error))
        return None
    try:
        options = read_options(context.options)
    except ValueError as error:
        context.status.fail(str(error))
        return FaultyEntry(context, files)
    if options.unused:
        context.status.warn(options.unused)
    return StaticEntry(context, files, options)
