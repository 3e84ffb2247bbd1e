"""API keys and accounts: a key is not the person, and ends where all logins of the person end (spec: rows §2.3, §2.4, §2.7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.testing.answer import Answer
from tests.support.accounts import ADDRESS, PASSWORD, Site, open_site

NEW = "another horse"
ENTRY = "{role: member, verify: true, url: 'https://shop.example'}"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """With a member `ann`."""
    with open_site(tmp_path / "site", ENTRY) as found:
        assert found.sign_up(username="ann", email=ADDRESS).status == 202
        assert found.post("/confirm", {"code": found.code()}).status == 200
        yield found
        found.check()


def key_of(site: Site, **whose: str) -> dict[str, str]:
    """The header with a key that an operator has made."""
    return {"Authorization": f"Bearer {site.application.operation('create_key', name='robot', expires='1d', **whose)['key']}"}


def key_names(site: Site) -> list[str]:
    return [key["name"] for key in site.application.operation("list_keys")]


def send(site: Site, method: str, path: str, headers: dict[str, str], body: Any = None) -> Answer:
    answer: Answer = getattr(site.application, method)(f"/accounts{path}", *(() if body is None else (body,)), user=None, headers=headers)
    return answer


@pytest.mark.parametrize("whose", [{"user": "ann"}, {"role": "member"}], ids=["of a user", "with a role"])
def test_a_key_does_not_take_the_account(site: Site, whose: dict[str, str]) -> None:
    headers, count = key_of(site, **whose), len(site.mails)
    assert site.get("/me", headers=headers).status == 200
    refused = [
        send(site, "post", "/email", headers, {"email": "eve@example.org"}),
        send(site, "post", "/password", headers, {"current_password": PASSWORD, "password": NEW}),
        send(site, "delete", "/me", headers),
    ]
    for answer in refused:
        assert answer.status == 403, answer.text
        assert "An API key cannot" in answer.json["detail"]
    assert len(site.mails) == count and site.can_log_in("ann") and site.users == ["ann"]


def test_a_reset_ends_the_keys_of_the_account(site: Site) -> None:
    headers = key_of(site, user="ann")
    site.application.operation("create_key", name="other", role="member")
    site.post("/forgot", {"email": ADDRESS})
    assert site.get("/me", headers=headers).status == 200
    assert site.post("/reset", {"code": site.code(), "password": NEW}).status == 200
    assert site.get("/me", headers=headers).status == 401 and key_names(site) == ["other"]


def test_another_password_leaves_the_keys(site: Site) -> None:
    """They are made by operators, for programs; the person knows the password, so nobody has taken it."""
    headers = key_of(site, user="ann")
    site.can_log_in("ann")
    assert site.post("/password", {"current_password": PASSWORD, "password": NEW}).status == 200
    assert site.get("/me", headers=headers).status == 200


@pytest.mark.parametrize("by", ["the member", "an operator"])
def test_the_end_of_an_account_is_the_end_of_its_keys(site: Site, by: str) -> None:
    headers = key_of(site, user="ann")
    if by == "the member":
        site.can_log_in("ann")
        assert site.application.delete("/accounts/me", user=None).status == 204
    else:
        site.application.operation("drop_user", username="ann")
    assert key_names(site) == [] and site.get("/me", headers=headers).status == 401
    site.sign_up(username="ann", email=ADDRESS)
    site.post("/confirm", {"code": site.code()})
    assert site.get("/me", headers=headers).status == 401


def test_a_code_is_not_for_one_who_has_become_a_super_user(site: Site) -> None:
    site.post("/forgot", {"email": ADDRESS})
    code = site.code()
    site.application.operation("alter_user", username="ann", role="super_user")
    assert site.post("/reset", {"code": code, "password": NEW}).json["code"] == "INVALID_CODE"
    site.application.operation("alter_user", username="ann", role="member")
    assert site.can_log_in("ann") and not site.can_log_in("ann", NEW)
