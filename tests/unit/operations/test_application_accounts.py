"""`list_accounts` (spec: operations §5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc.errors import Problem
from tests.support.accounts import PASSWORD, open_site
from tests.support.operations import OperationsNode


def test_accounts_are_listed_found_and_paged(tmp_path: Path) -> None:
    with open_site(tmp_path / "shop", "{role: member}") as site:
        site.application.operation("add_user", username="operator", password=PASSWORD, role="member", active=True)
        for name in ("cem", "ann", "bob"):
            site.sign_up(username=name)
        site.application.operation("alter_user", username="bob", active=False)
        listed = site.application.operation("list_accounts")
        assert [each["username"] for each in listed] == ["ann", "bob", "cem"]
        assert listed[0] | {"created": 0} == {
            "username": "ann",
            "email": None,
            "confirmed": False,
            "active": True,
            "role": "member",
            "password": True,
            "logins": [],
            "created": 0,
        }
        assert listed[0]["created"] > 1e12 and listed[1]["active"] is False
        assert [each["username"] for each in site.application.operation("list_accounts", after="ann", limit=1)] == ["bob"]
        assert [each["username"] for each in site.application.operation("list_accounts", search="CE")] == ["cem"]
        assert [each["username"] for each in site.application.operation("list_accounts", username="bob")] == ["bob"]
        assert (
            site.application.operation("list_accounts", username="bo") == [] == site.application.operation("list_accounts", search="nobody")
        )
        site.application.operation("drop_user", username="cem")
        assert [each["username"] for each in site.application.operation("list_accounts")] == ["ann", "bob"]


def test_an_address_that_was_confirmed(tmp_path: Path) -> None:
    with open_site(tmp_path / "shop", "{role: member, identity: email}") as site:
        site.sign_up(email="Ann@Example.org")
        assert site.application.operation("list_accounts") == []
        site.post("/confirm", {"code": site.code()})
        [account] = site.application.operation("list_accounts", search="EXAMPLE.org")
        assert (account["email"], account["confirmed"]) == ("ann@example.org", True)


def test_without_accounts(tmp_path: Path) -> None:
    with OperationsNode(tmp_path) as node, pytest.raises(Problem) as caught:
        node.run("list_accounts")
    assert (caught.value.status_code, caught.value.message) == (404, "No application of this server has accounts")
