"""The role `anonymous` on every interface (spec: security §5.8, http §4.3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.integration.conftest import PASSWORD, Process
from tests.support.waiting import LIMIT

pytestmark = pytest.mark.programs

SCHEMA = """
type Plant @table @export { id: ID @primaryKey, name: String @indexed, pin: String, gardenId: ID @indexed, garden: Garden @relationship(from: "gardenId") }
type Garden @table @export { id: ID @primaryKey, name: String }
"""
PINS = '{ Plant(id: "1") { pin } }'
VARY = "Accept, Accept-Encoding, Authorization, Cookie"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Its user ann has a role that may insert plants, and nothing else."""
    root: Path = tmp_path_factory.mktemp("public")
    app = root / "app"
    app.mkdir()
    (app / "config.yaml").write_text("rest: true\ngraphql: true\ngraphqlSchema: {files: '*.graphql'}\n")
    (app / "schema.graphql").write_text(SCHEMA)
    process = Process(root / "svc", app).start()
    with process.client() as client:
        client.put("/Garden/g", json={"name": "kew"}).raise_for_status()
        client.put("/Plant/1", json={"name": "fern", "pin": "1234", "gardenId": "g"}).raise_for_status()
    process.operate("grant", role="adder", rights=["insert"], on="Plant").raise_for_status()
    process.operate("add_user", username="ann", password=PASSWORD, role="adder", active=True).raise_for_status()
    yield process
    assert process.stop() == 0, process.output()
    assert "Traceback" not in process.logged(), process.logged()


@pytest.fixture
def public(server: Process) -> Iterator[httpx.Client]:
    """Everyone may read names of plants."""
    server.operate("grant", role="anonymous", rights=["read"], on="Plant.name").raise_for_status()
    with httpx.Client(base_url=server.url, timeout=LIMIT) as client:
        yield client
    server.operate("revoke", role="anonymous", rights=["read"], on="Plant").raise_for_status()
    assert httpx.get(f"{server.url}/Plant/1").status_code == 401


def test_nothing_is_public_by_itself(server: Process) -> None:
    for path in ("/Plant/1", "/Plant/", "/Plant", "/Garden/g"):
        assert httpx.get(server.url + path).status_code == 401
    assert httpx.get(f"{server.url}/Plant/1", auth=("ann", PASSWORD)).status_code == 403


def test_rest(server: Process, public: httpx.Client) -> None:
    got = public.get("/Plant/1")
    assert (got.status_code, got.json()) == (200, {"id": "1", "name": "fern"})
    assert (got.headers["cache-control"], got.headers["vary"]) == ("public, no-cache", VARY)
    unchanged = public.get("/Plant/1", headers={"If-None-Match": got.headers["etag"]})
    assert (unchanged.status_code, unchanged.headers["cache-control"], unchanged.headers["vary"]) == (304, "public, no-cache", VARY)
    rows = public.get("/Plant/?name=fern&select(name,pin,garden{name})")
    assert (rows.json(), rows.headers["cache-control"], rows.headers["vary"]) == ([{"name": "fern"}], "public, no-cache", VARY)
    assert "set-cookie" not in got.headers
    for method, path in (("PUT", "/Plant/1"), ("PATCH", "/Plant/1"), ("POST", "/Plant/"), ("DELETE", "/Plant/1"), ("GET", "/Garden/g")):
        refused = public.request(method, path, json={"name": "moss"} if method != "GET" else None)
        assert refused.status_code == 401 and "public" not in refused.headers.get("cache-control", ""), method
    assert public.get("/Plant/?pin=1234").status_code == 401  # a hidden value cannot be guessed
    page = {"Origin": "https://elsewhere.example"}
    foreign = public.get("/Plant/1", headers=page)
    assert (foreign.status_code, foreign.headers["access-control-allow-origin"]) == (200, "*")
    assert public.get("/Plant/1", auth=("ann", "wrong")).status_code == 401  # what is there and wrong is no way to be anonymous


def test_users_may_do_what_everyone_may(server: Process, public: httpx.Client) -> None:
    ann = public.get("/Plant/1", auth=("ann", PASSWORD))
    assert (ann.json(), ann.headers["cache-control"], ann.headers["vary"]) == ({"id": "1", "name": "fern"}, "private, no-cache", VARY)
    assert public.post("/Plant/", json={"name": "moss", "pin": "1"}, auth=("ann", PASSWORD)).status_code == 201
    assert public.patch("/Plant/1", json={"name": "moss"}, auth=("ann", PASSWORD)).status_code == 403


def test_the_operations_port_stays_closed(server: Process, public: httpx.Client) -> None:
    body = {"operation": "search_by_id", "table": "Plant", "ids": ["1"]}
    assert httpx.post(server.operations_url, json=body).status_code == 401
    assert httpx.post(server.operations_url, json=body, auth=("ann", PASSWORD)).json() == [{"id": "1", "name": "fern"}]


