#% if accounts %#
"""Tests: people sign up, and see what is theirs."""

import re

from svc.testing import Application, Requests

PASSWORD = "blue-heron-17"


def signed_up(svc_app: Application, address: str) -> Requests:
    """Somebody who has signed up, followed the link in the mail and logged in."""
    visitor = svc_app.as_user(None)
    assert visitor.post("/accounts", {"email": address, "password": PASSWORD}).status == 202
    mail = svc_app.mails[-1]
    code = re.search(r"The code is (\S+)", mail.text)
    assert mail.to == address and code
    assert visitor.post("/accounts/confirm", {"code": code[1]}).status == 200
    assert visitor.post("/login", {"username": address, "password": PASSWORD}).status == 200
    return visitor


def test_members_see_their_own_tasks(svc_app: Application) -> None:
    ann, bob = (signed_up(svc_app, f"{name}@example.org") for name in ("ann", "bob"))
    made = ann.post("/Task/", {"title": "Water the plants", "done": False, "listName": "home"})
    assert made.status == 201
    address = made.headers["location"]
    assert ann.get(address).json["owner"] == ann.get("/accounts/me").json["username"]
    assert bob.get("/Task/").json == []
    assert bob.get(address).status == 404
    assert bob.get("/Progress").json == {}
    assert ann.get("/Progress").json == {"home": {"open": 1, "done": 0}}
    assert bob.get("/List/home").json == ann.get("/List/home").json


def test_members_change_their_own_tasks(svc_app: Application) -> None:
    ann, bob = (signed_up(svc_app, f"{name}@example.org") for name in ("ann", "bob"))
    address = ann.post("/Task/", {"title": "Water the plants", "done": False}).headers["location"]
    assert bob.post(address).status == 404
    assert bob.patch(address, {"done": True}).status == 404
    assert ann.get(address).json["done"] is False
    assert ann.post(address).json["done"] is True
    assert ann.patch(address, {"owner": bob.get("/accounts/me").json["username"]}).status == 403


def test_visitors_see_none(svc_app: Application) -> None:
    visitor = svc_app.as_user(None)
    assert visitor.get("/Task/").status == 401
    assert "Sign up" in visitor.get("/").text
#% endif %#
