"""Shared subscriptions: each message goes to one of the members, and none is lost when one of them leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import svc.testing
from svc.mqtt.group_rows import GROUP
from svc.protocol import mqtt_properties as p
from svc.protocol.mqtt_packets import V3, Ack, Publish
from svc.siblings import Siblings
from svc.store.side_rows import scan_rows
from svc.testing.application import Application
from svc.testing.mqtt import MqttClient
from tests.support.mqtt import broker_of, crash
from tests.unit.testing.conftest import write_application

SCHEMA = "type Job @table @export { id: ID @primaryKey n: Int secret: String }\n"
LASTS: dict[str, Any] = {"clean": False, "properties": {p.SESSION_EXPIRY: 1000}}
SHARED = "$share/workers/Job/#"


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    with svc.testing.app(write_application(tmp_path_factory.mktemp("mqtt") / "jobs", files)) as app:
        yield app


def group_rows(app: Application) -> int:
    database = broker_of(app).stored.store.databases["data"]
    return sum(1 for _ in scan_rows(database, database.snapshot(), GROUP))


@pytest.fixture
def app(module_app: Application) -> Iterator[Application]:
    module_app.delete("/Job/")
    yield module_app
    for each in list(module_app._instance.sockets):
        if isinstance(each.client, MqttClient):
            each.client.cancel()
    for record in list(broker_of(module_app).stored.each()):
        if record is not None:
            module_app.mqtt(record["id"], user=record["user"]).disconnect()
    assert group_rows(module_app) == 0 and not broker_of(module_app).groups


def numbers(client: MqttClient) -> list[int]:
    return [each.json["n"] for each in client.take()]


def publish(app: Application, *sent: int, qos: int = 1) -> None:
    writer = app.mqtt("writer")
    for n in sent:
        assert writer.publish("Job/a", {"n": n}, qos) == 0
    writer.disconnect()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_message_goes_to_one(app: Application, qos: int) -> None:
    app.put("/Job/there", {"n": -1})
    members = [app.mqtt(f"m{number}") for number in range(3)]
    for member in members:
        assert member.subscribe(SHARED, qos) == qos
    other = app.mqtt("other")
    other.subscribe("$share/others/Job/#", qos)
    alone = app.mqtt("alone")
    alone.subscribe("Job/#", qos, retain_handling=2)
    publish(app, *range(9), qos=2)
    assert [numbers(member) for member in members] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]], "no retained messages, and each in turn"
    assert numbers(other) == numbers(alone) == list(range(9))
    assert members[1].unsubscribe(SHARED) == 0 and members[1].unsubscribe(SHARED) == 0x11
    publish(app, *range(4), qos=2)
    assert Counter(numbers(members[0]) + numbers(members[2])) == Counter(range(4)) and numbers(members[1]) == []


def test_what_is_refused(app: Application) -> None:
    old = app.mqtt("old", version=V3)
    assert old.subscribe(SHARED, 1) == 0x80
    client = app.mqtt("m")
    for filter in ("$share/Job/#", "$share//Job/#", "$share/a+/Job/#", "$share/g/Nothing/#", "$share/g/", "$share/g"):
        assert client.subscribe(filter, 1) >= 0x80, filter
    with pytest.raises(AssertionError):
        client.subscribe(SHARED, 1, no_local=True)
    assert (client.is_open, client.reason) == (False, 0x82)


def test_one_that_has_no_room_is_passed_over(app: Application) -> None:
    slow = app.mqtt("slow", acknowledges=False, properties={p.RECEIVE_MAXIMUM: 2})
    quick = app.mqtt("quick")
    for member in (slow, quick):
        member.subscribe(SHARED, 1)
    publish(app, *range(10))
    assert numbers(slow) == [0, 2] and numbers(quick) == [1, *range(3, 10)]


def test_all_that_stall_hold_up_nobody_else(app: Application) -> None:
    members = [app.mqtt(f"m{number}", acknowledges=False, properties={p.RECEIVE_MAXIMUM: 1}) for number in range(2)]
    for member in members:
        member.subscribe(SHARED, 1)
    alone = app.mqtt("alone")
    alone.subscribe("Job/#", 1)
    publish(app, *range(200))
    assert [len(member) for member in members] == [1, 1] and numbers(alone) == list(range(200))
    (group,) = broker_of(app).groups.values()
    assert len(group._queue) <= 64
    members[0]._acknowledges = True
    members[0].acknowledge(members[0][0])
    for _ in range(20):
        members[0].ping()
    assert Counter(numbers(members[0]) + numbers(members[1])) == Counter(range(200))


@pytest.mark.parametrize("ends", ["cancel", "disconnect", "unsubscribe"])
def test_what_one_has_not_acknowledged_is_given_to_another(app: Application, ends: str) -> None:
    first = app.mqtt("first", acknowledges=False, **LASTS)
    first.subscribe(SHARED, 1)
    publish(app, 1, 2, 3)
    assert len(first) == 3
    second = app.mqtt("second", **LASTS)
    second.subscribe(SHARED, 1)
    assert len(second) == 0
    first.acknowledge(first[1])
    first.unsubscribe(SHARED) if ends == "unsubscribe" else getattr(first, ends)()
    assert numbers(second) == [1, 3]
    if ends != "unsubscribe":
        first = app.mqtt("first", **LASTS)
        assert first.session_present and len(first) == 0, "it was given to another"


def test_at_qos_2_it_stays_with_its_session(app: Application) -> None:
    first = app.mqtt("first", acknowledges=False, **LASTS)
    first.subscribe(SHARED, 2)
    publish(app, 1, 2, qos=2)
    second = app.mqtt("second", **LASTS)
    second.subscribe(SHARED, 2)
    first.cancel()
    assert numbers(second) == []
    crash(app)
    second = app.mqtt("second", **LASTS)
    publish(app, 3, qos=2)
    assert numbers(second) == [3]
    first = app.mqtt("first", **LASTS)
    again = [each.dup for each in first.packets if type(each) is Publish]
    assert again == [True, True] and numbers(first) == [], "they were received before, and are not two"


def test_at_qos_2_it_is_given_to_nobody_when_its_session_ends(app: Application) -> None:
    first = app.mqtt("first", acknowledges=False)
    first.subscribe(SHARED, 2)
    second = app.mqtt("second")
    publish(app, 1, qos=2)
    second.subscribe(SHARED, 2)
    first.cancel()
    assert numbers(second) == []
    publish(app, 2, qos=2)
    assert numbers(second) == [2]


def test_an_answer_that_refuses_ends_it_for_all(app: Application) -> None:
    first = app.mqtt("first", acknowledges=False)
    first.subscribe(SHARED, 1)
    publish(app, 1)
    second = app.mqtt("second")
    second.subscribe(SHARED, 1)
    first._send(Ack(p.PUBACK, first[0].packet_id, 0x83))
    first.cancel()
    assert numbers(second) == []


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("crashes", [True, False])
def test_a_group_goes_on(app: Application, qos: int, crashes: bool) -> None:
    """Its members are away, or the server ends: what comes meanwhile is theirs."""
    names = ["first", "second"]
    members = [app.mqtt(name, **LASTS) for name in names]
    for member in members:
        member.subscribe(SHARED, qos)
    publish(app, 0, 1, 2, qos=2)
    got = [n for member in members for n in numbers(member)]
    if crashes:
        app.clock.advance(2)
        crash(app)
    else:
        for member in members:
            member.cancel()
    publish(app, 3, 4, qos=2)
    members = [app.mqtt("second", **LASTS)]
    got += numbers(members[0])
    crash(app)
    publish(app, 5, qos=2)
    members = [app.mqtt("first", **LASTS), app.mqtt("second", **LASTS)]
    publish(app, 6, qos=2)
    got += [n for member in members for n in numbers(member)]
    if qos == 2:
        assert sorted(got) == list(range(7)), "each once"
    else:
        assert set(got) == set(range(7))


def test_a_group_of_sessions_that_do_not_last_ends_with_them(app: Application) -> None:
    first = app.mqtt("first")
    first.subscribe(SHARED, 1)
    publish(app, 1)
    first.cancel()
    publish(app, 2)
    first = app.mqtt("first")
    first.subscribe(SHARED, 1)
    publish(app, 3)
    assert numbers(first) == [3] and group_rows(app) == 0


def test_a_group_whose_sessions_have_ended_begins_anew(app: Application) -> None:
    first = app.mqtt("first", clean=False, properties={p.SESSION_EXPIRY: 60})
    first.subscribe(SHARED, 1)
    publish(app, 1)
    first.cancel()
    app.clock.advance(61)
    publish(app, 2)
    second = app.mqtt("second", **LASTS)
    second.subscribe(SHARED, 1)
    publish(app, 3)
    assert numbers(second) == [3]
    second.disconnect()
    assert group_rows(app) == 1
    app.clock.advance(3700)
    assert group_rows(app) == 0, "the second has ended too"


def test_one_process_removes_what_is_left(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    client = app.mqtt("brief", clean=False, properties={p.SESSION_EXPIRY: 60})
    client.subscribe(SHARED, 1)
    client.cancel()
    with monkeypatch.context() as leads_not:
        leads_not.setattr(Siblings, "is_leader", property(lambda siblings: False))
        app.clock.advance(3700)
        assert group_rows(app) == 1
    app.clock.advance(3700)
    assert group_rows(app) == 0


def test_each_sees_what_it_may(app: Application) -> None:
    rights = {
        "read": True,
        "insert": False,
        "update": False,
        "delete": False,
        "attribute_permissions": [{"attribute_name": "n", "read": True, "insert": False, "update": False}],
    }
    app.operation("add_role", role="worker", permission={"data": {"tables": {"Job": rights}}})
    app.operation("add_user", username="worker", password="a-long-password", role="worker", active=True)
    mine, theirs = app.mqtt("mine"), app.mqtt("theirs", user="worker")
    for member in (mine, theirs):
        assert member.subscribe(SHARED, 1) == 1
    for n in range(4):
        app.put(f"/Job/{n}", {"n": n, "secret": "s"})
    assert [each.json.get("secret") for each in mine.take()] == ["s", "s"]
    assert [(each.json["n"], each.json.get("secret")) for each in theirs.take()] == [(1, None), (3, None)]
    rights.update(read=False, attribute_permissions=[])
    app.operation("alter_role", id="worker", role="worker", permission={"data": {"tables": {"Job": rights}}})
    for n in range(4):
        app.put(f"/Job/{n}", {"n": n})
    assert numbers(mine) == [0, 1, 2, 3] and numbers(theirs) == []
    assert theirs.subscribe("$share/x/Job/#") == 0x87
