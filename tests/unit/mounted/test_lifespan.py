"""The lifespan of a mounted application: its start, its state, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from svc.mounted.lifespan import Lifespan, LifespanState
from tests.support.mounted import RecordingLog

COMPLETE = {"type": "lifespan.startup.complete"}
DONE = {"type": "lifespan.shutdown.complete"}


class Case:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.log = RecordingLog()
        self.events: list[Any] = []

    def make(self, app: Any) -> Lifespan:
        return Lifespan(app, "the application at /a", self.loop, self.log)

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, 5))


@pytest.fixture
def case() -> Iterator[Case]:
    made = Case()
    yield made
    left = asyncio.all_tasks(made.loop)
    made.loop.close()
    assert not left


def test_a_start_and_an_end(case: Case) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan" and scope["asgi"] == {"version": "3.0", "spec_version": "2.0"}
        case.events.append((await receive())["type"])
        scope["state"]["pool"] = 7
        await send(COMPLETE)
        case.events.append((await receive())["type"])
        await send(DONE)
        case.events.append("returned")

    lifespan = case.make(app)
    assert not lifespan.is_settled
    case.run(lifespan.wait())
    assert lifespan.state is LifespanState.RUNNING and lifespan.is_settled and lifespan.values == {"pool": 7}
    lifespan.start()
    case.run(lifespan.stop(5))
    assert case.events == ["lifespan.startup", "lifespan.shutdown", "returned"] and lifespan.state is LifespanState.ENDED
    assert not case.log.errors and not case.log.infos


def test_all_wait_for_one_start(case: Case) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        case.events.append("started")
        await asyncio.sleep(0)
        await send(COMPLETE)
        await receive()

    lifespan = case.make(app)

    async def both() -> None:
        await asyncio.gather(lifespan.wait(), lifespan.wait())

    case.run(both())
    assert case.events == ["started"]
    case.run(lifespan.stop(5))


def test_a_start_that_fails(case: Case) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "Traceback:\n  line 1\nKeyError: 'DATABASE_URL'\n"})
        raise KeyError("DATABASE_URL")

    lifespan = case.make(app)
    case.run(lifespan.wait())
    assert lifespan.state is LifespanState.FAILED and lifespan.reason == "KeyError: 'DATABASE_URL'"
    assert "the application at /a: has not started: Traceback:" in case.log.text and len(case.log.errors) == 1
    case.run(lifespan.stop(5))


@pytest.mark.parametrize("receives", [False, True])
def test_an_application_without_lifespan_is_served(case: Case, receives: bool) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if receives:
            await receive()
        raise ValueError("Django can only handle ASGI/HTTP connections, not lifespan.")

    lifespan = case.make(app)
    case.run(lifespan.wait())
    assert lifespan.state is LifespanState.UNSUPPORTED and not case.log.errors
    assert "served without a lifespan: ValueError: Django" in str(case.log.infos)
    case.run(lifespan.stop(5))


def test_an_application_that_returns_at_once_is_served(case: Case) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        pass

    lifespan = case.make(app)
    case.run(lifespan.wait())
    assert lifespan.state is LifespanState.UNSUPPORTED and not case.log.errors
    case.run(lifespan.stop(5))


def test_an_end_that_hangs_is_cancelled(case: Case) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(COMPLETE)
        try:
            await asyncio.Event().wait()
        finally:
            case.events.append("cancelled")

    lifespan = case.make(app)
    case.run(lifespan.wait())
    case.run(lifespan.stop(0.001))
    assert case.events == ["cancelled"] and "has not ended within 0.001 s" in case.log.text


def test_a_start_that_hangs_is_cancelled_by_the_end(case: Case) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    lifespan = case.make(app)
    lifespan.start()
    case.run(asyncio.sleep(0))
    case.run(lifespan.stop(0.001))
    assert lifespan.state is LifespanState.ENDED


def test_failures_at_the_end_are_logged(case: Case) -> None:
    def app_that(how: str) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await send(COMPLETE)
            await receive()
            if how == "says":
                await send({"type": "lifespan.shutdown.failed", "message": "pool is busy"})
            else:
                raise KeyError("pool")

        return app

    for how in ("says", "raises"):
        lifespan = case.make(app_that(how))
        case.run(lifespan.wait())
        case.run(lifespan.stop(5))
    assert "has not ended well: pool is busy" in case.log.text and "KeyError" in repr(case.log.errors)


def test_messages_out_of_order_are_errors_of_the_application(case: Case) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in (DONE, {"type": "http.response.start"}, {}, None):
            with pytest.raises(RuntimeError):
                await send(message)
        await send(COMPLETE)
        with pytest.raises(RuntimeError, match=r"'lifespan[.]startup[.]complete' is not expected here"):
            await send(COMPLETE)
        await receive()
        await receive()

    lifespan = case.make(app)
    case.run(lifespan.wait())
    assert lifespan.state is LifespanState.RUNNING
    case.run(lifespan.stop(0.001))
