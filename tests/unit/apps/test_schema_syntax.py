from __future__ import annotations

import pytest

from svc.apps.schema_syntax import Directive, FieldDeclaration, OtherDefinition, SourcePosition, TypeDeclaration, parse_schema
from svc.errors import SchemaError


def only_type(text: str) -> TypeDeclaration:
    (declaration,) = parse_schema(text)
    assert isinstance(declaration, TypeDeclaration)
    return declaration


def names(text: str) -> list[tuple[str, str]]:
    return [(field.name, field.type) for field in only_type(text).fields]


def test_a_declaration_whole() -> None:
    text = '''
"""
A seat.

  For one performance.
"""
type Seat @table(database: "b") {
  "The code" code: ID! @primaryKey
  tags: [String!]!
}
'''
    assert parse_schema(text) == [
        TypeDeclaration(
            "Seat",
            (
                FieldDeclaration(
                    "code",
                    "ID",
                    0,
                    True,
                    False,
                    False,
                    (Directive("primaryKey", {}, SourcePosition(8, 24)),),
                    "The code",
                    SourcePosition(8, 14),
                ),
                FieldDeclaration("tags", "String", 1, True, True, False, (), "", SourcePosition(9, 3)),
            ),
            (Directive("table", {"database": "b"}, SourcePosition(7, 11)),),
            "A seat.\n\n  For one performance.",
            SourcePosition(7, 6),
        )
    ]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"x"', "x"), ("300", 300), ("-1.5", -1.5), ("1e3", 1000.0), ("true", True), ("null", None), ("networkId", "networkId"), ("[a, 1]", ["a", 1]),
        ("{a: 1}", {"a": 1}), ('"""block"""', "block"), ("9" * 5000, "9" * 5000),
    ],
)  # fmt: skip
def test_arguments(written: str, value: object) -> None:
    assert only_type(f"type A @x(a: {written}) {{ b: Int }}").directives[0].arguments == {"a": value}


@pytest.mark.parametrize(
    ("written", "shape"),
    [
        ("Int", (0, False, False)), ("Int!", (0, True, False)), ("[Int]", (1, False, False)), ("[Int]!", (1, True, False)), ("[Int!]", (1, False, True)),
        ("[Int!]!", (1, True, True)), ("[[Int!]!]!", (2, True, True)), ("[[Int]!]", (2, False, False)),
    ],
)  # fmt: skip
def test_types(written: str, shape: tuple[int, bool, bool]) -> None:
    (field,) = only_type(f"type A {{ a: {written} }}").fields
    assert (field.lists, field.required, field.element_required) == shape


