"""`server.mount`: where an ASGI application is served, and when it ends (spec: asgi §1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import Node
from tests.unit.api.test_server import World


class Mounted:
    def __init__(self, app: Any, path: str) -> None:
        self.app = app
        self.path = path

    def http(self, request: Any, next: Any) -> None: ...

    async def websocket(self, ws: Any, request: Any, completion: Any, next: Any) -> None: ...


class Mounts:
    def __init__(self) -> None:
        self.there: list[Mounted] = []

    def add(self, app: Any, path: str) -> Mounted:
        self.there.append(Mounted(app, path))
        return self.there[-1]

    def remove(self, mounted: Mounted) -> None:
        self.there.remove(mounted)

    @property
    def paths(self) -> list[str]:
        return [mounted.path for mounted in self.there]


async def app(scope: Any, receive: Any, send: Any) -> None: ...


@pytest.fixture
def mounts() -> Mounts:
    return Mounts()


@pytest.fixture
def world(tmp_path: Path, mounts: Mounts) -> Iterator[World]:
    node = Node(tmp_path)
    made = World(node)
    made.parts.mounts = mounts
    yield made
    node.close()


def test_requests_and_websockets_below_the_path(world: World, mounts: Mounts) -> None:
    server = world.server.of_application("shop")
    assert [port.port for port in server.mount("/api", app)] == [1, 2]
    (mounted,) = mounts.there
    assert mounted.app is app and mounted.path == "/api"
    for target in ("/api", "/api/x", "/%61pi/x"):
        assert mounted.http in world.ports.plain.asked(target)
    assert mounted.http not in world.ports.plain.asked("/apix") and len(world.ports.plain.ws) == 1


@pytest.mark.parametrize(
    ("mount", "path", "whole"),
    [
        (None, "./v1", "/shop/v1"),
        (None, ".", "/shop"),
        ("/eu", "/api/", "/eu/api"),
        ("/eu", "/", "/eu"),
        (None, "/", ""),
        (None, "/caf%C3%A9", "/café"),
    ],
)
def test_the_whole_path(world: World, mounts: Mounts, mount: str | None, path: str, whole: str) -> None:
    world.server.of_application("shop", url_path=mount).mount(path, app)
    assert mounts.paths == [whole]


def test_what_cannot_be_mounted(world: World, mounts: Mounts) -> None:
    server = world.server.of_application("shop")
    for path in ("/a/../b", "/a?b", "/a//b"):
        with pytest.raises(ValueError, match="url_path"):
            server.mount(path, app)
    with pytest.raises(TypeError, match=r"server\.mount needs a listener that can be called"):
        server.mount("/a", "app")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no option 'url_path'"):
        server.mount("/a", app, url_path="/b")
    with pytest.raises(OSError, match="in use"):
        server.mount("/a", app, port=666)
    assert not mounts.paths
    world.parts.mounts = None
    with pytest.raises(RuntimeError, match="cannot be mounted"):
        server.mount("/a", app)


def test_options_are_those_of_listeners(world: World, mounts: Mounts) -> None:
    server = world.server.of_application("shop")
    server.http(first := lambda request, next: None, name="first", url_path="/api")
    server.mount("/api", app, {"before": "first"})
    listeners = [each for each in world.ports.plain.asked("/api/x") if callable(each)]
    assert listeners == [mounts.there[0].http, first]


def test_it_ends_with_the_application(world: World, mounts: Mounts) -> None:
    former = world.server.of_application("shop")
    former.mount("/api", app)
    newer = world.server.of_application("shop", replaces=former)
    newer.mount("/api", app)
    newer.mount("/more", app)
    old, *new = mounts.there
    assert old.http in world.ports.plain.asked("/api/x")
    newer.activate()
    assert mounts.there == new and new[0].http in world.ports.plain.asked("/api/x")
    newer.withdraw()
    assert not mounts.paths and not world.ports.plain.ws
