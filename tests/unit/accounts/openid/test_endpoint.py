"""`/login/<provider>` and back: who is let in, and all that is refused (spec: rows §2.6)."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from svc.accounts.openid.attempts import LIFE
from svc.accounts.openid.endpoint import MOST_OF_NETWORK
from svc.accounts.openid.fetching import FetchedResponse, unavailable
from svc.errors import Problem
from svc.messages import Response
from tests.support.openid import provider_settings
from tests.support.pages import Parsed
from tests.unit.accounts.openid.conftest import NAVIGATION, Browser, Site

CROSS = {**NAVIGATION, "sec-fetch-site": "cross-site"}


def refused(browser: Browser, address: str, status: int, code: str, **fields: str) -> str:
    """Nobody is let in; a program is told why."""
    with pytest.raises(Problem) as caught:
        browser.get(address, **fields)
    assert (caught.value.status_code, caught.value.code) == (status, code), caught.value.message
    assert not any("svc-session" in text for text in browser.set_cookie) and browser.who() is None
    return caught.value.message


def page(response: Response) -> Parsed:
    assert isinstance(response.body, bytes)
    return Parsed(response.body)


# --- in


def test_somebody_new(site: Site, browser: Browser) -> None:
    location = browser.begin("/login/example?redirect=/shop/%3Fpage%3D2")
    query = parse_qs(urlsplit(location).query)
    assert query["redirect_uri"] == ["https://shop.example/login/example/callback"]
    assert list(browser.cookies) == ["__Host-svc-login-example"] and browser.who() is None
    response = browser.get(browser.back(**site.fake.log_in(location, name="Ann")))
    assert (response.status, response.headers.get("Location"), response.headers.get("Cache-Control")) == (303, "/shop/?page=2", "no-store")
    assert list(browser.cookies) == ["__Host-svc-session"]
    (name,) = site.accounts.records
    assert browser.who() == name and name.startswith("example-")
    assert site.accounts.records[name] == {"username": name, "email": "ann@example.org"} and site.accounts.verified == [True]
    user = site.node.directory.get_user(name)
    assert user is not None and user.role is not None and user.role.role == "member" and site.node.directory.credentials(name) is None


def test_the_same_person_again(site: Site, browser: Browser) -> None:
    browser.log_in()
    name = browser.who()
    other = Browser(site)
    other.log_in(email="new@example.org")  # the person is who the subject is, whatever the address is now
    assert other.who() == name and len(site.accounts.records) == 1
    another = Browser(site)
    another.log_in(sub="43", email="bob@example.org")
    assert another.who() not in (None, name)


def test_without_tls_and_below_a_path(site: Site) -> None:
    browser = Browser(site, scheme="http")
    request = browser.request("/login/example")
    request.prefix = "/svc"
    response = site.node.wait(lambda: browser.send(request))
    location = response.headers.get("Location")
    assert parse_qs(urlsplit(location).query)["redirect_uri"] == ["http://shop.example/svc/login/example/callback"]
    assert list(browser.cookies) == ["svc-login-example"]
    response = browser.get(browser.back(**site.fake.log_in(location)))
    assert response.headers.get("Location") == "/svc/" and list(browser.cookies) == ["svc-session"]


def test_the_configured_address_of_the_server(site: Site, browser: Browser) -> None:
    site.open(provider_settings(), url="https://www.shop.example")
    assert parse_qs(urlsplit(browser.begin()).query)["redirect_uri"] == ["https://www.shop.example/login/example/callback"]


def test_a_browser_that_another_site_sends_back_is_led_on_by_a_page(site: Site, browser: Browser) -> None:
    """A redirect would go on with the chain that another site has begun: the next request would be foreign, and so nobody's."""
    location = browser.begin("/login/example?redirect=/shop/%3Fa%3D1%26b", **CROSS)
    response = browser.visit(browser.back(**site.fake.log_in(location)), **CROSS)
    assert response.status == 200 and response.headers.get("Cache-Control") == "no-store"
    assert isinstance(response.body, bytes)
    assert b'<meta http-equiv="refresh" content="0; url=/shop/?a=1&amp;b">' in response.body
    assert b'<a href="/shop/?a=1&amp;b">Go on</a>' in response.body
    assert browser.who() is not None and "default-src 'none'" in str(response.headers.get("Content-Security-Policy"))


