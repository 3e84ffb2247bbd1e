"""The accounts of one application: who there is, and what becomes of them (spec: rows §2).

A user of the instance and a record of the type that is marked `@account` make an account; the record's key is the user's name. Whether a name or an address
is free, whether a code counts: what decides is asked inside the transaction that writes, of the writers of both databases (`_decide`).

What must not tell whether an address is known does the same work in either case: as many hashes of passwords, as many rows, one commit; the answer is the
same object. What differs is in a mail, which only the holder of the address reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from svc.accounts.addresses import canonical_address, maybe_address
from svc.accounts.codes import CONFIRM, EMAIL, RESET, AccountCode, Codes, invalid_code
from svc.accounts.hooks import SignUpHooks
from svc.accounts.limits import HourlyLimit
from svc.accounts.mails import AccountMails
from svc.accounts.names import chosen_username
from svc.accounts.pairs import AccountPairs
from svc.accounts.records import check_names, settable, visible
from svc.accounts.rights import rights_of
from svc.accounts.settings import EMAIL as BY_EMAIL
from svc.accounts.settings import USERNAME, AccountSettings
from svc.auth.fair_slots import network_of
from svc.auth.passwords import hash_function_of, is_acceptable, length_fault
from svc.auth.roles import Role
from svc.auth.users import User, UserDirectory, ending_logins, login_id_of, new_login_epoch
from svc.errors import NotFound, NotUnique, Problem, RecordExists, ServerError, ValidationError
from svc.messages import Request
from svc.query.narrowing import guard_of
from svc.store import Table, Transaction, WriterBusy
from svc.store.env import Txn
from svc.store.system import SESSION_LOGIN, SESSION_TABLE, SYSTEM, USER_TABLE
from svc.store.values.keys import index_key
from svc.store.values.records import decode
from svc.store.writing.commit import wait_committed

if TYPE_CHECKING:
    from svc.accounts.openid.logins import ProviderOptions
    from svc.accounts.parts import AccountParts

T = TypeVar("T")
Join = Callable[[Transaction, str], None]
"""Adds writes to the transaction that makes an account. Called with it and the name of the user."""

Collect = Callable[[Transaction, Txn, Mapping[str, Any]], None]

Decide = Callable[[Transaction, Txn, Txn], None]

NAME_TAKEN, ADDRESS_TAKEN = "NAME_TAKEN", "ADDRESS_TAKEN"
TOO_MANY_REFERENCES = "TOO_MANY_REFERENCES"
MAIL_LIMIT, NETWORK_LIMIT = "mails", "networks"
LIMIT_TOPIC = "something that accounts limit was done"
"""Told to other processes: the limit and the key."""


class Accounts:
    """Those of the application that has the entry `accounts`. Used on the thread of the loop."""

    def __init__(
        self,
        parts: AccountParts,
        settings: AccountSettings,
        application: str,
        database: str,
        table: str,
        *,
        hooks: SignUpHooks | None = None,
        mails: AccountMails | None = None,
    ) -> None:
        """`database`, `table`: of the records. `mails`: None where no mail can be sent."""
        self.parts = parts
        self.settings = settings
        self.application = application
        self.hooks = hooks or SignUpHooks()
        self.pairs = AccountPairs(parts)
        self.codes = Codes(parts.store)
        self.mails = mails
        self.providers: ProviderOptions | None = None
        self.forgetting: list[Join] = []
        """What goes with an account besides its record and its API keys: adds to the transaction that removes it."""
        self.find_logins: Callable[[User], list[dict[str, Any]]] = lambda user: []
        """The rows of `svc_identities` of an account, where there are providers."""
        self._place = database, table
        now = parts.clock.monotonic
        self._limits = {
            MAIL_LIMIT: HourlyLimit(settings.limits.mails, now),
            NETWORK_LIMIT: HourlyLimit(settings.limits.sign_ups, now),
        }

    # --- who there is ----------------------------------------------------------------------------------------------------------------

    @property
    def table(self) -> Table:
        """Of the records. Raises ServerError 503 if it was dropped."""
        database = self.parts.store.databases.get(self._place[0])
        table = None if database is None else database.tables.get(self._place[1])
        if table is None:
            raise ServerError("The table of accounts is not there: load the application again", 503)
        return table

    @property
    def is_there(self) -> bool:
        """Whether there is the table of the records, as there is unless an operator has dropped it."""
        database = self.parts.store.databases.get(self._place[0])
        return database is not None and self._place[1] in database.tables

    def has_record(self, username: str) -> bool:
        """Whether a user has the record of an account."""
        return self.is_there and self.table.get_raw(username) is not None

    @property
    def has_addresses(self) -> bool:
        return BY_EMAIL in self.table.attributes

    @property
    def confirms_addresses(self) -> bool:
        """Whether every address of a record was confirmed before it was put there."""
        return self.settings.verify or (self.settings.identity == USERNAME and self.mails is not None)

    def user_by_address(self, address: str) -> User | None:
        """The user of the account that has this address, active or not; None if there is none."""
        found = maybe_address(address)
        username = None if found is None else self._name_by_address(found, self.table.database.snapshot())
        return None if username is None else self.parts.directory.get_user(username)

    def alias(self, given: str) -> str | None:
        """`UserDirectory.find_alias`: the name of the user who logs in by an address. Of an address that nobody has its one form, so that failed logins with
        different ones count together there, too."""
        address = maybe_address(given) if self.settings.identity == BY_EMAIL and self.is_there else None
        if address is None:
            return None
        user = self.user_by_address(address)
        return address if user is None else user.username

    def record_of(self, username: str) -> dict[str, Any] | None:
        """The account's record of a user, as stored; None: the user has none."""
        raw = self.table.get_raw(username)
        return None if raw is None else decode(raw)

    def is_member(self, user: User) -> bool:
        """Whether the user has an account of the application: not an operator, for example."""
        role = user.role
        return not user.super_user and (
            (role is not None and role.role == self.settings.role) or self.table.get_raw(user.username) is not None
        )

    def profile(self, user: User) -> dict[str, Any]:
        """What `GET /accounts/me` tells: the own record, the role, and what the user may do."""
        record = self.record_of(user.username)
        return {
            "username": user.username,
            "role": None if user.role is None else user.role.role,
            "record": None if record is None else visible(self.table, user.role, record),
            "rights": rights_of(user, self.parts.store.databases),
        }

    def settable(self, role: Role | None, *, is_new: bool = False) -> list[str]:
        """The attributes that a member of this role may set."""
        return settable(self.table, role, self.settings.attributes, is_new=is_new)

    # --- signing up --------------------------------------------------------------------------------------------------------------------

    async def sign_up(
        self,
        record: Mapping[str, Any],
        password: str | None,
        *,
        verified: bool,
        role: str | None = None,
        is_trusted: bool = False,
        join: Join | None = None,
        request: Request | None = None,
    ) -> User:
        """Make a user with its record, and call the hooks. `password` None: the user has none yet. `verified`: whether the address is known to be that of the
        person. `role`: None is that of those who sign up. `is_trusted`: the values are not the caller's, so they may be any of the record. `join`: adds
        writes to the same transaction.

        Raises Problem: 400 for what is wrong with the record, 409 `NAME_TAKEN`, `ADDRESS_TAKEN`, and what the hooks raise; then nothing is left.
        """
        values = await self._new_record(record, is_trusted=is_trusted)
        stored = None if password is None else await self._hashed(password, request)
        address = values.get(BY_EMAIL)
        later = address is not None and not verified and self.mails is not None and self.settings.identity == USERNAME
        if later:
            del values[BY_EMAIL]  # it counts when it is confirmed; until then the answer does not tell whether it is known

        def collect(transaction: Transaction, txn: Txn, user: Mapping[str, Any]) -> None:
            if join is not None:
                join(transaction, user["username"])

        user = await self._make(values, stored, collect, role)
        await self._admit(user)
        if later and address is not None:
            try:
                await self.request_address(user, address)
            except Problem:
                await self.remove(user.username)
                raise
        return user

    async def sign_up_from_provider(
        self, record: Mapping[str, Any], *, verified: bool, role: str | None, request: Request, also: Join
    ) -> User:
        """A new account without a password, of somebody whom a provider knows. `role`: None is that of those who sign up. `also(transaction, username)`: adds
        to the transaction that makes the user. Raises Problem as `sign_up` does, but 409 `ACCOUNT_EXISTS` for a name or an address that is taken."""
        try:
            return await self.sign_up(record, None, verified=verified, role=role, is_trusted=True, join=also, request=request)
        except Problem as problem:
            if problem.code not in (NAME_TAKEN, ADDRESS_TAKEN):
                raise
            raise Problem("There is an account with this name or address already", 409, "ACCOUNT_EXISTS") from None

    async def adopt(self, user: User, also: Join) -> User:
        """Let the person whom a provider vouches for have the account of the address. `also`: as above. If the address may never have been confirmed, somebody
        else may have made the account: its password, its sessions and all other ways into it end."""

        def decide(transaction: Transaction, txn: Txn, own: Txn) -> None:
            found = self.parts.directory.user_record(user.username, txn)
            if found is None or found.get("active") is not True or login_id_of(found) != user.login_id:
                raise Problem("The account was changed at the same time", 409, "CONFLICT")
            if not self.confirms_addresses:
                self._patch_user(transaction, user.username, {"password": None, "hash_function": None, **ending_logins()})
                self._forget(transaction, user.username, txn)
            also(transaction, user.username)

        await self._decide(decide)
        adopted = self.parts.directory.get_user(user.username)
        if adopted is None:
            raise Problem("The account was removed at the same time", 409, "CONFLICT")
        return adopted

    async def request_sign_up(self, record: Mapping[str, Any], password: str, request: Request | None = None) -> None:
        """Sign up where the address is confirmed first: a mail with a code, and all that is needed to make the account then. Whether the address is known is
        told by the mail alone.

        Raises Problem as `sign_up` does, but not `ADDRESS_TAKEN`.
        """
        values = await self._new_record(record)
        address = values.get(BY_EMAIL)
        if address is None:
            raise ValidationError("'email' is required")
        stored = await self._hashed(password, request)
        self._require_free(values[self.table.primary_key], None)
        code = AccountCode(CONFIRM, content={"record": values, "password": stored})
        is_sent = self._admit_mail(address)

        def decide(transaction: Transaction, txn: Txn, own: Txn) -> None:
            text = self.codes.add(transaction, code, self.settings.lifetimes.confirm)
            known = self._name_by_address(address, own)
            mails = self._mails
            mail = mails.confirm(address, text) if known is None else mails.known(address, known)
            if is_sent:
                mails.add(mail, transaction)

        await self._decide(decide)

    async def confirm(self, text: object) -> tuple[str, User]:
        """Use a code of a sign-up or of a new address. Returns what it was for, and the user. Raises ClientError `INVALID_CODE`; 409 if the name or the address
        was taken meanwhile, and what the hook raises."""
        code = self.codes.maybe_read(text)
        if code is None or code.kind not in (CONFIRM, EMAIL):
            raise invalid_code()
        if code.kind == EMAIL:
            return EMAIL, await self._set_address(str(text), code)

        def collect(transaction: Transaction, txn: Txn, user: Mapping[str, Any]) -> None:
            self.codes.take(str(text), transaction, txn)

        user = await self._make(dict(code.content["record"]), code.content["password"], collect)
        await self._admit(user)
        return CONFIRM, user

    async def _new_record(self, record: Mapping[str, Any], *, is_trusted: bool = False) -> dict[str, Any]:
        """The record of a new account, checked. `is_trusted`: as of `sign_up`. Raises ValidationError, and what the hook raises."""
        table, settings = self.table, self.settings
        given = dict(record)
        username = given.pop("username", None)
        address = given.pop(BY_EMAIL, None) if self.has_addresses else None
        role = self._role(None)
        check_names(table, given, list(table.attributes) if is_trusted else self.settable(role, is_new=True), is_new=True)
        if settings.identity == USERNAME or username is not None:
            given[table.primary_key] = chosen_username(username, beside_addresses=settings.identity == BY_EMAIL)
        else:
            given[table.primary_key] = self.parts.store.uuids.new()
        if address not in (None, ""):
            given[BY_EMAIL] = canonical_address(address)
        elif settings.identity == BY_EMAIL or settings.verify:
            raise ValidationError("'email' is required")
        key = given[table.primary_key]
        given = await self.hooks.before_sign_up(given)
        given[table.primary_key] = key
        return table.validator.record(given)

    async def _admit(self, user: User) -> None:
        """Ask the hook about an account that is there; one that it refuses goes."""
        try:
            await self.hooks.after_sign_up(user)
        except BaseException:
            await self.remove(user.username)
            raise

    async def _make(self, values: dict[str, Any], stored: str | None, collect: Collect, role: str | None = None) -> User:
        """Write user and record. `collect(transaction, txn, user)`: what belongs to it, decided with the writer of the system database. `role`: as of
        `sign_up`."""
        table, directory = self.table, self.parts.directory
        username, epoch = values[table.primary_key], new_login_epoch()
        user: dict[str, Any] = {"username": username, "role": "", "active": True, "login_epoch": epoch}
        if stored is not None:
            user |= {"password": stored, "hash_function": hash_function_of(stored)}
        self._require_free(username, None)
        note = await self.pairs.note_making(table, username, epoch, values)

        def decide(transaction: Transaction, txn: Txn, own: Txn) -> None:
            user["role"] = self._role(txn, role).id
            self._require_free(username, txn)
            users = directory.store.databases[SYSTEM].tables[USER_TABLE]
            transaction.put(users, username, users.validator.record(dict(user)))
            transaction.create(table, username, dict(values))
            collect(transaction, txn, user)

        await self._decide_pair(note, decide)
        made = directory.get_user(username)
        if made is None:  # removed by another request already
            raise NotFound("The account was removed at the same time")
        return made

    def _require_free(self, username: str, txn: Txn | None) -> None:
        """Raise 409 if there is a user of this name. `txn`: the writer."""
        if self.parts.directory.user_record(username, txn) is not None:
            raise name_taken()

    def _role(self, txn: Txn | None, name: str | None = None) -> Role:
        """The role of this name, None: of those who sign up. Raises ServerError 503 if it cannot be given (any more)."""
        fault = role_fault(self.parts.directory, name or self.settings.role, txn)
        if fault is not None:
            self.parts.warn(f"nobody can sign up: {fault}")
            raise ServerError("Nobody can sign up now: the role of those who do is not there", 503)
        return self.parts.directory.role_of(self.parts.directory.role_named(name or self.settings.role, txn) or {})

    # --- passwords -------------------------------------------------------------------------------------------------------------------

    async def request_reset(self, given: object) -> None:
        """Send a code for a new password to an address, if it is that of an active account. Raises ClientError for what is no address."""
        address = canonical_address(given)
        is_sent = self._admit_mail(address)

        def decide(transaction: Transaction, txn: Txn, own: Txn) -> None:
            username = self._name_by_address(address, own)
            user = None if username is None else self.parts.directory.user_record(username, txn)
            known = user is not None and user.get("active") is True and not self._is_super(user["username"], txn)
            code = AccountCode(RESET, user["username"], login_id_of(user)) if known and user is not None else AccountCode(RESET)
            text = self.codes.add(transaction, code, self.settings.lifetimes.reset)
            self._mails.require_room()
            mail = self._mails.reset(address, text, username or "")
            if is_sent and known:
                self._mails.add(mail, transaction)
            else:  # as many rows
                self.codes.add(transaction, AccountCode(RESET), self.settings.lifetimes.reset)

        await self._decide(decide)

    async def reset(self, text: object, password: object, request: Request | None = None) -> User:
        """Give the account of a code this password, and end all its sessions, tokens and API keys. Raises ClientError `INVALID_CODE`, ValidationError."""
        code = self.codes.maybe_read(text)
        if code is None or code.kind != RESET or not code.username:
            raise invalid_code()
        stored = await self._hashed(password, request)

        def decide(transaction: Transaction, txn: Txn, own: Txn) -> None:
            taken = self.codes.take(str(text), transaction, txn)
            user = self._user_of(taken, txn)
            if self._is_super(user["username"], txn):
                raise invalid_code()
            changes = {"password": stored, "hash_function": hash_function_of(stored), **ending_logins()}
            self._patch_user(transaction, user["username"], changes)
            self.parts.directory.remove_keys_of(user["username"], transaction, txn)
            self._tell_changed(transaction, user["username"], own)

        await self._decide(decide)
        user = self.parts.directory.get_user(code.username)
        if user is None:
            raise invalid_code()
        return user

    async def change_password(self, user: User, current: object, password: object, request: Request) -> None:
        """Another password for the account that makes the request; other sessions and tokens end. `current`: the one it has; a wrong one counts as a failed
        login. Raises ValidationError, Problem 403."""
        if not isinstance(current, str) or not current:
            raise ValidationError("'current_password' is required")
        self._check_password(password)
        try:
            await self.parts.verifier.verify(user.username, current, request, self.parts.executor)
        except Problem as problem:
            if problem.status_code != 401:
                raise
            raise Problem("current_password is wrong", 403) from None
        credentials = self.parts.directory.credentials(user.username)
        stored = await self._hashed(password, request)
        session_id, token_id = self._own_login(user, request)

        def decide(transaction: Transaction, txn: Txn, own: Txn) -> None:
            record = self.parts.directory.user_record(user.username, txn)
            if record is None or credentials is None or record.get("password") != credentials.password:
                raise Problem("The password was changed at the same time", 409, "CONFLICT")
            changes = {"password": stored, "hash_function": hash_function_of(stored), **ending_logins(), "kept_token": token_id}
            self._patch_user(transaction, user.username, changes)
            if session_id is not None:
                sessions = self.parts.store.databases[SYSTEM].tables[SESSION_TABLE]
                transaction.update(sessions, session_id, {SESSION_LOGIN: login_id_of({**record, **changes})})
            self._tell_changed(transaction, user.username, own)

        await self._decide(decide)

    def _own_login(self, user: User, request: Request) -> tuple[str | None, str | None]:
        """Ids of the session or of the token that the request is made with, which goes on behind another password."""
        scheme, _, token = request.block.fields.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return None, self.parts.token_id(token.strip())
        session = request.session
        return (session.id, None) if session is not None and session.user == user.username else (None, None)

    def _is_super(self, username: str, txn: Txn) -> bool:
        """Whether somebody was given all rights: then a mailbox must not be enough for them."""
        directory = self.parts.directory
        role_id = (directory.user_record(username, txn) or {}).get("role")
        role = directory.role_record(role_id, txn) if isinstance(role_id, str) else None
        return role is not None and directory.role_of(role).super_user

    def _tell_changed(self, transaction: Transaction, username: str, own: Txn) -> None:
        """Tell the account that it has another password."""
        address = self._address_of(username, own)
        if address is not None and self.mails is not None:
            self.mails.add(self.mails.password_changed(address, username), transaction)

    async def _hashed(self, password: object, request: Request | None) -> str:
        """The stored form of a new password. Raises ValidationError, Overloaded."""
        return await self.parts.verifier.hash_new(
            self._check_password(password), "" if request is None else request.peer, self.parts.executor
        )

    def _check_password(self, password: object) -> str:
        if password is None or password == "":
            raise ValidationError("'password' is required")
        if not is_acceptable(password) or not isinstance(password, str):
            raise ValidationError("'password' must be a string that is not only white space")
        fault = length_fault(password, max(self.settings.passwords.minimum_length, self.parts.minimum_length))
        if fault is not None:
            raise ValidationError(fault)
        return password

    # --- the address -----------------------------------------------------------------------------------------------------------------

    async def request_address(self, user: User, given: object) -> None:
        """Send a code to a new address, by which it becomes that of the account. Whether another account has it is told by the mail alone. Raises ClientError
        for what is no address."""
        address = canonical_address(given)
        is_sent = self._admit_mail(address)
        code = AccountCode(EMAIL, user.username, user.login_id, {"email": address})

        def decide(transaction: Transaction, txn: Txn, own: Txn) -> None:
            text = self.codes.add(transaction, code, self.settings.lifetimes.email)
            known = self._name_by_address(address, own)
            mails = self._mails
            mail = mails.new_address(address, text, user.username) if known is None else mails.known(address, known)
            if is_sent:
                mails.add(mail, transaction)

        await self._decide(decide)

    async def _set_address(self, text: str, code: AccountCode) -> User:
        address = code.content["email"]

        def decide(transaction: Transaction, txn: Txn, own: Txn) -> None:
            user = self._user_of(self.codes.take(text, transaction, txn), txn)
            table = self.table
            if table.get_raw(user["username"], own) is None:
                raise invalid_code()
            former = self._address_of(user["username"], own)
            transaction.patch(table, user["username"], table.validator.changes({BY_EMAIL: address}))
            if former is not None and former != address and self.mails is not None:
                self.mails.add(self.mails.address_changed(former, user["username"]), transaction)

        await self._decide(decide)
        found = self.parts.directory.get_user(code.username)
        if found is None:
            raise invalid_code()
        return found

    def _name_by_address(self, address: str, txn: Txn) -> str | None:
        """The key of the record that has this address. `txn`: of the database of the records."""
        table = self.table
        index = table.indexes.get(BY_EMAIL)
        if index is None:
            return None
        key = index_key(address)
        for _, stored in index.scan(txn, key, key + b"\0"):
            raw = table.get_by(stored, txn)
            if raw is not None and (record := decode(raw)).get(BY_EMAIL) == address:
                return str(record[table.primary_key])
        return None

    def _address_of(self, username: str, txn: Txn) -> str | None:
        raw = self.table.get_raw(username, txn)
        address = None if raw is None else decode(raw).get(BY_EMAIL)
        return address if isinstance(address, str) else None

    # --- the own account ---------------------------------------------------------------------------------------------------------------

    async def change(self, user: User, changes: Mapping[str, Any]) -> None:
        """Set attributes of the own record, which rules about rows may refuse. Raises ValidationError, NotFound, RowNotAllowed."""
        table, stored = self.table, self.record_of(user.username) or {}
        changed = {
            name: value for name, value in changes.items() if name not in stored or stored[name] != value
        }  # the rest of what GET has told
        check_names(table, changed, self.settable(user.role), is_new=False)
        checked = table.validator.changes(changed)

        def decide(transaction: Transaction, txn: Txn, own: Txn) -> None:
            if table.get_raw(user.username, own) is None:
                raise NotFound("There is no record of this account")
            if checked:
                transaction.patch(table, user.username, dict(checked), rows=guard_of(user, table))

        await self._decide(decide)

    async def remove(self, username: str, check: Callable[[Txn], object] = lambda txn: None) -> None:
        """Remove a user with its record. `check`: called with the writer of the system database; what it raises prevents the removal. Raises NotFound."""
        record = self.parts.directory.user_record(username)
        if record is None:
            raise NotFound(f"User {username} does not exist")
        table, users = self.table, self.parts.store.databases[SYSTEM].tables[USER_TABLE]
        epoch = str(record.get("login_epoch") or "")
        note = await self.pairs.note_removal(table, username, epoch)

        def decide(transaction: Transaction, txn: Txn, own: Txn) -> None:
            found = self.parts.directory.user_record(username, txn)
            if found is None:
                raise NotFound(f"User {username} does not exist")
            if str(found.get("login_epoch") or "") != epoch:
                raise Problem("The account was changed at the same time", 409, "CONFLICT")
            check(txn)
            transaction.delete(users, username)
            self._forget(transaction, username, txn)
            if table.get_raw(username, own) is not None:
                transaction.delete(table, username)

        try:
            await self._decide_pair(note, decide)
        except Problem as problem:
            if problem.code != TOO_MANY_REFERENCES:
                raise
            await self._remove_in_steps(username, epoch)

    async def _remove_in_steps(self, username: str, epoch: str) -> None:
        """Remove a record that so many others refer to that a transaction over two databases cannot take them along. The account ends first; a process that is
        killed in between leaves a note, by which the user goes when the record has gone."""
        table, users = self.table, self.parts.store.databases[SYSTEM].tables[USER_TABLE]
        note = await self.pairs.note_removal(table, username, epoch)
        try:
            transaction = self.parts.store.begin(username)
            transaction.delete(table, username)
            await transaction.apply_long()

            def decide(transaction: Transaction, txn: Txn, own: Txn) -> None:
                transaction.delete(users, username)
                self._forget(transaction, username, txn)

            await self._decide(decide)
        except BaseException:
            self.parts.start(self.pairs.give_up(note))
            raise
        self.pairs.settle(note)

    def _forget(self, transaction: Transaction, username: str, txn: Txn) -> None:
        """All ways into an account but its password. `txn`: the writer of the system database."""
        self.parts.directory.remove_keys_of(username, transaction, txn)
        for forget in self.forgetting:
            forget(transaction, username)

    # --- what is done too often ----------------------------------------------------------------------------------------------------------

    def admit(self, request: Request, what: str) -> None:
        """Count something for the network that it comes from, such as a sign-up. Raises Problem 429."""
        key, limit = f"{what} {network_of(request.peer)}", self._limits[NETWORK_LIMIT]
        wait = limit.wait(key)
        if wait > 0:
            headers = (("Retry-After", str(int(wait) + 1)),)
            raise Problem("Too many such requests from your network: try again later", 429, "TOO_MANY_REQUESTS", headers=headers)
        limit.count(key)
        self._tell(NETWORK_LIMIT, key)

    def _admit_mail(self, address: str) -> bool:
        """Whether one more mail may go to an address that somebody has typed. It is counted whether or not the address is known."""
        is_admitted = self._limits[MAIL_LIMIT].admit(address)
        if is_admitted:
            self._tell(MAIL_LIMIT, address)
        return is_admitted

    def hear(self, limit: str, key: str) -> None:
        """Another process has counted."""
        found = self._limits.get(limit)
        if found is not None:
            found.count(key)

    def _tell(self, limit: str, key: str) -> None:
        self.parts.tell(LIMIT_TOPIC, (limit, key))

    # --- writing ---------------------------------------------------------------------------------------------------------------------

    @property
    def _mails(self) -> AccountMails:
        if self.mails is None:
            raise NotFound("This server sends no mail")
        return self.mails

    def _patch_user(self, transaction: Transaction, username: str, changes: dict[str, Any]) -> None:
        users = self.parts.store.databases[SYSTEM].tables[USER_TABLE]
        transaction.patch(users, username, users.validator.changes(changes))

    def _user_of(self, code: AccountCode, txn: Txn) -> dict[str, Any]:
        """The record of the user that a code is bound to. Raises ClientError `INVALID_CODE` if that is another account now, or has another password."""
        user = self.parts.directory.user_record(code.username, txn) if code.username else None
        if user is None or user.get("active") is not True or login_id_of(user) != code.login_id:
            raise invalid_code()
        return user

    async def _decide_pair(self, note: str, decide: Decide) -> None:
        """`_decide` for what is noted (`pairs`)."""
        applied: list[Transaction] = []
        try:
            await self._decide(decide, applied.append)
        except BaseException as error:
            if not applied:  # nothing was written
                self.pairs.settle(note)
            elif isinstance(error, Problem):
                await self.pairs.give_up(note)
            else:  # cancelled while it was committed
                self.parts.start(self.pairs.give_up(note))
            raise
        self.pairs.settle(note)

    async def _decide(self, decide: Decide, on_applied: Callable[[Transaction], object] = lambda transaction: None) -> None:
        """Call `decide(transaction, txn, own)` with the writers of the system database and of that of the records, and commit what it has collected: nothing
        comes in between, of this process or another one. When this returns it is on the disk. Raises what prevents it, with nothing done; but a commit may
        fail in one of the databases. `on_applied`: called before the commit."""
        store, table = self.parts.store, self.table
        databases = (store.databases[SYSTEM], table.database)

        def attempt() -> Transaction:
            store.open_writers(databases, wait=False)
            transaction = store.begin()
            decide(transaction, databases[0].env.writer(), table.database.env.writer())
            transaction.apply(wait=False)
            on_applied(transaction)
            return transaction

        try:
            try:
                transaction = attempt()
            except WriterBusy:
                transaction = await store.write_when_free(lambda: databases, attempt)
            await wait_committed(transaction)
        except RecordExists:
            raise name_taken() from None
        except NotUnique as error:
            if error.attribute != BY_EMAIL:
                raise
            raise Problem("The account cannot have this address", 409, ADDRESS_TAKEN) from None


def name_taken() -> Problem:
    return Problem("This user name is taken: choose another one", 409, NAME_TAKEN)


def role_fault(directory: UserDirectory, name: str, txn: Txn | None = None) -> str | None:
    """Why a role cannot be that of those who sign up; None: it can."""
    record = directory.role_named(name, txn)
    if record is None:
        return f"there is no role {name}: add it to roles.yaml, or with add_role"
    return f"{name} is a role of super users, which nobody may get by signing up" if directory.role_of(record).super_user else None
