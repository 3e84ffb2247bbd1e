"""A plain HTML form ends at a page, whatever answers it (spec: http §7.7)."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.support.application import Application, application
from tests.support.pages import BROWSER, Parsed

FORM = "application/x-www-form-urlencoded"
CODE = """
from svc import Resource, Response, tables

class Answering(Resource):
    def allow_create(self, *_): return True
    def post(self, data, target=None):
        kind = (data or {}).get("kind")
        if kind == "status":
            return Response(status=int(data["status"]), headers={"X-A": "b", "Set-Cookie": "a=b"})
        if kind == "made":
            return Response(status=201, headers={"Location": "/Show/made"})
        if kind == "late":
            return self.later()
        return {"text": "<b>", "number": 5, "flag": True, "list": [{"a": "<i>"}]}.get(kind)
    async def later(self): return None

class Quiet(tables.Show):
    def post(self, data, target=None): return None
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("forms"), CODE) as made:
        yield made
        assert made.errors == []


def send(
    site: Application, path: str, media_type: str = FORM, body: bytes | None = None, **fields: str
) -> tuple[int, dict[str, str], bytes]:
    content = urlencode(fields).encode() if body is None else body
    status, answered, got = site.answer("POST", path, content, content_type=media_type, accept=BROWSER)
    return status, answered, got or b""


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"kind": "text"}, "<b>"),
        ({"kind": "number"}, "5"),
        ({"kind": "flag"}, "true"),
        ({"kind": "list"}, "<i>"),
        ({"kind": "nothing"}, "The form was accepted."),
        ({"kind": "late"}, "The form was accepted."),
        ({}, "The form was accepted."),
    ],
)
def test_any_result_is_a_page(site: Application, fields: dict[str, str], text: str) -> None:
    status, answered, body = send(site, "/Answering/", **fields)
    assert (status, answered["content-type"]) == (200, "text/html; charset=utf-8") and text in Parsed(body).text


@pytest.mark.parametrize(
    ("status", "shown"), [(200, 200), (201, 201), (202, 202), (204, 200), (205, 200), (400, 400), (404, 404), (503, 503)]
)
def test_an_answer_without_content_is_a_page(site: Application, status: int, shown: int) -> None:
    found, answered, body = send(site, "/Answering/", kind="status", status=str(status))
    page = Parsed(body)
    assert found == shown and answered["x-a"] == "b" and answered["set-cookie"] == "a=b" and answered["cache-control"] == "no-store"
    assert ("The form was accepted." in page.text) == (status < 400) and page.links["Answering"] == "../Answering/"


def test_what_was_made_is_where_it_leads(site: Application) -> None:
    assert [send(site, "/Answering/", kind="made")[number] for number in (0,)] == [303]
    assert send(site, "/Answering/", kind="made")[1]["location"] == "/Show/made"
    assert send(site, "/Answering/", kind="made", redirect="/x")[1]["location"] == "/x"
    assert send(site, "/Answering/", kind="status", status="204", redirect="/x")[1]["location"] == "/x"
    assert send(site, "/Answering/", kind="status", status="404", redirect="/x")[0] == 404
    assert send(site, "/Quiet/", title="x")[0] == 200


def test_a_form_of_plain_text(site: Application) -> None:
    """`enctype="text/plain"` is for people to read: it is stored as raw content."""
    status, answered, _ = send(site, "/Show/", "text/plain", b"title=x\r\n")
    assert status == 303 and answered["location"].startswith("/Show/")
    assert site.answer("POST", "/Show/", b"x", content_type="text/plain", accept="*/*")[0] == 201


@pytest.mark.parametrize(
    ("path", "media_type", "body", "status", "code"),
    [
        ("/Show/", FORM, b"", 400, "BAD_BODY"),
        ("/Show/", "multipart/form-data; boundary=b", b"--b\r\nContent-Disp", 400, "BAD_BODY"),
        ("/Show/", "multipart/form-data", b"x", 400, "BAD_BODY"),
        ("/Show/1", FORM, b"title=x", 405, "METHOD_NOT_ALLOWED"),
        ("/Counter/", FORM, b"id=x&label=y", 400, "BAD_VALUE"),
        ("/Counter/", FORM, b"id=1", 400, "VALIDATION"),
        ("/nosuch/", FORM, b"a=1", 404, "NOT_FOUND"),
        ("/", FORM, b"a=1", 405, "METHOD_NOT_ALLOWED"),
        ("/Show/", FORM, b"title=x&redirect=//evil.example", 400, "BAD_VALUE"),
    ],
)
def test_errors_are_pages(site: Application, path: str, media_type: str, body: bytes, status: int, code: str) -> None:
    found, answered, got = send(site, path, media_type, body)
    assert (found, answered["content-type"]) == (status, "text/html; charset=utf-8") and code in Parsed(got).text


@pytest.mark.parametrize("accept", ["*/*", "application/json"])
def test_programs_see_no_difference(site: Application, accept: str) -> None:
    body = urlencode({"kind": "nothing"}).encode()
    status, _, got = site.answer("POST", "/Answering/", body, content_type=FORM, accept=accept)
    assert (status, got) == (204, None)
    status, answered, _ = site.answer("POST", "/Answering/", urlencode({"kind": "made"}).encode(), content_type=FORM, accept=accept)
    assert (status, answered["location"]) == (201, "/Show/made")