def test_the_session_is_a_new_one(site: Site, browser: Browser) -> None:
    """Session fixation: an id that was planted is worth nothing."""
    site.accounts.add("eve")
    eve = Browser(site)
    eve.password("eve")
    planted = eve.cookies["__Host-svc-session"]
    browser.cookies["__Host-svc-session"] = planted
    browser.log_in()
    assert browser.cookies["__Host-svc-session"] != planted and browser.who() != "eve"
    assert eve.who() is None  # the planted session is the one that was replaced


def test_the_login_page_has_buttons(site: Site, browser: Browser) -> None:
    site.open(provider_settings(label="Example <Inc>"), provider_settings(name="other", issuer="https://other.example"))
    body = page(browser.visit("/login?redirect=/shop/%3Fa%26b"))
    links = {text: address for text, address in body.links.items() if "login/" in address}
    query = "?redirect=%2Fshop%2F%3Fa%26b"
    assert links == {"Log in with Example <Inc>": f"./login/example{query}", "Log in with other": f"./login/other{query}"}
    assert page(browser.visit("/login")).links["Log in with other"] == "./login/other"
    assert browser.begin("/login/other").startswith("https://other.example/authorize?")


def test_a_user_with_another_role(site: Site, browser: Browser) -> None:
    site.open(provider_settings(role="guest", claims={"email": "email", "username": "preferred_username", "name": "name"}))
    browser.log_in(preferred_username="ann", name="Ann")
    assert browser.who() == "ann" and site.accounts.records["ann"] == {"username": "ann", "email": "ann@example.org", "name": "Ann"}
    user = site.node.directory.get_user("ann")
    assert user is not None and user.role is not None and user.role.role == "guest"


# --- where it leads


@pytest.mark.parametrize(
    "wish",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "\\\\evil.example",
        "javascript:alert(1)",
        "/%0d%0aSet-Cookie:x=y",
        "/\t/evil.example",
        "shop",
        "",
        "/" + "x" * 3000,
    ],
)
def test_a_login_leads_nowhere_else(site: Site, browser: Browser, wish: str) -> None:
    response = browser.log_in(address=f"/login/example?redirect={quote(wish, safe='')}")
    assert response.headers.get("Location") == ("/%0d%0aSet-Cookie:x=y" if wish.startswith("/%0d") else "/")


# --- who is not let in


def test_without_the_cookie(site: Site, browser: Browser) -> None:
    """Login CSRF: somebody else's code and state in the victim's browser."""
    eve = Browser(site)
    parameters = site.fake.log_in(eve.begin(), sub="666")
    refused(browser, browser.back(**parameters), 400, "LOGIN_NOT_BEGUN", **{"sec-fetch-site": "cross-site"})
    browser.begin()
    refused(browser, browser.back(**parameters), 400, "LOGIN_STATE_MISMATCH", **{"sec-fetch-site": "cross-site"})
    assert site.accounts.records == {} and site.fake.count("/token") == 0


def test_states(site: Site, browser: Browser) -> None:
    parameters = site.fake.log_in(browser.begin())
    for state in ("", "x", parameters["state"] + "x"):
        refused(browser, browser.back(**{**parameters, "state": state}), 400, "LOGIN_STATE_MISMATCH")
    refused(browser, browser.back(code=parameters["code"]), 400, "LOGIN_STATE_MISMATCH")
    assert browser.get(browser.back(**parameters)).status == 303  # a wrong answer in between has not ended it


def test_the_answer_of_one_provider_at_another(site: Site, browser: Browser) -> None:
    """State confusion between two providers."""
    site.open(provider_settings(), provider_settings(name="evil", issuer="https://evil.example"))
    parameters = site.fakes["example"].log_in(browser.begin("/login/example"))
    refused(browser, browser.back("evil", **parameters), 400, "LOGIN_NOT_BEGUN")
    browser.begin("/login/evil")
    refused(browser, browser.back("evil", **parameters), 400, "LOGIN_STATE_MISMATCH")
    assert site.fakes["evil"].count("/token") == 0


