"""SQL asked of the real program, on both ports and by commands, by clients that are not ours (spec: sql, operations §15, configuration §6.1)."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cbor2
import httpx
import msgspec
import pyarrow as pa
import pytest

from tests.integration.conftest import PASSWORD, PROTOCOLS, Process, authorization
from tests.support.forked import run_command
from tests.support.http2 import ClientEnd
from tests.support.pages import BROWSER, Parsed
from tests.support.server_hooks import SHORT_DRAIN
from tests.support.streams import EventClient
from tests.support.waiting import LIMIT, wait_until

pytestmark = pytest.mark.programs

COUNT = 20_000
ARROW = "application/vnd.apache.arrow.stream"
LONG = str(3600 * 1000)  # ms: nothing ends a statement but what a test does
SHORT = "500"  # ms
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
ENDLESS = f"{NUMBERS} SELECT COUNT(*) AS n FROM n"
ENDLESS_ROWS = f"{NUMBERS} SELECT i FROM n"
THREADS = 2

Rows = list[dict[str, Any]]


SCHEMA = """
type Doc @table @export {
  id: ID @primaryKey
  number: Int
  text: String
  even: Boolean
}
type Product @table @export {
  id: ID @primaryKey
  name: String @indexed
  price: Float
  inStock: Boolean
  tags: [String]
  listDate: Date
  stock: Int @indexed
}
type Brand @table @export {
  id: ID @primaryKey
  name: String
}
type Counter @table {
  id: Long @primaryKey
  hits: Int
}
"""


def serve(directory: Path, **env: str) -> Iterator[Process]:
    app = directory / "shop"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    process = Process(directory / "root", app, env={"SQL_ACCESS": "roles", "SQL_MAXTIME": LONG, **env}).start()
    yield process
    assert process.stop() == 0, process.output()
    assert not faults(process)


def faults(process: Process) -> list[str]:
    """What should not be in the log, or on standard error."""
    lines = process.logged().splitlines() + process.output().splitlines()
    return [line for line in lines if "[error]" in line or "[fatal]" in line or "Traceback" in line]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """With many records, for callers with the rights of their role, and without a limit of time."""
    for process in serve(tmp_path_factory.mktemp("sql")):
        with process.client() as client:
            for start in range(0, COUNT, 5_000):
                client.put("/Doc/", json=[document(n) for n in range(start, start + 5_000)]).raise_for_status()
            client.put("/Product/", json=[PRODUCT]).raise_for_status()
        yield process


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """For super users, with a short limit of time."""
    yield from serve(tmp_path_factory.mktemp("hasty"), SQL_ACCESS="super_users", SQL_MAXTIME=SHORT)


PRODUCT = {
    "id": "p",
    "name": "Key",
    "price": 49.5,
    "inStock": True,
    "tags": ["usb", "b,c"],
    "listDate": "2024-01-05T20:07:27.955Z",
    "stock": 3,
}


def document(number: int) -> dict[str, Any]:
    return {"id": f"{number:06}", "number": number, "text": f"text ä {number}", "even": number % 2 == 0}


def ask(client: httpx.Client, sql: str, parameters: Any = None, **fields: str) -> httpx.Response:
    return client.post("/sql", json={"sql": sql, "parameters": parameters}, headers=fields)


def answer(client: httpx.Client, sql: str, parameters: Any = None) -> Any:
    """The 200 body."""
    response = ask(client, sql, parameters)
    assert response.status_code == 200, response.text
    return response.json()


def add_user(process: Process, name: str, permission: dict[str, Any]) -> tuple[str, str]:
    """A user with a role of its own. Returns what it logs in with."""
    assert process.operate("add_role", role=name, permission=permission).status_code == 200
    assert process.operate("add_user", username=name, password=PASSWORD, role=name, active=True).status_code == 200
    return name, PASSWORD


# --- the operation ---------------------------------------------------------------------------------------------------------------------


def test_the_operation(server: Process) -> None:
    rows = server.operate("sql", sql="SELECT id, inStock, tags, listDate, missing.n FROM data.Product, (SELECT NULL AS n) missing")
    assert rows.json() == [{"id": "p", "inStock": True, "tags": ["usb", "b,c"], "listDate": PRODUCT["listDate"], "n": None}]
    assert server.operate("sql", sql="SELECT number FROM data.Doc WHERE id = :id", parameters={"id": "000007"}).json() == [{"number": 7}]
    plan = server.operate("sql", sql="SELECT number FROM data.Doc WHERE id = '1'", explain=True).json()
    assert "key: equal" in plan["plan"] and plan["steps"]
    made = server.operate("sql", sql="INSERT INTO data.Brand (id, name) VALUES ('o1', 'Acme'), ('o2', 'Apex')")
    assert made.json() == {"message": "inserted 2 of 2 records", "inserted_hashes": ["o1", "o2"], "skipped_hashes": []}
    gone = server.operate("sql", sql="DELETE FROM data.Brand WHERE id LIKE 'o%'")
    assert gone.json() == {"message": "2 of 2 records successfully deleted", "deleted_hashes": ["o1", "o2"], "skipped_hashes": []}


def test_a_long_answer_of_the_operation(server: Process) -> None:
    response = server.operate("sql", sql="SELECT id, number, text, even FROM data.Doc")
    assert response.json() == [document(n) for n in range(COUNT)]


@pytest.mark.parametrize(
    ("sql", "status", "text", "position"),
    [
        ("SELECT * FORM data.Doc", 400, "Invalid SQL at: ", 9),
        ("SELECT nmber FROM data.Doc", 400, "unknown column nmber", 7),
        ("SELECT * FROM Doc", 400, "schema not defined for table Doc", 14),
        ("SELECT * FROM data.Dox", 404, "Table 'data.Dox' does not exist", None),
        ("DROP TABLE data.Doc", 400, "unsupported SQL type drop", 0),
    ],
)
def test_errors_name_the_place(server: Process, sql: str, status: int, text: str, position: int | None) -> None:
    response = server.operate("sql", sql=sql)
    assert response.status_code == status, response.text
    assert response.json()["error"].startswith(text)
    assert response.json().get("position") == position
    with server.client() as client:
        problem = ask(client, sql)
    assert (problem.status_code, problem.json().get("position")) == (status, position)
    assert problem.json()["detail"].startswith(text)
    assert problem.headers["content-type"] == "application/problem+json"


def test_an_operation_without_sql(server: Process) -> None:
    response = server.operate("sql")
    assert (response.status_code, response.json()["error"]) == (400, "The 'sql' parameter is missing from the request body")


# --- types -----------------------------------------------------------------------------------------------------------------------------


def lines(content: bytes) -> Rows:
    return [json.loads(line) for line in content.splitlines()]


def arrow(content: bytes) -> Rows:
    return list(pa.ipc.open_stream(content).read_all().to_pylist())


def rows_of_csv(content: bytes) -> Rows:
    """Of the columns of `document`."""
    read = csv.DictReader(io.StringIO(content.decode(), newline=""))
    return [{**row, "number": int(row["number"]), "even": {"true": True, "false": False}[row["even"]]} for row in read]


DECODERS: dict[str, Callable[[bytes], Any]] = {
    "application/json": json.loads,
    "application/x-ndjson": lines,
    "text/csv": rows_of_csv,
    "application/x-msgpack": msgspec.msgpack.decode,
    "application/cbor": cbor2.loads,
    ARROW: arrow,
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("content_type", DECODERS)
def test_a_long_answer_in_every_type(server: Process, content_type: str, protocol: str) -> None:
    """What REST gives, complete."""
    query = "SELECT id, number, text, even FROM data.Doc"
    with server.client(**PROTOCOLS[protocol]) as client:
        response = ask(client, query, accept=content_type)
        stored = client.get("/Doc/", headers={"Accept": "application/cbor"})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].partition(";")[0] == content_type
    assert "content-length" not in response.headers
    assert (response.headers.get("transfer-encoding") == "chunked") == (protocol == "http1")
    assert "execute;dur=" in response.headers["server-timing"]
    found = DECODERS[content_type](response.content)
    assert len(found) == COUNT
    assert found == cbor2.loads(stored.content)


@pytest.mark.parametrize("content_type", DECODERS)
def test_a_short_answer_in_every_type(server: Process, content_type: str) -> None:
    query = "SELECT id, number, text, even FROM data.Doc WHERE number < ? ORDER BY number DESC LIMIT 2"
    with server.client() as client:
        response = ask(client, query, [5], accept=content_type)
        empty = ask(client, query, [0], accept=content_type)
    assert (response.status_code, empty.status_code) == (200, 200)
    decode = DECODERS[content_type]
    assert decode(response.content) == [document(4), document(3)]
    assert decode(empty.content) == []


def test_native_values(server: Process) -> None:
    query = "SELECT listDate, tags, inStock FROM data.Product WHERE id = 'p'"
    with server.client() as client:
        (row,) = cbor2.loads(ask(client, query, accept="application/cbor").content)
        assert (
            row["listDate"].isoformat() == "2024-01-05T20:07:27.955000+00:00" and row["tags"] == ["usb", "b,c"] and row["inStock"] is True
        )
        (packed,) = msgspec.msgpack.decode(ask(client, query, accept="application/x-msgpack").content)
        assert packed == row
        (shown,) = arrow(ask(client, query, accept=ARROW).content)
        assert shown["listDate"] == row["listDate"] and shown["inStock"] is True


def test_statements_in_other_bodies(server: Process) -> None:
    query = "SELECT number FROM data.Doc WHERE id = ?"
    with server.client() as client:
        answers = [
            client.post("/sql", params={"parameters": '["000007"]'}, content=query, headers={"Content-Type": "application/sql"}),
            client.post(
                "/sql", content=cbor2.dumps({"sql": query, "parameters": ["000007"]}), headers={"Content-Type": "application/cbor"}
            ),
            client.post(
                "/sql",
                content=msgspec.msgpack.encode({"sql": query, "parameters": ["000007"]}),
                headers={"Content-Type": "application/x-msgpack"},
            ),
            client.post("/sql", data={"sql": query, "parameters": '["000007"]'}),
        ]
        for response in answers:
            assert (response.status_code, response.json()) == (200, [{"number": 7}]), response.text
        assert client.post("/sql", content=query, headers={"Content-Type": "text/plain"}).status_code == 415
        assert ask(client, query, ["x"], accept="image/png").status_code == 406
        assert client.post("/sql", content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
        plan = ask(client, query, ["x"], prefer="explain")
        assert "key: equal" in plan.json()["plan"] and plan.headers["preference-applied"] == "explain"


# --- statements that do not end ----------------------------------------------------------------------------------------------------------


def begin(process: Process, sql: str, port: str = "application") -> socket.socket:
    """A client that has asked, and reads nothing unless the test does."""
    is_operation = port == "operations"
    body = json.dumps({"operation": "sql", "sql": sql} if is_operation else {"sql": sql})
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
    sock.settimeout(LIMIT)
    sock.connect(("127.0.0.1", process.operations_port if is_operation else process.port))
    fields = f"Host: localhost\r\nAuthorization: {authorization()}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    sock.sendall(f"POST /{'' if is_operation else 'sql'} HTTP/1.1\r\n{fields}\r\n\r\n{body}".encode())
    return sock


def others_are_answered(process: Process) -> None:
    """Reads, writes and short statements."""
    with process.client() as client:
        for number in range(20):
            assert client.put("/Brand/beside", json={"name": f"n{number}"}).status_code == 204
            assert client.get("/Brand/beside").json()["name"] == f"n{number}"
            assert answer(client, "SELECT name FROM data.Brand WHERE id = 'beside'") == [{"name": f"n{number}"}]
        assert answer(client, "DELETE FROM data.Brand WHERE id = 'beside'")["deleted_hashes"] == ["beside"]


def there_are_threads(process: Process) -> None:
    """There is no limit of time: were statements still running that nobody waits for, these would not be answered."""
    with process.client() as client:
        for _ in range(THREADS):
            assert answer(client, f"{NUMBERS[:-1]} WHERE i < 100000) SELECT COUNT(*) AS n FROM n") == [{"n": 100_000}]


@pytest.mark.parametrize("port", ["application", "operations"])
def test_clients_that_leave_end_their_statements(server: Process, port: str) -> None:
    with ExitStack() as stack:
        for _ in range(2 * THREADS):
            stack.enter_context(begin(server, ENDLESS, port))
        others_are_answered(server)
    there_are_threads(server)
    with ExitStack() as stack:
        for _ in range(2 * THREADS):
            sock = stack.enter_context(begin(server, ENDLESS_ROWS, port))
            assert sock.recv(1024).startswith(b"HTTP/1.1 200 ")
        others_are_answered(server)
    there_are_threads(server)


def test_streams_of_http2_that_are_reset_end_their_statements(server: Process) -> None:
    end = ClientEnd()
    fields = {"authorization": authorization(), "content-type": "application/sql"}
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as sock:

        def wait_for(reached: Callable[[], object]) -> None:
            sock.sendall(end.data_to_send())
            while not reached():
                piece = sock.recv(65536)
                assert piece, end.goodbyes
                end.receive(piece)
                sock.sendall(end.data_to_send())

        endless = [end.request("POST", "/sql", fields, ENDLESS.encode()) for _ in range(THREADS)]
        streamed = [end.request("POST", "/sql", fields, ENDLESS_ROWS.encode()) for _ in range(THREADS)]
        beside = end.request("POST", "/sql", fields, b"SELECT 1 AS one")
        wait_for(lambda: end.answers[beside].is_complete)
        for stream in (*endless, *streamed):
            end.h2.reset_stream(stream)
        last = end.request("POST", "/sql", fields, f"{NUMBERS[:-1]} WHERE i < 100000) SELECT COUNT(*) AS n FROM n".encode())
        wait_for(lambda: end.answers[last].is_complete)
        assert [json.loads(end.answers[stream].body) for stream in (beside, last)] == [[{"one": 1}], [{"n": 100_000}]]


def test_a_client_that_leaves_ends_its_write(server: Process) -> None:
    """It reads without end, after it has found what to write. Meanwhile others read, and wait to write (spec: sql §5). Nothing of it is written."""
    statuses: list[int] = []

    def put() -> None:
        with server.client() as own:
            statuses.append(own.put("/Brand/after", json={"name": "a"}).status_code)

    writer = threading.Thread(target=put)
    with begin(server, f"{NUMBERS} INSERT INTO data.Brand (id) SELECT i FROM n WHERE i <= 100"):
        with server.client() as client:
            for _ in range(20):
                assert client.get("/Product/p").json()["name"] == "Key"
                assert answer(client, "SELECT name FROM data.Product WHERE id = 'p'") == [{"name": "Key"}]
        writer.start()
    writer.join()
    assert statuses == [204]
    with server.client() as client:
        assert answer(client, "DELETE FROM data.Brand")["deleted_hashes"] == ["after"]


def test_work_has_a_limit_of_time(hasty: Process) -> None:
    with hasty.client() as client:
        response = ask(client, ENDLESS)
        assert (response.status_code, response.json()["code"]) == (400, "QUERY_TOO_LARGE")
        assert "sql.maxTime" in response.json()["detail"]
    operation = hasty.operate("sql", sql=ENDLESS)
    assert (operation.status_code, "sql.maxTime" in operation.json()["error"]) == (400, True)


def test_a_limit_behind_the_first_rows(hasty: Process) -> None:
    """Rows, and last the reason why there are no more (spec: http §8)."""
    with (
        hasty.client() as client,
        client.stream("POST", "/sql", json={"sql": ENDLESS_ROWS}, headers={"Accept": "application/x-ndjson"}) as response,
    ):
        assert response.status_code == 200
        first = ""
        last = ""
        count = 0
        for line in response.iter_lines():
            first = first or line
            last = line
            count += 1
    assert json.loads(first) == {"i": 1} and count > 1000
    assert "sql.maxTime" in json.loads(last)["error"]


@pytest.mark.parametrize("signals", [1, 2])
def test_a_stop_ends_open_statements(tmp_path: Path, signals: int) -> None:
    """After the time for requests in flight, and at once with the second signal."""
    env = {"SQL_MAXTIME": LONG, **({"SVC_TEST_HOOK": SHORT_DRAIN} if signals == 1 else {})}
    server = Process(tmp_path / "root", env=env).start()
    try:
        with (
            begin(server, ENDLESS),
            begin(server, ENDLESS_ROWS) as unread,
            begin(server, f"{NUMBERS} INSERT INTO data.Doc (id) SELECT i FROM n"),
        ):
            assert unread.recv(1024).startswith(b"HTTP/1.1 200 ")
            with server.client() as client:
                assert client.get("/Doc/1").status_code == 404
            for _ in range(signals):
                assert server.process is not None
                server.process.send_signal(signal.SIGTERM)
                wait_until(lambda: not is_open(server), "still accepting")
            assert server.process is not None
            assert server.process.wait(LIMIT) == 0
        assert not faults(server)
    finally:
        server.kill()


def is_open(server: Process) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT).close()
    except ConnectionError:
        return False
    return True


# --- writes ----------------------------------------------------------------------------------------------------------------------------


def test_subscribers_hear_of_writes(server: Process) -> None:
    with server.client() as client, EventClient(client, "/Brand/heard-1") as stream:
        answer(client, "INSERT INTO data.Brand (id, name) VALUES ('heard-1', 'a')")
        answer(client, "UPDATE data.Brand SET name = name || 'b' WHERE id LIKE 'heard-%'")
        rows = answer(
            client, "INSERT INTO data.Brand (id, name) VALUES ('heard-1', 'c') ON CONFLICT DO UPDATE SET name = excluded.name RETURNING *"
        )
        assert rows == [{"id": "heard-1", "name": "c"}]
        answer(client, "DELETE FROM data.Brand WHERE name = 'c'")
        events = stream.take(4)
    assert [event["type"] for event in events] == ["put", "put", "put", "delete"]
    assert [(event["value"] or {}).get("name") for event in events] == ["a", "ab", "c", None]


def test_one_transaction(server: Process) -> None:
    """Of many records, all are written or none: one of the rows has a value that does not fit."""
    with server.client() as client:
        refused = ask(
            client,
            "INSERT INTO data.Product (id, stock) SELECT 'whole-' || id, IIF(number = 150, 'x', number) FROM data.Doc WHERE number < 200",
        )
        assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION"), refused.text
        assert answer(client, "SELECT COUNT(*) AS n FROM data.Product WHERE id LIKE 'whole-%'") == [{"n": 0}]
        made = answer(client, "INSERT INTO data.Product (id, stock) SELECT 'whole-' || id, number FROM data.Doc WHERE number < 200")
        assert made["message"] == "inserted 200 of 200 records"
        assert client.get("/Product/whole-000007").json()["stock"] == 7
        changed = answer(client, "UPDATE data.Product SET stock = stock + 1000 WHERE id LIKE 'whole-%'")
        assert changed["message"] == "updated 200 of 200 records"
        assert client.get("/Product/?stock=ge=1000&select([stock])&sort(stock)").json() == [[1000 + n] for n in range(200)]
        assert answer(client, "DELETE FROM data.Product WHERE stock >= 1000")["message"] == "200 of 200 records successfully deleted"


def test_writers_beside_each_other_lose_nothing(server: Process) -> None:
    """Each reads what it writes within its transaction."""
    with server.client() as client:
        answer(client, "INSERT INTO data.Counter (id, hits) VALUES (1, 0)")

    def count() -> None:
        with server.client() as own:
            for _ in range(25):
                answer(own, "UPDATE data.Counter SET hits = hits + 1 WHERE id = 1")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with server.client() as client:
        assert answer(client, "SELECT hits FROM data.Counter") == [{"hits": 100}]
        answer(client, "DELETE FROM data.Counter")


# --- rights ----------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reader(server: Process) -> tuple[str, str]:
    """May read the name of products, and change their price."""
    attributes = [
        {"attribute_name": "name", "read": True, "insert": False, "update": False},
        {"attribute_name": "price", "read": False, "insert": False, "update": True},
    ]
    table = {"read": True, "insert": False, "update": True, "delete": False, "attribute_permissions": attributes}
    return add_user(server, "reader", {"data": {"tables": {"Product": table}}})


def test_a_user_with_few_rights(server: Process, reader: tuple[str, str]) -> None:
    with httpx.Client(base_url=server.url, auth=reader) as client:
        assert answer(client, "SELECT * FROM data.Product") == [{"id": "p", "name": "Key"}]
        assert server.operate("sql", reader, sql="SELECT * FROM data.Product").json() == [{"id": "p", "name": "Key"}]
        for statement in ("UPDATE data.Product SET name = 'x'", "DELETE FROM data.Product", "INSERT INTO data.Product (name) VALUES ('x')"):
            refused = server.operate("sql", reader, sql=statement)
            assert refused.status_code == 403
            body = refused.json()
            assert body["error"] == "This operation is not authorized due to role restrictions and/or invalid database items"
            assert body["unauthorized_access"], body
            assert ask(client, statement).status_code == 403
        hidden = server.operate("sql", reader, sql="SELECT name FROM data.Product WHERE price > 1")
        assert (hidden.status_code, "price" in json.dumps(hidden.json()["unauthorized_access"])) == (403, True)
        assert ask(client, "SELECT name FROM data.Product WHERE price > 1").status_code == 403
        for column in ("stock", "stork"):  # what is hidden does not exist
            for unknown in (
                ask(client, f"SELECT {column} FROM data.Product"),
                server.operate("sql", reader, sql=f"SELECT {column} FROM data.Product"),
            ):
                assert (unknown.status_code, unknown.json()["error"]) == (400, f"unknown column {column}")
        for table in ("data.Doc", "data.Dox"):
            missing = ask(client, f"SELECT * FROM {table}")
            assert (missing.status_code, missing.json()["detail"]) == (404, f"Table '{table}' does not exist")
    assert server.operate("sql", sql="SELECT name FROM data.Product").json() == [{"name": "Key"}]


def test_callers_without_login(server: Process, hasty: Process) -> None:
    for process in (server, hasty):
        with httpx.Client(base_url=process.url) as client:
            response = ask(client, "SELECT * FROM data.Product")
            assert response.status_code == 401 and "www-authenticate" in response.headers
        assert process.operate("sql", None, sql="SELECT 1").status_code == 401


def test_super_users_only(hasty: Process) -> None:
    user = add_user(
        hasty,
        "writer",
        {"data": {"tables": {"Product": {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}}}},
    )
    with httpx.Client(base_url=hasty.url, auth=user) as client:
        response = ask(client, "SELECT * FROM data.Product")
        assert (response.status_code, "sql.access" in response.json()["detail"]) == (403, True)
    assert hasty.operate("sql", user, sql="SELECT * FROM data.Product", explain=True).status_code == 200


def test_no_one(tmp_path: Path) -> None:
    for process in serve(tmp_path, SQL_ACCESS="none"):
        with process.client() as client:
            assert ask(client, "SELECT 1").status_code == 404
            assert client.get("/sql", headers={"Accept": BROWSER}).status_code == 404
        assert process.operate("sql", sql="SELECT 1 AS one").json() == [{"one": 1}]


def test_pages_of_other_sites_are_nobody(server: Process) -> None:
    body = {"sql": "DELETE FROM data.Product"}
    for page in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        with server.client(headers=page) as client:
            assert client.post("/sql", json=body).status_code == 401
            assert client.post("/sql", data=body, headers={"Accept": BROWSER}).status_code == 401
            assert client.post("/sql", content=body["sql"], headers={"Content-Type": "application/sql"}).status_code == 401
    with server.client(headers={"Origin": server.url}) as client:
        assert answer(client, "SELECT id FROM data.Product") == [{"id": "p"}]


# --- browsers --------------------------------------------------------------------------------------------------------------------------


def test_the_form(server: Process) -> None:
    with server.client(headers={"Accept": BROWSER}) as client:
        page = client.get("/sql", params={"sql": "DELETE FROM data.Product"})
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        form = Parsed(page.content)
        assert form.find("form", method="post")["action"] == "./sql" and "DELETE FROM data.Product" in form.text
        found = client.post(
            "/sql", data={"sql": "SELECT id, name FROM data.Product\r\nWHERE name = :name", "parameters": '{"name": "Key"}'}
        )
        assert (found.status_code, Parsed(found.content).rows) == (200, [["id", "name"], ["p", "Key"]])
        long = client.post("/sql", data={"sql": "SELECT id FROM data.Doc"})
        assert "The first 500 rows" in Parsed(long.content).text
        file = client.post("/sql", data={"sql": "SELECT id FROM data.Doc", "as": "csv"})
        assert file.text.splitlines()[1:] == [f'"{n:06}"' for n in range(COUNT)] and "attachment" in file.headers["content-disposition"]
        wrong = client.post("/sql", data={"sql": "SELECT nme FROM data.Product"})
        assert wrong.status_code == 400 and "unknown column nme" in Parsed(wrong.content).text
        assert client.get("/sql", headers={"Accept": "application/json"}).status_code == 406
    with httpx.Client(base_url=server.url, headers={"Accept": BROWSER}) as stranger:
        assert stranger.get("/sql").status_code == 200  # what strangers may do is for their role to say
        assert stranger.post("/sql", data={"sql": "SELECT id FROM data.Product"}).status_code == 401


# --- commands --------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def command(server: Process) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`svc sql` on the machine of the server: through its socket, without a password."""
    home = server.root.parent
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ROOTPATH": str(server.root),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }

    def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return run_command(("sql", *words), cwd=home, env=env, timeout=LIMIT, given=given)

    return run


