"""The chain of HTTP listeners in a whole node on fake sockets (spec: http §12)."""

from __future__ import annotations

import asyncio
import base64
import json
import types
from collections.abc import Iterator
from typing import Any

import pytest

from svc.errors import ClientError, Problem
from svc.http.dispatch import Dispatcher
from svc.messages import Abort, Request, Response
from tests.support.http2 import Answer, Client
from tests.support.node import Node

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def node(tmp_path: Any) -> Iterator[Node]:
    made = Node(tmp_path)
    assert made.connect().ask("PUT", "/Product/1", b'{"name":"one"}')[0] == 204
    yield made
    made.close()
    made.check_that_nothing_is_left()


def get(node: Node, target: str, **fields: str) -> tuple[int, dict[str, str], bytes]:
    return node.connect().ask("GET", target, fields={name.replace("_", "-"): value for name, value in fields.items()} or JSON)


def defects(node: Node) -> list[str]:
    """The exceptions that were logged, which there are no more then."""
    found = [f"{type(error).__name__}: {error}" if error is not None else where for where, error in node.errors]
    node.errors.clear()
    return found


# --- results -----------------------------------------------------------------------------------------------------------------------


def later(result: Any) -> Any:
    async def wait() -> Any:
        await asyncio.sleep(0)
        return result

    return wait()


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize(
    ("result", "status", "fields", "body"),
    [
        ({"pong": True}, 200, {"content-type": "application/json"}, b'{"pong":true}'),
        ([1, 2], 200, {"content-type": "application/json"}, b"[1,2]"),
        ("text", 200, {"content-type": "application/json"}, b'"text"'),
        (0, 200, {}, b"0"),
        (False, 200, {}, b"false"),
        (b"raw", 200, {"content-type": "application/octet-stream"}, b"raw"),
        ({"status": 400}, 200, {}, b'{"status":400}'),
        ({"status": 202, "data": {"a": 1}}, 202, {"content-type": "application/json"}, b'{"a":1}'),
        ({"status": 202, "body": "a"}, 202, {}, b"a"),
        ({"status": 418, "headers": {"X-A": "b"}}, 418, {"x-a": "b"}, b""),
        (Response("a", 201, {"X-A": "b"}), 201, {"x-a": "b"}, b"a"),
        (Response("a\udc80"), 200, {}, "a\ufffd".encode()),  # as in JSON: a part of a surrogate pair is no character
        (Response(data={"a": 1}, status=203), 203, {"content-type": "application/json"}, b'{"a":1}'),
        (Response(bytearray(b"ab")), 200, {}, b"ab"),  # type: ignore[arg-type]
        (None, 404, {"content-type": "application/problem+json"}, None),
    ],
)
def test_what_a_listener_returns_is_the_answer(
    node: Node, wait: bool, result: Any, status: int, fields: dict[str, str], body: bytes | None
) -> None:
    node.server.http(lambda request, next: later(result) if wait else result, run_first=True)
    answer = get(node, "/x")
    assert answer[0] == status
    assert fields.items() <= answer[1].items()
    assert "server-timing" in answer[1]
    if body is not None:
        assert answer[2] == body
    assert defects(node) == []


def test_an_awaitable_of_an_awaitable(node: Node) -> None:
    node.server.http(lambda request, next: later(later({"deep": 1})), run_first=True)
    assert get(node, "/x")[2] == b'{"deep":1}'


def test_the_type_of_data_is_negotiated(node: Node) -> None:
    node.server.http(lambda request, next: {"a": 1}, run_first=True)
    assert get(node, "/x", Accept="application/cbor")[1]["content-type"] == "application/cbor"
    assert get(node, "/x", Accept="image/png")[0] == 406


