"""What a subscription to free topics receives, retained and live, is what the rules of the standard say (MQTT 5 §4.7), whatever topics and filters are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import svc.testing
from svc.testing.application import Application
from tests.unit.testing.conftest import write_application

RESOURCE = "r"
SCHEMA = """
type R @table @export(name: "r") { id: ID @primaryKey }
type Topic @table @export(mqtt: false) { id: ID @primaryKey contentType: String data: Bytes updatedTime: Date @updatedTime }
"""

levels = st.sampled_from(("a", "b", "", "$", RESOURCE, "a?"))
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
filters = (
    st.tuples(st.lists(levels | st.just("+"), max_size=4), st.sampled_from(([], ["#"], ["+"])))
    .map(lambda each: "/".join(each[0] + each[1]))
    .filter(bool)
)
payloads = st.sampled_from((b"1.0", b'{"a": 1.0}', b""))
publishing = st.tuples(topics, payloads, st.booleans())
steps = st.lists(publishing | filters, min_size=1, max_size=12)


def matches(filter: list[str], topic: list[str]) -> bool:
    """Level by level, as the standard has it."""
    if not filter:
        return not topic
    if filter == ["#"]:
        return True
    return bool(topic) and filter[0] in ("+", topic[0]) and matches(filter[1:], topic[1:])


def is_free(topic: str) -> bool:
    return not topic.startswith("$") and topic.split("/")[0] != RESOURCE


def expected_of(filter: str, topic: str) -> bool:
    parts = filter.split("/")
    # `a/#` covers `a`: the end of the topic may be where `#` stands.
    return is_free(topic) and (matches(parts, topic.split("/")) or (parts[-1] == "#" and matches(parts[:-1], topic.split("/"))))


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    directory = write_application(tmp_path_factory.mktemp("free") / "things", files)
    with svc.testing.app(directory, mqtt_freeTopics="data.Topic") as app:
        yield app


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps)
def test_what_a_subscription_receives(app: Application, steps: list[tuple[str, bytes, bool] | str]) -> None:
    app.delete("/Topic/")
    writer = app.mqtt("writer")
    retained: dict[str, bytes] = {}
    readers = []  # (filter, client, what it has to get)
    for step in steps:
        if isinstance(step, str):
            client = app.mqtt(f"reader{len(readers)}")
            of_resource = step.split("/")[0] == RESOURCE
            granted = client.subscribe(step, 1)
            if of_resource or step.startswith("$"):
                client.disconnect()
                assert of_resource or granted == 0x8F
                continue
            assert granted == 1
            found = sorted((topic, payload, True) for topic, payload in retained.items() if expected_of(step, topic))
            assert sorted((each.topic, each.payload, each.retain) for each in client.take()) == found
            readers.append((step, client))
            continue
        topic, payload, retain = step
        reason = writer.publish(topic, payload, 1, retain=retain)
        if not is_free(topic):
            assert reason == 0x90 or topic.split("/")[0] == RESOURCE
            topic = ""
        else:
            assert reason == 0
        if topic and retain:
            retained.pop(topic, None)
            if payload:
                retained[topic] = payload
        for filter, client in readers:
            told = [(topic, payload, False)] if topic and expected_of(filter, topic) else []
            assert [(each.topic, each.payload, each.retain) for each in client.take()] == told, filter
    assert sorted(record["id"] for record in app.get("/Topic/").json) == sorted(retained)
    for _, client in readers:
        client.disconnect()
    writer.disconnect()
