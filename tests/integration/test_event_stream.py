"""Server-sent events of the real program, read by clients that are not ours (spec: realtime §1, §3)."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.integration.conftest import LIMIT, PASSWORD, Process
from tests.support.streams import EventClient

pytestmark = pytest.mark.programs

LOGIN = "Basic " + b64encode(f"admin:{PASSWORD}".encode()).decode()
SPARE = 20 << 20  # bytes of memory that come and go with anything

SCHEMA = """
type Thing @table @export { id: ID @primaryKey  n: Int  text: String }
type Silent @table @export(sse: false) { id: ID @primaryKey }
type Only @table @export(rest: false) { id: ID @primaryKey }
type Doomed @table @export { id: ID @primaryKey }
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server of our own: some tests fill it, and look at its memory."""
    app = tmp_path_factory.mktemp("app") / "things"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    running = Process(tmp_path_factory.mktemp("events") / "root", app).start()
    yield running
    assert running.stop() == 0, running.output()
    assert not [line for line in running.logged().splitlines() if "[error]" in line or "Traceback" in line]


@pytest.fixture
def prefix() -> str:
    """Keys of this test alone begin so."""
    return uuid4().hex[:8]


Events = Callable[..., EventClient]


@pytest.fixture
def events(server: Process) -> Iterator[Events]:
    """Streams of events, each with a connection of its own."""
    with server.client() as client:
        opened: list[EventClient] = []

        def open_stream(target: str, last_id: str | None = None, **fields: str) -> EventClient:
            opened.append(EventClient(client, target, last_id, **fields))
            return opened[-1]

        yield open_stream
        for stream in opened:
            stream.__exit__(None, None, None)


def test_the_life_of_a_record(client: httpx.Client, events: Events, prefix: str) -> None:
    target = f"/Product/{prefix}"
    with events(target) as stream:
        client.put(target, json={"name": "Keyboard", "price": 44})
        put = stream.next()
        assert list(put) == ["type", "id", "value", "version", "timestamp", "localTime"]
        assert (put["type"], put["id"], put["value"]) == ("put", prefix, {"name": "Keyboard", "price": 44, "id": prefix})
        assert put["version"] == put["timestamp"] and stream.last_id == str(put["localTime"]) and stream.retry == 3000
        client.patch(target, json={"price": 45})
        patched = stream.next()
        assert (patched["type"], patched["value"]) == ("put", {"name": "Keyboard", "price": 45, "id": prefix})
        client.delete(target)
        gone = stream.next()
        assert (gone["type"], gone["id"], gone["value"]) == ("delete", prefix, None)
        assert put["localTime"] < patched["localTime"] < gone["localTime"] and put["version"] < patched["version"] < gone["version"]


def test_the_current_record_comes_first_with_the_version_of_its_etag(client: httpx.Client, events: Events, prefix: str) -> None:
    from svc.store.entity_tags import etag_of_version

    target = f"/Product/{prefix}"
    client.put(target, json={"name": "Mouse"})
    with events(target) as stream:
        first = stream.next()
        assert (first["type"], first["value"]) == ("put", {"name": "Mouse", "id": prefix})
        assert client.get(target).headers["ETag"] == f'"{etag_of_version(first["version"])}"'


def test_the_head(events: Events, prefix: str) -> None:
    fields = events(f"/Product/{prefix}", Accept_Encoding="gzip, br").response.headers
    assert fields["Content-Type"] == "text/event-stream"
    assert fields["Cache-Control"] == "no-store" and fields["X-Accel-Buffering"] == "no"
    assert "Content-Encoding" not in fields and "ETag" not in fields


def test_head(client: httpx.Client, prefix: str) -> None:
    answer = client.head(f"/Product/{prefix}", headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer.headers["Content-Type"], answer.content) == (200, "text/event-stream", b"")
    assert client.head("/Product/?sort(name)", headers={"Accept": "text/event-stream"}).status_code == 400
    assert client.head("/Product/").status_code == 200


def test_a_collection_in_the_order_of_its_keys_and_what_follows(client: httpx.Client, events: Events, prefix: str) -> None:
    for name in ("b", "a", "c"):
        client.put(f"/Product/{prefix}/{name}", json={"name": name})
    with events(f"/Product/{prefix}/") as stream:
        assert [event["id"] for event in stream.take(3)] == [f"{prefix}/{name}" for name in "abc"]
        client.put(f"/Product/{prefix}/d", json={"name": "d"})
        client.put(f"/Product/{prefix}x/e", json={"name": "e"})
        client.put(f"/Product/{prefix}", json={"name": "no"})
        client.delete(f"/Product/{prefix}/a")
        assert [(event["type"], event["id"]) for event in stream.take(2)] == [("put", f"{prefix}/d"), ("delete", f"{prefix}/a")]


@pytest.mark.parametrize("target", ["/Fleeting", "/Fleeting/"])
def test_a_whole_table(client: httpx.Client, events: Events, target: str, prefix: str) -> None:
    client.put(f"/Fleeting/{prefix}", json={})
    with events(target) as stream:
        while stream.next()["id"] != prefix:
            pass
        client.delete(f"/Fleeting/{prefix}")
        while (event := stream.next())["id"] != prefix:
            pass
        assert event["type"] == "delete"


def test_conditions_and_selection(client: httpx.Client, events: Events, prefix: str) -> None:
    client.put(f"/Product/{prefix}/1", json={"name": "cheap", "price": 1})
    client.put(f"/Product/{prefix}/2", json={"name": "dear", "price": 500})
    with events(f"/Product/{prefix}/?price=gt=100&select(name)") as stream:
        assert stream.next()["value"] == "dear"
        client.put(f"/Product/{prefix}/3", json={"name": "cheap too", "price": 2})
        client.patch(f"/Product/{prefix}/1", json={"price": 101})
        assert stream.next()["value"] == "cheap"
        client.delete(f"/Product/{prefix}/3")  # always passes, whatever it was
        assert (event := stream.next())["type"] == "delete" and event["id"] == f"{prefix}/3"
    with events(f"/Product/{prefix}/2.price") as stream:
        assert stream.next()["value"] == 500


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("sort(name)", "QUERY_SYNTAX"),
        ("limit(5)", "QUERY_SYNTAX"),
        ("count()", "QUERY_SYNTAX"),
        ("[name=x", "QUERY_SYNTAX"),
        ("brand.name=Acme", "UNUSABLE_OPERATOR"),
        ("nothing=1", "UNKNOWN_ATTRIBUTE"),
        ("price=gt=x", "BAD_VALUE"),
        ("inStock==true", "NOT_INDEXED"),
    ],
)
def test_faults_of_the_query_are_told_before_the_first_byte(client: httpx.Client, query: str, code: str) -> None:
    status, problem = EventClient(client, f"/Product/?{query}").problem()
    assert (status, problem["code"]) == (400, code)
    if query in ("sort(name)", "limit(5)"):
        assert "live()" in problem["detail"]


def test_other_errors_before_the_first_byte(server: Process, client: httpx.Client, anonymous: httpx.Client) -> None:
    assert EventClient(client, "/Nothing").problem()[0] == 404
    assert EventClient(client, "/counters/x").problem()[0] == 400
    refused = EventClient(anonymous, "/Product/")
    assert refused.response.status_code == 401 and "WWW-Authenticate" in refused.response.headers
    assert refused.problem()[1]["code"] == "UNAUTHENTICATED"


def test_events_of_a_transaction_are_together_in_its_order(client: httpx.Client, events: Events, prefix: str) -> None:
    keys = [f"{prefix}/{number}" for number in (5, 3, 9, 1)]
    with events(f"/Product/{prefix}/") as stream:
        client.put("/Product/", json=[{"id": key, "stock": 1} for key in keys])
        found = stream.take(4)
        assert [event["id"] for event in found] == keys
        assert len({event["version"] for event in found}) == 1
        positions = [event["localTime"] for event in found]
        assert positions == list(range(positions[0], positions[0] + 4))


def test_data_is_json_whatever_else_is_accepted(client: httpx.Client, events: Events, prefix: str) -> None:
    client.put(f"/Product/{prefix}", json={"image": "YWI=", "listDate": "2024-01-05T00:00:00.000Z", "name": "line\nbreak\u2028"})
    with events(f"/Product/{prefix}", Accept="text/event-stream, text/csv") as stream:
        assert stream.next()["value"] == client.get(f"/Product/{prefix}").json()
    answer = client.get(f"/Product/{prefix}", headers={"Accept": "text/event-stream, application/cbor"})
    assert answer.headers["Content-Type"] == "application/cbor"


def test_nothing_is_lost_or_repeated_between_snapshot_and_what_follows(process: Process, prefix: str) -> None:
    """Records are written all the time while one stream after the other begins."""
    done = threading.Event()
    written: dict[str, int] = {}

    def write() -> None:
        with process.client() as writer:
            number = 0
            while not done.is_set():
                number += 1
                key = f"{prefix}/{number % 50:02}"
                writer.put(f"/Thing/{key}", json={"n": number}).raise_for_status()
                written[key] = number

    writing = threading.Thread(target=write)
    writing.start()
    try:
        with process.client() as client:
            for _ in range(15):
                with EventClient(client, f"/Thing/{prefix}/") as stream:
                    seen: dict[str, list[int]] = {}
                    target = max(written.values(), default=0) + 100
                    while max((numbers[-1] for numbers in seen.values()), default=0) < target:
                        event = stream.next()
                        seen.setdefault(event["id"], []).append(event["value"]["n"])
                for numbers in seen.values():
                    # Each key is written every 50 numbers: no write is missing after the first that was seen, and none comes twice.
                    assert numbers == list(range(numbers[0], numbers[-1] + 1, 50)), numbers
    finally:
        done.set()
        writing.join()


# --- resuming ----------------------------------------------------------------------------------------------------------------------------


def test_who_comes_back_gets_what_he_missed(client: httpx.Client, events: Events, prefix: str) -> None:
    target = f"/Product/{prefix}"
    with events(target) as stream:
        client.put(target, json={"stock": 1})
        stream.next()
        last = stream.last_id
    client.patch(target, json={"stock": 2})
    client.delete(target)
    client.put(target, json={"stock": 3})
    with events(target, last) as stream:
        found = stream.take(3)
        assert [(event["type"], event["value"] and event["value"]["stock"]) for event in found] == [
            ("put", 2),
            ("delete", None),
            ("put", 3),
        ]
        client.put(target, json={"stock": 4})
        assert stream.next()["value"]["stock"] == 4


@pytest.mark.parametrize("last", ["x", "", "-3", "99999999999", "9" * 50])
def test_who_comes_back_with_nonsense_is_new(client: httpx.Client, events: Events, prefix: str, last: str) -> None:
    client.put(f"/Product/{prefix}", json={"stock": 1})
    with events(f"/Product/{prefix}", last) as stream:
        assert stream.next()["value"]["stock"] == 1


def test_a_snapshot_can_be_gone_on_from_only_when_it_is_whole(client: httpx.Client, events: Events, prefix: str) -> None:
    for number in range(5):
        client.put(f"/Product/{prefix}/{number}", json={"stock": number})
    with events(f"/Product/{prefix}/") as stream:
        for number in range(5):
            stream.next()
            assert (stream.last_id is not None) == (number == 4)


def test_disconnects_at_any_time_lose_and_repeat_nothing(process: Process, prefix: str) -> None:
    """A client that is cut off again and again, and comes back as a browser does, sees each write once."""
    count = 2000
    written = threading.Event()

    def write() -> None:
        with process.client() as writer:
            for first in range(0, count, 20):
                rows = [{"id": f"{prefix}/{number:05}", "n": number} for number in range(first, first + 20)]
                writer.put("/Thing/", json=rows).raise_for_status()
                if first % 400 == 0:
                    writer.delete(f"/Thing/{prefix}/{first:05}").raise_for_status()
        written.set()

    with process.client() as client:
        with EventClient(client, f"/Thing/{prefix}/") as stream:
            client.put(f"/Thing/{prefix}/begin", json={})
            stream.next()
            last = stream.last_id
        writing = threading.Thread(target=write)
        writing.start()
        puts: list[int] = []
        deletes: list[str] = []
        cut = 1
        try:
            while len(puts) < count:
                cut = cut * 7 % 97 + 1  # events until the next disconnect: 1 to 97, the same at every run
                with EventClient(client, f"/Thing/{prefix}/", last) as stream:
                    for _ in range(min(cut, count - len(puts) + 1)):
                        event = stream.next()
                        if event["type"] == "put":
                            puts.append(event["value"]["n"])
                        else:
                            deletes.append(event["id"])
                        if len(puts) == count:
                            break
                    last = stream.last_id
        finally:
            writing.join()
    assert puts == list(range(count))
    assert deletes == [f"{prefix}/{first:05}" for first in range(0, count, 400)][: len(deletes)] and len(deletes) >= 4


# --- permission --------------------------------------------------------------------------------------------------------------------------


class Reader:
    """A user of his own, with a role of his own."""

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self.name = name
        process.operate("add_role", role=name, permission=self.permission(True)).raise_for_status()
        process.operate("add_user", role=name, username=name, password=PASSWORD, active=True).raise_for_status()

    @staticmethod
    def permission(read: bool, *attributes: str) -> dict[str, Any]:
        listed = [{"attribute_name": each, "read": True, "insert": False, "update": False} for each in attributes]
        table = {"read": read, "insert": False, "update": False, "delete": False, "attribute_permissions": listed}
        return {"super_user": False, "data": {"tables": {"Thing": table}}}

    def may(self, read: bool, *attributes: str) -> None:
        roles = self.process.operate("list_roles").json()
        [found] = [role for role in roles if role["role"] == self.name]
        self.process.operate("alter_role", id=found["id"], permission=self.permission(read, *attributes)).raise_for_status()

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.process.url, auth=(self.name, PASSWORD), timeout=LIMIT)


@pytest.fixture
def reader(process: Process, prefix: str) -> Reader:
    return Reader(process, f"reader{prefix}")


def test_who_may_not_read_is_told(process: Process, reader: Reader) -> None:
    reader.may(False)
    with reader.client() as client:
        assert EventClient(client, "/Thing/").problem()[0] == 403


def test_the_stream_ends_when_the_right_to_read_goes(process: Process, reader: Reader, prefix: str) -> None:
    with process.client() as admin, reader.client() as client, EventClient(client, f"/Thing/{prefix}") as stream:
        admin.put(f"/Thing/{prefix}", json={"n": 1})
        assert stream.next()["value"]["n"] == 1
        reader.may(False)
        admin.put(f"/Thing/{prefix}", json={"n": 2})
        assert stream.rest() == []


def test_the_stream_ends_with_its_user(process: Process, reader: Reader, prefix: str) -> None:
    with reader.client() as client, EventClient(client, f"/Thing/{prefix}") as stream:
        process.operate("drop_user", username=reader.name).raise_for_status()
        assert stream.rest() == []


def test_attributes_that_may_not_be_read_are_not_shown(process: Process, reader: Reader, prefix: str) -> None:
    reader.may(True, "id", "n")
    with process.client() as admin, reader.client() as client, EventClient(client, f"/Thing/{prefix}") as stream:
        admin.put(f"/Thing/{prefix}", json={"n": 1, "text": "secret"})
        assert stream.next()["value"] == {"n": 1, "id": prefix}
        reader.may(True, "id", "text")
        admin.put(f"/Thing/{prefix}", json={"n": 2, "text": "told"})
        assert stream.next()["value"] == {"text": "told", "id": prefix}


def test_export_flags(process: Process) -> None:
    with process.client() as client:
        assert EventClient(client, "/Silent/").problem()[0] == 406
        assert client.get("/Silent/").status_code == 200
        assert client.get("/Only/").status_code == 404
        with EventClient(client, "/Only/") as stream:
            assert stream.response.status_code == 200


# --- clients, protocols, lengths -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("version", ["--http1.0", "--http1.1", "--http2-prior-knowledge"])
def test_curl(server: Process, client: httpx.Client, prefix: str, version: str) -> None:
    """It reads until the second event is there, over each version of HTTP."""
    command = ["curl", "-sN", version, "-u", f"admin:{PASSWORD}", "-H", "Accept: text/event-stream", f"{server.url}/Product/{prefix}"]
    client.put(f"/Product/{prefix}", json={"stock": 1})
    curl = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert curl.stdout is not None
        lines = iter(curl.stdout.readline, b"")
        assert next(lines) == b"retry: 3000\n"
        assert json.loads(next(line for line in lines if line.startswith(b"data: "))[6:])["value"]["stock"] == 1
        client.put(f"/Product/{prefix}", json={"stock": 2})
        assert json.loads(next(line for line in lines if line.startswith(b"data: "))[6:])["value"]["stock"] == 2
    finally:
        curl.kill()
        curl.wait()
        assert curl.stdout is not None
        curl.stdout.close()


def test_a_snapshot_of_ten_thousand_records(process: Process, prefix: str) -> None:
    with process.client() as client:
        for first in range(0, 10_000, 2000):
            rows = [{"id": f"{prefix}/{number:05}", "n": number} for number in range(first, first + 2000)]
            client.put("/Thing/", json=rows).raise_for_status()
        with EventClient(client, f"/Thing/{prefix}/") as stream:
            assert [event["value"]["n"] for event in stream.take(10_000)] == list(range(10_000))
            client.put(f"/Thing/{prefix}/x", json={"n": -1})
            assert stream.next()["value"]["n"] == -1


def anonymous_memory(process: Process) -> int:
    """Bytes that are no pages of files: the store's file is mapped."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


