"""The files of an entry as events, for the handlers of a plugin (spec: plugins §3.2).

What is there when the application is loaded is delivered as `add` and `addDir`; afterwards what has changed. Contents are read on a helper thread, some
files at a time, and events are delivered one after the other.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from svc.apps.files import FileSet, MatchedFile
from svc.apps.load_limit import LoadTimeout
from svc.apps.plugins.emitter import Callbacks

if TYPE_CHECKING:
    from svc.apps.plugins.calls import PluginCalls
    from svc.apps.plugins.scope import Scope

ADD, CHANGE, UNLINK, ADD_DIR, UNLINK_DIR = "add", "change", "unlink", "addDir", "unlinkDir"
READY, CLOSE, ERROR, ALL = "ready", "close", "error", "all"
FILE, DIRECTORY = "file", "directory"

MAX_CONTENTS = 64 << 20  # bytes of a file that is read for its event
_READ_AHEAD = 1 << 20  # bytes, after which those that were read are delivered
_FILES_AHEAD = 200


@dataclass(slots=True)
class EntryEvent:
    """One file or directory of an entry. `contents`: bytes of a file that is there; None of others, and of one above MAX_CONTENTS. `stats`: as of
    `os.stat`, None if it is gone."""

    event_type: str
    entry_type: str
    url_path: str
    absolute_path: str
    contents: bytes | None = None
    stats: os.stat_result | None = None


class EntryHandler:
    """What `scope.handle_entry` returns. `name`: of the entry; `directory`: of the application."""

    def __init__(self, scope: Scope, calls: PluginCalls, files: FileSet, handler: Callable[..., Any] | None, *, is_default: bool) -> None:
        """`is_default`: the files are those of the options of the entry."""
        self.name = scope.name
        self.directory = scope.directory
        self._is_default = is_default
        self._scope = scope
        self._calls = calls
        self._files = files
        self._callbacks = Callbacks("an entry handler", (ALL, ADD, CHANGE, UNLINK, ADD_DIR, UNLINK_DIR, READY, CLOSE, ERROR))
        self._known: dict[str, MatchedFile] = {}
        self._lock = asyncio.Lock()
        self._is_ready = asyncio.Event()
        self._is_closed = False
        if handler is not None:
            self._callbacks.add(ALL, handler)

    # --- for plugins -------------------------------------------------------------------------------------------------------------------

    def on(self, event: str, callback: Callable[..., Any]) -> EntryHandler:
        """`callback(event)` for "all" events, or those of one type; `callback()` for "ready" and "close", `callback(error)` for "error"."""
        self._callbacks.add(event, callback)
        return self

    def ready(self) -> Awaitable[None]:
        """Until what was there at the beginning is delivered."""
        return _Ready(self._is_ready)

    def update(self, files: Any) -> Awaitable[None]:
        """Other files, as in `handle_entry`; what comes and goes by that is delivered. Raises ValueError."""
        self._files = self._scope._file_set(files)
        self._is_default = False
        return self._calls.keep(self._refresh())

    def close(self) -> None:
        """No more events."""
        if not self._is_closed:
            self._is_closed = True
            self._is_ready.set()
            for callback in self._callbacks.of(CLOSE):
                self._calls.notify(callback, during="the handler of 'close'")
            self._callbacks.clear()

    # --- for the entry -----------------------------------------------------------------------------------------------------------------

    def _contains(self, name: str) -> bool:
        return not self._is_closed and (self._files.contains(name) or name in self._known)

    async def _follow(self) -> None:
        """The options of the entry have changed. Raises ValueError."""
        if self._is_default and not self._is_closed:
            self._files = self._scope._file_set(None)
            await self._refresh()

    async def _refresh(self, changed: Sequence[str] = ()) -> None:
        """Deliver what differs from what was delivered before, and what has `changed`: names of files. Raises ModuleFault
        for a handler that never ends, while the entry is loaded."""
        async with self._lock:
            before = self._known
            found = {match.name: match for match in await self._calls.in_thread(self._files.matches)}
            gone = [
                match for name, match in before.items() if found.get(name) != match
            ]  # also what has another address, or another kind now
            for match in sorted(gone, key=lambda match: match.name, reverse=True):  # what is in a directory goes before it
                del before[match.name]
                kind = UNLINK_DIR if match.is_directory else UNLINK
                await self._deliver(EntryEvent(kind, DIRECTORY if match.is_directory else FILE, match.url_path, str(match.path)))
            again = {name for name in changed if name in before and not before[name].is_directory}
            await self._deliver_present([match for name, match in found.items() if name not in before or name in again])
            if not self._is_ready.is_set() and not self._is_closed:
                self._is_ready.set()
                for callback in self._callbacks.of(READY):
                    await self._calls.call(callback, during="the handler of 'ready'")

    async def _deliver_present(self, matches: list[MatchedFile]) -> None:
        position = 0
        while position < len(matches) and not self._is_closed:
            read = await self._calls.in_thread(read_some, matches, position)
            position += len(read)
            for match, found in read:
                if isinstance(found, str):
                    self._calls.warn(f"{match.name}: {found}")
                elif found is not None:
                    contents, stats, remark = found
                    if remark:
                        self._calls.warn(f"{match.name}: {remark}")
                    kind = ADD_DIR if match.is_directory else CHANGE if match.name in self._known else ADD
                    self._known[match.name] = match
                    entry_type = DIRECTORY if match.is_directory else FILE
                    await self._deliver(EntryEvent(kind, entry_type, match.url_path, str(match.path), contents, stats))

    async def _deliver(self, event: EntryEvent) -> None:
        await self._calls.give_way()
        for callback in self._callbacks.of(ALL, event.event_type):
            if self._is_closed:
                return
            error = await self._calls.call(callback, event, during=f"the handler of '{event.event_type}' of {event.url_path}")
            if error is not None:
                for each in self._callbacks.of(ERROR):
                    await self._calls.call(each, error, during="the handler of 'error'")
            if isinstance(error, LoadTimeout):  # the next event would take as long
                self.close()

    def __repr__(self) -> str:
        return f"<entry handler of {self._files!r}>"


class _Ready:
    """May be awaited any number of times, or not at all."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def __await__(self) -> Generator[Any, None, None]:
        yield from self._event.wait().__await__()


