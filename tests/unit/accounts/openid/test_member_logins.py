"""The logins at providers that lead to the own account (spec: rows §2.6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from svc.errors import Problem
from svc.messages import Response
from tests.support.openid import provider_settings
from tests.support.pages import BROWSER, Parsed
from tests.unit.accounts.openid.conftest import Browser, Site

ADDRESS = "/accounts/me/logins"
FORM = {"accept": BROWSER, "content-type": "application/x-www-form-urlencoded"}


def data_of(response: Response) -> Any:
    assert isinstance(response.body, bytes) and response.status == 200 and response.headers.get("Cache-Control") == "no-store"
    return json.loads(response.body)


def page(response: Response) -> Parsed:
    assert isinstance(response.body, bytes)
    return Parsed(response.body)


def refused(browser: Browser, status: int, code: str, method: str, address: str = ADDRESS, content: bytes = b"", **fields: str) -> None:
    with pytest.raises(Problem) as caught:
        browser.write(method, address, content, **fields)
    assert (caught.value.status_code, caught.value.code) == (status, code)


def test_what_there_is(site: Site, browser: Browser) -> None:
    site.open(provider_settings(label="Example"))
    site.accounts.add("ann")
    browser.password("ann")
    providers = [{"name": "example", "label": "Example", "path": "/login/example"}]
    assert data_of(browser.get(ADDRESS)) == {"logins": [], "providers": providers, "password": True}
    browser.add()
    (login,) = data_of(browser.get(ADDRESS))["logins"]
    assert login["provider"] == "example" and login["email"] == "ann@example.org" and login["since"] > 0


def test_one_is_removed(site: Site, browser: Browser) -> None:
    site.accounts.add("ann")
    browser.password("ann")
    browser.add()
    (login,) = data_of(browser.get(ADDRESS))["logins"]
    assert browser.write("DELETE", f"{ADDRESS}?id={login['id']}").status == 204
    assert data_of(browser.get(ADDRESS))["logins"] == []
    refused(browser, 404, "NOT_FOUND", "DELETE", f"{ADDRESS}?id={login['id']}")
    other = Browser(site)
    other.log_in()
    assert other.who() != "ann"


def test_the_last_way_in_stays(site: Site, browser: Browser) -> None:
    site.open(provider_settings(), provider_settings(name="other", issuer="https://other.example"))
    parameters = site.fakes["example"].log_in(browser.begin("/login/example"))
    browser.get(browser.back("example", **parameters))
    (login,) = data_of(browser.get(ADDRESS))["logins"]
    assert data_of(browser.get(ADDRESS))["password"] is False
    refused(browser, 409, "LAST_LOGIN", "DELETE", f"{ADDRESS}?id={login['id']}")
    parameters = site.fakes["other"].log_in(browser.begin_adding("/login/other"))
    browser.get(browser.back("other", **parameters))
    assert browser.write("DELETE", f"{ADDRESS}?id={login['id']}").status == 204
    (login,) = data_of(browser.get(ADDRESS))["logins"]
    refused(browser, 409, "LAST_LOGIN", "DELETE", f"{ADDRESS}?id={login['id']}")


def test_that_of_somebody_else(site: Site, browser: Browser) -> None:
    site.accounts.add("ann")
    browser.password("ann")
    browser.add()
    (login,) = data_of(browser.get(ADDRESS))["logins"]
    site.accounts.add("bob")
    other = Browser(site)
    other.password("bob")
    assert data_of(other.get(ADDRESS))["logins"] == []
    refused(other, 404, "NOT_FOUND", "DELETE", f"{ADDRESS}?id={login['id']}")
    assert len(data_of(browser.get(ADDRESS))["logins"]) == 1


@pytest.mark.parametrize("query", ["", "?id=", "?x=1", "?id=" + "x" * 7000])
def test_none_is_named(site: Site, browser: Browser, query: str) -> None:
    site.accounts.add("ann")
    browser.password("ann")
    refused(browser, 400, "VALIDATION", "DELETE", f"{ADDRESS}{query}")


@pytest.mark.parametrize("key", ["x", "%ff", "x" * 1000, "a%00b"])
def test_ids_that_are_none(site: Site, browser: Browser, key: str) -> None:
    site.accounts.add("ann")
    browser.password("ann")
    refused(browser, 404, "NOT_FOUND", "DELETE", f"{ADDRESS}?id={key}")


def test_for_those_who_are_logged_in(site: Site, browser: Browser) -> None:
    for method in ("GET", "DELETE"):
        refused(browser, 401, "UNAUTHENTICATED", method)
    site.accounts.add("ann")
    browser.password("ann")
    refused(browser, 401, "UNAUTHENTICATED", "DELETE", f"{ADDRESS}?id=x", **{"sec-fetch-site": "cross-site"})
    refused(browser, 401, "UNAUTHENTICATED", "POST", ADDRESS, b"id=x", **FORM, origin="https://evil.example")
    refused(browser, 405, "METHOD_NOT_ALLOWED", "POST")
    refused(browser, 405, "METHOD_NOT_ALLOWED", "PUT")


def test_the_page(site: Site, browser: Browser) -> None:
    site.open(provider_settings(label="Example & Co"))
    site.accounts.add("ann")
    browser.password("ann")
    body = page(browser.visit(ADDRESS))
    assert "No login at a provider" in body.text
    assert "Add a login at Example & Co" in body.text and body.find("form", method="post")["action"] == "../../login/example"
    response = browser.write("POST", "/login/example", content_length="0", accept=BROWSER, origin="https://shop.example")
    assert response.status == 200 and isinstance(response.body, bytes)
    assert b'content="0; url=https://id.example/authorize?response_type=code&amp;' in response.body
    browser.add(email="<ann>@example.org")
    body = page(browser.visit(ADDRESS))
    assert "<ann>@example.org" in body.text
    key = body.find("input", name="id")["value"]
    response = browser.write("POST", ADDRESS, f"id={key}".encode(), **FORM)
    assert (response.status, response.headers.get("Location")) == (303, ADDRESS)
    assert "No login at a provider" in page(browser.visit(ADDRESS)).text


def test_what_is_wrong_is_shown_on_the_page(site: Site, browser: Browser) -> None:
    browser.log_in()
    key = page(browser.visit(ADDRESS)).find("input", name="id")["value"]
    response = browser.write("POST", ADDRESS, f"id={key}".encode(), **FORM)
    assert response.status == 409 and "only way into the account" in page(response).text
    response = browser.write("POST", ADDRESS, b"x=y", **FORM)
    assert response.status == 400 and "names no login" in page(response).text


def test_an_address_with_very_many_fields(site: Site, browser: Browser) -> None:
    site.accounts.add("ann")
    browser.password("ann")
    refused(browser, 400, "VALIDATION", "DELETE", f"{ADDRESS}?" + "&".join(f"x{number}=1" for number in range(100)))
