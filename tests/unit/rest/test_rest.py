"""What handlers of their own return, and how resources are addressed (spec: http §2.1, architecture §11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from svc.errors import MethodNotAllowed, NotFound, ServerError
from svc.http.responses import as_response
from svc.messages import HeaderBlock, Request, Response
from svc.resources import RequestTarget, Resource, Resources
from svc.rest import Rest
from tests.support.fakes import make_reactor


class Open(Resource):
    """Answers GET and DELETE with what `answer` returns; anybody may."""

    name = "Open"
    verbs = frozenset({"get", "delete", "post"})
    answer: Callable[[RequestTarget, Request], Any] = staticmethod(lambda target, request: None)

    @classmethod
    def authorize(cls, verb: str, target: RequestTarget, data: Any, request: Request) -> None:
        return None

    @classmethod
    def on_get(cls, target: RequestTarget, data: Any, request: Request) -> Any:
        return cls.answer(target, request)

    on_delete = on_get
    on_post = on_get


@pytest.fixture
def rest() -> Rest:
    resources = Resources()
    resources.set("Open", Open)
    return Rest(resources, make_reactor())


def ask(rest: Rest, result: Any, method: str = "GET", content: bytes = b"", **fields: str) -> Any:
    Open.answer = staticmethod(lambda target, request: result(target, request) if callable(result) else result)
    block = HeaderBlock([(name.replace("_", "-"), value) for name, value in fields.items()])
    return rest.handle(Request(method, "/Open/1", block, content))


def test_data_becomes_json(rest: Rest) -> None:
    for data in ({"a": 1}, [1, 2], "text", 0, False, {"status": 400}, {"status": 400, "note": "a record"}):
        response = ask(rest, data)
        assert response.status == 200
        assert dict(response.pairs)["Content-Type"] == "application/json"


def test_nothing_is_404_for_reads_and_204_for_writes(rest: Rest) -> None:
    with pytest.raises(NotFound):
        ask(rest, None)
    assert ask(rest, None, "DELETE").status == 204
    assert ask(rest, True, "DELETE").status == 204


def test_responses_go_out_as_they_are(rest: Rest) -> None:
    response = Response(b"raw", 202, {"X-A": "1"})
    assert ask(rest, response) is response
    negotiated = ask(rest, Response(data={"a": 1}, status=201))
    assert (negotiated.status, negotiated.body) == (201, b'{"a":1}')
    assert dict(negotiated.pairs)["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("mapping", "status"),
    [
        ({"status": 302, "headers": {"Location": "/x"}}, 302),
        ({"status": 418, "body": b"tea"}, 418),
        ({"status": 201, "data": {"a": 1}}, 201),
        ({"status": 9, "data": 1}, None),
        ({"status": "201", "data": 1}, None),
        ({"status": True, "data": 1}, None),
        ({"status": 200, "data": 1, "more": 2}, None),
        ({"status": 200}, None),
    ],
)
def test_a_mapping_is_a_response_only_by_the_rule(mapping: dict[str, Any], status: int | None) -> None:
    result = as_response(mapping)
    if status is None:
        assert result is mapping
    else:
        assert result.status == status


def test_a_handler_that_waits_is_awaited_by_the_caller(rest: Rest) -> None:
    async def later(target: RequestTarget, request: Request) -> Any:
        await asyncio.sleep(0)
        return {"id": target.id}

    result = ask(rest, later)
    assert asyncio.iscoroutine(result)
    assert asyncio.run(result).body == b'{"id":"1"}'


def test_last_modified_of_a_handler_is_a_validator(rest: Rest) -> None:
    def dated(target: RequestTarget, request: Request) -> Any:
        request.last_modified = 1_767_225_600_000.0
        return {"a": 1}

    tag = dict(ask(rest, dated).pairs)["ETag"]
    assert ask(rest, dated, if_none_match=tag).status == 304


def test_a_tag_of_a_handler_is_accepted_back_with_its_coding(rest: Rest) -> None:
    def tagged(target: RequestTarget, request: Request) -> Any:
        if request.headers.get("If-None-Match") == '"v1"':
            return Response(None, 304, {"ETag": '"v1"'})
        return Response("the same again " * 500, 200, {"ETag": '"v1"', "Content-Type": "text/plain", "Cache-Control": "max-age=5"})

    coded = ask(rest, tagged, accept_encoding="gzip")
    assert (coded.status, coded.headers.get("ETag"), coded.headers.get("Content-Encoding")) == (200, '"v1-gzip"', "gzip")
    for value in ('"v1-gzip"', 'W/"v1-gzip"', '"x", "v1-gzip"'):
        unchanged = ask(rest, tagged, accept_encoding="gzip", if_none_match=value)
        assert (unchanged.status, unchanged.body, unchanged.headers.get("ETag")) == (304, None, '"v1-gzip"')
        assert unchanged.headers.get("Cache-Control") == "max-age=5" and not unchanged.headers.has("Content-Type")
    assert ask(rest, tagged, accept_encoding="gzip", if_none_match='"v1"').headers.get("ETag") == '"v1"'
    assert ask(rest, tagged, accept_encoding="gzip", if_none_match='"v2-gzip"').status == 200
    assert ask(rest, tagged, "DELETE", if_none_match='"v1-gzip"').status == 200


def test_what_a_resource_lacks_is_405_with_what_it_has(rest: Rest) -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        ask(rest, None, "PUT")  # whatever the body
    assert caught.value.headers == (("Allow", "GET, HEAD, POST, DELETE, OPTIONS"),)
    with pytest.raises(MethodNotAllowed, match="The Open does not have a copy method"):
        ask(rest, None, "COPY")


def test_a_conflict_of_addresses_shuts_both_off(rest: Rest) -> None:
    rest._resources.set("Open", type("Other", (Open,), {"name": "Other"}))
    with pytest.raises(ServerError, match="Conflicting paths for Open"):
        ask(rest, None)
