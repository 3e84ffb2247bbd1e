"""What `svc types` has written for an application follows its schema under `svc dev`: stubs, and a client for TypeScript (spec: applications §11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from svc.apps import App


class CurrentStubs:
    """An application has them if `svc new` or `svc types` has once written them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor, warn: Callable[[str], object]) -> None:
        self._loop = loop
        self._executor = executor
        self._warn = warn
        self._written: dict[str, list[object]] = {}  # application -> the definitions that its stubs are of
        self._tasks: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()

    def follow(self, app: App) -> None:
        """The application has been loaded: write its stubs if its schema is another one."""
        definitions: list[object] = app.definitions  # type: ignore[assignment]  # each schema has a list of its own
        if self._written.get(app.name) is not definitions:
            self._written[app.name] = definitions
            task = self._loop.create_task(self._write(app.name, app.directory))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _write(self, name: str, directory: Path) -> None:
        async with self._one_at_a_time:
            try:
                await self._loop.run_in_executor(self._executor, _write_stubs, directory)
            except OSError as error:
                self._warn(f"the stubs of {name} cannot be written: {error}")


def _write_stubs(directory: Path) -> None:
    from svc.stubs import SchemaFaults, refresh_types

    try:
        refresh_types(directory)
    except SchemaFaults:  # they have been reported, or another save has come in between
        pass
