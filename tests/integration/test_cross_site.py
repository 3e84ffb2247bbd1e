"""Pages of other origins, on both ports: who they are taken for, and what they are told (spec: security §3, §9, http §9, §11.1, §11.3)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.integration.conftest import PASSWORD, PROTOCOLS, Process
from tests.support.http2 import Answer, Client
from tests.support.node import Node

pytestmark = pytest.mark.programs

LIMIT = 120.0  # seconds for anything to arrive
LISTED = "https://shop.example.com"
BASIC = "Basic " + b64encode(f"admin:{PASSWORD}".encode()).decode()

FOREIGN = [
    {"Origin": "https://shop-example.com"},
    {"Origin": "https://shop.example.com.evil.example"},
    {"Origin": "http://shop.example.com"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    lists = json.dumps([LISTED, "*"])
    env = {"HTTP_CORSACCESSLIST": lists, "OPERATIONSAPI_NETWORK_CORSACCESSLIST": lists}
    process = Process(tmp_path_factory.mktemp("cross") / "root", env=env).start()
    with process.client() as client:
        client.put("/Product/1", json={"name": "fern"}).raise_for_status()
    yield process
    assert process.stop() == 0, process.output()
    assert not [line for line in process.logged().splitlines() if "[error]" in line or "corsAccessList" in line or "Traceback" in line]


@pytest.fixture(scope="module")
def credentials(server: Process) -> dict[str, dict[str, str]]:
    """What browsers add, and the token that they do not."""
    answer = httpx.post(server.operations_url, json={"operation": "login", "username": "admin", "password": PASSWORD})
    token = server.operate("create_authentication_tokens").json()["operation_token"]
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert cookie.startswith("svc-session=")
    return {"basic": {"Authorization": BASIC}, "cookie": {"Cookie": cookie}, "bearer": {"Authorization": f"Bearer {token}"}}


def own(url: str) -> dict[str, str]:
    return {"Origin": url}


def ask(server: Process, protocol: str, port: str, headers: dict[str, str]) -> list[httpx.Response]:
    """A reading and a writing request, the latter of a kind that needs no preflight."""
    with httpx.Client(timeout=LIMIT, headers=headers, **PROTOCOLS[protocol]) as client:  # type: ignore[arg-type]
        if port == "operations":
            plain = client.post(server.operations_url, content='{"operation":"user_info"}', headers={"Content-Type": "application/json"})
            return [plain, client.get(f"{server.operations_url}/api/openapi/operations")]
        written = client.post(f"{server.url}/Doc/", content='{"id":"x"}', headers={"Content-Type": "text/plain"})
        return [client.get(f"{server.url}/Product/1"), written]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("port", ["application", "operations"])
def test_own_and_listed_pages_act_as_their_visitor(server: Process, credentials: Any, protocol: str, port: str) -> None:
    pages = [own(server.operations_url), {"Origin": LISTED}, {"Sec-Fetch-Site": "same-origin"}, {}]
    if port == "application":
        pages.append(own(server.url))  # that of the operations port is listed here, not the other way round
    for page in pages:
        for kind, added in credentials.items():
            for answer in ask(server, protocol, port, page | added):
                assert answer.status_code < 300, (page, kind, answer.text)
                is_listed = page.get("Origin") == LISTED
                assert answer.headers.get("access-control-allow-credentials") == ("true" if is_listed else None) or port == "application"
                if is_listed:
                    assert answer.headers["access-control-allow-origin"] == LISTED and "Origin" in answer.headers["vary"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("port", ["application", "operations"])
@pytest.mark.parametrize("page", FOREIGN, ids=str)
def test_foreign_pages_are_anonymous(server: Process, credentials: Any, protocol: str, port: str, page: dict[str, str]) -> None:
    setting = "http.corsAccessList" if port == "application" else "operationsApi.network.corsAccessList"
    for kind in ("basic", "cookie"):
        for answer in ask(server, protocol, port, page | credentials[kind]):
            assert answer.status_code == 401, (kind, answer.text)
            body = answer.json()
            text = body["error"] if port == "operations" else body["detail"]
            assert text.startswith("Must login: ") and setting in text and body["code"] == "UNAUTHENTICATED"
            assert answer.headers.get_list("www-authenticate") == ['Bearer realm="svc"']  # a dialog for a password would lead nowhere
            if "Origin" in page:
                assert answer.headers["access-control-allow-origin"] == "*" and page["Origin"] in text
            assert "access-control-allow-credentials" not in answer.headers and "set-cookie" not in answer.headers
    for answer in ask(server, protocol, port, page | credentials["bearer"]):
        assert answer.status_code < 300, answer.text
        assert "access-control-allow-credentials" not in answer.headers
    with server.client() as client:
        client.delete("/Doc/x")


def test_a_page_of_the_application_port_is_foreign_to_operations(server: Process, credentials: Any) -> None:
    """Its pages are what users stored."""
    for added in (credentials["basic"], credentials["cookie"]):
        body = {"operation": "user_info"}
        assert httpx.post(server.operations_url, json=body, headers=own(server.url) | added).status_code == 401


@pytest.mark.parametrize("port", ["application", "operations"])
def test_preflights(server: Process, port: str) -> None:
    url = server.url + "/Product/1" if port == "application" else server.operations_url
    methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, QUERY" if port == "application" else "POST, GET, PUT, DELETE, PATCH, OPTIONS"
    for origin, allowed in ((LISTED, LISTED), ("https://evil.example", "*")):
        answer = httpx.options(url, headers={"Origin": origin, "Access-Control-Request-Method": "PUT"})
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["access-control-allow-origin"] == allowed
        assert answer.headers.get("access-control-allow-credentials") == ("true" if allowed == LISTED else None)
        assert answer.headers["access-control-allow-methods"] == methods and answer.headers["access-control-max-age"] == "600"
        assert "If-Match" in answer.headers["access-control-allow-headers"].split(", ")


def test_nobody_can_log_a_visitor_in_as_somebody_else(server: Process) -> None:
    body = {"operation": "login", "username": "admin", "password": PASSWORD}
    for page in FOREIGN:
        answer = httpx.post(server.operations_url, json=body, headers=page)
        assert answer.status_code == 403 and "set-cookie" not in answer.headers
        assert "operationsApi.network.corsAccessList" in answer.json()["error"]


@pytest.mark.parametrize("page", [*FOREIGN, {"Origin": LISTED}, {}], ids=str)
def test_websockets(server: Process, credentials: Any, page: dict[str, str]) -> None:
    is_foreign = page in FOREIGN
    for kind, added in credentials.items():
        headers = page | added
        origin = headers.pop("Origin", None)
        url = f"ws://127.0.0.1:{server.port}/Product/1"
        with connect(url, origin=origin, additional_headers=headers, open_timeout=LIMIT) as ws:  # type: ignore[arg-type]
            if is_foreign and kind != "bearer":
                with pytest.raises(ConnectionClosed) as closed:
                    ws.recv(timeout=LIMIT)
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 3000
                assert closed.value.rcvd.reason.startswith("Must login: ")
            else:
                assert json.loads(ws.recv(timeout=LIMIT))["value"]["name"] == "fern"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("page", [*FOREIGN, {"Origin": LISTED}, {}], ids=str)
def test_event_streams(server: Process, credentials: Any, protocol: str, page: dict[str, str]) -> None:
    for kind, added in credentials.items():
        headers = {"Accept": "text/event-stream"} | page | added
        with ExitStack() as stack:
            client = stack.enter_context(httpx.Client(base_url=server.url, timeout=LIMIT, **PROTOCOLS[protocol]))  # type: ignore[arg-type]
            answer = stack.enter_context(client.stream("GET", "/Product/1", headers=headers))
            if page in FOREIGN and kind != "bearer":
                assert answer.status_code == 401 and "http.corsAccessList" in json.loads(answer.read())["detail"]
            else:
                assert answer.status_code == 200
                found = b""
                for piece in answer.iter_bytes():
                    found += piece
                    if b"fern" in found:
                        break
                assert b"fern" in found


@pytest.mark.parametrize(
    ("fields", "admitted"),
    [
        ([], True),
        ([("origin", "http://localhost")], True),
        ([("origin", "https://localhost")], False),
        ([("origin", "https://evil.example")], False),
        ([("sec-fetch-site", "cross-site")], False),
    ],
)
def test_websockets_on_streams_of_http2(tmp_path: Path, fields: list[tuple[str, str]], admitted: bool) -> None:
    """RFC 8441, which no client here speaks. Requests of this machine are the super user's in this node, but not those of foreign pages."""
    node = Node(tmp_path / "node")
    client = Client(node)
    stream_id = client.h2.get_next_available_stream_id()
    head = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "localhost"), (":path", "/Product/1")]
    client.h2.send_headers(stream_id, [*head, ("sec-websocket-version", "13"), *fields])
    answer = client.answers[stream_id] = Answer()
    client.exchange_bytes()
    assert answer.status == 200
    code = (3000).to_bytes(2)
    if admitted:
        assert code not in answer.body and not answer.is_complete
    else:
        assert answer.body[:1] == b"\x88" and answer.body[2:4] == code and answer.body[4:].startswith(b"Must login: ")
    node.close()