def test_mix_up(site: Site, browser: Browser) -> None:
    """RFC 9207: the browser has been led to another provider, whose code would be shown to this one."""
    parameters = site.fake.log_in(browser.begin())
    refused(browser, browser.back(**{**parameters, "iss": "https://honest.example"}), 400, "LOGIN_ISSUER_MISMATCH")
    parameters = site.fake.log_in(browser.begin())
    del parameters["iss"]
    refused(browser, browser.back(**parameters), 400, "LOGIN_ISSUER_MISMATCH")  # it has said that it would name itself
    parameters = {"error": "access_denied", "state": site.fake.log_in(browser.begin())["state"], "iss": "https://honest.example"}
    refused(browser, browser.back(**parameters), 400, "LOGIN_ISSUER_MISMATCH")
    assert site.fake.count("/token") == 0


def test_a_provider_that_does_not_name_itself(site: Site, browser: Browser) -> None:
    browser.begin()
    site.fake.metadata["authorization_response_iss_parameter_supported"] = None
    site.open(provider_settings())  # with what it says now
    parameters = site.fake.log_in(browser.begin())
    del parameters["iss"]
    assert browser.get(browser.back(**parameters)).status == 303


def test_an_address_counts_once(site: Site, browser: Browser) -> None:
    cookies = {}
    parameters = site.fake.log_in(browser.begin())
    cookies.update(browser.cookies)
    assert browser.get(browser.back(**parameters)).status == 303
    again = Browser(site)
    refused(again, again.back(**parameters), 400, "LOGIN_NOT_BEGUN")
    again.cookies.update(cookies)  # a browser that has not forgotten
    refused(again, again.back(**parameters), 400, "LOGIN_USED")
    again.cookies.update(cookies)
    refused(again, again.back(**{**parameters, "code": site.fake.log_in(browser.begin())["code"]}), 400, "LOGIN_USED")
    assert site.fake.count("/token") == 1


def test_two_at_the_same_moment(site: Site, browser: Browser) -> None:
    """At two processes, which have nothing in common but the store."""
    parameters = site.fake.log_in(browser.begin())
    browsers = [Browser(site) for _ in range(5)]
    for each in browsers:
        each.cookies = dict(browser.cookies)

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(each.send(each.request(each.back(**parameters))) for each in browsers), return_exceptions=True)

    outcomes = site.node.wait(all_of_them)
    assert sorted(found.code if isinstance(found, Problem) else str(found.status) for found in outcomes) == ["303"] + ["LOGIN_USED"] * 4
    assert site.fake.count("/token") == 1 and sum(each.who() is not None for each in browsers) == 1


def test_it_takes_too_long(site: Site, browser: Browser) -> None:
    parameters = site.fake.log_in(browser.begin())
    site.node.clock.advance(LIFE)
    refused(browser, browser.back(**parameters), 400, "LOGIN_EXPIRED")


def test_a_code_that_was_stolen_elsewhere(site: Site, browser: Browser) -> None:
    """Code injection: the code of another login with the own state; PKCE is what refuses it."""
    stolen = site.fake.log_in(Browser(site).begin(), sub="1")["code"]
    parameters = site.fake.log_in(browser.begin())
    refused(browser, browser.back(**{**parameters, "code": stolen}), 400, "LOGIN_CODE_REFUSED")


def test_a_token_of_another_application(site: Site, browser: Browser) -> None:
    location = browser.begin()
    site.fake.claims["aud"] = "other"
    message = refused(browser, browser.back(**site.fake.log_in(location)), 502, "ID_TOKEN_INVALID")
    assert "another application" in message and site.accounts.records == {}


@pytest.mark.parametrize(
    ("error", "status", "code"), [("access_denied", 403, "LOGIN_DENIED"), ("server_error", 503, "PROVIDER_UNAVAILABLE")]
)
def test_the_provider_refuses(site: Site, browser: Browser, error: str, status: int, code: str) -> None:
    state = site.fake.log_in(browser.begin())["state"]
    back = browser.back(error=error, error_description="<b>call 555-EVIL</b>", state=state, iss=site.fake.issuer)
    assert "EVIL" not in refused(browser, back, status, code)


@pytest.mark.parametrize("error", ["<script>", "x" * 100, "\r\n", ""])
def test_what_a_provider_says_is_not_shown(site: Site, browser: Browser, error: str) -> None:
    state = site.fake.log_in(browser.begin())["state"]
    assert "gives no reason" in refused(browser, browser.back(error=error, state=state, iss=site.fake.issuer), 403, "LOGIN_DENIED")


