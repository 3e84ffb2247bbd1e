"""Clients of MQTT of two servers over the same databases: one comes to the other server, or its server is killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mqtt_clients import Client, MqttServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

SCHEMA = "type Sensor @table @export { id: ID @primaryKey temperature: Float }"
TAKEN_OVER = 0x8E


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[MqttServer]]:
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made.append(MqttServer(tmp_path / name, SCHEMA, STORAGE_PATH=str(tmp_path / "databases"), LOGGING_LEVEL="info"))
        made[-1].start()
    yield made
    for server in made:
        server.stop()


def topics(client: Client) -> list[str]:
    return sorted(message.topic for message in client.messages)


def test_a_client_comes_to_the_other_server(servers: list[MqttServer]) -> None:
    """Back and forth, with messages that it has not acknowledged, that have come while it was cut off, and at QoS 2."""
    writer = Client(servers[0], "writer")
    first = Client(servers[0], "reader", clean=False, reconnects=False, will=("Sensor/will", b'{"temperature":0}', 1))
    first.client.manual_ack_set(True)
    assert first.subscribe("Sensor/#", 1) == [1]
    writer.publish("Sensor/0", b'{"temperature":0}', 1)
    first.expect(1)
    second = Client(servers[1], "reader", clean=False, reconnects=False)
    assert second.connected == [(True, 0)]
    first.until(lambda: first.ended)
    assert first.ended == [TAKEN_OVER]
    second.expect(2)
    assert topics(second) == ["Sensor/0", "Sensor/will"]
    second.lose()
    writer.publish("Sensor/1", b'{"temperature":1}', 1)
    third = Client(servers[0], "reader", clean=False, reconnects=False)
    assert third.connected == [(True, 0)]
    third.until(lambda: "Sensor/1" in topics(third))
    third.subscribe("Sensor/2/#", 2)
    third.unsubscribe("Sensor/#")
    writer.publish("Sensor/2/0", b'{"temperature":2}', 2)
    third.until(lambda: "Sensor/2/0" in topics(third))
    fourth = Client(servers[1], "reader", clean=False, reconnects=False)
    writer.publish("Sensor/2/1", b'{"temperature":2}', 2)
    fourth.until(lambda: "Sensor/2/1" in topics(fourth))
    assert topics(fourth) == ["Sensor/2/1"]
    third.until(lambda: third.ended)
    assert third.ended == [TAKEN_OVER]
    last = Client(servers[0], "reader", clean=True)
    assert last.connected == [(False, 0)]
    for each in (first, third, fourth, last, writer):
        each.close()


def test_the_other_server_hangs(servers: list[MqttServer]) -> None:
    """What it has stored counts; and it knows, when it goes on, that the client is not its own any more."""
    first = Client(servers[1], "reader", clean=False, reconnects=False, will=("Sensor/will", b'{"temperature":0}', 1))
    first.subscribe("Sensor/#", 1)
    os.kill(servers[1].pid, signal.SIGSTOP)
    try:
        client = Client(servers[0], "reader", clean=False)
        assert client.connected == [(True, 0)]
        assert [topic for topic, _ in client.expect(1)] == ["Sensor/will"]
    finally:
        os.kill(servers[1].pid, signal.SIGCONT)
    first.until(lambda: first.ended)
    first.close()
    writer = Client(servers[1], "writer")
    writer.publish("Sensor/1", b'{"temperature":1}', 1)
    assert [topic for topic, _ in client.expect(2)] == ["Sensor/will", "Sensor/1"]
    assert client.ended == []
    again = Client(servers[1], "reader", clean=False)
    assert again.connected == [(True, 0)]
    for each in (client, again, writer):
        each.close()


@pytest.mark.parametrize("killed", [0, 1])
def test_wills_of_a_server_that_is_killed(servers: list[MqttServer], killed: int) -> None:
    """The first one leads."""
    other = servers[1 - killed]
    reader = Client(other, "reader")
    reader.subscribe("Sensor/#", 1)
    clients = [Client(servers[killed], f"c{n}", will=(f"Sensor/{n}", b'{"temperature":0}', 1), reconnects=False) for n in range(3)]
    alive = Client(other, "alive", will=("Sensor/alive", b'{"temperature":0}', 1), reconnects=False)
    servers[killed].kill()
    reader.expect(3)
    for client in clients:
        client.close()
    servers[killed].start()
    back = Client(servers[killed], "c0")
    back.publish("Sensor/last", b'{"temperature":0}', 1)
    wait_until(lambda: "Sensor/last" in topics(reader))
    assert topics(reader) == ["Sensor/0", "Sensor/1", "Sensor/2", "Sensor/last"]
    for client in (back, alive, reader):
        client.close()


# --- shared subscriptions ----------------------------------------------------------------------------------------------------------------

SHARED = "$share/workers/Sensor/#"
COUNT = 60


def publish(writer: Client, first: int, count: int = COUNT, qos: int = 1) -> set[str]:
    names = {f"Sensor/{number}" for number in range(first, first + count)}
    for name in sorted(names):
        writer.publish(name, b'{"temperature":1}', qos)
    return names


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_goes_to_one_member_of_all(servers: list[MqttServer], qos: int) -> None:
    """Whichever server they are at, and wherever it comes from. Each has its share."""
    members = [Client(servers[number % 2], f"m{number}") for number in range(4)]
    for member in members:
        assert member.subscribe(SHARED, qos) == [qos]
    alone = Client(servers[1], "alone")
    alone.subscribe("$share/others/Sensor/#", qos)
    sent: set[str] = set()
    for number, server in enumerate(servers):
        writer = Client(server, "writer")
        sent |= publish(writer, number * COUNT, qos=2)
        writer.close()
    alone.expect(2 * COUNT)
    wait_until(lambda: sum(len(member.messages) for member in members) >= 2 * COUNT)
    members[0].client.unsubscribe(SHARED)  # while it receives others
    writer = Client(servers[0], "writer")
    last = publish(writer, 2 * COUNT, 20, qos=2)
    alone.expect(2 * COUNT + 20)
    wait_until(lambda: sum(len(member.messages) for member in members) >= 2 * COUNT + 20)
    got = [topic for member in members for topic in topics(member)]
    twice = {topic for topic, count in Counter(got).items() if count > 1}
    assert twice <= (set(topics(members[0])) if qos == 1 else set()), "but what it had not acknowledged"
    wait_until(lambda: {topic for member in members for topic in topics(member)} == sent | last)
    assert topics(alone) == sorted(sent | last)
    assert min(len(member.messages) for member in members) > 0
    for client in (*members, alone, writer):
        client.close()


def test_members_of_a_server_that_is_killed(servers: list[MqttServer]) -> None:
    """What they have not acknowledged is given to the others; what was acknowledged for a while is not."""
    left = Client(servers[0], "left")
    lost = [Client(servers[1], f"lost{number}", clean=False, reconnects=False) for number in range(2)]
    lost[1].client.manual_ack_set(True)
    for member in (left, *lost):
        member.subscribe(SHARED, 1)
    writer = Client(servers[0], "writer")
    sent = publish(writer, 0)
    wait_until(lambda: sum(len(member.messages) for member in (left, *lost)) == COUNT)
    held = set(topics(lost[1]))
    assert held
    servers[1].kill()
    wait_until(lambda: held <= set(topics(left)))
    sent |= publish(writer, COUNT)
    wait_until(lambda: set(topics(left)) | set(topics(lost[0])) == sent)
    for client in (*lost, writer, left):
        client.close()
    servers[1].start()


def test_members_of_a_server_that_hangs(servers: list[MqttServer]) -> None:
    """It takes nothing; it goes on with the others when it can again. What it had before comes once more at the most."""
    here, there = Client(servers[0], "here"), Client(servers[1], "there")
    for member in (here, there):
        member.subscribe(SHARED, 1)
    writer = Client(servers[0], "writer")
    sent = publish(writer, 0)
    wait_until(lambda: len(here.messages) + len(there.messages) == COUNT)
    os.kill(servers[1].pid, signal.SIGSTOP)
    try:
        new = publish(writer, COUNT, 20)
        wait_until(lambda: new <= set(topics(here)))
    finally:
        os.kill(servers[1].pid, signal.SIGCONT)
    sent |= new | publish(writer, COUNT + 20)
    wait_until(lambda: len(here.messages) + len(there.messages) >= 2 * COUNT + 20)
    assert sorted(topics(here) + topics(there)) == sorted(sent)
    for client in (here, there, writer):
        client.close()


def test_a_group_begins_at_the_second_server(servers: list[MqttServer]) -> None:
    """The first has given its messages without a word to anybody, and its members come to the other one."""
    here = Client(servers[0], "here", clean=False, reconnects=False)
    here.subscribe(SHARED, 2)
    writer = Client(servers[0], "writer")
    sent = publish(writer, 0)
    here.expect(COUNT)
    there = Client(servers[1], "there", clean=False)
    there.subscribe(SHARED, 2)
    sent |= publish(writer, COUNT)
    wait_until(lambda: len(here.messages) + len(there.messages) >= 2 * COUNT)
    here.lose()
    again = Client(servers[1], "here", clean=False)
    sent |= publish(writer, 2 * COUNT)
    wait_until(lambda: sum(len(each.messages) for each in (here, there, again)) >= 3 * COUNT)
    assert sorted(topics(here) + topics(there) + topics(again)) == sorted(sent)
    for client in (there, again, writer):
        client.close()