_Read = tuple[bytes | None, os.stat_result, str]


def read_some(matches: Sequence[MatchedFile], position: int) -> list[tuple[MatchedFile, _Read | str | None]]:
    """From `position` on, with what was read of them; text: why it was not; None: it is gone."""
    found: list[tuple[MatchedFile, _Read | str | None]] = []
    size = 0
    for match in matches[position : position + _FILES_AHEAD]:
        try:
            read = _read(match)
        except FileNotFoundError:
            found.append((match, None))
            continue
        except OSError as error:
            found.append((match, error.strerror or str(error)))
            continue
        found.append((match, read))
        size += len(read[0] or b"") if not isinstance(read, str) else 0
        if size >= _READ_AHEAD:
            break
    return found


def _read(match: MatchedFile) -> _Read | str:
    stats = match.path.stat()
    if match.is_directory:
        return None, stats, ""
    if not stat.S_ISREG(stats.st_mode):
        return "it is no regular file"
    if stats.st_size > MAX_CONTENTS:
        return None, stats, f"it has more than {MAX_CONTENTS >> 20} MiB: its event has no contents, read it from absolute_path"
    with match.path.open("rb") as file:
        return file.read(MAX_CONTENTS), stats, ""


def read_files(files: Any) -> tuple[Any, Any]:
    """(files, urlPath) of what `handle_entry` is given: a pattern, a list, `{source, ignore, only}`, or `{files, urlPath}`."""
    if isinstance(files, Mapping) and "files" in files:
        unknown = [str(key) for key in files if key not in ("files", "urlPath", "url_path")]
        if unknown:
            raise ValueError(f"handle_entry: '{unknown[0]}' is not one of files, urlPath")
        return files["files"], files.get("urlPath", files.get("url_path"))
    return files, None
