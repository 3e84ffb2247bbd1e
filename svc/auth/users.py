"""Users and roles as the rest of the program sees them, and the directory that keeps them (spec: security §5.1).

A `User` never changes: a change of `svc_user`, `svc_role` or `svc_key` makes the directory forget all of them and begin a new *generation*. Code that keeps
something derived from a user keeps the generation beside it and compares: one integer, no subscriptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from typing import Any, Protocol
from uuid import uuid4

from svc.auth.passwords import DEFAULT_HASH_FUNCTION, hash_function_of, hash_password
from svc.auth.roles import Role, more_than_records
from svc.auth.usernames import canonical_username
from svc.errors import Overloaded, PreconditionFailed, Problem, ValidationError
from svc.messages import Caller
from svc.store import Database, LogEntry, Store, Table, Transaction, WriterBusy
from svc.store.env import Txn
from svc.store.log.entries import PATCH
from svc.store.system import KEY_TABLE, KEY_USE_TABLE, ROLE_TABLE, SYSTEM, USER_TABLE
from svc.store.values.conversion import is_encodable
from svc.store.values.keys import index_key
from svc.store.values.records import decode, projection

SUPER_USER_ROLE = "super_user"
ANONYMOUS = "anonymous"
"""The name of the role whose rights everyone has."""
KEY_START = "svc_"
"""What every API key begins with, and no token."""
KEY_USER = "key:"
"""What the name begins with that an API key with a role of its own has as a user. No user that is added has such a name."""
_ACCOUNT_TABLES = frozenset({USER_TABLE, ROLE_TABLE, KEY_TABLE})
_WITHOUT_RIGHTS = frozenset({"refresh_token", "password", "hash_function", "kept_token", "__updatedtime__"})
MOST_READ = 1000  # log entries of other processes that are read; with more of them everything kept is dropped unread

# Counted for the whole process, so that what one directory made is never taken for fresh by another.
_generations = count(1)


@dataclass(frozen=True, slots=True)
class UserKey:
    """The API key by which a user asks. `expires`: seconds since the epoch; infinite: never."""

    name: str
    prefix: str
    expires: float = inf


@dataclass(frozen=True, slots=True)
class User:
    """A user account as requests see it. `role` None: no role, or one that no longer exists; such a user is known and may do nothing.

    `key`: of one who is let in by an API key: a user with its rights, or the key itself, if it has a role of its own.
    """

    # `login_id`: what the sessions and tokens of the account carry. It has the time the account was made, so that of one that was dropped and added
    # again is another, and what changes with each new password and each deactivation. `kept_token`: the id of the one token that counts in spite of that,
    # because the password was changed with it.
    username: str
    active: bool = True
    role: Role | None = None
    login_id: str = ""
    kept_token: str | None = None
    key: UserKey | None = None
    claims: Mapping[str, Any] | None = field(default=None, compare=False)  # of the token that the user has come with, for rules on rows
    super_user: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "super_user", self.role is not None and self.role.super_user)

    def with_claims_of(self, earlier: User) -> User:
        """This user, as one who has come with the token of `earlier`."""
        return self if earlier.claims is None else replace(self, claims=earlier.claims)

    def get_id(self) -> str:
        return self.username

    @property
    def created_ms(self) -> int:
        """When the account was made, whole ms since the epoch; 0 if that is not known."""
        created = self.login_id.partition("/")[0].partition(".")[0]
        return int(created) if created.isdecimal() else 0

    def admits_token(self, login_id: object, token_id: object) -> bool:
        """Whether a token that was made for this `login_id` still counts."""
        return login_id == self.login_id or (token_id is not None and token_id == self.kept_token)

    def as_record(self) -> dict[str, Any]:
        """The user object that may be shown (spec: security §5.1): no secrets, because a User has none."""
        return {"username": self.username, "active": self.active, "role": None if self.role is None else self.role.as_record()}


def check_no_key(user: User | None, what: str) -> None:
    """Raise 403 if an API key has let this user in: `what` would outlive it. `user`: None for nobody."""
    if user is not None and user.key is not None:
        raise Problem(f"An API key cannot make {what}: log in with a password, or use the key itself", 403)


def check_no_key_of(user: User | None, what: str) -> None:
    """Raise 403 if an API key has let this user in, for `what` is a matter of the person whose account it is: a key that has leaked must not become a
    password, an address or a login. `user`: None for nobody."""
    if user is not None and user.key is not None:
        raise Problem(f"An API key cannot {what}: log in with a password", 403)


class HasUser(Protocol):
    @property
    def user(self) -> Caller | None: ...


def user_of(request: HasUser) -> User | None:
    """The user of a request, None = anonymous. `Request.user` itself has the narrower type that all layers know."""
    user = request.user
    assert user is None or type(user) is User
    return user


@dataclass(frozen=True, slots=True)
class Credentials:
    """The stored hash of a user. Never leaves this package."""

    password: str
    hash_function: str | None

    def __repr__(self) -> str:
        return "<Credentials>"


class UserDirectory:
    """The users and roles of one store. Reads are cached until `svc_user`, `svc_role` or `svc_key` changes."""

    def __init__(self, store: Store) -> None:
        """`store`: with its system database defined (`ensure_system`)."""
        self.store = store
        self._users: dict[str, User] = {}  # existing ones only: a guesser of names cannot make it grow
        self._keys: dict[str, User] = {}  # those of API keys, by name of the key
        self._roles: dict[str, Role] = {}
        self._first_super_user: User | None = None
        self._knows_first = False
        self._some_super_user = ""  # name of one that existed at the last check
        self._anonymous: Role | None = None
        self._knows_anonymous = False
        self.generation = next(_generations)
        self._commit = -1  # LMDB's number of the last commit that `refresh` has read
        self._position = 0  # LSN up to which the log has been heard of
        self.refresh()
        store.databases[SYSTEM].on_commit.append(self._committed)
        store.databases[SYSTEM].guard = self._check_accounts
        store.anonymous_role = self.anonymous_role
        self.find_alias: Callable[[str], str | None] = lambda name: None
        """The name of the user who logs in by another one, such as an address, and of an address that nobody has its one form; None for any other text."""

    def get_user(self, username: str) -> User | None:
        """The user, active or not; None if there is no such user."""
        user = self._users.get(username)
        if user is None:
            record = self.user_record(username)
            if record is not None:
                user = self._users[record["username"]] = self._user(record)
        return user

    def current(self, user: User) -> User | None:
        """The user as it is now; None if it is gone or inactive, if its logins have ended, or the API key that let it in."""
        key = user.key
        found = self.get_user(user.username) if key is None else self.user_of_key(key.name)
        if found is None or not found.active or found.login_id != user.login_id:
            return None
        return None if key is not None and key.expires <= self.store.clock.wall() else found.with_claims_of(user)

    def user_of_key(self, name: str) -> User | None:
        """Who asks by the API key of this name, active or not, expired or not; None if there is no such key, or its user is gone.

        The `login_id` is another than that of the user itself: what is made for the one is worth nothing for the other.
        """
        user = self._keys.get(name)
        if user is None:
            record = self.key_record(name)
            if record is not None and (user := self._key_user(record)) is not None:
                self._keys[name] = user
        return user

    def named(self, username: str) -> User | None:
        """The user of this name, which may be that of an API key with a role of its own, as it stands in logs."""
        user = self.get_user(username)
        return user if user is not None or not username.startswith(KEY_USER) else self.user_of_key(username[len(KEY_USER) :])

    def _key_user(self, record: Mapping[str, Any]) -> User | None:
        expires = record.get("expires")
        key = UserKey(record["name"], record["prefix"], inf if expires is None else expires / 1000)
        username = record.get("user")
        if username is None:
            role = record.get("role")
            made = record.get("__createdtime__")
            return User(KEY_USER + key.name, True, self.get_role(role) if isinstance(role, str) else None, f"{made}/{key.prefix}", key=key)
        user = self.get_user(username)
        account = None if user is None else user.login_id.partition("/")[0]
        if user is None or account != record.get("account"):  # dropped, and perhaps added again
            return None
        return replace(user, login_id=f"{account}/{key.prefix}", kept_token=None, key=key)

    def stored_name(self, username: str) -> str:
        """A name as the user has it, if there is one; else the form in which it would be stored (`usernames`)."""
        if username.isascii():
            return username
        record = self.user_record(username)
        return canonical_username(username) if record is None else str(record["username"])

    def login_name(self, given: str) -> str:
        """The name of the user that somebody means who logs in: `stored_name`, or that of the user who has the alias."""
        name = self.stored_name(given)
        if self.get_user(name) is None:
            alias = self.find_alias(given)
            if alias is not None:
                return alias
        return name

    def get_role(self, role_id: str) -> Role | None:
        role = self._roles.get(role_id)
        if role is None:
            raw = self._table(ROLE_TABLE).get_raw(role_id) if role_id else None
            if raw is None:
                return None
            role = self._roles[role_id] = self.role_of(decode(raw))
        return role

    def role_of(self, record: Mapping[str, Any]) -> Role:
        """The role of a record of `svc_role`."""
        permission = record.get("permission")
        return Role(
            record["id"],
            str(record.get("role") or record["id"]),
            permission if isinstance(permission, dict) else {},
            record.get("access"),
            self.store.databases,
            self.anonymous_role(),
        )

    def anonymous_role(self) -> Role | None:
        """The role whose rights everyone has; None if there is no such role."""
        if not self._knows_anonymous:
            found = [record for record in self.iter_role_records() if record.get("role") == ANONYMOUS]
            if len(found) == 1:
                permission = found[0].get("permission")
                if isinstance(permission, dict) and not more_than_records(permission):
                    self._anonymous = Role(found[0]["id"], ANONYMOUS, permission, databases=self.store.databases)
            self._knows_anonymous = True
        return self._anonymous

    def credentials(self, username: str) -> Credentials | None:
        """The stored hash as it is now; None without such a user or without a password."""
        record = self.user_record(username)
        if record is None or not isinstance(record.get("password"), str):
            return None
        return Credentials(record["password"], record.get("hash_function"))

    def refresh_hash(self, username: str) -> str | None:
        """The hash of the user's newest refresh token, as it is stored now; None without one."""
        record = self.user_record(username)
        found = None if record is None else record.get("refresh_token")
        return found if isinstance(found, str) else None

    def first_super_user(self) -> User | None:
        """The first active user, in key order, whose role is a super user's."""
        if not self._knows_first:
            self._first_super_user = next((user for user in self._iter_users() if user.super_user and user.active), None)
            self._knows_first = True
        return self._first_super_user

    def store_hash(self, username: str, stored: str, verified: str) -> None:
        """Keep a better hash of the password that `verified` is the hash of: same secret, so nothing else about the user changes.

        Raises PreconditionFailed if the user has another password by now, or is gone; Overloaded while users are being written.
        """

        def decide(changes: dict[str, Any], record: Mapping[str, Any] | None) -> dict[str, Any]:
            if record is None or record.get("password") != verified:
                raise PreconditionFailed("the password was changed at the same time")
            return changes

        transaction = self.store.begin(username)
        changes = {"password": stored, "hash_function": hash_function_of(stored)}
        transaction.patch(self._table(USER_TABLE), username, changes, decide=decide)
        try:
            transaction.apply(wait=False)
        except WriterBusy:
            raise Overloaded from None

    # -- records, as stored; `txn` None: as of this turn

    def user_record(self, username: str, txn: Txn | None = None) -> dict[str, Any] | None:
        """With its secrets: not for answers. A name in another form of Unicode is found too; former versions have stored all forms."""
        raw = self._table(USER_TABLE).get_raw(username, txn) if is_username(username) else None
        if raw is None and not username.isascii():
            canonical = canonical_username(username)
            if canonical != username and is_username(canonical):
                raw = self._table(USER_TABLE).get_raw(canonical, txn)
        return None if raw is None else decode(raw)

    def role_record(self, role_id: str, txn: Txn | None = None) -> dict[str, Any] | None:
        raw = self._table(ROLE_TABLE).get_raw(role_id, txn) if is_username(role_id) else None
        return None if raw is None else decode(raw)

    def key_record(self, name: str, txn: Txn | None = None) -> dict[str, Any] | None:
        """Of an API key, with the hash of its secret: not for answers."""
        raw = self._table(KEY_TABLE).get_raw(name, txn) if is_username(name) else None
        return None if raw is None else decode(raw)

    def key_record_by_prefix(self, prefix: str, txn: Txn | None = None) -> dict[str, Any] | None:
        table = self._table(KEY_TABLE)
        txn = table.database.snapshot() if txn is None else txn
        low = index_key(prefix)
        raw = next((table.get_by(stored, txn) for _, stored in table.indexes["prefix"].scan(txn, low, low + b"\0")), None)
        return None if raw is None else decode(raw)

    def iter_key_records(self, txn: Txn) -> Iterator[dict[str, Any]]:
        """Of all API keys, in the order of their names."""
        for _, raw in self._table(KEY_TABLE).scan(txn):
            yield decode(raw)

    def remove_keys_of(self, username: str, transaction: Transaction, txn: Txn) -> None:
        """Have a transaction remove all API keys with the rights of a user. `txn`: the writer."""
        keys, uses = self._table(KEY_TABLE), self._table(KEY_USE_TABLE)
        low = index_key(username)
        for _, stored in keys.indexes["user"].scan(txn, low, low + b"\0"):
            raw = keys.get_by(stored, txn)
            if raw is not None and (record := decode(raw)).get("user") == username:
                transaction.delete(keys, record["name"])
                transaction.delete(uses, record["prefix"])

    def iter_role_records(self, txn: Txn | None = None) -> Iterator[dict[str, Any]]:
        table = self._table(ROLE_TABLE)
        for _, raw in table.scan(table.database.snapshot() if txn is None else txn):
            yield decode(raw)

    def role_named(self, name: str, txn: Txn | None = None) -> dict[str, Any] | None:
        """The record of the role with this name, None if there is none. Raises Problem 409 if there are several."""
        found = [record for record in self.iter_role_records(txn) if record.get("role") == name]
        if len(found) > 1:
            raise Problem(
                f"Multiple {name} roles found.  Roles must have unique 'role' value. Please update and try again.", 409, "CONFLICT"
            )
        return found[0] if found else None

    def has_active_user(self, role_id: str, txn: Txn) -> bool:
        """Whether some active user has this role."""
        return any(role == role_id and active is True for _, role, active in self._iter_short(txn))

    def _iter_short(self, txn: Txn) -> Iterator[tuple[Any, Any, Any]]:
        """(name, role id, whether active) of all users."""
        table = self._table(USER_TABLE)
        short = projection(("username", "role", "active"))
        for _, raw in table.scan(txn):
            username, role, active = short(raw)
            yield username, role, active

    # -- the guard of the system database

    def _check_accounts(self, txn: Txn, tables: set[str] | None) -> None:
        """Called inside each write transaction of the system database: role names stay unique, the role
        `anonymous` has no rights but on records, and an active super user remains (spec: security §5.8, §10).

        `tables`: that were written to; None: perhaps all. Raises Problem 409 or 400, which undoes the writes.
        """
        if tables is None or ROLE_TABLE in tables:
            self._check_role_names(txn)
            self._check_anonymous(txn)
        if tables is None or not tables.isdisjoint(_ACCOUNT_TABLES):
            self._check_super_user(txn)

    def _check_role_names(self, txn: Txn) -> None:
        counts = Counter(record.get("role") for record in self.iter_role_records(txn))
        if counts.total() == len(counts):
            return
        before = Counter(record.get("role") for record in self.iter_role_records())  # names that were not unique already may stay
        for name, times in counts.items():
            if times > 1 and times > before[name]:
                raise Problem(f"A role with name '{name}' already exists", 409, "CONFLICT")

    def _check_anonymous(self, txn: Txn) -> None:
        """Everyone has the rights of this role, so it has none but on records."""
        for record in self.iter_role_records(txn):
            permission = record.get("permission")
            if record.get("role") != ANONYMOUS or not isinstance(permission, Mapping):
                continue
            more = more_than_records(permission)
            if more and self.role_record(record["id"]) != record:  # a former version may have stored it, then nobody has its rights
                raise ValidationError(f"The role {ANONYMOUS} cannot have {' or '.join(more)}: everyone has its rights")

    def _check_super_user(self, txn: Txn) -> None:
        """Usually one look-up."""
        known = self.user_record(self._some_super_user, txn) if self._some_super_user else None
        if known is not None and known.get("active") is True and self._is_super(known.get("role"), txn):
            return
        roles: dict[Any, bool] = {}
        for username, role, active in self._iter_short(txn):
            if active is True and isinstance(role, str):
                if role not in roles:
                    roles[role] = self._is_super(role, txn)
                if roles[role]:
                    self._some_super_user = username
                    return
        if self.first_super_user() is not None:  # else there was none before this write either
            raise Problem("Cannot remove the last active super_user", 409, "CONFLICT")

    def _is_super(self, role_id: Any, txn: Txn) -> bool:
        record = self.role_record(role_id, txn) if isinstance(role_id, str) else None
        permission = None if record is None else record.get("permission")
        return isinstance(permission, Mapping) and permission.get("super_user") is True

    def _committed(self, database: Database, entries: list[LogEntry]) -> None:
        if entries[0].lsn <= self._position + 1:
            self._position = max(self._position, entries[-1].lsn)
        if any(entry.table in _ACCOUNT_TABLES for entry in entries):
            self.forget()

    def refresh(self) -> None:
        """Take over what other processes have changed since the last call, and own commits that were not published yet. Half a microsecond if nothing
        was committed. Raises Problem if the store cannot be read."""
        database = self.store.databases[SYSTEM]
        commit = database.env.last_commit()
        if commit == self._commit:
            return
        snapshot = database.env.open_snapshot()
        try:
            newest = database.log.newest_lsn(snapshot)
            changed = self._commit >= 0 and self._changed_since(database, snapshot, newest)
        finally:
            snapshot.abort()
        self._commit = commit
        self._position = newest
        if changed:
            self.forget()

    def _changed_since(self, database: Database, snapshot: Txn, newest: int) -> bool:
        first = self._position + 1
        if newest >= first + MOST_READ or database.log.first_lsn(snapshot) > first:
            return True
        return any(entry.table in _ACCOUNT_TABLES for entry in database.log.read(snapshot, first))

    def forget(self) -> None:
        """Users or roles have changed: drop all that were read."""
        self._users.clear()
        self._keys.clear()
        self._roles.clear()
        self._first_super_user = None
        self._knows_first = False
        self._anonymous = None
        self._knows_anonymous = False
        self.generation = next(_generations)

    def _iter_users(self) -> Iterator[User]:
        table = self._table(USER_TABLE)
        for _, raw in table.scan(table.database.snapshot()):
            yield self._user(decode(raw))

    def _user(self, record: Mapping[str, Any]) -> User:
        role = record.get("role")
        return User(
            record["username"],
            record.get("active") is True,
            self.get_role(role) if isinstance(role, str) else None,
            login_id_of(record),
            record.get("kept_token"),
        )

    def _table(self, name: str) -> Table:
        return self.store.databases[SYSTEM].tables[name]


