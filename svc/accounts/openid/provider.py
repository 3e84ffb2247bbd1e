"""One provider: the address that a login begins at, and what a code is worth (OpenID Connect Core 1.0 §3.1, RFC 6749, RFC 7636)."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final, Protocol
from urllib.parse import quote_plus, urlencode

import msgspec

from svc.accounts.openid.cached import CachedDocument
from svc.accounts.openid.fetching import JSON, Fetch, FetchedResponse, faulty, unavailable
from svc.accounts.openid.id_token import TokenCheck, UnknownKey, check_id_token, invalid, read_keys
from svc.accounts.openid.metadata import Metadata, metadata_address, read_metadata
from svc.accounts.openid.settings import ProviderSettings
from svc.errors import ClientError
from svc.reactor import Reactor

CODE_REFUSED = "LOGIN_CODE_REFUSED"
_ERROR_WORD = re.compile(r"[a-z_]{1,40}")
_LONGEST_ACCESS_TOKEN = 1 << 15  # characters
_PRINTABLE = re.compile(r"[!-~]+")
_KEY_TYPES: Final = (JSON, "application/jwk-set+json")

_decode_json = msgspec.json.Decoder().decode


class BegunLogin(Protocol):
    """What of a login goes to the provider: `attempts.Attempt`."""

    @property
    def state(self) -> str: ...
    @property
    def nonce(self) -> str: ...
    @property
    def verifier(self) -> str: ...
    @property
    def redirect_uri(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ProvenIdentity:
    """Who has logged in, as the provider says it. `email`: "" if it says none. `is_verified`: whether the provider vouches that it is the person's own."""

    issuer: str
    subject: str
    claims: Mapping[str, Any]

    @property
    def email(self) -> str:
        found = self.claims.get("email")
        return found if isinstance(found, str) else ""

    @property
    def is_verified(self) -> bool:
        said = self.claims.get("email_verified")
        return bool(self.email) and (said is True or said == "true")  # some send a text