def test_who_does_not_read_is_cut_off_and_costs_little(process: Process, prefix: str) -> None:
    """20,000 events of 1 KB each, of which nobody reads one; then the answer ends behind what had been sent."""
    with process.client() as client:

        def write() -> None:
            for number in range(20):
                rows = [{"id": f"{prefix}/{each:04}", "n": number, "text": "x" * 1000} for each in range(1000)]
                client.put("/Thing/", json=rows).raise_for_status()

        write()  # what the writes themselves leave in memory
        with socket.create_connection(("127.0.0.1", process.port)) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
            head = f"GET /Thing/{prefix}/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: {LOGIN}\r\nAccept: text/event-stream\r\n\r\n"
            sock.sendall(head.encode())
            assert sock.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
            sock.settimeout(LIMIT)
            before = anonymous_memory(process)
            write()
            assert anonymous_memory(process) - before < SPARE  # of which the events alone would be more
            received = b""
            while piece := sock.recv(1 << 20):
                received += piece
                if received.endswith(b"\r\n0\r\n\r\n"):
                    break
            assert received.endswith(b"\r\n0\r\n\r\n")
            assert received.count(b"\ndata: ") < 15_000


def test_a_stop_ends_streams(tmp_path: Path) -> None:
    app = tmp_path / "things"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    running = Process(tmp_path / "root", app).start()
    try:
        with running.client() as client, EventClient(client, "/Thing/") as stream:
            stopping = threading.Thread(target=running.stop)
            stopping.start()
            assert stream.rest() == []
            stopping.join()
        assert running.process is not None and running.process.returncode == 0
    finally:
        running.kill()


