"""Listeners around bodies that are long, stream, or do not end: what nobody wants any more is released."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.messages import Request, Response
from svc.mounted import MountedApplication
from tests.support.mounted import RecordingLog
from tests.support.node import Node

SCHEMA = """
type Photo @table @export { id: ID @primaryKey  image: Blob  note: String }
"""
LONG = 200_000  # bytes, which go into a file


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    made = Node(tmp_path / "store", app)
    records = [{"id": str(number), "note": "x" * 500} for number in range(2000)]
    for start in range(0, len(records), 100):
        assert made.connect().ask("POST", "/Photo/", json.dumps(records[start : start + 100]).encode())[0] == 201
    gc.collect()
    gc.disable()  # nothing may have to wait for it
    yield made
    gc.enable()
    made.close()


async def replace(request: Request, next: Any) -> Any:
    response = await next(request)
    return {"instead of": response.status}


async def fail(request: Request, next: Any) -> Any:
    await next(request)
    raise KeyError


async def forget(request: Request, next: Any) -> None:
    await next(request)


async def empty(request: Request, next: Any) -> Any:
    response = await next(request)
    response.body = b"short"
    return response


@pytest.mark.parametrize("listener", [replace, fail, forget, empty])
@pytest.mark.parametrize("fields", [{"Accept": "application/json"}, {"Accept": "text/event-stream"}])
def test_an_answer_that_a_listener_drops_holds_nothing(node: Node, listener: Any, fields: dict[str, str]) -> None:
    node.server.http(listener, run_first=True)
    status, _, body = node.connect().ask("GET", "/Photo/", fields=fields)
    assert status in (200, 404, 500, 406)
    assert len(body) < 1000
    node.errors.clear()
    node.pass_time(2)
    assert all(database.env.open_snapshots() == 0 for database in node.store.databases.values())
    node.dispatcher.use(None)
    assert node.connect().ask("PUT", "/Photo/new", b"{}")[0] == 204  # an event stream that is left would hear of it


def test_a_stream_can_be_passed_on_and_wrapped(node: Node) -> None:
    async def stamp(request: Request, next: Any) -> Any:
        response = await next(request)
        response.headers.set("X-App", "shop")
        return response

    async def wrap(request: Request, next: Any) -> Any:
        response = await next(request)
        return Response((piece.upper() for piece in response.body), response.status, {"Content-Type": "text/plain"})

    node.server.http(stamp, run_first=True)
    wire = node.connect()
    answer = wire.send(b"GET /Photo/ HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")
    assert b"X-App: shop\r\n" in answer
    assert answer.count(b'"note":"') == 2000
    node.server.http(wrap, run_first=True)
    answer = node.connect().send(b"GET /Photo/ HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")
    assert answer.count(b'"NOTE":"') == 2000


@pytest.mark.parametrize("reads", [False, True])
def test_a_blob_that_is_uploaded_goes_into_a_file_all_the_same(node: Node, reads: bool) -> None:
    seen: list[Any] = []

    async def watch(request: Request, next: Any) -> Any:
        if reads and request.method == "PUT":
            seen.append(sum([len(piece) async for piece in request.body]))
            seen.append(len(await request.data))
        seen.append(len(request.content))
        return await next(request)

    node.server.http(watch, run_first=True)
    wire = node.connect()
    head = b"PUT /Photo/1/image HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n" % LONG
    assert wire.send(head, b"a" * (LONG - 10), b"b" * 10).startswith(b"HTTP/1.1 204")
    assert seen == ([LONG, LONG, 0] if reads else [0])
    status, fields, body = node.connect().ask("GET", "/Photo/1.image", fields={"Accept": "image/png"})
    assert (status, fields["content-type"], len(body)) == (200, "image/png", LONG)


def test_an_upload_that_a_listener_refuses_leaves_no_file(node: Node, tmp_path: Path) -> None:
    async def refuse(request: Request, next: Any) -> Any:
        await asyncio.sleep(0)
        return Response(status=403)

    node.server.http(refuse, run_first=True)
    wire = node.connect()
    head = b"PUT /Photo/1/image HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n" % LONG
    assert wire.send(head, b"a" * LONG).startswith(b"HTTP/1.1 403")
    wire.connection.close_now()
    node.settle()
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file() and path.stat().st_size == LONG] == []


def test_a_form_is_there_for_listeners_and_for_the_table(node: Node) -> None:
    async def watch(request: Request, next: Any) -> Any:
        assert request.method == "GET" or len(request.content) > LONG
        return await next(request)

    node.server.http(watch, run_first=True)
    body = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n' + b"a" * LONG
    body += b'\r\n--x\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n--x--\r\n'
    head = b"PUT /Photo/form HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: %d\r\n\r\n"
    answer = node.connect().send(head % len(body), body[:1000], body[1000:])
    assert answer.startswith(b"HTTP/1.1 204"), answer
    assert len(node.connect().ask("GET", "/Photo/form.image", fields={"Accept": "*/*"})[2]) == LONG


def test_an_upload_to_an_application_with_the_address_of_a_resource(node: Node, tmp_path: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        size = 0
        while (message := await receive())["more_body"]:
            size += len(message["body"])
        text = str(size + len(message["body"])).encode()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": text})

    log = RecordingLog()
    mounted = MountedApplication(app, "/Photo", loop=node._loop, log=log)
    node.server.http(lambda request, next: next(request), run_first=True)
    node.server.http(mounted.http, url_path="/Photo")
    wire = node.connect()
    head = b"PUT /Photo/1/image HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n" % LONG
    answer = wire.send(head, b"a" * (LONG - 10), b"b" * 10)
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"\r\n\r\n%d" % LONG), answer
    wire.connection.close_now()
    node.settle()
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file() and path.stat().st_size == LONG] == []
