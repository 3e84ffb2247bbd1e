"""Topics and filters as addresses: those of resources, and those that no resource has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from svc.mqtt.addresses import Addresses, Filter
from svc.mqtt.free_topics import ADDRESS
from svc.resources import Registration, Resource, Resources


class Table(Resource):
    """Stands for that of the free topics."""


class Sensor(Resource):
    pass


class Other(Resource):
    pass


class FreeTable:
    """`FreeTopics` with a table that is there, or not."""

    def __init__(self) -> None:
        self.registration: Registration | None = Registration(ADDRESS, Table)


def addresses_of(*, free: bool) -> tuple[Addresses, Resources, FreeTable]:
    resources = Resources()
    resources.set("Sensor", Sensor)
    resources.set("shop/Item", Other)
    resources.set("Hidden", Other, {"mqtt": False})
    resources.set("Torn", Sensor)
    resources.set("Torn", Other)
    resources.set("room/:name", Other)
    addresses = Addresses(resources)
    table = FreeTable()
    if free:
        addresses.free = table  # type: ignore[assignment]  # it has what is asked for
    return addresses, resources, table


OF_RESOURCES = ["Sensor", "Sensor/a", "Sensor/a/b%20", "shop/Item/1", "room/5", "room/5/x"]
REFUSED = ["", "$SYS/x", "$", "Sensor//a", "Sensor/a/", "Sensor/a?b", "Hidden/a", "Hidden", "Torn/a", "room/5//x"]
FREE = [
    "a",
    "/",
    "//",
    "/a",
    "a/",
    "a//b",
    "/Sensor/a",
    "a?b=c%20",
    "Sensors/a",
    "sensor/a",
    "shop/a",
    "shop",
    "room",
    "room//x",
    "é ü/°C",
    " ",
]


@pytest.mark.parametrize("free", [False, True])
def test_topics(free: bool) -> None:
    addresses, _, _ = addresses_of(free=free)
    for _ in range(2):  # what is remembered is the same
        for topic in OF_RESOURCES:
            found = addresses.find(topic)
            assert found is not None and not found.is_free, topic
        for topic in REFUSED:
            assert addresses.find(topic) is None, topic
        for topic in FREE:
            found = addresses.find(topic)
            assert (found is not None) == free, topic
            if found is not None:
                target = found.target()
                assert (found.is_free, found.resource, target.id, target.id_text) == (True, Table, topic, topic)


@pytest.mark.parametrize(
    "topic",
    ["a" * 660, "é" * 659 + "x" * 2, "\U0001f600" * 600, "a\1b", "a\x7f", "a\x85", "a\ufffe", "a\ufdd0", "a\U0001ffff", "a+b", "a#"],
)
def test_topics_that_cannot_be_keys(topic: str) -> None:
    addresses, _, _ = addresses_of(free=True)
    assert addresses.find(topic) is None


def kind_of(found: Filter | None) -> Any:
    if found is None:
        return None
    return ("free" if found.is_free else found.registration.path, found.text, found.is_deep, found.has_children, found.pattern)


FILTERS: list[tuple[str, Any]] = [
    ("Sensor/#", ("Sensor", "", True, False, None)),
    ("Sensor/+", ("Sensor", "", False, True, None)),
    ("Sensor/+/x", ("Sensor", "", False, False, ("+", "x"))),
    ("Sensor//#", None),
    ("Sensor/", None),
    ("Hidden/#", None),
    ("Torn/+", None),
    ("room/5/#", ("room/:name", "", True, False, None)),
    ("$SYS/#", None),
    ("$share/g/a", None),
    ("a#", None),
    ("#/a", None),
    ("#", ("free", "", True, False, None)),
    ("+", ("free", "", False, False, ("+",))),
    ("+/#", ("free", "", False, False, ("+", "#"))),
    ("+/x", ("free", "", False, False, ("+", "x"))),
    ("/#", ("free", "", False, False, ("", "#"))),
    ("/+", ("free", "", False, False, ("", "+"))),
    ("/", ("free", "/", False, False, None)),
    ("//#", ("free", "/", True, False, None)),
    ("/a", ("free", "/a", False, False, None)),
    ("a/", ("free", "a/", False, False, None)),
    ("a", ("free", "a", False, False, None)),
    ("a/#", ("free", "a", True, False, None)),
    ("a//#", ("free", "a/", True, False, None)),
    ("a/+", ("free", "", False, False, ("a", "+"))),
    ("homeassistant/+/+/config", ("free", "", False, False, ("homeassistant", "+", "+", "config"))),
    ("shop/#", ("free", "shop", True, False, None)),
    ("shop/+/1", ("free", "", False, False, ("shop", "+", "1"))),
    ("room/+", ("free", "", False, False, ("room", "+"))),
    ("/".join("+" * 8), ("free", "", False, False, ("+",) * 8)),
    ("/".join("+" * 9), None),
    ("/".join("+" * 64), None),
    ("+/" + "a/" * 62 + "#", ("free", "", False, False, ("+", *("a",) * 62, "#"))),
    ("+/" + "a/" * 63 + "#", None),
    ("a/" * 300 + "#", ("free", "a/" * 299 + "a", True, False, None)),
    ("a" * 660 + "/#", None),
    ("+/" + "a" * 670, None),
    ("a" * 65_535, None),
    ("a\1/#", None),
]


@pytest.mark.parametrize(("text", "expected"), FILTERS, ids=[text[:40] for text, _ in FILTERS])
def test_filters(text: str, expected: Any) -> None:
    addresses, _, _ = addresses_of(free=True)
    assert kind_of(addresses.find_filter(text)) == expected
    addresses, _, _ = addresses_of(free=False)
    is_free = expected is not None and expected[0] == "free"
    assert kind_of(addresses.find_filter(text)) == (None if is_free else expected), "without free topics"


def test_the_key_of_a_filter() -> None:
    addresses, _, _ = addresses_of(free=True)
    for text, key in (("a//#", "a/"), ("/a", "/a"), ("#", None), ("+/a", None), ("Sensor/a/b/#", "a/b")):
        found = addresses.find_filter(text)
        assert found is not None and addresses.key_of(found) == key


def event_of(id: Any, value: Any, type: str = "put") -> Any:
    return SimpleNamespace(id=id, type=type, memo={}, members=lambda native: {"value": value})


def test_what_is_told_of_the_table() -> None:
    addresses, _, _ = addresses_of(free=True)
    found = addresses.find_filter("#")
    assert found is not None
    record = {"id": "x", "contentType": None, "data": b""}
    for key in ("a/b", "/", "a//", "shop/x"):
        for _ in range(2):
            assert found.topic_of(event_of(key, record)) == key
    for key in ("a+", "#", "$SYS", "a\0", "a\n", "Sensor/1", "Hidden/x", "Torn/1", None, 5, ("a", "b")):
        assert found.topic_of(event_of(key, record)) is None, key
    assert found.topic_of(event_of("a", {"id": "a"})) is None, "a record without data would look like a deletion"
    assert found.topic_of(event_of("a", None, "delete")) == found.topic_of(event_of("a", None, "message")) == "a"


def test_resources_that_come_and_go() -> None:
    addresses, resources, table = addresses_of(free=True)
    found = addresses.find("zigbee/x")
    assert found is not None and found.is_free
    resources.set("zigbee", Other)
    found = addresses.find("zigbee/x")
    assert found is not None and not found.is_free
    resources.remove("zigbee")
    found = addresses.find("zigbee/x")
    assert found is not None and found.is_free
    table.registration = None  # it was dropped
    assert addresses.find("zigbee/x") is addresses.find_filter("#") is None


@pytest.mark.parametrize("visible", [False, True])
def test_a_resource_at_the_root_has_every_topic(visible: bool) -> None:
    addresses, resources, _ = addresses_of(free=True)
    resources.set("", Other, {"mqtt": visible})
    found = addresses.find("a/b")
    assert found is not None and found.is_free != visible
    assert (addresses.find("/a") is None) == visible
    found_filter = addresses.find_filter("#")
    assert found_filter is not None and found_filter.is_free
