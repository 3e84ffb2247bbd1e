"""The account of somebody who comes from a provider (spec: rows §2.6).

    1. the account that (issuer, subject) is linked to
    2. with `linkByEmail` the account of the address, if the provider vouches for the address; of nobody who has more rights than a member
    3. else a new one, with the attributes that `claims` names and the role of the provider

An address that the provider does not vouch for leads nowhere: whoever runs an account there could write any.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from svc.accounts.names import chosen_username
from svc.accounts.openid.identities import MOST_PER_ACCOUNT, TAKEN, Identities
from svc.accounts.openid.provider import ProvenIdentity
from svc.accounts.openid.settings import ProviderSettings
from svc.accounts.settings import EMAIL, USERNAME, AccountSettings
from svc.auth.users import User, UserDirectory
from svc.auth.writes import write
from svc.errors import ClientError, PreconditionFailed, Problem, ValidationError
from svc.messages import Request
from svc.store import Transaction

INACTIVE = "ACCOUNT_INACTIVE"
EXISTS = "ACCOUNT_EXISTS"
CLOSED = "SIGN_UP_CLOSED"
NO_ADDRESS = "ADDRESS_REQUIRED"
UNVERIFIED = "ADDRESS_NOT_VERIFIED"
TOO_MANY = "TOO_MANY_LOGINS"

SIGN_UP = "sign-up"
"""What is counted of one network, with sign-ups of another kind."""

_TURNS = 20  # until what another transaction has written is seen
_RANDOM_BYTES = 6  # of a user name that the provider does not give


class AccountsOfApplication(Protocol):
    """What is asked of `svc.accounts.directory.Accounts`."""

    @property
    def settings(self) -> AccountSettings: ...

    @property
    def has_addresses(self) -> bool:
        """Whether a record has an address of mail."""

    def user_by_address(self, address: str) -> User | None: ...

    def admit(self, request: Request, what: str) -> None:
        """Count something for the network that it comes from. Raises Problem 429."""

    async def sign_up_from_provider(
        self, record: Mapping[str, Any], *, verified: bool, role: str | None, request: Request, also: Callable[[Transaction, str], None]
    ) -> User:
        """A new account without a password. `verified`: its address is. `also(transaction, username)`: adds to the transaction that makes the user.
        Raises Problem; ACCOUNT_EXISTS if name or address are those of another one."""

    async def adopt(self, user: User, also: Callable[[Transaction, str], None]) -> User:
        """Link an account by its address. If nobody has confirmed that address so far, what the account was made with may be somebody else's: its password
        and its sessions end."""


class SigningIn:
    """For one provider."""

    def __init__(
        self, settings: ProviderSettings, accounts: AccountsOfApplication, identities: Identities, directory: UserDirectory
    ) -> None:
        self._settings = settings
        self._accounts = accounts
        self._identities = identities
        self._directory = directory

    async def user_of(self, identity: ProvenIdentity, request: Request) -> User:
        """Raises Problem."""
        try:
            return self._linked(identity) or await self._by_address(identity) or await self._new(identity, request)
        except Problem as problem:
            if problem.code not in (TAKEN, EXISTS, PreconditionFailed.code):
                raise
            for _ in range(_TURNS):  # the same person at the same moment, here or in another process: whose account is about to be there
                await asyncio.sleep(0)
                found = self._linked(identity)
                if found is not None:
                    return found
            raise

    async def link(self, identity: ProvenIdentity, username: str, login_id: str) -> User:
        """For a member who is logged in. Raises Problem: TAKEN for somebody else's, TOO_MANY."""
        user = self._directory.get_user(username)
        if user is None or not user.active or user.login_id != login_id:
            raise ClientError("The login of this account has ended meanwhile. Log in and begin again", 403, INACTIVE)
        found = self._identities.user(identity.issuer, identity.subject)
        if found is not None and found.username == user.username:
            return user
        if len(self._identities.of_user(user)) >= MOST_PER_ACCOUNT:
            raise ClientError(f"An account has at most {MOST_PER_ACCOUNT} logins at providers: remove one first", 409, TOO_MANY)
        transaction = self._directory.store.begin(user.username)
        self._identities.link(transaction, identity, self._settings.name, user.username, user)
        await write(transaction)
        return user

    def _linked(self, identity: ProvenIdentity) -> User | None:
        user = self._identities.user(identity.issuer, identity.subject)
        if user is not None and not user.active:
            raise ClientError("This account is inactive", 403, INACTIVE)
        return user

    async def _by_address(self, identity: ProvenIdentity) -> User | None:
        """None: the address is nobody's, or does not count."""
        if not self._settings.link_by_email or not identity.is_verified:
            return None
        user = self._accounts.user_by_address(identity.email)
        if user is None:
            return None
        if not user.active:
            raise ClientError("This account is inactive", 403, INACTIVE)
        if user.super_user:  # what a provider says must not be enough for all rights
            raise self._exists()
        return await self._accounts.adopt(
            user, lambda transaction, name: self._identities.link(transaction, identity, self._settings.name, name, user)
        )

    async def _new(self, identity: ProvenIdentity, request: Request) -> User:
        settings = self._accounts.settings
        if not settings.sign_up:
            raise ClientError("Nobody can sign up here: ask for an account first, and add this login to it", 403, CLOSED)
        record = self._record(identity)
        is_verified = self._vouches_for_address(identity)
        if EMAIL in record and settings.verify and not is_verified:
            raise ClientError(
                f"The provider {self._settings.shown_name} does not vouch for your address: confirm it there, then log in again",
                403,
                UNVERIFIED,
            )
        if EMAIL not in record and (settings.identity == EMAIL or settings.verify):
            raise ClientError(
                f"The provider {self._settings.shown_name} has not told your address, which an account needs", 403, NO_ADDRESS
            )
        self._accounts.admit(request, SIGN_UP)
        try:
            return await self._sign_up(record, identity, is_verified, request)
        except Problem as problem:
            if problem.code != EXISTS:
                raise
            if not self._has_chosen_name(record):
                raise self._exists() from None
        record[USERNAME] = self._random_name()  # the name at the provider may be somebody else's here
        try:
            return await self._sign_up(record, identity, is_verified, request)
        except Problem as problem:
            if problem.code != EXISTS:
                raise
            raise self._exists() from None

    async def _sign_up(self, record: Mapping[str, Any], identity: ProvenIdentity, is_verified: bool, request: Request) -> User:
        return await self._accounts.sign_up_from_provider(
            record,
            verified=is_verified,
            role=self._settings.role,
            request=request,
            also=lambda transaction, name: self._identities.link(transaction, identity, self._settings.name, name, None),
        )

    def _record(self, identity: ProvenIdentity) -> dict[str, Any]:
        """The attributes of a new account."""
        claims = identity.claims
        record = {name: claims[claim] for name, claim in self._settings.claims.items() if claims.get(claim) not in (None, "")}
        if not self._accounts.has_addresses:
            record.pop(EMAIL, None)
        if self._accounts.settings.identity == USERNAME:
            try:
                record[USERNAME] = chosen_username(record.get(USERNAME))
            except ValidationError:  # none, or one that cannot be a name here
                record[USERNAME] = self._random_name()
        else:
            record.pop(USERNAME, None)
        return record

    def _has_chosen_name(self, record: Mapping[str, Any]) -> bool:
        return USERNAME in record and not str(record[USERNAME]).startswith(f"{self._settings.name}-")

    def _random_name(self) -> str:
        return f"{self._settings.name}-{secrets.token_hex(_RANDOM_BYTES)}"

    def _vouches_for_address(self, identity: ProvenIdentity) -> bool:
        return self._settings.claims.get(EMAIL) == "email" and identity.is_verified

    def _exists(self) -> ClientError:
        return ClientError(
            "There is an account with this name or address already: log in to it in the way you did before, and add this login there",
            409,
            EXISTS,
        )
