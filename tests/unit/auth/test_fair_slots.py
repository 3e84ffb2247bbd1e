"""Who runs next when many wait, and what a flood of logins from one network does to others (spec: security §10)."""

import asyncio
from base64 import b64encode
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from svc.auth import verifier as verifier_module
from svc.auth.fair_slots import FairSlots, network_of
from svc.auth.identify import PendingVerification
from svc.auth.users import User
from svc.auth.verifier import AT_ONCE
from svc.errors import Problem
from svc.messages import HeaderBlock, Request
from tests.support.identifying import make_identifier

World = Any  # tests/unit/auth/conftest.py


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_network_of(address: str, network: str) -> None:
    assert network_of(address) == network


class Line:
    """Takers of one `FairSlots`, named by network and number. `served` is the order in which they got a slot."""

    def __init__(self, slots: int) -> None:
        self.slots = FairSlots(slots)
        self.served: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str) -> None:
        for name in names:
            self.tasks[name] = asyncio.create_task(self._take(name))
            await asyncio.sleep(0)

    async def _take(self, name: str) -> None:
        await self.slots.acquire(name[0])
        self.served.append(name)

    async def give_back(self, times: int = 1) -> None:
        for _ in range(times):
            self.slots.release()
            await asyncio.sleep(0)
            await asyncio.sleep(0)


def test_networks_take_turns() -> None:
    async def scenario() -> None:
        line = Line(2)
        await line.come("a1", "a2", "a3", "a4", "a5", "b6", "c7", "c8")
        assert line.served == ["a1", "a2"] and len(line.slots) == 6
        await line.give_back(6)
        assert line.served == ["a1", "a2", "a3", "b6", "c7", "a4", "c8", "a5"] and len(line.slots) == 0
        await line.give_back(2)
        await line.come("x", "y", "z")
        assert line.served[-2:] == ["x", "y"]  # both slots are free again, and no more

    asyncio.run(scenario())


def test_who_goes_away_holds_nobody_up() -> None:
    async def scenario() -> None:
        line = Line(1)
        await line.come("a1", "a2", "b3", "b4", "c5")
        line.tasks["a2"].cancel()
        line.tasks["b3"].cancel()
        await asyncio.sleep(0)
        assert len(line.slots) == 2
        await line.give_back(2)
        assert line.served == ["a1", "b4", "c5"]

    asyncio.run(scenario())


def test_a_slot_given_to_one_who_goes_at_that_moment_goes_on() -> None:
    async def scenario() -> None:
        line = Line(1)
        await line.come("a1", "b2", "c3")
        line.slots.release()  # to b2, who has not run yet
        line.tasks["b2"].cancel()
        for _ in range(4):
            await asyncio.sleep(0)
        assert line.served == ["a1", "c3"]
        await line.give_back()
        await line.come("d4")
        assert line.served == ["a1", "c3", "d4"]

    asyncio.run(scenario())


class ByHand(Executor):
    """Runs the oldest of what it was given when it is told to."""

    def __init__(self) -> None:
        self.given: list[tuple[Future[Any], Any]] = []

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.given.append((future, work))
        return future

    async def run_one(self) -> None:
        future, work = self.given.pop(0)
        future.set_result(work())
        for _ in range(6):
            await asyncio.sleep(0)


class Logins:
    """Logins of many callers. `answers`: user name or status, in the order in which they came."""

    def __init__(self, world: World) -> None:
        self.identifier = make_identifier(world.directory, clock=world.clock)
        self.executor = ByHand()
        self.answers: list[tuple[str, Any]] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, credentials: str, peer: str) -> None:
        self.tasks[name] = asyncio.create_task(self._log_in(name, credentials, peer))
        for _ in range(8):
            await asyncio.sleep(0)

    async def _log_in(self, name: str, credentials: str, peer: str) -> None:
        request = Request("GET", "/", HeaderBlock([("authorization", "Basic " + b64encode(credentials.encode()).decode())]))
        request.peer = peer
        answer: Any
        try:
            found = self.identifier.identify(request)
            if type(found) is PendingVerification:
                found = await found.wait(asyncio.get_running_loop(), self.executor)
            assert isinstance(found, User)
            answer = found.username
        except Problem as problem:
            answer = problem.status_code
        self.answers.append((name, answer))

    def of(self, name: str) -> list[Any]:
        return [answer for who, answer in self.answers if who == name]

    def check_empty(self) -> None:
        verifier = self.identifier.verifier
        assert not verifier._pending and not verifier._attempts and not verifier._networks and not len(verifier._slots)
        assert verifier._slots._free == AT_ONCE


