"""Subscriptions that go on with another result because rules on rows are others now, or the role of the user: their clients get what differs (spec: rows §1.6).

    its result keeps rows, and all its subscribers go on alike     the result gets the new conditions, and is run again
    else, if all commits have been processed                       the same with a result of its own, which has the rows that the client has: the old
                                                                   conditions find them once more

What differs are `enter`, `leave` and `update`, as after any run. A client for which events wait is reset: they may be of commits behind the change. So it is
where neither is possible, with more than MAX_ROWS rows, and where more than rules has changed.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

from svc.errors import Problem
from svc.query.nodes import Query
from svc.realtime.live.commit_dispatcher import CommitDispatcher
from svc.realtime.live.materialized_result import MaterializedResult
from svc.realtime.live.query_spec import MATERIALIZED, RECOMPUTED, STATELESS, LiveQuerySpec
from svc.realtime.live.recomputed_result import INLINE_SECONDS
from svc.realtime.live.result import LiveResult
from svc.realtime.live.subscription import LiveSubscription
from svc.realtime.live.viewer_changes import ViewerChanges

if TYPE_CHECKING:
    from svc.realtime.viewpoint import Viewpoint

MAX_ROWS = 1000  # that are found once more
MAX_OTHERS = 64  # subscribers of one result that go on together

Target = tuple[Any, Query, "Viewpoint | None"]
"""Key of a result, query, whose eyes records are seen with."""


class MoveOwner(Protocol):
    """What it needs of `LiveQueries`."""

    def result_key(self, subscription: LiveSubscription) -> Target: ...

    def keep_result(self, result: LiveResult, key: Any) -> None: ...

    def close_result(self, result: LiveResult) -> None: ...

    def update(self, result: Any) -> None: ...


class ResultMoves:
    def __init__(self, owner: Any, dispatcher: CommitDispatcher, viewers: ViewerChanges) -> None:
        self._owner = owner
        self._dispatcher = dispatcher
        self._viewers = viewers

    def move(self, subscription: LiveSubscription, target: Target) -> bool:
        """Let one go on with the result of `target`. False: it cannot be told what differs."""
        result: Any = subscription.result
        if result is None or result.is_closed or not subscription.is_up_to_date or not _differs_in_viewpoint(subscription.key, target[0]):
            return False
        try:
            spec = self._spec(subscription, target)
        except Problem:
            return False
        if spec is None or result.spec.mode == RECOMPUTED:
            return False
        if type(result) is MaterializedResult and self._go_on_alike(result, subscription, target[0]):
            if result.is_running or not result.is_known:
                return False
            moved = result
        else:
            found = self._found_again(subscription, result)
            if found is None:
                return False
            moved = found
        self._renew(moved, spec, target[0])
        return True

    @staticmethod
    def _spec(subscription: LiveSubscription, target: Target) -> LiveQuerySpec | None:
        """The new conditions, of a result that keeps rows; None: such a result is run again with each change."""
        _, query, viewpoint = target
        table = subscription.table
        spec = LiveQuerySpec(query, table, subscription.prefix, subscription.allow_full_scan, table.database.snapshot(), viewpoint)
        if spec.mode == STATELESS:
            spec.mode = MATERIALIZED
        return spec if spec.mode == MATERIALIZED and query.aggregate is None else None

    def _go_on_alike(self, result: LiveResult, subscription: LiveSubscription, key: Any) -> bool:
        others = [each for each in result.subscribers if each is not subscription]
        try:
            return len(others) <= MAX_OTHERS and all(each.is_up_to_date and self._owner.result_key(each)[0] == key for each in others)
        except Problem:
            return False

    def _found_again(self, subscription: LiveSubscription, result: LiveResult) -> MaterializedResult | None:
        """A result with the rows that the client has, for this subscription alone."""
        database = result.table.database
        position = self._dispatcher.position(database)
        if (
            not (self._dispatcher.is_idle and result.spec.is_fixed)
            or getattr(result, "is_running", False)
            or getattr(result, "has_work", False)
        ):
            return None
        spec = copy(result.spec)
        spec.mode = MATERIALIZED
        made = MaterializedResult(self._owner, spec, object())
        now = self._owner.now
        end = now() + INLINE_SECONDS
        for _ in made.steps():
            if now() >= end:
                made.close()
                return None
        with self._dispatcher.newest(database) as txn:
            is_same = database.log.newest_lsn(txn) == position
        if not (is_same and made.is_known and made.size <= MAX_ROWS):
            made.close()
            return None
        made.position = position
        result.detach(subscription)
        result.subscribers.pop(subscription, None)
        if not result.subscribers:
            self._owner.close_result(result)
        subscription.result = made
        made.subscribers[subscription] = None
        made.attach(subscription, position, -1)
        return made

    def _renew(self, result: MaterializedResult, spec: LiveQuerySpec, key: Any) -> None:
        self._viewers.discard(result)
        result.spec = spec
        result.needs_run = True
        self._dispatcher.follow_anew(result)
        self._owner.keep_result(result, key)
        self._viewers.add(result)
        for subscription in result.subscribers:
            subscription.key = key
        self._owner.update(result)


def _differs_in_viewpoint(before: Any, after: Any) -> bool:
    return bool(before[:-1] == after[:-1])
