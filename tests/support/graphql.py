"""An application with GraphQL, for tests of what it answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import svc.testing
from svc.testing.application import Application

NEWER = "application/graphql-response+json"
OLDER = "application/json"

SCHEMA = """
"What is sold."
type Product @table @export {
  id: ID @primaryKey
  name: String @indexed
  price: Float @indexed
  stock: Int
  madeAt: Date @indexed
  tags: [String] @indexed
  place: Place
  meta: Any
  brandId: ID @indexed
  brand: Brand @relationship(from: brandId)
  secret: String @indexed
  label: String @computed(from: "name + '!'")
}
type Place { city: String shelf: Shelf }
type Shelf { row: Int }
type Brand @table @export {
  id: ID @primaryKey
  name: String @indexed
  country: String @indexed
  products: [Product] @relationship(to: brandId)
}
type Order @table @export(name: "shop/Order") { number: Long @primaryKey  productId: ID @indexed  product: Product @relationship(from: productId) }
type Ticket @table @export { code: ID @primaryKey  id: String @indexed  title: String }
type Hidden @table @export(graphql: false) { id: ID @primaryKey }
type Inner @table { id: ID @primaryKey }
"""

RESOURCES = """
from svc import Resource, tables


class Weather(Resource):
    def allow_read(self, user, target=None, context=None):
        return True

    def get(self, query=None):
        if self.get_id() == "nowhere":
            return None
        return {"id": self.get_id(), "city": query.get("city"), "nested": {"a": [{"b": 1}, {"b": 2}]}}


class Numbers(Resource):
    def allow_read(self, user, target=None, context=None):
        return True

    async def get(self, query=None):
        for number in range(300):
            yield {"number": number}


class Dear(tables.Product):
    async def get(self, query=None):
        query.conditions = [*query.conditions, {"attribute": "price", "comparator": "ge", "value": 20}]
        return await super().get(query)


class Marked(tables.Product):
    def get(self, query=None):
        if self.get_id() == "1":
            self.mark = "own"
        return super().get(query)


class Broken(Resource):
    def allow_read(self, user, target=None, context=None):
        return True

    def get(self, query=None):
        raise ZeroDivisionError
"""

ROLES = """
clerk:
  data:
    Product: {read: true, attributes: {name: {read: true}, price: {read: true}, brandId: {read: true}, brand: {read: true}}}
    Brand: {read: true}
buyer:
  data:
    Product: {read: true}
"""

BRANDS = [{"id": "acme", "name": "Acme", "country": "SE"}, {"id": "zeta", "name": "Zeta", "country": "NO"}]
PRODUCTS: list[dict[str, Any]] = [
    {
        "id": str(number),
        "name": f"name {number % 3}",
        "price": number * 2.5,
        "brandId": BRANDS[number % 2]["id"],
        "tags": ["a", f"t{number}"],
        "place": {"city": "Oslo", "shelf": {"row": number}},
        "meta": {"x": {"y": number}},
        "secret": "s",
        "madeAt": f"2026-01-0{number}T00:00:00.000Z",
    }
    for number in range(1, 10)
]


SUPER_USER = object()


class Shop:
    """Answers GraphQL. `app`: the application, whose requests are the super user's."""

    def __init__(self, app: Application) -> None:
        self.app = app

    def ask(
        self, query: str, variables: Mapping[str, Any] | None = None, *, user: Any = SUPER_USER, accept: str = NEWER, **members: Any
    ) -> tuple[int, Any]:
        """(status, decoded body) of a POST. `user`: whose request it is, None an anonymous caller's."""
        app = self.app if user is SUPER_USER else self.app.as_user(user)
        body = {"query": query} | ({} if variables is None else {"variables": variables}) | members
        answer = app.post("/graphql", body, headers={"Accept": accept})
        assert answer.headers["Content-Type"] == f"{accept}; charset=utf-8"
        return answer.status, answer.json

    def data(self, query: str, variables: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """The data of an answer without errors."""
        status, body = self.ask(query, variables, **options)
        assert (status, set(body) - {"extensions"}) == (200, {"data"}), body
        return body["data"]

    def error(self, query: str, variables: Mapping[str, Any] | None = None, **options: Any) -> tuple[int, str, str]:
        """(status, code, message) of an answer that has failed."""
        status, body = self.ask(query, variables, **options)
        assert list(body) == ["errors"] and len(body["errors"]) == 1
        return status, body["errors"][0]["extensions"]["code"], body["errors"][0]["message"]

    def get(self, query: str | None = None, accept: str = NEWER, **parameters: str) -> Any:
        """The answer to a GET."""
        given = ({} if query is None else {"query": query}) | parameters
        return self.app.get(f"/graphql?{urlencode(given)}", headers={"Accept": accept})


@contextmanager
def open_shop(
    directory: Path, options: str = "true", *, schema: str = SCHEMA, resources: str = RESOURCES, roles: str = ROLES
) -> Iterator[Shop]:
    """`options`: of the entry `graphql`."""
    directory.mkdir(exist_ok=True)
    (directory / "config.yaml").write_text(
        f"rest: true\ngraphql: {options}\ngraphqlSchema: {{files: schema.graphql}}\nroles: {{files: roles.yaml}}\nresources: {{files: resources.py}}\n"
    )
    (directory / "schema.graphql").write_text(schema)
    (directory / "resources.py").write_text(resources)
    (directory / "roles.yaml").write_text(roles)
    with svc.testing.app(directory) as app:
        if schema is SCHEMA:
            assert app.post("/Brand/", BRANDS).status == 201
            assert app.post("/Product/", PRODUCTS).status == 201
            for number in (1, 2):
                assert app.put(f"/shop/Order/{number}", {"productId": str(number)}).status == 204
            assert app.put("/Ticket/c1", {"id": "x", "title": "one"}).status == 204
        yield Shop(app)