@pytest.mark.parametrize("query", ["code=a&code=b&state=x", "%ff=1", "a&" * 30, "x=" + "y" * 9000])
def test_addresses_that_cannot_be_read(site: Site, browser: Browser, query: str) -> None:
    browser.begin()
    refused(browser, f"/login/example/callback?{query}", 400, "LOGIN_BAD_ANSWER")
    refused(browser, f"/login/example?{query}", 400, "LOGIN_BAD_ANSWER")


@pytest.mark.parametrize("code", ["", "\x00", "x" * 5000, "é"])
def test_codes_that_are_none(site: Site, browser: Browser, code: str) -> None:
    state = site.fake.log_in(browser.begin())["state"]
    refused(browser, browser.back(code=code, state=state, iss=site.fake.issuer), 400, "LOGIN_BAD_ANSWER")


def test_methods(site: Site, browser: Browser) -> None:
    for address, methods in (("/login/example", ("PUT", "DELETE", "HEAD")), ("/login/example/callback", ("POST", "PUT", "DELETE", "HEAD"))):
        for method in methods:
            with pytest.raises(Problem) as caught:
                browser.write(method, address)
            assert caught.value.status_code == 405
            assert caught.value.headers == (("Allow", "GET, OPTIONS" if address.endswith("callback") else "GET, POST, OPTIONS"),)


def test_a_picture_on_a_page_begins_nothing(site: Site, browser: Browser) -> None:
    browser.begin()
    before = dict(browser.cookies)
    refused(browser, "/login/example", 400, "LOGIN_NOT_BEGUN", **{"sec-fetch-mode": "no-cors", "sec-fetch-site": "cross-site"})
    assert browser.cookies == before


@pytest.mark.parametrize("host", ["", "shop.example/evil", "a@b", "shop.example:x", "a b"])
def test_hosts(site: Site, browser: Browser, host: str) -> None:
    request = browser.request("/login/example")
    request.block.fields["host"] = host  # type: ignore[index]
    with pytest.raises(Problem) as caught:
        site.node.wait(lambda: browser.send(request))
    assert caught.value.status_code == 400


def test_a_flood_of_one_network(site: Site, browser: Browser) -> None:
    """The provider hangs, and somebody comes back again and again."""
    gate = asyncio.Event()
    parameters = [site.fake.log_in(browser.begin())]

    async def hang(address: str, form: Any, headers: Any) -> Any:
        await gate.wait()
        raise unavailable("example", "x")

    site.fake.post = hang  # type: ignore[method-assign]
    browsers = []
    for _ in range(MOST_OF_NETWORK + 5):
        each = Browser(site)
        parameters.append(site.fake.log_in(each.begin()))
        browsers.append((each, parameters[-1]))

    async def flood() -> list[Any]:
        tasks = [asyncio.ensure_future(each.send(each.request(each.back(**given)))) for each, given in browsers]
        other = Browser(site, peer="203.0.113.9")
        await asyncio.sleep(0)
        late = [task for task in tasks if task.done()]
        assert len(late) == 5 and all(task.exception().code == "OVERLOADED" for task in late)  # type: ignore[union-attr]
        with pytest.raises(Problem) as caught:  # another network is not concerned
            await other.send(other.request(other.back(**parameters[0])))
        assert caught.value.code == "LOGIN_NOT_BEGUN"
        gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert {found.code for found in site.node.wait(flood)} == {"OVERLOADED", "PROVIDER_UNAVAILABLE"}
    assert all(not endpoint._networks for endpoint in site.logins.endpoints.values())


# --- what is shown


def test_a_browser_sees_the_login_page_with_what_was_wrong(site: Site, browser: Browser) -> None:
    response = browser.visit(browser.back(code="x", state="y"), **CROSS)
    assert response.status == 400 and response.headers.get("Cache-Control") == "no-store"
    body = page(response)
    assert "This login was not begun in this browser" in body.text and "400 LOGIN_NOT_BEGUN" in body.text
    assert body.links["Log in with example"] == "../../login/example" and body.find("form", method="post")["action"] == "../../login"


