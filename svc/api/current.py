"""The instance whose code is being loaded or run, and what the modules of this package need of its interface."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol

from svc.logs.application_code import line_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from svc.analytics.recorder import Recorder
    from svc.realtime.realtime import Realtime
    from svc.resources import Resources
    from svc.siblings import Lead
    from svc.store import Store

logger = logging.getLogger("svc.applications")


class Threads(Protocol):
    """`threads.HelperThreads`."""

    def submit(self, work: Callable[[], Any]) -> Future[Any]: ...


class CurrentInterface(Protocol):
    """`interface.Interface`."""

    store: Store
    registry: Resources
    realtime: Realtime | None
    loop: asyncio.AbstractEventLoop
    recorder: Recorder
    server: Any
    on_dropped: Callable[[CodeType, int], bool]
    lead: Callable[..., Lead]
    find_mail: Callable[[], Any]

    @property
    def threads(self) -> Threads: ...
    @property
    def running(self) -> Any: ...
    @property
    def databases(self) -> Any: ...
    @property
    def statements(self) -> Any: ...
    @property
    def caches(self) -> set[Any]: ...
    def global_of(self, name: str, module: str) -> Any: ...


_current: CurrentInterface | None = None


def current() -> CurrentInterface:
    """The instance whose code is being loaded or run. Raises RuntimeError without one."""
    if _current is None:
        raise RuntimeError("no svc instance runs in this process: its tables are there while one does")
    return _current


def make_current(interface: CurrentInterface) -> None:
    """From now on code that belongs to no instance in particular works on this one."""
    global _current
    _current = interface


def end_current(interface: CurrentInterface) -> None:
    """It has ended: if it is the current one, there is none."""
    global _current
    if _current is interface:
        _current = None


def global_of(name: str, module: str) -> Any:
    """The object that `from svc import name` gives to a module. Raises ImportError without an instance."""
    if _current is None:
        raise ImportError(f"svc.{name} belongs to a running svc instance, and none runs in this process")
    return _current.global_of(name, module)


def report_dropped(code: CodeType, instruction: int) -> None:
    """A call that was never awaited is gone."""
    if _current is None or not _current.on_dropped(code, instruction):
        logger.error(
            "a call was never awaited, so it was not made: %s:%d, in %s", code.co_filename, line_of(code, instruction), code.co_name
        )
