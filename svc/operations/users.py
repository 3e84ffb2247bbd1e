"""Users (spec: operations §5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from svc.auth.passwords import hash_password, is_acceptable, length_fault
from svc.auth.usernames import canonical_username, skeleton, username_fault
from svc.auth.users import ending_logins, login_id_of, new_user_record
from svc.errors import NotFound, Problem, ValidationError
from svc.operations.accounts import (
    DELETE,
    INSERT,
    UPDATE,
    change_accounts,
    check_change,
    check_grant,
    forgetting_initial_password,
    own_login,
)
from svc.operations.call import Call
from svc.operations.fields import IMPERSONATE, MAX_NAME, REPLICATED, Field
from svc.operations.operation import ANYONE, SUPER_USER, Operation
from svc.operations.own_password import changed_meanwhile, verify_current
from svc.operations.roles import is_role_name
from svc.store import Table, Transaction
from svc.store.env import Txn
from svc.store.snapshots import HeldSnapshot
from svc.store.system import ROLE_TABLE, SESSION_LOGIN, SESSION_TABLE, SYSTEM, USER_TABLE
from svc.store.values.conversion import printable
from svc.store.values.records import decode, projection

STEP = 32  # users between two polls of the clock
_name_in = projection(("username",))
_TIMES = ("__createdtime__", "__updatedtime__")


def _username_fault(value: str, field: Field) -> str | None:
    if len(value) > MAX_NAME:
        return f"length must be less than or equal to {MAX_NAME} characters long"
    return username_fault(value)


def _password_fault(value: str, field: Field) -> str | None:
    return None if is_acceptable(value) else "is not allowed to be empty"


# --- reading ------------------------------------------------------------------------------------------------------------------------------


def list_users(call: Call) -> Any:
    users = _users(call)
    shown: list[dict[str, Any]] = []
    held = call.node.store.snapshots.hold(users.database, reader=call.reader)
    steps = _show_each(held.read(users.scan), shown, held.read(call.node.store.databases[SYSTEM].tables[ROLE_TABLE].scan))
    if not call.node.store.slices.run(steps):
        return _list_later(call, held, shown, steps)
    held.abort()
    return shown


def _show_each(
    users: Iterator[tuple[bytes, bytes]], shown: list[dict[str, Any]], of_roles: Iterator[tuple[bytes, bytes]]
) -> Iterator[None]:
    roles: dict[str, Any] = {}
    for _, raw in of_roles:
        record = decode(raw)
        roles[record["id"]] = _shown_role(record)
        yield
    for number, (_, raw) in enumerate(users):
        record = decode(raw)
        role = record.get("role")
        shown.append(
            {
                "username": record["username"],
                "active": record.get("active") is True,
                "role": roles.get(role) if isinstance(role, str) else None,
                **{name: record[name] for name in _TIMES if name in record},
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


def _shown_role(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in ("id", "role", "permission", "access") if record.get(name) is not None}


def user_info(call: Call) -> Any:
    user = call.user
    if user is None:  # from code, without a user
        raise Problem("Must login", 401)
    record = call.node.directory.user_record(user.username) or {}
    return {**user.as_record(), **{name: record[name] for name in _TIMES if name in record}}


# --- writing ------------------------------------------------------------------------------------------------------------------------------


async def add_user(call: Call) -> Any:
    username, role_name, active = canonical_username(call["username"]), call["role"], call["active"]
    fault = length_fault(call["password"], _min_length(call))
    faults = [] if fault is None else [fault]
    if not is_role_name(role_name):
        faults.append("Role is invalid")
    if not isinstance(active, bool):
        faults.append("Active must be a boolean")
    if faults:
        raise ValidationError(faults)
    directory, users = call.node.directory, _users(call)

    def check(txn: Txn | None) -> str:
        """The id of the new user's role."""
        role = directory.role_named(role_name, txn)
        if role is None:
            raise NotFound(f"{role_name} role not found")
        if directory.user_record(username, txn) is not None:
            raise Problem(f"User {username} already exists", 409, "CONFLICT")
        check_grant(call, role.get("permission"), role.get("access"))
        return str(role["id"])

    role_id = "" if call.joined is not None else check(None)  # before time is spent on the password
    alike = await _look_alike(call, users, username)
    record = await call.on_helper(partial(new_user_record, username, call["password"], role_id, active=active, function=_function(call)))

    def work(transaction: Transaction, txn: Txn) -> Callable[[], dict[str, str]]:
        record["role"] = check(txn)
        transaction.put(users, username, users.validator.record(record))
        return added

    def added() -> dict[str, str]:
        answer = {"message": f"{username} successfully added"}
        if alike is not None:
            call.node.logs.logger.warn("the name of the new user", printable(username), "looks like that of the user", printable(alike))
            shown = f"'{alike}'" if call.is_super_user else "another user"
            answer["warning"] = f"The name looks like that of {shown}: people may take one for the other"
        return answer

    return change_accounts(call, INSERT, work)