def test_who_begins_again_is_led_to_the_same_place(site: Site, browser: Browser) -> None:
    location = browser.begin("/login/example?redirect=/shop/")
    site.fake.claims["aud"] = "other"
    response = browser.visit(browser.back(**site.fake.log_in(location)), **CROSS)
    body = page(response)
    assert response.status == 502 and "502 ID_TOKEN_INVALID" in body.text
    assert body.links["Log in with example"] == "../../login/example?redirect=%2Fshop%2F"
    assert body.find("input", name="redirect")["value"] == "/shop/"


@pytest.mark.parametrize("query", ["code=secret&state=x", "code=secret&code=secret"])
def test_a_code_is_not_for_the_log(site: Site, browser: Browser, query: str) -> None:
    browser.begin()
    request = browser.request(f"/login/example/callback?{query}")
    with pytest.raises(Problem):
        site.node.wait(lambda: browser.send(request))
    assert request.target == "/login/example/callback" and request.query is None


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (FetchedResponse(500, "", b""), 503, "PROVIDER_UNAVAILABLE"),
        (FetchedResponse(200, "text/html", b"<html>"), 502, "PROVIDER_FAULT"),
        (FetchedResponse(200, "", b'{"issuer": "https://evil.example"}'), 502, "PROVIDER_FAULT"),
    ],
)
def test_a_provider_that_is_down_or_lies(site: Site, browser: Browser, answer: FetchedResponse, status: int, code: str) -> None:
    site.fake.on_fetch = lambda address: answer
    response = browser.visit("/login/example?redirect=/shop/")
    body = page(response)
    assert response.status == status and code in body.text and browser.cookies == {}
    assert body.links["Log in with example"] == "../login/example?redirect=%2Fshop%2F"  # to try again
    refused(browser, "/login/example", status, code)


def test_no_sessions(site: Site, browser: Browser) -> None:
    site.node.node.sessions.enabled = False
    refused(browser, "/login/example", 400, "BAD_REQUEST")


# --- accounts


def test_an_inactive_account(site: Site, browser: Browser) -> None:
    browser.log_in()
    name = browser.who()
    site.node.run("alter_user", username=name, active=False)
    refused(browser, browser.back(**site.fake.log_in(browser.begin())), 403, "ACCOUNT_INACTIVE")


def test_nobody_can_sign_up(site: Site, browser: Browser) -> None:
    browser.log_in()
    site.open(provider_settings(), sign_up=False)
    assert browser.log_in().status == 303
    other = Browser(site)
    refused(other, other.back(**site.fake.log_in(other.begin(), sub="43", email="bob@example.org")), 403, "SIGN_UP_CLOSED")


def test_an_address_that_somebody_has_already(site: Site, browser: Browser) -> None:
    site.accounts.add("ann", "ann@example.org")
    refused(browser, browser.back(**site.fake.log_in(browser.begin())), 409, "ACCOUNT_EXISTS")
    assert site.accounts.adopted == []


def test_linked_by_a_verified_address(site: Site, browser: Browser) -> None:
    site.accounts.add("ann", "ann@example.org")
    site.open(provider_settings(link_by_email=True))
    browser.log_in()
    assert browser.who() == "ann" and site.accounts.adopted == ["ann"]
    other = Browser(site)
    other.log_in(email="new@example.org", email_verified=False)
    assert other.who() == "ann" and site.accounts.adopted == ["ann"]


@pytest.mark.parametrize("said", [False, None, "false", 1])
def test_an_address_that_is_not_verified_links_nothing(site: Site, browser: Browser, said: Any) -> None:
    site.accounts.add("ann", "ann@example.org")
    site.open(provider_settings(link_by_email=True))
    refused(browser, browser.back(**site.fake.log_in(browser.begin(), email_verified=said)), 409, "ACCOUNT_EXISTS")
    assert site.accounts.adopted == []


def test_super_users_and_inactive_ones_are_not_linked_by_address(site: Site, browser: Browser) -> None:
    site.accounts.add("boss", "boss@example.org", "super_user")
    site.accounts.add("gone", "gone@example.org", active=False)
    site.open(provider_settings(link_by_email=True))
    refused(browser, browser.back(**site.fake.log_in(browser.begin(), email="boss@example.org")), 409, "ACCOUNT_EXISTS")
    refused(browser, browser.back(**site.fake.log_in(browser.begin(), email="gone@example.org")), 403, "ACCOUNT_INACTIVE")
    assert site.accounts.adopted == []


