"""What caches may do with answers to identified callers (spec: http §4.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from svc.http.response_parts import keep_from_others
from svc.testing import Application
from svc.testing.application import app as start_app
from tests.unit.testing.conftest import write_application

PRIVATE = "private, no-cache"
CALLER = {"Authorization", "Cookie"}
CODE = """
    from svc import Resource, Response, server, tables

    class Page(Resource):
        def allow_read(self, user, target=None):
            return True

        def get(self, target=None):
            kind = target.get("kind")
            if kind == "response":
                return Response("page", headers={"Content-Type": "text/plain"})
            if kind == "vary":
                return Response("page", headers={"Content-Type": "text/plain", "Vary": "X-Tenant"})
            if kind == "said":
                return Response("page", headers={"Content-Type": "text/plain", "Cache-Control": "max-age=60"})
            if kind == "expires":
                return Response("page", headers={"Content-Type": "text/plain", "Expires": "Thu, 01 Jan 2099 00:00:00 GMT"})
            if kind == "typed":
                return {"contentType": "text/plain", "data": "page"}
            if kind == "bytes":
                return b"page"
            if kind == "value":
                return {"a": 1}
            if kind == "items":
                return (number for number in range(3))
            if kind == "redirect":
                return Response(status=301, headers={"Location": "/elsewhere"})
            return None

        def query(self, data, target=None):
            return Response("found", headers={"Content-Type": "text/plain"})

    class Basket(Resource):
        def allow_read(self, user, target=None):
            return True

        async def get(self, target=None):
            from svc import get_context
            found = await get_context().session.get()
            return Response(str(found.get("items")), headers={"Content-Type": "text/plain"})

        def allow_create(self, user, data, target=None):
            return True

        async def post(self, data, target=None):
            from svc import get_context
            await get_context().session.update({"items": 3})

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"page"})
        else:
            raise ValueError

    server.mount("/mounted", app)
"""
SCHEMA = "type Product @table @export { id: ID @primaryKey stock: Int }\n"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {"resources.py": CODE, "schema.graphql": SCHEMA, "web/page.txt": "page"}
    files["config.yaml"] = (
        "rest: true\ngraphqlSchema: {files: schema.graphql}\njsResource: {files: resources.py}\nstatic: {files: web/**}\n"
    )
    with start_app(write_application(tmp_path_factory.mktemp("caches") / "caches", files)) as app:
        app.put("/Product/1", {"stock": 1})
        yield app


def caches(answer: Any) -> tuple[str | None, set[str]]:
    vary = answer.headers.get("Vary") or ""
    return answer.headers.get("Cache-Control"), {field.strip() for field in vary.split(",")} - {""}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/Page?kind=response", 200),
        ("/Page?kind=vary", 200),
        ("/Page?kind=typed", 200),
        ("/Page?kind=bytes", 200),
        ("/Page?kind=value", 200),
        ("/Page?kind=items", 200),
        ("/Page?kind=redirect", 301),
        ("/Page?kind=nothing", 404),
        ("/mounted/page", 200),
        ("/Product/1", 200),
        ("/Product/", 200),
        ("/Product/none", 404),
        ("/Product/?nothing=1", 400),
        ("/Nothing/1", 404),
        ("/Product/1.nothing", 404),
    ],
)
def test_an_answer_to_a_user_is_for_that_user(app: Application, path: str, status: int) -> None:
    answer = app.get(path)
    assert answer.status == status
    control, vary = caches(answer)
    assert control == PRIVATE and vary >= CALLER, answer.headers
    assert app.head(path).headers["Cache-Control"] == PRIVATE


def test_what_is_there_of_vary_stays(app: Application) -> None:
    assert caches(app.get("/Page?kind=vary"))[1] == {"X-Tenant", *CALLER}


def test_code_that_says_something_is_left_alone(app: Application) -> None:
    assert caches(app.get("/Page?kind=said")) == ("max-age=60", set())
    assert caches(app.get("/Page?kind=expires"))[0] is None
    assert caches(app.get("/page.txt"))[0] == "no-cache"


def test_answers_to_everyone_stay_as_they_are(app: Application) -> None:
    app.operation("grant", role="anonymous", rights=["read"], on="Product")
    assert caches(app.get("/Product/1", user=None))[0] == "public, no-cache"
    assert caches(app.get("/Product/", user=None))[0] == "public, no-cache"
    for kind in ("response", "typed", "value"):
        assert caches(app.get(f"/Page?kind={kind}", user=None))[0] is None
    assert caches(app.get("/mounted/page", user=None))[0] is None
    app.operation("revoke", role="anonymous", rights=["read"], on="Product")


def test_an_answer_made_from_a_session_is_for_that_session(app: Application) -> None:
    assert caches(app.get("/Basket", user=None)) == (PRIVATE, CALLER)


def test_an_answer_with_a_cookie_is_for_one_caller(app: Application) -> None:
    """A session without a user is renewed by use, also by a request for what everyone may read."""
    app.operation("grant", role="anonymous", rights=["read"], on="Product")
    assert app.post("/Basket", {}, user=None).status == 204
    assert caches(app.get("/Product/1", user=None))[0] == "public, no-cache"
    app.clock.advance(2 * 86_400)
    for path in ("/Product/1", "/Page?kind=response"):
        answer = app.get(path, user=None)
        assert answer.headers.get("Set-Cookie") and caches(answer)[0] == PRIVATE
        app.clock.advance(2 * 86_400)
    app.cookies.clear()
    app.operation("revoke", role="anonymous", rights=["read"], on="Product")


def test_writes_and_queries(app: Application) -> None:
    assert app.put("/Product/2", {"stock": 1}).headers.get("Cache-Control") is None
    assert caches(app.query("/Page", {}))[0] == PRIVATE


def test_all_lines_of_vary_count() -> None:
    for before, after in (
        ([("Vary", "accept"), ("vary", "COOKIE, authorization")], [("Vary", "accept"), ("vary", "COOKIE, authorization")]),
        ([("Vary", "Cookie"), ("Vary", "Accept")], [("Vary", "Cookie"), ("Vary", "Accept, Authorization")]),
        ([("Vary", "*")], [("Vary", "*")]),
        ([], [("Vary", "Authorization, Cookie")]),
    ):
        pairs = list(before)
        keep_from_others(pairs)
        assert [pair for pair in pairs if pair[0].lower() == "vary"] == after
