"""Who is whom: the identities at providers that lead to an account (spec: rows §2.6).

A row of `svc_identities` for each (issuer, subject). It belongs to an account, not to its name: `account` is when the account was made, or, where the row
was made together with it, is missing, and its own time is that of the account. So a user who is dropped and added again is not the one who was linked.

    id        digest of issuer and subject
    issuer, subject, provider (name at the time), user, account, email (of the provider, for people)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any

from svc.accounts.openid.provider import ProvenIdentity
from svc.auth.users import User, UserDirectory
from svc.errors import ClientError, NotFound
from svc.store import Precondition, Table, Transaction
from svc.store.system import IDENTITY_TABLE, SYSTEM
from svc.store.values.keys import index_key
from svc.store.values.records import decode, version_of

TAKEN = "IDENTITY_TAKEN"
MOST_PER_ACCOUNT = 20


class Identities:
    """Those of one node."""

    def __init__(self, directory: UserDirectory) -> None:
        self._directory = directory

    @property
    def table(self) -> Table:
        return self._directory.store.databases[SYSTEM].tables[IDENTITY_TABLE]

    def user(self, issuer: str, subject: str) -> User | None:
        """Whose account an identity leads to, active or not; None: nobody's."""
        raw = self.table.get_raw(identity_key(issuer, subject))
        return None if raw is None else self._owner(decode(raw))

    def of_user(self, user: User) -> list[dict[str, Any]]:
        """The rows of an account."""
        table = self.table
        snapshot = table.database.snapshot()
        start = index_key(user.username)
        found: Iterator[Any] = table.indexes["user"].scan(snapshot, start, start + b"\0")
        rows = [decode(table.get_by(stored, snapshot) or b"") for _, stored in islice(found, 10 * MOST_PER_ACCOUNT)]
        return [row for row in rows if self._owner(row) is not None]

    def link(self, transaction: Transaction, identity: ProvenIdentity, provider: str, username: str, user: User | None) -> None:
        """Let an identity lead to an account, with the other writes of the transaction. `user` None: the account is made in the same transaction.

        `apply` raises ClientError TAKEN if it leads to an account by then, as it does when two processes make one at the same moment.
        """
        key = identity_key(identity.issuer, identity.subject)
        row: dict[str, Any] = {
            "id": key,
            "issuer": identity.issuer,
            "subject": identity.subject,
            "provider": provider,
            "user": username,
            "email": identity.email or None,
            "account": None if user is None else _made(user),
        }
        raw = self.table.get_raw(key)
        if raw is not None and self._owner(decode(raw)) is None:  # of an account that is gone
            transaction.delete(self.table, key, Precondition(if_version=version_of(raw)))
        transaction.put(self.table, key, self.table.validator.record(row, source="native"), decide=partial(_only_new, provider))

    def unlink(self, transaction: Transaction, user: User, key: str) -> None:
        """Raises NotFound if it is no identity of this account."""
        raw = self.table.get_raw(key) if len(key) <= 128 else None
        owner = None if raw is None else self._owner(decode(raw))
        if owner is None or owner.username != user.username:
            raise NotFound("This account has no such login")
        transaction.delete(self.table, key)

    def unlink_all(self, transaction: Transaction, username: str) -> None:
        """With the end of an account. Without it nobody is let in either, for rows belong to the account and not to its name."""
        table = self.table
        snapshot = table.database.snapshot()
        start = index_key(username)
        for _, stored in islice(table.indexes["user"].scan(snapshot, start, start + b"\0"), 10 * MOST_PER_ACCOUNT):
            transaction.delete_stored(table, stored, table.get_by(stored, snapshot) or b"")

    def _owner(self, row: Mapping[str, Any]) -> User | None:
        name = row.get("user")
        user = self._directory.get_user(name) if isinstance(name, str) else None
        if user is None:
            return None
        made = row.get("account")
        return user if _made(user) == (str(row.get("__createdtime__")) if made is None else made) else None


def taken(provider: str) -> ClientError:
    """409: an identity can lead to one account."""
    return ClientError(f"This login at {provider} belongs to another account already", 409, TAKEN)


def _only_new(provider: str, row: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """Decides on a new row where it is written."""
    if stored is not None:
        raise taken(provider)
    return row


def identity_key(issuer: str, subject: str) -> str:
    """The key of a row: of one size, whatever a provider calls people."""
    return blake2b(f"{issuer}\0{subject}".encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()


def _made(user: User) -> str:
    """When an account was made, as its `login_id` has it."""
    return user.login_id.partition("/")[0]