def test_a_dropped_table_ends_its_streams(process: Process) -> None:
    with process.client() as client, EventClient(client, "/Doomed/") as stream, EventClient(client, "/Doomed/?live()") as live:
        assert live.next()["type"] == "ready"
        process.operate("drop_table", table="Doomed").raise_for_status()
        assert stream.rest() == []
        assert all(event["type"] == "reset" for event in live.rest())
        assert client.get("/Doomed/").status_code == 404


# --- live queries ------------------------------------------------------------------------------------------------------------------------


def apply(rows: list[dict[str, Any]], event: dict[str, Any]) -> None:
    """What a client of an ordered result does (docs/realtime.md)."""
    if event["type"] == "reset":
        rows.clear()
    elif event["type"] != "ready":
        rows[:] = [row for row in rows if row["id"] != event["id"]]
        if event["type"] != "leave":
            rows.insert(event["index"], event["value"])


def test_a_live_query_is_what_its_query_gives(process: Process, prefix: str) -> None:
    query = f"/Thing/{prefix}/?sort(-n)&limit(3)"
    with process.client() as client:
        for number in range(5):
            client.put(f"/Thing/{prefix}/{number}", json={"n": number})
        rows: list[dict[str, Any]] = []
        with EventClient(client, f"{query}&live()") as stream:
            while (event := stream.next())["type"] != "ready":
                apply(rows, event)
            assert rows == client.get(query).json()
            for number, change in enumerate((9, 1, 7, 0, 3)):
                client.patch(f"/Thing/{prefix}/{number}", json={"n": change * 10})
            client.delete(f"/Thing/{prefix}/2")
            while rows != client.get(query).json():
                apply(rows, stream.next())  # fails when none comes any more
            last = stream.last_id
        with EventClient(client, f"{query}&live()", last) as stream:
            assert stream.next() == {"type": "reset", "reason": "The client has reconnected"}
            assert stream.next()["type"] == "snapshot"


def test_who_left_in_the_middle_of_a_live_snapshot_is_known(process: Process, prefix: str) -> None:
    with process.client() as client:
        client.put("/Thing/", json=[{"id": f"{prefix}/{number}"} for number in range(2)]).raise_for_status()
    with process.client() as client, EventClient(client, "/Thing/?live()") as stream:
        stream.next()
        assert stream.last_id == "0"