def test_bodies_that_come_in_pieces(node: Node) -> None:
    async def stamp(request: Request, next: Any) -> Any:
        response = await next(request)
        response.headers.set("X-App", "shop")
        return response

    node.server.http(lambda request, next: Response(iter([b"x", b"y"])), run_first=True)
    node.server.http(stamp, run_first=True)
    answer = node.connect().send(b"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"X-App: shop\r\n" in answer
    assert answer.endswith(b"1\r\nx\r\n1\r\ny\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "result",
    [
        Response(status=99),
        Response(status=101),
        Response(status="200"),  # type: ignore[arg-type]
        Response(status=True),
        Response(status=600),
        Response({"a": 1}),  # type: ignore[arg-type]
        Response(17),  # type: ignore[arg-type]
        Response([b"a"]),  # type: ignore[arg-type]
        {"status": 1000, "headers": {}},
        {"status": 200, "headers": {"X": "a\r\nb: c"}},
        {"status": 200, "headers": {"X": "€"}},
        {"status": 200, "headers": {"": "a"}},
        object(),
        lambda: 1,
    ],
)
@pytest.mark.parametrize("wait", [False, True])
def test_what_cannot_be_sent_is_a_defect_of_the_listener(node: Node, result: Any, wait: bool) -> None:
    node.server.http(lambda request, next: later(result) if wait else result, run_first=True)
    status, _, body = get(node, "/x")
    assert status == 500
    assert b"Error" in body
    assert len(defects(node)) == 1
    assert get(node, "/x")[0] == 500
    node.errors.clear()


@pytest.mark.parametrize("wait", [False, True])
def test_such_a_defect_says_which_listener_it_is(node: Node, wait: bool) -> None:
    def plain(request: Request, next: Any) -> Any:
        return next

    async def late(request: Request, next: Any) -> Any:
        return Response(5)

    node.server.http(late if wait else plain)
    assert get(node, "/x")[0] == 500
    ((_, error),) = node.errors
    assert (".late (" if wait else ".plain (") in error.__notes__[0] and "test_request_pass.py:" in error.__notes__[0]
    node.errors.clear()


def test_a_header_value_that_cannot_be_sent_is_refused_where_it_is_set() -> None:
    response = Response()
    for name, value in (("a b", "c"), ("a", "b\x00"), ("a", "\u20ac"), ("a:", "b"), ("ä", "b")):
        with pytest.raises(ValueError, match="not a header field"):
            response.headers.set(name, value)
    response.headers.set("X-Name", "größe\t!")
    assert response.headers.get("x-name") == "größe\t!"


def test_one_response_for_many_requests_stays_what_it_is(node: Node) -> None:
    always = Response(status=403, headers={"X-A": "b"}, data={"no": 1})

    def refuse(request: Request, next: Any) -> Response:
        if request.pathname == "/raise":
            raise Abort(always)
        return always

    node.server.http(refuse, run_first=True)
    for target in ("/x", "/raise", "/x", "/raise"):
        status, fields, body = get(node, target)
        assert (status, fields["x-a"], body) == (403, "b", b'{"no":1}')
    assert always.pairs == [("X-A", "b")]
    assert always.body is None


# --- next ----------------------------------------------------------------------------------------------------------------------------


def test_fields_of_the_answer_can_be_changed(node: Node) -> None:
    seen = []

    async def stamp(request: Request, next: Any) -> Any:
        response = await next(request)
        seen.append((request.pathname, response.status, request.user is not None))
        response.headers.set("X-App", "shop")
        return response

    node.server.http(stamp, run_first=True)
    status, fields, body = get(node, "/Product/1")
    assert (status, fields["x-app"], json.loads(body)["name"]) == (200, "shop", "one")
    assert get(node, "/Product/1", If_None_Match=fields["etag"])[0] == 304
    assert get(node, "/none")[1]["x-app"] == "shop"
    assert node.connect().ask("PUT", "/Product/2", b"{}")[1]["x-app"] == "shop"
    assert node.connect().ask("OPTIONS", "/Product/")[1]["x-app"] == "shop"
    assert node.connect().ask("POST", "/Product/", b"oops")[1]["x-app"] == "shop"
    assert seen == [
        ("/Product/1", 200, True), ("/Product/1", 304, True), ("/none", 404, True), ("/Product/2", 204, True), ("/Product/", 204, False),
        ("/Product/", 400, True),
    ]  # fmt: skip


def test_a_plain_listener_that_passes_on_makes_no_task(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.server.http(lambda request, next: next(request), run_first=True)
    node.server.http(lambda request, next: {"pong": 1} if request.pathname == "/ping" else next(), before="rest")
    monkeypatch.setattr(node._loop, "create_task", None)
    assert json.loads(get(node, "/Product/1")[2])["name"] == "one"
    assert get(node, "/ping")[2] == b'{"pong":1}'
    assert node.connect().ask("PUT", "/Product/2", b"{}")[0] == 204
    assert get(node, "/none")[0] == 404


def test_listeners_go_with_their_application(node: Node) -> None:
    assert not node.listeners
    app = node.server.of_application("shop")
    app.http(lambda request, next: None)
    assert node.listeners == ["shop"]
    app.withdraw()
    assert not node.listeners


def test_listeners_are_asked_in_their_order_around_each_other(node: Node) -> None:
    order: list[str] = []

    def tell(name: str, **options: Any) -> None:
        async def listener(request: Request, next: Any) -> Any:
            order.append(f"{name} {'known' if request.user is not None else 'unknown'}")
            response = await next(request)
            order.append(f"/{name}")
            return response

        node.server.http(listener, name=name, **options)

    tell("late")
    tell("first", run_first=True)
    tell("before-rest", before="rest")
    tell("after-static", after="static")
    tell("front", run_first=True)
    get(node, "/Product/1")
    assert order == [
        "front unknown", "first unknown", "after-static unknown", "before-rest known",
        "/before-rest", "/after-static", "/first", "/front",
    ]  # fmt: skip
    order.clear()
    assert get(node, "/nothing/here")[0] == 404
    assert order[3:6] == ["before-rest known", "late known", "/late"]


@pytest.mark.parametrize("method", ["GET", "POST", "PROPFIND", "OPTIONS", "TRACE"])
def test_what_no_resource_answers_comes_to_the_listeners_behind(node: Node, method: str) -> None:
    node.server.http(lambda request, next: Response(request.method))
    wire = node.connect()
    assert wire.ask(method, "/elsewhere", b"x" if method == "POST" else b"")[2] == method.encode()
    answer = wire.ask(method, "/Product/1", b"x" if method == "POST" else b"")
    assert answer[0] != 200 or method == "GET"
    assert answer[2] != method.encode()


def test_a_second_call_of_next_is_a_defect(node: Node) -> None:
    def twice(request: Request, next: Any) -> Any:
        next(request)
        return next(request)

    node.server.http(twice, run_first=True)
    assert get(node, "/Product/1")[0] == 500
    assert any("next once" in text for text in defects(node))


def test_what_next_returned_may_be_awaited_again_and_not_by_two_at_once(node: Node) -> None:
    async def again(request: Request, next: Any) -> Any:
        following = next(request)
        first = await following
        assert await following is first
        return first

    async def at_once(request: Request, next: Any) -> Any:
        following = next(request)

        async def wait() -> Any:
            return await following

        found = await asyncio.gather(wait(), wait(), return_exceptions=True)
        assert sum(isinstance(each, RuntimeError) for each in found) == 1
        return {"ok": True}

    node.server.http(again, run_first=True, url_path="/again")
    node.server.http(at_once, run_first=True, url_path="/at-once")
    node.server.http(lambda request, next: later({"end": True}))
    assert get(node, "/again")[2] == b'{"end":true}'
    assert get(node, "/at-once")[2] == b'{"ok":true}'
    assert defects(node) == []


def test_next_that_is_not_awaited_has_no_effect_and_is_told(node: Node) -> None:
    def forgets(request: Request, next: Any) -> Any:
        next(request)
        return {"mine": 1}

    node.server.http(forgets, run_first=True)
    assert node.connect().ask("DELETE", "/Product/1")[2] == b'{"mine":1}'
    assert defects(node) == ["DELETE /Product/1: a listener has called next, and neither awaited nor returned what it gave"]
    node.dispatcher.use(None)
    assert get(node, "/Product/1")[0] == 200


def test_a_listener_that_forgets_to_return_answers_404(node: Node) -> None:
    async def forgets(request: Request, next: Any) -> None:
        await next(request)

    node.server.http(forgets, run_first=True)
    assert get(node, "/Product/1")[0] == 404
    assert node.connect().ask("PUT", "/Product/2", b"{}")[0] == 404


def test_next_takes_the_request_and_nothing_else(node: Node) -> None:
    node.server.http(lambda request, next: next("/other"), run_first=True)
    assert get(node, "/Product/1")[0] == 500
    assert defects(node) == ["TypeError: next takes the request that the listener got, not str"]


def test_another_answer_in_place_of_the_one_of_next(node: Node) -> None:
    async def replace(request: Request, next: Any) -> Any:
        response = await next(request)
        return {"was": response.status} if response.status == 404 else response

    async def rewrite(request: Request, next: Any) -> Any:
        response = await next(request)
        response.body, response.status = "changed", 299
        return response

    node.server.http(replace, run_first=True)
    assert get(node, "/none")[::2] == (200, b'{"was":404}')
    node.server.http(rewrite, run_first=True)
    assert get(node, "/Product/1")[::2] == (299, b"changed")


# --- errors --------------------------------------------------------------------------------------------------------------------------


class Own(Exception):
    status_code = 451
    code = "LAWYERS"


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "logged"),
    [
        (ClientError("no", 422), 422, 0),
        (Problem("later", 503), 503, 0),
        (Own("secret"), 451, 0),
        (KeyError("private"), 500, 1),
        (asyncio.CancelledError(), 500, 1),
        (Abort(Response("bye", 410)), 410, 0),
        (Abort(Response(data={"bye": 1}, status=410)), 410, 0),
    ],
)
def test_what_is_raised_is_answered(node: Node, wait: bool, error: BaseException, status: int, logged: int) -> None:
    def raises(request: Request, next: Any) -> Any:
        raise error

    async def raises_later(request: Request, next: Any) -> Any:
        response = await next(request)
        assert response.status == 204
        raise error

    node.server.http(raises_later if wait else raises, run_first=True)
    answered, _, body = node.connect().ask("PUT", "/Product/1", b'{"name":"two"}')
    assert answered == status
    assert b"private" not in body
    assert len(defects(node)) == logged
    node.dispatcher.use(None)
    assert json.loads(get(node, "/Product/1")[2])["name"] == ("two" if wait else "one")  # what next has written stays