class Provider:
    """Used on the loop's thread."""

    def __init__(self, settings: ProviderSettings, fetch: Fetch, reactor: Reactor) -> None:
        self.settings = settings
        self._fetch = fetch
        self._reactor = reactor
        self._metadata = CachedDocument(self._fetch_metadata, reactor)
        self._keys = CachedDocument(self._fetch_keys, reactor)

    async def close(self) -> None:
        self._metadata.close()
        self._keys.close()
        await self._fetch.close()

    async def metadata(self) -> Metadata:
        """Raises Problem."""
        return await self._metadata.get()

    async def authorization_address(self, login: BegunLogin) -> str:
        """Where the browser goes to log in. Raises Problem."""
        metadata = await self.metadata()
        parameters = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": login.redirect_uri,
            "scope": " ".join(self.settings.scopes),
            "state": login.state,
            "nonce": login.nonce,
            "code_challenge": challenge_of(login.verifier),
            "code_challenge_method": "S256",
        }
        return f"{metadata.authorization}{'&' if '?' in metadata.authorization else '?'}{urlencode(parameters)}"

    async def redeem(self, code: str, login: BegunLogin) -> ProvenIdentity:
        """Exchange the code of a login for who has logged in. Raises Problem."""
        metadata = await self.metadata()
        answer = await self._exchange(code, login, metadata)
        claims = await self._checked(answer.get("id_token"), login, metadata)
        claims = await self._completed(claims, answer, metadata)
        return ProvenIdentity(self.settings.issuer, claims["sub"], claims)

    # --- the token endpoint ----------------------------------------------------------------------------------------------------------------

    async def _exchange(self, code: str, login: BegunLogin, metadata: Metadata) -> Mapping[str, Any]:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": login.redirect_uri, "code_verifier": login.verifier}
        headers: dict[str, str] = {}
        settings = self.settings
        if metadata.authentication == "client_secret_basic":
            headers["Authorization"] = basic_credentials(settings.client_id, settings.client_secret or "")
        else:
            form["client_id"] = settings.client_id
            if metadata.authentication == "client_secret_post":
                form["client_secret"] = settings.client_secret or ""
        response = await self._fetch.post(metadata.token, form, headers)
        if response.status == 200:
            return self._object(response, "to the exchange of the code")
        if response.status >= 500 or response.status == 429:
            raise unavailable(self.settings.shown_name, f"it has answered {response.status}")
        word = _error_word(response)
        if word == "invalid_grant":
            raise ClientError(
                f"The provider {settings.shown_name} does not accept the code of this login: it has been used, or is too old. Log in again",
                400,
                CODE_REFUSED,
            )
        raise faulty(settings.shown_name, f"it does not exchange the code of a login ({word or response.status})")

    # --- the ID token, and what is missing in it ---------------------------------------------------------------------------------------------

    async def _checked(self, token: Any, login: BegunLogin, metadata: Metadata) -> dict[str, Any]:
        """The claims of the token. With a key that is not known the keys are fetched again: the provider may have new ones."""
        check = TokenCheck(self.settings, metadata.algorithms, login.nonce, self._reactor.clock.wall())
        for newer in (False, True):
            keys = await self._keys.get(newer=newer)
            work = partial(check_id_token, token, keys, check)
            try:
                return await self._reactor.loop.run_in_executor(self._reactor.executor, work)
            except UnknownKey:
                continue
        raise invalid(self.settings.shown_name, "its ID token is signed with a key that the provider does not have")

    async def _completed(self, claims: dict[str, Any], answer: Mapping[str, Any], metadata: Metadata) -> dict[str, Any]:
        """With claims of the UserInfo endpoint (Core §5.3), if the token lacks some that are wanted."""
        wanted = set(self.settings.claims.values())
        if "email" in wanted or self.settings.link_by_email:
            wanted |= {"email", "email_verified"}
        token = answer.get("access_token")
        if wanted <= claims.keys() or metadata.userinfo is None or not isinstance(token, str):
            return claims
        if len(token) > _LONGEST_ACCESS_TOKEN or not _PRINTABLE.fullmatch(token) or str(answer.get("token_type", "")).lower() != "bearer":
            raise faulty(self.settings.shown_name, "its access token is none")
        response = await self._fetch.get(metadata.userinfo, {"Authorization": f"Bearer {token}"})
        self._check_status(response)
        more = self._object(response, "to the question who has logged in")
        if more.get("sub") != claims["sub"]:
            raise invalid(self.settings.shown_name, "it speaks of two different persons")
        if "email" in more:  # an address and whether it is verified come from one place
            claims = {name: value for name, value in claims.items() if name not in ("email", "email_verified")}
        else:
            more = {name: value for name, value in more.items() if name != "email_verified"}
        return {**more, **claims}

    # --- documents -------------------------------------------------------------------------------------------------------------------------

    async def _fetch_metadata(self) -> tuple[Metadata, float | None]:
        response = await self._fetch.get(metadata_address(self.settings.issuer), {})
        self._check_status(response)
        try:
            return read_metadata(self._object(response, "to the question for its description"), self.settings), response.max_age
        except ValueError as error:
            raise faulty(self.settings.shown_name, str(error)) from None

    async def _fetch_keys(self) -> tuple[list[Mapping[str, Any]], float | None]:
        metadata = await self.metadata()
        response = await self._fetch.get(metadata.keys, {"Accept": ", ".join(_KEY_TYPES)})
        self._check_status(response)
        try:
            return read_keys(self._object(response, "to the question for its keys")), response.max_age
        except ValueError as error:
            raise faulty(self.settings.shown_name, str(error)) from None

    def _check_status(self, response: FetchedResponse) -> None:
        if response.status >= 500 or response.status == 429:
            raise unavailable(self.settings.shown_name, f"it has answered {response.status}")
        if response.status != 200:
            raise faulty(self.settings.shown_name, f"its status is {response.status}")

    def _object(self, response: FetchedResponse, what: str) -> Mapping[str, Any]:
        found = _decoded(response)
        if not isinstance(found, dict):
            raise faulty(self.settings.shown_name, f"what it has answered {what} is no JSON object")
        return found


def _decoded(response: FetchedResponse) -> Any:
    """None for what is no JSON. Its media type is not asked: some providers have a wrong one."""
    try:
        return _decode_json(response.body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _error_word(response: FetchedResponse) -> str:
    """The `error` of an answer (RFC 6749 §5.2); "" for what is none."""
    found = _decoded(response)
    word = found.get("error") if isinstance(found, dict) else None
    return word if isinstance(word, str) and _ERROR_WORD.fullmatch(word) else ""


def challenge_of(verifier: str) -> str:
    """The challenge of a code verifier (RFC 7636 §4.2 and appendix B).

    >>> challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    """
    return urlsafe_b64encode(sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()


def basic_credentials(client_id: str, secret: str) -> str:
    """The value of `Authorization` for a client (RFC 6749 §2.3.1: both are form-encoded first).

    >>> basic_credentials("shop", "a:b")
    'Basic c2hvcDphJTNBYg=='
    """
    return "Basic " + b64encode(f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()).decode()
