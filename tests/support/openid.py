"""A provider of OpenID Connect in this process, which keeps the rules unless a test has it lie; and people who log in there."""

from __future__ import annotations

import base64
import functools
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from svc.accounts.openid.fetching import FetchedResponse
from svc.accounts.openid.settings import ProviderSettings
from svc.clock import Clock

ISSUER = "https://id.example"
CLIENT, SECRET = "shop", "s3cret/:?"


@functools.cache
def private_key(kind: str = "RSA", name: str = "1") -> Any:
    """One that all tests share; `name`: another one of the kind."""
    if kind == "RSA":
        return rsa.generate_private_key(65537, 2048)
    if kind == "short":
        return rsa.generate_private_key(65537, 1024)
    return ed25519.Ed25519PrivateKey.generate() if kind == "OKP" else ec.generate_private_key(ec.SECP256R1())


def public_jwk(kind: str = "RSA", name: str = "1", **members: Any) -> dict[str, Any]:
    """The public half as a key of a set; `kid` is `name`."""
    algorithm = {"RSA": RSAAlgorithm, "short": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}[kind]
    found = json.loads(algorithm.to_jwk(private_key(kind, name).public_key()))  # type: ignore[attr-defined]
    found.pop("key_ops", None)
    return {**found, "kid": name, "use": "sig", **members}


def provider_settings(**changes: Any) -> ProviderSettings:
    return ProviderSettings(**{"name": "example", "issuer": ISSUER, "client_id": CLIENT, "client_secret": SECRET, **changes})


@dataclass
class _Granted:
    """What a code stands for."""

    person: Mapping[str, Any]
    parameters: Mapping[str, str]
    is_used: bool = False


@dataclass
class FakeProvider:
    """`Fetch` of a provider. `keys`: of its set; `signs_with`: (algorithm, kind, name) of the key of tokens. `metadata`, `claims`, `header`, `answer`: what a
    test puts in place of, or beside, what is right; None removes it. `on_fetch`: called before each answer, with its address; what it returns is the answer.
    """

    clock: Clock
    issuer: str = ISSUER
    keys: list[dict[str, Any]] = field(default_factory=lambda: [public_jwk()])
    signs_with: tuple[str, str, str] = ("RS256", "RSA", "1")
    metadata: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    has_claims_in_token: bool = True
    on_fetch: Callable[[str], FetchedResponse | None] = lambda address: None
    requests: list[tuple[str, str]] = field(default_factory=list)
    granted: dict[str, _Granted] = field(default_factory=dict)
    is_closed: bool = False

    def count(self, path: str) -> int:
        """How often an address was asked for."""
        return sum(urlsplit(address).path == path for _, address in self.requests)

    # --- the person ------------------------------------------------------------------------------------------------------------------------

    def log_in(self, address: str, **person: Any) -> dict[str, str]:
        """Somebody is sent to this address and logs in there: the parameters that come back."""
        parts = urlsplit(address)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.issuer}/authorize"
        parameters = dict(parse_qsl(parts.query))
        assert parameters["response_type"] == "code" and parameters["code_challenge_method"] == "S256"
        assert "openid" in parameters["scope"].split()
        code = secrets.token_urlsafe(16)
        self.granted[code] = _Granted({"sub": "42", "email": "ann@example.org", "email_verified": True, **person}, parameters)
        return {"code": code, "state": parameters["state"], "iss": self.issuer}

    # --- the server ------------------------------------------------------------------------------------------------------------------------

    async def get(self, address: str, headers: Mapping[str, str]) -> FetchedResponse:
        self.requests.append(("GET", address))
        found = self.on_fetch(address)
        if found is not None:
            return found
        match urlsplit(address).path:
            case "/.well-known/openid-configuration":
                return _json(self._description(), max_age=600.0)
            case "/keys":
                return _json({"keys": self.keys}, max_age=600.0)
            case "/userinfo":
                person = self._tokens[headers["Authorization"].removeprefix("Bearer ")]
                return _json(_without_none({**person, **self.userinfo}))
        return FetchedResponse(404, "text/html", b"<h1>not here</h1>")

    async def post(self, address: str, form: Mapping[str, str], headers: Mapping[str, str]) -> FetchedResponse:
        self.requests.append(("POST", address))
        found = self.on_fetch(address)
        if found is not None:
            return found
        assert urlsplit(address).path == "/token"
        return self._token(form, headers)

    async def close(self) -> None:
        self.is_closed = True

    def _description(self) -> dict[str, Any]:
        return _without_none(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                "response_types_supported": ["code"],
                "id_token_signing_alg_values_supported": ["RS256", "PS256", "ES256", "EdDSA"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
                **self.metadata,
            }
        )

    def _token(self, form: Mapping[str, str], headers: Mapping[str, str]) -> FetchedResponse:
        if not self._is_client(form, headers):
            return _json({"error": "invalid_client"}, status=401)
        granted = self.granted.get(form["code"])
        if granted is None or granted.is_used or form["grant_type"] != "authorization_code":
            return _json({"error": "invalid_grant"}, status=400)
        granted.is_used = True
        challenge = base64.urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if challenge != granted.parameters["code_challenge"] or form["redirect_uri"] != granted.parameters["redirect_uri"]:
            return _json({"error": "invalid_grant"}, status=400)
        access = secrets.token_urlsafe(16)
        self._tokens[access] = granted.person
        answer = {"access_token": access, "token_type": "Bearer", "id_token": self.token(granted.person, granted.parameters["nonce"])}
        return _json(_without_none({**answer, **self.answer}))

    @functools.cached_property
    def _tokens(self) -> dict[str, Mapping[str, Any]]:
        return {}

    @staticmethod
    def _is_client(form: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        if "Authorization" in headers:
            name, _, secret = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
            return (unquote_plus(name), unquote_plus(secret)) == (CLIENT, SECRET) and "client_secret" not in form
        return form.get("client_id") == CLIENT and form.get("client_secret", "") in (SECRET, "")

    def token(self, person: Mapping[str, Any], nonce: str) -> str:
        """An ID token."""
        now = int(self.clock.wall())
        shown = person if self.has_claims_in_token else {"sub": person["sub"]}
        claims = {"iss": self.issuer, "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": nonce, **shown, **self.claims}
        algorithm, kind, name = self.signs_with
        headers = _without_none({"kid": name, **self.header})
        return jwt.encode(_without_none(claims), private_key(kind, name), algorithm, headers)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _json(value: Any, *, status: int = 200, max_age: float | None = None) -> FetchedResponse:
    return FetchedResponse(status, "application/json", json.dumps(value).encode(), max_age)