def test_a_flood_makes_only_itself_wait(world: World) -> None:
    async def scenario() -> None:
        logins = Logins(world)
        for number in range(200):
            await logins.come("flood", f"nobody{number}:x", "10.0.0.66")
        await logins.come("ann", "ann:ann", "10.0.0.1")
        await logins.come("admin", "admin:admin", "10.0.0.2")
        assert len(logins.executor.given) == AT_ONCE
        for _ in range(AT_ONCE + 4):  # those under way, and then each network in turn
            await logins.executor.run_one()
        assert logins.of("ann") == ["ann"] and logins.of("admin") == ["admin"]
        assert len(logins.of("flood")) <= AT_ONCE + 2
        while logins.executor.given:
            await logins.executor.run_one()
        assert logins.of("flood") == [401] * 200
        logins.check_empty()

    asyncio.run(scenario())


def test_a_flood_takes_nobodys_place(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier_module, "MAX_OUTSTANDING", 20)

    async def scenario() -> None:
        logins = Logins(world)
        for number in range(30):  # a whole network of IPv6 is one
            await logins.come("flood", f"nobody{number}:x", f"2001:db8::{number:x}")
        assert logins.of("flood") == [503] * 10  # what was too much, at once
        await logins.come("ann", "ann:ann", "2001:db8:0:1::1")
        assert logins.of("flood") == [503] * 11 and logins.of("ann") == []
        await logins.come("flood", "nobody:x", "2001:db8::ffff")
        assert logins.of("flood") == [503] * 12
        while logins.executor.given:
            await logins.executor.run_one()
        assert logins.of("ann") == ["ann"] and sorted(logins.of("flood")) == [401] * 19 + [503] * 12
        logins.check_empty()

    asyncio.run(scenario())


def test_what_runs_is_not_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier_module, "MAX_OUTSTANDING", 2)

    async def scenario() -> None:
        logins = Logins(world)
        for number in range(2):
            await logins.come("early", f"nobody{number}:x", "10.0.0.66")
        await logins.come("ann", "ann:ann", "10.0.0.1")
        assert logins.of("ann") == [503]
        while logins.executor.given:
            await logins.executor.run_one()
        assert logins.of("early") == [401, 401]
        logins.check_empty()

    asyncio.run(scenario())


def test_who_goes_away_takes_the_work_along(world: World) -> None:
    async def scenario() -> None:
        logins = Logins(world)
        for number in range(50):
            await logins.come(f"flood{number}", f"nobody{number}:x", "10.0.0.66")
        for task in logins.tasks.values():
            task.cancel()
        for _ in range(6):
            await asyncio.sleep(0)
        await logins.come("ann", "ann:ann", "10.0.0.1")
        runs = 0
        while logins.executor.given:
            await logins.executor.run_one()
            runs += 1
        assert runs == AT_ONCE + 1 and logins.answers == [("ann", "ann")]
        logins.check_empty()

    asyncio.run(scenario())


def test_who_joins_as_the_last_one_leaves_is_answered(world: World) -> None:
    async def scenario() -> None:
        logins = Logins(world)
        for number in range(AT_ONCE):
            await logins.come("busy", f"nobody{number}:x", "10.0.0.66")
        await logins.come("first", "ann:ann", "10.0.0.1")
        pending = next(reversed(logins.identifier.verifier._pending.values()))
        logins.tasks["first"].cancel()
        joined = asyncio.create_task(pending.wait(asyncio.get_running_loop(), logins.executor))
        for _ in range(6):
            await asyncio.sleep(0)
        while logins.executor.given:
            await logins.executor.run_one()
        user = await joined
        assert user is not None and user.username == "ann"
        logins.check_empty()

    asyncio.run(scenario())