def test_a_cancelled_wait_of_its_own_does_not_let_the_client_wait(node: Node) -> None:
    async def cancelled(request: Request, next: Any) -> Any:
        task = asyncio.get_running_loop().create_task(asyncio.sleep(1000))
        await asyncio.sleep(0)
        task.cancel()
        await task

    node.server.http(cancelled, run_first=True)
    assert get(node, "/x")[0] == 500
    node.errors.clear()


def test_a_listener_sees_the_error_that_the_client_gets(node: Node) -> None:
    seen = []

    async def watch(request: Request, next: Any) -> Any:
        response = await next(request)
        seen.append(response.status)
        return response

    def fails(request: Request, next: Any) -> Any:
        raise ZeroDivisionError

    node.server.http(fails, run_first=True)
    node.server.http(watch, run_first=True)
    assert get(node, "/x")[0] == 500
    assert seen == [500]
    node.errors.clear()


def test_wrong_credentials_are_refused_at_their_place(node: Node) -> None:
    node.server.http(
        lambda request, next: {"open": request.user is None} if request.pathname == "/ping" else next(request), before="authentication"
    )
    wrong = {"Authorization": "Bearer nonsense"}
    assert node.connect().ask("GET", "/ping", fields=wrong)[2] == b'{"open":true}'
    status, fields, _ = node.connect().ask("GET", "/Product/1", fields=wrong)
    assert (status, "www-authenticate" in fields) == (401, True)


