"""Which applications have `/login`, and what browsers then get (spec: http §11.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

import svc.testing
from tests.support.pages import BROWSER
from tests.unit.testing.conftest import write_application

OWN = """
from svc import Resource

class login(Resource):
    def allow_read(self, user, target=None): return True
    def allow_create(self, user, data=None, target=None): return True
    def get(self, target=None): return "own"
    def post(self, data, target=None): return "own"
"""
STATIC = "login: true\nrest: true\nstatic: {files: 'web/**', index: true}\n"
GOOD = {"username": "ann", "password": "blue-heron"}
NAVIGATION = {"Accept": BROWSER, "User-Agent": "Mozilla/5.0"}


@pytest.mark.parametrize(
    ("files", "has_form", "answer", "is_redirected"),
    [
        ({}, True, {"message": "Login successful"}, True),
        ({"config.yaml": "rest: true\n"}, False, None, False),
        ({"resources.py": OWN}, False, "own", False),
        ({"resources.py": OWN, "config.yaml": "login: true\nrest: true\nresources: {files: resources.py}\n"}, False, {"message": "Login successful"}, True),
        ({"web/login/index.html": "own", "config.yaml": STATIC}, False, {"message": "Login successful"}, True),
    ],
)  # fmt: skip
def test_who_has_a_login(tmp_path: Path, files: dict[str, str], has_form: bool, answer: object, is_redirected: bool) -> None:
    schema = {"schema.graphql": "type Product @table @export { id: ID @primaryKey }\n"}
    extra = "graphqlSchema: {files: '*.graphql'}\n"
    with svc.testing.app(
        write_application(tmp_path / "shop", {**schema, **{name: text + extra * (name == "config.yaml") for name, text in files.items()}})
    ) as shop:
        shop.operation("add_role", role="visitor", permission={})
        shop.operation("add_user", **GOOD, role="visitor", active=True)
        visitor = shop.as_user(None)
        form = visitor.get("/login", headers=NAVIGATION)
        assert ('<form class="login"' in form.text) == has_form
        if "static" in files.get("config.yaml", ""):
            assert visitor.get("/login/", headers=NAVIGATION).text == "own"
        posted = visitor.post("/login", GOOD)
        assert posted.json == answer if answer is not None else posted.status == 404
        asked = shop.as_user(None).get("/Product/", headers=NAVIGATION)
        assert asked.status == (302 if is_redirected else 401)
        assert ("Log in" in shop.as_user(None).get("/", headers=NAVIGATION).text) == is_redirected
