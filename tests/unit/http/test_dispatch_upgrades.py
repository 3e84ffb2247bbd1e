"""Requests that ask to go on with another protocol: who is asked, and what the listeners learn of the caller."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from svc.auth.verifier import PendingVerification
from svc.errors import NotFound, Problem
from svc.messages import HeaderBlock, Request, Response, Upgrade
from tests.unit.http.test_dispatch import FakeExchange, World, problem, world

__all__ = ["world"]


class Listeners:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, Problem | None]] = []

    def handle(self, request: Request, refusal: Problem | None) -> Any:
        self.asked.append((request.user, refusal))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def later(value: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(value, Exception):
        raise value
    return value


class Known:
    """Identifies everybody as `user`, or raises it, or says it has to be awaited."""

    login_path = None

    def __init__(self, user: Any) -> None:
        self.user = user

    def __call__(self, request: Request) -> Any:
        if isinstance(self.user, Exception):
            raise self.user
        return self.user


def ask(world: World, answer: Any, user: Any = None) -> tuple[Listeners, FakeExchange, Response | None]:
    """The response is that of the call, or else the one that came later."""
    listeners = Listeners(answer)
    world.dispatcher._upgrades = listeners
    world.dispatcher._identify = Known(user)  # type: ignore[method-assign]
    world.handler.run = lambda request: Response(b"as if it had not asked")
    request = Request("GET", "/x", HeaderBlock([("upgrade", "websocket")]))
    request.offers = "websocket"
    exchange = FakeExchange(request)
    response = world.dispatcher.upgrade(exchange)  # type: ignore[arg-type]
    if response is None and exchange.task is not None:
        world.loop.run_until_complete(exchange.task)
        (response,) = exchange.answers
    return listeners, exchange, response


UPGRADE = Upgrade("websocket", None)  # type: ignore[arg-type]


def test_without_listeners_it_is_an_ordinary_request(world: World) -> None:
    world.handler.run = lambda request: Response(b"x")
    request = Request("GET", "/x", HeaderBlock([]))
    response = world.dispatcher.upgrade(FakeExchange(request))  # type: ignore[arg-type]
    assert response is not None
    assert response.body == b"x"


@pytest.mark.parametrize("wait", [False, True])
def test_an_upgrade_goes_out_as_it_is(world: World, wait: bool) -> None:
    listeners, exchange, response = ask(world, later(UPGRADE) if wait else UPGRADE, user="ann")
    assert response is UPGRADE
    assert listeners.asked == [("ann", None)]
    assert exchange.request.user == "ann"
    assert exchange.request.answered == world.clock.monotonic()  # what its duration is counted to


def test_fields_a_listener_adds_go_with_it(world: World) -> None:
    class Cookie(Listeners):
        def handle(self, request: Request, refusal: Problem | None) -> Any:
            request.response_headers.append("Set-Cookie", "a=b")
            return Upgrade("websocket", None)  # type: ignore[arg-type]

    world.dispatcher._upgrades = Cookie(None)
    request = Request("GET", "/x", HeaderBlock([]))
    response = world.dispatcher.upgrade(FakeExchange(request))  # type: ignore[arg-type]
    assert response is not None
    assert response.pairs == [("Set-Cookie", "a=b")]


@pytest.mark.parametrize("wait", [False, True])
def test_nobody_takes_it(world: World, wait: bool) -> None:
    _, _, response = ask(world, later(None) if wait else None)
    assert response is not None
    assert response.body == b"as if it had not asked"
    assert [name for name, _ in response.pairs].count("Server-Timing") == 1


@pytest.mark.parametrize("wait", [False, True])
def test_a_listener_refuses(world: World, wait: bool) -> None:
    error = NotFound("no such room")
    _, _, response = ask(world, later(error) if wait else error)
    assert problem(response)["status"] == 404
    _, _, response = ask(world, later(Response(b"no", 403)) if wait else Response(b"no", 403))
    assert response is not None
    assert response.status == 403
    assert response.pairs[-1][0] == "Server-Timing"


def test_a_defect_of_a_listener_is_logged(world: World) -> None:
    _, _, response = ask(world, RuntimeError("secret"))
    assert problem(response)["status"] == 500
    assert len(world.errors) == 1


def test_listeners_learn_that_the_caller_is_refused(world: World) -> None:
    refusal = Problem("Login failed", 401)
    listeners, _, response = ask(world, UPGRADE, user=refusal)
    assert listeners.asked == [(None, refusal)]
    assert response is UPGRADE
    for nobody in (None, later(None)):
        _, _, response = ask(world, nobody, user=refusal)  # ... and if none of them takes it, it is refused as always
        assert problem(response)["status"] == 401


@pytest.mark.parametrize("outcome", ["ann", Problem("Login failed", 401)])
def test_a_password_that_has_to_be_verified(world: World, outcome: Any) -> None:
    class Owner:
        def finish(self, pending: PendingVerification, result: Any) -> Any:
            if isinstance(outcome, Problem):
                raise outcome
            return outcome

        def release(self, pending: PendingVerification) -> None:
            pass

    listeners, _, response = ask(world, UPGRADE, user=PendingVerification(Owner(), b"", lambda: True))  # type: ignore[arg-type]
    assert response is UPGRADE
    assert listeners.asked == ([(None, outcome)] if isinstance(outcome, Problem) else [(outcome, None)])
