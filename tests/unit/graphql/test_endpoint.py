"""How much of a body `/graphql` collects, and of whom."""

from pathlib import Path

from svc.auth.roles import Role
from svc.auth.users import User
from svc.http.bodies import LONG_BODY, QUERY_MAX
from svc.messages import HeaderBlock, Request
from tests.support.graphql import open_shop

SCHEMA = "type Product @table @export { id: ID @primaryKey }"
CODE = """
from svc import Resource

class Open(Resource):
    def allow_read(self, *given):
        return True

    def get(self, *given):
        return {}
"""


def test_a_long_body_is_collected_of_those_who_may_do_something(tmp_path: Path) -> None:
    def limit(user: User | None) -> tuple[int, int]:
        request = Request("POST", "/graphql", HeaderBlock([]))
        request.user = user
        found = shop.app.instance.server.interfaces.graphql.receive(request)
        return found.size, found.error.status_code

    reads = {"super_user": False, "data": {"tables": {"Product": {"read": True, "insert": False, "update": False, "delete": False}}}}
    nothing = {"super_user": False, "data": {"tables": {"Product": {"read": False, "insert": False, "update": False, "delete": False}}}}
    with open_shop(tmp_path / "tables", schema=SCHEMA, resources="", roles="{}") as shop:
        databases = shop.app.instance.server.store.databases
        assert limit(None) == (LONG_BODY, 401)
        assert limit(User("a")) == (LONG_BODY, 403)
        assert limit(User("b", role=Role("n", "n", nothing, databases=databases))) == (LONG_BODY, 403)
        assert limit(User("c", role=Role("r", "r", reads, databases=databases))) == (QUERY_MAX, 413)
        assert limit(User("d", role=Role("s", "s", {"super_user": True}, databases=databases))) == (QUERY_MAX, 413)
    with open_shop(tmp_path / "code", schema=SCHEMA, resources=CODE, roles="{}") as shop:
        assert limit(User("a")) == (QUERY_MAX, 413)
