"""Rules on rows for clients that follow: of event streams, WebSockets and MQTT, not ours, on the ports of a started server (spec: rows §1.3, §1.6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.integration.conftest import LIMIT, authorization
from tests.support import tracker
from tests.support.mqtt_clients import Client, MqttServer

pytestmark = pytest.mark.programs

LOGIN = "blue-heron-7"
NAMES = ("ann", "bob", "mod")
END = "~end"  # the last record of each test, which everybody sees
Told = tuple[str, str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttServer]:
    process = MqttServer(tmp_path_factory.mktemp("rules"), tracker.SCHEMA)
    process.start()
    for role in ("member", "moderator"):
        assert process.operate("add_role", role=role, permission=tracker.PERMISSION).status_code == 200
    for name in NAMES:
        role = "moderator" if name == "mod" else "member"
        assert process.operate("add_user", username=name, password=LOGIN, role=role, active=True).status_code == 200
    yield process
    assert process.stop() == 0, process.output()


def by_event_stream(server: MqttServer, name: str, stack: ExitStack, query: str = "") -> Callable[[], list[Told]]:
    client = stack.enter_context(httpx.Client(base_url=server.url, auth=(name, LOGIN), timeout=LIMIT))
    answer = stack.enter_context(client.stream("GET", f"/Issue/{query}", headers={"Accept": "text/event-stream"}))
    assert answer.status_code == 200
    lines = answer.iter_lines()

    def events() -> Iterator[dict[str, Any]]:
        for line in lines:
            if line.startswith("data:"):
                yield json.loads(line.removeprefix("data:"))

    return lambda: told(events())


def by_web_socket(server: MqttServer, name: str, stack: ExitStack) -> Callable[[], list[Told]]:
    headers = {"Authorization": authorization(name, LOGIN)}
    url = f"ws://127.0.0.1:{server.port}/Issue/"
    socket = stack.enter_context(connect(url, additional_headers=headers, open_timeout=LIMIT, ping_interval=None))

    def events() -> Iterator[dict[str, Any]]:
        while True:
            yield json.loads(socket.recv(timeout=LIMIT))

    return lambda: told(events())


def told(events: Iterator[dict[str, Any]]) -> list[Told]:
    """(type, id) up to the end."""
    found = []
    for event in events:
        if event["type"] in ("ready", "reset"):
            continue
        if event["id"] == END:
            return found
        assert (event["value"] is None) is (event["type"] in ("delete", "leave"))
        found.append((event["type"], event["id"]))
    raise AssertionError("the stream has ended")


def by_mqtt(server: MqttServer, name: str, stack: ExitStack) -> Callable[[], list[Told]]:
    client = Client(server, login=(name, LOGIN))
    stack.callback(client.close)
    assert client.subscribe("Issue/#", 1) == [1]

    def take() -> list[Told]:
        client.until(lambda: any(message.topic == f"Issue/{END}" for message in client.messages))
        taken = [("put" if message.payload else "delete", message.topic.removeprefix("Issue/")) for message in client.messages]
        client.messages.clear()
        return taken[:-1]

    return take


WAYS = {"stream": by_event_stream, "socket": by_web_socket, "mqtt": by_mqtt}


@pytest.mark.parametrize("way", WAYS)
def test_each_is_told_of_its_own(server: MqttServer, way: str) -> None:
    with server.client() as root, ExitStack() as stack:
        put = lambda key, **record: root.put(f"/Issue/{key}", json=record).raise_for_status()  # noqa: E731
        root.delete("/Issue/").raise_for_status()
        root.put("/Project/p", json={"open": False, "members": []}).raise_for_status()
        put("a1", owner="ann")
        put("b1", owner="bob")
        put(END, public=True, owner="root")
        followers = {name: WAYS[way](server, name, stack) for name in NAMES}
        assert followers["ann"]() == [("put", "a1")]
        assert followers["bob"]() == [("put", "b1")]
        assert followers["mod"]() == [("put", "a1"), ("put", "b1")]
        put("a1", owner="bob")  # given away
        put("a1", owner="bob", weight=1)
        put("c1", owner="cat", projectId="p")
        root.put("/Project/p", json={"open": False, "members": ["ann"]}).raise_for_status()
        put("c1", owner="cat", projectId="p", weight=2)
        root.delete("/Issue/b1").raise_for_status()
        with httpx.Client(base_url=server.url, auth=("ann", LOGIN), timeout=LIMIT) as ann:
            assert ann.put("/Issue/b2", json={"owner": "bob"}).status_code == 403
            assert ann.put("/Issue/a2", json={"owner": "ann"}).status_code == 204
            assert ann.delete("/Issue/a1").status_code == ann.delete("/Issue/none").status_code
        put(END, public=True, owner="root")
        assert followers["ann"]() == [("delete", "a1"), ("put", "c1"), ("put", "a2")]
        assert followers["bob"]() == [("put", "a1"), ("put", "a1"), ("delete", "b1")]
        assert [key for _, key in followers["mod"]()] == ["a1", "a1", "c1", "c1", "b1", "a2"]


def test_a_live_query_follows_what_the_rule_refers_to(server: MqttServer) -> None:
    with server.client() as root, ExitStack() as stack:
        root.delete("/Issue/").raise_for_status()
        root.put("/Project/p", json={"open": False, "members": []}).raise_for_status()
        root.put("/Issue/c1", json={"owner": "cat", "projectId": "p"}).raise_for_status()
        root.put(f"/Issue/{END}", json={"public": True}).raise_for_status()
        ann = by_event_stream(server, "ann", stack, "?live()")
        assert ann() == []
        for members in (["ann"], ["bob"]):
            root.put("/Project/p", json={"open": False, "members": members}).raise_for_status()
            root.patch(f"/Issue/{END}", json={"weight": len(members[0]), "state": members[0]}).raise_for_status()
            assert ann() == [("enter" if members == ["ann"] else "leave", "c1")]


def test_wills_and_retained_messages_of_paho(server: MqttServer) -> None:
    with server.client() as root:
        root.delete("/Issue/").raise_for_status()
        for key, owner in (("w1", "ann"), ("w2", "bob")):
            client = Client(server, f"will-{key}", login=("ann", LOGIN), will=(f"Issue/{key}", json.dumps({"owner": owner}), 1, True))
            client.lose()
        watcher = Client(server)
        watcher.subscribe("Issue/#", 1)
        assert watcher.expect(1)[0][0] == "Issue/w1"
        ann = Client(server, login=("ann", LOGIN))
        assert ann.publish("Issue/m1", '{"owner":"ann"}', 1, retain=True) == 0
        assert ann.publish("Issue/m2", '{"owner":"bob"}', 1, retain=True) == 0x87
        assert sorted(record["id"] for record in root.get("/Issue/").json()) == ["m1", "w1"]
        ann.close()
        watcher.close()