def concerns_rights(entry: LogEntry) -> bool:
    """Whether an entry of the system database's log may change permissions: each new pair of tokens writes to its user's record too."""
    if entry.table not in _ACCOUNT_TABLES:
        return False
    return entry.table == ROLE_TABLE or entry.kind != PATCH or not _WITHOUT_RIGHTS.issuperset(entry.changed)


def login_id_of(record: Mapping[str, Any]) -> str:
    """`User.login_id` of a record of `svc_user`."""
    return f"{record.get('__createdtime__')}/{record.get('login_epoch') or ''}"


def new_login_epoch() -> str:
    """A new `login_epoch` for a record, which ends the sessions and tokens of the user."""
    return uuid4().hex


def ending_logins() -> dict[str, Any]:
    """The attributes of a user that, changed, end all sessions and tokens of the account (spec: security §3)."""
    return {"login_epoch": new_login_epoch(), "refresh_token": None, "kept_token": None}


def is_username(name: str) -> bool:
    """Whether the name could be a primary key (spec: operations §1.5): names that could not need no look-up."""
    return 0 < len(name) <= 659 and is_encodable(name) and len(name.encode()) <= 1978


def new_user_record(
    username: str, password: str, role_id: str, *, active: bool = True, function: str = DEFAULT_HASH_FUNCTION
) -> dict[str, Any]:
    """The record of a new user. Hashes the password, so it blocks for tens of milliseconds."""
    return {
        "username": username,
        "password": hash_password(password, function),
        "hash_function": function,
        "role": role_id,
        "active": active,
        "login_epoch": new_login_epoch(),
    }
