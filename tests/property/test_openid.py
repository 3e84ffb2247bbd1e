"""Whatever a provider or a browser sends is read, or refused as it should be: no other exception, and nobody is let in by a token that was touched."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import jwt
from hypothesis import given
from hypothesis import strategies as st

from svc.accounts.openid.attempts import Attempt
from svc.accounts.openid.endpoint import _parameters
from svc.accounts.openid.fetching import FetchedResponse, max_age_of
from svc.accounts.openid.id_token import TokenCheck, UnknownKey, check_id_token, read_keys
from svc.accounts.openid.metadata import ALGORITHMS, read_metadata
from svc.accounts.openid.provider import ProvenIdentity, Provider
from svc.accounts.openid.settings import is_safe_address, issuer_fault, read_providers
from svc.clock import FakeClock
from svc.errors import Problem
from tests.support.fakes import make_reactor
from tests.support.openid import CLIENT, ISSUER, FakeProvider, private_key, provider_settings, public_jwk

NOW = 1_800_000_000.0
CHECK = TokenCheck(provider_settings(), ALGORITHMS, "n", NOW)
CLAIMS = {"iss": ISSUER, "aud": CLIENT, "sub": "42", "exp": NOW + 300, "iat": NOW, "nonce": "n"}
LOGIN = Attempt("example", "state", "nonce", "verifier" * 6, 0.0, "https://shop.example/login/example/callback", "/")

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["RS256", "none", ISSUER, CLIENT, "sig", "RSA"])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=8
)


def objects(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these members, and others, with any values."""
    return st.dictionaries(st.sampled_from(names) | st.text(max_size=8), values, max_size=8)


def good_token(**claims: Any) -> str:
    return jwt.PyJWS().encode(json.dumps({**CLAIMS, **claims}).encode(), private_key(), "RS256", {"kid": "1"})


def checked(token: Any, keys: Any) -> dict[str, Any] | None:
    """The claims; None where the token is refused."""
    try:
        return check_id_token(token, keys, CHECK)
    except UnknownKey:
        return None
    except Problem as problem:
        assert problem.status_code == 502
        return None


@given(position=st.integers(0, 2000), character=st.characters(codec="ascii"))
def test_a_token_that_was_touched_lets_nobody_in(position: int, character: str) -> None:
    token = good_token()
    position %= len(token)
    touched = token[:position] + character + token[position + 1 :]
    found = checked(touched, [public_jwk()])
    if found is not None:  # the last character of base64 has bits that nobody looks at
        assert found == CLAIMS and touched.rsplit(".", 1)[0] == token.rsplit(".", 1)[0]


@given(
    header=objects("alg", "kid", "crit", "b64", "typ", "jwk", "jku"),
    claims=objects(*CLAIMS, "azp", "nbf"),
    signature=st.binary(max_size=20),
)
def test_tokens_that_nobody_has_signed(header: dict[str, Any], claims: dict[str, Any], signature: bytes) -> None:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    token = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
    assert checked(token, [public_jwk()]) is None


@given(st.text(max_size=200) | values)
def test_texts_that_are_no_tokens(token: Any) -> None:
    assert checked(token, [public_jwk()]) is None


@given(objects(*CLAIMS, "azp", "nbf"))
def test_signed_claims(claims: dict[str, Any]) -> None:
    found = checked(good_token(**claims), [public_jwk()])
    if found is not None:
        assert found["iss"] == ISSUER and found["nonce"] == "n" and found["exp"] > NOW - 60
        assert found["aud"] in (CLIENT, [CLIENT]) or found.get("azp") == CLIENT
        assert isinstance(found["sub"], str) and found["sub"]


@given(objects("kty", "kid", "use", "alg", "key_ops", "n", "e", "crv", "x", "y"))
def test_keys(members: dict[str, Any]) -> None:
    for kind, algorithm in (("RSA", "RS256"), ("EC", "ES256"), ("OKP", "EdDSA")):
        token = jwt.PyJWS().encode(json.dumps(CLAIMS).encode(), private_key(kind), algorithm, {"kid": "1"})
        checked(token, read_keys({"keys": [public_jwk(kind, **members), members]}))


@given(
    objects(
        "issuer", "authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "response_types_supported",
        "code_challenge_methods_supported", "id_token_signing_alg_values_supported", "token_endpoint_auth_methods_supported",
    )
)  # fmt: skip
def test_descriptions(members: dict[str, Any]) -> None:
    good = {"issuer": ISSUER, **dict.fromkeys(("authorization_endpoint", "token_endpoint", "jwks_uri"), f"{ISSUER}/x")}
    try:
        found = read_metadata({**good, **members}, provider_settings())
    except ValueError:
        return
    assert all(address.startswith("https://") for address in (found.authorization, found.token, found.keys, found.userinfo or "https://"))
    assert found.algorithms and set(found.algorithms) <= set(ALGORITHMS)


@given(
    path=st.sampled_from(["/.well-known/openid-configuration", "/keys", "/token", "/userinfo"]),
    body=st.binary(max_size=200) | values.map(lambda value: json.dumps(value).encode()),
    status=st.sampled_from([200, 400, 404, 500]),
)
def test_answers_of_a_provider(path: str, body: bytes, status: int) -> None:
    async def main() -> None:
        clock = FakeClock()
        fake = FakeProvider(clock, has_claims_in_token=False)
        provider = Provider(provider_settings(), fake, make_reactor(asyncio.get_running_loop(), clock))
        code = fake.log_in(
            await Provider(provider_settings(), fake, make_reactor(asyncio.get_running_loop(), clock)).authorization_address(LOGIN)
        )["code"]
        fake.on_fetch = lambda address: FetchedResponse(status, "", body) if address.endswith(path) else None
        try:
            assert isinstance(await provider.redeem(code, LOGIN), ProvenIdentity)
        except Problem as problem:
            assert problem.status_code in (400, 502, 503)

    asyncio.run(main())


@given(
    st.text(max_size=100)
    | st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=4).map(
        lambda pairs: "&".join("=".join(pair) for pair in pairs)
    )
)
def test_parameters(query: str) -> None:
    try:
        found = _parameters(query)
    except Problem as problem:
        assert problem.status_code == 400
    else:
        assert all(isinstance(value, str) for value in found.values())


@given(
    values | st.lists(objects("name", "label", "issuer", "clientId", "clientSecret", "scopes", "role", "claims", "linkByEmail"), max_size=3)
)
def test_entries(entry: Any) -> None:
    found, faults = read_providers(entry, {})
    assert faults or len(found) == len(entry or [])


@given(st.text(max_size=40) | st.text("htps:/.@#?[]0x ", max_size=40).map("https://{}".format))
def test_addresses(address: str) -> None:
    assert issuer_fault(address) == "" or issuer_fault(address).startswith("issuer ")
    for local in (False, True):
        is_safe_address(address, local=local)
    max_age_of({"cache-control": address})
