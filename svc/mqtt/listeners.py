"""Code of applications that is told of clients, and asked whether one may connect: `server.mqtt` (spec: mqtt §10).

What it is told of waits for the end of the packet or the commit that it is about, in the order in which it happens: so a listener finds everything as it is
after that, and may close connections.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from svc.awaitables import is_waiting, settled
from svc.errors import AccessViolation, Problem
from svc.loop import contained
from svc.protocol.mqtt_values import CONNACK_REASONS, NOT_AUTHORIZED

if TYPE_CHECKING:
    from svc.protocol.mqtt_packets import Connect

logger = logging.getLogger("svc.applications")

EVENTS = {"connection": 1, "connected": 2, "auth-failed": 3, "disconnected": 2, "error": 4}
"""Name -> the number of arguments of its listeners."""

PATIENCE = 120.0  # seconds that an async listener has
RUNNING = 10_000  # async listeners that have not ended; beyond, they are not told
DECISION = 8.0  # seconds that `authorize_client` has: less than CONNECT may take
LONGEST_REASON = 1000  # characters that a client is told

Listener = Callable[..., Any]


class ClientRefused(Exception):
    """Code of an application does not let a client in. `reason`: the code of CONNACK of version 5. `error`: what it has raised."""

    def __init__(self, reason: int, message: str, error: BaseException) -> None:
        super().__init__(message)
        self.reason = reason
        self.error = error


class ApplicationListeners:
    """Those of one application. `authorize`: called with the packet and the user, raises to refuse; None: everybody may connect."""

    def __init__(self) -> None:
        self.by_event: dict[str, tuple[tuple[Listener, int], ...]] = {}
        self.authorize: Listener | None = None

    def add(self, name: str, listener: Listener) -> None:
        """Raises ValueError for an unknown name, TypeError for a listener that wants other arguments."""
        self.by_event[name] = (*self._of(name), (listener, _arguments_of(name, listener)))

    def remove(self, name: str, listener: Listener) -> None:
        """The last one of this kind, if there is one. Raises ValueError for an unknown name."""
        found = list(self._of(name))
        for number in reversed(range(len(found))):
            if found[number][0] == listener:
                del found[number]
                break
        self.by_event[name] = tuple(found)

    def _of(self, name: str) -> tuple[tuple[Listener, int], ...]:
        if name not in EVENTS:
            raise ValueError(f"server.mqtt.events has no event {name!r}; it has {', '.join(EVENTS)}")
        return self.by_event.get(name, ())

    def state(self) -> tuple[dict[str, tuple[tuple[Listener, int], ...]], Listener | None]:
        """What `restore` takes."""
        return dict(self.by_event), self.authorize

    def restore(self, state: tuple[dict[str, tuple[tuple[Listener, int], ...]], Listener | None]) -> None:
        self.by_event, self.authorize = dict(state[0]), state[1]


def _arguments_of(name: str, listener: Listener) -> int:
    """How many arguments of the event a listener takes: what it does without is left out."""
    most = EVENTS[name]
    try:
        signature = inspect.signature(listener)
    except (TypeError, ValueError):  # of what is not written in Python
        return most
    for count in range(most, -1, -1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count
    raise TypeError(f"a listener of '{name}' is called with {most} arguments, and wants others: {signature}")


class ClientListeners:
    """Those of all applications of one instance, in the order in which these were loaded first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._applications: list[ApplicationListeners] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._left_out = 0
        self._context = copy_context()  # not that of a request which closes a connection

    def activate(self, added: ApplicationListeners, replaced: ApplicationListeners | None = None) -> None:
        """From now on `added` is told and asked, in the place of `replaced`."""
        if added in self._applications:
            return
        if replaced in self._applications:
            self._applications[self._applications.index(replaced)] = added
        else:
            self._applications.append(added)

    def withdraw(self, removed: ApplicationListeners) -> None:
        if removed in self._applications:
            self._applications.remove(removed)

    # --- events --------------------------------------------------------------------------------------------------------------------------

    def want(self, name: str) -> bool:
        """Whether one is to be told."""
        return any(each.by_event.get(name) for each in self._applications)

    def tell(self, name: str, *arguments: Any) -> None:
        """Something has happened to a client."""
        if self.want(name):
            self._loop.call_soon_threadsafe(self._tell, name, arguments, context=self._context.copy())

    def _tell(self, name: str, arguments: tuple[Any, ...]) -> None:
        for application in tuple(self._applications):
            for listener, count in application.by_event.get(name, ()):
                try:
                    result = settled(listener(*arguments[:count]))
                    if is_waiting(result):
                        self._await(name, result)
                except BaseException as error:
                    _log(name, contained(error))

    def _await(self, name: str, result: Awaitable[Any]) -> None:
        if len(self._tasks) >= RUNNING:
            self._left_out += 1
            close = getattr(result, "close", None)
            if close is not None:
                close()
            if self._left_out == 1:
                logger.error("%d listeners of server.mqtt.events have not ended: more are not called", RUNNING)
            return
        self._left_out = 0
        task = self._loop.create_task(_awaited(name, result))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- CONNECT -------------------------------------------------------------------------------------------------------------------------

    async def authorize(self, packet: Connect, user: Any) -> None:
        """Ask all applications whether a client may connect. Raises ClientRefused."""
        for application in tuple(self._applications):
            decides = application.authorize
            if decides is None:
                continue
            try:
                async with asyncio.timeout(DECISION) as limit:
                    result = settled(decides(replace(packet), user))
                    while is_waiting(result):
                        result = settled(await result)
            except BaseException as error:
                raise _refusal(contained(error), has_expired=limit.expired()) from None


def _refusal(error: Exception, *, has_expired: bool) -> ClientRefused:
    """What the client is told. An exception that does not look like a decision is logged; it lets nobody in either."""
    code = getattr(error, "code", None)
    if type(code) is int and code in CONNACK_REASONS and code:
        return ClientRefused(code, _shown(error), error)
    if isinstance(error, Problem):
        return ClientRefused(NOT_AUTHORIZED, _shown(error), error)
    if has_expired:
        logger.error("server.mqtt.authorize_client has not answered within %g s: the client is refused", DECISION)
    else:
        logger.error("server.mqtt.authorize_client failed: the client is refused", exc_info=error)
    return ClientRefused(NOT_AUTHORIZED, "", error)


def _shown(error: Exception) -> str:
    if isinstance(error, AccessViolation) and not error.message:
        return ""
    return (error.message if isinstance(error, Problem) else str(error))[:LONGEST_REASON]


async def _awaited(name: str, result: Awaitable[Any]) -> None:
    try:
        async with asyncio.timeout(PATIENCE) as limit:
            while is_waiting(result):
                result = settled(await result)
    except BaseException as error:
        if limit.expired():
            logger.error("a listener of server.mqtt.events has not ended within %g s of '%s', and is ended", PATIENCE, name)
        else:
            _log(name, contained(error))


def _log(name: str, error: Exception) -> None:
    logger.error("a listener of server.mqtt.events failed on '%s'", name, exc_info=error)
