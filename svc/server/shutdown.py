"""Stop and restart of a running instance: drain its connections, then stop the loop (spec: configuration §6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from svc.clock import Clock
from svc.logs import Logger
from svc.parent import Link
from svc.server.handover import Heir
from svc.server.ports import ServerPorts

DRAIN_SECONDS = 10.0  # for requests in flight after SIGTERM (spec: configuration §6.4)
_DRAIN_POLL = 0.02  # polling interval of the connections that are still open


class FurtherPorts(Protocol):
    """An `ApplicationPorts`. `others`: live."""

    @property
    def others(self) -> Sequence[ServerPorts]: ...
    @property
    def sockets_in_use(self) -> int:
        """Connections that code of applications serves by itself."""


class Shutdown:
    """`restart_wanted`: the caller of the server starts it again. `exit_status`: of the process. `is_closing`: the loop has ended.
    `is_replaced`: another instance serves in its place."""

    def __init__(
        self,
        application: ServerPorts,
        operations: ServerPorts,
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        logger: Logger,
        further: FurtherPorts | None = None,
        on_stop: Callable[[], None] = lambda: None,
        link: Link | None = None,
    ) -> None:
        """`further`: those of applications. `on_stop`: called when the end begins. `link`: to the parent process."""
        self._further = further
        self._on_stop = on_stop
        self._link = link
        self._application = application
        self._operations = operations
        self._clock = clock
        self._loop = loop
        self._logger = logger
        self._calls = 0
        self.is_closing = False
        self.is_replaced = False
        self.restart_wanted = False
        self.exit_status = 0

    def stop(self) -> None:
        """First call: stop accepting, finish the requests in flight up to a limit. Second call: stop at once."""
        if self.is_closing:
            return
        self._calls += 1
        if self._calls > 1:
            self._loop.stop()
            return
        self._logger.notify("Stopping svc.")
        self._on_stop()
        for each in (self._application, *self._others):
            each.stop()
        self._wait_until_drained(self._clock.monotonic() + DRAIN_SECONDS)

    @property
    def has_begun(self) -> bool:
        return self._calls > 0

    def retire(self, heir: Heir, limit: float) -> None:
        """Another instance accepts all connections from now on, and gets those that are idle. End when the others have ended, or after `limit` seconds; for
        those that code of applications serves by itself DRAIN_SECONDS, because it does not know of this."""
        if self.has_begun:
            heir.close()
            return
        self._calls = 1
        self.is_replaced = True
        self._on_stop()
        for each in self._ports:
            each.retire()
        now = self._clock.monotonic()
        self._wait_until_taken(heir, now + limit, now + DRAIN_SECONDS)

    def _wait_until_taken(self, heir: Heir, deadline: float, sockets_until: float) -> None:
        if self.is_closing:
            return
        heir.take(self._ports)
        have_ended = [each.connections.send_away() for each in self._ports]
        if any(have_ended):
            self._loop.call_soon(heir.take, self._ports)  # those which that has ended, before the next request of such a client is read
        is_used, now = any(each.connections.open for each in self._ports), self._clock.monotonic()
        if (is_used and now < deadline) or (now < sockets_until and self._further is not None and self._further.sockets_in_use):
            self._loop.call_later(_DRAIN_POLL, self._wait_until_taken, heir, deadline, sockets_until)
            return
        heir.close()
        self._logger.notify("Another instance has taken over.")
        if is_used:
            self._calls = 0
            self.stop()
        else:
            self._loop.stop()

    @property
    def _others(self) -> Sequence[ServerPorts]:
        return () if self._further is None else self._further.others

    @property
    def _ports(self) -> tuple[ServerPorts, ...]:
        return (self._application, self._operations, *self._others)

    def stop_for_good(self) -> None:
        """A signal: a restart that is under way becomes a stop."""
        self.restart_wanted = False
        self.stop()

    def restart(self) -> None:
        """Have the parent replace this instance; without one stop as `stop` does, once the answers under way are sent, with `restart_wanted` set."""
        if self._link is not None:
            self._loop.call_soon(self._link.restart)
            return
        self._logger.notify("Restarting svc.")
        self.restart_wanted = True
        self._loop.call_soon(self.stop)

    def end_with_store(self, databases: Sequence[str]) -> None:
        """This process cannot use these databases any more (`store.env`, rule 6): end with status 1. Its parent or a supervisor starts another."""
        if self.has_begun:
            return
        self._logger.fatal(
            f"a disk write of the database {', '.join(databases)} failed, after which this process can neither read nor write it; ending with status 1"
        )
        self.exit_status = 1
        self.stop()

    def _wait_until_drained(self, deadline: float) -> None:
        """The application's connections end first: until then `/ready` shows load balancers that this instance is stopping."""
        if self.is_closing:
            return
        late = self._clock.monotonic() >= deadline
        is_used = any(each.connections.open for each in (self._application, *self._others))
        if late or not is_used:
            self._operations.stop()
        if late or not (is_used or self._operations.connections.open):
            self._loop.stop()
        else:
            self._loop.call_later(_DRAIN_POLL, self._wait_until_drained, deadline)