async def _look_alike(call: Call, users: Table, username: str) -> str | None:
    """Another user whose name looks like this one."""
    wanted = skeleton(username)
    found: list[str] = []
    held = call.node.store.snapshots.hold(users.database, reader=call.reader)

    def steps() -> Iterator[None]:
        for number, (_, raw) in enumerate(held.read(users.scan)):
            name = _name_in(raw)[0]
            if name != username and skeleton(name) == wanted:
                found.append(name)
                return
            if not number % STEP:
                yield

    try:
        await call.node.store.slices.exhaust(steps())
    finally:
        held.abort()
    return found[0] if found else None


async def alter_user(call: Call) -> Any:
    password, role_name, active = call["password"], call["role"], call["active"]
    _check_changes(password, role_name, active, _min_length(call))
    directory, users = call.node.directory, _users(call)
    username = directory.stored_name(call["username"])
    current = call["current_password"]
    if current is not None and password is None:
        raise ValidationError("'current_password' needs the new 'password'")
    verified = None if current is None else await verify_current(call, username, current)

    def check(txn: Txn | None) -> dict[str, Any]:
        """The record as it is, with the id of its new role."""
        record = directory.user_record(username, txn)
        if record is None:
            raise NotFound(f"User {username} does not exist")
        if verified is not None and record.get("password") != verified:
            raise changed_meanwhile()
        held = directory.role_record(record["role"], txn) if isinstance(record.get("role"), str) else None
        if held is not None:
            check_change(call, held)  # a new password gives access as that user
        if role_name is not None:
            role = directory.role_named(role_name, txn)
            if role is None:
                raise NotFound(f"Update failed.  Requested '{role_name}' role not found.")
            check_grant(call, role.get("permission"), role.get("access"))
            record["role"] = role["id"]
        return record

    if call.joined is None:
        check(None)
    changes: dict[str, Any] = {}
    if password is not None:
        function = _function(call)
        stored = await call.on_helper(partial(hash_password, password, function))
        changes = {"password": stored, "hash_function": function}
    if active is not None:
        changes["active"] = active
    if password is not None or active is False:
        changes |= ending_logins()
    session_id = None
    if password is not None and active is not False:
        session_id, changes["kept_token"] = own_login(call, username)

    def work(transaction: Transaction, txn: Txn) -> Callable[[], dict[str, Any]]:
        record = check(txn)
        if role_name is not None:
            changes["role"] = record["role"]
        transaction.patch(users, username, users.validator.changes(changes))
        if session_id is not None:
            sessions = users.database.tables[SESSION_TABLE]
            transaction.update(sessions, session_id, {SESSION_LOGIN: login_id_of({**record, **changes})})
        if active is False:
            directory.remove_keys_of(username, transaction, txn)
        return lambda: {
            "message": "updated 1 of 1 records",
            "new_attributes": [],
            "txn_time": transaction.version,
            "update_hashes": [username],
            "skipped_hashes": [],
        }

    if password is None:
        return change_accounts(call, UPDATE, work)
    return await forgetting_initial_password(call, {username: password}, lambda: change_accounts(call, UPDATE, work))


def _check_changes(password: Any, role_name: Any, active: Any, min_length: int) -> None:
    if password is None and role_name is None and active is None:
        raise ValidationError("nothing to update, must supply active, role or password to update")
    faults = []
    if password is not None and not is_acceptable(password):
        faults.append("password cannot be an empty string" if isinstance(password, str) else "password must be a string")
    elif password is not None and (fault := length_fault(password, min_length)):
        faults.append(fault)
    if role_name is not None and (not isinstance(role_name, str) or not role_name.strip()):
        faults.append("If role is specified, it cannot be empty." if isinstance(role_name, str) else "role must be a string")
    if active is not None and not isinstance(active, bool):
        faults.append("active must be true or false")
    if faults:
        raise ValidationError(faults)


async def drop_user(call: Call) -> Any:
    directory, users = call.node.directory, _users(call)
    username = directory.stored_name(call["username"])

    def check(txn: Txn | None) -> dict[str, Any]:
        record = directory.user_record(username, txn)
        if record is None:
            raise NotFound(f"User {username} does not exist")
        held = directory.role_record(record["role"], txn) if isinstance(record.get("role"), str) else None
        if held is not None:
            check_change(call, held)
        return record

    accounts = call.node.accounts
    record = None if accounts is None or not accounts.has_record(username) else accounts.table

    def work(transaction: Transaction, txn: Txn) -> Callable[[], str]:
        check(txn)
        transaction.delete(users, username)
        directory.remove_keys_of(username, transaction, txn)
        if record is not None:
            transaction.delete(record, username)
        return lambda: f"{username} successfully deleted"

    if call.joined is None:
        check(None)
        if accounts is not None and record is not None:  # in two databases
            remove = partial(accounts.remove, username, check)
            await forgetting_initial_password(call, {username: None}, remove)
            return f"{username} successfully deleted"
    return await forgetting_initial_password(call, {username: None}, lambda: change_accounts(call, DELETE, work))


