"""Subscriptions over both transports, and the protocol of WebSockets (spec: graphql §7.3, §7.4)."""

import gc
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from svc.auth.logins import SWEEP
from svc.graphql import live_rows, socket_transport
from svc.graphql.live_field import LiveFields
from svc.testing.sockets import Socket
from svc.testing.streams import Stream
from tests.support.graphql import Shop, open_shop

SCHEMA = """
type Item @table @export {
  id: ID @primaryKey
  name: String @indexed
  price: Float @indexed
  groupId: ID @indexed
  group: Group @relationship(from: groupId)
  secret: String
}
type Group @table @export { id: ID @primaryKey  name: String @indexed  items: [Item] @relationship(to: groupId) }
"""
RESOURCES = """
from svc import Resource, server, tables


async def act_as(request, next):
    name = request.headers.get("x-act-as")
    if name is not None:
        request.user = await server.get_user(name)
    return await next(request)


server.http(act_as, before="authentication")


class Coded(tables.Item):
    def allow_read(self, user, target=None, context=None):
        return user is not None and user.username != "nobody"

    def put(self, data, target=None):
        return super().put(data, target)


class Ticking(tables.Item):
    async def connect(self, target=None, incoming=None):
        yield 1


class Weather(Resource):
    def get(self, target=None):
        return []
"""
ROLES = """
clerk:
  data:
    Item: {read: true, insert: true, attributes: {name: {read: true, insert: true}, price: {read: true}}}
reader:
  data:
    Item: {read: true}
"""
PROTOCOL = {"Sec-WebSocket-Protocol": "graphql-transport-ws"}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(
        tmp_path_factory.mktemp("app"), "{extended: true}\nlogin: true", schema=SCHEMA, resources=RESOURCES, roles=ROLES
    ) as shop:
        yield shop


def fields_of(shop: Shop) -> LiveFields:
    sockets: Any = shop.app.instance.server.interfaces.graphql.sockets
    shared: LiveFields = sockets.subscriptions.shared
    return shared


@pytest.fixture
def shop(opened: Shop) -> Iterator[Shop]:
    """Without records; nothing is left of its subscriptions when the test ends."""
    for name in ("Item", "Group"):
        assert opened.app.delete(f"/{name}/").status == 204
    yield opened
    opened.app.settle()
    shared, live = fields_of(opened), opened.app.instance.server.realtime.live
    gc.collect()
    assert (shared.count, shared._size, len(live)) == (0, 0, 0)


def put(shop: Shop, key: str, **values: Any) -> None:
    assert shop.app.put(f"/Item/{key}", values).status == 204


class Client:
    """A client of graphql-transport-ws."""

    def __init__(self, shop: Shop, payload: Mapping[str, Any] | None = None, **options: Any) -> None:
        self.socket: Socket = shop.app.connect("/graphql", headers={**PROTOCOL, **options.pop("headers", {})}, **options)
        assert self.socket.subprotocol == "graphql-transport-ws"
        self.socket.send({"type": "connection_init"} | ({} if payload is None else {"payload": payload}))
        self.settle = shop.app.settle

    def subscribe(self, id_: str, query: str, variables: Mapping[str, Any] | None = None) -> None:
        payload = {"query": query} | ({} if variables is None else {"variables": variables})
        self.socket.send({"id": id_, "type": "subscribe", "payload": payload})

    def take(self) -> list[Any]:
        """Messages since the last call, without those of the protocol itself: (type, id, payload)."""
        self.settle()
        found = [(each["type"], each.get("id"), each.get("payload")) for each in self.socket]
        self.socket.clear()
        return found

    def lists(self, key: str = "Item") -> list[Any]:
        """The lists that have come since the last call."""
        found = self.take()
        assert all(kind == "next" for kind, _, _ in found), found
        return [payload["data"][key] for _, _, payload in found]

    def close(self) -> None:
        self.socket.close()
        self.settle()


@pytest.fixture
def client(shop: Shop) -> Iterator[Client]:
    client = Client(shop)
    assert client.take() == [("connection_ack", None, None)]
    yield client
    client.close()


