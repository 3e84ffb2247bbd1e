"""One set of rules, every way to follow records: streams of events, WebSockets, MQTT, live queries, subscriptions of GraphQL; while records, related records,
roles and the time change (spec: rows §1.3, §1.6)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svc.testing
from tests.property.test_rules_everywhere import NAMES, Tracker
from tests.support import tracker
from tests.support.profile import half_by_day

CLIENTS = count()
TABLES = ("Project", "Issue", "Comment")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracker]:
    path = tracker.write_app(tmp_path_factory.mktemp("followed"))
    (path / "config.yaml").write_text("graphqlSchema: {files: schema.graphql}\nrest: true\ngraphql: {extended: true}\n")
    with svc.testing.app(str(path)) as app:
        yield Tracker(app)


class Followed:
    """What a client has made of the events of a table, and whom it is for. `fresh`: (key, value) of puts since the last look."""

    def __init__(self, site: Tracker, table: str, name: str) -> None:
        self.site, self.table, self.name = site, table, name
        self.has: dict[str, Any] = {}
        self.fresh: list[dict[str, Any]] = []

    def put(self, key: str, value: dict[str, Any]) -> None:
        self.has[key] = value
        self.fresh.append({**value, "id": key})

    def look(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class EventFollower(Followed):
    """Over SSE or WebSocket."""

    def __init__(self, site: Tracker, table: str, name: str, kind: str) -> None:
        super().__init__(site, table, name)
        open_source = site.app.events if kind == "sse" else site.app.connect
        self.source: Any = open_source(f"/{table}/", user=name)

    def look(self) -> None:
        for event in self.source.take():
            if event["type"] == "put":
                self.put(event["id"], event["value"])
            else:
                assert event["type"] == "delete" and event["value"] is None
                self.has.pop(event["id"], None)

    def close(self) -> None:
        self.source.close()


class MqttFollower(Followed):
    """With a session that lasts, whose connection comes and goes."""

    def __init__(self, site: Tracker, table: str, name: str, client_id: str) -> None:
        super().__init__(site, table, name)
        self.client_id = client_id
        self.source = self.connect(clean=True)
        self.source.disconnect()
        self.source = self.connect(clean=False)
        assert self.source.subscribe(f"{table}/#", 1) == 1

    def connect(self, *, clean: bool) -> Any:
        return self.site.app.mqtt(self.client_id, clean=clean, properties={0x11: 1000}, user=self.name)

    def come_back(self) -> None:
        self.look()
        self.source.cancel()
        self.source = None

    def look(self) -> None:
        if self.source is None:
            return
        for message in self.source.take():
            key = message.topic.partition("/")[2]
            if message.payload:
                self.put(key, message.json)
            else:
                self.has.pop(key, None)

    def close(self) -> None:
        self.source = self.source or self.connect(clean=False)
        self.source.disconnect(properties={0x11: 0})


class LiveFollower(Followed):
    def __init__(self, site: Tracker, table: str, name: str) -> None:
        super().__init__(site, table, name)
        self.source = site.app.live(f"/{table}/", user=name)

    def look(self) -> None:
        assert self.source.is_open, (self.source.error, self.table, self.name)
        self.has = {row["id"]: row for row in self.source}

    def close(self) -> None:
        self.source.close()


class GraphqlFollower(Followed):
    def __init__(self, site: Tracker, table: str, name: str) -> None:
        super().__init__(site, table, name)
        self.source = site.app.connect("/graphql", headers={"Sec-WebSocket-Protocol": "graphql-transport-ws"}, user=name)
        self.source.send({"type": "connection_init"})
        self.source.send({"id": "1", "type": "subscribe", "payload": {"query": f"subscription {{ {table} {{ id }} }}"}})

    def look(self) -> None:
        for message in self.source.take():
            if message["type"] == "next":
                self.has = {row["id"]: row for row in message["payload"]["data"][self.table]}
            else:
                assert message["type"] == "connection_ack", message

    def close(self) -> None:
        self.source.close()


def is_readable(site: Tracker, follower: Followed, record: dict[str, Any]) -> bool:
    data = {each: list(records.values()) for each, records in site.data.items()}
    return tracker.may_read(follower.table, record, follower.name, data, site.now_ms, site.roles[follower.name])


def plain(record: dict[str, Any]) -> dict[str, Any]:
    """A comment has its time as text."""
    until = record.get("until")
    if not isinstance(until, str):
        return record
    return {**record, "until": datetime.fromisoformat(until).timestamp() * 1000}


def change(site: Tracker, source: random.Random) -> None:
    """As `Tracker.change`, with comments that are soon not there any more."""
    if source.random() < 0.7:
        site.change(source)
        return
    until = int(site.now_ms) + source.choice([-1000, 20_000])
    record = {
        "id": f"c{source.randrange(8)}",
        "author": source.choice(NAMES),
        "until": until,
        "text": "t",
        "issueId": f"i{source.randrange(8)}",
    }
    site.put("Comment", record)


@settings(max_examples=half_by_day(6), deadline=None)
@given(st.integers(0, 2**32))
def test_followers_are_told_of_what_they_may_read(site: Tracker, seed: int) -> None:
    """Each event may be read when it comes; when each record has been written again, all is there that may be read."""
    source = random.Random(seed)
    site.reset()
    for _ in range(6):
        change(site, source)
    followers: list[Followed] = []
    for _ in range(4):
        table, name = source.choice(TABLES), source.choice(NAMES)
        followers.append(EventFollower(site, table, name, source.choice(["sse", "ws"])))
        followers.append(MqttFollower(site, source.choice(TABLES), source.choice(NAMES), f"client-{next(CLIENTS)}"))

    def look() -> None:
        site.app.settle()
        for follower in followers:
            follower.look()
            for record in follower.fresh:
                assert is_readable(site, follower, plain(record)), (follower.table, follower.name, record)
            follower.fresh.clear()

    look()
    for _ in range(20):
        change(site, source)
        look()
        if source.random() < 0.1:
            site.app.clock.advance(source.choice([1, 21]))
        follower = source.choice(followers)
        if isinstance(follower, MqttFollower):
            if follower.source is None:
                follower.source = follower.connect(clean=False)
                site.app.settle()
                follower.look()  # what happened meanwhile, by the rules of now: of a record that was, what it was
                follower.fresh.clear()
            elif source.random() < 0.5:
                follower.come_back()
    for follower in followers:
        if isinstance(follower, MqttFollower) and follower.source is None:
            follower.source = follower.connect(clean=False)
            site.app.settle()
            follower.look()
            follower.fresh.clear()
    for table in TABLES:
        for key, record in list(site.data[table].items()):
            if table != "Issue" or site.app.get(f"/Issue/{key}").status == 200:
                site.put(table, {**record, "weight": source.randrange(100)} if table == "Issue" else record)
                look()
    for follower in followers:
        assert site.visible(follower.table, follower.name) <= follower.has.keys(), (type(follower), follower.table, follower.name)
        follower.close()


@settings(max_examples=half_by_day(6), deadline=None)
@given(st.integers(0, 2**32))
def test_live_queries_are_what_may_be_read(site: Tracker, seed: int) -> None:
    """Whatever changes."""
    source = random.Random(seed)
    site.reset()
    followers: list[Followed] = []
    for table in TABLES:
        followers += [kind(site, table, source.choice(NAMES)) for kind in (LiveFollower, GraphqlFollower)]
    for _ in range(16):
        for _ in range(source.choice([1, 1, 4])):
            change(site, source)
        if source.random() < 0.3:
            site.app.clock.advance(source.choice([1, 21]))
        site.app.clock.advance(1.5)
        site.app.settle()
        for follower in followers:
            follower.look()
            expected = site.visible(follower.table, follower.name)
            assert follower.has.keys() == expected, (type(follower), follower.table, follower.name, site.roles[follower.name])
    for follower in followers:
        follower.close()
