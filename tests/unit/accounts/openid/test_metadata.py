"""What a provider says of itself (OpenID Connect Discovery 1.0)."""

from __future__ import annotations

from typing import Any

import pytest

from svc.accounts.openid.metadata import ALGORITHMS, Metadata, metadata_address, read_metadata
from tests.support.openid import ISSUER, provider_settings

GOOD = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": "https://tokens.example/token",
    "jwks_uri": f"{ISSUER}/keys",
}


def test_the_smallest() -> None:
    found = read_metadata(GOOD, provider_settings())
    assert found == Metadata(
        authorization=f"{ISSUER}/authorize",
        token="https://tokens.example/token",
        keys=f"{ISSUER}/keys",
        userinfo=None,
        algorithms=("RS256",),
        authentication="client_secret_basic",
        names_issuer=False,
    )


def test_algorithms_are_those_of_public_keys_that_are_announced() -> None:
    offered = ["none", "HS256", "ES256", "RS256", "RS1", "ES256K"]
    assert read_metadata({**GOOD, "id_token_signing_alg_values_supported": offered}, provider_settings()).algorithms == ("RS256", "ES256")
    assert not any(name.startswith("HS") or name == "none" for name in ALGORITHMS)


@pytest.mark.parametrize(
    ("offered", "secret", "expected"),
    [
        (None, "x", "client_secret_basic"),
        (["client_secret_post", "client_secret_basic"], "x", "client_secret_basic"),
        (["client_secret_post", "private_key_jwt"], "x", "client_secret_post"),
        (["client_secret_basic"], None, "none"),
    ],
)
def test_how_the_secret_is_shown(offered: list[str] | None, secret: str | None, expected: str) -> None:
    document = {**GOOD, "token_endpoint_auth_methods_supported": offered}
    assert read_metadata(document, provider_settings(client_secret=secret)).authentication == expected


def test_a_provider_on_this_machine_may_be_without_tls() -> None:
    issuer = "http://localhost:4000"
    document = {name: value.replace(ISSUER, issuer).replace("https://tokens.example", issuer) for name, value in GOOD.items()}
    assert read_metadata(document, provider_settings(issuer=issuer)).token == "http://localhost:4000/token"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"issuer": "https://other.example"}, "another issuer"),
        ({"issuer": f"{ISSUER}/"}, "another issuer"),
        ({"issuer": None}, "another issuer"),
        ({"authorization_endpoint": None}, "authorization_endpoint"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"),
        ({"token_endpoint": "http://id.example/token"}, "token_endpoint"),
        ({"token_endpoint": "http://127.0.0.1:9925/"}, "token_endpoint"),
        ({"token_endpoint": "https://localhost/"}, "token_endpoint"),
        ({"token_endpoint": ["https://id.example"]}, "token_endpoint"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri"),
        ({"userinfo_endpoint": "http://id.example/me"}, "userinfo_endpoint"),
        ({"response_types_supported": ["id_token"]}, "code flow"),
        ({"response_types_supported": "code"}, "no list"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"id_token_signing_alg_values_supported": ["HS256", "none"]}, "public"),
        ({"token_endpoint_auth_methods_supported": ["private_key_jwt"]}, "Basic"),
    ],
)
def test_what_is_not_believed(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_metadata({**GOOD, **changes}, provider_settings())


@pytest.mark.parametrize("document", [None, [], "x", 5])
def test_no_description(document: Any) -> None:
    with pytest.raises(ValueError, match="object"):
        read_metadata(document, provider_settings())


def test_where_it_is() -> None:
    assert metadata_address(ISSUER) == f"{ISSUER}/.well-known/openid-configuration"