# --- what is sent -----------------------------------------------------------------------------------------------------------------------


def test_the_whole_list_after_each_change(shop: Shop, client: Client) -> None:
    put(shop, "b", name="B", price=2)
    client.subscribe("1", "subscription { Item { id n: name __typename } }")
    b = {"id": "b", "n": "B", "__typename": "Item"}
    assert client.lists() == [[b]]
    put(shop, "a", name="A")
    assert client.lists() == [[b | {"id": "a", "n": "A"}, b]]
    put(shop, "b", name="B", price=3)  # nothing that is selected
    assert client.lists() == []
    put(shop, "b", name="C")
    assert client.lists() == [[b | {"id": "a", "n": "A"}, b | {"n": "C"}]]
    assert shop.app.delete("/Item/a").status == 204
    assert client.lists() == [[b | {"n": "C"}]]
    client.socket.send({"id": "1", "type": "complete"})
    put(shop, "c")
    assert client.take() == []


def test_an_empty_list_comes_too(shop: Shop, client: Client) -> None:
    client.subscribe("1", 'subscription { Item(name: "none") { id } }')
    assert client.lists() == [[]]


def test_orders_limits_and_conditions(shop: Shop, client: Client) -> None:
    for key, price in (("a", 5), ("b", 3), ("c", 4)):
        put(shop, key, name="n", price=price)
    client.subscribe("1", 'subscription ($n: Int) { Item(name: "n", _sort: ["-price"], _limit: $n, _where: "price>1") { id } }', {"n": 2})
    assert client.lists() == [[{"id": "a"}, {"id": "c"}]]
    put(shop, "d", name="n", price=9)
    assert client.lists() == [[{"id": "d"}, {"id": "a"}]]
    put(shop, "d", name="n", price=4.5)
    assert client.lists() == [[{"id": "a"}, {"id": "d"}]]
    shop.app.delete("/Item/a")
    assert client.lists() == [[{"id": "d"}, {"id": "c"}]]
    put(shop, "d", name="other", price=4.5)
    assert client.lists() == [[{"id": "c"}, {"id": "b"}]]


def test_relationships(shop: Shop, client: Client) -> None:
    shop.app.put("/Group/g", {"name": "G"})
    put(shop, "a", groupId="g")
    client.subscribe("1", 'subscription { Item(group: {name: "G"}) { id group { name } } }')
    client.subscribe("2", 'subscription { Group { items(_sort: ["-id"], _limit: 1) { id } } }')
    found = {id_: payload["data"] for _, id_, payload in client.take()}
    assert found == {"1": {"Item": [{"id": "a", "group": {"name": "G"}}]}, "2": {"Group": [{"items": [{"id": "a"}]}]}}
    put(shop, "b", groupId="g")
    found = {id_: payload["data"] for _, id_, payload in client.take()}
    assert found["1"] == {"Item": [{"id": key, "group": {"name": "G"}} for key in "ab"]}
    assert found["2"] == {"Group": [{"items": [{"id": "b"}]}]}
    shop.app.put("/Group/g", {"name": "H"})
    assert client.lists() == [[]]


def test_many_changes_of_one_turn_are_one_list(shop: Shop, client: Client) -> None:
    client.subscribe("1", "subscription { Item { id } }")
    client.take()
    shop.app.post("/Item/", [{"id": f"{n:03}"} for n in range(300)])
    lists = client.lists()
    assert lists[-1] == [{"id": f"{n:03}"} for n in range(300)] and len(lists) < 10