def test_a_listener_that_never_answers_is_cut_off(node: Node) -> None:
    ended = []

    async def never(request: Request, next: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.pathname)

    node.server.http(never, run_first=True)
    wire = node.connect()
    assert wire.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n") == b""
    node.pass_time(121)
    assert wire.sock.sent.startswith(b"HTTP/1.1 503")
    other = node.connect()
    other.send(b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n")
    other.connection.close_now()
    node.settle()
    assert ended == ["/a", "/b"]


def test_one_that_does_not_let_itself_be_cancelled_answers_nobody(node: Node) -> None:
    async def stubborn(request: Request, next: Any) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"too": "late"}

    node.server.http(stubborn, run_first=True)
    wire = node.connect()
    wire.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    node.pass_time(121)
    assert wire.sock.sent.count(b"HTTP/1.1 ") == 1
    assert b"late" not in wire.sock.sent


def test_the_writes_of_a_cancelled_request_are_committed(node: Node) -> None:
    reached = []

    async def slow(request: Request, next: Any) -> Any:
        response = await next(request)
        reached.append(response.status)
        await asyncio.Event().wait()
        return response

    node.server.http(slow, run_first=True)
    wire = node.connect()
    wire.send(b"PUT /Product/9 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    assert reached == [204]
    wire.connection.close_now()
    node.settle()
    node.dispatcher.use(None)
    assert get(node, "/Product/9")[0] == 200


# --- routes --------------------------------------------------------------------------------------------------------------------------


def test_the_path_of_a_route_is_taken_off_inside_and_put_back_outside(node: Node) -> None:
    seen: list[tuple[str, str, str]] = []

    def tell(name: str, **options: Any) -> None:
        async def listener(request: Request, next: Any) -> Any:
            seen.append((name, request.pathname, request.url))
            response = await next(request)
            seen.append((f"/{name}", request.pathname, request.url))
            return response

        node.server.http(listener, **options)

    tell("all", run_first=True)
    tell("long", url_path="/Product/1")
    tell("short", url_path="/Product")
    tell("host", host="localhost")
    tell("other", host="elsewhere", url_path="/Product")
    tell("plain", before="rest")
    assert get(node, "/Product/1?select(name)")[2] == b'"one"'
    assert seen == [
        ("all", "/Product/1", "/Product/1?select(name)"),
        ("host", "/Product/1", "/Product/1?select(name)"),
        ("long", "/", "/?select(name)"),
        ("short", "/1", "/1?select(name)"),
        ("plain", "/Product/1", "/Product/1?select(name)"),
        ("/plain", "/Product/1", "/Product/1?select(name)"),
        ("/short", "/1", "/1?select(name)"),
        ("/long", "/", "/?select(name)"),
        ("/host", "/Product/1", "/Product/1?select(name)"),
        ("/all", "/Product/1", "/Product/1?select(name)"),
    ]


def test_the_path_can_be_rewritten(node: Node) -> None:
    def alias(request: Request, next: Any) -> Any:
        if request.pathname.startswith("/item/"):
            request.pathname = "/Product/" + request.pathname[6:]
        return next(request)

    def within(request: Request, next: Any) -> Any:
        request.pathname = "/1"
        return next(request)

    node.server.http(alias, before="rest")
    node.server.http(within, url_path="/Product/favourite")
    assert json.loads(get(node, "/item/1")[2])["name"] == "one"
    assert get(node, "/item/none")[0] == 404
    node.server.http(lambda request, next: {"at": request.pathname})
    assert get(node, "/Product/favourite")[0] == 404  # it is /Product/favourite/1 for the resources


def test_a_guard_cannot_be_passed_by_another_spelling(node: Node) -> None:
    node.server.http(lambda request, next: Response(status=403), url_path="/Product")
    for target in ("/Product/1", "/%50roduct/1", "/Product", "/Produc%74?x"):
        assert get(node, target)[0] == 403, target
    assert get(node, "/product/1")[0] == 404


def test_what_is_not_for_any_listener_goes_the_plain_way(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.server.http(lambda request, next: {"mine": 1}, url_path="/mine")
    monkeypatch.setattr(Dispatcher, "_run_chain", None)
    assert get(node, "/Product/1")[0] == 200


# --- requests ------------------------------------------------------------------------------------------------------------------------


def test_fields_that_a_listener_changes_count_for_what_follows(node: Node) -> None:
    def prefer(request: Request, next: Any) -> Any:
        request.headers.set("Accept", "application/cbor")
        return next(request)

    def login(request: Request, next: Any) -> Any:
        request.headers.set("Authorization", "Bearer nonsense")
        return next(request)

    node.server.http(prefer, run_first=True)
    assert get(node, "/Product/1")[1]["content-type"] == "application/cbor"
    node.server.http(login, run_first=True)
    assert get(node, "/Product/1")[0] == 401


def test_a_listener_may_say_who_makes_the_request(node: Node) -> None:
    async def identify(request: Request, next: Any) -> Any:
        name = request.headers.get("X-Name")
        if name is not None:
            request.user = await node.server.get_user(name) if name != "wrong" else types.SimpleNamespace(active=True)  # type: ignore[assignment]
        return await next(request)

    def who(request: Request, next: Any) -> Any:
        return {"user": None if request.user is None else request.user.username}

    node.as_user(None)
    node.server.http(identify, before="authentication")
    node.server.http(who)
    some = node.dispatcher._identifier._directory.first_super_user()
    assert some is not None
    assert json.loads(get(node, "/who", X_Name=some.username)[2]) == {"user": some.username}
    assert json.loads(get(node, "/who", X_Name="nobody")[2]) == {"user": None}
    assert json.loads(get(node, "/who", Accept="*/*")[2]) == {"user": None}
    assert get(node, "/who", X_Name="wrong")[0] == 500
    node.errors.clear()


@pytest.mark.parametrize("split", [False, True])
def test_bodies_are_there_for_listeners(node: Node, split: bool) -> None:
    async def echo(request: Request, next: Any) -> Any:
        return {"data": await request.data, "again": await request.data, "body": b"".join([piece async for piece in request.body]).decode()}

    node.server.http(echo, url_path="/echo")
    wire = node.connect()
    head = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n"
    answer = wire.send(head, b'{"a"', b":1}") if split else wire.send(head + b'{"a":1}')
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"data": {"a": 1}, "again": {"a": 1}, "body": '{"a":1}'}
    assert node.connect().ask("POST", "/echo", b"{oops")[0] == 400
    assert node.connect().ask("GET", "/echo")[2] == b'{"data":null,"again":null,"body":""}'


@pytest.mark.parametrize("run_first", [False, True])
def test_bodies_that_resources_refuse_early(node: Node, run_first: bool) -> None:
    """Where no listener may come first the refusal needs no body; else it waits until the resource is asked."""
    node.server.http(lambda request, next: next(request), run_first=run_first)
    node.as_user(None)
    wire = node.connect()
    head = b"PUT /Product/1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    early = wire.send(head)
    assert early.startswith(b"HTTP/1.1 401") is not run_first
    if run_first:
        assert wire.send(b"{}").startswith(b"HTTP/1.1 401")
        assert node.connect().send(b"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", b"{}").startswith(b"HTTP/1.1 404")


def test_hints_precede_the_answer(node: Node) -> None:
    async def hint(request: Request, next: Any) -> Any:
        request.send_early_hints(["</a.css>; rel=preload", "</b.js>; rel=preload"], {"X-A": "b"})
        request.sendEarlyHints("</c.png>")
        return await next(request)

    node.server.http(hint, run_first=True)
    sent = node.connect().send(b"GET /Product/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    first, second, third = sent.split(b"HTTP/1.1 ")[1:]
    assert first == b"103 Early Hints\r\nLink: </a.css>; rel=preload\r\nLink: </b.js>; rel=preload\r\nX-A: b\r\n\r\n"
    assert second == b"103 Early Hints\r\nLink: </c.png>\r\n\r\n"
    assert third.startswith(b"200 OK")
    assert node.connect().send(b"GET /Product/1 HTTP/1.0\r\nHost: localhost\r\n\r\n").count(b"HTTP/1.1 ") == 1


def test_members_of_a_request(node: Node) -> None:
    seen: dict[str, Any] = {}

    def look(request: Request, next: Any) -> Any:
        for name in ("url", "pathname", "method", "protocol", "host", "ip", "http_version", "absolute_url", "is_websocket", "authorized"):
            seen[name] = getattr(request, name)
        seen["same"] = request._nodeRequest is request.raw_request is request.raw_response is request._nodeResponse
        seen["headers"] = (request.headers.get("X-A"), request.headers.has("x-a"), [name for name, _ in request.headers])
        request.response_headers.set("X-Answer", "yes")
        return {"ok": request.handler_path}

    node.server.http(look, run_first=True)
    answer = get(node, "/a%20b?c=d", X_A="b")
    assert (answer[1]["x-answer"], answer[2]) == ("yes", b'{"ok":""}')
    assert seen == {
        "url": "/a%20b?c=d",
        "pathname": "/a%20b",
        "method": "GET",
        "protocol": "http",
        "host": "localhost",
        "ip": "127.0.0.1",
        "http_version": "1.1",
        "absolute_url": "http://localhost/a%20b?c=d",
        "is_websocket": False,
        "authorized": False,
        "same": True,
        "headers": ("b", True, ["host", "content-length", "x-a"]),
    }


def test_a_listener_that_answers_through_the_transport(node: Node) -> None:
    def direct(request: Request, next: Any) -> None:
        assert request.raw_response is not None
        request.raw_response.respond(Response(b"direct"))  # type: ignore[attr-defined]

    node.server.http(direct, run_first=True)
    assert get(node, "/x")[::2] == (200, b"direct")
    assert defects(node) == []


# --- HTTP/2 --------------------------------------------------------------------------------------------------------------------------


def test_the_same_over_http2(node: Node) -> None:
    async def stamp(request: Request, next: Any) -> Any:
        request.send_early_hints("</a.css>")
        response = await next(request)
        response.headers.set("X-App", "shop")
        return response

    def secret(request: Request, next: Any) -> Any:
        raise ClientError("no", 403)

    node.server.http(stamp, run_first=True)
    node.server.http(secret, url_path="/secret")
    client = Client(node)
    streams = [
        client.request("GET", "/Product/1"),
        client.request("PUT", "/Product/3", {"content-type": "application/json"}, b"{}"),
        client.request("GET", "/secret/x"),
    ]
    client.exchange_bytes()
    first, second, third = (client.answers[stream] for stream in streams)
    assert (first.status, first.fields["x-app"], json.loads(first.body)["name"]) == (200, "shop", "one")
    assert first.early == [(103, [("link", "</a.css>")])]
    assert (second.status, second.fields["x-app"]) == (204, "shop")
    assert third.status == 403


def test_a_success_status_means_that_it_is_on_disk_also_to_listeners(node: Node) -> None:
    seen = []

    async def watch(request: Request, next: Any) -> Any:
        response = await next(request)
        seen.append((response.status, node.store.has_pending))
        return response

    node.server.http(watch, run_first=True)
    assert node.connect().ask("PUT", "/Product/1", b'{"name":"two"}')[0] == 204
    assert seen == [(204, False)]


# --- WebSockets ----------------------------------------------------------------------------------------------------------------------

KEY = base64.b64encode(bytes(16)).decode()


def shake(node: Node, target: str, *fields: str) -> bytes:
    lines = [
        f"GET {target} HTTP/1.1", "Host: localhost", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {KEY}", *fields,
    ]  # fmt: skip
    return node.connect().send("\r\n".join(lines).encode() + b"\r\n\r\n")


@pytest.mark.parametrize("wait", [False, True])
def test_listeners_of_requests_are_asked_about_websockets_too(node: Node, wait: bool) -> None:
    seen = []

    async def stamp(request: Request, next: Any) -> Any:
        response = await next(request)
        seen.append((request.pathname, response.status, request.is_websocket))
        response.headers.set("X-App", "shop")
        return response

    def plain(request: Request, next: Any) -> Any:
        seen.append((request.pathname, 0, request.is_websocket))
        request.response_headers.set("X-App", "shop")
        return next(request)

    node.server.http(stamp if wait else plain, run_first=True)
    answer = shake(node, "/Product/1")
    assert answer.startswith(b"HTTP/1.1 101")
    assert b"X-App: shop\r\n" in answer
    assert seen == [("/Product/1", 101 if wait else 0, True)]


@pytest.mark.parametrize(
    ("result", "start"),
    [
        (Response("busy", 429, {"Retry-After": "3"}), b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\n"),
        (Response(status=302, headers={"Location": "/a"}), b"HTTP/1.1 302 Found\r\nLocation: /a\r\n"),
        ({"pong": 1}, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"),
        (None, b"HTTP/1.1 404 Not Found\r\n"),
    ],
)
def test_what_a_listener_answers_ends_the_handshake(node: Node, result: Any, start: bytes) -> None:
    node.server.http(lambda request, next: result, run_first=True)
    assert shake(node, "/Product/1").startswith(start)


@pytest.mark.parametrize(("status", "code"), [(401, 3000), (403, 3003)])
@pytest.mark.parametrize("raised", [False, True])
def test_missing_rights_are_a_close_code(node: Node, status: int, code: int, raised: bool) -> None:
    def refuse(request: Request, next: Any) -> Any:
        if raised:
            raise ClientError("not you", status)
        return Response(status=status)

    node.server.http(refuse, run_first=True)
    answer = shake(node, "/Product/1")
    assert answer.startswith(b"HTTP/1.1 101")
    frame = answer.partition(b"\r\n\r\n")[2]
    assert (frame[0], int.from_bytes(frame[2:4], "big")) == (0x88, code)
    assert (frame[4:] == b"not you") is raised


def test_wrong_credentials_of_a_websocket(node: Node) -> None:
    node.server.http(lambda request, next: next(request), run_first=True)
    frame = shake(node, "/Product/1", "Authorization: Bearer nonsense").partition(b"\r\n\r\n")[2]
    assert (frame[0], int.from_bytes(frame[2:4], "big")) == (0x88, 3000)


def test_the_outcome_of_requests_listeners_is_known_to_those_of_websockets(node: Node) -> None:
    outcomes: list[Any] = []

    def guard(request: Request, next: Any) -> Any:
        if request.pathname == "/closed":
            return Response(status=403)
        return {"page": 1} if request.pathname == "/page" else next(request)

    async def listen(ws: Any, request: Request, chain_completion: Any, next: Any) -> None:
        try:
            found = await chain_completion
        except Problem as problem:
            outcomes.append(problem.status_code)
            raise
        outcomes.append(found if found is None else found.status)
        await ws.send("hello") if request.pathname == "/open" else await next(ws, request, chain_completion)

    node.server.http(guard, run_first=True)
    node.server.ws(listen)
    assert shake(node, "/open").partition(b"\r\n\r\n")[2] == b"\x81\x05hello"
    assert shake(node, "/closed").partition(b"\r\n\r\n")[2][:4] == b"\x88\x02" + (3003).to_bytes(2, "big") or outcomes[-1] == 403
    assert shake(node, "/page").startswith(b"HTTP/1.1 200")
    assert shake(node, "/none").startswith(b"HTTP/1.1 404")
    assert outcomes == [None, 403, 200, None]


def test_listeners_of_websockets_have_their_order_and_routes(node: Node) -> None:
    order: list[str] = []

    def tell(name: str, **options: Any) -> None:
        async def listener(ws: Any, request: Request, chain_completion: Any, next: Any) -> Any:
            order.append(f"{name} {request.pathname}")
            return await next(ws, request, chain_completion)

        node.server.ws(listener, name=name, **options)

    tell("a")
    tell("b", before="a")
    tell("c", run_first=True)
    tell("d", url_path="/Product")
    tell("e", url_path="/other")
    assert shake(node, "/Product/1").startswith(b"HTTP/1.1 101")
    assert order == ["c /Product/1", "d /1", "b /Product/1", "a /Product/1"]


def test_upgrades_to_other_protocols_are_asked_first_and_then_it_is_a_request(node: Node) -> None:
    order = []

    def take(request: Request, socket: Any, head: bytes, next: Any) -> Any:
        order.append((request.offers, request.upgraded, request.pathname))
        if request.pathname == "/take":
            socket.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\nmine")
            return None
        return next(request, socket, head)

    node.server.http(lambda request, next: next(request), run_first=True)
    node.server.upgrade(take)
    fields = b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n"
    assert node.connect().send(b"GET /take HTTP/1.1\r\n" + fields) == b"HTTP/1.1 101 Switching Protocols\r\n\r\nmine"
    assert node.connect().send(b"GET /Product/1 HTTP/1.1\r\n" + fields).startswith(b"HTTP/1.1 200")
    assert shake(node, "/Product/1").startswith(b"HTTP/1.1 101")
    assert order == [("other", False, "/take"), ("other", False, "/Product/1"), ("websocket", True, "/Product/1")]


# --- WebSockets over HTTP/2 ----------------------------------------------------------------------------------------------------------


def connect2(node: Node, target: str) -> tuple[Client, int, Any]:
    """An extended CONNECT (RFC 8441): (client, stream, answer)."""
    client = Client(node)
    stream = client.h2.get_next_available_stream_id()
    head = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "localhost"), (":path", target)]
    client.h2.send_headers(stream, [*head, ("sec-websocket-version", "13")])
    client.answers[stream] = Answer()
    client.exchange_bytes()
    return client, stream, client.answers[stream]


def test_websockets_over_http2_pass_the_listeners_too(node: Node) -> None:
    async def guard(request: Request, next: Any) -> Any:
        if request.pathname == "/page":
            return {"page": 1}
        if request.pathname == "/busy":
            return Response(status=429)
        response = await next(request)
        response.headers.set("X-App", "shop")
        return response

    async def hello(ws: Any, request: Request, chain_completion: Any, next: Any) -> None:
        await chain_completion
        await ws.send(request.pathname)

    node.server.http(guard, run_first=True)
    node.server.ws(hello, url_path="/hello")
    _, _, answer = connect2(node, "/hello/x")
    assert (answer.status, answer.fields["x-app"], answer.body) == (200, "shop", b"\x81\x02/x")
    _, _, answer = connect2(node, "/Product/1")
    assert (answer.status, answer.fields["x-app"]) == (200, "shop")
    assert connect2(node, "/page")[2].status == 404  # any success would say that the tunnel is open
    assert connect2(node, "/busy")[2].status == 429


def test_a_client_that_leaves_during_the_handshake(node: Node) -> None:
    ended = []

    async def slow(request: Request, next: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.is_websocket)

    node.server.http(slow, run_first=True)
    wire = node.connect()
    lines = [
        "GET /x HTTP/1.1",
        "Host: a",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {KEY}",
    ]
    assert wire.send("\r\n".join(lines).encode() + b"\r\n\r\n") == b""
    wire.connection.close_now()
    node.settle()
    assert ended == [True]


# --- what a listener writes ------------------------------------------------------------------------------------------------------------


def test_a_listeners_writes_are_one_transaction(node: Node) -> None:
    tables = node.interface.tables
    node.interface.make_current()

    async def write(request: Request, next: Any) -> Any:
        await tables.Product.put("a", {"name": "first"})
        assert node.store.has_pending is False  # until it returns
        if request.pathname == "/next":
            response = await next(request)
            found = await tables.Product.get("new")
            return {"status": response.status, "sees": found is not None, "own": (await tables.Product.get("a"))["name"]}
        await tables.Product.put("b", {"name": "second"})
        if request.pathname == "/raise":
            raise ClientError("no", 409)
        if request.pathname == "/abort":
            raise Abort(Response(status=402))
        return {"ok": True}

    async def put_new(request: Request, next: Any) -> Any:
        await tables.Product.put("new", {})
        return {"written": True}

    node.server.http(put_new)
    node.server.http(write, run_first=True)
    assert get(node, "/raise")[0] == 409
    assert get(node, "/abort")[0] == 402
    node_get = node.store.databases["data"].tables["Product"].get_raw
    assert (node_get("a"), node_get("b")) == (None, None)
    assert get(node, "/else")[2] == b'{"ok":true}'
    assert node_get("a") is not None
    assert node_get("b") is not None
    assert json.loads(get(node, "/next")[2]) == {"status": 200, "sees": True, "own": "first"}


def test_the_same_for_a_cancelled_listener(node: Node) -> None:
    tables = node.interface.tables
    node.interface.make_current()

    async def write(request: Request, next: Any) -> Any:
        await tables.Product.put("a", {})
        await asyncio.Event().wait()

    node.server.http(write, run_first=True)
    wire = node.connect()
    wire.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    wire.connection.close_now()
    node.settle()
    assert node.store.databases["data"].tables["Product"].get_raw("a") is None
