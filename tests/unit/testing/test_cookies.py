"""Cookies of tests."""

from __future__ import annotations

from pathlib import Path

import svc.testing
from svc.testing.requests import Cookies
from tests.unit.testing.conftest import write_application

FILES = {
    "config.yaml": "login: true\nrest: true\nresources: {files: resources.py}\n",
    "resources.py": """
        from svc import Resource, get_user

        class Who(Resource):
            def allow_read(self, user, target=None):
                return True

            def get(self, target=None):
                return {"user": get_user() and get_user().username}
    """,
}


def test_a_visitor_logs_in_and_out(tmp_path: Path) -> None:
    with svc.testing.app(write_application(tmp_path / "shop", FILES)) as shop:
        shop.operation("add_role", role="visitor", permission={})
        shop.operation("add_user", username="ann", password="blue-heron", role="visitor", active=True)
        visitor, other = shop.as_user(None), shop.as_user(None)
        assert visitor.get("/Who").json == {"user": None}
        assert visitor.post("/login", {"username": "ann", "password": "wrong"}).status == 401
        assert visitor.post("/login", {"username": "ann", "password": "blue-heron"}).status == 200
        assert visitor.get("/Who").json == {"user": "ann"} and other.get("/Who").json == {"user": None}
        shop.clock.advance(86_400 * 20)
        assert visitor.get("/Who").json == {"user": "ann"}
        visitor.post("/logout", {})
        assert visitor.get("/Who").json == {"user": None} and not visitor.cookies
        visitor.post("/login", {"username": "ann", "password": "blue-heron"})
        shop.clock.advance(86_400 * 31)
        assert visitor.get("/Who").json == {"user": None}


def test_cookies_have_paths_and_ends() -> None:
    now = 1000.0
    cookies = Cookies(lambda: now)
    cookies.receive(
        [("Set-Cookie", "a=1; Path=/shop; HttpOnly"), ("set-cookie", "b=2; Max-Age=10"), ("Set-Cookie", "c=x=y; Expires=nonsense")]
    )
    assert cookies.header("/shop/1?x") == "a=1; b=2; c=x=y" and cookies.header("/") == "b=2; c=x=y"
    now = 1010.0
    assert cookies.header("/") == "c=x=y"
    cookies.receive([("Set-Cookie", "c=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"), ("X-Other", "d=1")])
    assert list(cookies) == ["a", "b"]


def test_a_cookie_without_a_path_is_for_the_directory_of_its_request() -> None:
    cookies = Cookies(lambda: 1000.0)
    cookies.receive([("Set-Cookie", "a=1")], "/shop/basket/1?x=/y/")
    cookies.receive([("Set-Cookie", f"b=2; Max-Age={'9' * 400}")], "/login")
    assert cookies.header("/shop/basket/2") == "a=1; b=2" and cookies.header("/shop") == "b=2"
    cookies.receive([("Set-Cookie", "a=; Max-Age=0")], "/logout")
    assert "a" in cookies, "one of another path stays"
    cookies.receive([("Set-Cookie", "a=; Max-Age=0; Path=/shop/basket")], "/logout")
    assert "a" not in cookies
