"""Followers of the table of items that move from instance to instance, each in a thread of its own, and what they must have been sent.

`Entry` is what the log has: the truth that all of them are compared with.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from fuzz.consistency.transport import AUTHORIZATION
from tests.integration.conftest import PASSWORD
from tests.support.waiting import wait_until

SILENCE = 40.0  # seconds after which a stream without even a comment is given up: an instance is stopped
LOOK = 1.0  # seconds after which a follower that gets nothing looks whether it is over
STAY = 150  # events at most before a follower moves by itself
AGAIN = 2_000  # entries at most that come again
PAUSE = 0.05  # seconds between two tries to connect


class Entry(NamedTuple):
    """A change of an item. `n`: None of a deletion."""

    lsn: int
    key: str
    n: int | None


class Follower(threading.Thread):
    def __init__(self, name: str, seed: int, port_of: Callable[[str], int]) -> None:
        super().__init__(name=name, daemon=True)
        self.source = random.Random(f"{seed} {name}")
        self.port_of = port_of
        self.is_over = threading.Event()
        self.failure: BaseException | None = None
        self.moves = 0
        self.events = 0

    def run(self) -> None:
        try:
            while not self.is_over.wait(PAUSE):
                self.follow(self.source.randrange(1, STAY))
                self.moves += 1
        except BaseException as error:
            self.failure = error
            raise

    def follow(self, most: int) -> None:
        """Over one connection, for so many events, or until it is lost."""
        raise NotImplementedError

    def hang_up(self) -> None:
        """`follow` need not wait any more."""

    def has_seen(self, n: int) -> bool:
        """Whether the write of this number has come."""
        raise NotImplementedError

    def end(self, n: int) -> None:
        """After the last write, which had this number."""
        wait_until(lambda: self.failure or self.has_seen(n), f"{self.name} has not seen the last write")
        self.is_over.set()
        self.hang_up()
        self.join()
        assert self.failure is None, self.failure

    def problem(self, entries: Sequence[Entry]) -> str | None:
        """What is wrong with what has come, if something is."""
        raise NotImplementedError


class StreamFollower(Follower):
    """Of an event stream, with its position (spec: realtime §3)."""

    def __init__(self, *arguments: Any, path: str = "/Item/") -> None:
        super().__init__(*arguments)
        self.path = path
        self.last_id: str | None = None
        self.received: list[dict[str, Any]] = []
        """Of each event `localTime`, `id`, `n`, `coalesced`."""
        self._socket: socket.socket | None = None

    def follow(self, most: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port_of("http"), timeout=SILENCE)
        fields = {"Accept": "text/event-stream", "Authorization": AUTHORIZATION}
        if self.last_id is not None:
            fields["Last-Event-ID"] = self.last_id
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", self.path, headers=fields)
            self._socket = connection.sock
            response = connection.getresponse()
            if response.status == 200:
                self.begin()
                for _ in range(most):
                    if not self._read_event(response):
                        break
        connection.close()

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def _read_event(self, response: http.client.HTTPResponse) -> bool:
        """Only what has come as a whole counts."""
        number, data = None, ""
        while line := response.readline():
            if not line.endswith(b"\n"):
                return False
            name, _, value = line.rstrip(b"\r\n").decode().partition(": ")
            if name == "id":
                number = value
            elif name == "data":
                data += value
            elif not name and data:
                if number is not None:
                    self.last_id = number
                self.events += 1
                self.take(json.loads(data))
                return not self.is_over.is_set()
        return False

    def begin(self) -> None: ...

    def take(self, event: dict[str, Any]) -> None:
        value = event.get("value")
        self.received.append(
            {"lsn": event["localTime"], "id": event["id"], "n": value and value["n"], "coalesced": event.get("coalesced", 1)}
        )

    def has_seen(self, n: int) -> bool:
        return any(event["n"] == n for event in self.received[-50:])

    def problem(self, entries: Sequence[Entry]) -> str | None:
        """Each entry once, in order; of several of one record that came late only the last, which says how many they were."""
        first, *received = self.received  # the record that was there at the beginning
        left = {entry.lsn: entry for entry in entries if entry.lsn > first["lsn"]}
        by_key: dict[str, list[Entry]] = {}
        for entry in left.values():
            by_key.setdefault(entry.key, []).append(entry)
        position = first["lsn"]
        for event in received:
            if event["lsn"] <= position:
                return f"{event} comes after position {position}"
            position = event["lsn"]
            found = left.get(position)
            if found is None or (found.key, found.n) != (event["id"], event["n"]):
                return f"{event} is {found} in the log"
            waiting = by_key[found.key]
            number = waiting.index(found) + 1
            if number != event["coalesced"]:
                return f"{event} stands for {waiting[:number]}"
            del waiting[:number]
        missing = [entry for waiting in by_key.values() for entry in waiting]
        return f"{min(missing)} has not come" if missing else None


class LiveFollower(StreamFollower):
    """Of a live query, which begins anew with each connection (spec: realtime §7). `rows`: the list that its events make, `is_whole` if it has its snapshot."""

    PATH = "/Item/?n=gt=0&sort(-n)&limit(20)&select(id,n,group)"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, path=f"{self.PATH}&live()")
        self.rows: list[tuple[str, dict[str, Any]]] = []
        self.is_whole = False

    def take(self, event: dict[str, Any]) -> None:
        if event["type"] == "reset":
            self.begin()
        elif event["type"] == "ready":
            self.is_whole = True
        else:
            rows = [row for row in self.rows if row[0] != event["id"]]
            if event["type"] != "leave":
                rows.insert(event["index"], (event["id"], event["value"]))
            self.rows = rows

    def begin(self) -> None:
        self.rows = []
        self.is_whole = False

    def has_seen(self, n: int) -> bool:
        return self.is_whole and bool(self.rows) and self.rows[0][1]["n"] == n

    def problem(self, entries: Sequence[Entry]) -> str | None:
        last = {entry.key: entry.n for entry in entries}
        expected = sorted((n for n in last.values() if n), reverse=True)[:20]
        found = [value["n"] for _, value in self.rows]
        return None if found == expected else f"{found} instead of {expected}"


class SocketFollower(Follower):
    """Of a WebSocket, which begins with the current records, in the order of their keys (spec: realtime §1). `state`: what its events make of them."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state: dict[str, int] = {}

    def follow(self, most: int) -> None:
        most += len(self.state)
        address = f"ws://127.0.0.1:{self.port_of('http')}/Item/"
        login = {"Authorization": AUTHORIZATION}
        with (  # what it has not read when it leaves is not waited for
            contextlib.suppress(OSError, WebSocketException),
            connect(address, additional_headers=login, close_timeout=LOOK) as wire,
        ):
            self.state = {}
            while most and not self.is_over.is_set():
                most -= 1
                with contextlib.suppress(TimeoutError):
                    event = json.loads(wire.recv(LOOK))
                    self.events += 1
                    if event["type"] == "put":
                        self.state[event["id"]] = event["value"]["n"]
                    elif event["type"] == "delete":
                        self.state.pop(event["id"], None)

    def has_seen(self, n: int) -> bool:
        return self.state.get("mark") == n

    def problem(self, entries: Sequence[Entry]) -> str | None:
        last = {entry.key: entry.n for entry in entries}
        expected = {key: n for key, n in last.items() if n is not None}
        wrong = [
            f"{key}: {self.state.get(key)} instead of {expected.get(key)}"
            for key in {*self.state, *expected}
            if self.state.get(key) != expected.get(key)
        ]
        return "; ".join(wrong) or None


