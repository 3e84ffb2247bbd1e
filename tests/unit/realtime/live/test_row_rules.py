"""Rules on rows in live queries: at rest a client has what the query finds for its user, whatever has changed (spec: rows §1.6)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.query.narrowing import view_of
from svc.query.url import parse_query
from svc.realtime.event import EndReason
from svc.realtime.live import materialized_result, recomputed_result
from svc.store import Table
from svc.store.schema import Allow, Attribute, Relationship, TableDefinition
from tests.support.live import LiveClient, LiveStore, expected, same

PROJECT = TableDefinition(
    "Project",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("members", "ID", elements=True),
        Attribute("open", "Boolean"),
        Attribute("teamId", "ID", indexed=True),
        Attribute("team", "Team", relationship=Relationship("Team", from_="teamId")),
        Attribute("issues", "Issue", elements=True, relationship=Relationship("Issue", to="projectId")),
    ),
    allow=(Allow(("deep",), read="team.people==$user.username"), Allow(("joined",), read="open==true|members==$user.username")),
)
TEAM = TableDefinition("Team", attributes=(Attribute("id", "ID", primary_key=True), Attribute("people", "ID", elements=True)))
PERSON = TableDefinition(
    "Person", primary_key="username", attributes=(Attribute("username", "ID", primary_key=True), Attribute("kind")), account=True
)
ISSUE = TableDefinition(
    "Issue",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("owner", "ID", indexed=True),
        Attribute("public", "Boolean"),
        Attribute("kind", "ID", indexed=True),
        Attribute("until", "Date"),
        Attribute("n", "Int", indexed=True),
        Attribute("projectId", "ID", indexed=True),
        Attribute("project", "Project", relationship=Relationship("Project", from_="projectId")),
    ),
    allow=(
        Allow(("plain",), read="public==true|owner==$user.username"),
        Allow(("joined",), read="owner==$user.username|project.members==$user.username"),
        Allow(("deep",), read="project.id=gt=string:"),
        Allow(("kind",), read="kind==$user.kind|project.members==$user.kind"),
        Allow(("timely",), read="until=gt=$now"),
        Allow(("none",), read="false"),
    ),
)
ROLES = ("plain", "joined", "deep", "kind", "timely")
READS = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
PERMISSION = {"data": {"tables": dict.fromkeys(("Issue", "Project", "Person", "Team"), READS)}}
NAMES = ("ann", "bob")
QUERIES = (
    "id!=none",
    "n=gt=0",
    "sort(-n)",
    "sort(n)&limit(1,4)",
    "limit(3)",
    "count()",
    "select(id,n,project{id})",
    "project.open==true",
    "select(id,project{id,issues{id,n}})&sort(id)",
    "facet(kind)",
)


class FakeUsers:
    """Users by name, who change when the test says so."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}

    def current(self, user: User) -> User | None:
        found = self.users.get(user.username)
        return None if found is None else found.with_claims_of(user)

    def refresh(self) -> None:
        pass


class World:
    def __init__(self, path: Path) -> None:
        self.users = FakeUsers()
        self.live = LiveStore(path, users=self.users)
        self.store = self.live.store
        self.store.anonymous_role = lambda: None  # type: ignore[method-assign]
        self.database = self.store.open_database("data")
        for definition in (TEAM, PROJECT, ISSUE, PERSON):
            self.database.define_table(definition)
        self.tables = self.database.tables
        self.clients: list[tuple[LiveClient, str, User]] = []

    @property
    def issue(self) -> Table:
        return self.tables["Issue"]

    def user(self, name: str, role: str, **claims: Any) -> User:
        found = User(name, role=Role(role, role, PERMISSION, databases=self.store.databases), claims=claims or None)
        self.users.users[name] = found
        return found

    def follow(self, text: str, user: User, *, strict: bool = True) -> LiveClient:
        query = replace(parse_query(text), live=True)
        source = self.live.live.subscribe(query, self.issue, user, allow_full_scan=True)
        client = LiveClient(source, strict=strict)
        self.clients.append((client, text, user))
        self.rest()
        client.seen.clear()
        return client

    def put(self, table: str, **record: Any) -> None:
        self.live.write(("put", self.tables[table], record))
        self.live.commit()

    def rest(self) -> None:
        self.live.settle()
        for client, _, _ in self.clients:
            client.drain()
        self.live.settle()
        for client, _, _ in self.clients:
            client.drain()

    def pass_time(self, seconds: float) -> None:
        self.live.clock.advance(seconds)
        self.live.live._sweep()  # as the timer does, once a second
        self.live.live._stop_timers()

    def check(self) -> None:
        self.rest()
        for client, text, user in self.clients:
            assert client.source.ended is None, (client.source.ended, text)
            self.store.end_turn()
            wanted = expected(parse_query(text), view_of(user, self.issue))
            has = client.rows if isinstance(wanted, list) else client.values
            assert client.is_ready
            assert same(has, wanted), (text, user.username, user.role, has, wanted)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recomputed_result, "MIN_RUN_INTERVAL", 0.0)
        patch.setattr(recomputed_result, "RUN_INTERVAL_FACTOR", 0.0)
        made = World(tmp_path / "live")
        yield made
        made.live.close()


