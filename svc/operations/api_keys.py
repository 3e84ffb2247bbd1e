"""API keys: made, listed, revoked (spec: rows §2.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from svc.auth.api_key_format import hash_of, is_prefix, new_key, prefix_of
from svc.auth.usernames import canonical_username, username_fault
from svc.auth.users import KEY_START, KEY_USER
from svc.config.values import parse_duration
from svc.errors import NotFound, Overloaded, Problem, ValidationError
from svc.operations.accounts import DELETE, INSERT, change_accounts, check_change, check_grant
from svc.operations.call import Call
from svc.operations.fields import IMPERSONATE, MAX_NAME, Field
from svc.operations.operation import SUPER_USER, Operation
from svc.store import Table, Transaction
from svc.store.env import Txn
from svc.store.snapshots import HeldSnapshot
from svc.store.system import KEY_TABLE, KEY_USE_TABLE, SYSTEM
from svc.store.values.records import decode

MOST_KEYS = 10_000  # in all
LONGEST_LIFE = 100 * 365 * 86_400  # seconds; beyond it a number is a mistake
KEPT = 30 * 86_400_000  # ms that a key stays in the list after it has expired
STEP = 32  # keys between two polls of the clock


def create_key(call: Call) -> Any:
    name, role_name, username = canonical_username(call["name"]), call["role"], call["user"]
    if (role_name is None) == (username is None):
        raise ValidationError("one of 'role' and 'user' is required: a role of its own, or the user whose rights it has")
    expires = _expires(call)
    directory, keys, uses = call.node.directory, _keys(call), _uses(call)
    key = new_key()
    prefix = prefix_of(key)
    record: dict[str, Any] = {
        "name": name,
        "prefix": prefix,
        "secret_hash": hash_of(key),
        "expires": expires,
        "created_by": call.username,
    }

    def work(transaction: Transaction, txn: Txn) -> Callable[[], dict[str, Any]]:
        if directory.key_record(name, txn) is not None:
            raise Problem(f"An API key with the name {name} already exists", 409, "CONFLICT")
        if keys.entry_count(txn) >= MOST_KEYS:
            raise Overloaded("There are too many API keys")
        if role_name is not None:
            role = directory.role_named(role_name, txn)
            if role is None:
                raise NotFound(f"{role_name} role not found")
            check_grant(call, role.get("permission"), role.get("access"))
            record["role"] = role["id"]
        else:
            record.update(_of_user(call, username, txn))
        transaction.put(keys, name, keys.validator.record(record), expires_at=None if expires is None else expires + KEPT)
        transaction.put(uses, prefix, uses.validator.record({"prefix": prefix}), expires_at=None if expires is None else expires + KEPT)
        return lambda: {
            "message": f"API key {name} created. It is shown this once: keep it now",
            "name": name,
            "key": key,
            "prefix": prefix,
            **({"role": role_name} if role_name is not None else {"user": record["user"]}),
            "expires": expires,
        }

    return change_accounts(call, INSERT, work)


def _of_user(call: Call, username: str, txn: Txn) -> dict[str, Any]:
    """What the record says of the user whose rights the key has. Raises Problem: 404, 403 for rights that the caller does not have itself."""
    directory = call.node.directory
    user = directory.user_record(username, txn)
    if user is None:
        raise NotFound(f"User {username} does not exist")
    role = directory.role_record(user["role"], txn) if isinstance(user.get("role"), str) else None
    if role is not None:
        check_change(call, role)  # a key gives access as that user, as a new password does
    if user.get("active") is not True:
        raise Problem(f"User {user['username']} is inactive", 409, "CONFLICT")
    return {"user": user["username"], "account": str(user.get("__createdtime__"))}


def _expires(call: Call) -> float | None:
    """When the new key expires, ms since the epoch; None: never. Raises Problem.

    A key that makes another one cannot give it a longer life than its own.
    """
    wish, now = call["expires"], call.node.clock.wall()
    own = None if call.caller is None else call.caller.key
    if wish is None:
        return None if own is None or own.expires == float("inf") else own.expires * 1000
    try:
        seconds = parse_duration(wish)
    except ValueError:
        seconds = 0
    if not 1 <= seconds <= LONGEST_LIFE:
        raise ValidationError("'expires' must be a time such as 90d, 12h or 3600 (seconds)")
    if own is not None and now + seconds > own.expires:
        raise Problem("An API key cannot make one that lasts longer than itself", 403)
    return float(int((now + seconds) * 1000))


# --- reading ------------------------------------------------------------------------------------------------------------------------------


def list_keys(call: Call) -> Any:
    keys = _keys(call)
    shown: list[dict[str, Any]] = []
    held = call.node.store.snapshots.hold(keys.database, reader=call.reader)
    steps = _show_each(call, held, shown)
    if not call.node.store.slices.run(steps):
        return _list_later(call, held, shown, steps)
    held.abort()
    return shown


def _show_each(call: Call, held: HeldSnapshot, shown: list[dict[str, Any]]) -> Iterator[None]:
    directory, uses, now = call.node.directory, _uses(call), call.node.clock.wall()
    for number, (_, raw) in enumerate(held.read(_keys(call).scan)):
        record = decode(raw)
        user = directory.user_of_key(record["name"])
        use = uses.get_raw(record["prefix"])
        expires = record.get("expires")
        role = None if record.get("role") is None else directory.get_role(record["role"])
        whose = {"role": None if role is None else role.role} if record.get("user") is None else {"user": record["user"]}
        shown.append(
            {
                "name": record["name"],
                "prefix": record["prefix"],
                **whose,
                "active": user is not None and user.active and user.role is not None and (expires is None or expires > now * 1000),
                "created": record.get("__createdtime__"),
                "created_by": record.get("created_by"),
                "expires": expires,
                "last_used": None if use is None else decode(use).get("time"),
            }
        )
        if not number % STEP:
            yield


async def _list_later(call: Call, held: HeldSnapshot, shown: list[dict[str, Any]], steps: Iterator[None]) -> list[dict[str, Any]]:
    try:
        await call.node.store.slices.exhaust(steps)
    finally:
        held.abort()
    return shown


# --- revoking -----------------------------------------------------------------------------------------------------------------------------


def revoke_key(call: Call) -> Any:
    directory, name = call.node.directory, call["name"]

    def work(transaction: Transaction, txn: Txn) -> Callable[[], str]:
        record = directory.key_record_by_prefix(name, txn) if is_prefix(name) else directory.key_record(canonical_username(name), txn)
        if record is None:
            raise NotFound(f"API key {name} does not exist")
        role_id = record.get("role")
        if record.get("user") is not None:
            role_id = (directory.user_record(record["user"], txn) or {}).get("role")
        role = directory.role_record(role_id, txn) if isinstance(role_id, str) else None
        if role is not None:
            check_change(call, role)
        remove_key(call, transaction, record)
        return lambda: f"API key {record['name']} revoked"

    return change_accounts(call, DELETE, work)


def remove_key(call: Call, transaction: Transaction, record: dict[str, Any]) -> None:
    """Have the transaction remove a key. `record`: of `svc_key`."""
    transaction.delete(_keys(call), record["name"])
    transaction.delete(_uses(call), record["prefix"])


def has_key(call: Call, role_id: str, txn: Txn) -> bool:
    """Whether some key that has not expired has this role itself."""
    now = call.node.clock.wall() * 1000
    return any(
        record.get("role") == role_id and (record.get("expires") is None or record["expires"] > now)
        for record in call.node.directory.iter_key_records(txn)
    )


def _keys(call: Call) -> Table:
    return call.node.store.databases[SYSTEM].tables[KEY_TABLE]


def _uses(call: Call) -> Table:
    return call.node.store.databases[SYSTEM].tables[KEY_USE_TABLE]


# --- rows ---------------------------------------------------------------------------------------------------------------------------------


def _name_fault(value: str, field: Field) -> str | None:
    if len(value) > MAX_NAME - len(KEY_USER):
        return f"length must be less than or equal to {MAX_NAME - len(KEY_USER)} characters long"
    if value.startswith(KEY_START):
        return f"must not begin with {KEY_START}, as keys do"
    return username_fault(value)


def _revoked_fault(value: str, field: Field) -> str | None:
    if len(value) > MAX_NAME:
        return f"length must be less than or equal to {MAX_NAME} characters long"
    return "is a key itself, which belongs nowhere: give its first part" if value.startswith(KEY_START) and not is_prefix(value) else None


_EXAMPLE_PREFIX = "svc_Zk3vR8aQ1x"

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="create_key",
        category="keys",
        summary="Create an API key, for a program.",
        permission=SUPER_USER,
        handler=create_key,
        fields=(
            Field(
                "name",
                "string",
                "Name of the key, which no other has: what it is for. Not with `svc_` at the beginning.",
                required=True,
                check=_name_fault,
            ),
            Field("role", "string", "Role that the key has itself. Either this or `user`."),
            Field("user", "string", "User whose rights the key has, and with whom it ends."),
            Field("expires", "any", "Time that it counts: a string such as `90d`, `12h`, or seconds. Default: until it is revoked."),
            IMPERSONATE,
        ),
        returns="`message`, `name`, `key`, `prefix`, `role` or `user`, and `expires` (ms since the epoch, or null).",
        notes="`key` is the key, and in no later answer: only its hash is stored. Send it as `Authorization: Bearer <key>` to any port; over MQTT it is the "
        "password.\n\n"
        "A caller that is not a super user cannot make a key with rights that the caller does not have itself: 403. A key that makes a key cannot give it a "
        "longer life than it has itself. `svc key create NAME role=R expires=90d` is the same.",
        example={"name": "nightly import", "role": "gardener", "expires": "90d"},
        example_answer={
            "message": "API key nightly import created. It is shown this once: keep it now",
            "name": "nightly import",
            "key": "svc_Zk3vR8aQ1x_...",
            "prefix": _EXAMPLE_PREFIX,
            "role": "gardener",
            "expires": 1775001600000,
        },
    ),
    Operation(
        name="list_keys",
        category="keys",
        summary="List the API keys.",
        permission=SUPER_USER,
        handler=list_keys,
        fields=(IMPERSONATE,),
        returns="A list in the order of the names: `name`, `prefix`, `role` or `user`, `active`, `created`, `created_by`, `expires`, `last_used`; times "
        "in ms since the epoch.",
        notes="`active`: whether it lets its bearer in: false when it has expired, or its user is gone or inactive, or its role is gone. `last_used` is exact "
        "to a minute; null: never. Keys that have expired are listed for another 30 days. `svc key list` is the same.",
        example_answer=[
            {
                "name": "nightly import",
                "prefix": _EXAMPLE_PREFIX,
                "role": "gardener",
                "active": True,
                "created": 1767225600000,
                "created_by": "admin",
                "expires": 1775001600000,
                "last_used": 1767312000000,
            }
        ],
    ),
    Operation(
        name="revoke_key",
        category="keys",
        summary="Revoke an API key.",
        permission=SUPER_USER,
        handler=revoke_key,
        fields=(
            Field("name", "string", "Name of the key, or its prefix.", required=True, check=_revoked_fault),
            IMPERSONATE,
        ),
        returns="A message.",
        notes="It counts for nothing from the next request on, at every process; what streams to its bearer ends. A caller that is not a super user "
        "can only revoke a key whose rights it has itself: 403. `svc key revoke NAME` is the same.",
        example={"name": "nightly import"},
        example_answer={"message": "API key nightly import revoked"},
    ),
)