class TestFieldsWithoutType:
    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ("a", [("a", "Any")]),
            ("a b", [("a", "Any"), ("b", "Any")]),
            ("a @indexed", [("a", "Any")]),
            ('a @x(b: "c", d: [e]) f', [("a", "Any"), ("f", "Any")]),
            ("a: Int b", [("a", "Int"), ("b", "Any")]),
            ("a: [Int!]! b c: Int", [("a", "Int"), ("b", "Any"), ("c", "Int")]),
            ('"d" a "e" b: Int """f""" c', [("a", "Any"), ("b", "Int"), ("c", "Any")]),
            ("type type: Int", [("type", "Any"), ("type", "Int")]),
            ("a @type b", [("a", "Any"), ("b", "Any")]),
            ("a(b: Int = 3, c: [Int]): Int d", [("a", "Int"), ("d", "Any")]),
            ("a, b, # c\n d", [("a", "Any"), ("b", "Any"), ("d", "Any")]),
            ("a: Date b: Float", [("a", "Date"), ("b", "Float")]),
        ],
    )
    def test_are_any(self, body: str, fields: list[tuple[str, str]]) -> None:
        assert names(f"type A implements B & C @table(type: x) {{ {body} }}") == fields

    def test_in_every_type_of_a_file_and_nowhere_else(self) -> None:
        declarations = parse_schema(
            "type A { a } enum type { a b } input I { type: Int } directive @type(a: Int) on OBJECT type B @type(a: 1) { b }"
        )
        assert [type(declaration).__name__ for declaration in declarations] == [
            "TypeDeclaration",
            "EnumDeclaration",
            "OtherDefinition",
            "OtherDefinition",
            "TypeDeclaration",
        ]
        with pytest.raises(SchemaError):
            parse_schema("input I { a }")

    def test_places_are_those_of_the_text(self) -> None:
        declaration = only_type("type A { a b: Int c @x d\r\n e @y }")
        assert [(field.name, field.position) for field in declaration.fields] == [
            ("a", SourcePosition(1, 10)), ("b", SourcePosition(1, 12)), ("c", SourcePosition(1, 19)), ("d", SourcePosition(1, 24)), ("e", SourcePosition(2, 2)),
        ]  # fmt: skip
        assert [field.directives[0].position for field in declaration.fields if field.directives] == [
            SourcePosition(1, 21),
            SourcePosition(2, 4),
        ]

    def test_a_forgotten_colon_is_not_taken_for_two_fields(self) -> None:
        with pytest.raises(SchemaError, match="Expected ':', found Name 'Float'") as caught:
            parse_schema("type A {\n  id: ID\n  price Float\n}")
        assert (caught.value.line, caught.value.column) == (3, 9)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("type A {\n  a: }", 2, 6, "Expected Name, found '}'."),
        ("type A { n @x b c: [ }", 1, 22, "Expected Name, found '}'."),
        ("type A { n @x b c: [\n\n }", 3, 2, "Expected Name, found '}'."),
        ("type A {}", 1, 9, "Expected Name, found '}'."),
        ("type A {", 1, 9, "Expected Name, found <EOF>."),
        ("type A { a", 1, 11, "Expected ':', found <EOF>."),
        ('type A { a "x', 1, 14, "Unterminated string."),
        ("type A { a: Int = 3 }", 1, 17, "Expected Name, found '='."),
        ("nonsense", 1, 1, "Unexpected Name 'nonsense'."),
        ("type A { a: Int }\n\n{ query }", 3, 1, "a schema file declares types, it cannot hold queries"),
        ("fragment F on A { a }", 1, 1, "a schema file declares types, it cannot hold queries"),
        ("type A @table(a: $b) { a: Int }", 1, 18, "Unexpected variable '$b' in constant value."),
        ("type 5 { a: Int }", 1, 6, "Expected Name, found Int '5'."),
        ("type A { a: Int ? }", 1, 17, "Unexpected character: '?'."),
        ("\ud800", 1, 1, "Invalid character: U+D800."),
        (":", 1, 1, "Unexpected ':'."),
    ],
)
def test_errors_with_line_and_column(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert (caught.value.message, caught.value.line, caught.value.column) == (message, line, column)


def test_nesting_beyond_the_parser_is_an_error_too() -> None:
    with pytest.raises(SchemaError):
        parse_schema("type A { a: " + "[" * 20_000)
    with pytest.raises(SchemaError):
        parse_schema("type A @x(a: " + "[" * 20_000 + "]" * 20_000 + ") { a: Int }")


@pytest.mark.parametrize("text", ["", "  \n", "# only a comment", "\ufeff"])
def test_a_file_without_definitions(text: str) -> None:
    assert parse_schema(text) == []


def test_other_definitions_are_named() -> None:
    declarations = parse_schema(
        "enum E { A }\nscalar S\nextend type T { a: Int }\nschema { query: Q }\nunion U = A\ninterface I { a: Int }"
    )
    assert [(other.kind, other.name) for other in declarations if isinstance(other, OtherDefinition)] == [
        ("scalar type", "S"), ("object type extension", "T"), ("schema", ""), ("union type", "U"), ("interface type", "I"),
    ]  # fmt: skip
