"""Applications loaded to the end, for tests without a running loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svc.apps import App, Runtime
from svc.apps.applications import name_of
from svc.query import QueryCache
from svc.resources import Resources
from svc.store import Store
from svc.testing.loop import Pool


def load_app(
    directory: Path,
    store: Store,
    resources: Resources,
    queries: QueryCache,
    known: Mapping[str, Any] | None = None,
    *,
    operations: Mapping[str, bool] | None = None,
    realtime: Any = None,
    interface: Any = None,
) -> App:
    """`known`: definitions of other applications, as of App."""
    loop = asyncio.new_event_loop() if interface is None else interface.loop
    runtime = Runtime(
        store, resources, queries, loop, store.clock, Pool(), realtime=realtime, interface=interface, grantable=lambda: operations
    )
    app = App(name_of(directory), directory, runtime=runtime, known=known)
    loop.run_until_complete(app.load())
    if interface is None:
        loop.close()
    return app
