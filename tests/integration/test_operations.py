"""The operations port of the real process: transport, types, refusals, the socket, and how it leaves."""

from __future__ import annotations

import gzip
import json
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import httpx
import msgspec
import pytest

from svc.root.socket_path import socket_path
from tests.integration.conftest import PASSWORD, Process
from tests.support.server_hooks import LONG_DRAIN
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

ADMIN = ("admin", PASSWORD)
SECRETS = ("correct horse", "Tr0ub4dor-and-3", "s3cr3t-second", "PRIVATE KEY")


@pytest.fixture
def operations(server: Process) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.operations_url, auth=ADMIN, timeout=60) as http:
        yield http


def post(client: httpx.Client, operation: str, **fields: Any) -> Any:
    """The 200 body."""
    response = client.post("/", json={"operation": operation, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def refused(client: httpx.Client, status: int, operation: str, **fields: Any) -> Any:
    response = client.post("/", json={"operation": operation, **fields})
    assert response.status_code == status, response.text
    return response.json()


def wait_for_job(client: httpx.Client, job_id: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        (job,) = post(client, "get_job", id=job_id)
        return job if job["status"] in ("COMPLETE", "ERROR") else None

    return dict(wait_until(ended, "the job does not end") or {})


# --- transport ---------------------------------------------------------------------------------------------------------------------------


def test_health_and_readiness_need_no_login(server: Process) -> None:
    for path, text in (("/health", "svc is running."), ("/ready", "svc is ready.")):
        response = httpx.get(server.operations_url + path)
        assert (response.status_code, response.text) == (200, text)
        assert response.headers["content-type"].startswith("text/plain")
        assert httpx.head(server.operations_url + path).status_code == 200


def test_readiness_follows_the_operator(operations: httpx.Client) -> None:
    post(operations, "set_status", id="availability", status="Unavailable")
    try:
        assert operations.get("/ready").status_code == 503
        assert operations.get("/health").status_code == 200
    finally:
        post(operations, "clear_status", id="availability")
    assert operations.get("/ready").status_code == 200


def test_unknown_addresses(operations: httpx.Client) -> None:
    for method, path in (("GET", "/x"), ("PUT", "/"), ("POST", "/health"), ("DELETE", "/"), ("GET", "/studio/x")):
        response = operations.request(method, path)
        assert response.status_code == 404
        assert response.json()["error"] == "Not found"


def test_the_page_at_the_root(operations: httpx.Client) -> None:
    response = operations.get("/")
    assert response.status_code == 200
    assert "svc" in response.text and response.headers["content-type"].startswith("text/html")


def test_openapi_documents(operations: httpx.Client, server: Process) -> None:
    from openapi_spec_validator import validate

    validate(operations.get("/api/openapi/operations").json())
    assert operations.get("/api/openapi/rest").json()["openapi"].startswith("3.")
    assert httpx.get(server.operations_url + "/api/openapi/rest").status_code == 401


def test_authentication(server: Process) -> None:
    body = {"operation": "describe_all"}
    anonymous = httpx.post(server.operations_url, json=body)
    assert (anonymous.status_code, anonymous.json()["error"]) == (401, "Must login")
    assert anonymous.headers["www-authenticate"].startswith("Basic")
    wrong = httpx.post(server.operations_url, json=body, auth=("admin", "wrong"))
    assert (wrong.status_code, wrong.json()["error"]) == (401, "Login failed")
    assert httpx.post(server.operations_url, json=body, auth=ADMIN).status_code == 200


def test_a_stranger_may_not_send_much(server: Process) -> None:
    with socket.create_connection(("127.0.0.1", server.operations_port)) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500000000\r\n\r\n{")
        assert sock.recv(4096).startswith(b"HTTP/1.1 401 ")


def test_bodies_in_chunks(server: Process) -> None:
    content = [json.dumps({"operation": "user_info"}).encode()]
    assert httpx.post(server.operations_url, content=iter(content), auth=ADMIN).status_code == 200
    refused = httpx.post(server.operations_url, content=iter(content))
    assert (refused.status_code, refused.json()["code"]) == (411, "LENGTH_REQUIRED")


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b'"x"', b"{}", b"{", b"\xff\xfe", b'{"operation"', b"[" * 100_000])
def test_bodies_that_are_no_operation(operations: httpx.Client, content: bytes) -> None:
    response = operations.post("/", content=content, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"].startswith("Invalid JSON")


@pytest.mark.parametrize(
    "fields, status",
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Origin": "https://elsewhere.example"}, 415),
        ({}, 200),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, 200),
    ],
)
def test_types_of_bodies(operations: httpx.Client, fields: dict[str, str], status: int) -> None:
    content = json.dumps({"operation": "user_info"}).encode()
    if "Content-Encoding" in fields:
        content = gzip.compress(content)
    assert operations.post("/", content=content, headers=fields).status_code == status


def test_binary_types_both_ways(operations: httpx.Client) -> None:
    for media_type, encode, decode in (
        ("application/cbor", cbor2.dumps, cbor2.loads),
        ("application/x-msgpack", msgspec.msgpack.encode, msgspec.msgpack.decode),
    ):
        response = operations.post(
            "/", content=encode({"operation": "user_info"}), headers={"Content-Type": media_type, "Accept": media_type}
        )
        assert response.headers["content-type"] == media_type
        assert decode(response.content)["username"] == "admin"
        failed = operations.post("/", content=encode({"operation": "no"}), headers={"Content-Type": media_type, "Accept": media_type})
        assert decode(failed.content)["error"] == "Operation 'no' not found"


def test_cors(server: Process) -> None:
    origin = {"Origin": "https://console.example", "Access-Control-Request-Method": "POST"}
    response = httpx.options(server.operations_url, headers=origin)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "*"  # without credentials
    assert "access-control-allow-credentials" not in response.headers
    assert response.headers["access-control-allow-methods"] == "POST, GET, PUT, DELETE, PATCH, OPTIONS"


def test_fields_of_the_server_are_dropped(server: Process) -> None:
    response = httpx.post(server.operations_url, json={"operation": "describe_all", "bypass_auth": True, "svc_user": {"super_user": True}})
    assert response.status_code == 401


def test_replicated_on_a_node_of_its_own(operations: httpx.Client) -> None:
    assert post(operations, "user_info", replicated=True)["replicated"] == []
    assert "replicated" not in post(operations, "user_info", replicated=False)
    assert refused(operations, 400, "user_info", replicated="yes")["error"] == "'replicated' must be a boolean"


# --- records -----------------------------------------------------------------------------------------------------------------------------


def test_from_table_to_csv(operations: httpx.Client) -> None:
    post(operations, "create_table", database="garden", table="plant")
    post(
        operations, "insert", database="garden", table="plant", records=[{"id": n, "species": "fern", "height": n * 1.5} for n in range(5)]
    )
    found = post(
        operations,
        "search_by_conditions",
        database="garden",
        table="plant",
        conditions=[{"search_attribute": "height", "search_type": "between", "search_value": [1, 5]}],
        get_attributes=["id", "height"],
    )
    assert found == [{"id": 1, "height": 1.5}, {"id": 2, "height": 3}, {"id": 3, "height": 4.5}]
    response = operations.post(
        "/",
        json={"operation": "search_by_value", "database": "garden", "table": "plant", "attribute": "species", "value": "f*"},
        headers={"Accept": "text/csv"},
    )
    assert response.headers["content-disposition"] == 'attachment; filename="data.csv"'
    assert len(response.text.strip().splitlines()) == 6
    post(operations, "drop_database", database="garden")


def test_a_large_result_streams_compressed(operations: httpx.Client) -> None:
    post(operations, "create_table", table="large")
    post(operations, "insert", table="large", records=[{"id": n, "text": "x" * 50, "number": n} for n in range(20_000)])
    response = operations.post(
        "/",
        json={"operation": "search_by_value", "table": "large", "attribute": "id", "value": "*"},
        headers={"Accept-Encoding": "gzip"},
    )
    assert response.headers["content-encoding"] == "gzip"
    assert [record["number"] for record in response.json()] == list(range(20_000))
    post(operations, "drop_table", table="large")


def test_csv_load_reports_and_is_served_beside(operations: httpx.Client, server: Process) -> None:
    post(operations, "create_table", table="loaded")
    text = "id,name,count\n" + "\n".join(f"{n},name {n},{n % 7}" for n in range(30_000)) + "\n"
    started = post(operations, "csv_data_load", table="loaded", data=text)
    assert started["message"] == f"Starting job with id {started['job_id']}"
    assert httpx.get(server.operations_url + "/health").status_code == 200
    job = wait_for_job(operations, started["job_id"])
    assert (job["status"], job["message"]) == ("COMPLETE", "successfully loaded 30000 of 30000 records")
    assert post(operations, "describe_table", table="loaded")["record_count"] == 30_000
    post(operations, "drop_table", table="loaded")


def test_the_example_of_the_primary_text(operations: httpx.Client) -> None:
    now = time.time() * 1000
    found = post(
        operations,
        "search_by_conditions",
        schema="system",
        table="svc_raw_analytics",
        conditions=[{"search_attribute": "id", "search_type": "between", "search_value": [now - 60_000, now]}],
    )
    assert isinstance(found, list)


# --- the socket --------------------------------------------------------------------------------------------------------------------------


def test_the_socket_is_the_super_users(server: Process) -> None:
    path = socket_path(server.root / "operations-server")
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
        assert post(client, "user_info")["username"] == "admin"
        assert client.post("/", json={"operation": "user_info"}, auth=("admin", "wrong")).status_code == 401


# --- rights ------------------------------------------------------------------------------------------------------------------------------


def test_a_role_a_user_and_a_token(operations: httpx.Client, server: Process) -> None:
    post(operations, "create_table", table="herb")
    table = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
    post(operations, "add_role", role="reader", permission={"data": {"tables": {"herb": table}}})
    post(operations, "add_user", username="ann", password=SECRETS[1], role="reader", active=True)
    pair = httpx.post(
        server.operations_url,
        json={"operation": "create_authentication_tokens", "username": "ann", "password": SECRETS[1]},
        timeout=60,
    ).json()
    with httpx.Client(base_url=server.operations_url, headers={"Authorization": f"Bearer {pair['operation_token']}"}) as ann:
        assert post(ann, "search_by_value", table="herb", attribute="id", value="*") == []
        body = refused(ann, 403, "insert", table="herb", records=[{"id": 1}])
        assert body["unauthorized_access"] == [
            {"schema": "data", "table": "herb", "required_table_permissions": ["insert"], "required_attribute_permissions": []}
        ]
        assert list(post(ann, "describe_all")["data"]) == ["herb"]
        post(operations, "alter_user", username="ann", active=False)
        assert refused(ann, 401, "describe_all")["error"] == "Cannot complete request: User is inactive"
        post(operations, "alter_user", username="ann", active=True)
        assert refused(ann, 401, "describe_all")["error"] == "invalid token"  # it has ended with the deactivation
    pair = httpx.post(
        server.operations_url,
        json={"operation": "create_authentication_tokens", "username": "ann", "password": SECRETS[1]},
        timeout=60,
    ).json()
    refresh = {"Authorization": f"Bearer {pair['refresh_token']}"}
    assert httpx.post(server.operations_url, json={"operation": "describe_all"}, headers=refresh).json()["error"] == "invalid token"
    renewed = httpx.post(server.operations_url, json={"operation": "refresh_operation_token"}, headers=refresh)
    assert renewed.status_code == 200 and renewed.json()["operation_token"]
    assert httpx.get(server.url + "/", headers=refresh).status_code == 401
    post(operations, "drop_user", username="ann")
    post(operations, "drop_role", id="reader")
    post(operations, "drop_table", table="herb")


def test_a_session(server: Process) -> None:
    with httpx.Client(base_url=server.operations_url) as client:
        assert refused(client, 401, "login", username="admin", password="wrong")["error"] == "Login failed"
        assert post(client, "login", username="admin", password=PASSWORD) == {"message": "Login successful"}
        assert post(client, "user_info")["username"] == "admin"
        elsewhere = client.post("/", json={"operation": "user_info"}, headers={"Origin": "https://elsewhere.example"})
        assert elsewhere.status_code == 401
        post(client, "logout")
        assert refused(client, 401, "user_info")["error"] == "Must login"


# --- logs --------------------------------------------------------------------------------------------------------------------------------


def test_no_secret_is_ever_logged(tmp_path: Path) -> None:
    process = Process(tmp_path / "root", env={"LOGGING_LEVEL": "trace", "LOGGING_AUDITAUTHEVENTS_LOGFAILED": "true"}).start()
    try:
        process.operate("add_role", role="plain", permission={})
        process.operate("add_user", username="bob", password=SECRETS[1], role="plain", active=True)
        process.operate("alter_user", username="bob", password=SECRETS[2])
        process.operate("create_authentication_tokens", auth=None, username="bob", password=SECRETS[2])
        process.operate("create_authentication_tokens", auth=None, username="bob", password="wrong-" + SECRETS[1])
        process.operate("login", auth=None, username="bob", password=SECRETS[2])
        process.operate(
            "insert", database="system", table="svc_user", records=[{"username": "eve", "password": SECRETS[2], "role": "plain"}]
        )
        process.operate("add_certificate", name="x", certificate="no", is_authority=False, private_key="-----BEGIN PRIVATE KEY-----")
        process.operate("describe_all", auth=("bob", SECRETS[2]))
        tokens = process.operate("create_authentication_tokens").json()
        httpx.post(process.operations_url, json={"operation": "refresh_operation_token", "refresh_token": tokens["refresh_token"]})
        assert process.operate("read_log", limit=5).status_code == 200
    finally:
        assert process.stop() == 0
    written = process.logged() + process.output()
    assert "add_user" in written
    for secret in (*SECRETS, tokens["refresh_token"], tokens["operation_token"], "pbkdf2_sha256", "$argon2id"):
        assert secret not in written, secret


# --- leaving -----------------------------------------------------------------------------------------------------------------------------


def test_while_it_stops_it_says_so(tmp_path: Path) -> None:
    process = Process(tmp_path / "root", env={"SVC_TEST_HOOK": LONG_DRAIN}).start()
    try:
        busy = socket.create_connection(("127.0.0.1", process.port))
        busy.sendall(b"PUT /Nothing/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")  # a request in flight keeps the port open
        with httpx.Client(base_url=process.operations_url) as client:
            assert client.get("/ready").status_code == 200
            assert process.process is not None
            process.process.send_signal(signal.SIGTERM)
            wait_until(lambda: client.get("/ready").status_code == 503)
            assert client.get("/ready").text == "svc is stopping."
            assert client.get("/health").status_code == 200
            response = client.post("/", json={"operation": "user_info"}, auth=ADMIN)
            assert response.status_code == 503
        busy.close()
        assert process.process.wait(timeout=60) == 0
    finally:
        process.kill()


def test_what_was_answered_is_there_after_a_kill(tmp_path: Path) -> None:
    process = Process(tmp_path / "root").start()
    acknowledged: list[int] = []

    def write() -> None:
        assert process.operate("create_table", table="t").status_code == 200
        for first in range(0, 100_000, 100):
            rows = [{"id": n, "value": n} for n in range(first, first + 100)]
            try:
                assert process.operate("insert", table="t", records=rows).status_code == 200
                acknowledged.append(first)
            except httpx.HTTPError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(acknowledged) < 20:
            assert writer.is_alive()
            time.sleep(0.01)
        process.kill()
        writer.join()
        process.start()
        found = process.operate("search_by_value", table="t", attribute="id", value="*", get_attributes=["id"]).json()
        ids = {row["id"] for row in found}
        for first in acknowledged:
            assert ids.issuperset(range(first, first + 100))
        assert len(ids) % 100 == 0  # whole requests only
    finally:
        process.kill()


def test_restart_keeps_port_and_data(tmp_path: Path) -> None:
    process = Process(tmp_path / "root").start()
    try:
        assert process.operate("create_table", table="kept").status_code == 200
        response = process.operate("restart")
        assert response.json() == {"message": "Restarting svc. This may take up to 60 seconds."}
        assert response.headers["connection"] == "close"
        wait_until(lambda: process.logged().count("successfully started") == 2, process.logged)
        assert process.operate("describe_table", table="kept").status_code == 200
        assert process.process is not None and process.process.poll() is None
    finally:
        assert process.stop() == 0
