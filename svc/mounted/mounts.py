"""The mounted applications of one instance: started when it begins, ended with it or with the code that has mounted them (spec: asgi §1.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from svc.mounted.application import MountedApplication
from svc.mounted.lifespan import Log
from svc.mounted.messages import AsgiApplication
from svc.mounted.routes import MountedRoutes


class Mounts:
    def __init__(self, loop: asyncio.AbstractEventLoop, log: Log) -> None:
        self._loop = loop
        self._log = log
        self._mounted: set[MountedApplication | MountedRoutes] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._is_running = False

    def add(self, app: AsgiApplication, path: str) -> MountedApplication:
        """`path`: whole, as requests have it. Raises ValueError."""
        mounted = MountedApplication(app, path, loop=self._loop, log=self._log)
        self._mounted.add(mounted)
        if self._is_running:
            mounted.start()
        return mounted

    def add_routes(self, path: str, is_resource: Callable[[str], bool]) -> MountedRoutes:
        """Applications at one path, that are asked when no resource is there. `is_resource`: whether one serves WebSockets at
        a path. Raises ValueError."""
        mounted = MountedRoutes(
            path, is_resource, lambda app, lifespan: MountedApplication(app, path, loop=self._loop, log=self._log, lifespan=lifespan)
        )
        self._mounted.add(mounted)
        return mounted

    def remove(self, mounted: MountedApplication | MountedRoutes) -> None:
        """No new requests come to it: end it, in the background, unless `close` has."""
        if mounted not in self._mounted:
            return
        self._mounted.discard(mounted)
        task = self._loop.create_task(mounted.stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def begin(self) -> None:
        """The instance begins to serve."""
        self._is_running = True
        for mounted in self._mounted:
            mounted.start()

    async def close(self) -> None:
        """The instance ends."""
        ending = [self._loop.create_task(mounted.stop()) for mounted in self._mounted]
        self._mounted.clear()
        if ending or self._ending:
            await asyncio.wait([*ending, *self._ending])
