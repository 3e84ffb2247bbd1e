"""Every rule of schema-and-store §1-§4, and every fault with its line and column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from svc.apps.schema_files import SchemaResult, load_schema_files
from svc.store.schema import (
    Attribute,
    Check,
    Embed,
    Export,
    Relationship,
    Structure,
    TableDefinition,
    VectorIndex,
    definition_from_bytes,
    definition_to_bytes,
)

EXAMPLE = '''\
"""Seat offered for one performance."""
type Seat @table(database: "boxoffice", audit: true) @export(name: "seat", mqtt: false) {
  code: ID @primaryKey
  showId: Long @indexed
  show: Show @relationship(from: "showId")
  price: Float @indexed
  stock: Int
  tags: [String] @indexed
  place: Place                      # nested structure
  label: String @computed(from: "place.hall + '-' + code")
  changed: Long @updatedTime
}
type Place { hall: String!  row: Int }
type Show @table(database: "boxoffice") @export {
  id: Long @primaryKey
  title: String @indexed
  seats: [Seat] @relationship(to: "showId")
}
'''


def load(*texts: str, **arguments: Any) -> SchemaResult:
    result = load_schema_files([(f"{number}.graphql", text) for number, text in enumerate(texts, 1)], **arguments)
    for definition in result.definitions:
        assert definition_from_bytes(definition_to_bytes(definition)) == definition
    return result


def good(*texts: str, **arguments: Any) -> list[TableDefinition]:
    result = load(*texts, **arguments)
    assert not result.faults
    return result.definitions


def attribute(declared: str, *, warnings: int = 0) -> Attribute:
    """The attribute `a` of a table with this one more field."""
    result = load(f"type T @table {{ id: ID @primaryKey {declared} }} type U @table {{ id: ID t: ID @indexed }}")
    assert not result.errors
    assert len(result.warnings) == warnings
    found = result.definitions[0].attribute("a")
    assert found is not None
    return found


def errors(*texts: str, **arguments: Any) -> list[str]:
    return load(*texts, **arguments).errors


def test_the_example_of_the_specification() -> None:
    result = load(EXAMPLE)
    assert not result.errors
    assert not result.warnings
    place = Structure("Place", (Attribute("hall", "String", required=True), Attribute("row", "Int")))
    assert result.definitions == [
        TableDefinition(
            "Seat",
            "boxoffice",
            "Seat",
            (
                Attribute("code", "ID", primary_key=True),
                Attribute("showId", "Long", indexed=True),
                Attribute("show", "Show", relationship=Relationship("Show", "showId")),
                Attribute("price", "Float", indexed=True),
                Attribute("stock", "Int"),
                Attribute("tags", "String", elements=True, indexed=True),
                Attribute("place", "Place"),
                Attribute("label", "String", computed_from="place.hall + '-' + code"),
                Attribute("changed", "Long", updated_time=True),
            ),
            (place,),
            "code",
            audit=True,
            description="Seat offered for one performance.",
            export=Export("seat", (("mqtt", False),)),
        ),
        TableDefinition(
            "Show",
            "boxoffice",
            "Show",
            (
                Attribute("id", "Long", primary_key=True),
                Attribute("title", "String", indexed=True),
                Attribute("seats", "Seat", elements=True, relationship=Relationship("Seat", None, "showId")),
            ),
            (),
            "id",
            export=Export("Show"),
        ),
    ]


class TestTypeDirectives:
    def test_table_alone(self) -> None:
        assert good("type T @table { id: ID }") == [TableDefinition("T", "data", "T", (Attribute("id", "ID", primary_key=True),))]

    def test_every_argument_of_table(self) -> None:
        (definition,) = good(
            'type T @table(table: "things", schema: other, expiration: "300", eviction: 60.5, scanInterval: 10, audit: false, replicate: "false") { id: ID }'
        )
        expected = TableDefinition("things", "other", "T", expiration=300, eviction=60.5, scan_interval=10, audit=False, replicate=False)
        assert replace(definition, attributes=()) == expected

    def test_sealed_hidden_and_split_segments(self) -> None:
        (definition,) = good("type T @table @sealed @hidden @splitSegments { id: ID }")
        assert (definition.sealed, definition.hidden, definition.split_segments) == (True, True, True)

    @pytest.mark.parametrize(
        ("directive", "directory", "export"),
        [
            ("", "", None),
            ("@export", "", Export("T")),
            ('@export(name: "")', "", Export("")),
            ('@export(name: "/a/b/")', "", Export("a/b")),
            ("@export", "/app/", Export("app/T")),
            ('@export(name: "")', "app/sub", Export("app/sub")),
            (
                "@export(rest: true, mqtt: false, ws: false, sse: true, graphql: false, mcp: true)",
                "",
                Export("T", (("rest", True), ("graphql", False), ("mqtt", False), ("ws", False), ("sse", True), ("mcp", True))),
            ),
        ],
    )
    def test_export(self, directive: str, directory: str, export: Export | None) -> None:
        text = f"type T @table {directive} {{ id: ID }}"
        assert good(text, url_directory=directory)[0].export == export
        assert good(text, url_directory={"1.graphql": directory, "2.graphql": "x"})[0].export == export

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("type T @table(database: a, schema: b) { id: ID }", "1:6: @table of T names two databases, a and b"),
            ("type T @table(database: system) { id: ID }", "1:6: T cannot be in the database system, which belongs to svc"),
            ("type T\n @table(expiration: soon) { id: ID }", "2:2: @table: expiration must be a number"),
            ("type T @table(expiration: -1) { id: ID }", "1:8: @table: expiration must not be negative"),
            ("type T @table(scanInterval: 0) { id: ID }", "1:8: @table: scanInterval must be greater than 0"),
            ("type T @table(audit: 1) { id: ID }", "1:8: @table: audit must be true or false"),
            (
                'type T @table(database: "../x") { id: ID }',
                "1:8: @table: database must be a name of 1 to 250 printable ASCII characters without / and backtick",
            ),
            ("type Date @table { id: ID }", "1:6: Date is a built-in type and cannot be declared"),
            ("type T @table { a: Int a: Int }", "1:24: T.a is declared twice"),
        ],
    )
    def test_errors(self, text: str, fault: str) -> None:
        result = load(text)
        assert result.errors == [f"1.graphql:{fault}"]
        assert result.definitions == []

    def test_names_too_long_for_the_store(self) -> None:
        assert len(errors(f"type T @table {{ {'x' * 251}: Int }}")) == 1
        assert len(errors(f"type {'T' * 251} @table {{ a: Int }}")) == 1

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("type T @table @shiny { id: ID }", "1:15: the directive @shiny is not known and was ignored"),
            ("type T @table @indexed { id: ID }", "1:15: the directive @indexed has no effect here"),
            ("type T @table(size: 5) { id: ID }", "1:8: @table has no argument size: it was ignored"),
            ("type T @table @export(http: true) { id: ID }", "1:15: @export has no argument http: it was ignored"),
            ("type T @table @sealed @sealed { id: ID }", "1:23: @sealed is repeated: the first counts"),
            ("type T @table { id: ID a(b: Int): Int }", "1:24: the arguments of T.a have no meaning and were ignored"),
            ("type T @table { id: ID } union E = T", "1:26: union type E declares no table, structure or enum and was ignored"),
            ("type T @table { id: ID } type S @export { a: Int }", "1:31: @export has no effect on S, which has no @table"),
            ("type T @table { id: ID } type S { a: Int @indexed }", "1:35: @indexed has no effect on S.a: S has no @table"),
        ],
    )
    def test_warnings(self, text: str, fault: str) -> None:
        result = load(text)
        assert (result.warnings, result.errors) == ([f"1.graphql:{fault}"], [])
        assert [definition.name for definition in result.definitions] == ["T"]


class TestPrimaryKey:
    def test_marked(self) -> None:
        (definition,) = good("type T @table { id: ID code: Long! @primaryKey }")
        assert definition.primary_key == "code"
        assert [found.primary_key for found in definition.attributes] == [False, True]

    def test_an_attribute_id_is_taken(self) -> None:
        (definition,) = good("type T @table { a: Int id: String }")
        assert (definition.primary_key, definition.attributes[1]) == ("id", Attribute("id", "String", primary_key=True))

    @pytest.mark.parametrize("body", ["{ a: Int }", ""])
    def test_an_untyped_id_is_added(self, body: str) -> None:
        (definition,) = good(f"type T @table {body}")
        assert (definition.primary_key, definition.attributes[0]) == ("id", Attribute("id", primary_key=True))

    def test_two_the_first_counts(self) -> None:
        result = load("type T @table {\n  a: ID @primaryKey\n  b: ID @primaryKey\n}")
        assert result.warnings == ["1.graphql:3:3: @primaryKey is ignored here, the primary key of T is a"]
        assert [found.primary_key for found in result.definitions[0].attributes] == [True, False]

    @pytest.mark.parametrize("kind", ["Boolean", "Date", "Bytes", "[ID]", "S"])
    def test_keys_are_text_or_numbers(self, kind: str) -> None:
        shown = kind
        assert errors(f"type T @table {{ id: {kind} }} type S {{ a: Int }}") == [
            f"1.graphql:1:17: T.id cannot be a primary key with type {shown}: keys are strings or numbers"
        ]

    @pytest.mark.parametrize("kind", ["ID", "String", "Int", "Long", "Float", "BigInt", "Any"])
    def test_types_of_keys(self, kind: str) -> None:
        assert good(f"type T @table {{ id: {kind} }}")[0].attributes[0].type == kind


class TestFieldDirectives:
    @pytest.mark.parametrize("kind", ["ID", "String", "Int", "Long", "Float", "BigInt", "Boolean", "Date", "Bytes", "Any"])
    def test_types(self, kind: str) -> None:
        assert attribute(f"a: {kind}") == Attribute("a", kind)
        assert attribute(f"a: [{kind}!]!") == Attribute("a", kind, elements=True, required=True, element_required=True)

    def test_untyped(self) -> None:
        assert attribute("a @indexed b") == Attribute("a", "Any", indexed=True)

    def test_description(self) -> None:
        assert attribute('"""What\nit is""" a: Int').description == "What\nit is"

    def test_indexed(self) -> None:
        assert attribute("a: Int @indexed") == Attribute("a", "Int", indexed=True)

    @pytest.mark.parametrize("name", ["createdTime", "updatedTime"])
    @pytest.mark.parametrize("kind", ["Long", "Date", "String", "Float", "Any"])
    def test_times(self, name: str, kind: str) -> None:
        found = attribute(f"a: {kind} @{name}")
        assert found == Attribute("a", kind, created_time=name == "createdTime", updated_time=name == "updatedTime")

    def test_expires_at_is_indexed(self) -> None:
        assert attribute("a: Long @expiresAt") == Attribute("a", "Long", expires_at=True, indexed=True)

    def test_enumerable_hidden_allow(self) -> None:
        assert attribute("a: U @relationship(from: id) @enumerable @hidden").enumerable
        attribute("a: Int @enumerable", warnings=1)
        assert attribute("a: Int @hidden").hidden
        assert attribute('a: Int @allow(role: "admin")').allow == ("admin",)
        assert attribute("a: Int @allow(role: [admin, auditor])").allow == ("admin", "auditor")

    def test_computed(self) -> None:
        assert attribute('a: Int @computed(from: " b * 2 ", version: 3)') == Attribute(
            "a", "Int", computed_from="b * 2", computed_version="3"
        )
        assert attribute("a: Int @computed").computed_from == ""
        assert attribute('a: Int @computed(from: " ")').computed_from == ""
        assert attribute('a: Int @computed(from: "b") @indexed').indexed
        assert attribute('a: String @computed(from: """\n b +\n c\n""")').computed_from == "b +\nc"
        assert attribute("a: [String] @computed(from: \"re.split(',', b)\") @enumerable").enumerable

    def test_names_of_a_sealed_table(self) -> None:
        result = load('type T @table @sealed {\n id: ID\n a: Int @computed(from: "d + id + c")\n}')
        assert not result.errors
        assert result.warnings == ["1.graphql:3:26: @computed of T.a: T is sealed and has no attribute c, d"]

    @pytest.mark.parametrize(
        ("declared", "column", "fault"),
        [
            # Columns of the file: the expression begins in column 25.
            ('a: Int @computed(from: "b +")', 28, "invalid syntax"),
            ('a: Int @computed(from: "(b")', 25, "'(' was never closed"),
            ('a: Int @computed(from: "import os")', 25, "invalid syntax"),
            ('a: Int @computed(from: "b + (lambda: 1)()")', 29, "only functions and methods can be called"),
            ('a: Int @computed(from: "é + é.__class__")', 29, "the name __class__ cannot be used: it contains __"),
            ('a: Int @computed(from: "  open(b)")', 27, "the function open is not known"),
            # With an escape or in several lines, a character of the expression is not one of the file.
            ('a: Int @computed(from: "b + \\"c\\" + open(b)")', 24, "the function open is not known (line 1, column 11 of the expression)"),
            (
                'a: Int @computed(from: """\n b +\n open(b)""")',
                24,
                "the function open is not known (line 2, column 1 of the expression)",
            ),
            ('a: Blob @computed(from: "b")', 26, "a Blob cannot be computed"),
            ('b: Int @computed a: Int @computed(from: "b + 1")', 42, "the expression uses b, which is not stored: it is computed itself"),
            ('a: Int @computed(from: "a + 1")', 25, "the expression uses a, which is not stored: it is computed itself"),
            (
                'c: ID b: U @relationship(from: c) a: Int @computed(from: "b.x")',
                59,
                "the expression uses b, which is not stored: it is a relationship",
            ),
        ],
    )
    def test_expressions_that_cannot_be_used(self, declared: str, column: int, fault: str) -> None:
        result = load(f"type T @table {{ id: ID\n{declared}\n}}\ntype U @table {{ id: ID }}")
        assert result.errors == [f"1.graphql:2:{column}: @computed of T.a: {fault}"]
        assert [definition.name for definition in result.definitions] == ["U"]

    def test_vector_index(self) -> None:
        found = attribute('a: [Float] @indexed(type: "HNSW", distance: euclidean, M: "32")', warnings=1)
        assert found == Attribute("a", "Float", elements=True, vector=VectorIndex("euclidean", 32))

    def test_embed(self) -> None:
        found = attribute('text: String a: [Float] @embed(source: "text", model: "small")', warnings=1)
        assert found == Attribute("a", "Float", elements=True, embed=Embed("text", "small"))

    @pytest.mark.parametrize(
        ("declared", "fault"),
        [
            ('a: U @relationship(from: id) @computed(from: "b")', "T.a cannot be both @relationship and @computed"),
            ("a: U @relationship(from: id) @indexed", "@indexed cannot be on the relationship T.a: index the foreign key"),
            ("a: String @indexed(type: HNSW)", "a vector index needs the type [Float], T.a has another"),
            ("a: [Float] @indexed(type: HNSW, M: 0)", "@indexed: M must be greater than 0"),
            ("a: [Float] @embed", "@embed of T.a needs source:, the name of a String attribute"),
            ("a: [Float] @embed(source: b)", "@embed of T.a: T has no attribute b"),
            ("a: Long @createdTime @updatedTime", "T.a can have only one of @createdTime, @updatedTime"),
            ("a: Boolean @createdTime", "@createdTime of T.a needs one of the types Date, Long, Float, BigInt, Any, String"),
            ("a: [Long] @updatedTime", "@updatedTime of T.a needs one of the types Date, Long, Float, BigInt, Any, String"),
            ("a: String @expiresAt", "@expiresAt of T.a needs one of the types Date, Long, Float, BigInt, Any"),
            ("a: Long @primaryKey @createdTime", "@createdTime needs an attribute of its own, T.a has another meaning"),
        ],
    )
    def test_errors(self, declared: str, fault: str) -> None:
        result = load(f"type T @table {{\n {declared}\n}}\ntype U @table {{ id: ID }}")
        assert len(result.errors) == 1
        path, line, column, message = result.errors[0].split(":", 3)
        assert (path, line) == ("1.graphql", "2")
        assert int(column) >= 2
        assert message == " " + fault
        assert [definition.name for definition in result.definitions] == ["U"]

    @pytest.mark.parametrize(
        ("declared", "fault"),
        [
            ("a: Int @shiny", "1:46: the directive @shiny is not known and was ignored"),
            ("a: Int @table", "1:46: the directive @table has no effect here"),
            ("a: Int @indexed(unique: true)", "1:46: @indexed has no argument unique: it was ignored"),
            ('a: Int @indexed(type: "BTREE")', '1:39: @indexed of T.a knows the type "HNSW" only: an ordinary index is made'),
            ("a: Int @indexed(M: 5)", '1:39: the arguments of @indexed of T.a have a meaning only with type: "HNSW"'),
            ("a: [[Float]]", "1:39: the lists inside the list T.a are not checked: [[Float]] is taken as [Any]"),
            ("a: Nowhere", "1:39: the type Nowhere of T.a is not known: any value is accepted"),
        ],
    )
    def test_warnings(self, declared: str, fault: str) -> None:
        result = load(f"type T @table {{ id: ID    @primaryKey {declared} }}")
        assert (result.warnings, result.errors) == ([f"1.graphql:{fault}"], [])
        assert result.definitions[0].attribute("a") is not None


ALONE = "needs from: alone: it belongs to the relationship that begins at the foreign key"


class TestDefaults:
    @pytest.mark.parametrize(
        ("declared", "stored"),
        [
            ("a: Int @default(value: 3)", "3"),
            ("a: Float @default(value: 0.5)", "0.5"),
            ('a: String @default(value: "ß")', '"ß"'),
            ("a: [String] @default(value: [])", "[]"),
            ("a: Boolean @default(value: false)", "false"),
            ('a: Date @default(value: "2026-01-02")', '"2026-01-02"'),
            ("a: Any @default(value: {x: [1, {y: null}]})", '{"x": [1, {"y": null}]}'),
        ],
    )
    def test_is_kept_as_json(self, declared: str, stored: str) -> None:
        assert attribute(declared).default == stored

    @pytest.mark.parametrize(
        ("declared", "message"),
        [
            ("a: Int @default", "1:38: @default of T.a needs value:, which is not null"),
            ("a: Int @default(value: null)", "1:38: @default of T.a needs value:, which is not null"),
            ('a: Int @default(value: "3")', '1:62: @default of T.a: Value "3" in property a must be an integer from -2147483648 to 2147483647'),
            ("a: [Int] @default(value: 3)", "1:63: @default of T.a: Value 3 in property a must be a list"),
            ("a: [Int!] @default(value: [null])", "1:64: @default of T.a: Property a[0] is required and cannot be null"),
            ("a: E @default(value: C)", '1:59: @default of T.a: Value "C" in property a must be one of A, B'),
            ("a: P @default(value: {})", "1:59: @default of T.a: Property a.x is required"),
            ('a: Int @default(value: "soon")', '1:62: @default of T.a: Value "soon" in property a must be an integer from -2147483648 to 2147483647'),
            ('a: Blob @default(value: "x")', "1:38: @default of T.a: a Blob has none"),
            ('a: String @computed(from: "id") @default(value: "x")', "1:38: @default of T.a has no place beside @computed"),
            ("a: Long @createdTime @default(value: 1)", "1:38: @default of T.a has no place beside @createdTime"),
        ],
    )  # fmt: skip
    def test_errors(self, declared: str, message: str) -> None:
        text = f"type T @table {{ id: ID @primaryKey   {declared} }} enum E {{ A B }} type P {{ x: Int! }}"
        assert errors(text) == [f"1.graphql:{message}"]

    def test_the_key_has_none(self) -> None:
        assert errors("type T @table { a: ID @primaryKey @default(value: x) }") == [
            "1.graphql:1:17: @default of T.a has no place beside @primaryKey"
        ]

    def test_not_in_nested_objects(self) -> None:
        result = load("type T @table { id: ID a: P } type P { x: Int @default(value: 1) }")
        assert result.warnings == ["1.graphql:1:40: @default has no effect on P.x: P has no @table"]


class TestConstraints:
    def test_unique_implies_an_index(self) -> None:
        assert attribute("a: String @unique") == Attribute("a", "String", indexed=True, unique=True)
        assert attribute("a: [Int] @unique @indexed") == Attribute("a", "Int", elements=True, indexed=True, unique=True)

    def test_checks_of_fields_and_types(self) -> None:
        assert attribute('a: Int @check(expr: "a > 0")').check == Check("a > 0")
        assert attribute('a: Int @check(expr: "a > 0", message: "must be positive")').check == Check("a > 0", "must be positive")
        (definition,) = good('type T @table @check(expr: "a < b", message: "m") { id: ID @primaryKey a: Int b: Int }')
        assert definition.check == Check("a < b", "m")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a: U @relationship(from: b) @unique b: ID", "1:36: @unique cannot be on the relationship T.a: it belongs to the foreign key"),
            ("a: Int @computed @unique", "1:36: @unique of T.a: the computed attribute needs from:, an expression"),
            ("a: Blob @unique", "1:36: @unique of T.a: values of the type Blob cannot be compared"),
            ("a: P @unique", "1:36: @unique of T.a: values of the type P cannot be compared"),
            ("a: Int @check", "1:43: @check of T.a needs expr:, an expression"),
            ('a: Int @check(expr: "a >")', "1:60: @check of T.a: invalid syntax"),
            ('a: Int @check(expr: "open(a)")', "1:57: @check of T.a: the function open is not known"),
            (
                'a: Int @check(expr: "c > a") c: Int @computed(from: "a")',
                "1:57: @check of T.a: the expression uses c, which is not stored: it is computed",
            ),
            ('a: Int @computed(from: "1") @check(expr: "a > 0")', "1:36: @check of T.a: it is not stored, put the check on the type T"),
        ],
    )
    def test_errors(self, text: str, message: str) -> None:
        found = errors(f"type T @table {{ id: ID @primaryKey {text} }} type P {{ x: Int }} type U @table {{ id: ID }}")
        assert found[:1] == [f"1.graphql:{message}"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("type T @table { id: ID @primaryKey @unique }", "1:17: @unique has no effect on T.id: a key is unique without"),
            ('type T @table { id: ID a: Int @check(expr: "b > 0") }', "1:45: @check of T.a: T declares no attribute b"),
            (
                'type T @table { id: ID a: P } type P @check(expr: "x > 0") { x: Int }',
                "1:36: @check has no effect on P, which has no @table",
            ),
            ("type T @table { id: ID a: P } type P { x: Int @unique }", "1:40: @unique has no effect on P.x: P has no @table"),
        ],
    )
    def test_warnings(self, text: str, message: str) -> None:
        result = load(text)
        assert (result.errors, result.warnings) == ([], [f"1.graphql:{message}"])


class TestRelationships:
    SHOW = 'type Show @table(table: "shows") { id: Long name: String @indexed other: String ids: [ID] @indexed twin: Show }'

    def relationship(self, declared: str) -> Attribute:
        result = load(f"type T @table {{ id: ID one: Long many: [Long] whole: Int any\n  r: {declared} }} {self.SHOW}")
        assert not result.faults
        found = result.definitions[0].attribute("r")
        assert found is not None
        return found

    @pytest.mark.parametrize(
        ("declared", "expected"),
        [
            ("Show @relationship(from: one)", Relationship("shows", "one")),
            ('[Show] @relationship(from: "many")', Relationship("shows", "many")),
            ("Show @relationship(from: any)", Relationship("shows", "any")),
            ("[Show] @relationship(from: any)", Relationship("shows", "any")),
            ("[Show] @relationship(to: name)", Relationship("shows", None, "name")),
            ("[Show] @relationship(to: ids)", Relationship("shows", None, "ids")),
            ("[Show] @relationship(from: id, to: name)", Relationship("shows", "id", "name")),
            ("Show @relationship(from: whole)", Relationship("shows", "whole")),
            ("[Show] @relationship(from: any, to: name)", Relationship("shows", "any", "name")),
            ("[Show] @relationship(from: one, to: id)", Relationship("shows", "one", "id")),
        ],
    )
    def test_forms(self, declared: str, expected: Relationship) -> None:
        assert self.relationship(declared).relationship == expected

    def test_a_tree_inside_one_table(self) -> None:
        (definition,) = good(
            "type T @table { id: ID parentId: ID @indexed parent: T @relationship(from: parentId) children: [T] @relationship(to: parentId) }"
        )
        assert [found.relationship for found in definition.attributes[2:]] == [
            Relationship("T", "parentId"),
            Relationship("T", None, "parentId"),
        ]
        assert definition.structures == ()

    @pytest.mark.parametrize(
        ("declared", "fault"),
        [
            ("r: Show @relationship", "@relationship of T.r needs from: or to:"),
            ("r: String @relationship(from: one)", "the relationship T.r needs a table as its type, String is not a table"),
            ("r: Place @relationship(from: one)", "the relationship T.r needs a table as its type, Place has no @table"),
            ("r: Far @relationship(from: one)", "the relationship T.r leads to Far in another database, far"),
            ("r: Show @relationship(from: nothing)", "the relationship T.r starts from nothing, which T does not have"),
            ("r: Show @relationship(from: r)", "the relationship T.r starts from r, which is not stored"),
            ("r: Show @relationship(to: name)", "the relationship T.r leads to many records: its type must be [Show]"),
            ("r: Show @relationship(from: one, to: name)", "the relationship T.r leads to many records: its type must be [Show]"),
            ("r: [Show] @relationship(from: one)", "the relationship T.r starts from one, so its type must be Show"),
            ("r: Show @relationship(from: many)", "the relationship T.r starts from many, so its type must be [Show]"),
            ("r: [Show] @relationship(to: nothing)", "the relationship T.r leads to nothing, which Show does not have"),
            ("r: [Show] @relationship(to: other)", "the relationship T.r leads to Show.other, which must be @indexed"),
        ],
    )
    def test_errors(self, declared: str, fault: str) -> None:
        result = load(
            f"type T @table {{ id: ID one: Long many: [Long]\n    {declared} }}",
            self.SHOW + " type Place { a: Int } type Far @table(database: far) { id: ID }",
        )
        assert result.errors == [f"1.graphql:2:5: {fault}"]
        assert [definition.type_name for definition in result.definitions] == ["Show", "Far"]

    @pytest.mark.parametrize(
        ("declared", "here", "there"),
        [
            ("r: Show @relationship(from: text)", "T.text is String", "Show.id is Long"),
            ("r: Show @relationship(from: text, onDelete: cascade)", "T.text is String", "Show.id is Long"),
            ("r: [Show] @relationship(from: texts)", "T.texts is [ID]", "Show.id is Long"),
            ("r: Show @relationship(from: flag)", "T.flag is Boolean", "Show.id is Long"),
            ("r: Show @relationship(from: status)", "T.status is the enum Status", "Show.id is Long"),
            ("r: Show @relationship(from: place)", "T.place is Place", "Show.id is Long"),
            ("r: [Show] @relationship(to: number)", "T.id is ID", "Show.number is BigInt"),
            ("r: [Show] @relationship(from: status, to: kind)", "T.status is the enum Status", "Show.kind is the enum Kind"),
            ("r: [Show] @relationship(from: text, to: numbers)", "T.text is String", "Show.numbers is [Float]"),
        ],
    )
    def test_ends_whose_values_are_never_equal(self, declared: str, here: str, there: str) -> None:
        result = load(
            "type T @table { id: ID text: String @indexed texts: [ID] flag: Boolean status: Status place: Place\n" + f"  {declared} }}",
            "type Show @table { id: Long number: BigInt @indexed numbers: [Float] @indexed kind: Kind @indexed }"
            " type Place { a: Int } enum Status { OPEN } enum Kind { PLAY }",
        )
        assert len(result.errors) == 1
        assert result.errors[0].startswith(f"1.graphql:2:3: the relationship T.r can never find a record: {here} and {there}, whose values")
        assert [definition.type_name for definition in result.definitions] == ["Show"]

    def test_ends_of_tables_that_other_applications_have(self) -> None:
        known = {"data": {"Show": good("type Show @table { id: Long }")[0]}}
        result = load("type T @table { id: ID showId: ID show: Show @relationship(from: showId) }", known_types=known)
        assert "T.showId is ID and Show.id is Long" in result.errors[0]

    @pytest.mark.parametrize(
        ("declared", "expected"),
        [
            ("u: ID @indexed r: U @relationship(from: u, onDelete: cascade)", "cascade"),
            ('u: [ID!]! @indexed r: [U] @relationship(from: u, onDelete: "setNull")', "setNull"),
            ("r: U @relationship(from: id, onDelete: restrict)", "restrict"),
        ],
    )
    def test_what_deletions_entail(self, declared: str, expected: str) -> None:
        result = load(f"type T @table {{ id: ID {declared} }} type U @table {{ id: ID }}")
        found = result.definitions[0].attribute("r")
        assert not result.faults and found is not None and found.relationship is not None and found.relationship.on_delete == expected

    @pytest.mark.parametrize(
        ("declared", "fault"),
        [
            ("r: U @relationship(from: u, onDelete: erase)", "@relationship: onDelete must be one of restrict, cascade, setNull"),
            ("r: U @relationship(from: u, onDelete: cascade)", "onDelete: of T.r needs an index to find the records: declare u @indexed"),
            ("r: U @relationship(from: need, onDelete: setNull)", "onDelete: of T.r: setNull is not possible, need is required (!) and cannot be null"),
            ("r: U @relationship(from: id, onDelete: setNull)", "onDelete: of T.r: setNull is not possible, id is the primary key and cannot be null"),
            ("r: Split @relationship(from: need, onDelete: cascade)", "onDelete: of T.r cannot lead to Split: its keys are lists (@splitSegments)"),
            ("r: Far @relationship(from: need, onDelete: cascade)", "the relationship T.r leads to Far in another database, far"),
        ]
        + [
            (f"r: [U] @relationship({ends}, onDelete: cascade)", f"onDelete: of T.r {ALONE}")
            for ends in ("to: t", "from: need, to: t")
        ],
    )  # fmt: skip
    def test_faults_of_on_delete(self, declared: str, fault: str) -> None:
        others = (
            "type U @table { id: ID t: ID @indexed } type Split @table @splitSegments { id: ID } type Far @table(database: far) { id: ID }"
        )
        result = load(f"type T @table {{ id: ID @primaryKey u: ID need: ID! @indexed\n  {declared} }} {others}")
        assert [error.partition(": ")[2] for error in result.errors] == [fault]

    def test_an_unknown_target_is_a_warning(self) -> None:
        result = load("type T @table { id: ID one: Long r: Nowhere @relationship(from: one) }")
        assert (len(result.warnings), result.errors) == (1, [])
        assert result.definitions[0].attribute("r") == Attribute("r")


NAMES = "must be a name of 1 to 250 printable ASCII characters without / and backtick"
TWICE = "type T @table @renamedFrom(name: o) { id: ID } type U @table @renamedFrom(name: o) { id: ID }"


class TestFormerNames:
    def test_of_an_attribute(self) -> None:
        (definition,) = good(
            "type T @table { id: ID @primaryKey a: Int @indexed @renamedFrom(name: old) b: Int @renamedFrom(name: older) }"
        )
        assert [found.renamed_from for found in definition.attributes] == [None, "old", "older"]

    @pytest.mark.parametrize(
        ("declared", "fault"),
        [
            ("a: Int @renamedFrom", "@renamedFrom of T.a needs name:, the name that the attribute had"),
            ('a: Int @renamedFrom(name: "")', "@renamedFrom: name must not be empty"),
            ("a: Int @renamedFrom(name: a)", "@renamedFrom of T.a: a is still declared, remove it"),
            ("a: Int @renamedFrom(name: u)", "@renamedFrom of T.a: u is still declared, remove it"),
            ("b: Int @renamedFrom(name: o)  a: Int @renamedFrom(name: o)", "@renamedFrom of T.a: the values of o go to b already"),
            ("a: T @relationship(from: u) @renamedFrom(name: o)", "@renamedFrom of T.a has nothing to move: the attribute is not stored"),
            ('a: Int @computed(from: "1") @renamedFrom(name: o)', "@renamedFrom of T.a has nothing to move: the attribute is not stored"),
            ("a: ID @primaryKey @renamedFrom(name: o)", "@renamedFrom of T.a: the primary key cannot be renamed"),
        ],
    )
    def test_faults(self, declared: str, fault: str) -> None:
        errors = load(f"type T @table {{ u: ID {declared} }}").errors
        assert fault in [error.partition(": ")[2] for error in errors]

    def test_of_a_table(self) -> None:
        (definition,) = good("type T @table(table: things) @renamedFrom(name: Old) { id: ID }")
        assert (definition.name, definition.renamed_from) == ("things", "Old")

    @pytest.mark.parametrize(
        ("schema", "fault"),
        [
            ("type T @table @renamedFrom { id: ID }", "@renamedFrom of T needs name:, the name that the table had"),
            ("type T @table @renamedFrom(name: T) { id: ID }", "@renamedFrom of T: the table T is still declared"),
            ("type T @table @renamedFrom(name: o) { id: ID } type U @table(table: o) { id: ID }", "@renamedFrom of T: the table o is still declared"),
            (TWICE, "@renamedFrom of T: another table is renamed from o"),
            ('type T @table @renamedFrom(name: "a/b") { id: ID }', f"@renamedFrom: name {NAMES}"),
        ],
    )  # fmt: skip
    def test_faults_of_a_table(self, schema: str, fault: str) -> None:
        assert fault in [error.partition(": ")[2] for error in load(schema).errors]

    def test_a_table_of_another_application(self) -> None:
        (old,) = good("type Old @table { id: ID }")
        errors = load("type T @table @renamedFrom(name: Old) { id: ID }", known_types={"data": {"Old": old}}).errors
        assert errors == ["1.graphql:1:6: @renamedFrom of T: the table Old is still declared"]
        good("type T @table(database: other) @renamedFrom(name: Old) { id: ID }", known_types={"data": {"Old": old}})

    def test_a_structure_has_no_former_name(self) -> None:
        result = load("type T @table { id: ID s: S } type S @renamedFrom(name: Old) { a: Int }")
        assert [each.partition(": ")[2] for each in result.warnings] == ["@renamedFrom has no effect on S, which has no @table"]

    def test_members_of_nested_objects_keep_their_names(self) -> None:
        result = load("type T @table { id: ID s: S } type S { a: Int @renamedFrom(name: o) }")
        assert result.warnings == ["1.graphql:1:40: @renamedFrom has no effect on S.a: S has no @table"]


class TestStructures:
    def test_all_that_are_reached_each_once(self) -> None:
        (definition,) = good(
            "type T @table { id: ID a: A b: [B!] } type A @sealed { b: B a: A } type B { c: Int! } type Unused { d: Int }",
        )
        assert definition.structures == (
            Structure("A", (Attribute("b", "B"), Attribute("a", "A")), sealed=True),
            Structure("B", (Attribute("c", "Int", required=True),)),
        )

    def test_a_table_as_nested_object(self) -> None:
        tables = good("type T @table { id: ID u: U } type U @table { id: Long t: T @relationship(from: tId) tId: ID }")
        assert tables[0].structures == (Structure("U", tables[1].attributes),)

    def test_the_same_structure_in_two_files(self) -> None:
        assert len(good("type T @table { id: ID a: A } type A { b: Int }", "type A { b: Int }")) == 1
        assert errors("type A { b: Int }", "type A { b: Long }") == ["2.graphql:1:6: the type A is declared differently in 1.graphql"]

    def test_errors_in_it_reject_the_tables_that_need_it(self) -> None:
        result = load("type T @table { id: ID a: A }\ntype A { b: Int b: Int }\ntype U @table { id: ID }")
        assert result.errors == ["1.graphql:2:17: A.b is declared twice", "1.graphql:1:24: the type A, which T.a needs, has errors"]
        assert [definition.name for definition in result.definitions] == ["U"]


class TestFiles:
    def test_references_lead_into_any_file_and_order_is_that_of_paths(self) -> None:
        result = load_schema_files(
            [("b.graphql", "type B @table { id: ID }"), ("a.graphql", "type A @table { id: ID b: B @relationship(from: id) }")]
        )
        assert [definition.name for definition in result.definitions] == ["A", "B"]
        assert not result.faults

    def test_a_syntax_error_fails_its_file_only(self) -> None:
        result = load("type A @table { id: ID }\ntype B @table { id: }", "type C @table { id: ID }")
        assert result.errors == ["1.graphql:2:21: Expected Name, found '}'."]
        assert [definition.name for definition in result.definitions] == ["C"]

    def test_nothing(self) -> None:
        assert load() == load("") == load("# nothing yet") == SchemaResult()

    def test_two_declarations_are_united(self) -> None:
        (definition,) = good("type T @table { id: ID a: Int }", "type T @table(audit: false) @export { id: ID b: Int }")
        assert [found.name for found in definition.attributes] == ["id", "a", "b"]
        assert (definition.audit, definition.export) == (False, Export("T"))

    def test_unless_they_disagree(self) -> None:
        result = load("type T @table { id: ID a: Int }", "type T @table { id: ID a: Long }")
        assert result.errors == ["2.graphql:1:6: T.a is declared differently by another declaration of the table"]
        assert [found.type for found in result.definitions[0].attributes] == ["ID", "Int"]

    def test_the_same_name_in_two_databases_is_two_tables(self) -> None:
        tables = good(
            "type T @table(database: a) { id: ID r: U @relationship(from: id) } type U @table(database: a) { id: ID }",
            "type U @table(database: b, table: v) { id: ID }",
            "type T @table(database: b) { id: ID r: U @relationship(from: id) }",
        )
        targets = {definition.database: definition.attributes[1].relationship for definition in tables if definition.name == "T"}
        assert targets == {"a": Relationship("U", "id"), "b": Relationship("v", "id")}


class TestKnownTypes:
    """Types of applications loaded before (§1.5, §1.6)."""

    OTHER = TableDefinition(
        "shows",
        "data",
        "Show",
        (Attribute("id", "Long", primary_key=True), Attribute("hall", "Hall")),
        (Structure("Hall", (Attribute("seats", "Int"),)),),
        export=Export("show"),
    )
    KNOWN = {"data": {"Show": OTHER}}  # noqa: RUF012

    def test_references(self) -> None:
        (definition,) = good(
            "type T @table { id: Long s: Show @relationship(from: id) n: Show r: [Show] @relationship(to: id) }", known_types=self.KNOWN
        )
        assert definition.attributes[1].relationship == Relationship("shows", "id")
        assert definition.structures == (Structure("Show", self.OTHER.attributes), *self.OTHER.structures)
        assert len(load("type T @table(database: x) { id: ID n: Show }", known_types=self.KNOWN).warnings) == 1

    def test_the_same_table(self) -> None:
        (definition,) = good('type Mine @table(table: "shows") @export { id: Long more: Int }', known_types=self.KNOWN)
        assert [found.name for found in definition.attributes] == ["id", "hall", "more"]
        assert (definition.type_name, definition.export) == ("Mine", Export("Mine"))
        assert errors("type Show @table(table: shows) { id: ID }", known_types=self.KNOWN) == [
            "1.graphql:1:6: shows.id is declared differently by another declaration of the table"
        ]