def test_addresses_have_to_be_confirmed(site: Site, browser: Browser) -> None:
    site.open(provider_settings(), verify=True)
    refused(browser, browser.back(**site.fake.log_in(browser.begin(), email_verified=False)), 403, "ADDRESS_NOT_VERIFIED")
    refused(browser, browser.back(**site.fake.log_in(browser.begin(), email=None)), 403, "ADDRESS_REQUIRED")
    assert browser.log_in().status == 303 and site.accounts.verified == [True]


def test_another_claim_is_no_verified_address(site: Site, browser: Browser) -> None:
    site.open(provider_settings(claims={"email": "upn"}), verify=True)
    refused(browser, browser.back(**site.fake.log_in(browser.begin(), upn="boss@example.org")), 403, "ADDRESS_NOT_VERIFIED")


def test_a_name_that_is_somebody_elses(site: Site, browser: Browser) -> None:
    site.accounts.add("ann")
    site.open(provider_settings(claims={"username": "preferred_username"}))
    browser.log_in(preferred_username="ann")
    assert str(browser.who()).startswith("example-")
    other = Browser(site)
    other.log_in(sub="43", preferred_username="a:\u0000b")  # no name at all
    assert str(other.who()).startswith("example-") and other.who() != browser.who()


def test_a_user_who_was_dropped_and_added_again_is_another_one(site: Site, browser: Browser) -> None:
    site.open(provider_settings(claims={"username": "preferred_username"}))
    browser.log_in(preferred_username="ann")
    assert browser.who() == "ann"
    site.node.run("drop_user", username="ann")
    site.node.clock.advance(1)
    site.accounts.add("ann")
    browser.log_in(preferred_username="ann")
    assert str(browser.who()).startswith("example-")  # a new account, not that of the new ann
    other = Browser(site)
    other.log_in(preferred_username="ann")
    assert other.who() == browser.who()


def test_one_person_in_two_windows_at_the_same_moment(site: Site) -> None:
    site.open(provider_settings(claims={"username": "preferred_username"}))
    browsers = [Browser(site) for _ in range(4)]
    locations = [each.begin() for each in browsers]
    parameters = [site.fake.log_in(location, preferred_username=f"ann{number}") for number, location in enumerate(locations)]

    async def all_of_them() -> Any:
        sent = (each.send(each.request(each.back(**one))) for each, one in zip(browsers, parameters, strict=True))
        return await asyncio.gather(*sent)

    assert [found.status for found in site.node.wait(all_of_them)] == [303] * 4
    assert len({each.who() for each in browsers}) == 1 and browsers[0].who() is not None
    assert len(site.accounts.records) == 1


# --- a member adds a login


def test_a_member_adds_a_login(site: Site, browser: Browser) -> None:
    ann = site.accounts.add("ann", "ann@example.org")
    browser.password("ann")
    session = browser.cookies["__Host-svc-session"]
    response = browser.add()
    assert (response.status, response.headers.get("Location")) == (303, "/accounts/me/logins")
    assert browser.who() == "ann" and browser.cookies["__Host-svc-session"] == session
    (row,) = site.logins.identities.of_user(ann)
    assert (row["provider"], row["issuer"], row["subject"], row["email"]) == ("example", "https://id.example", "42", "ann@example.org")
    other = Browser(site)
    other.log_in()
    assert other.who() == "ann"
    browser.add()  # once more changes nothing
    assert len(site.logins.identities.of_user(ann)) == 1


def test_nobody_adds_a_login_to_nothing(site: Site, browser: Browser) -> None:
    with pytest.raises(Problem) as caught:
        browser.begin_adding()
    assert caught.value.status_code == 401 and browser.cookies == {}


@pytest.mark.parametrize("fields", [{"sec-fetch-site": "cross-site"}, {"origin": "https://evil.shop.example"}, {"origin": "null"}])
def test_another_site_cannot_add_one(site: Site, browser: Browser, fields: dict[str, str]) -> None:
    """Else its owner's login would lead to the account of whoever visits it."""
    site.accounts.add("ann")
    browser.password("ann")
    with pytest.raises(Problem) as caught:
        browser.write("POST", "/login/example", content_length="0", **fields)
    assert caught.value.status_code == 401 and list(browser.cookies) == ["__Host-svc-session"]


