"""Requests of tests, and their answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svc.testing import Answer, Application, NotEnded
from svc.testing.answer import Headers


def test_a_record_is_written_and_read(shop: Application) -> None:
    answer = shop.post("/Product/", {"id": "1", "name": "Walnut", "stock": 3})
    assert answer.status == 201 and answer.is_success
    assert shop.get("/Product/1").json == {"id": "1", "name": "Walnut", "stock": 3}
    assert shop.patch("/Product/1", {"stock": 4}).status == 204
    assert shop.put("/Product/2", {"name": "Oak"}).status == 204
    assert shop.query("/Product/", {"conditions": [{"attribute": "name", "value": "Oak"}]}).json == [{"id": "2", "name": "Oak"}]
    assert shop.delete("/Product/2").status == 204
    assert shop.get("/Product/2").status == 404
    head = shop.head("/Product/1")
    assert (head.status, head.content) == (200, b"") and int(head.headers["content-length"]) > 0
    assert shop.options("/Product/").status in (200, 204)


def test_each_test_begins_with_an_empty_store(shop: Application) -> None:
    assert shop.get("/Product/").json == []


def test_the_fields_of_an_answer_are_those_of_the_network(shop: Application) -> None:
    shop.put("/Product/1", {"name": "Walnut"})
    answer = shop.get("/Product/1")
    assert answer.headers["Content-Type"] == answer.headers["content-type"] == "application/json"
    assert {"etag", "date", "content-length"} <= set(answer.headers)
    assert shop.get("/Product/1", headers={"If-None-Match": answer.headers["ETag"]}).status == 304
    csv = shop.get("/Product/", headers={"Accept": "text/csv"})
    assert csv.content_type == "text/csv" and "Walnut" in csv.text


def test_a_compressed_answer_is_decoded(shop: Application) -> None:
    shop.put("/Product/1", {"name": "Walnut" * 1000})
    for coding in ("gzip", "br", "zstd", "deflate"):
        answer = shop.get("/Product/1", headers={"Accept-Encoding": coding})
        assert answer.headers.get("content-encoding") in (coding, None)
        assert answer.json["name"] == "Walnut" * 1000
        if "content-encoding" in answer.headers:
            assert len(answer.content) < 1000
            head = shop.head("/Product/1", headers={"Accept-Encoding": coding})
            assert (head.headers["content-encoding"], head.content, head.text) == (coding, b"", "")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"json": {"a": "ä"}}, {"a": "ä"}),
        ({"json": None}, None),
        ({"data": {"a": "1", "b": "x y"}}, {"a": "1", "b": "x y"}),
        ({"data": '{"a": 1}', "headers": {"content-type": "application/json"}}, {"a": 1}),
        ({"data": b"\x81\xa1a\x01", "headers": {"Content-Type": "application/msgpack"}}, {"a": 1}),
    ],
)
def test_a_body_may_be_a_value_a_form_or_bytes(shop: Application, options: dict[str, Any], expected: Any) -> None:
    answer = shop.post("/Echo", **options)
    assert (answer.json if answer.content else None) == expected


def test_who_asks(shop: Application) -> None:
    assert shop.get("/Echo").json == {"user": "admin", "role": "super_user"}
    assert shop.get("/Product/", user=None).status == 401
    reader = {"data": {"Product": {"read": True}}}
    assert shop.get("/Product/", user=reader).status == 200
    assert shop.post("/Product/", {"id": "1"}, user=reader).status == 403
    shop.operation("add_role", role="keeper", permission={})
    shop.operation("add_user", username="ann", password="blue-heron", role="keeper", active=True)
    assert shop.get("/Echo", user={"role": "keeper"}).json["role"] == "keeper"
    assert shop.get("/Echo", user="ann").json == {"user": "ann", "role": "keeper"}
    ann = shop.as_user("ann")
    assert ann.get("/Echo").json["user"] == "ann" and ann.get("/Echo", user=None).status == 401
    assert shop.get("/Echo", headers={"Authorization": "Basic YW5uOmJsdWUtaGVyb24="}).json["user"] == "ann"
    assert shop.get("/Echo", headers={"Authorization": "Basic YW5uOndyb25n"}).status == 401
    shop.operation("alter_user", username="ann", active=False)
    assert ann.get("/Echo").status == 401


def test_a_user_keeps_a_login_whose_time_has_passed(shop: Application) -> None:
    shop.get("/Echo")
    shop.clock.advance(100_000)
    assert shop.get("/Echo").json["user"] == "admin"


@pytest.mark.parametrize(
    ("path", "options", "error", "text"),
    [
        ("Product", {}, ValueError, "begins with /"),
        ("/Echo", {"user": "ghost"}, LookupError, "there is no user 'ghost'"),
        ("/Echo", {"user": {"role": "ghost"}}, LookupError, "role 'ghost'"),
        ("/Echo", {"user": {"data": {"Ghost": {"read": True}}}}, ValueError, "Ghost"),
        ("/Echo", {"user": {"data": {"Product": {"read": "yes"}}}}, ValueError, "READ permission"),
        ("/Echo", {"headers": {"X-A": "a\r\nX-B: b"}}, ValueError, "line break"),
        ("/Echo", {"user": "admin", "headers": {"authorization": "x"}}, TypeError, "not both"),
        ("/Echo", {"data": "x", "json": 1}, TypeError, "not both"),
    ],
)
def test_what_cannot_be_asked_says_why(shop: Application, path: str, options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        shop.request("GET", path, **options)
    assert shop.get("/Product/").status == 200


def test_content_that_is_no_json_says_so(shop: Application) -> None:
    with pytest.raises(AssertionError, match=r"no content.*204 to DELETE /Product/1"):
        _ = (shop.put("/Product/1", {}), shop.delete("/Product/1"))[1].json
    answer = Answer("GET /x", 200, [("Content-Type", "text/plain")], b"plain \xff")
    with pytest.raises(AssertionError, match="is not JSON"):
        _ = answer.json
    with pytest.raises(AssertionError, match="is no text"):
        _ = answer.text
    with pytest.raises(AssertionError, match="is not gzip"):
        _ = Answer("GET /x", 200, [("Content-Encoding", "gzip")], b"no").text
    assert repr(answer).startswith("<200 to GET /x: plain")


def test_headers_are_found_in_any_case() -> None:
    headers = Headers([("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("ETag", '"x"')])
    assert headers["SET-COOKIE"] == "a=1, b=2" and headers.get_all("Set-Cookie") == ["a=1", "b=2"]
    assert "etag" in headers and "x-y" not in headers and headers.get("x-y") is None and len(headers) == 2


def test_the_traceback_of_a_failed_handler_is_in_the_log_and_printed(shop: Application, capsys: pytest.CaptureFixture[str]) -> None:
    answer = shop.get("/Wrong")
    assert answer.status == 500 and "ZeroDivisionError" not in answer.text
    assert any(entry.level == "error" and "ZeroDivisionError" in entry.text for entry in shop.logs)
    assert "return 1 / 0" in capsys.readouterr().err


def test_several_requests_are_under_way_at_once(shop: Application) -> None:
    first, second = shop.send("GET", "/Held"), shop.send("GET", "/Held")
    shop.settle()
    assert not first.is_answered and not second.is_answered
    third = shop.send("GET", "/Held")
    third.cancel()
    shop.post("/Held", {})
    assert first.is_answered and first.answer().json == second.answer().json == "let go"


def test_an_answer_that_never_comes_fails_the_test(shop: Application) -> None:
    with pytest.raises(NotEnded, match=r"the answer to GET /Never did not come within 30 s.*\n.*Never.get.*waits at .*resources.py:\d+"):
        shop.get("/Never", seconds=30)
    assert shop.get("/Never").status == 503  # as the server answers after http.timeout
    assert shop.get("/Product/").status == 200


def test_what_never_comes_to_rest_fails_what_waits_for_it(svc_app_factory: Any, shop_directory: Path) -> None:
    shop = svc_app_factory(shop_directory, patience=0.2)
    with pytest.raises(NotEnded, match=r"the answer to GET /Spin did not come within 0\.2 s(.|\n)*Spin\.get"):
        shop.get("/Spin")
    assert shop.get("/Product/").status == 200
    shop.send("GET", "/Spin")
    with pytest.raises(NotEnded, match="all that the application does"):
        shop.settle()


def test_an_answer_without_an_end_fails_the_test(shop: Application) -> None:
    with pytest.raises(AssertionError, match="longer than 64 MB"):
        shop.get("/Endless")
    assert shop.get("/Product/").status == 200


def test_an_application_cannot_stop_the_loop(shop: Application) -> None:
    assert shop.get("/Stop").json == "goes on"
    stop, began = shop.send("GET", "/Stop"), shop.clock.seconds
    shop.clock.advance(10)
    assert stop.is_answered and shop.clock.seconds == began + 10


def test_code_that_holds_the_loop_is_ended_and_shown(svc_app_factory: Any, shop_directory: Path) -> None:
    shop = svc_app_factory(shop_directory, patience=0.2)
    with pytest.raises(NotEnded, match=r"held the event loop for 0.2 s(.|\n)*resources.py(.|\n)*while True"):
        shop.get("/Busy")
    assert shop.get("/Product/").status == 200


def test_an_event_stream_is_not_waited_for(shop: Application) -> None:
    with pytest.raises(AssertionError, match="follow it with events"):
        shop.get("/Product/", headers={"Accept": "text/event-stream"})


def test_a_large_body_goes_both_ways(shop: Application) -> None:
    text = "x" * 3_000_000
    assert shop.post("/Echo", {"text": text}).json == {"text": text}
    assert shop.post("/Echo", data=b"x" * 3_000_000, headers={"Content-Type": "application/octet-stream"}).status in (200, 415)


def test_settings_are_given_by_name(svc_app_factory: Any, shop_directory: Path) -> None:
    assert svc_app_factory(shop_directory, http_maxRequestBodySize=1000).post("/Echo", {"text": "x" * 1000}).status == 413
    with pytest.raises(TypeError, match="'http_nothing' is not a setting"):
        svc_app_factory(shop_directory, http_nothing=1)
