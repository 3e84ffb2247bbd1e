"""The pages of accounts for browsers, and templates of the application (spec: rows §2.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.testing.answer import Answer
from tests.support.accounts import ADDRESS, PASSWORD, Site, open_site

NAVIGATION = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "User-Agent": "Mozilla/5.0"}
HOSTILE = '"><script>alert(1)</script>'
NEW = "another horse"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path / "site", "{role: member, identity: email, url: 'https://shop.example'}") as found:
        yield found
        found.check()


def show(site: Site, path: str, **options: Any) -> Answer:
    return site.get(path, headers=NAVIGATION, **options)


def send(site: Site, path: str, **fields: str) -> Answer:
    return site.post(path, data=fields, headers=NAVIGATION)


def fault_of(answer: Answer) -> str:
    found = re.search(r'<p class="fault" role="alert">(.*?)</p>', answer.text)
    return found[1] if found else ""


def test_each_page_is_safe_and_not_kept(site: Site) -> None:
    for path in ("", "/confirm", "/forgot", "/reset"):
        answer = show(site, f"{path}?code={'x' * 22}&email=%22%3E%3Cscript%3E")
        assert answer.status == 200 and answer.content_type == "text/html"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "form-action 'self'" in answer.headers["Content-Security-Policy"]
        assert "<script>" not in answer.text and answer.text.count("<script") == answer.text.count('<script type="module" src="')


def test_pages_of_members_lead_to_the_login(site: Site) -> None:
    for path in ("/me", "/email", "/password"):
        answer = show(site, path)
        assert (answer.status, answer.headers["Location"]) == (302, f"/login?redirect=%2Faccounts{path.replace('/', '%2F')}")


def test_the_login_page_leads_to_sign_up_and_forgotten_passwords(site: Site) -> None:
    page = site.application.get("/login", user=None, headers=NAVIGATION).text
    assert '<a href="./accounts">Sign up</a>' in page and '<a href="./accounts/forgot">' in page
    assert '<label>Email address <input name="username"' in page


def test_a_person_signs_up(site: Site) -> None:
    page = show(site, "").text
    for name in ("email", "password", "name", "born", "karma"):
        assert f'name="{name}"' in page
    assert 'name="username"' not in page

    wrong = send(site, "", email=ADDRESS, password=PASSWORD, born="long ago", name=HOSTILE)
    assert wrong.status == 400 and "born" in fault_of(wrong)
    assert "<script>" not in wrong.text and f'value="{ADDRESS}"' in wrong.text and PASSWORD not in wrong.text

    answer = send(site, "", email=ADDRESS, password=PASSWORD, born="1990", name="")
    assert answer.status == 200 and "Look into your mail" in answer.text

    link = re.search(r"https://shop\.example/accounts(/confirm\?code=\S+)", site.mails[-1].text)
    assert link is not None
    page = show(site, link[1]).text
    assert site.users == [], "who opens a link only looks"
    code = re.search(r'<input type="hidden" name="code" value="([^"]+)">', page)
    assert code is not None
    assert "Your address is confirmed" in send(site, "/confirm", code=code[1]).text
    assert len(site.users) == 1
    again = send(site, "/confirm", code=code[1])
    assert again.status == 400 and "not valid" in fault_of(again)


def test_a_code_in_an_address_is_not_logged(tmp_path: Path) -> None:
    entry = "{role: member, identity: email, url: 'https://shop.example'}"
    with open_site(tmp_path / "site", entry, http_logging={"level": "info"}) as site:
        site.sign_up(email=ADDRESS)
        code = site.code()
        show(site, f"/confirm?code={code}")
        show(site, f"/reset?code={code}")
        assert any("/accounts/confirm" in entry.text for entry in site.application.logs)
        assert not any(code in entry.text for entry in site.application.logs)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["/accounts/confirm", "/accounts/reset"])
def test_a_code_is_not_logged_whoever_opens_its_address(tmp_path: Path, method: str, path: str) -> None:
    """Programs that look through mails open links, too, and are no browsers."""
    entry = "{role: member, identity: email, url: 'https://shop.example'}"
    with open_site(tmp_path / "site", entry, http_logging={"level": "info"}) as site:
        site.sign_up(email=ADDRESS)
        code = site.code()
        for headers in ({"Accept": "*/*"}, NAVIGATION):
            site.application.request(method, f"{path}?code={code}", user=None, headers=headers)
        assert any(path in entry.text for entry in site.application.logs)
        assert not any(code in entry.text for entry in site.application.logs)


@pytest.mark.parametrize("path", ["/accounts", "/accounts/confirm", "/accounts/reset", "/accounts/me", "/login"])
def test_an_address_with_very_many_fields(site: Site, path: str) -> None:
    query = "&".join(f"x{number}=1" for number in range(100))
    assert site.application.get(f"{path}?{query}", user=None, headers=NAVIGATION).status in (200, 302)


def test_a_person_logs_in_directly_where_nothing_is_confirmed(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", "{role: member, url: 'https://shop.example'}") as site:
        answer = send(site, "", username="ann", password=PASSWORD, name="Ann", redirect="https://evil.example/")
        assert (answer.status, answer.headers["Location"]) == (303, "/accounts/me")
        page = show(site, "/me").text
        assert "<bdi>ann</bdi>" in page and 'name="name" value="Ann"' in page

        changed = send(site, "/me", name="Annie", born="", karma="3")
        assert (changed.status, changed.headers["Location"]) == (303, "/accounts/me")
        assert site.get("/me").json["record"]["name"] == "Annie"
        wrong = send(site, "/me", name="Annie", role="super_user")
        assert wrong.status == 400 and "role" in fault_of(wrong)

        wrong = send(site, "/password", current_password="wrong horse", password=NEW)
        assert wrong.status == 403 and "current_password is wrong" in fault_of(wrong)
        assert send(site, "/password", current_password=PASSWORD, password=NEW).status == 303

        assert "Look into your mail" in send(site, "/email", email=ADDRESS).text
        assert "Your address is confirmed" in send(site, "/confirm", code=site.code()).text

        assert "Tick the box" in fault_of(send(site, "/me", action="remove"))
        assert "Your account is removed" in send(site, "/me", action="remove", confirm="yes").text
        assert show(site, "/me").status == 302
        site.check()


def test_a_person_chooses_another_password(site: Site) -> None:
    send(site, "", email=ADDRESS, password=PASSWORD)
    send(site, "/confirm", code=site.code())
    assert "Look into your mail" in send(site, "/forgot", email=ADDRESS).text
    code = site.code()
    assert f'value="{code}"' in show(site, f"/reset?code={code}").text
    short = send(site, "/reset", code=code, password="short")
    assert short.status == 400 and f'value="{code}"' in short.text
    assert "Your password is changed" in send(site, "/reset", code=code, password=NEW).text
    assert site.can_log_in(ADDRESS, NEW)


def test_templates_of_the_application(tmp_path: Path) -> None:
    files = {
        "accounts/sign_up.html": '{% extends "base.html" %}{% block content %}<h1>Join {{ application }}</h1>{% endblock %}',
        "mails/accounts/confirm.txt": "Subject: Welcome to us\n\nThe code is {{ code }}\n",
    }
    with open_site(tmp_path / "site", "{role: member, identity: email, url: 'https://shop.example'}", files) as site:
        assert "<h1>Join site</h1>" in show(site, "").text
        assert "Forgot your password?" in show(site, "/forgot").text
        site.sign_up(email=ADDRESS)
        assert site.mails[-1].subject == "Welcome to us"
        assert site.post("/confirm", {"code": site.code()}).status == 200


def test_without_mail_nothing_is_offered_that_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from svc.server.instance import Instance

    monkeypatch.setattr(Instance, "_find_mail", lambda instance: None)
    with open_site(tmp_path / "site", "{role: member}") as site:
        for path in ("/forgot", "/confirm", "/reset", "/email"):
            assert site.post(path, {"email": ADDRESS, "code": "x" * 22, "password": NEW}).status == 404, path
        assert site.sign_up(username="ann", email=ADDRESS).json["record"]["email"] == ADDRESS
        assert "forgot" not in site.application.get("/login", user=None, headers=NAVIGATION).text
        site.check()
