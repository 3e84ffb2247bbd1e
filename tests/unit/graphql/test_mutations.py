"""Mutations: the effect of REST, in one transaction (spec: graphql §7.2)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import cbor2
import pytest

from tests.support.graphql import OLDER, Shop, open_shop

SCHEMA = """
type Item @table @export {
  id: ID @primaryKey
  name: String @indexed
  price: Float
  at: Date
  image: Bytes
  tags: [String]
  made: Date @createdTime
  groupId: ID @indexed
  group: Group @relationship(from: groupId)
  secret: String
}
type Group @table @export { id: ID @primaryKey  name: String!  items: [Item] @relationship(to: groupId) }
type Entry @table @export(name: "log/Entry") { number: Long @primaryKey  text: String }
type Closed @table @sealed @export { id: ID @primaryKey  a: Int }
type Other @table(database: "other") @export { id: ID @primaryKey  n: Int }
type Checked @table { id: ID @primaryKey  n: Int  owner: String }
"""

RESOURCES = """
import asyncio
from contextvars import Context
from svc import Abort, ClientError, Resource, Response, tables


class Checked(tables.Checked):
    def allow_read(self, user, target=None, context=None):
        return user is not None and "blind" not in user.role.id

    def allow_create(self, user, data, target=None, context=None):
        return data.get("owner") in (None, "me") or user.super_user

    def allow_update(self, user, data, target=None, context=None):
        return True

    async def put(self, data, target=None):
        await asyncio.sleep(0)
        if data.get("n") == 13:
            raise ClientError("no 13", 422)
        before = await tables.Item.get("log")
        await tables.Item.put("log", {"name": ("" if before is None else before.name) + "p"})
        return await super().put(data, target)


class Committing(tables.Item):
    async def put(self, data, target=None):
        await super().put(data, target)
        await self.get_context().transaction.commit()

    def patch(self, data, target=None):
        raise Abort(Response(status=418, data=data["text"]))

    def get(self, target=None):
        raise Abort(Response(status=410, data="gone"))


class Unread(tables.Item):
    def get(self, query=None):
        if self.get_id() == "gone":
            raise ClientError("gone", 404)
        raise ZeroDivisionError


class Meanwhile(Resource):
    # Somebody else, who writes or deletes an item.

    def allow_update(self, user, data, target=None, context=None):
        return True

    async def put(self, data, target=None):
        async def write():
            await (tables.Item.put(data["id"], {"name": "meanwhile"}) if data["there"] else tables.Item.delete(data["id"]))

        await asyncio.get_running_loop().create_task(write(), context=Context())
        return {"id": "m"}


class Echo(Resource):
    def allow_create(self, user, data, target=None, context=None):
        return True

    def allow_update(self, user, data, target=None, context=None):
        return True

    def post(self, data, target=None):
        return {"got": data, "id": None}

    def put(self, data, target=None):
        return {"id": self.get_id(), "got": data}


class Counting(tables.Item):
    def patch(self, data, target=None):
        self.update()
        self.price = (self.price or 0) + data["by"]
"""

ROLES = """
writer:
  data:
    Item: {insert: true, update: true}
clerk:
  data:
    Item: {read: true, insert: true, update: true, delete: true, attributes: {name: {read: true, insert: true, update: true}, secret: {insert: true}}}
blind:
  data: {}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("app"), "{extended: true}", schema=SCHEMA, resources=RESOURCES, roles=ROLES) as shop:
        yield shop


@pytest.fixture(autouse=True)
def emptied(shop: Shop) -> None:
    for name in ("Item", "Group", "log/Entry", "Closed", "Other", "Checked"):
        assert shop.app.delete(f"/{name}/").status == 204


def record(shop: Shop, path: str) -> Any:
    answer = shop.app.get(path)
    return answer.json if answer.status == 200 else None


def test_the_four_changes(shop: Shop) -> None:
    assert shop.data('mutation { create_Item(input: {id: "a", name: "A", price: 1}) { id name price } }') == {
        "create_Item": {"id": "a", "name": "A", "price": 1}
    }
    assert shop.data('mutation { patch_Item(id: "a", input: {price: 2.5}) { n: name price } }')["patch_Item"] == {"n": "A", "price": 2.5}
    assert shop.data('mutation { put_Item(id: "a", input: {name: "B"}) { name price __typename } }')["put_Item"] == {
        "name": "B", "price": None, "__typename": "Item",
    }  # fmt: skip
    assert shop.data('mutation { delete_Item(id: "a") again: delete_Item(id: "a") }') == {"delete_Item": True, "again": False}
    assert record(shop, "/Item/a") is None


