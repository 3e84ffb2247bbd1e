"""The entry `static` of applications: options, several side by side, places among listeners, reloading."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.http2 import Client
from tests.support.leaks import open_files
from tests.support.node import Node

SCHEMA = "type Product @table @export { id: ID @primaryKey }"
BASE: dict[str, Any] = {"rest": True, "graphqlSchema": {"files": "*.graphql"}, "resources": {"files": "resources.py"}}


class Nodes:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.node: Node | None = None

    def write(self, app: str, files: dict[str, str], static: Any = None) -> Path:
        directory = self.path / app
        if static is not None:
            files = {"config.yaml": yaml.safe_dump({**BASE, "static": static}), **files}
        for name, text in files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
        return directory

    def load(self, app: str, files: dict[str, str], static: Any = None, *, components: dict[str, Any] | None = None) -> Node:
        """One more application; the first makes the node."""
        directory = self.write(app, files, static)
        if self.node is None:
            empty = self.write("empty", {"config.yaml": "rest: true"})
            self.node = Node(self.path / "store", empty)
        self.node.applications.runtime.components = components or {}
        self.node.run(self.node.applications.add(directory))
        return self.node

    def get(self, target: str, method: str = "GET", **fields: str) -> tuple[int, bytes]:
        assert self.node is not None
        status, _, body = self.node.connect().ask(method, target, fields={name.replace("_", "-"): value for name, value in fields.items()})
        return status, body

    def entry(self, app: str, key: str = "static") -> tuple[str, str]:
        """(status, messages)."""
        assert self.node is not None
        found = self.node.applications.get(app)
        assert found is not None
        return found.entries[key].status, " ".join(found.entries[key].messages)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    if made.node is not None:
        assert not made.node.errors, made.node.errors
        made.node.close()


def test_without_a_configuration_web_is_served(nodes: Nodes) -> None:
    nodes.load("shop", {"web/a.txt": "a", "schema.graphql": SCHEMA})
    assert nodes.get("/a.txt") == (200, b"a")
    assert nodes.get("/Product/")[0] == 200
    assert nodes.get("/a.txt", "POST")[0] == 404
    assert nodes.entry("shop") == ("healthy", "")


def test_files_over_http2(nodes: Nodes) -> None:
    node = nodes.load("shop", {"web/a.txt": "a" * 500, "web/large.bin": "b" * 300_000})
    client = Client(node)
    assert client.ask("GET", "/a.txt")[::2] == (200, b"a" * 500)
    assert client.ask("HEAD", "/large.bin")[::2] == (200, b"")
    assert client.ask("GET", "/large.bin")[2] == b"b" * 300_000


def test_applications_side_by_side(nodes: Nodes) -> None:
    nodes.load("one", {"web/a.txt": "one", "web/both.txt": "one"})
    nodes.load("two", {"web/b.txt": "two", "web/both.txt": "two"})
    nodes.load("three", {"pages/c.txt": "three"}, {"files": "pages/**", "urlPath": "."})
    assert [nodes.get(f"/{name}")[1] for name in ("a.txt", "b.txt", "both.txt", "three/c.txt")] == [b"one", b"two", b"one", b"three"]
    assert nodes.get("/c.txt")[0] == 404
    assert nodes.node is not None
    nodes.node.run(nodes.node.applications.remove("one"))
    assert [nodes.get(f"/{name}")[1] for name in ("b.txt", "both.txt")] == [b"two", b"two"]
    assert nodes.get("/a.txt")[0] == 404


def test_an_application_that_is_mounted(nodes: Nodes) -> None:
    components = {"shop": {"urlPath": "/mount", "host": "shop.example"}}
    nodes.load("shop", {"web/index.html": "index", "web/dir/index.html": "dir"}, {"files": "web/**", "index": True}, components=components)
    assert nodes.node is not None

    def ask(host: str, target: str) -> bytes:
        assert nodes.node is not None
        return nodes.node.connect().send(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

    assert ask("shop.example", "/mount/").endswith(b"\r\n\r\nindex")
    assert ask("other.example", "/mount/").startswith(b"HTTP/1.1 404")
    assert b'"server":"svc"' in ask("shop.example", "/")
    assert b"\r\nLocation: /mount/dir/?a=b\r\n" in ask("shop.example", "/mount/dir?a=b")


@pytest.mark.parametrize(
    ("static", "says"),
    [
        ({"files": "../web"}, "leads out of the application"),
        ({"files": "web/**", "urlPath": "../x"}, "urlPath must not contain"),
        ({"files": {"source": "web/**", "only": "directories"}}, "only cannot be directories"),
    ],
)
def test_what_is_wrong_with_an_entry_is_its_status(nodes: Nodes, static: Any, says: str) -> None:
    nodes.load("shop", {"web/a.txt": "a", "schema.graphql": SCHEMA}, static)
    status, message = nodes.entry("shop")
    assert status == "error" and says in message
    assert nodes.get("/a.txt")[0] == 404
    assert nodes.get("/Product/")[0] == 200, "the rest of the application serves"


@pytest.mark.parametrize(
    ("static", "says"),
    [
        ({"files": "web/**", "indexes": True}, "static has no option 'indexes'"),
        ({"files": "web/**", "extensions": [1]}, "extensions is a list"),
    ],
)
def test_files_of_an_entry_with_wrong_options_answer_with_the_reason(nodes: Nodes, static: Any, says: str) -> None:
    node = nodes.load("shop", {"web/a.txt": "a", "schema.graphql": SCHEMA}, static)
    assert nodes.entry("shop")[0] == "error"
    status, body = nodes.get("/a.txt")
    assert status == 503 and f"The application 'shop' could not be loaded: {says}" in body.decode()
    assert nodes.get("/b.txt")[0] == 404
    assert nodes.get("/Product/")[0] == 200
    nodes.write("shop", {}, {"files": "web/**"})
    node.run(node.applications.change("shop", ["config.yaml"], reloads_code=True))
    assert nodes.get("/a.txt") == (200, b"a")


def test_an_option_without_effect_is_a_warning(nodes: Nodes) -> None:
    nodes.load("shop", {"web/a.txt": "a"}, {"notFound": "a.txt"})
    assert nodes.entry("shop") == ("warning", "notFound has no effect without fallthrough: false")
    assert nodes.get("/a.txt")[0] == 200


@pytest.mark.parametrize("static", [True, "web/**", ["web/**"], {"files": "web/**"}, {}])
def test_forms_of_the_entry(nodes: Nodes, static: Any) -> None:
    nodes.load("shop", {"web/a.txt": "a"}, static)
    assert nodes.get("/a.txt")[0] == (404 if static == {} else 200), "an empty entry is skipped"


def test_changed_options_take_effect(nodes: Nodes) -> None:
    node = nodes.load("shop", {"web/index.html": "index", "schema.graphql": SCHEMA}, {"files": "web/**"})
    shop = node.applications.get("shop")
    assert shop is not None and not shop.has_root_page
    assert nodes.get("/")[1].startswith(b'{"server"')
    nodes.write("shop", {}, {"files": "web/**", "index": True})
    node.run(node.applications.change("shop", ["config.yaml"], reloads_code=True))
    assert nodes.get("/")[1] == b"index" and shop.has_root_page
    nodes.write("shop", {}, {"files": "web/**", "index": "yes"})
    node.run(node.applications.change("shop", ["config.yaml"], reloads_code=True))
    assert nodes.entry("shop")[0] == "error"
    assert nodes.get("/")[1] == b"index", "the version before goes on"
    nodes.write(
        "shop",
        {},
        {"files": "web/**", "index": True, "after": "rest", "fallthrough": False, "notFound": {"file": "index.html", "statusCode": 200}},
    )
    node.run(node.applications.change("shop", ["config.yaml"], reloads_code=True))
    assert nodes.get("/any/where", Accept="text/html") == (200, b"index")
    assert nodes.get("/any/where.js")[0] == 404
    assert nodes.get("/Product/none")[0] == 404


def test_changed_files_need_no_reload(nodes: Nodes) -> None:
    node = nodes.load("shop", {"web/a.txt": "a", "resources.py": ""})
    code = node.applications.get("shop").code  # type: ignore[union-attr]
    nodes.write("shop", {"web/b.txt": "b"})
    assert node.run(node.applications.change("shop", ["web/b.txt"], reloads_code=True)) == []
    assert nodes.get("/b.txt")[1] == b"b"
    assert node.applications.get("shop").code is code  # type: ignore[union-attr]


def test_the_default_place_is_in_front_of_authentication(nodes: Nodes) -> None:
    nodes.load("shop", {"web/a.txt": "a", "schema.graphql": SCHEMA})
    assert nodes.get("/a.txt", Authorization="Basic nonsense")[0] == 200
    assert nodes.get("/Product/", Authorization="Basic nonsense")[0] == 401


def test_behind_the_resources_who_cannot_be_identified_gets_nothing(nodes: Nodes) -> None:
    nodes.load("shop", {"web/a.txt": "a"}, {"files": "web/**", "after": "rest"})
    assert nodes.get("/a.txt")[0] == 200
    assert nodes.get("/a.txt", Authorization="Basic nonsense")[0] == 401


LISTENERS = """
from svc import server

