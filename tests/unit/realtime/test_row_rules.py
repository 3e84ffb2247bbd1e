"""Rules on rows in subscriptions to records: a follower has what it may read, and learns of nothing else (spec: rows §1.3, §1.6)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from svc.auth.users import User
from svc.query.url import parse_query
from svc.realtime.event import EndReason
from svc.store import Table
from svc.store.schema import Allow, Attribute, Relationship, TableDefinition
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE
from tests.support.scene import Scene

PROJECT = TableDefinition("Project", attributes=(Attribute("id", primary_key=True), Attribute("members", "ID", elements=True)))
PERSON = TableDefinition(
    "Person", primary_key="username", attributes=(Attribute("username", primary_key=True), Attribute("team")), account=True
)
ISSUE = TableDefinition(
    "Issue",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("owner", "ID", indexed=True),
        Attribute("public", "Boolean"),
        Attribute("team", "ID"),
        Attribute("until", "Date"),
        Attribute("n", "Int"),
        Attribute("projectId", "ID", indexed=True),
        Attribute("project", "Project", relationship=Relationship("Project", from_="projectId")),
    ),
    allow=(
        Allow(("member",), read="public==true|owner==$user.username"),
        Allow(("joined",), read="owner==$user.username|project.members==$user.username"),
        Allow(("team",), read="team==$user.team"),
        Allow(("timely",), read="until=gt=$now"),
        Allow(("everybody",), read="public==true"),
    ),
)
READS = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
PERMISSION = {"data": {"tables": dict.fromkeys(("Issue", "Project", "Person"), READS)}}
OWNERS = ("ann", "bob", "cat")


class World:
    """A scene with issues, and users `name` of a role."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        for definition in (PROJECT, PERSON, ISSUE):
            scene.database.define_table(definition)
        self.issue: Table = scene.database.tables["Issue"]

    def user(self, name: str, role: str) -> User:
        system = self.scene.store.databases[SYSTEM]
        self.scene.write(
            lambda t: t.put(system.tables[ROLE_TABLE], role, {"role": role, "permission": PERMISSION}),
            lambda t: t.put(system.tables[USER_TABLE], name, {"role": role, "active": True}),
        )
        found = self.scene.users.get_user(name)
        assert found is not None
        return found

    def follow(self, user: User | None, **options: Any) -> Follower:
        return Follower(self.scene, self.scene.subscribe(table=self.issue, user=user, check_rights=True, allow_full_scan=True, **options))

    def put(self, key: str, **record: Any) -> None:
        self.scene.write(lambda t: t.put(self.issue, key, {"id": key, **record}))

    def patch(self, key: str, **changes: Any) -> None:
        self.scene.write(lambda t: t.patch(self.issue, key, changes))

    def delete(self, key: str) -> None:
        self.scene.write(lambda t: t.delete(self.issue, key))

    def put_other(self, table: str, key: str, **record: Any) -> None:
        other = self.scene.database.tables[table]
        self.scene.write(lambda t: t.put(other, key, {other.primary_key: key, **record}))

    def say(self, key: str | None, message: Any) -> None:
        self.scene.write(lambda t: t.publish(self.issue, key, message))

    def allow(self, *allow: Allow) -> None:
        self.scene.database.define_table(replace(self.issue.definition, allow=allow))


class Follower:
    """What a client makes of its events: the records that it has, and all that it was told."""

    def __init__(self, scene: Scene, source: Any) -> None:
        self.scene = scene
        self.source = source
        self.has: dict[Any, Any] = {}
        self.told: list[tuple[str, Any]] = []

    def take(self) -> list[tuple[str, Any]]:
        """(type, id) of what is new."""
        found = []
        for event in self.scene.take(self.source):
            if event.type == "put":
                self.has[event.id] = event.value
            elif event.type == "delete":
                assert event.value is None
                self.has.pop(event.id, None)
            found.append((event.type, event.id))
        self.told += found
        return found


@pytest.fixture
def world(scene: Scene) -> World:
    return World(scene)


def test_the_first_records_are_those_that_may_be_read(world: World) -> None:
    for key, owner, public in (("1", "ann", False), ("2", "bob", False), ("3", "bob", True)):
        world.put(key, owner=owner, public=public)
    assert world.follow(world.user("ann", "member")).take() == [("put", "1"), ("put", "3")]
    assert world.follow(world.user("ann", "member"), key="2").take() == []
    assert world.follow(world.user("ann", "member"), where=parse_query("n!=7").where).take() == [("put", "1"), ("put", "3")]
    assert world.follow(world.user("ann", "member"), where=parse_query("owner==bob").where).take() == [("put", "3")]


