"""The rights of what goes on for a user without being a subscription to records: connections to code of applications (spec: realtime §4)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from svc.auth.users import User
from svc.errors import AccessViolation
from svc.loop import contained
from svc.realtime.event import EndReason

logger = logging.getLogger("svc.realtime")


CHECK_LIMIT = 60.0  # seconds that an application may take to answer whether a user may go on


class RightsWatch:
    """`Hub.watch` has it asked again whenever a subscription would be.

    `check(user)` raises AccessViolation, or returns nothing, or an awaitable that does the same. `end(why)` is called once, if the user may not go on.
    `generation`: of the users at the time when the user was last known to have the right.
    """

    __slots__ = ("_check", "_end", "generation", "has_ended", "is_asking", "is_over", "user")

    def __init__(
        self, user: User | None, generation: int, check: Callable[[User | None], Awaitable[Any] | None], end: Callable[[EndReason], None]
    ) -> None:
        self.user = user
        self.generation = generation
        self.is_over = False
        self.is_asking = False  # the answer is being waited for
        self.has_ended: Callable[[], bool] = lambda: False  # what goes on may end without a word
        self._check = check
        self._end = end

    def recheck(self, user: User | None) -> Awaitable[None] | None:
        """Ask again for the user as it is now. Returns what has to be awaited, if the application's rule has to be."""
        self.user = user
        try:
            waiting = self._check(user)
        except BaseException as error:
            self._refused(contained(error))
            return None
        if not inspect.isawaitable(waiting):
            return None
        self.is_asking = True
        return self._wait(waiting)

    async def _wait(self, waiting: Awaitable[Any]) -> None:
        try:
            async with asyncio.timeout(CHECK_LIMIT):
                await waiting
        except BaseException as error:
            self._refused(contained(error))
        finally:
            self.is_asking = False

    def _refused(self, error: Exception) -> None:
        if isinstance(error, AccessViolation):
            self.finish(EndReason.REVOKED)
        else:
            logger.error("the rights of a connection could not be checked again, so it ends", exc_info=error)
            self.finish(EndReason.FAILED)

    def finish(self, why: EndReason) -> None:
        if not self.is_over:
            self.is_over = True
            self._end(why)