def test_all_or_nothing(shop: Shop) -> None:
    shop.data('mutation { create_Item(input: {id: "a", name: "A"}) { id } }')
    status, body = shop.ask('mutation {\n x: create_Item(input: {id: "b"}) { id }\n y: create_Item(input: {id: "a"}) { id } }')
    assert (status, body["errors"][0]["extensions"]["code"], body["errors"][0]["locations"]) == (
        409, "RECORD_EXISTS", [{"line": 3, "column": 2}],
    ), body  # fmt: skip
    assert record(shop, "/Item/b") is None
    status, body = shop.ask('mutation { x: create_Other(input: {id: "b"}) { id } y: put_Closed(id: "c", input: {a: "x"}) { id } }')
    assert (status, body["errors"][0]["extensions"]["code"]) == (400, "VALIDATION")
    assert record(shop, "/Other/b") is None
    assert shop.ask('mutation { create_Item(input: {id: "a"}) { id } }', accept=OLDER)[0] == 200


def test_whether_there_was_a_record_is_decided_where_it_is_deleted(shop: Shop) -> None:
    """Others may have written or deleted it since it was asked for. Of several with one key it is each its own."""
    for there in (True, False):
        assert there or shop.app.put("/Item/late", {}).status == 204
        other = f'put_Meanwhile(id: "m", input: {{id: "late", there: {str(there).lower()}}}) {{ id }}'
        data = shop.data(f'mutation {{ delete_Item(id: "late") delete_Group(id: "late") {other} again: delete_Item(id: "late") }}')
        assert data == {"delete_Item": there, "delete_Group": False, "put_Meanwhile": {"id": "m"}, "again": False}
        assert shop.app.get("/Item/late").status == 404


def test_later_changes_see_the_earlier(shop: Shop) -> None:
    data = shop.data(
        'mutation { a: create_Item(input: {id: "a", name: "1"}) { name } b: patch_Item(id: "a", input: {price: 1}) { name price }'
        ' c: create_Group(input: {id: "g", name: "G"}) { items { id } } d: patch_Item(id: "a", input: {groupId: "g"}) { group { name items { id } } } }'
    )
    assert data == {
        "a": {"name": "1"},
        "b": {"name": "1", "price": 1},
        "c": {"items": [{"id": "a"}]},
        "d": {"group": {"name": "G", "items": [{"id": "a"}]}},
    }
    data = shop.data('mutation { a: put_Item(id: "z", input: {name: "z"}) { name } delete_Item(id: "z") }')
    assert data == {"a": None, "delete_Item": True}  # what is selected is the state after all of it


def test_keys(shop: Shop) -> None:
    data = shop.data('mutation { a: create_log_Entry(input: {text: "x"}) { number text } b: create_log_Entry(input: {}) { number } }')
    assert data["a"]["text"] == "x" and data["b"]["number"] == data["a"]["number"] + 1
    assert shop.data('mutation { patch_log_Entry(id: "7", input: {text: "s"}) { number } }')["patch_log_Entry"] == {"number": 7}
    assert shop.data("mutation { put_Item(id: 5, input: {}) { id } }")["put_Item"] == {"id": "5"}
    key = shop.data("mutation { create_Item(input: {}) { id made } }")["create_Item"]
    assert len(key["id"]) == 36 and key["made"]
    for wrong in ('""', "null", "true", "{a: 1}", "[1]"):
        assert shop.error(f"mutation {{ put_Item(id: {wrong}, input: {{}}) {{ id }} }}")[0] == 400
    assert shop.error('mutation { put_log_Entry(id: "x", input: {}) { number } }')[0] == 400


