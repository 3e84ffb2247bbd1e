"""Documents: what is parsed, which operation runs, what is kept."""

import pytest

from svc.graphql.document import MAX_LENGTH, Documents, parse_document
from svc.graphql.faults import DocumentError
from svc.graphql.operation import Operation


def fault(text: str, name: str | None = None, *, extended: bool = False) -> str:
    with pytest.raises(DocumentError) as caught:
        Operation(parse_document(text), name, extended=extended)
    assert caught.value.code == "QUERY_SYNTAX"
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("{", None, "Syntax Error: Expected Name, found <EOF>."),
        ("type A { b: C }", None, "Unexpected non-executable definition type ObjectTypeDefinition."),
        ("{ a } schema { query: A }", None, "Unexpected non-executable definition type SchemaDefinition."),
        ("query A { a } query A { b }", None, "Duplicate operation definition: A"),
        ("{ a } { b }", None, "An operation without a name must be the only operation of the document."),
        ("query A { a } { b }", None, "An operation without a name must be the only operation of the document."),
        ("{ a } query A { b }", None, "An operation without a name must be the only operation of the document."),
        ("fragment F on A { a } fragment F on B { b } { a }", None, "Duplicate fragment definition: F"),
        ("fragment F on A { a }", None, "The document has no operation."),
        ("query A { a } query B { b }", None, "Operation name is required when there are multiple operations in the document."),
        ("query A { a } query B { b }", "", "Operation name is required when there are multiple operations in the document."),
        ("query A { a }", "B", "Operation `B` not found."),
        ("mutation { a }", None, "Mutations are not supported yet."),
        ("subscription { a }", None, "Subscriptions are not supported."),
        ("{ a @skip(if: true) }", None, "Directives are not supported."),
        ("query @a { a }", None, "Directives are not supported."),
        ("query ($a: B @c) { a }", None, "Directives are not supported."),
        ("{ a { ...F } } fragment F on A @b { a }", None, "Directives are not supported."),
        ("{ ... @include(if: true) { a } }", None, "Directives are not supported."),
        ("{ ...F }", None, "Fragment `F` not found."),
        ("{ ...F } fragment F on A { ...F }", None, "Fragment cycle: F"),
        ("{ ...F } fragment F on A { a { ...G } } fragment G on A { b { ... { ...F } } }", None, "Fragment cycle: F"),
        ("{ a: b a: c }", None, "'a' is selected twice with different names or arguments; give one of them an alias."),
        ("{ a(x: 1) a(x: 2) }", None, "'a' is selected twice with different names or arguments; give one of them an alias."),
        ("{ a a { b } }", None, "'a' is selected as a whole and with a selection of its own; give one of them an alias."),
        ("query ($a: B, $a: C) { a }", None, "Variable $a is defined twice."),
        ("{" + "a{" * 60 + "b" + "}" * 61, None, "The selection is nested deeper than 50 levels."),
        ("{" + "a{" * 5000, None, "Syntax Error: Document is nested too deeply. Parsing aborted."),
        ("{ " + "a " * 60_000 + "}", None, "Syntax Error: Document contains more than 50000 tokens. Parsing aborted."),
        ("{ " + " ".join(f"a{n}" for n in range(10_001)) + " }", None, "The operation selects more than 10000 fields."),
        ("#" * (MAX_LENGTH + 1), None, f"The query is longer than {MAX_LENGTH} bytes."),
        ("{ a }" + "é" * (MAX_LENGTH // 2), None, f"The query is longer than {MAX_LENGTH} bytes."),
    ],
)
def test_what_is_wrong_with_a_document(text: str, name: str | None, message: str) -> None:
    assert fault(text, name) == message


def test_fragments_multiply_up_to_a_limit() -> None:
    levels = "".join(f"fragment F{n} on A {{ a{n} {{ ...F{n + 1} }} b{n} {{ ...F{n + 1} }} }}" for n in range(20))
    assert fault("{ ...F0 } " + levels + "fragment F20 on A { c }") == "The operation selects more than 10000 fields."


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{ a }", None),
        ("query A { a } mutation B { b } subscription C { c @d }", "A"),
        ("query A { a } fragment Unused on A { ...Nothing @x }", None),
        ("fragment F on A { b } { a { ...F ... on B { c } ... { d } } }", None),
    ],
)
def test_only_the_operation_that_runs_is_examined(text: str, name: str | None) -> None:
    Operation(parse_document(text), name, extended=False)


def test_equal_fields_become_one() -> None:
    operation = Operation(
        parse_document('{ a(x: 1, y: "z") { b } c ...F a(y: "z", x: 1) { d b } } fragment F on A { a(x: 1, y: "z") { e } }'),
        None,
        extended=False,
    )
    fields = operation.fields({})
    assert [field.key for field in fields] == ["a", "c"]
    assert [field.key for field in fields[0].nested or ()] == ["b", "e", "d"]


def test_faults_have_their_place() -> None:
    with pytest.raises(DocumentError) as caught:
        parse_document("{\n  a(\n}")
    assert caught.value.location == (3, 1)
    with pytest.raises(DocumentError) as caught:
        Operation(parse_document("{\n  a { ...F }\n}"), None, extended=False)
    assert caught.value.location == (2, 7)


def test_documents_are_kept_within_bounds() -> None:
    documents = Documents()
    texts = [f"{{ a{number} }}" for number in range(600)]
    for text in texts:
        documents.keep(parse_document(text))
    assert len(documents) == 512
    assert documents.find(texts[0]) is None
    assert documents.find(texts[599]) is not None
    documents.find(texts[88])  # the oldest of those that are left: used, it stays
    documents.keep(parse_document("{ b }"))
    assert documents.find(texts[88]) is not None and documents.find(texts[89]) is None


def test_long_documents_take_little_room() -> None:
    documents = Documents()
    documents.keep(parse_document("{ a } #" + "x" * 70_000))
    assert len(documents) == 0
    for number in range(40):
        documents.keep(parse_document(f"{{ a{number} }} #" + "x" * 60_000))
    assert 10 < len(documents) < 20