class SessionFollower(Follower):
    """A session of MQTT at QoS 1 that lasts. It moves by a lost connection, or by a second client that takes the session over (spec: mqtt §7)."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.connections: list[list[tuple[str, int | None]]] = []
        """Of each connection what has come over it, in order."""
        self._changed = threading.Condition()
        self._last: paho.Client | None = None

    def follow(self, most: int) -> None:
        messages: list[tuple[str, int | None]] = []
        state = {"connected": False, "lost": False}
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, "follower", protocol=paho.MQTTv5, reconnect_on_failure=False)
        client.username_pw_set("admin", PASSWORD)

        def note(**changes: bool) -> None:
            with self._changed:
                state.update(changes)
                self._changed.notify_all()

        def on_message(client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
            with self._changed:
                n = json.loads(message.payload)["n"] if message.payload else None
                messages.append((message.topic.removeprefix("Item/"), n))
                self.events += 1
                self._changed.notify_all()

        def on_connect(client: paho.Client, data: object, flags: Any, reason: Any, found: object) -> None:
            if reason.value == 0 and not flags.session_present:
                client.subscribe("Item/#", 1)
            note(connected=reason.value == 0, lost=reason.value != 0)

        client.on_connect = on_connect
        client.on_message = on_message
        client.on_disconnect = lambda *_: note(lost=True)
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 100_000
        try:
            client.connect("127.0.0.1", self.port_of("mqtt"), 60, clean_start=False, properties=properties)
        except (OSError, ValueError):
            return
        client.loop_start()
        with self._changed:
            self._changed.wait_for(lambda: state["connected"] or state["lost"], SILENCE)
        last, self._last = self._last, None
        if last is not None:
            _lose(last)
        with self._changed:
            if state["connected"]:
                self.connections.append(messages)
                self._changed.wait_for(lambda: state["lost"] or len(messages) >= most or self.is_over.is_set())
        if state["connected"] and not state["lost"] and not self.is_over.is_set() and self.source.random() < 0.5:
            self._last = client  # the next one takes the session over
        else:
            _lose(client)

    def hang_up(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def has_seen(self, n: int) -> bool:
        with self._changed:
            return any(message[1] == n for messages in self.connections[-2:] for message in messages[-50:])

    def problem(self, entries: Sequence[Entry]) -> str | None:
        """Each entry in order; with a new connection some of the last may come again, in order too.

        `positions`: the entries that can be the next, as two deletions of a record look alike.
        """
        positions = {0}
        reached = 0
        for number, messages in enumerate(self.connections):
            if number:
                positions = set(range(max(reached - AGAIN, 0), reached + 1))
            for message in messages:
                positions = {place + 1 for place in positions if place < len(entries) and entries[place][1:] == message}
                if not positions:
                    return f"{message} of connection {number} is not what follows; {entries[reached : reached + 3]} was to come"
                reached = max(reached, *positions)
        return None if reached == len(entries) else f"{entries[reached]} has not come"


def _lose(client: paho.Client) -> None:
    """Without DISCONNECT, as if the network did it."""
    sock = client.socket()
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
    client.loop_stop()
    with contextlib.suppress(OSError):
        if sock is not None:
            sock.close()