def new(client: LiveClient) -> list[tuple[str, Any]]:
    found = [(event["type"], event["id"]) for event in client.seen if event["type"] not in ("snapshot", "ready")]
    client.seen.clear()
    return found


def test_a_query_that_reads_its_table_back_from_a_related_one_shows_what_may_be_seen(world: World) -> None:
    """The rule is served from the project back to all its issues; the selection goes the same way, to those that the user may see."""
    user = world.user("ann", "joined")
    world.put("Project", id="p", members=["ann"])
    world.put("Project", id="q", members=["bob"], open=True)
    for key, owner, project in (("1", "ann", "q"), ("2", "bob", "p"), ("3", "bob", "q")):
        world.put("Issue", id=key, owner=owner, projectId=project)
    world.store.end_turn()
    found = expected(parse_query("select(id,project{issues{id}})&sort(id)"), view_of(user, world.issue))
    assert [row for _, row in found] == [
        {"id": "1", "project": {"issues": [{"id": "1"}]}},
        {"id": "2", "project": {"issues": [{"id": "2"}]}},
    ]


@pytest.mark.parametrize("text", ["id!=none", "sort(id)", "select(id,project{id})"])
def test_a_record_enters_and_leaves_by_its_own_values(world: World, text: str) -> None:
    client = world.follow(text, world.user("ann", "plain"))
    world.put("Issue", id="1", owner="bob")
    world.check()
    assert new(client) == []
    world.put("Issue", id="1", owner="ann")
    world.check()
    assert new(client) == [("enter", "1")]
    world.put("Issue", id="1", owner="bob")
    world.check()
    assert new(client) == [("leave", "1")]
    world.live.write(("delete", world.issue, "1"))
    world.live.commit()
    world.check()
    assert new(client) == []


@pytest.mark.parametrize("text", ["id!=none", "sort(id)", "n=ge=0&sort(id)&limit(5)"])
def test_a_related_record_brings_it_in_and_out(world: World, text: str) -> None:
    client = world.follow(text, world.user("ann", "joined"))
    world.put("Issue", id="1", owner="bob", n=1, projectId="p")
    world.put("Project", id="p", members=["ann"])
    world.check()
    assert new(client) == [("enter", "1")]
    world.put("Project", id="p", members=["bob"], open=True)
    world.check()
    assert new(client) == [("leave", "1")]


@pytest.mark.parametrize("text", ["id!=none", "sort(id)", "n=ge=0&sort(id)&limit(5)"])
def test_so_does_what_the_rule_of_a_related_table_refers_to(world: World, text: str) -> None:
    """A project is there as long as its team has the user; an issue, as long as the project is there."""
    client = world.follow(text, world.user("ann", "deep"))
    world.put("Issue", id="1", n=1, projectId="p")
    world.put("Project", id="p", teamId="t")
    world.put("Team", id="t", people=["bob"])
    world.check()
    assert new(client) == []
    world.put("Team", id="t", people=["bob", "ann"])
    world.check()
    assert new(client) == [("enter", "1")]
    world.put("Team", id="t", people=[])
    world.check()
    assert new(client) == [("leave", "1")]