def test_a_record_that_is_there_no_more_is_deleted_for_its_follower(world: World) -> None:
    follower = world.follow(world.user("ann", "member"))
    follower.take()
    world.put("1", owner="ann", n=1)
    world.patch("1", owner="bob")
    world.patch("1", n=2)
    world.delete("1")
    assert follower.take() == [("put", "1"), ("delete", "1")]
    world.put("2", owner="bob")
    world.patch("2", n=1)
    world.patch("2", owner="ann")
    assert follower.take() == [("put", "2")]
    assert follower.has["2"] == {"id": "2", "owner": "ann", "n": 1}
    world.delete("2")
    assert follower.take() == [("delete", "2")]


def test_a_condition_of_the_client_does_not_hide_that_a_record_has_gone(world: World) -> None:
    follower = world.follow(world.user("ann", "member"), where=parse_query("n==1").where)
    follower.take()
    world.put("1", owner="ann", n=1)
    world.put("2", owner="bob", n=1)
    world.put("1", owner="bob", n=5)
    world.put("2", owner="ann", n=5)
    assert follower.take() == [("put", "1"), ("delete", "1")]


def test_without_images_in_the_log_what_was_is_found_there_all_the_same(world: World) -> None:
    world.scene.database.define_table(replace(ISSUE, audit=False))
    world.put("1", owner="ann", n=1)
    world.put("2", owner="bob", n=1)
    world.patch("2", n=3)
    follower = world.follow(world.user("ann", "member"), omit_current=True)
    world.put("1", owner="bob")
    world.delete("2")
    assert follower.take() == [("delete", "1")]


def test_raw_events_begin_with_a_whole_record(world: World) -> None:
    follower = world.follow(world.user("ann", "member"), raw_events=True)
    follower.take()
    world.put("1", owner="bob", n=1)
    world.patch("1", owner="ann")
    world.patch("1", n=2)
    world.patch("1", owner="bob")
    assert follower.take() == [("put", "1"), ("patch", "1"), ("delete", "1")]
    assert follower.has == {}


def test_messages_are_read_as_the_record_they_are_about(world: World) -> None:
    ann, bob = world.follow(world.user("ann", "member")), world.follow(world.user("bob", "member"))
    world.put("1", owner="ann")
    ann.take()
    world.say("1", {"n": 5})
    world.say("1", {"owner": "bob"})
    world.say("2", {"owner": "bob"})
    world.say("2", {"n": 1})
    world.say(None, "text")
    world.say(None, {"public": True})
    world.say("1", "text")
    assert ann.take() == [("message", "1"), ("message", None), ("message", "1")]
    assert bob.take() == [("message", "1"), ("message", "2"), ("message", None)]


def test_the_log_is_read_by_the_rules_of_now(world: World) -> None:
    start = world.scene.database.log.newest_lsn(world.scene.database.snapshot())
    world.put("1", owner="ann", n=1)
    world.put("1", owner="bob", n=2)
    world.put("2", owner="bob")
    world.delete("2")
    world.delete("1")
    world.scene.settle()
    ann = world.user("ann", "member")
    assert world.follow(ann, after=start).take() == [("put", "1"), ("delete", "1")]
    assert world.follow(ann, previous_count=10).take() == [("put", "1"), ("delete", "1")]
    assert world.follow(ann, start_time=0.0).take() == [("put", "1"), ("delete", "1")]
    assert world.follow(ann, key="1", previous_count=10).take() == [("put", "1"), ("delete", "1")]
    assert world.follow(world.user("bob", "member"), after=start).take() == [("put", "1"), ("put", "2"), ("delete", "2"), ("delete", "1")]


def test_who_sees_the_same_shares_events(world: World) -> None:
    followers = [world.follow(world.user(name, "everybody")) for name in OWNERS]
    assert len({id(follower.source.group) for follower in followers}) == 1
    others = [world.follow(world.user(name, "member")) for name in OWNERS]
    assert len({id(follower.source.group) for follower in others}) == 3
    again = world.follow(world.user("cat", "member"))
    assert again.source.group is others[2].source.group


def test_nothing_is_narrowed_for_super_users_and_code(world: World) -> None:
    code = Follower(world.scene, world.scene.subscribe(table=world.issue))
    world.put("1", owner="dan")
    assert code.take() == [("put", "1")]
    assert code.source.group.view.viewpoint is None


def test_rules_hold_where_code_has_opened_the_table(world: World) -> None:
    opened = Follower(world.scene, world.scene.subscribe(table=world.issue, user=world.user("ann", "member"), check_rows=True))
    world.put("1", owner="dan")
    world.put("2", owner="ann")
    assert opened.take() == [("put", "2")]