def test_mutations_and_queries_over_the_same_socket(shop: Shop, client: Client) -> None:
    client.subscribe("s", "subscription { Item { id } }")
    client.take()
    client.subscribe("m", "mutation ($i: Any) { create_Item(input: $i) { id name } }", {"i": {"id": "a", "name": "A"}})
    found = client.take()
    assert ("next", "m", {"data": {"create_Item": {"id": "a", "name": "A"}}}) in found and ("complete", "m", None) in found
    assert ("next", "s", {"data": {"Item": [{"id": "a"}]}}) in found
    client.subscribe("m", "{ Item { id } }")
    assert client.take() == [("next", "m", {"data": {"Item": [{"id": "a"}]}}), ("complete", "m", None)]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("subscription {", "QUERY_SYNTAX"),
        ("subscription { Item { id } Group { id } }", "QUERY_SYNTAX"),
        ("subscription { __typename }", "QUERY_SYNTAX"),
        ("subscription { Nothing { id } }", "NOT_FOUND"),
        ("subscription { Item }", "QUERY_SYNTAX"),
        ("subscription { Item @skip(if: true) { id } }", "QUERY_SYNTAX"),
        ("subscription { Item(_limit: 100000) { id } }", "BAD_REQUEST"),
        ('subscription { Item(_limit: 1, _after: "x") { id } }', "QUERY_SYNTAX"),
        ('subscription { Item(price: "x") { id } }', "BAD_VALUE"),
        ("subscription { Weather { id } }", "METHOD_NOT_ALLOWED"),
        ("subscription { Ticking { id } }", "METHOD_NOT_ALLOWED"),
        ("subscription ($x: Int!) { Item(price: $x) { id } }", "BAD_VALUE"),
    ],
)
def test_what_cannot_be_followed(shop: Shop, client: Client, query: str, code: str) -> None:
    client.subscribe("1", query)
    ((kind, id_, payload),) = client.take()
    assert (kind, id_, payload[0]["extensions"]["code"]) == ("error", "1", code), payload
    client.subscribe("1", "{ __typename }")  # its id is free again
    assert [kind for kind, _, _ in client.take()] == ["next", "complete"]


def test_code_of_applications(shop: Shop, client: Client) -> None:
    put(shop, "a", name="A", price=1)
    client.subscribe("1", 'subscription { Coded(name: "A", _sort: ["price"]) { id n: name __typename } }')
    assert client.lists("Coded") == [[{"id": "a", "n": "A", "__typename": "Coded"}]]
    put(shop, "b", name="A", price=0.5)
    assert [each["id"] for each in client.lists("Coded")[-1]] == ["b", "a"]


def test_lists_that_are_too_long(shop: Shop, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_rows, "MAX_ROWS", 3)
    client.subscribe("1", "subscription { Item { id } }")
    for key in "abc":
        put(shop, key)
    assert len(client.lists()[-1]) == 3
    put(shop, "d")
    ((kind, _, payload),) = client.take()
    assert (kind, payload[0]["extensions"]["code"]) == ("error", "QUERY_TOO_LARGE")


# --- rights -----------------------------------------------------------------------------------------------------------------------------


def test_rights_are_those_of_queries(shop: Shop) -> None:
    for user, query, code in (
        ({"role": "clerk"}, "subscription { Item { secret } }", "FORBIDDEN"),
        ({"role": "clerk"}, 'subscription { Item(_sort: ["secret"]) { name } }', "FORBIDDEN"),
        ({"role": "clerk"}, "subscription { Group { id } }", "FORBIDDEN"),
        ({"role": "reader"}, "subscription { Item { group { id } } }", "FORBIDDEN"),
        ({"role": "clerk"}, "subscription { Coded { secret } }", None),
        (None, "subscription { Item { id } }", "UNAUTHENTICATED"),
        (None, "subscription { Coded { id } }", "UNAUTHENTICATED"),
        ({"role": "clerk"}, "subscription { Item { name } }", None),
    ):
        client = Client(shop, user=user)
        client.subscribe("1", query)
        kind, _, payload = client.take()[-1]
        assert (kind, payload[0]["extensions"]["code"] if kind == "error" else None) == ("next" if code is None else "error", code), query
        client.close()


