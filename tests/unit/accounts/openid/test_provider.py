"""One provider: honest ones of several kinds, and those that lie (OpenID Connect Core 1.0 §3.1, §5.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from svc.accounts.openid.attempts import Attempt
from svc.accounts.openid.cached import RENEWAL_PAUSE
from svc.accounts.openid.fetching import FetchedResponse
from svc.accounts.openid.provider import ProvenIdentity, Provider, challenge_of
from svc.clock import FakeClock
from svc.errors import Problem
from tests.support.fakes import make_reactor
from tests.support.openid import CLIENT, ISSUER, FakeProvider, provider_settings, public_jwk

LOGIN = Attempt("example", "state", "nonce", "verifier" * 6, 0.0, "https://shop.example/login/example/callback", "/")


class Scene:
    """`settings`: of the provider."""

    def __init__(self, **settings: Any) -> None:
        self.clock = FakeClock()
        self.fake = FakeProvider(self.clock)
        self.provider = Provider(provider_settings(**settings), self.fake, make_reactor(asyncio.get_running_loop(), self.clock))

    async def log_in(self, login: Attempt = LOGIN, **person: Any) -> ProvenIdentity:
        address = await self.provider.authorization_address(login)
        return await self.provider.redeem(self.fake.log_in(address, **person)["code"], login)

    async def refused(self, status: int, code: str, says: str, login: Attempt = LOGIN) -> None:
        with pytest.raises(Problem, match=says) as caught:
            await self.log_in(login)
        assert (caught.value.status_code, caught.value.code) == (status, code)


def run(test: Callable[[Scene], Awaitable[Any]], **settings: Any) -> None:
    async def main() -> None:
        await test(Scene(**settings))

    asyncio.run(main())


def test_a_login() -> None:
    async def test(scene: Scene) -> None:
        found = await scene.log_in(name="Ann")
        assert (found.issuer, found.subject, found.email, found.is_verified) == (ISSUER, "42", "ann@example.org", True)
        assert found.claims["name"] == "Ann"
        await scene.log_in()
        assert (scene.fake.count("/.well-known/openid-configuration"), scene.fake.count("/keys"), scene.fake.count("/userinfo")) == (
            1,
            1,
            0,
        )

    run(test)


def test_the_address_of_the_login() -> None:
    async def test(scene: Scene) -> None:
        scene.fake.metadata["authorization_endpoint"] = f"{ISSUER}/authorize?tenant=7"
        address = await scene.provider.authorization_address(LOGIN)
        assert parse_qs(urlsplit(address).query) == {
            "tenant": ["7"],
            "response_type": ["code"],
            "client_id": [CLIENT],
            "redirect_uri": [LOGIN.redirect_uri],
            "scope": ["openid email"],
            "state": ["state"],
            "nonce": ["nonce"],
            "code_challenge": [challenge_of(LOGIN.verifier)],
            "code_challenge_method": ["S256"],
        }
        assert LOGIN.verifier not in address

    run(test, scopes=("openid", "email"))


@pytest.mark.parametrize(
    ("offered", "settings"),
    [(["client_secret_basic"], {}), (["client_secret_post"], {}), (None, {}), (["none"], {"client_secret": None})],
)
def test_how_the_client_shows_itself(offered: Any, settings: dict[str, Any]) -> None:
    async def test(scene: Scene) -> None:
        scene.fake.metadata["token_endpoint_auth_methods_supported"] = offered
        assert (await scene.log_in()).subject == "42"

    run(test, **settings)


def test_a_wrong_secret() -> None:
    async def test(scene: Scene) -> None:
        await scene.refused(502, "PROVIDER_FAULT", r"does not exchange the code of a login \(invalid_client\)")

    run(test, client_secret="wrong")


def test_a_code_counts_once_and_for_its_login() -> None:
    async def test(scene: Scene) -> None:
        address = await scene.provider.authorization_address(LOGIN)
        code = scene.fake.log_in(address)["code"]
        await scene.provider.redeem(code, LOGIN)
        with pytest.raises(Problem) as caught:
            await scene.provider.redeem(code, LOGIN)
        assert (caught.value.status_code, caught.value.code) == (400, "LOGIN_CODE_REFUSED")
        other = Attempt("example", "state", "nonce", "another" * 7, 0.0, LOGIN.redirect_uri, "/")
        with pytest.raises(Problem) as caught:  # a stolen code without its verifier
            await scene.provider.redeem(scene.fake.log_in(address)["code"], other)
        assert caught.value.code == "LOGIN_CODE_REFUSED"

    run(test)


def test_a_token_of_another_login() -> None:
    async def test(scene: Scene) -> None:
        address = await scene.provider.authorization_address(LOGIN)
        other = Attempt("example", "state", "other", LOGIN.verifier, 0.0, LOGIN.redirect_uri, "/")
        with pytest.raises(Problem, match="another login"):
            await scene.provider.redeem(scene.fake.log_in(address)["code"], other)

    run(test)


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"aud": "other"}, "another application"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"exp": 1}, "expired"),
        ({"nonce": None}, "another login"),
    ],
)
def test_tokens_that_are_refused(claims: dict[str, Any], says: str) -> None:
    async def test(scene: Scene) -> None:
        scene.fake.claims.update(claims)
        await scene.refused(502, "ID_TOKEN_INVALID", says)

    run(test)


# --- keys


def test_the_provider_takes_a_new_key() -> None:
    async def test(scene: Scene) -> None:
        await scene.log_in()
        scene.fake.keys, scene.fake.signs_with = [public_jwk("RSA", "2")], ("RS256", "RSA", "2")
        clock = scene.clock
        clock.advance(RENEWAL_PAUSE)
        await scene.log_in()
        assert scene.fake.count("/keys") == 2

    run(test)


def test_made_up_keys_are_no_flood_of_requests() -> None:
    async def test(scene: Scene) -> None:
        scene.fake.header["kid"] = "made-up"
        for _ in range(5):
            await scene.refused(502, "ID_TOKEN_INVALID", "a key that the provider does not have")
        assert scene.fake.count("/keys") == 1
        scene.clock.advance(RENEWAL_PAUSE)
        for _ in range(5):
            await scene.refused(502, "ID_TOKEN_INVALID", "a key that the provider does not have")
        assert scene.fake.count("/keys") == 2

    run(test)


def test_keys_cannot_be_had() -> None:
    async def test(scene: Scene) -> None:
        scene.fake.on_fetch = lambda address: FetchedResponse(500, "", b"") if address.endswith("/keys") else None
        await scene.refused(503, "PROVIDER_UNAVAILABLE", "it has answered 500")
        scene.clock.advance(60)
        scene.fake.on_fetch = lambda address: FetchedResponse(200, "", b'{"keys": 5}') if address.endswith("/keys") else None
        await scene.refused(502, "PROVIDER_FAULT", "no set of keys")

    run(test)


# --- UserInfo


def test_claims_that_are_not_in_the_token() -> None:
    async def test(scene: Scene) -> None:
        scene.fake.has_claims_in_token = False
        found = await scene.log_in(name="Ann")
        assert (found.email, found.is_verified, found.claims["name"]) == ("ann@example.org", True, "Ann")

    run(test)


def test_the_token_comes_first() -> None:
    async def test(scene: Scene) -> None:
        scene.fake.userinfo = {"name": "Eve", "given_name": "Ann", "iss": "x", "email": None}
        found = await scene.log_in(name="Ann")
        assert found.claims["name"] == "Ann" and found.claims["given_name"] == "Ann" and found.claims["iss"] == ISSUER

    run(test, claims={"name": "name", "first": "given_name"})


def test_an_address_and_whether_it_is_verified_come_from_one_place() -> None:
    async def test(scene: Scene) -> None:
        scene.fake.claims = {"email": "boss@example.org", "email_verified": None}
        scene.fake.userinfo = {"email": "eve@example.org", "email_verified": True}
        found = await scene.log_in()
        assert (found.email, found.is_verified) == ("eve@example.org", True)
        scene.fake.userinfo = {"email": None, "email_verified": True}
        found = await scene.log_in()
        assert (found.email, found.is_verified) == ("boss@example.org", False)

    run(test)


@pytest.mark.parametrize("said", [None, False, "false", "yes", 1, [True]])
def test_what_does_not_verify_an_address(said: Any) -> None:
    assert ProvenIdentity(ISSUER, "42", {"email": "ann@example.org", "email_verified": "true"}).is_verified
    found = ProvenIdentity(ISSUER, "42", {"email": "ann@example.org", "email_verified": said})
    assert not found.is_verified
    assert not ProvenIdentity(ISSUER, "42", {"email_verified": True}).is_verified


def test_userinfo_of_another_person() -> None:
    async def test(scene: Scene) -> None:
        scene.fake.has_claims_in_token = False
        scene.fake.userinfo = {"sub": "43"}
        await scene.refused(502, "ID_TOKEN_INVALID", "two different persons")

    run(test)


@pytest.mark.parametrize("answer", [{"access_token": "a\r\nX-Evil: 1"}, {"access_token": "x" * 40_000}, {"token_type": "mac"}])
def test_access_tokens_that_are_none(answer: dict[str, Any]) -> None:
    async def test(scene: Scene) -> None:
        scene.fake.has_claims_in_token = False
        scene.fake.answer = answer
        await scene.refused(502, "PROVIDER_FAULT", "access token")

    run(test)


# --- answers that are none


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b"", (502, "PROVIDER_FAULT")),
        (200, b"<html>", (502, "PROVIDER_FAULT")),
        (200, b"[]", (502, "PROVIDER_FAULT")),
        (200, b"[" * 100_000, (502, "PROVIDER_FAULT")),
        (200, b'{"a":' * 50_000, (502, "PROVIDER_FAULT")),
        (200, b"{}", (502, "ID_TOKEN_INVALID")),
        (200, b'{"id_token": 5}', (502, "ID_TOKEN_INVALID")),
        (200, b"\xff{}", (502, "PROVIDER_FAULT")),
        (201, b"{}", (502, "PROVIDER_FAULT")),
        (404, b"", (502, "PROVIDER_FAULT")),
        (400, b'{"error": "invalid_grant"}', (400, "LOGIN_CODE_REFUSED")),
        (400, b'{"error": "<script>"}', (502, "PROVIDER_FAULT")),
        (429, b"", (503, "PROVIDER_UNAVAILABLE")),
        (502, b"", (503, "PROVIDER_UNAVAILABLE")),
    ],
)
def test_answers_to_the_exchange(status: int, body: bytes, expected: tuple[int, str]) -> None:
    async def test(scene: Scene) -> None:
        scene.fake.on_fetch = lambda address: FetchedResponse(status, "", body) if address.endswith("/token") else None
        await scene.refused(*expected, "provider example|login at example")

    run(test)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [(200, b"", 502), (200, b"5", 502), (404, b"", 502), (302, b"", 502), (500, b"", 503), (429, b"", 503)],
)
def test_descriptions_that_are_none(status: int, body: bytes, expected: int) -> None:
    async def test(scene: Scene) -> None:
        scene.fake.on_fetch = lambda address: FetchedResponse(status, "", body)
        with pytest.raises(Problem) as caught:
            await scene.provider.authorization_address(LOGIN)
        assert caught.value.status_code == expected

    run(test)


def test_a_description_of_another_issuer() -> None:
    async def test(scene: Scene) -> None:
        scene.fake.metadata["issuer"] = "https://evil.example"
        await scene.refused(502, "PROVIDER_FAULT", "another issuer")

    run(test)


def test_close() -> None:
    async def test(scene: Scene) -> None:
        await scene.log_in()
        await scene.provider.close()
        assert scene.fake.is_closed

    run(test)