def test_related_records_count_as_they_are_at_the_commit(world: World) -> None:
    follower = world.follow(world.user("ann", "joined"))
    world.put_other("Project", "p", members=["bob"])
    world.put("1", projectId="p")
    assert follower.take() == []
    world.put_other("Project", "p", members=["ann"])
    assert follower.take() == []  # no event by itself: see live()
    world.patch("1", n=1)
    assert follower.take() == [("put", "1")]
    project = world.scene.database.tables["Project"]
    world.scene.write(
        lambda t: (t.put(project, "p", {"id": "p", "members": []}), t.patch(world.issue, "1", {"n": 2})),
        lambda t: t.patch(world.issue, "1", {"n": 3}),
    )
    assert [kind for kind, _ in follower.take() if kind == "put"] == []


def test_the_account_counts_as_it_is_at_the_commit(world: World) -> None:
    follower = world.follow(world.user("ann", "team"))
    follower.take()
    world.put("1", team="red")
    world.put_other("Person", "ann", team="red")
    world.put("2", team="red")
    assert follower.take() == [("put", "2")]
    person = world.scene.database.tables["Person"]
    world.scene.write(
        lambda t: (t.put(person, "ann", {"username": "ann", "team": "blue"}), t.put(world.issue, "3", {"id": "3", "team": "red"}))
    )
    assert follower.take() == []
    world.put("4", team="blue")
    assert follower.take() == [("put", "4")]


def test_the_time_counts_as_it_is_at_the_commit(world: World) -> None:
    follower = world.follow(world.user("ann", "timely"))
    until = round(world.scene.clock.wall() * 1000) + 10_000
    record = {"until": world.issue.validator.record({"id": "1", "until": until})["until"]}
    world.put("1", **record)
    assert follower.take() == [("put", "1")]
    world.scene.clock.advance(20)
    world.put("1", **record, n=1)
    assert [kind for kind, _ in follower.take() if kind == "put"] == []


def test_a_change_of_the_rules_holds_for_what_is_written_behind_it(world: World) -> None:
    member, all_seen = world.follow(world.user("ann", "member")), world.follow(world.user("bob", "free"))
    world.put("1", owner="cat", public=True)
    assert member.take() == all_seen.take() == [("put", "1")]
    world.allow(Allow(("member", "free"), read="n==1"))
    world.put("2", owner="ann", public=True)
    world.put("3", n=1)
    assert member.take() == all_seen.take() == [("put", "3")]
    world.allow()
    world.put("4", owner="dan")
    assert member.take() == all_seen.take() == [("put", "4")]


def test_a_change_of_the_role_holds_for_what_is_written_behind_it(world: World) -> None:
    follower = world.follow(world.user("ann", "member"))
    world.put("1", owner="dan")
    world.put("2", public=True, owner="ann")
    world.user("ann", "everybody")
    world.put("3", owner="ann")
    world.put("4", public=True)
    assert follower.take() == [("put", "2"), ("put", "4")]
    system = world.scene.store.databases[SYSTEM]
    world.scene.write(lambda t: t.delete(system.tables[USER_TABLE], "ann"))
    world.put("5", public=True)
    assert follower.take() == []
    assert follower.source.ended is EndReason.NO_LOGIN


def test_what_waits_is_not_told_when_the_role_has_changed(world: World) -> None:
    follower = world.follow(world.user("ann", "member"))
    follower.take()
    world.put("1", owner="ann")
    world.user("ann", "everybody")
    assert follower.take() == []


def test_claims_of_a_token_stay_with_a_subscription(world: World) -> None:
    world.allow(Allow(("member",), read="team==$user.claims.team"))
    follower = world.follow(replace(world.user("ann", "member"), claims={"team": "red"}))
    other = world.follow(replace(world.user("ann", "member"), claims={"team": "blue"}))
    world.scene.hub.recheck()
    world.put("1", team="red")
    assert follower.take() == [("put", "1")]
    assert other.take() == []


def test_what_is_selected_of_related_records_is_narrowed_too(world: World) -> None:
    world.scene.database.define_table(replace(PROJECT, allow=(Allow(read="members==$user.username"),)))
    select = parse_query("select(id,project{id})").select
    ann = Follower(world.scene, world.scene.subscribe(table=world.issue, user=world.user("ann", "free"), check_rights=True, select=select))
    bob = Follower(world.scene, world.scene.subscribe(table=world.issue, user=world.user("bob", "free"), check_rights=True, select=select))
    world.put_other("Project", "p", members=["ann"])
    world.put("1", projectId="p")
    ann.take(), bob.take()
    assert ann.has["1"]["project"] == {"id": "p"}
    assert not bob.has["1"].get("project")


