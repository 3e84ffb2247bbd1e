"""Who gets /openapi, and that the kept copy follows the definitions (spec: http §10.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from svc import __version__
from svc.auth.roles import Role
from svc.auth.users import User, UserDirectory
from svc.content.registry import ContentTypes
from svc.errors import NotFound
from svc.messages import HeaderBlock, Request
from svc.rest import Rest
from svc.rest.openapi import OpenApi, document, endpoint, openapi_document
from svc.rest.openapi.document import EncodedDocument
from svc.store.schema import Attribute
from tests.support.fakes import make_reactor
from tests.support.node import Node
from tests.unit.rest.openapi.conftest import ADMIN

SCHEMA = "type Product @table @export { id: ID @primaryKey name: String }"


@pytest.fixture
def node(node_of: Callable[..., Node]) -> Node:
    return node_of(SCHEMA)


def test_super_user_gets_json_whatever_is_accepted(node: Node) -> None:
    wire = node.connect()
    status, fields, body = wire.ask("GET", "/openapi", fields={"Accept": "application/cbor"})
    assert (status, fields["content-type"]) == (200, "application/json")
    document = msgspec.json.decode(body)
    assert document["info"] == {"title": "svc HTTP REST interface", "version": __version__}
    assert document["servers"] == [{"url": "http://localhost"}]


def test_head_has_the_same_fields(node: Node) -> None:
    wire = node.connect()
    length = wire.ask("GET", "/openapi")[1]["content-length"]
    status, fields, body = wire.ask("HEAD", "/openapi")
    assert (status, fields["content-length"], body) == (200, length, b"")


def test_without_rights_there_is_nothing_to_see(node: Node) -> None:
    wire = node.connect()
    node.as_user(None)
    assert wire.ask("GET", "/openapi")[0] == 401
    for user in (User("ann"), User("bob", role=Role("none", "none", {}))):
        node.as_user(user)
        status, _, body = wire.ask("GET", "/openapi")
        document = msgspec.json.decode(body)
        assert (status, document["paths"], "Product" in document["components"]["schemas"]) == (200, {}, False)


def test_everyone_sees_what_the_role_anonymous_may_do(node: Node) -> None:
    wire = node.connect()
    node.as_user(None)
    refused = wire.ask("GET", "/openapi?json")[0], wire.ask("GET", "/docs")[0]
    table = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
    anonymous = Role("anonymous", "anonymous", {"data": {"tables": {"Product": table}}}, databases=node.store.databases)
    node.store.anonymous_role = lambda: anonymous
    status, _, body = wire.ask("GET", "/openapi?json")
    assert (refused, status, wire.ask("GET", "/docs")[0]) == ((401, 401), 200, 200)
    assert set(msgspec.json.decode(body)["paths"]) == {"/Product/", "/Product/{id}", "/Product/.json"}
    node.store.anonymous_role = lambda: None
    assert wire.ask("GET", "/openapi?json")[0] == 401


def test_each_role_has_its_own_document(node: Node) -> None:
    wire = node.connect()
    whole = wire.ask("GET", "/openapi")[2]
    node.as_user(reader(node))
    assert set(msgspec.json.decode(wire.ask("GET", "/openapi")[2])["paths"]["/Product/"]) == {"get", "options"}
    node.as_user(ADMIN)
    assert wire.ask("GET", "/openapi")[2] == whole


def test_a_changed_right_counts_at_once(node: Node) -> None:
    """A role that is changed is another object of the same id."""
    wire = node.connect()
    node.as_user(reader(node))
    first = wire.ask("GET", "/openapi")
    again = wire.ask("GET", "/openapi", fields={"If-None-Match": first[1]["etag"]})
    node.as_user(reader(node, delete=True))
    second = wire.ask("GET", "/openapi", fields={"If-None-Match": first[1]["etag"]})
    assert (first[0], again[0], second[0]) == (200, 304, 200)
    assert "delete" in msgspec.json.decode(second[2])["paths"]["/Product/"]


def test_documents_of_many_roles_are_not_all_kept(node: Node) -> None:
    api = OpenApi(node.resources, ContentTypes.built_in())
    request = Request("GET", "/openapi", HeaderBlock([("host", "localhost")]))
    for number in range(40):
        request.user = reader(node, name=f"role{number}")
        asyncio.run(api.handle(request))
    assert len(api._kept) <= 16
    assert not hasattr(api.handle(request), "__await__")


def test_many_at_once_wait_for_one_build(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    api = OpenApi(node.resources, ContentTypes.built_in())
    builds: list[object] = []
    monkeypatch.setattr(endpoint, "EncodedDocument", lambda *given: builds.append(given) or EncodedDocument(*given))
    request = Request("GET", "/openapi", HeaderBlock([("host", "localhost")]))
    request.user = ADMIN

    async def ask() -> list[Any]:
        return await asyncio.gather(*[api.handle(request) for _ in range(20)])

    answers = asyncio.run(ask())
    assert len(builds) == 1 and len({answer.body for answer in answers}) == 1


def reader(node: Node, name: str = "reader", **rights: bool) -> User:
    table = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": [], **rights}
    return User(name, role=Role(name, name, {"data": {"tables": {"Product": table}}}, databases=node.store.databases))


def test_a_query_is_refused(node: Node) -> None:
    status, _, body = node.connect().ask("GET", "/openapi?yaml")
    assert status == 400 and b"takes no query but /openapi?json" in body


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST", "DELETE", "QUERY"])
def test_it_is_only_read(node: Node, method: str) -> None:
    status, fields, _ = node.connect().ask(method, "/openapi", b"{}")
    assert (status, fields["allow"]) == (405, "GET, HEAD, OPTIONS")


def test_options_say_so(node: Node) -> None:
    status, fields, _ = node.connect().ask("OPTIONS", "/openapi")
    assert (status, fields["allow"]) == (204, "GET, HEAD, OPTIONS")


def test_a_table_of_that_name_does_not_take_its_place(node_of: Callable[..., Node]) -> None:
    node = node_of('type Product @table @export(name: "openapi") { id: ID @primaryKey }')
    assert b'"openapi":"3.0.3"' in node.connect().ask("GET", "/openapi")[2]


def test_kept_bytes_are_the_document(node: Node) -> None:
    body = node.connect().ask("GET", "/openapi")[2]
    assert msgspec.json.decode(body) == openapi_document(node.resources, "http://localhost", __version__, ContentTypes.built_in(), ADMIN)


def test_a_long_document_is_sent_in_pieces(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = node.connect()
    _, fields, body = wire.ask("GET", "/openapi")
    monkeypatch.setattr(document, "AT_ONCE", 100)
    status, again, pieces = wire.ask("GET", "/openapi")
    assert (status, pieces) == (200, body)
    assert {name: again[name] for name in ("etag", "content-length", "content-type")} == {
        name: fields[name] for name in ("etag", "content-length", "content-type")
    }
    status, again, nothing = wire.ask("HEAD", "/openapi")
    assert (status, again["content-length"], nothing) == (200, str(len(body)), b"")
    assert wire.ask("GET", "/openapi", fields={"If-None-Match": fields["etag"]})[0] == 304


def test_the_address_is_that_of_the_request(node: Node) -> None:
    wire = node.connect()
    wire.ask("GET", "/openapi")
    wire.sock.sent = b""
    wire.send(b'GET /openapi HTTP/1.1\r\nHost: "ex"ample:1\r\n\r\n')
    assert b'"servers":[{"url":"http://\\"ex\\"ample:1"}]' in wire.sock.sent or b" 400 " in wire.sock.sent.partition(b"\r\n")[0]


def test_it_is_built_once_and_again_after_a_change(node: Node) -> None:
    api = OpenApi(node.resources, ContentTypes.built_in())
    request = Request("GET", "/openapi", HeaderBlock([("host", "localhost")]))
    request.user = UserDirectory(node.store).first_super_user()

    def ask() -> tuple[bool, bytes]:
        """Whether it had to be built, and the document."""
        answer = api.handle(request)
        return (False, answer.body) if hasattr(answer, "body") else (True, asyncio.run(answer).body)

    built, first = ask()
    assert built
    assert ask() == (False, first)
    table = node.store.open_database("data").tables["Product"]
    definition = table.definition
    table.database.define_table(replace(definition, attributes=(*definition.attributes, Attribute("color", "String"))))
    built, second = ask()
    assert built and second != first and b'"color"' in second
    node.resources.remove("Product")
    built, third = ask()
    assert built and b'"/Product/"' not in third


def test_only_that_address_is_meant(node: Node) -> None:
    rest = Rest(node.resources, make_reactor(clock=node.clock))
    request = Request("GET", "/openapi/", HeaderBlock([]))
    with pytest.raises(NotFound):
        rest.handle(request)
