"""Rules on rows in shared subscriptions: each message goes to one of the members that may read it, wherever it is connected (spec: rows §1.3)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

import svc.testing
from svc.auth.roles import Role
from svc.auth.users import User
from svc.mqtt.delivery import request_for
from svc.mqtt.shared import SharedGroup
from svc.testing.application import Application
from tests.support.mqtt import broker_of
from tests.unit.mqtt.test_shared import Member, Process, World
from tests.unit.testing.conftest import write_application

SCHEMA = """
type Job @table @export @allow(read: "owner==$user.username|public==true") {
  id: ID @primaryKey
  n: Int
  owner: ID
  public: Boolean
}
"""
PERMISSION = {"data": {"tables": {"Job": {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}}}}
OWNERS = ("ann", "bob", "nobody")
KEYS = count(1000)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    with svc.testing.app(write_application(tmp_path_factory.mktemp("shared") / "jobs", files)) as app:
        yield app


class UserMember(Member):
    """A member of a group that is a user, or with None code of an application."""

    def __init__(self, process: Process, app: Application, name: str | None) -> None:
        databases = broker_of(app).stored.store.databases
        self.user = None if name is None else User(name, role=Role("worker", "worker", PERMISSION, databases=databases))
        self.seen: list[tuple[str, Any]] = []
        super().__init__(process, app)

    @property
    def view(self) -> Any:
        request = request_for(self.found, self.user, keeps_all=True)
        request.check_rights = self.user is not None
        return self.realtime.hub.view(request, self.user)

    def send(self, event: Any, qos: int) -> None:
        super().send(event, qos)
        self.seen.append((event.type, event.value))


class JobWorld(World):
    def enter(self, process: Process, name: str | None) -> UserMember:
        member = UserMember(process, self.app, name)
        self.members.append(member)
        return member

    def finish(self) -> None:
        """Also what one process after the other has taken, and left to the others."""
        for _ in range(2 * len(self.processes) + 1):
            super().finish()

    def add(self, owner: str, *, public: bool = False) -> None:
        """A job of its own, so that no earlier owner has seen it."""
        self.sent += 1
        self.app.put(f"/Job/{next(KEYS)}", {"n": self.sent, "owner": owner, "public": public})


@pytest.fixture
def world(app: Application) -> Iterator[JobWorld]:
    world = JobWorld(app)
    yield world
    world.close()


def owners(member: UserMember) -> list[str]:
    return [value["owner"] for _, value in member.seen]


def test_each_gets_what_it_may_read(world: JobWorld) -> None:
    process = world.start()
    ann, bob = world.enter(process, "ann"), world.enter(process, "bob")
    for number in range(30):
        world.add(OWNERS[number % 3])
        ann.acknowledge()
        bob.acknowledge()
    world.finish()
    assert owners(ann) == ["ann"] * 10
    assert owners(bob) == ["bob"] * 10


def test_what_all_may_read_is_shared_out(world: JobWorld) -> None:
    process = world.start()
    ann, bob = world.enter(process, "ann"), world.enter(process, "bob")
    for _ in range(20):
        world.add("nobody", public=True)
        ann.acknowledge()
        bob.acknowledge()
    world.finish()
    assert len(ann.seen) == len(bob.seen) == 10


def test_what_waits_for_one_does_not_stop_another(world: JobWorld) -> None:
    process = world.start()
    ann, bob = world.enter(process, "ann"), world.enter(process, "bob")
    for _ in range(10):
        world.add("ann")
        world.add("bob")
        bob.acknowledge()
    assert len(bob.seen) == 10
    assert len(ann.seen) == 3, "as many as it has room for"
    world.finish()
    assert len(ann.seen) == 10


def test_a_record_that_has_gone_from_one_comes_whole_to_another(world: JobWorld) -> None:
    process = world.start()
    ann, bob = world.enter(process, "ann"), world.enter(process, "bob")
    key = str(next(KEYS))
    world.app.put(f"/Job/{key}", {"owner": "ann"})
    world.app.put(f"/Job/{key}", {"owner": "bob"})
    world.app.put(f"/Job/{key}", {"owner": "nobody"})
    world.finish()
    assert ann.seen == [("put", {"id": key, "owner": "ann"})]
    assert bob.seen == [("put", {"id": key, "owner": "bob"}), ("delete", None)]


def test_what_a_member_that_leaves_had_goes_to_one_that_may_read_it(world: JobWorld) -> None:
    process = world.start()
    ann, bob, other = world.enter(process, "ann"), world.enter(process, "bob"), world.enter(process, "ann")
    for _ in range(4):
        world.add("ann")
    ann.leave()
    world.members.remove(ann)
    world.finish()
    assert owners(other) == ["ann"] * 4
    assert bob.seen == []


def test_a_member_in_another_process_gets_what_none_here_may_read(world: JobWorld) -> None:
    ann, bob = world.enter(world.start(), "ann"), world.enter(world.start(), "bob")
    world.app._instance.rest()
    for number in range(30):
        world.add(OWNERS[number % 3])
        world.pass_time()
        ann.acknowledge()
        bob.acknowledge()
    world.finish()
    assert owners(ann) == ["ann"] * 10
    assert owners(bob) == ["bob"] * 10
    group = ann.process.group
    assert group is not None
    row = group._stored()
    assert row.open == [], "what nobody may read is not kept"
    assert row.refused == {}


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens(app: Application, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes to one that may not read it; what has been sent while one was there that may read it is not lost."""
    chance, world = random.Random(seed), JobWorld(app)
    world.enter(world.start(), "ann")
    world.enter(world.processes[0], "bob")  # these two stay
    app._instance.rest()
    expected: set[int] = set()
    for _ in range(chance.randrange(20, 80)):
        members = [member for process in world.processes for member in process.members]
        match chance.randrange(8):
            case 0 if len(world.processes) < 3:
                world.enter(world.start(), chance.choice(("ann", "bob", "cat")))
                app._instance.rest()
            case 1 if len(members) < 8:
                world.enter(chance.choice(world.processes), chance.choice(("ann", "bob", "cat")))
                app._instance.rest()
            case 2 if len(members) > 2:
                app._instance.rest()
                chance.choice(members[2:]).leave()
                app._instance.rest()
            case 3:
                chance.choice(members).acknowledge()
            case 4:
                world.pass_time()
            case _:
                owner, public = chance.choice(("ann", "bob", "nobody")), chance.random() < 0.3
                world.add(owner, public=public)
                if public or owner != "nobody":
                    expected.add(world.sent)
    world.finish()
    got: list[int] = []
    for member in world.members:
        assert isinstance(member, UserMember) and member.user is not None
        for kind, value in member.seen:
            assert kind == "put"
            assert value["public"] or value["owner"] == member.user.username
            got.append(value["n"])
    assert set(got) == expected, (set(got) - expected, expected - set(got))
    world.close()


def test_code_of_an_application_is_not_narrowed(world: JobWorld) -> None:
    code = world.enter(world.start(), None)
    world.add("nobody")
    world.finish()
    assert owners(code) == ["nobody"]
    assert isinstance(code.group, SharedGroup)
