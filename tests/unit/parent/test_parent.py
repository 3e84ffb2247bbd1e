"""What the parent does when instances come and go, with instances that are only written down."""

from __future__ import annotations

import errno
import os
import selectors
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from svc.clock import FakeClock
from svc.parent import parent as module
from svc.parent.channel import Channel, pair
from svc.parent.link import Link
from svc.parent.member import Member, State
from svc.parent.messages import Failed, NotRestarted, Ready, Restart, Retire, Succeed
from svc.parent.parent import FORK_PAUSE, HANG_SECONDS, Parent
from svc.parent.renewal import Renewal
from svc.parent.state import ParentState
from svc.parent.supervisor import Supervisor


class FakeRenewal(Renewal):
    def __init__(self) -> None:
        super().__init__(["svc"], {})
        self.fails: OSError | None = None
        self.checks = 0

    def begin_check(self, state: ParentState) -> Any:
        self.checks += 1
        if self.fails is not None:
            raise self.fails
        return None


class FakeMember(Member):
    """Of a process that is not there."""

    signals: list[tuple[int, int]]

    def signal(self, number: int) -> None:
        self.signals.append((self.pid, number))


class FakeSupervisor(Supervisor):
    def __init__(self) -> None:
        super().__init__({})
        self.heard: list[str] = []

    def notify(self, state: str) -> None:
        self.heard.append(state)


class World:
    """`ends`: those of the instances, by process id, which count from 100."""

    def __init__(self, count: int) -> None:
        self.clock, self.renewal, self.supervisor = FakeClock(), FakeRenewal(), FakeSupervisor()
        self.log: list[str] = []
        self.ready: list[int] = []
        self.ends: dict[int, Channel] = {}
        self.signals: list[tuple[int, int]] = []
        self.refuses = False
        self.parent = Parent(
            count,
            log=lambda level, text: self.log.append(text),
            renewal=self.renewal,
            on_ready=self.ready.append,
            supervisor=self.supervisor,
            clock=self.clock,
        )
        self.parent._selector = selectors.DefaultSelector()
        self.parent._fork = self.fork  # type: ignore[method-assign]
        self.parent._begin()
        self.parent._start_due()

    def fork(self, place: int) -> Link | None:
        if self.refuses:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        pid = 100 + len(self.ends)
        here, there = pair()
        there.setblocking(False)
        self.ends[pid] = Channel(there)
        member = FakeMember(place, self.parent._generation, pid, Channel(here), place, self.clock.monotonic())
        member.signals = self.signals
        self.parent._members[pid] = member
        self.parent._selector.register(here, selectors.EVENT_READ, member)
        return None

    def members(self, state: State | None = None) -> list[tuple[int, int, int]]:
        """(process id, place, generation)"""
        return sorted((each.pid, each.place, each.generation) for each in self.parent._members.values() if state in (None, each.state))

    def becomes_ready(self, pid: int) -> None:
        self.ends[pid].send(Ready(0, self.parent._members[pid].place))
        self.parent._read(self.parent._members[pid])
        self.parent._start_due()

    def ended(self, pid: int, code: int = -signal.SIGKILL) -> None:
        self.parent._on_ended(self.parent._members.pop(pid), code)
        self.parent._start_due()

    def heard(self, pid: int) -> list[Any]:
        try:
            found = self.ends[pid].receive()
        except BlockingIOError:
            return []
        for _, descriptors in found:
            for each in descriptors:
                os.close(each)
        return [message for message, _ in found]

    def begin_again(self) -> None:
        """As after the program has been executed for a restart."""
        self.parent._begin()
        self.parent._start_due()

    def close(self) -> None:
        for channel in self.ends.values():
            channel.close()
        for member in self.parent._members.values():
            member.channel.close()
        self.parent._selector.close()
        self.parent._beats.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World(2)
    made.becomes_ready(100)
    made.becomes_ready(101)
    assert made.ready == [0] and made.members() == [(100, 0, 1), (101, 1, 1)]
    yield made
    made.close()


def test_the_first_is_awaited() -> None:
    world = World(3)
    assert world.members() == [(100, 0, 1)]
    world.becomes_ready(100)
    assert [place for _, place, _ in world.members()] == [0, 1, 2] and world.ready == []
    world.becomes_ready(102)
    world.becomes_ready(101)
    assert world.ready == [0]
    world.close()


def test_one_that_ends_is_started_again_with_growing_pauses(world: World) -> None:
    world.clock.advance(10)
    world.ended(101, 3)
    assert world.log == ["instance 1 (pid: 101) has ended with status 3; it is started again"] and world.members()[-1] == (102, 1, 1)
    world.clock.advance(10)
    world.ended(102, -50)
    assert "has ended by signal 50; it is started again in 1 s" in world.log[-1] and len(world.members()) == 1
    world.clock.advance(1)
    world.parent._start_due()
    assert world.members()[-1] == (103, 1, 1)


