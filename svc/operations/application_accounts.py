"""The accounts of an application's users (spec: operations §5; what they are: rows §2). They are locked and removed as users."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from svc.errors import NotFound
from svc.operations.call import Call
from svc.operations.fields import IMPERSONATE, Field
from svc.operations.operation import SUPER_USER, Operation
from svc.store.env import Txn
from svc.store.values.keys import after, encode_key
from svc.store.values.records import decode

if TYPE_CHECKING:
    from svc.accounts.directory import Accounts
    from svc.store import Table

DEFAULT_LIMIT, MOST = 100, 1000
NO_ACCOUNTS = "No application of this server has accounts"
STEP = 16  # accounts between two polls of the clock
_EMAIL = "email"


def list_accounts(call: Call) -> Any:
    accounts = call.node.accounts
    if accounts is None:
        raise NotFound(NO_ACCOUNTS)
    found: list[dict[str, Any]] = []
    table = accounts.table
    held = call.node.store.snapshots.hold(table.database, reader=call.reader)
    steps = _find_each(call, accounts, held.read(partial(_scan, table, call["username"], call["after"])), found)

    async def later() -> list[dict[str, Any]]:
        try:
            await call.node.store.slices.exhaust(steps)
        finally:
            held.abort()
        return found

    if not call.node.store.slices.run(steps):
        return later()
    held.abort()
    return found


def _scan(table: Table, username: str | None, behind: str | None, txn: Txn) -> Iterator[tuple[bytes, bytes]]:
    if username is not None:
        key = encode_key(username)
        return table.scan(txn, key, after(key))
    return table.scan(txn, None if behind is None else after(encode_key(behind)))


def _find_each(call: Call, accounts: Accounts, rows: Iterator[tuple[bytes, bytes]], found: list[dict[str, Any]]) -> Iterator[None]:
    directory, key, wanted = call.node.directory, accounts.table.primary_key, (call["search"] or "").casefold()
    for number, (_, raw) in enumerate(rows):
        record = decode(raw)
        username, email = str(record[key]), record.get(_EMAIL) if accounts.has_addresses else None
        if not wanted or wanted in username.casefold() or (isinstance(email, str) and wanted in email.casefold()):
            user = directory.get_user(username)
            stored = directory.user_record(username) or {}
            found.append(
                {
                    "username": username,
                    "email": email,
                    "confirmed": email is not None and accounts.confirms_addresses,
                    "active": user is not None and user.active,
                    "role": None if user is None or user.role is None else user.role.role,
                    "password": isinstance(stored.get("password"), str),
                    "logins": []
                    if user is None
                    else [{"provider": row["provider"], "email": row.get("email")} for row in accounts.find_logins(user)],
                    "created": stored.get("__createdtime__"),
                }
            )
            if len(found) == call["limit"]:
                return
        if not number % STEP:
            yield


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="list_accounts",
        category="users",
        summary="List the accounts of the application that has some.",
        permission=SUPER_USER,
        handler=list_accounts,
        fields=(
            Field("username", "string", "Only the account of this name."),
            Field("search", "string", "Only accounts whose name or address contains this text, in whatever case."),
            Field("after", "string", "Only accounts behind this name, which need not be that of one."),
            Field("limit", "integer", f"The number of accounts; at most {MOST}.", default=DEFAULT_LIMIT, low=1, high=MOST),
            IMPERSONATE,
        ),
        returns="For each account `username`, `email` (null without one), `confirmed`, `active`, `role`, `password`, `logins` and `created` (ms), in the "
        "order of the names.",
        notes="`confirmed`: whether the address is known to be that of the person. `password`: whether there is one. `logins`: `provider` and `email` of each "
        "login with a provider. Sign-ups that wait for their confirmation are no accounts yet. 404 if no application has accounts.\n\n"
        "An account is locked by `alter_user` with `active: false`, and removed by `drop_user`.",
        example={"search": "example.org"},
        example_answer=[
            {
                "username": "ann",
                "email": "ann@example.org",
                "confirmed": True,
                "active": True,
                "role": "member",
                "password": True,
                "logins": [{"provider": "company", "email": "ann@example.com"}],
                "created": 1767225600000,
            }
        ],
    ),
)