Test = Callable[[dict[str, Any]], bool]
MODEL_ROLES = ("member", "joined", "team")


class Model:
    """Random changes, the rules once more as plain code, and followers. `at_commit`: what is taken was just committed, so its rule holds now."""

    def __init__(self, world: World, source: random.Random) -> None:
        self.world = world
        self.source = source
        self.data: dict[str, dict[str, Any]] = {}
        self.members: dict[str, list[str]] = {}
        self.teams: dict[str, str] = {}
        self.start = world.scene.database.log.newest_lsn(world.scene.database.snapshot())
        self.followers: list[tuple[Follower, Test, str]] = []

    def test(self, role: str, name: str) -> Test:
        def own(record: dict[str, Any]) -> bool:
            return record.get("public") is True or record.get("owner") == name

        def joined(record: dict[str, Any]) -> bool:
            return record.get("owner") == name or name in self.members.get(record.get("projectId") or "", [])

        def team(record: dict[str, Any]) -> bool:
            return name in self.teams and record.get("team") == self.teams[name]

        return {"member": own, "joined": joined, "team": team}[role]

    def join(self) -> None:
        role = self.source.choice(MODEL_ROLES)
        name = f"{self.source.choice(OWNERS)}-{role}"
        options: dict[str, Any] = self.source.choice([{}, {}, {"after": self.start}, {"keeps_all": True}])
        self.followers.append((self.world.follow(self.world.user(name, role), **options), self.test(role, name), role))

    def record(self, key: str) -> dict[str, Any]:
        source = self.source
        found = {
            "owner": source.choice([f"{name}-{role}" for name in OWNERS for role in MODEL_ROLES]),
            "public": source.random() < 0.3,
            "team": source.choice("rgb"),
            "n": source.randrange(3),
            "projectId": source.choice("pqs"),
        }
        return {"id": key, **{name: value for name, value in found.items() if source.random() < 0.7}}

    def change(self, transaction: Any) -> None:
        key, kind = str(self.source.randrange(6)), self.source.random()
        if kind < 0.25:
            transaction.delete(self.world.issue, key)
            self.data.pop(key, None)
        elif kind < 0.5 and key in self.data:
            changes = {name: value for name, value in self.record(key).items() if name != "id"}
            transaction.patch(self.world.issue, key, dict(changes))
            self.data[key] = {**self.data[key], **changes}
        else:
            self.data[key] = self.record(key)
            transaction.put(self.world.issue, key, dict(self.data[key]))

    def step(self) -> None:
        source, kind = self.source, self.source.random()
        if kind < 0.2 and len(self.followers) < 8:
            self.join()
        elif kind < 0.3:
            key = source.choice("pqs")
            self.members[key] = [f"{name}-joined" for name in OWNERS if source.random() < 0.4]
            self.world.put_other("Project", key, members=self.members[key])
        elif kind < 0.4:
            name = f"{source.choice(OWNERS)}-team"
            self.teams[name] = source.choice("rgb")
            self.world.put_other("Person", name, team=self.teams[name])
        else:
            count = source.choice([1, 1, 3])
            self.world.scene.write(lambda t: [self.change(t) for _ in range(count)])

    def take(self, *, at_commit: bool) -> None:
        for follower, test, role in self.followers:
            for event in self.world.scene.take(follower.source):
                if event.type == "put":
                    assert test(event.value) or not (at_commit or role == "member"), event.value
                    follower.has[event.id] = event.value
                else:
                    follower.has.pop(event.id, None)

    def found(self, test: Test) -> dict[str, dict[str, Any]]:
        return {key: record for key, record in self.data.items() if test(record)}


@pytest.mark.parametrize("seed", range(16))
def test_followers_have_what_a_filter_finds(world: World, seed: int) -> None:
    """By rules about the record alone; by others, all they are told of may be read, and all of it when each record has been written again."""
    model = Model(world, random.Random(seed))
    for _ in range(40):
        model.step()
        if model.source.random() < 0.5:
            model.take(at_commit=False)
    model.take(at_commit=False)
    for follower, test, role in model.followers:
        if role == "member":
            assert follower.has == model.found(test)
    for key, record in model.data.items():
        world.scene.write(lambda t, key=key, record=record: t.put(world.issue, key, dict(record)))
    model.take(at_commit=True)
    for follower, test, _ in model.followers:
        assert model.found(test).items() <= follower.has.items()
