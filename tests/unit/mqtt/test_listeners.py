"""Listeners of clients: their bounds, and how they replace each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from svc.mqtt import listeners as module
from svc.mqtt.listeners import ApplicationListeners, ClientListeners


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def turns(loop: asyncio.AbstractEventLoop) -> None:
    for _ in range(5):
        loop.run_until_complete(asyncio.sleep(0))


def test_only_so_many_wait(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "RUNNING", 3)
    gate = asyncio.Event()
    called: list[int] = []
    application, all_ = ApplicationListeners(), ClientListeners(loop)

    async def wait(socket: Any) -> None:
        called.append(socket)
        await gate.wait()

    application.add("connection", wait)
    all_.activate(application)
    for number in range(10):
        all_.tell("connection", number)
    turns(loop)
    assert called == [0, 1, 2] and [each.levelname for each in caplog.records] == ["ERROR"]
    gate.set()
    turns(loop)
    all_.tell("connection", 10)
    turns(loop)
    assert called == [0, 1, 2, 10]


def test_places(loop: asyncio.AbstractEventLoop) -> None:
    called: list[str] = []
    all_ = ClientListeners(loop)
    first, second, newer = (ApplicationListeners() for _ in range(3))
    for name, each in (("first", first), ("second", second), ("newer", newer)):
        each.add("connection", lambda socket, name=name: called.append(name))
    all_.activate(first)
    all_.activate(second)
    all_.activate(newer, first)
    all_.tell("connection", None)
    all_.tell("connected", None, None)
    turns(loop)
    assert called == ["newer", "second"]
    all_.withdraw(newer)
    all_.withdraw(first)
    all_.tell("connection", None)
    turns(loop)
    assert called == ["newer", "second", "second"]


def test_what_is_taken_back() -> None:
    application = ApplicationListeners()
    application.add("connection", print)
    before = application.state()
    application.add("connection", repr)
    application.authorize = repr
    application.restore(before)
    assert application.by_event["connection"] == ((print, 1),) and application.authorize is None
