"""A login that has begun at a provider, until it comes back (OpenID Connect Core 1.0 §3.1.2.1, RFC 6749 §10.12, RFC 7636).

It is kept by the browser, in a cookie that only this node can read or make: so whichever process of the node it comes back to can go on with it, a restart
does not end it, and somebody who begins a million logins fills nothing here.

    svc-login-<provider>            AES-GCM of an Attempt, base64url           __Host-svc-login-<provider> over HTTPS

What comes back counts if the cookie of this very provider has its `state`, within LIFE, and once: the first write of its digest into `svc_login_use` wins,
over all processes. That write is on the disk before the provider is asked, so neither a repeated address nor two at the same moment get a second session.
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from hmac import compare_digest

import msgspec

from svc.auth.writes import write
from svc.clock import AHEAD, Clock
from svc.errors import ClientError, Overloaded, RecordExists
from svc.mail.sealing import Seal, SealBroken
from svc.messages import Request
from svc.store import Store, Table
from svc.store.system import LOGIN_USE_TABLE, SYSTEM

LIFE = 600.0  # seconds for the person at the provider
MOST_USES = 100_000  # that are remembered: each has cost its maker a request
COOKIE = "svc-login-"
HOST_COOKIE = "__Host-svc-login-"
LONGEST_RETURN = 1500  # characters of the address that a login leads back to
LONGEST_COOKIE = 3800  # characters; browsers keep 4096 with name and attributes

NOT_BEGUN = "LOGIN_NOT_BEGUN"
STATE_MISMATCH = "LOGIN_STATE_MISMATCH"
EXPIRED = "LOGIN_EXPIRED"
USED = "LOGIN_USED"

KEY_FILE = ".login.key"
"""Among the keys of the node: what the cookies are sealed with."""

_SECRET_BYTES = 32
_MOST_COOKIES = 4  # of one name that are looked at


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """`begun`: seconds since the epoch. `redirect_uri`: where the provider sends the browser back. `return_to`: the path that the login leads to in the end.
    `member`, `account`: the name and the `User.login_id` of a member who adds the provider to the own account; "" for a login."""

    provider: str
    state: str
    nonce: str
    verifier: str
    begun: float
    redirect_uri: str
    return_to: str
    member: str = ""
    account: str = ""


class Attempts:
    """Those of one node."""

    def __init__(self, store: Store, clock: Clock, seal: Seal) -> None:
        self._store = store
        self._wall = clock.wall
        self._seal = seal

    @property
    def _table(self) -> Table:
        return self._store.databases[SYSTEM].tables[LOGIN_USE_TABLE]

    def begin(self, provider: str, redirect_uri: str, return_to: str, *, member: str = "", account: str = "") -> Attempt:
        """A new one, with secrets that nobody can guess."""
        state, nonce, verifier = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(3))
        return Attempt(provider, state, nonce, verifier, self._wall(), redirect_uri, return_to, member, account)

    def give(self, request: Request, attempt: Attempt) -> None:
        """Let the browser of this request keep it."""
        sealed = self._sealed(attempt)
        if len(sealed) > LONGEST_COOKIE:
            sealed = self._sealed(msgspec.structs.replace(attempt, return_to="/"))
        self._set_cookie(request, attempt.provider, sealed, LIFE)

    def end(self, request: Request, provider: str) -> None:
        """Let the browser forget it."""
        self._set_cookie(request, provider, "", 0)

    def found(self, request: Request, provider: str, state: str) -> Attempt:
        """The one that comes back with this `state`. Raises ClientError: NOT_BEGUN, STATE_MISMATCH, EXPIRED."""
        sealed = _cookies(request, _cookie_name(request, provider))
        attempts = [attempt for text in sealed if (attempt := self._opened(text, provider)) is not None]
        if not attempts:
            raise ClientError(
                "This login was not begun in this browser, or too long ago, or the browser keeps no cookies. Begin again", 400, NOT_BEGUN
            )
        given = state.encode("utf-8", "replace")
        attempt = next((each for each in attempts if compare_digest(each.state.encode(), given) and each.provider == provider), None)
        if attempt is None:
            raise ClientError(
                "This is the answer to another login than the one that this browser has begun last. Begin again", 400, STATE_MISMATCH
            )
        age = self._wall() - attempt.begun
        if not -AHEAD <= age < LIFE:
            raise ClientError(f"This login has taken more than {LIFE / 60:g} minutes. Begin again", 400, EXPIRED)
        return attempt

    async def use(self, attempt: Attempt) -> None:
        """From now on it is used, at all processes and on the disk. Raises ClientError USED, Overloaded, or what prevents the write."""
        table = self._table
        if table.entry_count(table.database.snapshot()) >= MOST_USES:
            raise Overloaded("Too many logins come from providers at the moment")
        key = blake2b(attempt.state.encode(), digest_size=32).hexdigest()
        transaction = self._store.begin()
        transaction.create(table, key, {"id": key}, expires_at=(attempt.begun + LIFE + AHEAD) * 1000)
        try:
            await write(transaction)
        except RecordExists:
            raise ClientError("This login has been used already. Begin again", 400, USED) from None

    # --- the cookie ------------------------------------------------------------------------------------------------------------------------

    def _sealed(self, attempt: Attempt) -> str:
        sealed = self._seal.close(msgspec.json.encode(attempt), COOKIE + attempt.provider)
        return urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def _opened(self, text: str, provider: str) -> Attempt | None:
        """None for what was not sealed here."""
        try:
            content = self._seal.open(urlsafe_b64decode(text + "=" * (-len(text) % 4)), COOKIE + provider)
            return msgspec.json.decode(content, type=Attempt)
        except (SealBroken, ValueError, msgspec.MsgspecError):  # ValueError: of base64
            return None

    @staticmethod
    def _set_cookie(request: Request, provider: str, value: str, seconds: float) -> None:
        parts = [f"{_cookie_name(request, provider)}={value}", "Path=/", f"Max-Age={seconds:.0f}", "HttpOnly", "SameSite=Lax"]
        if request.scheme == "https":
            parts.append("Secure")
        request.response_headers.append("Set-Cookie", "; ".join(parts))


def _cookie_name(request: Request, provider: str) -> str:
    return (HOST_COOKIE if request.scheme == "https" else COOKIE) + provider


def _cookies(request: Request, name: str) -> list[str]:
    """The values of the cookies of this name; pages of neighbouring hosts may have set some as well."""
    pairs = (pair.strip().partition("=") for pair in request.block.fields.get("cookie", "").split(";"))
    return [value for key, _, value in pairs if key == name and 0 < len(value) <= LONGEST_COOKIE][:_MOST_COOKIES]
