"""The one place where an exception becomes an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from svc.auth.origin_policy import OriginPolicy
from svc.clock import FakeClock
from svc.content.registry import ContentTypes
from svc.errors import ClientError, IndexRebuilding, Overloaded, PeerError, Problem, ValidationError
from svc.http.cors import Cors
from svc.http.dispatch import Dispatcher
from svc.http.problems import problem_response
from svc.messages import Abort, HeaderBlock, Request, Response
from svc.reactor import Reactor


class FakeTransaction:
    def __init__(self) -> None:
        self.on_done: Any = None
        self.outcome: Any = None
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


class FakeExchange:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.answers: list[Response] = []
        self.task: Any = None
        self.status = 200
        self.body_bytes = 0

    def respond(self, response: Response) -> None:
        self.answers.append(response)


TYPES = ContentTypes.built_in()


class Handler:
    """Runs `self.run(request)`."""

    run: Any

    def handle(self, request: Request) -> Any:
        return self.run(request)

    def options(self, request: Request) -> Response:
        return Response(status=204)

    def decode_content(self, request: Request) -> Any:
        return request.content

    def problem(self, error: Problem, request: Request | None, request_id: str = "") -> Response:
        return problem_response(error, TYPES, request, request_id)


class Anybody:
    login_path = None

    def identify(self, request: Request) -> None:
        return None

    def watch_login(self, request: Request, stream: object) -> None:
        pass


class World:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.executor = ThreadPoolExecutor(1)
        self.handler = Handler()
        self.errors: list[tuple[str, BaseException | None]] = []
        self.done: list[tuple[Any, ...]] = []
        self.clock = FakeClock()
        self.dispatcher = Dispatcher(
            self.handler,
            Anybody(),  # type: ignore[arg-type]
            Cors(OriginPolicy()),
            self,
            Reactor(self.loop, self.clock, self.executor, lambda where, error: self.errors.append((where, error))),
        )

    def request_done(self, *figures: Any) -> None:
        self.done.append(figures)

    def ask(self, run: Any, method: str = "GET", **fields: str) -> tuple[FakeExchange, Response | None]:
        self.handler.run = run
        request = Request(method, "/x", HeaderBlock([(name.replace("_", "-"), value) for name, value in fields.items()]))
        request.arrived = self.clock.monotonic()
        exchange = FakeExchange(request)
        return exchange, self.dispatcher.handle(exchange)  # type: ignore[arg-type]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.executor.shutdown()
    world.loop.close()


def raising(error: BaseException) -> Any:
    def run(request: Request) -> Response:
        raise error

    return run


def problem(response: Response | None) -> dict[str, Any]:
    assert response is not None
    assert isinstance(response.body, bytes)
    body: dict[str, Any] = json.loads(response.body)
    return body


def test_a_problem_is_told_as_it_is(world: World) -> None:
    _, response = world.ask(raising(ValidationError(["a is wrong", "b is wrong"])))
    body = problem(response)
    assert (body["status"], body["code"], body["errors"]) == (400, "VALIDATION", ["a is wrong", "b is wrong"])
    assert body["detail"] == body["error"] == "a is wrong. b is wrong"
    assert not world.errors


def test_retryable_and_retry_after(world: World) -> None:
    assert problem(world.ask(raising(IndexRebuilding("x")))[1])["retryable"] is True
    _, response = world.ask(raising(Overloaded()))
    assert response is not None
    assert response.headers.get("Retry-After") == "1"


def test_a_defect_is_logged_and_its_text_is_not_told(world: World) -> None:
    _, response = world.ask(raising(RuntimeError("secret path")))
    body = problem(response)
    assert body["status"] == 500
    assert "secret" not in json.dumps(body)
    assert "request 1" in body["detail"]
    assert isinstance(world.errors[0][1], RuntimeError)


@pytest.mark.parametrize("name", ["status_code", "statusCode", "status"])
def test_an_exception_of_an_application_may_carry_a_status(world: World, name: str) -> None:
    error = RuntimeError("out of tea")
    setattr(error, name, 418)
    error.code = "TEAPOT"  # type: ignore[attr-defined]
    body = problem(world.ask(raising(error))[1])
    assert (body["status"], body["code"], body["detail"]) == (418, "TEAPOT", "out of tea")
    assert not world.errors


def test_401_has_a_challenge_but_not_for_scripts(world: World) -> None:
    _, response = world.ask(raising(Problem("Must login", 401)))
    assert response is not None
    assert (response.headers.get("WWW-Authenticate") or "").startswith("Basic")
    _, response = world.ask(raising(Problem("Must login", 401)), x_requested_with="XMLHttpRequest")
    assert response is not None
    assert response.headers.get("WWW-Authenticate") is None


def test_abort_answers_and_undoes(world: World) -> None:
    transaction = FakeTransaction()

    def run(request: Request) -> Response:
        request.pending_commit = transaction
        raise Abort(Response(b"no", 422))

    _, response = world.ask(run)
    assert response is not None
    assert (response.status, response.body, transaction.aborted) == (422, b"no", True)


def test_the_answer_to_a_write_waits_for_its_commit(world: World) -> None:
    transaction = FakeTransaction()

    def run(request: Request) -> Response:
        request.pending_commit = transaction
        return Response(status=204)

    exchange, response = world.ask(run)
    assert response is None
    assert exchange.answers == []
    transaction.on_done(None)
    assert [a.status for a in exchange.answers] == [204]
    exchange, _ = world.ask(run)
    transaction.on_done(Problem("No space left for this write", 507))
    assert [a.status for a in exchange.answers] == [507]


@pytest.mark.parametrize(("problem", "status"), [(None, 204), (Problem("No space left for this write", 507), 507)])
def test_an_answer_that_takes_longer_to_make_than_the_commit(world: World, problem: Problem | None, status: int) -> None:
    transaction = FakeTransaction()

    async def slow(request: Request) -> Response:
        request.pending_commit = transaction
        await asyncio.sleep(0)
        transaction.outcome = (problem,)  # and nobody has asked to be told
        return Response(status=204)

    exchange, _ = world.ask(slow)
    world.loop.run_until_complete(exchange.task)
    assert [a.status for a in exchange.answers] == [status]


def test_a_handler_that_waits_is_answered_later(world: World) -> None:
    async def slow() -> Response:
        await asyncio.sleep(0)
        return Response(b"late")

    async def broken() -> Response:
        await asyncio.sleep(0)
        raise ClientError("bad", 409)

    for coroutine, status in ((slow, 200), (broken, 409)):
        exchange, response = world.ask(lambda request, coroutine=coroutine: coroutine())
        assert response is None
        world.loop.run_until_complete(exchange.task)
        assert [a.status for a in exchange.answers] == [status]


def test_handlers_can_add_fields_to_any_answer(world: World) -> None:
    def run(request: Request) -> Response:
        request.response_headers.set("X-A", "1")
        raise ClientError("no")

    _, response = world.ask(run)
    assert response is not None
    assert response.headers.get("x-a") == "1"
    assert (response.headers.get("server-timing") or "").startswith("db;dur=")


def test_a_broken_protocol_has_no_request_to_blame(world: World) -> None:
    response = world.dispatcher.error_response(PeerError("nonsense", 431), None)
    assert problem(response)["code"] == "REQUEST_HEADER_FIELDS_TOO_LARGE"


def test_a_request_is_recorded_when_it_is_sent(world: World) -> None:
    exchange, _ = world.ask(lambda request: Response(b"x"))
    exchange.request.handler_path = "X"
    exchange.body_bytes = 1
    world.clock.advance(0.001)
    world.dispatcher.sent(exchange, world.clock.monotonic())  # type: ignore[arg-type]
    path, method, duration, status, size, transfer = world.done[0]
    assert (path, method, status, size) == ("X", "GET", exchange.status, 1)
    assert duration == 0.0
    assert transfer == pytest.approx(1.0)
