"""What a table asks its hub for, and who may ask (spec: realtime §1 rules 1, 4, 7, §1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.errors import AccessViolation, ClientError, MethodNotAllowed, QueryError
from svc.messages import HeaderBlock, Request
from svc.query.nodes import Comparator, Condition, Group, Query, Select, SelectItem
from svc.realtime.subscription_request import SubscriptionRequest
from svc.resources import RequestTarget, Resource, TableResource, parse_target
from tests.support.events import FakeSource
from tests.support.node import Node

SCHEMA = """
type Product @table @export { id: ID @primaryKey  name: String @indexed  price: Float @indexed  stock: Int  brandId: ID @indexed
  brand: Brand @relationship(from: "brandId") }
type Brand @table @export { id: ID @primaryKey  name: String @indexed }
type Count @table @export { id: Long @primaryKey  n: Int }
type Path @table @export @splitSegments { id: ID @primaryKey  n: Int }
"""


class Asked:
    """A `Realtime` that records what it is asked for."""

    def __init__(self) -> None:
        self.requests: list[SubscriptionRequest] = []
        self.queries: list[tuple[Any, ...]] = []

    def subscribe(self, request: SubscriptionRequest) -> Any:
        self.requests.append(request)
        return FakeSource()

    def subscribe_to_query(self, *arguments: Any, **options: Any) -> Any:
        self.queries.append((*arguments, options))
        return FakeSource()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    app: Path = tmp_path_factory.mktemp("app")
    (app / "schema.graphql").write_text(SCHEMA)
    made = Node(tmp_path_factory.mktemp("store"), app)
    yield made
    made.close()


@pytest.fixture
def asked(node: Node) -> Asked:
    made = Asked()
    for registration in node.resources.values():
        resource = cast(Any, registration.resource)
        resource.realtime = made
    return made


def user(node: Node, permission: Any = None) -> User:
    return User("ann", True, Role("r", "r", permission if permission is not None else {"super_user": True}, databases=node.store.databases))


def connect(node: Node, address: str, caller: User | None, verb: str = "connect", data: Any = None, **fields: str) -> Any:
    path, mark, query = address.partition("?")
    found = node.resources.find(path)
    assert found is not None
    registration, rest = found
    resource = registration.resource
    target = parse_target(rest, query if mark else None, resource.properties)
    if target.id_text is not None:
        resource.bind(target)
    request = Request("GET", address, HeaderBlock([(name.replace("_", "-"), value) for name, value in fields.items()]))
    request.user = caller
    if verb == "check":
        return resource.prepare_connect(target, request)
    return resource.handle(verb, target, data, request)


def asks(node: Node, asked: Asked, address: str, **fields: str) -> SubscriptionRequest:
    result = connect(node, address, user(node), **fields)
    assert isinstance(result, FakeSource)
    return asked.requests[-1]


def test_targets(node: Node, asked: Asked) -> None:
    assert asks(node, asked, "/Product/42").key == "42"
    assert asks(node, asked, "/Product/a/b").key == "a/b"
    for address in ("/Product", "/Product/", "/Product?", "/Product.json", "/Product/.json"):
        request = asks(node, asked, address)
        assert (request.table.name, request.key, request.prefix) == ("Product", None, None)
    assert asks(node, asked, "/Product/a/").prefix == "a/"
    assert asks(node, asked, "/Product/a%2Fb/").prefix == "a/b/"
    assert asks(node, asked, "/Count/7").key == 7
    assert asks(node, asked, "/Path/a/b").key == ("a", "b")
    assert asks(node, asked, "/Product/42.json").key == "42"
    request = asks(node, asked, "/Product/42.price")
    assert (request.key, request.select) == ("42", Select((SelectItem(("price",)),), "value"))


def test_a_key_of_the_wrong_type_is_refused(node: Node, asked: Asked) -> None:
    with pytest.raises(ClientError):
        connect(node, "/Count/x", user(node))


def test_conditions_and_selection_go_along(node: Node, asked: Asked) -> None:
    for address in ("/Product/?price=gt=100&select(id,price)", "/Product/42?price=gt=100&select(id,price)"):
        request = asks(node, asked, address)
        assert isinstance(request.where, Condition) and request.where.comparator is Comparator.GREATER_THAN
        assert request.select == Select((SelectItem(("id",)), SelectItem(("price",))))
    assert asks(node, asked, "/Product/").where is None


def test_the_caller_and_his_position_go_along(node: Node, asked: Asked) -> None:
    asker = user(node)
    connect(node, "/Product/", asker)
    assert asked.requests[-1].user is asker
    assert asks(node, asked, "/Product/").after is None
    assert asks(node, asked, "/Product/", last_event_id="4711").after == 4711
    assert asks(node, asked, "/Product/", last_event_id="x").after is None


@pytest.mark.parametrize(
    ("query", "call", "position"),
    [
        ("sort(price)", "sort", 0),
        ("price=gt=1&limit(5)", "limit", 11),
        ("limit(2,5)", "limit", 0),
        ("count()", "count", 0),
        ("facet(name)", "facet", 0),
        ("group(name;count)", "group", 0),
        ("after(abc)", "after", 0),
        ("_limit=5", "limit", 1),
    ],
)
@pytest.mark.parametrize("verb", ["connect", "check"])
def test_what_speaks_of_a_result_is_refused(node: Node, asked: Asked, query: str, call: str, position: int, verb: str) -> None:
    with pytest.raises(QueryError) as refused:
        connect(node, f"/Product/?{query}", user(node), verb)
    error = refused.value
    assert (error.status_code, error.code, error.position) == (400, "QUERY_SYNTAX", position)
    assert f"'{call}(...)' in a subscription" in error.message and "live()" in error.message


@pytest.mark.parametrize("verb", ["connect", "check"])
def test_a_query_that_cannot_be_read_is_refused(node: Node, asked: Asked, verb: str) -> None:
    with pytest.raises(QueryError) as refused:
        connect(node, "/Product/?[price=1", user(node), verb)
    assert refused.value.code == "QUERY_SYNTAX"
    assert not asked.requests


def test_live_queries_are_subscribed_to_as_queries(node: Node, asked: Asked) -> None:
    caller = user(node)
    for verb in ("connect", "check"):
        connect(node, "/Product/a/?price=gt=1&sort(price)&limit(3)&live()", caller, verb)
        query, table, asker, options = asked.queries[-1]
        assert isinstance(query, Query) and query.live and query.limit == 3
        assert (table.name, asker, options) == ("Product", caller, {"key_prefix": "a/", "allow_full_scan": False, "reconnected": False})
    assert not asked.requests


def test_a_live_query_of_one_record(node: Node, asked: Asked) -> None:
    connect(node, "/Product/42?live()", user(node))
    only = Condition(("id",), Comparator.EQUALS, "42")
    assert asked.queries[-1][0].where == only
    connect(node, "/Product/42?price=gt=1&live()", user(node))
    where = asked.queries[-1][0].where
    assert isinstance(where, Group) and where.operator == "and" and where.members[0] == only


def test_a_live_query_is_reset_for_a_client_that_reconnects(node: Node, asked: Asked) -> None:
    for fields, expected in (({}, False), ({"last_event_id": "0"}, True), ({"last_event_id": "x"}, True)):
        connect(node, "/Product/?live()", user(node), **fields)
        assert asked.queries[-1][-1]["reconnected"] is expected


# --- permission --------------------------------------------------------------------------------------------------------------------------


def role(**rights: Any) -> dict[str, Any]:
    given = {"read": False, "insert": False, "update": False, "delete": False, "attribute_permissions": []} | rights
    return {"data": {"tables": {"Product": given}}}


@pytest.mark.parametrize("verb", ["connect", "check", "subscribe"])
def test_reading_is_what_a_subscription_needs(node: Node, asked: Asked, verb: str) -> None:
    with pytest.raises(AccessViolation) as refused:
        connect(node, "/Product/", None, verb)
    assert refused.value.status_code == 401
    with pytest.raises(AccessViolation) as refused:
        connect(node, "/Product/", user(node, role(insert=True, update=True, delete=True)), verb)
    assert refused.value.status_code == 403
    connect(node, "/Product/", user(node, role(read=True)), verb)


def test_inserting_is_what_a_message_needs(node: Node, asked: Asked) -> None:
    for caller in (None, user(node, role(read=True, update=True, delete=True))):
        with pytest.raises(AccessViolation):
            connect(node, "/Product/42", caller, "publish", {"n": 1})
    hidden = role(insert=True, attribute_permissions=[{"attribute_name": "name", "insert": True}])
    with pytest.raises(AccessViolation):
        connect(node, "/Product/42", user(node, hidden), "publish", {"price": 1})
    with pytest.raises(ClientError):
        connect(node, "/Product/a/", user(node), "publish", {"n": 1})


# --- resources without a table -----------------------------------------------------------------------------------------------------------


class Plain(Resource):
    name = "Plain"
    verbs = frozenset({"get"})


def test_without_connect_and_subscribe_there_is_nothing_to_connect_to(node: Node) -> None:
    request = Request("GET", "/Plain", HeaderBlock([]))
    request.user = user(node)
    for call in (lambda: Plain.handle("connect", RequestTarget(), None, request), lambda: Plain.prepare_connect(RequestTarget(), request)):
        with pytest.raises(MethodNotAllowed) as refused:
            call()
        assert refused.value.headers == (("Allow", "GET, HEAD, OPTIONS"),)


def test_a_subscribe_of_its_own_is_enough(node: Node) -> None:
    source = FakeSource()

    class Own(Resource):
        name = "Own"
        verbs = frozenset({"subscribe"})

        @classmethod
        def on_subscribe(cls, target: RequestTarget, data: Any, request: Request) -> Any:
            return source

    request = Request("GET", "/Own", HeaderBlock([]))
    with pytest.raises(AccessViolation):
        Own.handle("connect", RequestTarget(), None, request)
    request.user = user(node)
    assert Own.prepare_connect(RequestTarget(), request) is None
    assert Own.handle("connect", RequestTarget(), None, request) is source
    assert Own.allowed_methods() == ("OPTIONS",)


def test_a_table_without_realtime_has_no_events(node: Node) -> None:
    resource = cast(type[TableResource], node.resources["Brand"].resource)
    resource.realtime = None
    with pytest.raises(MethodNotAllowed):
        connect(node, "/Brand/", user(node))