def test_graphql(server: Process, public: httpx.Client) -> None:
    assert public.post("/graphql", json={"query": '{ Plant(id: "1") { id name } }'}).json()["data"]["Plant"][0] == {
        "id": "1",
        "name": "fern",
    }
    assert public.post("/graphql", json={"query": PINS}).json()["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
    types = '{ __type(name: "Plant") { fields { name } } }'
    assert {field["name"] for field in public.post("/graphql", json={"query": types}).json()["data"]["__type"]["fields"]} == {"id", "name"}
    server.operate("grant", role="anonymous", rights=["read"], on="Plant.pin").raise_for_status()
    assert public.post("/graphql", json={"query": PINS}).json()["data"]["Plant"][0] == {"pin": "1234"}
    fields = public.post("/graphql", json={"query": types}).json()["data"]["__type"]["fields"]
    assert {field["name"] for field in fields} == {"id", "name", "pin"}
    server.operate("revoke", role="anonymous", rights=["read"], on="Plant.pin").raise_for_status()
    assert "errors" in public.post("/graphql", json={"query": PINS}).json()


def test_planned_queries_forget_rights(server: Process, public: httpx.Client) -> None:
    """A query of one shape is planned once for the rights of its caller."""
    server.operate("grant", role="anonymous", rights=["read"], on="Plant.pin").raise_for_status()
    for number in range(4):
        assert public.get(f"/Plant/?name=fern{number}&pin=ne=x").status_code == 200
    server.operate("revoke", role="anonymous", rights=["read"], on="Plant.pin").raise_for_status()
    assert public.get("/Plant/?name=fern5&pin=ne=x").status_code == 401


def test_a_cache_does_not_keep_what_may_not_be_read_any_more(server: Process, public: httpx.Client) -> None:
    """Shared caches keep public answers and ask each time; 304 would let them go on with a value that has become private."""
    server.operate("grant", role="anonymous", rights=["read"], on="Plant").raise_for_status()
    for path in ("/Plant/1", "/Plant/1?select(id,name,pin)"):
        before = public.get(path)
        assert before.json()["pin"] == "1234"
        asks = {"If-None-Match": before.headers["etag"]}
        assert public.get(path, headers=asks).status_code == 304
        server.operate("revoke", role="anonymous", rights=["read"], on="Plant.pin").raise_for_status()
        after = public.get(path, headers=asks)
        assert after.status_code == 200 and after.json()["name"] == "fern" and "pin" not in after.json()
        assert public.get(path, headers={"If-None-Match": after.headers["etag"]}).status_code == 304
        with server.client() as admin:  # and the browser of a user who logs in does not keep the view of before
            assert admin.get(path, headers={"If-None-Match": after.headers["etag"]}).json()["pin"] == "1234"
            assert admin.patch("/Plant/1", json={"name": "fern"}, headers={"If-Match": after.headers["etag"]}).status_code == 204
        server.operate("grant", role="anonymous", rights=["read"], on="Plant").raise_for_status()


def test_subscriptions_end_with_the_right(server: Process) -> None:
    server.operate("grant", role="anonymous", rights=["read"], on="Plant.name").raise_for_status()
    address = server.url.replace("http", "ws") + "/Plant/1"
    with (
        httpx.stream("GET", f"{server.url}/Plant/1", headers={"Accept": "text/event-stream"}, timeout=LIMIT) as stream,
        connect(address) as ws,
    ):
        lines = stream.iter_lines()
        assert json.loads(next(line for line in lines if line.startswith("data:"))[5:])["value"] == {"id": "1", "name": "fern"}
        assert json.loads(ws.recv(LIMIT))["value"] == {"id": "1", "name": "fern"}
        server.operate("revoke", role="anonymous", rights=["read"], on="Plant").raise_for_status()
        assert "1234" not in "".join(lines)  # it ends
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(LIMIT)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 3000
    with connect(address) as ws, pytest.raises(ConnectionClosed) as closed:
        ws.recv(LIMIT)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 3000


def test_pages(public: httpx.Client) -> None:
    browser = {"Accept": "text/html", "User-Agent": "Mozilla/5.0"}
    page = public.get("/Plant/", headers=browser)
    assert page.status_code == 200 and "fern" in page.text and "1234" not in page.text
    assert (page.headers["cache-control"], page.headers["vary"]) == ("private, no-cache", VARY)  # it also says who is logged in
    home = public.get("/", headers=browser).text
    assert "Plant" in home and "Garden" not in home
    document = public.get("/openapi").json()
    assert "/Plant/" in document["paths"] and "/Garden/" not in document["paths"]