def test_what_is_shown_of_related_records_is_narrowed(world: World) -> None:
    client = world.follow("select(id,project{id})", world.user("ann", "joined"))
    world.put("Issue", id="1", owner="ann", projectId="p")
    world.put("Project", id="p", members=["bob"])
    world.check()
    assert next(iter(client.values.values())).get("project") is None
    world.put("Project", id="p", members=["bob"], open=True)
    world.check()
    assert next(iter(client.values.values()))["project"] == {"id": "p"}
    world.put("Project", id="p", members=["bob"], open=False)
    world.check()
    assert next(iter(client.values.values())).get("project") is None


@pytest.mark.parametrize("text", ["id!=none", "sort(id)", "sort(id)&limit(2)"])
def test_the_record_of_the_account_brings_rows_in_and_out(world: World, text: str) -> None:
    client = world.follow(text, world.user("ann", "kind"))
    other = world.follow(text, world.user("bob", "kind"))
    world.put("Issue", id="1", kind="r")
    world.put("Issue", id="2", kind="g")
    world.put("Issue", id="3", projectId="p")
    world.put("Project", id="p", members=["g"])
    world.check()
    assert new(client) == []
    world.put("Person", username="ann", kind="r")
    world.check()
    assert new(client) == [("enter", "1")]
    world.put("Person", username="ann", kind="g")
    world.check()
    assert sorted(new(client)) == [("enter", "2"), ("enter", "3"), ("leave", "1")]
    world.live.write(("delete", world.tables["Person"], "ann"))
    world.live.commit()
    world.check()
    assert sorted(new(client)) == [("leave", "2"), ("leave", "3")]
    assert new(other) == []
    assert client.resets == other.resets == []


def test_nothing_is_shown_by_what_the_account_was(world: World) -> None:
    client = world.follow("id!=none", world.user("ann", "kind"))
    world.put("Person", username="ann", kind="r")
    world.check()
    world.live.write(("put", world.tables["Person"], {"username": "ann", "kind": "g"}))
    world.live.write(("put", world.issue, {"id": "1", "kind": "r"}))
    world.live.commit()
    world.check()
    assert new(client) == []


def test_accounts_of_another_database_are_followed_too(world: World) -> None:
    world.database.define_table(replace(PERSON, account=False))
    people = world.store.open_database("people").define_table(PERSON)
    client = world.follow("id!=none", world.user("ann", "kind"))
    world.put("Issue", id="1", kind="r")
    world.live.write(("put", people, {"username": "ann", "kind": "r"}))
    world.live.commit()
    world.check()
    assert new(client) == [("enter", "1")]


def test_time_brings_rows_in_and_out(world: World) -> None:
    client = world.follow("id!=none", world.user("ann", "timely"))
    ends = world.live.clock.wall() * 1000 + 10_000
    record = world.issue.validator.record({"id": "1", "until": round(ends)})
    world.put("Issue", **record)
    world.check()
    assert new(client) == [("enter", "1")]
    world.pass_time(20)
    world.check()
    assert new(client) == [("leave", "1")]
    world.put("Issue", **record, n=1)
    world.check()
    assert new(client) == []


def test_no_time_is_watched_that_no_rule_names(world: World) -> None:
    world.follow("id!=none", world.user("ann", "plain"))
    world.follow("id!=none", world.user("bob", "kind"))
    world.check()
    viewers = world.live.live._viewers
    assert not viewers._of_time
    assert len(viewers._of_accounts) == 1
    for client, _, _ in world.clients:
        client.source.close()
    assert not viewers._of_accounts
    assert not viewers._followed


def test_who_sees_the_same_shares_a_result(world: World) -> None:
    world.database.define_table(
        replace(ISSUE, allow=(Allow(("plain",), read="public==true"), Allow(("joined",), read="owner==$user.username")))
    )
    for name in NAMES:
        world.follow("id!=none", world.user(name, "plain"))
    assert world.live.live.results == 1
    for name in NAMES:
        world.follow("id!=none", world.user(name, "joined"))
    assert world.live.live.results == 3
    world.follow("id!=none", world.user("ann", "free"))
    assert world.live.live.results == 4


