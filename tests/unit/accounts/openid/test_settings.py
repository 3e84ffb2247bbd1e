"""`accounts.providers` of a config.yaml (spec: rows §2.6)."""

from __future__ import annotations

from typing import Any

import pytest

from svc.accounts.openid.settings import MOST_PROVIDERS, ProviderSettings, is_local_address, is_safe_address, issuer_fault, read_providers

SMALLEST = {"name": "example", "issuer": "https://id.example", "clientId": "shop"}


def faults_of(entry: Any) -> list[str]:
    found, faults = read_providers([entry])
    assert found == () and faults
    return faults


def test_the_smallest() -> None:
    found, faults = read_providers([SMALLEST])
    assert faults == [] and found == (ProviderSettings("example", "https://id.example", "shop"),)
    (provider,) = found
    assert (provider.login_path, provider.callback_path) == ("/login/example", "/login/example/callback")
    assert provider.scopes == ("openid", "email", "profile") and provider.claims == {"email": "email"}
    assert provider.shown_name == "example" and provider.role is None and not provider.link_by_email and not provider.is_local


def test_all_options() -> None:
    entry = {
        **SMALLEST,
        "label": "Example Inc.",
        "clientSecret": "s3cret",
        "scopes": ["email", "openid", "email"],
        "role": "member",
        "claims": {"email": "email", "name": "given_name"},
        "linkByEmail": True,
    }
    found, faults = read_providers([entry])
    assert faults == []
    (provider,) = found
    assert (provider.client_secret, provider.shown_name, provider.role, provider.link_by_email) == (
        "s3cret",
        "Example Inc.",
        "member",
        True,
    )
    assert provider.scopes == ("openid", "email") and provider.claims == {"email": "email", "name": "given_name"}
    assert "s3cret" not in repr(provider)


def test_scopes_as_text() -> None:
    assert read_providers([{**SMALLEST, "scopes": "openid email"}])[0][0].scopes == ("openid", "email")


def test_a_secret_of_the_environment() -> None:
    entry = {**SMALLEST, "clientSecret": {"env": "ID_SECRET"}}
    assert read_providers([entry], {"ID_SECRET": "x y"})[0][0].client_secret == "x y"
    found, faults = read_providers([entry], {})
    assert found == () and faults == [
        "accounts.providers[example]: clientSecret: there is no variable ID_SECRET in the environment; set it, or load a file of variables with loadEnv"
    ]


def test_none_are_none() -> None:
    assert read_providers(None) == ((), []) and read_providers([]) == ((), [])


@pytest.mark.parametrize("given", [5, {"name": "x"}, "x", [SMALLEST] * (MOST_PROVIDERS + 1)])
def test_no_list_of_providers(given: Any) -> None:
    found, faults = read_providers(given)
    assert found == () and len(faults) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": None}, "name is missing"),
        ({"name": "Example"}, "lower-case"),
        ({"name": "a/b"}, "lower-case"),
        ({"name": ".."}, "lower-case"),
        ({"name": "callback-"}, "lower-case"),
        ({"name": "x" * 41}, "lower-case"),
        ({"name": 5}, "in quotation marks"),
        ({"issuer": "http://id.example"}, "https"),
        ({"issuer": "https://id.example?x=1"}, "without query"),
        ({"issuer": "https://id.example#x"}, "without query"),
        ({"issuer": "https://ann:secret@id.example"}, "https"),
        ({"issuer": "https://"}, "https"),
        ({"issuer": "https://id.example:x"}, "issuer is not an address"),
        ({"issuer": "https://[::1"}, "issuer is not an address"),
        ({"issuer": "file:///etc/passwd"}, "https"),
        ({"clientId": ""}, "clientId must be a text"),
        ({"clientId": "a\nb"}, "clientId must be a text"),
        ({"clientSecret": 5}, "clientSecret must be a text"),
        ({"clientSecret": ""}, "clientSecret must be a text"),
        ({"clientSecret": {"file": "x"}}, "clientSecret must be a text"),
        ({"label": "x" * 61}, "label"),
        ({"label": "a\u202eb"}, "label"),
        ({"scopes": 5}, "scopes"),
        ({"scopes": ["a b"]}, "scopes"),
        ({"scopes": [5]}, "scopes"),
        ({"claims": []}, "claims"),
        ({"claims": {"email": 5}}, "claims"),
        ({"role": ""}, "role"),
        ({"role": ["member"]}, "role"),
        ({"linkByEmail": "yes"}, "linkByEmail must be true or false"),
        ({"clientID": "x"}, "'clientID' is not an option of a provider, did you mean 'clientId'?"),
        ({"colour": "x"}, "there is name, label, issuer"),
    ],
)
def test_faults(changes: dict[str, Any], says: str) -> None:
    faults = faults_of({**SMALLEST, **changes})
    assert any(says in fault and fault.startswith("accounts.providers[") for fault in faults), faults


def test_a_provider_that_is_no_mapping() -> None:
    assert faults_of("google") == ["accounts.providers[1]: must be a mapping with name, issuer and clientId"]


def test_names_are_taken_once() -> None:
    found, faults = read_providers([SMALLEST, {**SMALLEST, "issuer": "https://other.example"}])
    assert len(found) == 1 and faults == [
        "accounts.providers[example]: another provider has the name 'example' too: each needs one of its own"
    ]


@pytest.mark.parametrize(
    ("address", "is_local"),
    [
        ("http://localhost:4000", True),
        ("http://127.0.0.1/x", True),
        ("https://[::1]:4000", True),
        ("https://localhost.example", False),
        ("https://127.0.0.1.nip.example", False),
        ("https://user@localhost@id.example", False),
        ("https://[", False),
    ],
)
def test_local_addresses(address: str, is_local: bool) -> None:
    assert is_local_address(address) is is_local


@pytest.mark.parametrize(
    "address",
    [
        None,
        5,
        "",
        "https://",
        "/token",
        "//id.example/token",
        "http://id.example/token",
        "ftp://id.example/token",
        "javascript:alert(1)",
        "https://ann@id.example/token",
        "https://id.example/to ken",
        "https://id.example/to\r\nken",
        "https://id.example\\@evil.example/",
        "https://id.example/<x>",
        "https://id.example/#x",
        "https://id.example:0/",
        "https://id.example:99999/",
        "https://id.\u00e9xample/",
        "https://localhost/token",
        "http://127.0.0.1/token",
        "https://[::1]/token",
        "https://id.example/" + "x" * 1000,
    ],
)
def test_no_safe_address(address: Any) -> None:
    assert not is_safe_address(address, local=False)
    assert issuer_fault("https://id.example/a/b") == ""
