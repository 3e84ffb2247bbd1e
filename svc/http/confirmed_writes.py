"""Answers that wait until other nodes have committed what was written (spec: replication §8): who may ask for that, and how.

    X-Replicate-To: ;confirm=2        of a request that writes
    "replicatedConfirmation": 2       of an operation
    context.replicated_confirmation   of an application

All of them end in `CallState.replicated_confirmation`, which the dispatcher looks at before it answers.
"""

from __future__ import annotations

import re
from typing import Any

from svc.auth.users import user_of
from svc.errors import AccessViolation, ClientError, Problem
from svc.messages import AppliedWrites, Request
from svc.store import Store

HEADER = "x-replicate-to"
FIELD = "replicatedConfirmation"
WRITING = frozenset(("PUT", "POST", "PATCH", "DELETE"))
_VALUE = re.compile(r"[ \t]*(?P<nodes>[^;]*?)[ \t]*(?:;[ \t]*confirm[ \t]*=[ \t]*(?P<count>[0-9]{1,6})[ \t]*)?", re.ASCII | re.IGNORECASE)
_NODES = re.compile(r"\*|[0-9]{1,6}|[^\s,;*]+(?:[ \t]*,[ \t]*[^\s,;*]+)*")


class ConfirmedWrites:
    """What a port needs of it. Without a `replication` section the header has no effect, nor has the number of an operation, which must be one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, request: Request) -> None:
        """Read the header of a request that has one, before anything is written. Raises ClientError, AccessViolation, Problem 501."""
        if self._store.remote_commits is None:
            return
        value = request.block.fields[HEADER]
        found = _VALUE.fullmatch(value)
        if found is None or (found["nodes"] and _NODES.fullmatch(found["nodes"]) is None):
            raise ClientError("X-Replicate-To must be '*', or nothing, and ';confirm=<number>'", code="VALIDATION")
        self._check_user(request)
        if found["nodes"] not in ("", "*"):
            raise Problem("Every record is on every node: X-Replicate-To cannot name nodes or their number, only ';confirm=<number>'", 501)
        if found["count"] is not None:
            self._take(request, int(found["count"]))

    def admit_operation(self, request: Request, count: Any) -> None:
        """Take the field of an operation. Raises ClientError, AccessViolation."""
        if type(count) is not int or count < 0:
            raise ClientError(f"'{FIELD}' must be a number of nodes", code="VALIDATION")
        if self._store.remote_commits is not None:
            self._check_user(request)
            self._take(request, count)

    @staticmethod
    def _check_user(request: Request) -> None:
        user = user_of(request)
        if user is None or not user.super_user:
            raise AccessViolation(user, "" if user is None else "Only a super user may say to which nodes a write has to get")

    def _take(self, request: Request, count: int) -> None:
        remote = self._store.remote_commits
        assert remote is not None
        known = remote.count_nodes()
        if count > known:
            raise ClientError(f"{count} confirmations cannot be had: there {_nodes(known)}", code="VALIDATION")
        if count:
            request.state.replicated_confirmation = count

    async def wait(self, request: Request, applied: AppliedWrites | None) -> None:
        """Until what the request has written, and is on disk, is confirmed as often as its state says. `applied`: where it was written, None: not known. Raises
        Problem 504."""
        await wait_confirmed(self._store, request.state.replicated_confirmation, applied)


async def wait_confirmed(store: Store, count: Any, applied: AppliedWrites | None) -> None:
    """Until `count` other nodes have what was written. Raises Problem 504, TypeError."""
    if count is None:
        return
    if type(count) is not int or count < 0:
        raise TypeError(f"replicated_confirmation must be a number of nodes, not {count!r}")
    remote = store.remote_commits
    if remote is not None and count:
        await remote.wait(None if applied is None else [database.name for database in applied.databases], count)


def _nodes(count: int) -> str:
    return "is 1 other node" if count == 1 else f"are {count or 'no'} other nodes"