def test_another_rule_is_another_result(world: World) -> None:
    client = world.follow("id!=none", world.user("ann", "plain"))
    free = world.follow("id!=none", world.user("bob", "free"))
    world.put("Issue", id="1", owner="ann")
    world.put("Issue", id="2", owner="bob", public=True)
    world.check()
    world.database.define_table(replace(ISSUE, allow=(Allow(None, read="owner==$user.username"),)))
    world.put("Issue", id="3", owner="cat", public=True)
    world.check()
    assert list(client.values.values()) == [{"id": "1", "owner": "ann"}]
    assert list(free.values.values()) == [{"id": "2", "owner": "bob", "public": True}]
    world.database.define_table(replace(ISSUE, allow=()))
    world.live.live._dispatcher.check_definitions()
    world.check()
    assert len(client.values) == len(free.values) == 3


def test_another_role_is_another_result(world: World) -> None:
    client = world.follow("id!=none", world.user("ann", "plain"))
    world.put("Issue", id="1", owner="ann")
    world.check()
    world.user("ann", "none")
    world.live.live.rights_generation += 1
    world.put("Issue", id="2", owner="ann")
    world.rest()
    assert client.values == {}
    assert client.source.ended is None


ROLE_TESTS = [("id!=none", True), ("sort(id)", True), ("sort(n)&limit(3)", True), ("select(id,project{id})", True), ("count()", False)]


@pytest.mark.parametrize(("text", "is_told"), ROLE_TESTS)
@pytest.mark.parametrize("roles", [("plain", "joined"), ("joined", "free"), ("free", "plain"), ("kind", "plain"), ("timely", "joined")])
def test_another_role_brings_rows_in_and_out(world: World, text: str, is_told: bool, roles: tuple[str, str]) -> None:
    before, after = roles
    world.put("Project", id="p", members=["ann"])
    world.put("Issue", id="1", owner="ann", n=1)
    world.put("Issue", id="2", public=True, n=2)
    world.put("Issue", id="3", projectId="p", n=3)
    user = world.user("ann", before)
    client = world.follow(text, user)
    other = world.follow(text, world.user("bob", before))
    for role in (after, before, after):
        world.clients[0] = (client, text, world.user("ann", role))
        world.live.live.rights_generation += 1
        world.live.live._check_soon()
        world.check()
        world.put("Issue", id="4", owner="ann", n=len(role))
        world.check()
    assert (client.resets == []) is (is_told and before != "timely"), "a result by the time that is shared is not taken apart"
    assert other.resets == []


@pytest.mark.parametrize("text", ["id!=none", "sort(id)", "sort(n)&limit(3)"])
def test_other_rules_bring_rows_in_and_out(world: World, text: str) -> None:
    clients = [world.follow(text, world.user(name, role)) for name, role in (("ann", "plain"), ("bob", "plain"), ("cat", "free"))]
    world.put("Project", id="p", members=["ann"])
    world.put("Issue", id="1", owner="ann")
    world.put("Issue", id="2", public=True)
    world.put("Issue", id="3", projectId="p")
    world.check()
    for allow in (
        (Allow(None, read="project.members==$user.username"),),
        (Allow(("plain",), read="true"), Allow(("free",), read="public==true")),
        (),
        (Allow(None, read="false"),),
    ):
        world.database.define_table(replace(ISSUE, allow=allow))
        world.pass_time(1)
        world.check()
        world.put("Issue", id="4", owner="ann", public=True)
        world.put("Issue", id="4", owner="bob", public=False)
        world.check()
    assert all(client.resets == [] for client in clients)


@pytest.mark.parametrize("seed", range(16))
def test_clients_have_what_the_query_finds_while_roles_and_rules_change(world: World, seed: int) -> None:
    source = random.Random(seed)
    rules = (ISSUE.allow, (), (Allow(None, read="owner==$user.username"),), (Allow(("plain", "joined"), read="kind==$user.kind"),))
    for name in NAMES:
        for _ in range(3):
            world.follow(source.choice(QUERIES), world.user(name, "plain"), strict=False)
    for _ in range(25):
        kind = source.random()
        if kind < 0.15:
            name = source.choice(NAMES)
            user = world.user(name, source.choice([*ROLES, "free"]))
            world.clients = [(client, text, user if each.username == name else each) for client, text, each in world.clients]
            world.live.live.rights_generation += 1
            if source.random() < 0.5:
                world.live.live._check_soon()
        elif kind < 0.25:
            world.database.define_table(replace(ISSUE, allow=source.choice(rules)))
        for _ in range(source.choice([0, 1, 3])):
            random_change(world, source)
        world.live.commit()
        if source.random() < 0.6:
            world.live.live._check_soon()
            world.pass_time(1)
            world.check()


