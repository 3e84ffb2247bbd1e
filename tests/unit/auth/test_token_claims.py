"""Claims of tokens as values of rules on rows: `$user.claims.<name>` (spec: rows §1.2)."""

from collections.abc import Iterator
from typing import Any

import pytest

import svc.testing
from svc.errors import AccessViolation, ClientError
from svc.testing.application import Application

SCHEMA = """
type Paper @table @export @allow(read: "team==$user.claims.team|level==$user.claims.levels|city==$user.claims.address.city") {
  id: ID @primaryKey  team: String @indexed  level: Int @indexed  city: String @indexed
}
"""
ROLES = "reader:\n  data: {Paper: {read: true}}\n"
PASSWORD = "a long one"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    path = tmp_path_factory.mktemp("app")
    (path / "config.yaml").write_text("rest: true\ngraphql: true\ngraphqlSchema: {files: schema.graphql}\nroles: {files: roles.yaml}\n")
    (path / "schema.graphql").write_text(SCHEMA)
    (path / "roles.yaml").write_text(ROLES)
    with svc.testing.app(path) as app:
        app.operation("add_user", username="ann", password=PASSWORD, role="reader", active=True)
        papers = [
            {"id": "a", "team": "red"},
            {"id": "b", "team": "blue"},
            {"id": "c", "level": 2},
            {"id": "d", "city": "Oslo"},
            {"id": "e"},
        ]
        assert app.put("/Paper/", papers).status == 204
        yield app


def tokens(app: Application, **fields: Any) -> dict[str, str]:
    found: dict[str, str] = app.operation("create_authentication_tokens", username="ann", bypass_auth=True, **fields)
    return found


def seen(app: Application, token: str) -> str:
    fields = {"Authorization": f"Bearer {token}"}
    answer = app.get("/Paper/", user=None, headers=fields)
    assert answer.status == 200, answer.text
    found = "".join(sorted(row["id"] for row in answer.json))
    for key in "abcde":
        assert app.get(f"/Paper/{key}", user=None, headers=fields).status == (200 if key in found else 404)
    by_graphql = app.post("/graphql", {"query": "{ Paper { id } }"}, user=None, headers=fields).json
    assert "".join(sorted(row["id"] for row in by_graphql["data"]["Paper"])) == found
    return found


def test_tokens_of_one_user_in_turn(app: Application) -> None:
    red = tokens(app, claims={"team": "red"})["operation_token"]
    blue = tokens(app, claims={"team": "blue", "levels": [1, 2]})["operation_token"]
    oslo = tokens(app, claims={"address": {"city": "Oslo"}})["operation_token"]
    plain = tokens(app)["operation_token"]
    for _ in range(3):
        assert [seen(app, token) for token in (red, blue, plain, oslo, red)] == ["a", "bc", "", "d", "a"]
        assert app.get("/Paper/", user="ann").json == []
    app.operation("add_role", role="another", permission={})  # roles are read again, and the claims of tokens stay
    for _ in range(2):
        assert [seen(app, token) for token in (red, blue, plain)] == ["a", "bc", ""]


def test_a_refreshed_token_has_the_same_claims(app: Application) -> None:
    pair = tokens(app, claims={"team": "red"})
    again = app.operation("refresh_operation_token", refresh_token=pair["refresh_token"])["operation_token"]
    assert seen(app, again) == "a"


def test_users_cannot_give_themselves_claims(app: Application) -> None:
    server = app.instance.server
    body = {"operation": "create_authentication_tokens", "claims": {"team": "red"}}

    def ask(user: str | None, **fields: Any) -> Any:
        found = None if user is None else server.accounts.directory.get_user(user)
        return app.run(server.operations_interface.operations.perform({**body, **fields}, found, authorize=True))

    for user in ("ann", None):
        with pytest.raises(AccessViolation, match=r"super user|Must login"):
            ask(user)
    app.operation("add_user", username="root", password=PASSWORD, role="super_user", active=True)
    assert "operation_token" in ask("root") and "operation_token" in ask("ann", claims=None)


@pytest.mark.parametrize("claims", [{"": 1}, {"a.b": 1}, {"a": "x" * 3000}, [1], "x"])
def test_claims_that_cannot_be(app: Application, claims: Any) -> None:
    with pytest.raises(ClientError, match="claims"):
        tokens(app, claims=claims)