def test_a_restart_replaces_one_after_the_other(world: World) -> None:
    world.begin_again()
    assert world.members(State.STARTING) == [(102, 0, 2)]
    world.becomes_ready(102)
    assert world.heard(100) == [Retire()] and world.heard(102) == [Succeed()] and world.heard(101) == []
    world.becomes_ready(103)
    assert world.heard(101) == [Retire()] and world.members(State.READY) == [(102, 0, 2), (103, 1, 2)]
    assert world.log == ["svc has been restarted."]
    world.ended(100, 0)
    world.ended(101, 0)
    assert world.members() == [(102, 0, 2), (103, 1, 2)]


@pytest.mark.parametrize("succeeds", [True, False])
def test_one_that_is_asked_for_meanwhile_follows(world: World, succeeds: bool) -> None:
    """Its caller may have changed the configuration that the first one has read."""
    world.begin_again()
    for _ in range(2):
        world.ends[101].send(Restart())
        world.parent._read(world.parent._members[101])
    assert world.renewal.checks == 0
    if succeeds:
        world.becomes_ready(102)
        world.becomes_ready(103)
    else:
        world.ended(102, 9)
    assert world.renewal.checks == 1 and world.log[-1] == "Restarting svc."
    is_renewing = bool(module.BEAT.unpack_from(world.parent._beats, module.RENEWING * module.BEAT.size)[0])
    assert is_renewing == succeeds, "who waits for the second does not take the end of the first for it"


def test_one_that_ends_before_its_turn_is_not_started_twice(world: World) -> None:
    world.begin_again()
    world.clock.advance(10)
    world.ended(101)
    assert world.members(State.STARTING) == [(102, 0, 2), (103, 1, 2)]
    world.becomes_ready(103)
    world.becomes_ready(102)
    assert world.members() == [(100, 0, 1), (102, 0, 2), (103, 1, 2)] and world.log[-1] == "svc has been restarted."


def test_one_that_ends_while_its_successor_starts_is_not_started_again(world: World) -> None:
    world.begin_again()
    world.clock.advance(10)
    world.ended(100)
    world.clock.advance(10)
    world.parent._start_due()
    assert world.members() == [(101, 1, 1), (102, 0, 2)]


def test_a_restart_whose_first_instance_ends_is_given_up(world: World) -> None:
    world.begin_again()
    world.ended(102, 9)
    assert world.members(State.READY) == [(100, 0, 1), (101, 1, 1)]
    reason = "instance 0 (pid: 102) has ended with status 9 before it served"
    assert world.heard(100) == world.heard(101) == [NotRestarted(reason)]
    world.ended(101)
    assert world.members(State.STARTING) == [(103, 1, 2)], "the program that is there now"


def test_one_whose_place_nobody_else_has_is_started_again(world: World) -> None:
    world.begin_again()
    world.clock.advance(10)
    world.ended(100)  # of the program before
    world.ended(102, 9)
    assert world.log[-1] == "instance 0 (pid: 102) has ended with status 9; it is started again in 1 s"
    world.clock.advance(1)
    world.parent._start_due()
    world.becomes_ready(103)
    assert world.members(State.STARTING) == [(104, 1, 2)], "the restart goes on"


def test_one_that_cannot_live_is_given_up(world: World) -> None:
    for pid in range(101, 106):
        assert not world.parent._stops
        world.clock.advance(1)
        world.ended(pid, 3)
        world.clock.advance(10)
        world.parent._members[100].beat_at = world.clock.monotonic()
        if pid < 105:
            world.parent._start_due()
            world.becomes_ready(pid + 1)
            world.parent._members[pid + 1].started = world.clock.monotonic()
    assert "as those before it as soon as they were started: svc gives up" in world.log[-1]
    assert world.parent._stops and world.parent._status == 1 and world.signals[-1] == (100, signal.SIGTERM)


def test_what_one_says_before_it_ends_is_the_reason(world: World) -> None:
    world.begin_again()
    world.ends[102].send(Failed("cannot listen on http.port 80"))
    world.parent._read(world.parent._members[102])
    world.ended(102, 1)
    reason = "instance 0 (pid: 102) has ended with status 1 (cannot listen on http.port 80) before it served"
    assert world.heard(100) == [NotRestarted(reason)] and world.log[-1].endswith(reason)


