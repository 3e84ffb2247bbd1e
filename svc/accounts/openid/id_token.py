"""The ID token, checked as OpenID Connect Core 1.0 §3.1.3.7 has it. PyJWT does what is JOSE.

    key         of the provider, by `kid`; of the type that the algorithm needs, for signatures, long enough
    algorithm   one of those that the provider announces and that `metadata.ALGORITHMS` admits
    iss         the issuer
    aud         the client, alone; with others `azp` must name the client
    azp         the client, if it is there
    exp, iat    by the clock that all else goes by, with LEEWAY
    nonce       that of the login

What a token says is used by nobody before all of this holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any, Final

from svc.accounts.openid.settings import ProviderSettings
from svc.errors import Problem, ServerError

LEEWAY = 60.0  # seconds by which the clocks of two servers may differ
OLDEST = 600.0  # seconds since `iat`: it was made for this login
LONGEST = 1 << 15  # characters of a token
LONGEST_SUBJECT = 255  # characters (Core §2)
SHORTEST_RSA, LONGEST_RSA = 2048, 8192  # bits
MOST_KEYS = 100  # of a set

INVALID = "ID_TOKEN_INVALID"

_FAMILIES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}
_CLAIMS: Final = ("iss", "sub", "aud", "exp", "iat")


class UnknownKey(Exception):
    """No key of the set has signed the token: it may be a newer one."""


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """What a token is held against. `now`: seconds since the epoch."""

    settings: ProviderSettings
    algorithms: Sequence[str]
    nonce: str
    now: float


def invalid(provider: str, what: str) -> Problem:
    """502: what the provider has sent says nothing about who has logged in."""
    return ServerError(f"The login at {provider} cannot be trusted: {what}", 502, INVALID)


def check_id_token(token: Any, keys: Sequence[Mapping[str, Any]], check: TokenCheck) -> dict[str, Any]:
    """The claims of a token. Takes up to some milliseconds, for the signature: call it on a helper thread.

    Raises UnknownKey where `keys` has none that it could be signed with, Problem INVALID for everything else.
    """
    import jwt

    name = check.settings.shown_name
    if not isinstance(token, str) or len(token) > LONGEST or not token.isascii():
        raise invalid(name, "there is no ID token in its answer")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise invalid(name, "its ID token is malformed") from None
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in check.algorithms:
        raise invalid(name, "its ID token is signed in another way than the provider announces")
    if "crit" in header or "b64" in header:
        raise invalid(name, "its ID token has extensions that are not known here")
    key = _find_key(keys, header.get("kid"), algorithm, name)
    try:
        public = jwt.PyJWK(dict(key), algorithm).key
        if getattr(public, "key_size", SHORTEST_RSA) < SHORTEST_RSA and _FAMILIES[algorithm[:2]] == "RSA":  # zeros in front do not count
            raise invalid(name, "the key of its ID token is too short")
        claims: dict[str, Any] = jwt.decode(
            token,
            public,
            algorithms=[algorithm],
            audience=check.settings.client_id,
            issuer=check.settings.issuer,
            options={
                "require": list(_CLAIMS),
                "verify_exp": False,  # the times are compared below, with the clock that everything else goes by
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except jwt.InvalidIssuerError:
        raise invalid(name, "its ID token is of another issuer") from None
    except jwt.InvalidAudienceError:
        raise invalid(name, "its ID token was made for another application") from None
    except jwt.MissingRequiredClaimError:
        raise invalid(name, "its ID token lacks a claim that each must have") from None
    except jwt.InvalidSignatureError:
        raise invalid(name, "the signature of its ID token is wrong") from None
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError, OverflowError):  # also of keys that are none
        raise invalid(name, "its ID token cannot be checked") from None
    _check_claims(claims, check)
    return claims


def _check_claims(claims: Mapping[str, Any], check: TokenCheck) -> None:
    name, client = check.settings.shown_name, check.settings.client_id
    authorized = claims.get("azp")
    audience = claims["aud"]
    if (authorized is not None and authorized != client) or (isinstance(audience, list) and len(audience) > 1 and authorized is None):
        raise invalid(name, "its ID token was made for another application")
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
        raise invalid(name, "its ID token names nobody")
    expires, issued, begins = claims["exp"], claims["iat"], claims.get("nbf", 0)
    if not all(isinstance(time, int | float) and not isinstance(time, bool) for time in (expires, issued, begins)):
        raise invalid(name, "the times in its ID token are no numbers")
    if not expires > check.now - LEEWAY:
        raise invalid(name, "its ID token has expired. Log in again, and if that fails compare the clocks of both servers")
    if not (check.now - OLDEST - LEEWAY <= issued <= check.now + LEEWAY and begins <= check.now + LEEWAY):
        raise invalid(name, "its ID token was not made now. Log in again, and if that fails compare the clocks of both servers")
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not compare_digest(nonce.encode("utf-8", "replace"), check.nonce.encode()):
        raise invalid(name, "its ID token was made for another login")


def _find_key(keys: Sequence[Mapping[str, Any]], kid: Any, algorithm: str, provider: str) -> Mapping[str, Any]:
    """The key that a token names; of a token without `kid` the only one that fits (Core §10.1). Raises UnknownKey, Problem."""
    fitting = [key for key in keys if _fits(key, algorithm)]
    if kid is not None:
        fitting = [key for key in fitting if key.get("kid") == kid]
    if not fitting:
        raise UnknownKey
    if len(fitting) > 1:
        raise invalid(provider, "its ID token does not say which of several keys has signed it")
    return fitting[0]


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    """Whether a key is one for this algorithm, and for signatures (RFC 7517 §4)."""
    if key.get("kty") != _FAMILIES[algorithm[:2]] or key.get("use", "sig") != "sig" or key.get("alg", algorithm) != algorithm:
        return False
    operations = key.get("key_ops")
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return False
    if algorithm in _CURVES:
        return key.get("crv") == _CURVES[algorithm]
    modulus = key.get("n")
    return isinstance(modulus, str) and SHORTEST_RSA <= len(modulus) * 6 < LONGEST_RSA + 12 and _is_small(key.get("e"))


def _is_small(exponent: Any) -> bool:
    """Whether a public exponent has at most 32 bits: larger ones make each check slow."""
    return isinstance(exponent, str) and 0 < len(exponent) <= 6


def read_keys(document: Any) -> list[Mapping[str, Any]]:
    """The keys of a decoded set (RFC 7517 §5); those that are none are left out. Raises ValueError with what is wrong.

    >>> read_keys({"keys": [{"kty": "RSA", "kid": "1"}, 5]})
    [{'kty': 'RSA', 'kid': '1'}]
    """
    found = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(found, list):
        raise ValueError("its keys are no set of keys")
    if len(found) > MOST_KEYS:
        raise ValueError(f"it has more than {MOST_KEYS} keys")
    return [key for key in found if isinstance(key, Mapping)]
