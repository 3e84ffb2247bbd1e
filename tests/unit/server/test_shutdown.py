"""Stop, restart and the end after a failed disk write, with fake ports and a fake loop."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.server.shutdown import DRAIN_SECONDS, Shutdown


class FakeLoop:
    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def call_soon(self, function: Callable[..., None], *arguments: Any) -> None:
        self.calls.append((function, arguments))

    def call_later(self, delay: float, function: Callable[..., None], *arguments: Any) -> None:
        self.calls.append((function, arguments))

    def run(self) -> None:
        """What waits now."""
        calls, self.calls = self.calls, []
        for function, arguments in calls:
            function(*arguments)


class FakePorts:
    def __init__(self) -> None:
        self.connections = self
        self.open: set[str] = set()
        self.feeds: set[str] = set()
        self.stops = self.retired = 0

    def send_away(self) -> bool:
        """Connections are left when their feeds have ended."""
        found, self.feeds = self.feeds, set()
        self.open |= found
        return bool(found)

    def retire(self) -> None:
        self.retired += 1

    def stop(self) -> None:
        self.stops += 1


class FakeLogger:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def notify(self, *messages: object) -> None:
        self.lines.append(" ".join(map(str, messages)))

    fatal = notify


class World:
    def __init__(self) -> None:
        self.clock, self.loop, self.logger = FakeClock(), FakeLoop(), FakeLogger()
        self.application, self.operations = FakePorts(), FakePorts()
        self.shutdown = Shutdown(self.application, self.operations, clock=self.clock, loop=self.loop, logger=self.logger)  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    return World()


def test_the_operations_port_stays_until_the_application_is_drained(world: World) -> None:
    world.application.open.add("request")
    world.operations.open.add("poll")
    world.shutdown.stop()
    assert (world.application.stops, world.operations.stops, world.shutdown.has_begun) == (1, 0, True)
    world.application.open.clear()
    world.loop.run()
    assert world.operations.stops == 1 and not world.loop.stopped
    world.operations.open.clear()
    world.loop.run()
    assert world.loop.stopped


def test_connections_that_do_not_end_are_left_after_a_while(world: World) -> None:
    world.application.open.add("request")
    world.shutdown.stop()
    world.clock.advance(DRAIN_SECONDS)
    world.loop.run()
    assert world.loop.stopped and world.operations.stops == 1


def test_the_second_call_stops_at_once(world: World) -> None:
    world.application.open.add("request")
    world.shutdown.stop()
    assert not world.loop.stopped
    world.shutdown.stop()
    assert world.loop.stopped


def test_a_signal_turns_a_restart_into_a_stop(world: World) -> None:
    world.shutdown.restart()
    assert world.shutdown.restart_wanted and not world.shutdown.has_begun
    world.shutdown.stop_for_good()
    assert not world.shutdown.restart_wanted and world.shutdown.has_begun


def test_after_a_failed_disk_write(world: World) -> None:
    world.shutdown.end_with_store(["data"])
    assert world.shutdown.exit_status == 1 and world.shutdown.has_begun and not world.shutdown.restart_wanted
    lines = len(world.logger.lines)
    world.loop.run()
    world.shutdown.end_with_store(["data"])
    assert len(world.logger.lines) == lines  # it is stopping already


class FakeLink:
    def __init__(self) -> None:
        self.restarts = 0

    def restart(self) -> None:
        self.restarts += 1


class FakeHeir:
    """`takes`: the connections that it takes next."""

    def __init__(self) -> None:
        self.takes: set[str] = set()
        self.closed = False

    def take(self, ports: Any) -> None:
        for each in ports:
            each.open -= self.takes

    def close(self) -> None:
        self.closed = True


def test_with_a_parent_a_restart_is_its_work(world: World) -> None:
    link = FakeLink()
    world.shutdown = Shutdown(world.application, world.operations, clock=world.clock, loop=world.loop, logger=world.logger, link=link)  # type: ignore[arg-type]
    world.shutdown.restart()
    assert link.restarts == 0, "the answer is sent first"
    world.loop.run()
    assert link.restarts == 1 and not world.shutdown.has_begun and not world.shutdown.restart_wanted


def test_one_that_is_replaced_ends_when_its_connections_have(world: World) -> None:
    heir = FakeHeir()
    world.application.open |= {"idle", "request"}
    heir.takes = {"idle"}
    world.shutdown.retire(heir, 100.0)  # type: ignore[arg-type]
    assert (
        world.shutdown.is_replaced and world.application.retired == world.operations.retired == 1 and world.application.open == {"request"}
    )
    world.loop.run()
    assert not world.loop.stopped and not heir.closed
    heir.takes = {"request"}
    world.loop.run()
    assert world.loop.stopped and heir.closed and world.application.stops == 0


def test_feeds_that_begin_while_it_is_replaced_are_ended_and_their_connections_taken_at_once(world: World) -> None:
    heir = FakeHeir()
    heir.takes = {"feed", "another"}
    world.application.open.add("request")
    for feed in ("feed", "another"):
        world.application.feeds.add(feed)
        if feed == "feed":
            world.shutdown.retire(heir, 100.0)  # type: ignore[arg-type]
        world.loop.run()
        assert not world.application.feeds and world.application.open <= {"request", "another"}
    world.loop.run()
    assert world.application.open == {"request"}


def test_one_that_is_replaced_stops_when_its_time_is_over(world: World) -> None:
    heir = FakeHeir()
    world.application.open.add("request")
    world.shutdown.retire(heir, 100.0)  # type: ignore[arg-type]
    world.clock.advance(100.0)
    world.loop.run()
    assert heir.closed and world.application.stops == 1 and not world.loop.stopped
    world.clock.advance(DRAIN_SECONDS)
    world.loop.run()
    assert world.loop.stopped


def test_one_that_is_replaced_waits_a_while_for_connections_that_code_serves(world: World) -> None:
    heir, further = FakeHeir(), SimpleNamespace(others=[], sockets_in_use=1)
    world.shutdown = Shutdown(
        world.application,  # type: ignore[arg-type]
        world.operations,  # type: ignore[arg-type]
        clock=world.clock,
        loop=world.loop,  # type: ignore[arg-type]
        logger=world.logger,  # type: ignore[arg-type]
        further=further,  # type: ignore[arg-type]
    )
    world.shutdown.retire(heir, 100.0)  # type: ignore[arg-type]
    world.loop.run()
    assert not world.loop.stopped
    world.clock.advance(DRAIN_SECONDS)
    world.loop.run()
    assert world.loop.stopped and heir.closed


def test_one_that_stops_is_not_replaced(world: World) -> None:
    heir = FakeHeir()
    world.shutdown.stop()
    world.shutdown.retire(heir, 100.0)  # type: ignore[arg-type]
    assert heir.closed and not world.shutdown.is_replaced


def test_further_ports_of_applications_end_with_the_first(world: World) -> None:
    other, stopped = FakePorts(), []
    world.shutdown = Shutdown(
        world.application,  # type: ignore[arg-type]
        world.operations,  # type: ignore[arg-type]
        clock=world.clock,
        loop=world.loop,  # type: ignore[arg-type]
        logger=world.logger,  # type: ignore[arg-type]
        further=SimpleNamespace(others=[other], sockets_in_use=0),  # type: ignore[arg-type]
        on_stop=lambda: stopped.append(True),
    )
    other.open.add("request")
    world.shutdown.stop()
    assert (other.stops, stopped, world.operations.stops) == (1, [True], 0)
    other.open.clear()
    world.loop.run()
    assert world.loop.stopped
