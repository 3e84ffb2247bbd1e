"""Sessions of users: listed, ended (spec: operations §6; what they are: http §11.3).

The id of a session lets in whoever has it, so it is in no answer. Its *handle* is: the characters of the id that logs show, and a digest of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

from svc.auth.session_cookie import SHOWN_ID
from svc.auth.users import User, ending_logins
from svc.errors import NotFound
from svc.operations.accounts import DELETE, UPDATE, change_accounts, check_change
from svc.operations.call import Call
from svc.operations.fields import IMPERSONATE, Field
from svc.operations.operation import SUPER_USER, Operation
from svc.store import Transaction
from svc.store.env import Txn
from svc.store.system import SESSION_SINCE, SYSTEM, USER_TABLE
from svc.store.values.keys import prefix_range
from svc.store.values.records import decode, expiry_of

DEFAULT_LIMIT, MOST = 1000, 10_000  # sessions in one answer
STEP = 64  # sessions between two polls of the clock
_DIGEST = 16  # hexadecimal digits


def handle_of(session_id: str) -> str:
    """
    >>> handle_of("7d444840-9dc0-41d1-b245-5ffdce74fad2")
    '7d444840-b9838c8cc19b75a5'
    """
    return f"{session_id[:SHOWN_ID]}-{sha256(session_id.encode()).hexdigest()[:_DIGEST]}"


def list_sessions(call: Call) -> Any:
    """Those to which somebody is logged in; others let nobody in."""
    found: list[dict[str, Any]] = []
    table = call.node.sessions.table
    held = call.node.store.snapshots.hold(table.database, reader=call.reader)
    steps = _find_each(call, held.read(table.scan), found)

    async def later() -> list[dict[str, Any]]:
        try:
            await call.node.store.slices.exhaust(steps)
        finally:
            held.abort()
        return _ordered(found)

    if not call.node.store.slices.run(steps):
        return later()
    held.abort()
    return _ordered(found)


def _ordered(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda each: (each["username"], each["since"] or 0, each["session"]))


def _find_each(call: Call, rows: Iterator[tuple[bytes, bytes]], found: list[dict[str, Any]]) -> Iterator[None]:
    sessions, wanted, limit = call.node.sessions, call["username"], call["limit"]
    if wanted is not None:
        wanted = call.node.directory.stored_name(wanted)
    own = None if call.request is None or call.request.session is None else call.request.session.id
    for number, (_, raw) in enumerate(rows):
        record = decode(raw)
        if wanted in (None, record.get("user")) and (user := sessions.owner(record)) is not None:
            expires = expiry_of(raw)
            found.append(
                {
                    "session": handle_of(record["id"]),
                    "username": user.username,
                    "since": record.get(SESSION_SINCE),
                    "renewed": sessions.renewed(expires),
                    "expires": expires,
                    "is_own": record["id"] == own,
                }
            )
            if len(found) == limit:
                return
        if not number % STEP:
            yield


def end_session(call: Call) -> Any:
    handle, sessions = call["session"], call.node.sessions

    def work(transaction: Transaction, txn: Txn) -> Callable[[], str]:
        alike = (decode(raw) for _, raw in sessions.table.scan(txn, *prefix_range(handle[:SHOWN_ID])))
        record = next((each for each in alike if handle_of(each["id"]) == handle), None)
        user = None if record is None else sessions.owner(record)
        if record is None or user is None:
            raise NotFound(f"Session {handle} does not exist, or has ended")
        _check(call, user)
        transaction.delete(sessions.table, record["id"])
        return lambda: f"A session of {user.username} has ended"

    return change_accounts(call, DELETE, work)


def end_sessions(call: Call) -> Any:
    directory = call.node.directory
    users = call.node.store.databases[SYSTEM].tables[USER_TABLE]
    username = directory.stored_name(call["username"])

    def work(transaction: Transaction, txn: Txn) -> Callable[[], str]:
        record = directory.user_record(username, txn)
        if record is None:
            raise NotFound(f"User {username} does not exist")
        held = directory.role_record(record["role"], txn) if isinstance(record.get("role"), str) else None
        if held is not None:
            check_change(call, held)
        transaction.patch(users, username, users.validator.changes(ending_logins()))
        return lambda: f"All sessions and tokens of {username} have ended"

    return change_accounts(call, UPDATE, work)


def _check(call: Call, user: User) -> None:
    """Raise 403 for the session of a user with rights that the caller does not have itself."""
    if user.role is not None:
        check_change(call, {"permission": user.role.permission, "access": user.role.access})


# --- rows ---------------------------------------------------------------------------------------------------------------------------------


def _handle_fault(value: str, field: Field) -> str | None:
    return None if len(value) == SHOWN_ID + 1 + _DIGEST else "must be that of a session as list_sessions has it"


_EXAMPLE = "7d444840-b9838c8cc19b75a5"

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="list_sessions",
        category="tokens",
        summary="List the sessions to which users are logged in.",
        permission=SUPER_USER,
        handler=list_sessions,
        fields=(
            Field("username", "string", "Only sessions of this user."),
            Field("limit", "integer", "The number of sessions.", default=DEFAULT_LIMIT, low=1, high=MOST),
            IMPERSONATE,
        ),
        returns="For each session `session`, `username`, `since` (the login), `renewed`, `expires` and `is_own`; by user, oldest login first. Times in ms "
        "since the epoch.",
        notes="`session` is a name for `end_session`: its first 8 characters are those that logs show, and nobody can log in with it. `renewed`: the day of "
        "the last use, to within a day; null where `authentication.cookie.expires` is set, for then use does not renew a session. `since` is null for sessions "
        "of former versions. `is_own`: that of the request. Of more sessions than `limit` it has any.",
        example={"username": "ann"},
        example_answer=[
            {
                "session": _EXAMPLE,
                "username": "ann",
                "since": 1767225600000,
                "renewed": 1767312000000,
                "expires": 1769904000000,
                "is_own": False,
            }
        ],
    ),
    Operation(
        name="end_session",
        category="tokens",
        summary="End a session.",
        permission=SUPER_USER,
        handler=end_session,
        fields=(Field("session", "string", "The session, as `list_sessions` has it.", required=True, check=_handle_fault), IMPERSONATE),
        returns="A message.",
        notes="Its cookie counts for nothing from the next request on; what streams to it ends. A caller that is not a super user can only end a session of "
        "a user whose rights it has itself: 403.",
        example={"session": _EXAMPLE},
        example_answer={"message": "A session of ann has ended"},
    ),
    Operation(
        name="end_sessions",
        category="tokens",
        summary="End all sessions and tokens of a user.",
        permission=SUPER_USER,
        handler=end_sessions,
        fields=(Field("username", "string", "Name of the user.", required=True), IMPERSONATE),
        returns="A message.",
        notes="The password and the API keys of the user stay. A caller that is not a super user can only do it to a user whose rights it has itself: 403.",
        example={"username": "ann"},
        example_answer={"message": "All sessions and tokens of ann have ended"},
    ),
)
