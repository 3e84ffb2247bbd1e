"""A durable subscriber that is cut off, whose server crashes, and that answers late: what it receives, against a list of what was published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svc.testing
from svc.protocol import mqtt_properties as p
from svc.testing.application import Application
from svc.testing.mqtt import Message, MqttClient
from tests.support.mqtt import crash
from tests.unit.testing.conftest import write_application

SCHEMA = "type Event @table @export { id: ID @primaryKey n: Int }\n"
LASTS: dict[str, Any] = {"clean": False, "properties": {p.SESSION_EXPIRY: 10_000, p.RECEIVE_MAXIMUM: 3}, "acknowledges": False}
FILTERS = ["Event/#", "Event/+", "Event/a", "Event/+/b"]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from(["Event", "Event/a", "Event/a/b", "Event/c"]), st.integers(0, 2)),
        st.tuples(st.just("put"), st.sampled_from(["a", "a/b", "c"])),
        st.tuples(st.just("acknowledge"), st.integers(0, 5)),
        st.tuples(st.just("wait")),
        st.tuples(st.just("cut")),
        st.tuples(st.just("crash")),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    with svc.testing.app(write_application(tmp_path_factory.mktemp("mqtt") / "events", files)) as app:
        yield app


def is_covered(filter: str, topic: str) -> bool:
    """By the rules of the standard (MQTT 5 §4.7.1)."""
    levels, parts = filter.split("/"), topic.split("/")
    for number, level in enumerate(levels):
        if level == "#":
            return True
        if number >= len(parts) or level not in ("+", parts[number]):
            return False
    return len(levels) == len(parts)


class Subscriber:
    """`seen`: the messages in the order in which they came, repetitions included."""

    def __init__(self, app: Application, filter: str, qos: int) -> None:
        self.app = app
        self.seen: list[Message] = []
        self.client: MqttClient = app.mqtt("reader", clean=True)
        self.client.disconnect()
        self.connect()
        assert self.client.subscribe(filter, qos) == qos

    def connect(self) -> None:
        self.client = self.app.mqtt("reader", **LASTS)
        self.open: list[Message] = []

    def look(self) -> None:
        for message in self.client.take():
            self.seen.append(message)
            if message.qos:
                self.open.append(message)

    def acknowledge(self, number: int) -> None:
        self.look()
        if number < len(self.open):
            self.client.acknowledge(self.open.pop(number))

    def finish(self) -> None:
        """Over a new connection everything comes, and is acknowledged."""
        self.client.cancel()
        self.client = self.app.mqtt("reader", **{**LASTS, "acknowledges": True})
        for _ in range(3):
            self.client.ping()
        self.seen += self.client.take()
        self.client.disconnect()


@settings(max_examples=100)
@given(steps=steps, filter=st.sampled_from(FILTERS), qos=st.sampled_from([1, 2]))
def test_what_a_subscriber_receives(app: Application, steps: list[tuple[Any, ...]], filter: str, qos: int) -> None:
    app.delete("/Event/")
    subscriber = Subscriber(app, filter, qos)
    writer = app.mqtt("writer")
    published: list[tuple[int, str, int]] = []  # number, topic, QoS at which it is to come
    crashed_early = False
    waited = False
    for number, step in enumerate(steps):
        kind, *values = step
        if kind == "publish":
            topic, published_at = values
            writer.publish(topic, {"n": number}, published_at)
            if is_covered(filter, topic):
                published.append((number, topic, min(qos, published_at)))
        elif kind == "put":
            app.put(f"/Event/{values[0]}", {"n": number})
            if is_covered(filter, f"Event/{values[0]}"):
                published.append((number, f"Event/{values[0]}", qos))
        elif kind == "acknowledge":
            subscriber.acknowledge(*values)
        elif kind == "wait":
            app.clock.advance(1.5)  # positions are written
            waited = True
        elif kind == "cut":
            subscriber.look()
            subscriber.client.cancel()
            subscriber.connect()
        else:
            subscriber.look()
            crash(app)
            crashed_early |= not waited
            subscriber.connect()
            writer = app.mqtt("writer")
    subscriber.look()
    subscriber.finish()
    for at in (1, 2):
        came = [
            (each.json["n"], each.topic, each.dup) for each in subscriber.seen if each.qos == at and not (crashed_early and each.retain)
        ]
        first = list(dict.fromkeys((n, topic) for n, topic, _ in came))
        expected = [(n, topic) for n, topic, comes_at in published if comes_at == at]
        if crashed_early:  # current records come in their own order, in place of changes
            assert set(expected) >= set(first)
            assert {topic for _, topic in expected} == {topic for _, topic in first} | {
                e.topic for e in subscriber.seen if e.retain and e.qos == at
            }
        else:
            assert first == expected, at
            if at == 2:
                assert len(came) == len(first), "exactly once"
    at_most_once = [(each.json["n"], each.topic) for each in subscriber.seen if each.qos == 0]
    assert len(at_most_once) == len(set(at_most_once))
    assert set(at_most_once) <= {(n, topic) for n, topic, comes_at in published if comes_at == 0}
    writer.disconnect()
