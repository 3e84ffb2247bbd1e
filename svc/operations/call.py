"""One call of an operation, as its handler sees it.

A handler returns the 200 body: a text (becomes `{"message": text}`), any value, a `PlannedQuery` or `StreamedRows` (streamed), or a `Response` as it is; or an
awaitable of one of these. What it wrote is answered when it is on the disk: `return call.commit(transaction, lambda: {...})`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from svc.auth.roles import ALL_RIGHTS, TableRights
from svc.auth.users import User
from svc.awaitables import then
from svc.errors import ClientError, NotFound
from svc.messages import AppliedWrites, Request
from svc.operations.node import Node
from svc.operations.operation import Operation
from svc.query.narrowing import guard_of, view_of
from svc.query.row_guard import RowGuard
from svc.query.tables import AnyTable
from svc.store import Database, Table, Transaction
from svc.store.writing.commit import commit


class OpenTransaction(Protocol):
    """Of code that calls operations: `api.transactions.Transaction`."""

    @property
    def writes(self) -> Transaction: ...

    def has_written_to(self, database: Database) -> bool: ...

    def preview(self, database: Database) -> Any: ...

    def join(self, transaction: Transaction) -> Awaitable[None] | None: ...


class Call:
    """`name`: of the operation as sent. `body`: as sent, not to be changed. `arguments`: the checked fields by canonical name.

    `user`: the user whose rights apply; None only where no login is needed. `caller`: the user that sent it; differs from `user` under impersonation.
    `rights`: on the table of the call. `authorized`: whether rights are checked at all (not for `server.operation` without `authorize`).
    `request`: None for calls from code.
    """

    __slots__ = (
        "_database",
        "_table",
        "arguments",
        "authorized",
        "body",
        "caller",
        "is_check",
        "joined",
        "name",
        "node",
        "operation",
        "pending_commit",
        "request",
        "rights",
        "user",
    )  # fmt: skip

    def __init__(
        self,
        node: Node,
        operation: Operation,
        name: str,
        body: Mapping[str, Any],
        arguments: dict[str, Any],
        user: User | None,
        *,
        request: Request | None = None,
        authorized: bool = True,
    ) -> None:
        self.node = node
        self.operation = operation
        self.name = name
        self.body = body
        self.arguments = arguments
        self.user = user
        self.caller = user  # who sent it, if that is not who it is made for
        self.request = request
        self.authorized = authorized
        self.rights: TableRights = ALL_RIGHTS
        self.is_check = False  # nothing is wanted of a search but its faults
        self.joined: OpenTransaction | None = None  # of code: what is written becomes part of it, if the operation `joins`
        self.pending_commit: AppliedWrites | None = None  # the response waits for their commit
        self._database: Database | None = None
        self._table: Table | None = None

    def __getitem__(self, field: str) -> Any:
        """The argument of this name."""
        return self.arguments[field]

    @property
    def username(self) -> str | None:
        """The user name in the log of the store."""
        return None if self.user is None else self.user.username

    @property
    def trace_id(self) -> bytes | None:
        """The trace that the log of the store shows: that of the request."""
        return None if self.request is None else self.request.trace_id

    @property
    def reader(self) -> str:
        """The holder of a snapshot, for messages in the log."""
        user = "no user" if self.user is None else f"the user {self.user.username}"
        return f"the answer to the operation {self.name} for {user}"

    @property
    def is_super_user(self) -> bool:
        return not self.authorized or (self.user is not None and self.user.super_user)

    @property
    def database(self) -> Database:
        """The database the call names. Raises the specification's 404 (400 for writes of records)."""
        if self._database is None:
            self._database = find_database(self.node, self.arguments["database"], self.operation.missing_status)
        return self._database

    @property
    def table(self) -> Table:
        """The table the call names. Raises as `database`."""
        if self._table is None:
            self._table = find_table(self.node, self.arguments["database"], self.arguments["table"], self.operation.missing_status)
        return self._table

    # --- rules on rows (spec: rows §1) -----------------------------------------------------------------------------------------------

    def seen(self, table: Table, also: str | None = None) -> AnyTable:
        """The table as the caller may see it. `also`: see `view_of`."""
        return table if self.is_super_user else view_of(self.user, table, also)

    @property
    def row_guard(self) -> RowGuard | None:
        """What the rules say of writes to the table of the call."""
        return None if self.is_super_user else guard_of(self.user, self.table)

    # --- writing ---------------------------------------------------------------------------------------------------------------------

    def begin(self, operation: int = 0) -> Transaction:
        """A transaction in the name of the user. `operation`: one of `store.log.OPERATIONS`."""
        return Transaction(self.node.store, self.username, operation, self.trace_id)

    def commit(self, transaction: Transaction, result: Callable[[], Any]) -> Any:
        """Apply the writes and answer `result()` once they are on the disk. `result` is called when the transaction has been applied:
        `transaction.version` is known. Raises the Problem that prevents it."""
        if self.joined is not None:
            return then(self.joined.join(transaction), lambda _: result())
        request = self.request
        return then(commit(transaction, self, 0 if request is None else len(request.content)), lambda _: result())

    # --- what blocks -----------------------------------------------------------------------------------------------------------------

    def on_helper(self, work: Callable[[], Any]) -> Awaitable[Any]:
        """Run what blocks on a helper thread."""
        return self.node.loop.run_in_executor(self.node.executor, work)


def find_database(node: Node, name: str, missing_status: int = 404) -> Database:
    database = node.store.find_database(name)
    if database is None:
        raise _missing(f"database '{name}' does not exist", missing_status)
    return database


def find_table(node: Node, database: str, table: str, missing_status: int = 404) -> Table:
    found = find_database(node, database, missing_status).tables.get(table)
    if found is None:
        raise _missing(f"Table '{database}.{table}' does not exist", missing_status)
    return found


def _missing(text: str, status: int) -> ClientError:
    return NotFound(text) if status == 404 else ClientError(text, status, "NOT_FOUND")
