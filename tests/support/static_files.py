"""A directory of files and the listener that serves it, without an application."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from svc.apps.files import FileSet
from svc.clock import FakeClock
from svc.connection.file_range import FileRange
from svc.errors import Problem
from svc.messages import HeaderBlock, Request, Response
from svc.static import FileCache, StaticFiles, read_options

OLD = 1_767_000_000.0  # seconds since the epoch: before the time of a FakeClock
LATE = FakeClock(wall=5e9)
"""Later than any file of a test was made, so that all may be kept."""


class Site:
    """`files`: path below the application -> content."""

    def __init__(self, directory: Path, files: dict[str, bytes | str], options: dict[str, Any] | None = None, **more: Any) -> None:
        self.directory = directory
        for name, content in files.items():
            self.write(name, content)
        options = options or {}
        self.cache = FileCache(more.pop("memory", 32 << 20), more.pop("clock", LATE))
        files_of_entry = FileSet(directory, options.get("files", "web/**"), options.get("urlPath"), app="shop")
        self.listener = StaticFiles(files_of_entry, read_options(options), self.cache, **more)

    def write(self, name: str, content: bytes | str, *, at: float = OLD) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (at, at))
        return path

    def ask(self, target: str, method: str = "GET", **fields: str) -> Response | None:
        """What the listener answers, None if it passes on. Raises Problem."""
        return self.listener.answer(request(target, method, **fields))

    def get(self, target: str, method: str = "GET", **fields: str) -> tuple[int, dict[str, str], bytes]:
        """(status, fields in lower case, body); (0, {}, b"") if it passes on."""
        try:
            response = self.ask(target, method, **fields)
        except Problem as problem:
            return problem.status_code, {name.lower(): value for name, value in problem.headers}, problem.message.encode()
        if response is None:
            return 0, {}, b""
        found = {name.lower(): value for name, value in response.pairs}
        assert len(found) == len(response.pairs), response.pairs
        return response.status, found, body_of(response)


def body_of(response: Response) -> bytes:
    body: Any = response.body
    if body is None or isinstance(body, bytes):
        return body or b""
    return b"".join(body)


def request(target: str, method: str = "GET", **fields: str) -> Request:
    return Request(method, target, HeaderBlock([(name.replace("_", "-"), value) for name, value in fields.items()]))


def is_file(response: Response | None) -> bool:
    """Whether the connection has to read the file."""
    return response is not None and isinstance(response.body, FileRange)