Command = Callable[..., subprocess.CompletedProcess[str]]
FEW = "SELECT id, number, even FROM data.Doc WHERE number < 2"


def test_one_statement(command: Command) -> None:
    done = command(FEW)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [{"id": "000000", "number": 0, "even": True}, {"id": "000001", "number": 1, "even": False}]
    for words, given in (((FEW, "--json"), ""), (("--format=json",), f"{FEW};\n"), ((), f"-- few\n{FEW}")):
        assert command(*words, given=given).stdout == done.stdout
    named = command("SELECT number FROM data.Doc WHERE id = :id", "--param", "id=000007")
    assert json.loads(named.stdout) == [{"number": 7}]


def test_formats(command: Command) -> None:
    assert command(FEW, "--format", "csv").stdout == '"id","number","even"\r\n"000000",0,true\r\n"000001",1,false\r\n'
    table = command(FEW, "--format", "table")
    assert table.stdout.splitlines() == ["id      number  even", "──────  ──────  ─────", "000000       0  true", "000001       1  false"]
    assert command(FEW, "--format", "line", given="").stdout.count("number") == 2
    assert command(FEW, "--format", "xml").returncode == 1
    long = "SELECT id, number, text, even FROM data.Doc"
    assert json.loads(command(long).stdout) == [document(n) for n in range(COUNT)]
    assert rows_of_csv(command(long, "--format", "csv").stdout.encode()) == [document(n) for n in range(COUNT)]


