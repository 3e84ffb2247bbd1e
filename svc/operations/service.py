"""From an operation body to its result: who asks, which row, may they, are the fields right, run (spec: operations §1.2).

The order of the checks is the specification's: shape of the body, login, name of the operation, role, fields, existence, execution.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from svc.auth.roles import ALL_RIGHTS, role_rights
from svc.auth.users import User
from svc.awaitables import then
from svc.errors import AccessViolation, ClientError, ValidationError
from svc.http.found_rows import gather_rows
from svc.http.row_stream import QueryExecution
from svc.messages import Request
from svc.operations.call import Call, OpenTransaction
from svc.operations.fields import DATABASE, TABLE, named_by_text, read_fields
from svc.operations.impersonation import impersonated
from svc.operations.node import Node
from svc.operations.operation import Operation
from svc.operations.own_password import is_own_change
from svc.operations.permissions import authorize
from svc.operations.registry import by_name
from svc.operations.replicated import check_replicated, runs_elsewhere, with_others
from svc.query.hints import did_you_mean
from svc.resources import PlannedQuery
from svc.resources.resource import StreamedRows
from svc.store.snapshots import HeldSnapshot
from svc.store.writing.commit import wait_committed

NEVER_FROM_CLIENTS = ("svc_user", "bypass_auth", "parsed_sql_object")
"""Fields that carry internal state; a client's are dropped."""


class Operations:
    """Runs operations on a node."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def find(self, body: Any) -> tuple[str, Operation | None]:
        """The name a body asks for, and its row. Raises 400 for a body without one."""
        if not isinstance(body, Mapping) or not body:
            raise ClientError("Invalid JSON.", code="BAD_BODY")
        name = body.get("operation")
        if not isinstance(name, str) or not name:
            raise ClientError("Request body must include an 'operation' property.", code="BAD_BODY")
        return name, by_name().get(name)

    def prepare(self, body: Any, user: User | None, request: Request | None = None, *, authorized: bool = True) -> Call:
        """Every check up to the fields; nothing has happened yet. `user`: who sent it. Raises Problem.

        `request`: the client's, None for calls from code. `authorized`: whether rights are checked.
        """
        name, row = self.find(body)
        if request is not None:
            body = {key: value for key, value in body.items() if key not in NEVER_FROM_CLIENTS}
        if authorized and user is None and (row is None or not self._needs_no_login(row, body)):
            raise AccessViolation(None)
        if row is None:
            hint = did_you_mean(name, by_name())
            raise ClientError(f"Operation '{name[:250]}' not found" + (f" ({hint})" if hint else ""))
        body = named_by_text(body, row.fields)
        caller = user
        if "impersonate" in body:
            user = self._impersonated(body["impersonate"], user, name, authorized=authorized)
        if authorized and user is not None and row.permission.kind != "none" and not is_own_change(row, body, user):
            authorize(row, name, body, user, self.node)
        call = Call(self.node, row, name, body, read_fields(body, row.fields), user, request=request, authorized=authorized)
        call.caller = user if caller is None else caller
        if not isinstance(body.get("replicated", False), bool):
            raise ValidationError("'replicated' must be a boolean")
        if body.get("replicated") is True:
            check_replicated(call)
        table = call.arguments.get(TABLE.name)
        if authorized and isinstance(table, str):
            database = call.arguments.get(DATABASE.name) or DATABASE.default
            call.rights = role_rights(user, database, table) if isinstance(database, str) else ALL_RIGHTS
        return call

    def _impersonated(self, wish: Any, user: User | None, name: str, *, authorized: bool) -> User:
        if not authorized:  # code that runs with every right would go on with them
            raise ValidationError("'impersonate' needs 'authorize' to be true")
        if user is None:
            raise ValidationError(f"'impersonate' cannot be used with '{name}'")
        return impersonated(wish, user, name, self.node)

    @staticmethod
    def _needs_no_login(row: Operation, body: Mapping[str, Any]) -> bool:
        if row.permission.kind != "none":
            return False
        return row.name != "create_authentication_tokens" or body.get("username") is not None or body.get("password") is not None

    def run(self, call: Call) -> Any:
        """What the handler returns, a text as the message it stands for; or an awaitable of that."""
        body = call.body  # the handler may let go of it
        return then(call.operation.handler(call), lambda result: self._completed(call, body, result))

    def _completed(self, call: Call, body: Mapping[str, Any], result: Any) -> Any:
        if inspect.isawaitable(result):  # of a coroutine that returned an awaitable
            return then(result, lambda result: self._completed(call, body, result))
        if isinstance(result, str):
            result = {"message": result}
        if body.get("replicated") is not True:
            return result
        if call.node.replication is None or not runs_elsewhere(call.operation):
            return result | {"replicated": []} if type(result) is dict else result  # spec: operations §1.3
        return with_others(call, body, result)

    async def perform(
        self,
        body: Mapping[str, Any],
        user: User | None = None,
        *,
        authorize: bool = False,
        joined: OpenTransaction | None = None,
        request: Request | None = None,
    ) -> Any:
        """`server.operation`: the 200 body as a Python value, once what was written is on the disk. Raises Problem; its `body`, if it has one,
        is what a client would have got. The mapping is not modified. `joined`: what it writes becomes part of that transaction, if it can, and what it finds
        is what that sees. `request`: the client's, where the operation asks about it."""
        call = self.prepare(dict(body), user, request, authorized=authorize)
        if call.operation.joins:
            call.joined = joined
        result = self.run(call)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, PlannedQuery):
            return await values_of(result, self.node, joined)
        if call.pending_commit is not None:
            await wait_committed(call.pending_commit)
        return await gather_rows(result) if isinstance(result, StreamedRows) else result


async def values_of(rows: PlannedQuery, node: Node, joined: OpenTransaction | None = None) -> list[Any]:
    """What a query finds as Python values, others served in between. To be awaited in the turn in which it was planned."""
    held: HeldSnapshot | None = None
    if joined is not None and joined.has_written_to(rows.table.database):
        found = joined.preview(rows.table.database)
        held = await found if inspect.isawaitable(found) else found
    try:
        execution = QueryExecution(
            rows,
            native=True,
            whole=True,
            now=node.clock.monotonic,
            wall_ms=node.clock.wall() * 1000,
            reader="an operation called by code",
            held=held,
        )
    finally:
        if held is not None:  # the execution has its share
            held.abort()
    try:
        while not execution.gather():
            execution.keep()
            await execution.wait_for_slice()
        return execution.values()
    finally:
        execution.close()