def test_a_link_adds_nothing(site: Site, browser: Browser) -> None:
    ann = site.accounts.add("ann")
    browser.password("ann")
    browser.log_in("/login/example?link=true")
    assert browser.who() != "ann" and site.logins.identities.of_user(ann) == []


def test_a_user_who_is_not_logged_in_by_a_session_adds_nothing(site: Site, browser: Browser) -> None:
    """What a program sends with each request is no browser that could come back."""
    site.accounts.add("ann")
    browser.password("ann")
    request = browser.request("/login/example", "POST", content_length="0")
    site.accounts.add("bob")

    async def as_bob() -> Response:
        request.user = site.node.directory.get_user("bob")
        return await site.logins.endpoints["/login/example"].handle(request)

    with pytest.raises(Problem) as caught:
        site.node.wait(as_bob)
    assert caught.value.status_code == 401


def test_the_login_of_another_account_is_not_added(site: Site, browser: Browser) -> None:
    Browser(site).log_in()
    site.accounts.add("bob")
    browser.password("bob")
    location = browser.begin_adding()
    with pytest.raises(Problem) as caught:
        browser.get(browser.back(**site.fake.log_in(location)))
    assert (caught.value.status_code, caught.value.code) == (409, "IDENTITY_TAKEN") and browser.who() == "bob"


def test_a_member_who_has_left_or_changed_meanwhile(site: Site, browser: Browser) -> None:
    bob = site.accounts.add("bob")
    site.accounts.add("ann")
    browser.password("ann")
    parameters = site.fake.log_in(browser.begin_adding())
    browser.password("bob")
    with pytest.raises(Problem) as caught:
        browser.get(browser.back(**parameters))
    assert caught.value.code == "LOGIN_NOT_BEGUN" and browser.who() == "bob"
    assert site.logins.identities.of_user(bob) == []


def test_a_member_whose_password_was_changed_meanwhile(site: Site, browser: Browser) -> None:
    site.accounts.add("ann")
    browser.password("ann")
    parameters = site.fake.log_in(browser.begin_adding())
    site.node.run("alter_user", username="ann", password="another one")
    with pytest.raises(Problem) as caught:
        browser.get(browser.back(**parameters))
    assert caught.value.code == "LOGIN_NOT_BEGUN"


def test_a_member_has_so_many_logins(site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.accounts.openid.signing_in.MOST_PER_ACCOUNT", 2)
    ann = site.accounts.add("ann")
    browser.password("ann")
    browser.add(sub="1")
    browser.add(sub="2")
    with pytest.raises(Problem) as caught:
        browser.add(sub="3")
    assert (caught.value.status_code, caught.value.code) == (409, "TOO_MANY_LOGINS") and len(site.logins.identities.of_user(ann)) == 2
    browser.add(sub="2")


def test_bodies(site: Site, browser: Browser) -> None:
    endpoint = site.logins.endpoints["/login/example"]
    for fields, status in (({}, 411), ({"content_length": "5000"}, 413), ({"content_length": "9" * 30}, 413)):
        with pytest.raises(Problem) as caught:
            endpoint.receive(browser.request("/login/example", "POST", **fields))
        assert caught.value.status_code == status
    endpoint.receive(browser.request("/login/example", "POST", content_length="12"))


def test_events(site: Site, browser: Browser) -> None:
    class Events:
        def __init__(self) -> None:
            self.found: list[tuple[str, str, str | None]] = []

        def success(self, request: Any, strategy: str, username: str | None) -> None:
            self.found.append(("success", strategy, username))

        def failure(self, request: Any, strategy: str, username: str | None) -> None:
            self.found.append(("failure", strategy, username))

    events = site.node.node.sessions.verifier.events = Events()  # type: ignore[assignment]
    browser.log_in()
    name = browser.who()
    parameters = site.fake.log_in(browser.begin())
    refused_before = {**parameters, "iss": "https://evil.example"}
    with pytest.raises(Problem):
        browser.get(browser.back(**refused_before))
    assert events.found == [("success", "OpenID", name), ("failure", "OpenID", None)]  # type: ignore[attr-defined]


def test_what_there_is_does_not_list_it(site: Site, browser: Browser) -> None:
    found = json.loads(browser.get("/").body)  # type: ignore[arg-type]
    assert not any("login/" in entry["path"] for entry in found["interfaces"])
