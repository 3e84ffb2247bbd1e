"""Addresses, login and forms of the console (spec: console §1, §2)."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from svc.console.places import PLACES
from svc.pages.frame import ASSETS
from tests.support.console import ConsoleSite


@pytest.fixture
def site(site: ConsoleSite) -> ConsoleSite:
    site.node.run("alter_user", username="admin", password="right")
    return site


@pytest.mark.parametrize("place", PLACES, ids=[place.path or "overview" for place in PLACES])
def test_every_place_has_a_page(site: ConsoleSite, place: object) -> None:
    path = f"/console/{place.path}"  # type: ignore[attr-defined]
    answer = site.get(path)
    assert answer.status == 200, answer.body.decode()
    assert f"<h1><bdi>{place.title}</bdi></h1>" in answer.body.decode()  # type: ignore[attr-defined]
    assert callable(import_module(place.module).show)  # type: ignore[attr-defined]
    assert answer.page.find("a", **{"aria-current": "page"})


def test_nobody_is_asked_to_log_in_and_led_back(site: ConsoleSite) -> None:
    answer = site.get("/console/?x=1", None)
    assert answer.status == 401 and answer.page.find("input", name="redirect")["value"] == "/console/?x=1"
    assert answer.page.find("form")["action"] == "./login"
    assert [value for name, value in answer.headers if name.lower() == "www-authenticate"] == ['Bearer realm="svc"']
    wrong = site.post("/console/login", {"_username": "admin", "_password": "wrong", "redirect": "/console/?x=1"}, None, token=None)
    assert (
        wrong.status == 401 and "Login failed" in wrong.page.text and wrong.page.find("input", name="redirect")["value"] == "/console/?x=1"
    )
    right = site.post("/console/login", {"_username": "admin", "_password": "right", "redirect": "/console/?x=1"}, None, token=None)
    assert right.status == 303 and right.location == "/console/?x=1"
    assert any(name.lower() == "set-cookie" for name, _ in right.headers)


@pytest.mark.parametrize("redirect", ["//evil.example", "https://evil.example/", "/\\evil.example", ""])
def test_a_login_leads_to_no_other_site(site: ConsoleSite, redirect: str) -> None:
    answer = site.post("/console/login", {"_username": "admin", "_password": "right", "redirect": redirect}, None, token=None)
    assert answer.location == "./"


def test_forms_need_the_token_of_their_page(site: ConsoleSite) -> None:
    answer = site.post("/console/logout", {}, token=None)
    assert answer.status == 403 and "FORM_TOKEN" in answer.page.text
    assert site.post("/console/logout", {}, token="0" * 32).status == 403
    assert site.post("/console/logout", {}, token="é").status == 403
    token = re.search('name="_token" value="([0-9a-f]{32})"', site.get().body.decode())
    assert token and site.post("/console/logout", {}, token=token[1]).status == 303


def test_a_form_sent_without_a_login_is_kept_and_done_after_it(site: ConsoleSite) -> None:
    answer = site.post("/console/", {"name": "<b>", "other": "2"}, None, token="old")
    assert answer.status == 401 and answer.page.find("input", name="name")["value"] == "<b>"
    assert "action" not in answer.page.find("form") and "go on" in answer.page.text


def test_a_form_of_another_site_is_not_kept(site: ConsoleSite) -> None:
    """Who logged in then would do its will."""
    elsewhere = "https://elsewhere.example"
    answer = site.post("/console/users?do=add", {"name": "theirs"}, None, token="old", origin=elsewhere)
    assert answer.status == 401 and "theirs" not in answer.body.decode()
    assert answer.page.find("form")["action"].endswith("login") and "go on" not in answer.page.find("button")
    tried = {"name": "theirs", "_username": "admin", "_password": "right"}
    answer = site.post("/console/users?do=add", tried, None, token="old", origin=elsewhere)
    assert answer.status == 403 and "theirs" not in answer.body.decode()
    assert not any(name.lower() == "set-cookie" for name, _ in answer.headers)


def test_what_is_not_there(site: ConsoleSite) -> None:
    assert site.get("/console/nosuch").status == 404
    assert site.get("/console").location == "/console/"
    assert site.post("/console/", {}).status == 405
    assert site.get("/_pages/nosuch.js").status == 404
    for path in ASSETS:
        assert site.get(path, None).status == 200
