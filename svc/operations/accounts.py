"""What the operations on users and roles have in common: writing without a gap after the checks, and the bounds of callers that are not super users
(spec: operations §5, security §5.5).

Whether a name is free, whether a role is in use: such questions are asked of the turn's write transaction, which has what other requests of the turn
have written and which no other process can write beside, and the answer is applied within the same call. That an active super user remains is seen to by
the guard of the system database (`auth.users`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from svc.auth.passwords import verify_password
from svc.auth.roles import covers
from svc.awaitables import then
from svc.errors import Problem
from svc.operations.call import Call, OpenTransaction
from svc.operations.operation_lists import expanded
from svc.operations.registry import by_name
from svc.root.administrator import PASSWORD_FILE, remove_initial_password
from svc.store import Transaction, WriterBusy
from svc.store.env import Txn
from svc.store.snapshots import HeldSnapshot
from svc.store.system import SYSTEM
from svc.store.writing.commit import wait_committed

INSERT, UPDATE, DELETE = 1, 2, 0  # how the log calls the transaction: positions in `store.log.OPERATIONS`

Work = Callable[[Transaction, Txn], Callable[[], Any]]
"""Collects writes; reads with the transaction it is given. Returns what makes the answer once they are applied. Raises Problem, having done nothing."""


def change_accounts(call: Call, operation: int, work: Work) -> Any:
    """Run `work` and apply what it collected: nothing comes in between. Returns the answer, or an awaitable of it if another write is under way."""
    if call.joined is not None:
        return then(call.joined.preview(call.node.store.databases[SYSTEM]), partial(_join, call, call.joined, operation, work))
    try:
        return _change(call, operation, work)
    except WriterBusy:
        store = call.node.store
        return store.write_when_free(lambda: (store.databases[SYSTEM],), lambda: _change(call, operation, work))


def _change(call: Call, operation: int, work: Work) -> Any:
    store = call.node.store
    system = store.databases[SYSTEM]
    store.open_writers((system,), wait=False)
    transaction = call.begin(operation)
    answer = work(transaction, system.env.writer())
    transaction.apply(wait=False)
    call.pending_commit = transaction
    return answer()


def _join(call: Call, joined: OpenTransaction, operation: int, work: Work, held: HeldSnapshot) -> Any:
    """Make it part of a transaction of code. `held`: what that sees. At its commit `work` is asked once more, for others may write in between."""
    system = call.node.store.databases[SYSTEM]
    transaction = call.begin(operation)
    try:
        answer = work(transaction, held.use())
    finally:
        held.abort()
    start, collected = joined.writes.size, transaction.collected

    def check(txn: Txn) -> None:
        again = call.begin(operation)
        work(again, txn)
        if again.collected != collected:
            raise Problem(f"What {call.name} is about has changed meanwhile: try again", 409, "CONFLICT")

    def done(_: Any) -> Any:
        joined.writes.recheck(start, system, check)
        return answer()

    return then(joined.join(transaction), done)


def own_login(call: Call, username: str) -> tuple[str | None, str | None]:
    """Ids of the session or of the token by which this user makes the call: it outlives the change of the own password. (None, None) for another
    user's, and for what was sent with the password itself or a certificate."""
    request, caller = call.request, call.caller
    if request is None or caller is None or caller.username != username or call.user is not caller or caller.key is not None:
        return None, None
    scheme, _, token = request.block.fields.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return None, call.node.tokens.token_id(token.strip())
    session = request.session
    return (session.id, None) if session is not None and scheme.lower() != "basic" and session.user == username else (None, None)


# --- callers that are not super users -----------------------------------------------------------------------------------------------------


def check_grant(call: Call, permission: Any, access: Any = None) -> None:
    """Raise 403 unless the caller has all of this permission, and the `access`, itself and so may grant it."""
    if not _holds(call, permission, access):
        raise Problem("Your role cannot give rights that it does not have", 403)


def check_change(call: Call, role: Mapping[str, Any]) -> None:
    """Raise 403 unless the caller has itself all that this role gives, and so may change or remove it and its users. `role`: its record."""
    if not _holds(call, role.get("permission"), role.get("access")):
        raise Problem("Your role cannot change or remove a role or a user with rights that it does not have itself", 403)


def _holds(call: Call, permission: Any, access: Any) -> bool:
    """Raises 403 of its own for the permission of a super user."""
    if call.is_super_user:
        return True
    if not isinstance(permission, Mapping):
        permission = {}
    if permission.get("super_user") is True:
        raise _super_users_only()
    own = None if call.user is None else call.user.role
    if own is None or access not in (None, {}, own.access):
        return False
    # Of its own it has all, also what it may do with tables that do not exist any more.
    return own.permission == permission or (
        covers(own, permission, call.node.store.databases) and _covers_operations(own.permission, permission)
    )


def _super_users_only() -> Problem:
    return Problem("Only super_user roles can create or change a super_user", 403)


def _covers_operations(own: Mapping[str, Any], permission: Mapping[str, Any]) -> bool:
    mine, theirs = expanded(own), expanded(permission)
    if theirs is None:
        return mine is None  # without a list: whatever the tables allow
    if mine is not None:
        return theirs <= mine
    rows = by_name()
    return all(name not in rows or rows[name].permission.kind in ("none", "any", "table") for name in theirs)


# --- the initial password -----------------------------------------------------------------------------------------------------------------


async def forgetting_initial_password(call: Call, passwords: Mapping[str, str | None], write: Callable[[], Any]) -> Any:
    """The answer of `write`, which gives these users their new passwords, None: which removes them.

    If one of them had the password that the installation made up and keeps in a file (spec: configuration §4.1), and gets another, that file goes as soon as
    the write is on the disk.
    """
    path: Path = call.node.config.root / PASSWORD_FILE
    users = [(call.node.directory.user_record(name), new) for name, new in passwords.items()]

    def was_initial() -> bool:
        try:
            password = path.read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError):
            return False
        return any(
            user is not None
            and isinstance(user.get("password"), str)
            and new != password
            and verify_password(password, user["password"]).matches
            for user, new in users
        )

    is_forgotten = call.joined is None and await call.on_helper(was_initial)  # a transaction may still be undone
    answer = write()
    if inspect.isawaitable(answer):
        answer = await answer
    if is_forgotten:
        if call.pending_commit is not None:
            await wait_committed(call.pending_commit)
        root: Path = call.node.config.root
        await call.on_helper(lambda: remove_initial_password(root))
    return answer
