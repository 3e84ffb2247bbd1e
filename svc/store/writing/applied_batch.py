"""Writes of several that are told of one commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svc.errors import Problem

logger = logging.getLogger("svc.store")

OnDone = Callable[["Problem | None"], None]


class AppliedBatch:
    """They wait for the commit of the turn, as a transaction does (`turn.AppliedTransaction`). `database`: a `store.database.Database`. `told`: each is
    called with its outcome, in their order."""

    def __init__(self, database: Any, told: Iterable[OnDone]) -> None:
        self.databases: tuple[Any, ...] = (database,)
        self.outcome: tuple[Problem | None] | None = None
        self.told = told
        self.on_done: OnDone | None = self._done

    def apply(self) -> None:
        """They are written."""

    def _done(self, problem: Problem | None) -> None:
        for each in self.told:
            try:
                each(problem)
            except Exception:
                logger.exception("the end of a write could not be handled")
