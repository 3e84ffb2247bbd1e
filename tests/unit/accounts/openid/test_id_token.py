"""The ID token, as a hostile or a wrong provider may make it (OpenID Connect Core 1.0 §3.1.3.7)."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import jwt
import pytest

from svc.accounts.openid.id_token import INVALID, LEEWAY, MOST_KEYS, OLDEST, TokenCheck, UnknownKey, check_id_token, read_keys
from svc.accounts.openid.metadata import ALGORITHMS
from svc.errors import Problem
from tests.support.openid import CLIENT, ISSUER, SECRET, private_key, provider_settings, public_jwk

NOW = 1_800_000_000.0
CLAIMS = {"iss": ISSUER, "aud": CLIENT, "sub": "42", "exp": NOW + 300, "iat": NOW, "nonce": "n"}
CHECK = TokenCheck(provider_settings(), ALGORITHMS, "n", NOW)


def token(algorithm: str = "RS256", kind: str = "RSA", name: str = "1", header: dict[str, Any] | None = None, **claims: Any) -> str:
    found = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return jwt.PyJWS().encode(json.dumps(found).encode(), private_key(kind, name), algorithm, {"kid": name} if header is None else header)


def refused(text: Any, says: str, *, keys: list[Any] | None = None, check: TokenCheck = CHECK) -> None:
    with pytest.raises(Problem, match=says) as caught:
        check_id_token(text, [public_jwk()] if keys is None else keys, check)
    assert (caught.value.status_code, caught.value.code) == (502, INVALID)


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(("algorithm", "kind"), [("RS256", "RSA"), ("PS512", "RSA"), ("ES256", "EC"), ("EdDSA", "OKP")])
def test_good_ones(algorithm: str, kind: str) -> None:
    assert check_id_token(token(algorithm, kind), [public_jwk("RSA", "other"), public_jwk(kind)], CHECK) == CLAIMS


def test_the_only_key_needs_no_name() -> None:
    keys = [public_jwk("EC", "2"), public_jwk()]
    assert check_id_token(token(header={}), keys, CHECK)["sub"] == "42"
    refused(token(header={}), "which of several keys", keys=[public_jwk(), public_jwk("RSA", "2")])


@pytest.mark.parametrize("text", [None, 5, "", "x", "a.b", "a.b.c", "é.b.c", f"{part({'alg': 'RS256'})}.x.y", "." * 10, "x" * 40_000])
def test_no_token(text: Any) -> None:
    refused(text, "cannot be trusted")


def test_nested_too_deeply() -> None:
    deep = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 12_000 + b"]" * 12_000 + b"}").rstrip(b"=").decode()
    refused(f"{deep[:30_000]}.{part({})}.x", "malformed")


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "RS1", None, 5, ["RS256"]])
def test_algorithms_that_are_not_admitted(algorithm: Any) -> None:
    refused(f"{part({'alg': algorithm, 'kid': '1'})}.{part(CLAIMS)}.", "another way|malformed")


def test_the_public_key_as_a_secret() -> None:
    """The classic: HMAC with what everybody knows."""
    for secret in (SECRET, public_jwk()["n"]):
        refused(jwt.encode(CLAIMS, secret.ljust(32), "HS256", {"kid": "1"}), "another way")
    symmetric = {"kty": "oct", "kid": "1", "k": base64.urlsafe_b64encode(SECRET.encode()).decode()}
    with pytest.raises(UnknownKey):
        check_id_token(token(), [symmetric], CHECK)


def test_what_is_not_announced() -> None:
    refused(token("PS256"), "another way", check=TokenCheck(provider_settings(), ("RS256",), "n", NOW))


@pytest.mark.parametrize("header", [{"crit": ["exp"], "exp": 1}, {"b64": False, "crit": ["b64"]}])
def test_extensions(header: dict[str, Any]) -> None:
    refused(f"{part({'alg': 'RS256', 'kid': '1', **header})}.{part(CLAIMS)}.x", "extensions|malformed")


def test_signatures() -> None:
    head, body, signature = token().split(".")
    refused(f"{head}.{part({**CLAIMS, 'sub': 'admin'})}.{signature}", "signature")
    refused(f"{head}.{body}.", "signature")
    refused(token(name="2", header={"kid": "1"}), "signature")
    own = {**public_jwk("RSA", "9"), "kid": "1"}
    refused(token(name="9", header={"kid": "1", "jwk": own, "jku": "https://evil.example"}), "signature")


@pytest.mark.parametrize(
    "members",
    [
        {"kid": "2"},
        {"use": "enc"},
        {"alg": "PS256"},
        {"key_ops": ["sign"]},
        {"key_ops": "verify"},
        {"kty": "EC"},
        {"kty": None},
        {"n": None},
        {"n": "AQAB"},
        {"n": "x" * 4000},
        {"e": "A" * 300},
    ],
)
def test_keys_that_are_not_the_one(members: dict[str, Any]) -> None:
    with pytest.raises(UnknownKey):
        check_id_token(token(), [public_jwk(**members)], CHECK)


def test_keys_that_are_none() -> None:
    refused(token(), "cannot be checked|signature", keys=[public_jwk(n="!" * 342)])
    refused(token("ES256", "EC"), "cannot be checked", keys=[public_jwk("EC", x="AAAA")])
    assert len(public_jwk("short")["n"]) == 171
    padded = base64.urlsafe_b64encode(bytes(128) + base64.urlsafe_b64decode(public_jwk("short")["n"] + "==")).rstrip(b"=").decode()
    text = f"{part({'alg': 'RS256', 'kid': '1'})}.{part(CLAIMS)}.AAAA"
    refused(text, "too short", keys=[{**public_jwk("short"), "n": padded}])


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"iss": f"{ISSUER}/"}, "another issuer"),
        ({"iss": [ISSUER]}, "malformed|cannot be checked|another issuer"),
        ({"iss": None}, "lacks a claim"),
        ({"aud": "other"}, "another application"),
        ({"aud": ["other", "third"]}, "another application"),
        ({"aud": []}, "another application|lacks"),
        ({"aud": None}, "lacks a claim"),
        ({"aud": {CLIENT: 1}}, "another application"),
        ({"aud": [CLIENT, "other"]}, "another application"),  # and no azp
        ({"aud": [CLIENT, "other"], "azp": "other"}, "another application"),
        ({"azp": "other"}, "another application"),
        ({"azp": 5}, "another application"),
        ({"sub": None}, "lacks a claim"),
        ({"sub": ""}, "names nobody"),
        ({"sub": 5}, "cannot be checked|names nobody"),
        ({"sub": "x" * 256}, "names nobody"),
        ({"sub": "a\nb"}, "names nobody"),
        ({"exp": NOW - LEEWAY}, "expired"),
        ({"exp": math.nan}, "expired"),
        ({"exp": "1900000000"}, "no numbers"),
        ({"exp": True}, "no numbers"),
        ({"exp": None}, "lacks a claim"),
        ({"iat": NOW + LEEWAY + 1}, "not made now"),
        ({"iat": NOW - OLDEST - LEEWAY - 1}, "not made now"),
        ({"iat": math.nan}, "not made now"),
        ({"iat": None}, "lacks a claim"),
        ({"nbf": NOW + LEEWAY + 1}, "not made now"),
        ({"nbf": "x"}, "no numbers"),
        ({"nonce": "other"}, "another login"),
        ({"nonce": "\ud800"}, "another login"),
        ({"nonce": None}, "another login"),
        ({"nonce": ["n"]}, "another login"),
    ],
)
def test_claims_that_are_refused(claims: dict[str, Any], says: str) -> None:
    refused(token(**claims), says)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": [CLIENT]},
        {"aud": [CLIENT, "other"], "azp": CLIENT},
        {"azp": CLIENT},
        {"exp": NOW - LEEWAY + 1},
        {"iat": NOW + LEEWAY},
        {"iat": NOW - OLDEST},
        {"nbf": NOW},
    ],
)
def test_claims_that_are_not(claims: dict[str, Any]) -> None:
    assert check_id_token(token(**claims), [public_jwk()], CHECK)["sub"] == "42"


def test_sets_of_keys() -> None:
    assert read_keys({"keys": [public_jwk(), "x", None]}) == [public_jwk()]
    for document in (None, [], {}, {"keys": {}}, {"keys": [{}] * (MOST_KEYS + 1)}):
        with pytest.raises(ValueError, match="keys"):
            read_keys(document)