def test_a_subscription_ends_with_the_rights(shop: Shop) -> None:
    app = shop.app
    app.operation("add_role", id="changing", role="changing", permission={"data": {"tables": {"Item": right("id", "name")}}})
    app.operation("add_user", username="ann", password="blue-heron", role="changing", active=True)
    put(shop, "a", name="A", secret="s")
    both, one, gone = Client(shop, user="ann"), Client(shop, user="ann"), Client(shop, user="ann")
    for client, query in ((both, "{ Item { name secret } }"), (one, "{ Item { name } }")):
        client.subscribe("1", f"subscription {query}")
    gone.subscribe("1", "subscription { Item { name } }")
    assert both.take()[-1][0] == "error"
    assert one.take()[-1][2] == {"data": {"Item": [{"name": "A"}]}}
    app.operation("alter_role", id="changing", role="changing", permission={"data": {"tables": {"Item": right("id", "secret")}}})
    ((kind, _, payload),) = one.take()
    assert (kind, payload[0]["extensions"]["code"]) == ("error", "FORBIDDEN")
    both.subscribe("2", "subscription { Item { secret } }")
    assert both.take()[-1][2] == {"data": {"Item": [{"secret": "s"}]}}
    app.operation("drop_user", username="ann")
    both.settle()
    assert both.socket.close_code == 4403
    for client in (both, one, gone):
        client.close()


def right(*names: str) -> dict[str, Any]:
    """The right to read these attributes."""
    attributes = [{"attribute_name": name, "read": True, "insert": False, "update": False} for name in names]
    return {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": attributes}


def test_who_says_so_when_connecting(shop: Shop) -> None:
    shop.app.operation("add_user", username="bob", password="blue-heron", role="reader", active=True)
    tokens = shop.app.operation("create_authentication_tokens", username="bob", password="blue-heron")
    for payload in ({"Authorization": f"Bearer {tokens['operation_token']}"}, {"authorization": "Basic Ym9iOmJsdWUtaGVyb24="}):
        client = Client(shop, payload, user=None)
        client.subscribe("1", "{ Item { id } }") if client.take() else None
        assert [kind for kind, _, _ in client.take()] == ["next", "complete"]
        client.close()
    client = Client(shop, {"Authorization": "Basic Ym9iOndyb25n"}, user=None)
    client.take()
    assert client.socket.close_code == 4403
    client = Client(shop, {"Authorization": 5, "other": {}}, user=None)
    assert client.take() == [("connection_ack", None, None)]
    client.close()


def test_who_it_is_is_asked_again_for_each_operation(shop: Shop) -> None:
    app = shop.app
    app.operation("add_user", username="eve", password="blue-heron", role="reader", active=True)
    token = app.operation("create_authentication_tokens", username="eve", password="blue-heron", expires_in=20)["operation_token"]
    browser = app.as_user(None)
    assert browser.post("/login", {"username": "eve", "password": "blue-heron"}).status == 200
    cookie = browser.cookies.header("/graphql")
    by_payload = Client(shop, {"Authorization": f"Bearer {token}"}, user=None)
    by_handshake = Client(shop, user=None, headers={"Authorization": f"Bearer {token}"})
    by_session = Client(shop, user=None, headers={"Cookie": cookie})
    by_password = Client(shop, user=None, headers={"Authorization": "Basic ZXZlOmJsdWUtaGVyb24="})
    assert by_password.take() == [("connection_ack", None, None)]
    by_listener = Client(shop, user=None, headers={"X-Act-As": "eve"})
    for client in (by_payload, by_handshake, by_session, by_listener):
        assert client.take() == [("connection_ack", None, None)]
        client.subscribe("1", "{ Item { id } }")
        assert [kind for kind, _, _ in client.take()] == ["next", "complete"]
    app.clock.advance(21 + SWEEP)
    assert app.request("POST", "/logout", user=None, headers={"Cookie": cookie}).status < 400
    for client in (by_payload, by_handshake, by_session):
        client.settle()
        assert client.socket.close_code == 4403
    by_listener.subscribe("1", "{ Item { id } }")
    assert [kind for kind, _, _ in by_listener.take()] == ["next", "complete"]
    by_password.subscribe("1", "{ Item { id } }")
    assert [kind for kind, _, _ in by_password.take()] == ["next", "complete"]
    own = Client(
        shop, user=None, headers={"X-Act-As": "eve", "Authorization": "Basic b3duOnNjaGVtZQ=="}
    )  # a scheme of the application's own
    own.take()
    own.subscribe("1", "{ Item { id } }")
    assert [kind for kind, _, _ in own.take()] == ["next", "complete"]
    own.close()
    app.operation("drop_user", username="eve")
    by_listener.settle()
    assert (by_listener.socket.close_code, by_password.socket.close_code) == (4403, 4403)


# --- the protocol -----------------------------------------------------------------------------------------------------------------------


def raw(shop: Shop) -> Socket:
    return shop.app.connect("/graphql/", headers=PROTOCOL)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (["{"], 4400),
        (["[]"], 4400),
        ([b"{}"], 4400),
        ([{"type": "start"}], 4400),
        ([{}], 4400),
        ([{"type": "connection_init", "payload": []}], 4400),
        ([{"type": "connection_init"}, {"type": "connection_init"}], 4429),
        ([{"type": "subscribe", "id": "1", "payload": {"query": "{ a }"}}], 4401),
        ([{"type": "connection_init"}, {"type": "subscribe", "id": "", "payload": {"query": "{ a }"}}], 4400),
        ([{"type": "connection_init"}, {"type": "subscribe", "id": 1, "payload": {"query": "{ a }"}}], 4400),
        ([{"type": "connection_init"}, {"type": "subscribe", "id": "1"}], 4400),
        (
            [{"type": "connection_init"}, *[{"type": "subscribe", "id": "1", "payload": {"query": "subscription { Item { id } }"}}] * 2],
            4409,
        ),
        (["[" * 100_000], 4400),
        (["x" * (2 << 20) + "x"], 1009),
    ],
)
def test_faults_of_the_protocol(shop: Shop, sent: list[Any], code: int) -> None:
    socket = raw(shop)
    for message in sent:
        if socket.is_open:
            socket.send(message)
    shop.app.settle()
    assert socket.close_code == code, (list(socket), socket.close_reason)


