"""Accounts of an application in the console (spec: console §10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.accounts import PASSWORD, Site, open_site
from tests.support.console import ConsoleSite


class SiteOfApplication(ConsoleSite):
    """The console of an application with accounts."""

    def __init__(self, site: Site) -> None:
        from svc.console import Console
        from svc.http.compression import Compression

        server = site.application.instance.server
        self.node = _Node(site)  # type: ignore[assignment]
        self.console = Console(server.operations_interface.operations, Compression(0))


class _Node:
    """What `ConsoleSite` needs of the node of tests of operations."""

    def __init__(self, site: Site) -> None:
        self.node = site.application.instance.server.node
        admin = self.node.directory.first_super_user()
        assert admin is not None
        self.admin = admin
        self.wait = lambda work: site.application.run(work())


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path / "shop", "{role: member}") as site:
        for name in ("ann", "bob"):
            site.sign_up(username=name)
        yield site


def test_accounts_are_listed_locked_and_removed(shop: Site) -> None:
    site = SiteOfApplication(shop)
    page = site.get("/console/accounts").page
    assert [row[0] for row in page.rows[1:]] == ["ann", "bob"] and "application shop" in page.text and page.rows[1][4] == "password"
    assert (
        site.get("/console/accounts?search=BO").page.rows[1][0] == "bob"
        and site.get("/console/accounts?after=ann").page.rows[1][0] == "bob"
    )
    assert "account" in site.get("/console/users").page.text
    assert site.get("/console/users/ann").page.links["Show the account"] == "../accounts/ann"
    locked = site.post("/console/accounts/ann", {"action": "lock"})
    assert locked.status == 303 and not shop.can_log_in("ann") and "locked" in site.get("/console/accounts").page.rows[1][3]
    assert site.post("/console/accounts/ann", {"action": "unlock"}).status == 303 and shop.can_log_in("ann")
    question = site.get("/console/accounts/ann?do=remove").page
    assert "Remove the account ann?" in question.text and shop.records == ["ann", "bob"]
    assert site.post("/console/accounts/ann?do=remove", {"action": "confirm"}, token=None).status == 403
    assert site.post("/console/accounts/ann?do=remove", {"action": "confirm"}).status == 303
    assert shop.records == ["bob"] and shop.users == ["bob"]
    assert site.get("/console/accounts/ann").status == 404


def test_a_user_that_is_no_account_is_none_here(shop: Site) -> None:
    site = SiteOfApplication(shop)
    admin = shop.application.operation("list_users")[0]["username"]
    shop.application.operation("add_user", username="other", password=PASSWORD, role="member", active=True)
    for name in (admin, "other", "../x", "\"'><img src=x onerror=alert(1)>"):
        answer = site.get(f"/console/accounts/{quote(name, safe='')}")
        assert answer.status == 404 and "<img src=x" not in answer.body.decode()
    token = site.get("/console/accounts/bob").page.find("input", name="_token")["value"]
    assert site.post("/console/accounts/other", {"action": "confirm"}, token=token).status == 404
    assert "other" in shop.users


def test_what_a_role_may_not_do_is_not_offered(shop: Site) -> None:
    site = SiteOfApplication(shop)
    shop.application.operation("add_role", role="viewer", permission={"operations": ["list_accounts"]})
    shop.application.operation("add_user", username="eve", password=PASSWORD, role="viewer", active=True)
    eve = site.node.node.directory.get_user("eve")
    page = site.get("/console/accounts/ann", eve).page
    assert "Lock the account" not in page.text and "Remove the account" not in page.links and "The user" not in page.links
    assert site.post("/console/accounts/ann", {"action": "lock"}, eve).status == 403 and shop.can_log_in("ann")
    assert site.post("/console/accounts/ann", {"action": "confirm"}, eve).status == 403 and "ann" in shop.users


def test_without_an_application_that_has_accounts(tmp_path: Path) -> None:
    site = ConsoleSite(tmp_path)
    answer = site.get("/console/accounts")
    assert answer.status == 200 and "svc new NAME --accounts" in answer.page.text
    assert site.get("/console/accounts/ann").status == 404
    site.close()
