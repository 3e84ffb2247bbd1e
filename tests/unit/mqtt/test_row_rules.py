"""Rules on rows in MQTT: what a client is sent when it subscribes, what it may publish, what its will may do (spec: rows §1.3, §1.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import svc.testing
from svc.protocol.mqtt_values import NOT_AUTHORIZED, SUCCESS, TOPIC_INVALID
from svc.testing.application import Application
from tests.support import tracker
from tests.support.mqtt import crash

NAMES = ("ann", "bob")


@pytest.fixture
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with svc.testing.app(str(tracker.write_app(tmp_path_factory.mktemp("tracker")))) as app:
        app.operation("add_role", role="member", permission=tracker.PERMISSION)
        for name in NAMES:
            app.operation("add_user", username=name, password="blue-heron-7", role="member", active=True)
        yield app


def put(app: Application, key: str, **record: Any) -> None:
    assert app.put(f"/Issue/{key}", record).status == 204


def stored(app: Application, key: str) -> Any:
    answer = app.get(f"/Issue/{key}")
    return answer.json if answer.status == 200 else None


def topics(client: Any) -> list[tuple[str, bool]]:
    return [(message.topic, message.retain) for message in client.take()]


@pytest.mark.parametrize("filter_", ["Issue/#", "Issue/+"])
def test_retained_messages_are_those_that_may_be_read(app: Application, filter_: str) -> None:
    put(app, "1", owner="ann")
    put(app, "2", owner="bob")
    put(app, "3", owner="bob", public=True)
    client = app.mqtt(user="ann")
    assert client.subscribe(filter_) == 0
    assert topics(client) == [("Issue/1", True), ("Issue/3", True)]


def test_a_topic_that_is_not_there_is_as_one_without_a_record(app: Application) -> None:
    put(app, "2", owner="bob")
    client = app.mqtt(user="ann")
    assert client.subscribe("Issue/2") == client.subscribe("Issue/none") == 0
    assert client.take() == []
    put(app, "2", owner="ann")
    put(app, "2", owner="bob")
    assert [message.payload != b"" for message in client.take()] == [True, False]
    put(app, "2", owner="bob", weight=3)
    app.delete("/Issue/2")
    assert client.take() == []


def test_retained_publishes_ask_as_put_does(app: Application) -> None:
    client = app.mqtt(user="ann")
    assert client.publish("Issue/1", {"owner": "ann", "weight": 1}, 1, retain=True) == SUCCESS
    assert client.publish("Issue/1", {"owner": "bob"}, 1, retain=True) == NOT_AUTHORIZED
    assert client.publish("Issue/2", {"owner": "bob"}, 1, retain=True) == NOT_AUTHORIZED
    assert stored(app, "1") == {"id": "1", "owner": "ann", "weight": 1}
    put(app, "3", owner="bob", state="draft")
    assert client.publish("Issue/3", {"owner": "ann"}, 1, retain=True) == TOPIC_INVALID, "it is not there"
    put(app, "4", owner="bob", state="draft", public=True)
    assert client.publish("Issue/4", {"owner": "ann"}, 1, retain=True) == NOT_AUTHORIZED
    assert client.publish("Issue/4", b"", 1, retain=True) == NOT_AUTHORIZED
    assert client.publish("Issue/3", b"", 1, retain=True) == client.publish("Issue/none", b"", 1, retain=True)
    assert stored(app, "3") and stored(app, "4")
    assert client.publish("Issue/1", b"", 1, retain=True) == NOT_AUTHORIZED, "it is no draft"
    put(app, "1", owner="ann", state="draft")
    assert client.publish("Issue/1", b"", 1, retain=True) == SUCCESS
    assert stored(app, "1") is None


def test_what_is_not_there_for_the_sender_is_not_said_to_have_gone(app: Application) -> None:
    put(app, "3", owner="bob")
    bob = app.mqtt(user="bob")
    bob.subscribe("Issue/3")
    bob.take()
    ann = app.mqtt(user="ann")
    ann.publish("Issue/3", b"", 1, retain=True)
    assert bob.take() == []


def test_messages_ask_create_and_are_read_as_records(app: Application) -> None:
    ann, bob = app.mqtt(user="ann"), app.mqtt(user="bob")
    for client in (ann, bob):
        client.subscribe("Issue/#")
    assert ann.publish("Issue/7", {"owner": "ann", "weight": 2}, 1) == SUCCESS
    assert ann.publish("Issue/7", {"owner": "bob"}, 1) == NOT_AUTHORIZED
    assert ann.publish("Issue/7", b"text", 1) == NOT_AUTHORIZED
    assert [message.json for message in ann.take()] == [{"owner": "ann", "weight": 2}]
    assert bob.take() == []
    put(app, "8", owner="bob")
    bob.take()
    root = app.mqtt()
    assert root.publish("Issue/8", {"weight": 9}, 1) == SUCCESS
    assert [message.json for message in bob.take()] == [{"weight": 9}]
    assert ann.take() == []


@pytest.mark.parametrize(("payload", "is_written"), [(b'{"owner":"ann"}', True), (b'{"owner":"bob"}', False)])
def test_a_will_has_the_rights_of_its_client(app: Application, payload: bytes, is_written: bool) -> None:
    client = app.mqtt("c1", user="ann", will=("Issue/9", payload, 1, True))
    client.cancel()
    app.settle()
    assert (stored(app, "9") is not None) is is_written


def test_a_will_of_before_a_crash_too(app: Application) -> None:
    app.mqtt("c1", user="ann", will=("Issue/1", b'{"owner":"bob"}', 1, True))
    app.mqtt("c2", user="ann", will=("Issue/2", b'{"owner":"ann"}', 1, True))
    crash(app)
    app.clock.advance(5)
    app.settle()
    assert stored(app, "1") is None
    assert stored(app, "2") == {"id": "2", "owner": "ann"}


def test_a_session_that_comes_back_catches_up_with_what_it_may_read(app: Application) -> None:
    put(app, "1", owner="ann")
    put(app, "2", owner="ann")
    client = app.mqtt("c1", clean=False, user="ann", properties={0x11: 1000})
    client.subscribe("Issue/#", 1)
    client.cancel()
    put(app, "1", owner="bob")
    put(app, "1", owner="bob", weight=2)
    put(app, "3", owner="bob")
    put(app, "4", owner="bob")
    put(app, "4", owner="ann")
    app.delete("/Issue/3")
    client = app.mqtt("c1", clean=False, user="ann", properties={0x11: 1000})
    app.settle()
    assert [(message.topic, message.payload != b"") for message in client.take()] == [("Issue/1", False), ("Issue/4", True)]


def test_what_was_not_acknowledged_is_not_sent_again_when_it_may_not_be_read(app: Application) -> None:
    client = app.mqtt("c1", clean=False, user="ann", properties={0x11: 1000}, acknowledges=False)
    client.subscribe("Issue/#", 1)
    put(app, "1", owner="ann")
    assert len(client.take()) == 1
    crash(app)
    app.operation("alter_role", id="member", permission={"data": {"tables": {"Issue": {**tracker.RIGHTS, "read": False}}}})
    client = app.mqtt("c1", clean=False, user="ann", properties={0x11: 1000})
    app.settle()
    assert client.take() == []