def test_values(shop: Shop) -> None:
    given = {"at": "2026-01-02T03:04:05.000Z", "image": "AAEC", "tags": ["a", "b"]}
    query = 'mutation ($i: Any) { put_Item(id: "v", input: $i) { at image tags } }'
    assert shop.data(query, {"i": given})["put_Item"] == given
    assert record(shop, "/Item/v")["at"] == given["at"]
    assert shop.data('mutation { put_Item(id: "v", input: {tags: [x, "y"]}) { tags } }')["put_Item"] == {"tags": ["x", "y"]}
    assert shop.error('mutation { put_Item(id: "v", input: {at: "never"}) { id } }')[:2] == (400, "VALIDATION")
    assert shop.error('mutation { put_Closed(id: "v", input: {b: 1}) { id } }')[:2] == (400, "VALIDATION")
    assert shop.data('mutation { put_Item(id: "v", input: {free: {x: 1}}) { free } }')["put_Item"] == {"free": {"x": 1}}
    for wrong in ("null", "5", '"x"', "[{}]"):
        assert shop.error(f'mutation {{ put_Item(id: "v", input: {wrong}) {{ id }} }}')[:2] == (400, "BAD_VALUE")


def test_values_with_types_of_their_own(shop: Shop) -> None:
    values = {"at": datetime(2026, 1, 2, tzinfo=UTC), "image": b"\0\1\2", "name": "n"}
    body = {"query": 'mutation ($i: Any) { put_Item(id: "v", input: $i) { at image name } }', "variables": {"i": values}}
    answer = shop.app.post("/graphql", data=cbor2.dumps(body), headers={"Content-Type": "application/cbor"})
    assert answer.json == {"data": {"put_Item": {"at": "2026-01-02T00:00:00.000Z", "image": "AAEC", "name": "n"}}}


def test_a_variable_that_is_used_twice_is_written_twice(shop: Shop) -> None:
    query = 'mutation ($i: Any) { a: put_Item(id: "a", input: $i) { id } b: put_Item(id: "b", input: $i) { id } c: put_Item(id: "c", input: {x: $i}) { x } }'
    data = shop.data(query, {"i": {"name": "n", "tags": ["t"]}})
    assert (data["a"], data["b"], data["c"]) == ({"id": "a"}, {"id": "b"}, {"x": {"name": "n", "tags": ["t"]}})
    assert record(shop, "/Item/a")["name"] == record(shop, "/Item/b")["name"] == "n"


def test_defaults_of_variables_stay_what_they_are(shop: Shop) -> None:
    query = 'mutation ($i: Any = {name: "d", tags: ["t"]}) { create_Item(input: $i) { id name tags } }'
    one, other = shop.data(query)["create_Item"], shop.data(query)["create_Item"]
    assert one["id"] != other["id"] and one["tags"] == other["tags"] == ["t"]


def test_preconditions(shop: Shop) -> None:
    shop.data('mutation { put_Item(id: "a", input: {name: "1"}) { id } }')
    wrong = shop.ask(
        'mutation { x: create_Item(input: {id: "n"}) { id } patch_Item(id: "a", input: {name: "2"}, ifMatch: "Qnm3baqAAAA") { id } }'
    )
    assert (wrong[0], wrong[1]["errors"][0]["extensions"]["code"]) == (412, "PRECONDITION_FAILED")
    assert wrong[1]["errors"][0]["locations"] == [{"line": 1, "column": 52}]
    assert record(shop, "/Item/n") is None
    for form in ('"{}"', "{}", "*", '"other", "{}"', '"{}-gzip"'):
        query = 'mutation ($t: String) { patch_Item(id: "a", input: {price: 1}, ifMatch: $t) { id } }'
        tag = shop.app.get("/Item/a").headers["ETag"].strip('"')
        shop.data(query, {"t": form.format(tag)})
    assert shop.error('mutation { delete_Item(id: "gone", ifMatch: "*") }')[0] == 412
    assert shop.error('mutation { delete_Item(id: "a", ifMatch: 5) }')[:2] == (400, "BAD_VALUE")
    assert shop.data('mutation { delete_Item(id: "a", ifMatch: null) }') == {"delete_Item": True}


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("create_Item { id }", "BAD_VALUE"),
        ("create_Item(input: {})", "QUERY_SYNTAX"),
        ('delete_Item(id: "a") { id }', "QUERY_SYNTAX"),
        ('delete_Item(id: "a", input: {})', "QUERY_SYNTAX"),
        ('put_Item(id: "a", id: "b", input: {}) { id }', "QUERY_SYNTAX"),
        ("create_Nothing(input: {}) { id }", "NOT_FOUND"),
        ("create_(input: {}) { id }", "QUERY_SYNTAX"),
        ("Item { id }", "QUERY_SYNTAX"),
        ("__schema { types { name } }", "QUERY_SYNTAX"),
        ('delete_Item(id: "a") @x', "QUERY_SYNTAX"),
    ],
)
def test_what_is_no_change(shop: Shop, field: str, code: str) -> None:
    status, found, _ = shop.error(f'mutation {{ before: put_Item(id: "b", input: {{}}) {{ id }} {field} }}')
    assert (status, found) == (400, code)
    assert record(shop, "/Item/b") is None