def test_writes_and_plans(command: Command) -> None:
    made = command("INSERT INTO data.Brand (id) VALUES ('by-command')")
    assert json.loads(made.stdout)["inserted_hashes"] == ["by-command"]
    script = "UPDATE data.Brand SET name = 'a;b' WHERE id = 'by-command';\nSELECT name FROM data.Brand;\nDELETE FROM data.Brand;"
    as_csv = command("UPDATE data.Brand SET name = 'c' WHERE id = 'by-command'", "--format", "csv").stdout
    assert as_csv == 'updated 1 of 1 records\n  update_hashes: ["by-command"]\n'
    rows = command("UPDATE data.Brand SET name = 'd' WHERE id = 'by-command' RETURNING id, name", "--format", "csv")
    assert rows.stdout == '"id","name"\r\n"by-command","d"\r\n'
    done = command("--format", "table", given=script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "updated 1 of 1 records"
    assert "a;b" in done.stdout and "1 of 1 record successfully deleted" in done.stdout
    assert "key: equal" in json.loads(command("EXPLAIN SELECT 1 FROM data.Doc WHERE id = '1'").stdout)["plan"]


def test_tables_and_columns(command: Command) -> None:
    done = command(given=".tables D\n.schema data.Product\n.databases\n")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["table", "records", "columns"]
    assert ["data.Doc", str(COUNT), "4"] in rows
    assert any(row[:2] == ["listDate", "Date"] for row in rows)
    assert ["data.Product"] in rows
    assert json.loads(command(given=f".mode csv\n.mode json\n{FEW};").stdout)[0]["id"] == "000000"


def test_what_is_wrong(command: Command) -> None:
    done = command("SELECT id,\n  nmber FROM data.Doc")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0].startswith("error: unknown column nmber")
    assert done.stderr.splitlines()[-2:] == ["    nmber FROM data.Doc", "    ^"]
    script = command(given="SELECT 1 AS one;\nSELECT nmber FROM data.Doc;\nSELECT 2 AS two;")
    assert (script.returncode, json.loads(script.stdout)) == (1, [{"one": 1}])
    assert script.stderr.startswith("error: line 2: unknown column nmber")
    assert command("SELECT 1", "SELECT 2").returncode == 1
    unknown = command(given=".table\n")
    assert (unknown.returncode, ".tables?" in unknown.stderr) == (1, True)
    assert command(given=".quit\nSELECT nothing").returncode == 0


def test_a_remote_user(command: Command, server: Process, reader: tuple[str, str]) -> None:
    name, password = reader
    remote = (f"target={server.operations_url}", f"auth_username={name}", f"auth_password={password}")
    assert json.loads(command("SELECT * FROM data.Product", *remote).stdout) == [{"id": "p", "name": "Key"}]
    refused = command("DELETE FROM data.Product", *remote)
    assert (refused.returncode, refused.stdout) == (1, "") and "not authorized" in refused.stderr
    assert command("SELECT 1", remote[0]).stderr == "error: Must login\n"