def test_claims_stay_with_a_subscription(world: World) -> None:
    world.database.define_table(replace(ISSUE, allow=(Allow(None, read="kind==$user.claims.kind"),)))
    client = world.follow("id!=none", world.user("ann", "plain", kind="r"))
    world.user("ann", "plain")
    world.live.live.rights_generation += 1
    world.put("Issue", id="1", kind="r")
    world.rest()
    world.rest()
    assert len(client.values) == 1


def test_code_is_not_narrowed_and_an_opened_table_is(world: World) -> None:
    user = world.user("ann", "plain")
    query = replace(parse_query("owner=gt=a"), live=True)
    code = LiveClient(world.live.live.subscribe(query, world.issue, user, check_rights=False))
    opened = LiveClient(world.live.live.subscribe(query, world.issue, user, check_rights=False, check_rows=True))
    world.live.settle()
    code.drain(), opened.drain()
    world.put("Issue", id="1", owner="bob")
    world.live.settle()
    code.drain()
    opened.drain()
    assert len(code.values) == 1
    assert opened.values == {}


def test_more_rows_than_can_be_compared_end_a_query_by_the_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(materialized_result, "MAX_COMPARED", 3)
    client = world.follow("id!=none", world.user("ann", "timely"))
    until = world.issue.validator.record({"id": "1", "until": round(world.live.clock.wall() * 1000 + 10_000)})["until"]
    for number in range(5):
        world.put("Issue", id=str(number), until=until)
    world.rest()
    world.pass_time(1)
    world.rest()
    assert client.source.ended is EndReason.FINISHED
    assert "add conditions" in client.resets[-1]


def random_change(world: World, source: random.Random) -> None:
    def issue(key: str) -> dict[str, Any]:
        now = round(world.live.clock.wall() * 1000)
        found = {
            "owner": source.choice(NAMES),
            "public": source.random() < 0.4,
            "kind": source.choice("rg"),
            "n": source.randrange(4),
            "projectId": source.choice("pq"),
            "until": now + source.choice([-5_000, 5_000, 50_000]),
        }
        kept = {"id": key, **{name: value for name, value in found.items() if source.random() < 0.8}}
        return dict(world.issue.validator.record(kept))

    kind = source.random()
    if kind < 0.5:
        world.live.write(("put", world.issue, issue(str(source.randrange(8)))))
    elif kind < 0.6:
        world.live.write(("delete", world.issue, str(source.randrange(8))))
    elif kind < 0.75:
        members = [name for name in (*NAMES, "r", "g") if source.random() < 0.4]
        project = {"id": source.choice("pq"), "members": members, "open": source.random() < 0.3, "teamId": source.choice("tu")}
        world.live.write(("put", world.tables["Project"], project))
    elif kind < 0.85:
        people = [name for name in NAMES if source.random() < 0.5]
        world.live.write(("put", world.tables["Team"], {"id": source.choice("tu"), "people": people}))
    elif kind < 0.97:
        world.live.write(("put", world.tables["Person"], {"username": source.choice(NAMES), "kind": source.choice("rg")}))
    else:
        world.live.write(("delete", world.tables["Person"], source.choice(NAMES)))


@pytest.mark.parametrize("seed", range(24))
def test_clients_have_what_the_query_finds(world: World, seed: int) -> None:
    source = random.Random(seed)
    world.live.live._users = None  # who has one name, and several roles
    users = {(name, role): world.user(name, role) for name in NAMES for role in ROLES}
    for _ in range(30):
        if source.random() < 0.25 and len(world.clients) < 10:
            user = users[source.choice(NAMES), source.choice(ROLES)]
            world.follow(source.choice(QUERIES), user, strict=False)
        for _ in range(source.choice([1, 1, 2, 5])):
            random_change(world, source)
            if source.random() < 0.5:
                world.live.commit()
        world.live.commit()
        if source.random() < 0.3:
            world.pass_time(source.choice([1, 10]))
        if source.random() < 0.5:
            world.pass_time(1)
            world.check()
    world.pass_time(1)
    world.check()
