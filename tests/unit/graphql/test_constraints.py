"""Mutations of a table with `@unique`, `@check` and `@default`: what is refused, with its field, and what is undone."""

from __future__ import annotations

from pathlib import Path

from tests.support.graphql import open_shop

SCHEMA = 'type U @table @export { id: ID @primaryKey mail: String @unique n: Int @check(expr: "n > 0") e: String! @default(value: "x") }'


def test_mutations(tmp_path: Path) -> None:
    with open_shop(tmp_path / "app", "{extended: true}", schema=SCHEMA, resources="", roles="{}") as shop:
        assert shop.data('mutation { create_U(input: {id: "1", mail: "m"}) { id e } }') == {"create_U": {"id": "1", "e": "x"}}
        status, body = shop.ask('mutation { a: put_U(id: "2", input: {mail: "k"}) { id } b: put_U(id: "3", input: {mail: "m"}) { id } }')
        (error,) = body["errors"]
        assert (status, error["extensions"]["code"], error["locations"]) == (409, "NOT_UNIQUE", [{"line": 1, "column": 57}])
        assert error["message"] == 'Value "m" in property mail is that of another record of U: "1"'
        assert error["extensions"]["faults"] == [{"attribute": "mail", "other": "1", "message": error["message"]}]
        status, body = shop.ask('mutation { put_U(id: "2", input: {n: 0}) { id } }')
        assert (status, body["errors"][0]["extensions"]["code"]) == (400, "CHECK_FAILED")
        assert body["errors"][0]["extensions"]["faults"] == [{"attribute": "n", "message": "Property n fails its check: n > 0"}]
        status, body = shop.ask('mutation { a: create_U(input: {id: "4", n: "x", mail: 5}) { id } }')
        assert (status, body["errors"][0]["extensions"]["code"], body["errors"][0]["locations"]) == (
            400,
            "VALIDATION",
            [{"line": 1, "column": 12}],
        )
        assert [(each["attribute"], each["message"]) for each in body["errors"][0]["extensions"]["faults"]] == [
            ("n", 'Value "x" in property n must be an integer from -2147483648 to 2147483647'),
            ("mail", "Value 5 in property mail must be a string"),
        ]
        status, body = shop.ask('mutation { create_U(input: {id: "1", mail: "new"}) { id } }')
        assert (status, body["errors"][0]["extensions"]["code"]) == (409, "RECORD_EXISTS")
        assert body["errors"][0]["message"] == 'Record already exists ("1")'
        assert body["errors"][0]["extensions"]["faults"] == [{"key": "1", "message": 'Record already exists ("1")'}]
        exchanged = 'mutation { a: patch_U(id: "1", input: {mail: "q"}) { id } b: put_U(id: "3", input: {mail: "m"}) { id mail } }'
        assert shop.data(exchanged) == {"a": {"id": "1"}, "b": {"id": "3", "mail": "m"}}
        assert shop.data("{ U { id mail } }") == {"U": [{"id": "1", "mail": "q"}, {"id": "3", "mail": "m"}]}