def test_many(shop: Shop) -> None:
    fields = " ".join(f'a{n}: put_Item(id: "{n}", input: {{name: "x"}}) {{ id name }}' for n in range(200))
    assert len(shop.data(f"mutation {{ {fields} }}")) == 200
    fields = " ".join(f'a{n}: delete_Item(id: "{n}")' for n in range(501))
    assert shop.error(f"mutation {{ {fields} }}")[:2] == (400, "QUERY_SYNTAX")
    big = {"name": "x" * (1 << 20)}
    fields = " ".join(f'a{n}: put_Item(id: "{n}", input: $i) {{ id }}' for n in range(40))
    assert shop.error(f"mutation ($i: Any) {{ {fields} }}", {"i": big})[:2] == (400, "BAD_VALUE")


def test_only_by_post_and_only_in_the_extended_form(shop: Shop) -> None:
    answer = shop.get('mutation { delete_Item(id: "a") }')
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    shop.app.put("/Item/a", {})
    assert shop.get("mutation A { __typename } query B { Item { id } }", operationName="B").json == {"data": {"Item": [{"id": "a"}]}}
    assert shop.data("mutation { __typename }") == {"__typename": "Mutation"}
    assert shop.data('mutation ($n: Boolean!) { put_Item(id: "s", input: {}) @skip(if: $n) { id } }', {"n": True}) == {}
    assert record(shop, "/Item/s") is None


def test_rights(shop: Shop) -> None:
    writer, clerk = {"role": "writer"}, {"role": "clerk"}
    assert shop.error('mutation { put_Item(id: "a", input: {}) { id } }', user=None)[:2] == (401, "UNAUTHENTICATED")
    assert shop.data('mutation { put_Item(id: "a", input: {name: "n"}) { id __typename } }', user=writer)["put_Item"] == {
        "id": "a", "__typename": "Item",
    }  # fmt: skip
    assert shop.error('mutation { put_Item(id: "b", input: {name: "n"}) { name } }', user=writer)[:2] == (403, "FORBIDDEN")
    assert record(shop, "/Item/b") is None
    assert shop.error('mutation { delete_Item(id: "a") }', user=writer)[:2] == (403, "FORBIDDEN")
    assert shop.data('mutation { create_Item(input: {id: "s", name: "n", secret: "s"}) { name } }', user=clerk)["create_Item"] == {
        "name": "n"
    }
    for refused in (
        'patch_Item(id: "s", input: {secret: "t"}) { name }',
        'patch_Item(id: "s", input: {price: 1}) { name }',
        'patch_Item(id: "s", input: {name: "m"}) { secret }',
        'patch_Item(id: "s", input: {name: "m"}) { group { id } }',
        'create_Group(input: {name: "x"}) { id }',
    ):
        assert shop.error(f"mutation {{ {refused} }}", user=clerk)[:2] == (403, "FORBIDDEN"), refused
    assert record(shop, "/Item/s")["name"] == "n"


# --- code of an application -------------------------------------------------------------------------------------------------------------


def test_code_takes_part_in_the_transaction(shop: Shop) -> None:
    query = 'mutation { a: put_Checked(id: "a", input: {n: 1}) { id n } b: put_Checked(id: "b", input: {n: 2}) { n } }'
    assert shop.data(query) == {"a": {"id": "a", "n": 1}, "b": {"n": 2}}
    assert record(shop, "/Item/log")["name"] == "pp"  # the second has seen what the first has written
    query = 'mutation { x: put_Item(id: "x", input: {}) { id } a: put_Checked(id: "c", input: {n: 1}) { id } put_Checked(id: "d", input: {n: 13}) { n } }'
    status, body = shop.ask(query)
    assert (status, body["errors"][0]["message"]) == (422, "no 13") and body["errors"][0]["locations"]
    assert record(shop, "/Item/x") is record(shop, "/Checked/c") is None
    assert record(shop, "/Item/log")["name"] == "pp"