def test_pings_and_unknown_ids(shop: Shop) -> None:
    socket = raw(shop)
    for message in ({"type": "ping"}, {"type": "ping", "payload": {"a": 1}}, {"type": "pong"}, {"type": "complete", "id": "x"}):
        socket.send(message)
    shop.app.settle()
    assert socket == [{"type": "pong"}, {"type": "pong", "payload": {"a": 1}}] and socket.is_open
    shop.app.clock.advance(socket_transport.INIT_SECONDS + 1)
    assert socket.close_code == 4408


def test_malformed_parameters_end_the_operation_only(shop: Shop, client: Client) -> None:
    for payload in ({}, {"query": 5}, {"query": "{ __typename }", "variables": []}, {"query": "{ __typename }", "operationName": 5}):
        client.socket.send({"type": "subscribe", "id": "1", "payload": payload})
        ((kind, _, errors),) = client.take()
        assert (kind, errors[0]["extensions"]["code"]) == ("error", "BAD_BODY")


def test_operations_at_a_time(shop: Shop, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_transport, "MAX_OPERATIONS", 3)
    for number in range(5):
        client.subscribe(str(number), "subscription { Item { id } }")
    found = client.take()
    assert [id_ for kind, id_, _ in found if kind == "error"] == ["3", "4"]
    assert [id_ for kind, id_, _ in found if kind == "next"] == ["0", "1", "2"]


def test_operations_wait_for_a_client_that_does_not_read(shop: Shop, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_transport, "HIGH_WATER", 0)
    client.subscribe("1", 'mutation { create_Item(input: {id: "waits"}) { id } }')
    assert client.take() == [] and shop.app.get("/Item/waits").status == 404
    client.close()
    assert shop.app.get("/Item/waits").status == 404


def test_handshakes(shop: Shop) -> None:
    with pytest.raises(AssertionError, match="400"):
        shop.app.connect("/graphql")
    with pytest.raises(AssertionError, match="400"):
        shop.app.connect("/graphql", headers={"Sec-WebSocket-Protocol": "graphql-ws"})
    socket = shop.app.connect("/graphql", headers={"Sec-WebSocket-Protocol": "other, graphql-transport-ws"})
    assert socket.subprotocol == "graphql-transport-ws"
    socket.close()