def _users(call: Call) -> Table:
    return call.node.store.databases[SYSTEM].tables[USER_TABLE]


def _function(call: Call) -> str:
    return call.node.config.authentication.hash_function


def _min_length(call: Call) -> int:
    return call.node.config.authentication.password_min_length


# --- rows ---------------------------------------------------------------------------------------------------------------------------------

_USERNAME = Field("username", "string", "Name of the user.", required=True)
_LENGTH = "of `authentication.passwordMinLength` characters (8) or more"
_LAST = (
    "The last active super user can be neither dropped nor deactivated, nor given another role: 409. A caller that is not a super user can "
    "only change or remove a user whose rights it has itself: 403."
)

_EXAMPLE_ROLE = {
    "id": "gardener",
    "role": "gardener",
    "permission": {
        "data": {
            "tables": {"plant": {"read": True, "insert": True, "update": True, "delete": False, "attribute_permissions": []}},
        }
    },
}
_EXAMPLE_USER = {
    "username": "ann",
    "active": True,
    "role": _EXAMPLE_ROLE,
    "__createdtime__": 1767225600000,
    "__updatedtime__": 1767225600000,
}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="list_users",
        category="users",
        summary="List the users with their roles.",
        permission=SUPER_USER,
        handler=list_users,
        fields=(IMPERSONATE,),
        returns="A list of users, in the order of their names. `role` is null for a user without a valid role.",
        notes="Passwords and tokens are part of no answer.",
        example_answer=[_EXAMPLE_USER],
    ),
    Operation(
        name="user_info",
        category="users",
        summary="Show the user of the request and its role.",
        permission=ANYONE,
        handler=user_info,
        fields=(IMPERSONATE,),
        returns="The user, as `list_users` has it.",
        example_answer=_EXAMPLE_USER,
        logged=False,
    ),
    Operation(
        name="add_user",
        category="users",
        summary="Add a user.",
        permission=SUPER_USER,
        handler=add_user,
        fields=(
            _USERNAME.but(check=_username_fault),
            Field(
                "password",
                "string",
                f"A string that is not only white space, {_LENGTH}.",
                required=True,
                secret=True,
                check=_password_fault,
            ),
            Field("role", "any", "Name of the role.", required=True),
            Field("active", "any", "Whether the user may log in: true or false.", required=True),
            REPLICATED,
            IMPERSONATE,
        ),
        returns="`message`, and `warning` if the name looks like that of another user.",
        notes="The name has no `:`, and is stored in Unicode's form NFC.\n\n"
        "The password is stored as a hash, by `authentication.hashFunction`. A caller that is not a super user cannot add a user "
        "with rights that the caller does not have itself: 403.",
        example={"username": "ann", "password": "correct horse", "role": "gardener", "active": True},
        example_answer={"message": "ann successfully added"},
    ),
    Operation(
        name="alter_user",
        category="users",
        summary="Change a user's password, role or whether it is active.",
        permission=SUPER_USER,
        handler=alter_user,
        fields=(
            _USERNAME.but(missing="username is required"),
            Field("password", "any", f"New password: a string that is not only white space, {_LENGTH}.", secret=True),
            Field("current_password", "string", "The password until now: with it every user may change the own password.", secret=True),
            Field("role", "any", "Name of the new role."),
            Field("active", "any", "true or false; an inactive user cannot log in."),
            REPLICATED,
            IMPERSONATE,
        ),
        returns="`{message, new_attributes, txn_time, update_hashes, skipped_hashes}`",
        notes=f"One of `password`, `role`, `active` has to be given. A new password, and `active: false`, end all sessions and tokens of the user, "
        f"but the session or token that changed the own password. {_LAST}\n\n"
        "Every user, whatever its role, may change the own password: `username` is then its name, `current_password` the password until now, and neither "
        "`role` nor `active` is given. A wrong `current_password` is 403, and counts as a failed login: the sixth in a row has to wait.",
        example={"username": "ann", "active": False},
        example_answer={
            "message": "updated 1 of 1 records",
            "new_attributes": [],
            "txn_time": 1767225600000.25,
            "update_hashes": ["ann"],
            "skipped_hashes": [],
        },
    ),
    Operation(
        name="drop_user",
        category="users",
        summary="Remove a user.",
        permission=SUPER_USER,
        handler=drop_user,
        fields=(_USERNAME, REPLICATED, IMPERSONATE),
        returns="A message.",
        notes=f"The user's sessions, tokens and API keys end, and the record of its account, if it has one, is removed with it. {_LAST}",
        example={"username": "ann"},
        example_answer={"message": "ann successfully deleted"},
    ),
)