def test_what_was_kept_is_the_parents_once_it_has_taken_it_over(world: World) -> None:
    """An instance that cannot start would end those that serve."""
    state = world.parent._state()
    renewal = FakeRenewal()
    renewal.state = replace(
        state, members=[replace(each, channel=os.dup(each.channel)) for each in state.members], beats=os.dup(state.beats)
    )
    renewal.beats = renewal.state.beats
    later = Parent(2, log=lambda level, text: None, renewal=renewal, clock=world.clock)
    assert renewal.state is None and len(later._members) == 2
    for member in later._members.values():
        member.channel.close()
    later._beats.close()
    os.close(renewal.beats)


def test_a_check_that_cannot_be_started(world: World) -> None:
    world.renewal.fails = OSError(errno.ENOSPC, "No space left on device")
    world.ends[101].send(Restart())
    world.parent._read(world.parent._members[101])
    assert world.heard(100) == [NotRestarted(None), NotRestarted("[Errno 28] No space left on device")]
    assert world.members(State.READY) == [(100, 0, 1), (101, 1, 1)]


def test_a_process_that_cannot_be_made_is_asked_for_again(world: World) -> None:
    world.clock.advance(10)
    world.refuses = True
    world.ended(101)
    assert "instance 1 cannot be started: Resource temporarily unavailable" in world.log[-1]
    world.refuses = False
    world.clock.advance(FORK_PAUSE)
    world.parent._start_due()
    assert world.members()[-1] == (102, 1, 1)


def pass_seconds(world: World, count: int, *living: int) -> None:
    """`living`: slots of instances that beat."""
    for _ in range(count):
        world.clock.advance(1.0)
        for slot in living:
            module.BEAT.pack_into(world.parent._beats, slot * module.BEAT.size, int(world.clock.monotonic()))
        world.parent._watch()


def test_one_that_does_nothing_is_ended(world: World) -> None:
    pass_seconds(world, int(HANG_SECONDS), 0)
    assert world.signals == []
    pass_seconds(world, 2, 0)
    assert world.signals == [(101, signal.SIGABRT)] and "instance 1 (pid: 101) has done nothing for 30 s" in world.log[-1]
    pass_seconds(world, 3, 0)
    assert world.signals[-1] == (101, signal.SIGKILL) and all(pid == 101 for pid, _ in world.signals)


def test_nobody_hangs_if_the_machine_was_asleep(world: World) -> None:
    world.clock.advance(HANG_SECONDS * 10)
    world.parent._watch()
    world.clock.advance(1.0)
    world.parent._watch()
    assert world.signals == []


def test_one_that_does_nothing_while_it_is_replaced_is_ended(world: World) -> None:
    world.begin_again()
    world.parent._members[102].slot = 2
    world.becomes_ready(102)
    pass_seconds(world, int(HANG_SECONDS) + 2, 1, 2, 3)
    assert world.signals == [(100, signal.SIGABRT)]
    world.ended(100)
    assert world.members() == [(101, 1, 1), (102, 0, 2), (103, 1, 2)], "nobody follows it"


def test_a_reason_of_several_lines_is_one_for_the_supervisor(world: World) -> None:
    world.begin_again()
    world.ends[102].send(Failed("no\nMAINPID=1"))
    world.parent._read(world.parent._members[102])
    world.ended(102, 1)
    assert world.supervisor.heard[-1].split("\n")[0] == "READY=1" and world.supervisor.heard[-1].count("\n") == 1


def test_signs_of_life_as_long_as_any_instance_works(world: World) -> None:
    world.supervisor.heard.clear()
    world.supervisor.period = 5.0
    pass_seconds(world, 60, 0)
    assert world.supervisor.heard == ["WATCHDOG=1"] * 12
    pass_seconds(world, 60)  # all of them hang, and are not ended by a signal
    count = len(world.supervisor.heard)
    assert count < 12 + 60 / 5
    pass_seconds(world, 60)
    assert len(world.supervisor.heard) == count
    world.ended(100)  # another one takes its place
    pass_seconds(world, 5)
    assert len(world.supervisor.heard) == count + 1


def test_what_a_supervisor_hears_of_restarts(world: World) -> None:
    assert world.supervisor.heard == ["READY=1"]
    world.ends[101].send(Restart())
    world.parent._read(world.parent._members[101])
    assert world.supervisor.heard[1].startswith("RELOADING=1\nMONOTONIC_USEC=")
    world.parent._check = None
    world.begin_again()
    world.becomes_ready(102)
    assert len(world.supervisor.heard) == 2
    world.becomes_ready(103)
    assert world.supervisor.heard[2:] == ["READY=1\nSTATUS=restarted"]
    world.parent._stop(signal.SIGTERM)
    assert world.supervisor.heard[3:] == ["STOPPING=1"]
