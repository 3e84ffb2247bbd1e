"""A mounted application: its path, and requests before its start, after a failed start and after its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from svc.mounted.application import mount_path
from tests.support.mounted import MountedWorld


@pytest.mark.parametrize(("given", "path"), [("/a", "/a"), ("a/b/", "/a/b"), ("//a//b", "/a/b"), ("", ""), ("/", "")])
def test_paths(given: str, path: str) -> None:
    assert mount_path(given) == path


@pytest.mark.parametrize("given", ["/a/..", "/./a", "/a\n"])
def test_what_is_no_path(given: str) -> None:
    with pytest.raises(ValueError, match="not a path to mount an application at"):
        mount_path(given)


class App:
    """Starts when it may; answers with what is in its state."""

    def __init__(self, outcome: str = "lifespan.startup.complete") -> None:
        self.outcome = outcome
        self.may_start = asyncio.Event()
        self.ended = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            scope["state"]["greeting"] = b"hello"
            await self.may_start.wait()
            await send({"type": self.outcome, "message": "Traceback (most recent call last):\n  ...\nOSError: no database"})
            await receive()
            self.ended = True
            await send({"type": "lifespan.shutdown.complete"})
            return
        greeting = scope["state"]["greeting"]
        scope["state"]["greeting"] = b"changed"
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": greeting})


def test_requests_wait_for_the_start_and_get_copies_of_the_state() -> None:
    app = App()
    world = MountedWorld(app)
    client = world.connect()
    assert client.ask()[0] == 0
    app.may_start.set()
    world.settle()
    assert client.answer()[2] == b"hello"
    assert client.ask()[2] == b"hello"
    world.close()
    assert app.ended


def test_after_a_failed_start_all_addresses_answer_with_the_reason() -> None:
    app = App("lifespan.startup.failed")
    app.may_start.set()
    world = MountedWorld(app)
    world.mounted.start()
    client = world.connect()
    for target in ("/app", "/app/x"):
        assert client.ask(target=target)[::2] == (500, b"The application has not started: OSError: no database")
    assert "the application at /app: has not started: Traceback" in world.log.text
    world.close()


def test_after_its_end_it_answers_503() -> None:
    app = App()
    app.may_start.set()
    world = MountedWorld(app)
    client = world.connect()
    assert client.ask()[0] == 200
    world.run(world.mounted.stop())
    assert client.ask()[::2] == (503, b"The application has ended")
    world.close()


def test_a_client_that_leaves_during_the_start() -> None:
    app = App()
    world = MountedWorld(app)
    client = world.connect()
    client.ask()
    client.leave()
    app.may_start.set()
    world.settle()
    assert not world.tasks and not world.log.errors
    world.close()
