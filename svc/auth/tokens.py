"""Tokens: JSON Web Tokens in place of a login (spec: security §2).

    {"username": "ann", "super_user": false, "account": "...", "jti": "...", "iat": 1767225600, "exp": 1767312000, "sub": "operation"}     RS256

An *operation* token logs in, by its signature alone; what its user may do is read from the user record with each request. A *refresh* token is good
for one thing, a new operation token, and only the newest one of a user: the record holds its hash. A token with a claim `role` does not log in, it
serves applications that read tokens themselves. What a token has in a claim `claims`, an object, is `User.claims` of who comes with it (spec: rows §1.2).

`account` is the `User.login_id` that the token was made for: when the user has another one (dropped and added again, password changed, deactivated) the
token has ended. `jti` is unique, so two tokens of one second are two.

The header of a token is never asked which algorithm to use, and its times are compared with our clock, to the second, without tolerance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, TypeVar
from uuid import uuid4

from svc.auth.token_keys import RSA_BITS, TokenKeys, keys_directory
from svc.auth.users import User, UserDirectory, check_no_key
from svc.auth.writes import store_user_changes
from svc.clock import Clock
from svc.config import Config
from svc.config.values import is_number, parse_duration
from svc.errors import ClientError, PreconditionFailed, Problem

OPERATION: Final = "operation"
REFRESH: Final = "refresh"

_ALGORITHM = "RS256"
_LONGEST_LIFE = 100 * 365 * 86_400  # seconds; beyond it a number is a mistake, and may not be one that JSON can hold
_MAX_LENGTH = 16_384  # characters of a token: what a header may have

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class TokenUser:
    """The user of a token. `expires`: seconds since the epoch. `account`, `token_id`: see `User.admits_token`."""

    user: User
    expires: float
    account: str
    token_id: str | None


class Tokens:
    """Issues and checks the tokens of this node's users."""

    def __init__(
        self,
        keys: TokenKeys,
        directory: UserDirectory,
        clock: Clock,
        *,
        operation_life: float = 86_400,
        refresh_life: float = 30 * 86_400,
        executor: Executor | None = None,
    ) -> None:
        """Lives in seconds. `executor`: for what blocks; None: the loop's own."""
        self.keys = keys
        self._directory = directory
        self._wall = clock.wall
        self._operation_life = operation_life
        self._refresh_life = refresh_life
        self._executor = executor

    @classmethod
    def from_config(
        cls, config: Config, directory: UserDirectory, clock: Clock, *, executor: Executor | None = None, bits: int = RSA_BITS
    ) -> Tokens:
        """Touches no file. `bits`: of keys that have to be made."""
        return cls(
            TokenKeys(keys_directory(config), bits=bits),
            directory,
            clock,
            operation_life=config.authentication.operation_token_timeout,
            refresh_life=config.authentication.refresh_token_timeout,
            executor=executor,
        )

    def load(self) -> None:
        """Have keys and library in memory: some 10 MB, so only when the first token comes. Blocks. Raises ServerError without keys."""
        import jwt  # noqa: F401 - takes tens of milliseconds

        self.keys.prepare()

    def make_keys(self) -> None:
        """Make the keys if they are missing: run it on a helper thread at the start, for it takes seconds. Never raises."""
        if not self.keys.exist:
            try:
                self.keys.prepare()
            except Problem:
                pass  # the next request for a token raises it, and tries again

    # --- issuing -------------------------------------------------------------------------------------------------------------------

    async def create(
        self, user: User, *, expires_in: object = None, role: str | None = None, claims: Mapping[str, Any] | None = None
    ) -> dict[str, str]:
        """A pair of tokens; an earlier refresh token of the user is worth nothing any more. It is on the disk when this returns.

        `expires_in`: life of the operation token, seconds or text such as `12h`. Raises Problem: 400 for a bad one, 403 if
        an API key asks, 500 without keys.
        """
        check_no_key(user, "tokens")
        life = self._operation_life if expires_in is None else read_life(expires_in)
        extra = {name: value for name, value in (("role", role), ("claims", claims)) if value is not None}
        operation_token, refresh_token = await self._on_helper(
            lambda: (self._signed(user, OPERATION, life, extra), self._signed(user, REFRESH, self._refresh_life, extra))
        )
        try:
            await store_user_changes(self._directory, user.username, {"refresh_token": _hash(refresh_token)})
        except PreconditionFailed:
            raise invalid_token() from None  # dropped meanwhile
        return {"operation_token": operation_token, "refresh_token": refresh_token}

    async def refresh(self, token: str) -> str:
        """A new operation token for a refresh token. Raises Problem 401 for any other token, and one that is not the user's newest."""
        claims = await self._on_helper(lambda: self._read(token, REFRESH))
        user = self._user(claims)
        stored = self._directory.refresh_hash(user.username)
        if stored is None or not compare_digest(stored.encode(), _hash(token).encode()):
            raise invalid_token()
        extra = {
            name: claims[name] for name in ("role", "claims") if name in claims
        }  # what it cannot do, the token made of it cannot do either
        return await self._on_helper(lambda: self._signed(user, OPERATION, self._operation_life, extra))

    def _signed(self, user: User, subject: str, life: float, extra: Mapping[str, Any]) -> str:
        """Blocks for some milliseconds."""
        import jwt

        issued = int(self._wall())
        claims = {
            "username": user.username,
            "super_user": user.super_user,
            "account": user.login_id,
            "jti": uuid4().hex,
            "iat": issued,
            "exp": issued + int(life),
            "sub": subject,
            **extra,
        }
        return jwt.encode(claims, self.keys.private, algorithm=_ALGORITHM)

    # --- checking ------------------------------------------------------------------------------------------------------------------

    def verify(self, token: str) -> TokenUser:
        """The user of an operation token. Raises Problem 401 for any other token. Takes a tenth of a millisecond once `keys.is_ready`."""
        claims = self._read(token, OPERATION)
        if "role" in claims:
            raise invalid_token()
        user, given = self._user(claims), claims.get("claims")
        if isinstance(given, dict):
            user = replace(user, claims=given)
        return TokenUser(user, claims["exp"], claims["account"], claims["jti"])

    def watched(self, token: str) -> Callable[[], bool]:
        """A function that says whether an operation token still counts, for little: its signature is looked at now, once."""
        try:
            found = self.verify(token)
        except Problem:
            return lambda: False
        username, account, token_id, expires = found.user.username, found.account, found.token_id, found.expires

        def counts() -> bool:
            user = self._directory.get_user(username)
            return expires > self._wall() and user is not None and user.active and user.admits_token(account, token_id)

        return counts

    def is_refresh(self, token: str) -> bool:
        """Whether it is a refresh token of ours. Raises Problem 401 if it has expired."""
        return bool(self._read(token, None)["sub"] == REFRESH)

    def token_id(self, token: str) -> str | None:
        """The id of a token with a valid signature; None for any other text."""
        try:
            token_id = self._claims(token).get("jti")
        except Problem:
            return None
        return token_id if isinstance(token_id, str) else None

    def claimed_name(self, token: str) -> str | None:
        """The user name in a token with a valid signature, whatever else is wrong with it; None for any other text."""
        try:
            name = self._claims(token).get("username")
        except Problem:
            return None
        return name if isinstance(name, str) else None

    def _read(self, token: str, subject: str | None) -> Mapping[str, Any]:
        """The claims of a token of ours that has not expired. `subject` None: of either kind. Raises Problem 401."""
        claims = self._claims(token)
        kind, expires = claims["sub"], claims["exp"]
        if kind not in (OPERATION, REFRESH) or (subject is not None and kind != subject) or not is_number(expires):
            raise invalid_token()
        if expires <= self._wall():
            raise Problem("token expired", 401)
        return claims

    def _claims(self, token: str) -> Mapping[str, Any]:
        """The claims of a token that our key has signed. Raises Problem 401."""
        import jwt

        if len(token) > _MAX_LENGTH:
            raise invalid_token()
        try:
            # The times are ours to compare: with the clock that everything else goes by.
            claims: Mapping[str, Any] = jwt.decode(
                token,
                self.keys.public,
                algorithms=[_ALGORITHM],
                options={
                    "require": ["exp", "iat", "sub"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_aud": False,
                    "verify_iss": False,
                },
            )
        except jwt.MissingRequiredClaimError:  # the signature is ours
            raise other_version() from None
        except (
            jwt.PyJWTError,
            ValueError,
            RecursionError,
        ):  # the latter two: from the content of the token, before its signature is checked
            raise invalid_token() from None
        return claims

    def _user(self, claims: Mapping[str, Any]) -> User:
        username = claims.get("username")
        user = self._directory.get_user(username) if isinstance(username, str) else None
        if user is None:
            raise invalid_token()
        if not isinstance(claims.get("account"), str) or not isinstance(claims.get("jti"), str):
            raise other_version()
        if not user.admits_token(claims["account"], claims["jti"]):
            if not user.active and claims["account"].partition("/")[0] == user.login_id.partition("/")[0]:
                raise Problem("Cannot complete request: User is inactive", 401)
            raise invalid_token()
        if not user.active:
            raise Problem("Cannot complete request: User is inactive", 401)
        return user

    async def _on_helper(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


def other_version() -> Problem:
    """Our key has signed it, and it lacks what tokens of this version have."""
    return Problem("invalid token: it was made by another version of svc, log in again", 401)


def invalid_token() -> Problem:
    return Problem("invalid token", 401)


def read_life(value: object) -> int:
    """Seconds of `expires_in`. Raises ClientError for an invalid life of a token.

    >>> read_life("12h"), read_life("90"), read_life(15)
    (43200, 90, 15)
    """
    try:
        seconds = parse_duration(value)
    except ValueError:
        seconds = 0
    if not 1 <= seconds <= _LONGEST_LIFE:
        raise ClientError("'expires_in' is invalid", code="VALIDATION")
    return int(seconds)


def _hash(token: str) -> str:
    """The hash of a refresh token in a user record: the entropy is high enough for a plain hash."""
    return sha256(token.encode()).hexdigest()