def test_a_client_that_goes_away(shop: Shop) -> None:
    client = Client(shop)
    for number in range(10):
        client.subscribe(str(number), "subscription { Item { id group { name } } }")
    client.subscribe("q", "{ Item { id } }")
    client.socket.close()


# --- server-sent events -----------------------------------------------------------------------------------------------------------------


def events(shop: Shop, query: str, **options: Any) -> Stream:
    from urllib.parse import quote

    return shop.app.events(f"/graphql?query={quote(query)}", **options)


def test_lists_as_events(shop: Shop) -> None:
    put(shop, "a")
    stream = events(shop, "subscription { Item { id } }")
    shop.app.settle()
    assert [(event.name, event.data) for event in stream] == [("next", {"data": {"Item": [{"id": "a"}]}})]
    put(shop, "b")
    shop.app.settle()
    assert stream[-1].data == {"data": {"Item": [{"id": "a"}, {"id": "b"}]}}
    stream.close()


def ask(shop: Shop, query: str, **options: Any) -> tuple[int, str]:
    answer = shop.app.post("/graphql", {"query": query}, headers={"Accept": "text/event-stream"}, **options)
    return answer.status, answer.content.decode()


def test_operations_that_end(shop: Shop) -> None:
    assert ask(shop, 'mutation { create_Item(input: {id: "a"}) { id } }') == (
        200, 'event: next\ndata: {"data":{"create_Item":{"id":"a"}}}\n\nevent: complete\ndata:\n\n',
    )  # fmt: skip
    status, text = ask(shop, "{ Nothing { id } }")
    assert status == 200 and '"errors"' in text and text.endswith("event: complete\ndata:\n\n")
    status, text = ask(shop, "subscription { Nothing { id } }")
    assert status == 200 and '"errors"' in text


def test_clients_that_name_events_beside_json(shop: Shop) -> None:
    accept = "application/graphql-response+json, application/json, text/event-stream, multipart/mixed"
    assert shop.app.post("/graphql", {"query": "{ __typename }"}, headers={"Accept": accept}).json == {"data": {"__typename": "Query"}}
    stream = events(shop, "subscription { Item { id } }", headers={"Accept": accept})
    assert stream[0].data == {"data": {"Item": []}}
    stream.close()
    assert shop.app.head("/graphql?query={__typename}", headers={"Accept": "text/event-stream"}).status == 200
    assert shop.app.head("/graphql?query=subscription{Item{id}}", headers={"Accept": "text/event-stream"}).status == 406


def test_what_is_an_answer_of_http(shop: Shop) -> None:
    accept = {"Accept": "text/event-stream"}
    assert shop.app.as_user(None).post("/graphql", {"query": "subscription { Item { id } }"}, headers=accept).status == 401
    assert shop.app.post("/graphql", {"query": ""}, headers=accept).status == 400
    assert shop.app.get("/graphql?query=mutation{__typename}", headers=accept).status == 405
    status, code, message = shop.error("subscription { Item { id } }")
    assert (status, code) == (406, "NOT_ACCEPTABLE") and "graphql-transport-ws" in message


def test_only_in_the_extended_form(tmp_path: Any) -> None:
    with open_shop(tmp_path / "app", "true", schema=SCHEMA, resources=RESOURCES, roles=ROLES) as shop:
        assert shop.error("subscription { Item { id } }")[2] == "Subscriptions are not supported."
        assert shop.error("mutation { a }")[2] == "Mutations are not supported yet."
        with pytest.raises(AssertionError, match="404"):
            shop.app.connect("/graphql", headers=PROTOCOL)
        answer = shop.app.post("/graphql", {"query": "{ Item { id } }"}, headers={"Accept": "text/event-stream"})
        assert answer.headers["Content-Type"].startswith("application/graphql-response+json")