def stamp(request, next):
    return next(request) if request.pathname != "/taken" else {"taken": request.pathname}

async def sign(request, next):
    response = await next(request)
    response.headers.set("X-Signed", "yes")
    return response

server.http(stamp, before="static")
server.http(sign, run_first=True)
"""


@pytest.mark.parametrize("static", [{"files": "web/**"}, {"files": "web/**", "after": "rest"}, {"files": "web/**", "before": "rest"}])
def test_listeners_around_the_files(nodes: Nodes, static: Any) -> None:
    node = nodes.load("shop", {"web/a.txt": "a", "web/taken": "file", "web/large.bin": "b" * 200_000, "resources.py": LISTENERS}, static)
    assert nodes.get("/taken")[1] == b'{"taken":"/taken"}'
    for target, body in (("/a.txt", b"a"), ("/large.bin", b"b" * 200_000)):
        status, fields, found = node.connect().ask("GET", target)
        assert (status, found, fields["x-signed"]) == (200, body, "yes")
        assert fields["content-length"] == str(len(body))


REPLACING = """
from svc import server

async def replace(request, next):
    await next(request)
    return {"replaced": True}

server.http(replace, run_first=True)
"""


def test_an_answer_that_a_listener_replaces_closes_its_file(nodes: Nodes) -> None:
    nodes.load("shop", {"web/large.bin": "b" * 200_000, "resources.py": REPLACING}, {"files": "web/**"})
    assert nodes.get("/large.bin") == (200, b'{"replaced":true}')
    assert not [target for target in open_files(os.getpid()) if "large.bin" in target]


def test_a_websocket_passes_the_files(nodes: Nodes) -> None:
    node = nodes.load("shop", {"web/Product": "file", "schema.graphql": SCHEMA})
    wire = node.connect()
    head = (
        "GET /Product HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    )
    assert wire.send(f"{head}AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()).startswith(b"HTTP/1.1 101")
    wire.connection.close_now()
    node.settle()


def test_a_client_that_offers_http2_on_the_way_gets_its_file(nodes: Nodes) -> None:
    """As curl --http2 asks."""
    nodes.load("shop", {"web/a.txt": "a"})
    assert nodes.get("/a.txt", Connection="Upgrade, HTTP2-Settings", Upgrade="h2c") == (200, b"a")


def test_without_a_directory_no_request_looks_for_files(nodes: Nodes) -> None:
    node = nodes.load("shop", {"schema.graphql": SCHEMA})
    assert node.dispatcher.chain is None
    assert nodes.get("/a.txt")[0] == 404
    directory = nodes.write("shop", {"web/a.txt": "a"})
    assert nodes.get("/a.txt")[0] == 404, "nothing has told of it"
    for _ in range(2):
        node.run(node.applications.change("shop", ["web/a.txt"], reloads_code=False))
        assert nodes.get("/a.txt") == (200, b"a")
    (directory / "web" / "a.txt").unlink()
    assert nodes.get("/a.txt")[0] == 404
    node.run(node.applications.remove("shop"))
    assert node.dispatcher.chain is None