def test_a_handler_that_commits_by_itself(shop: Shop) -> None:
    create = "create_log_Entry(input: {}) { number }"
    query = f'mutation {{ a: {create} put_Committing(id: "x", input: {{}}) {{ id }} b: {create} c: {create} d: delete_Item(id: "x") delete_Item(id: "y") }}'
    data = shop.data(query)
    assert [data[name]["number"] - data["a"]["number"] for name in "abc"] == [0, 1, 2]
    assert (data["put_Committing"], data["d"], data["delete_Item"]) == ({"id": "x"}, True, False)
    query = 'mutation { put_Item(id: "kept", input: {}) { id } put_Committing(id: "x", input: {}) { id }\n create_Item(input: {id: "kept"}) { id } }'
    status, body = shop.ask(query)
    assert (status, body["errors"][0]["locations"]) == (409, [{"line": 2, "column": 2}])
    assert record(shop, "/Item/kept") is not None


def test_handlers_that_abort(shop: Shop) -> None:
    query = 'mutation { put_Item(id: "x", input: {}) { id } patch_Committing(id: "x", input: {text: "short"}) { id } }'
    status, body = shop.ask(query)
    assert (status, body["errors"][0]["message"]) == (418, "short") and body["errors"][0]["locations"]
    assert record(shop, "/Item/x") is None
    assert shop.error('{ Committing(id: "x") { id } }')[::2] == (410, "gone")


def test_rights_of_code(shop: Shop) -> None:
    clerk, blind = {"role": "clerk"}, {"role": "blind"}
    create = 'mutation { create_Checked(input: {id: "%s", owner: "%s"}) { id owner } }'
    assert shop.data(create % ("1", "me"), user=clerk)["create_Checked"] == {"id": "1", "owner": "me"}
    assert shop.error(create % ("2", "bob"), user=clerk)[:2] == (403, "FORBIDDEN")
    assert shop.error(create % ("3", "me"), user=blind)[:2] == (403, "FORBIDDEN")
    assert record(shop, "/Checked/3") is None
    assert shop.data('mutation { create_Checked(input: {id: "3", owner: "me"}) { id } }', user=blind)["create_Checked"] == {"id": "3"}


def test_what_a_handler_returns_is_selected(shop: Shop) -> None:
    assert shop.data('mutation { create_Echo(input: {a: [1, {b: 2}]}) { got { a { b } } __typename } }')["create_Echo"] == {
        "got": {"a": [1, {"b": 2}]}, "__typename": "Echo",
    }  # fmt: skip
    assert shop.data('mutation { put_Echo(id: "x/y", input: [1]) { id got } }')["put_Echo"] == {"id": "x/y", "got": [1]}
    assert shop.error('mutation { patch_Echo(id: "x", input: {}) { id } }')[0] == 405
    shop.app.put("/Item/i", {"price": 1, "groupId": "g"})
    shop.app.put("/Group/g", {"name": "G"})
    query = 'mutation { a: patch_Counting(id: "i", input: {by: 2}) { price p: price group { name } } b: patch_Item(id: "i", input: {name: "q"}) { price } }'
    assert shop.data(query) == {"a": {"price": 3, "p": 3, "group": {"name": "G"}}, "b": {"price": 3}}


def test_what_fails_when_all_is_on_disk_says_so(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    for key, status, code in (("gone", 404, "NOT_FOUND"), ("defect", 500, "INTERNAL_SERVER_ERROR")):
        found, body = shop.ask(f'mutation {{ put_Unread(id: "{key}", input: {{name: "n"}}) {{ name }} }}')
        (error,) = body["errors"]
        assert (found, error["extensions"]["code"], error["extensions"]["stored"]) == (status, code, True)
        assert record(shop, f"/Item/{key}")["name"] == "n"
    assert "ZeroDivisionError" in capfd.readouterr().err
