"""Documents: what is parsed, which operation runs, what is kept."""

import pytest
from graphql import print_ast
from graphql.language import Node

from svc.graphql import selection
from svc.graphql.document import MAX_LENGTH, Document, Documents, parse_document
from svc.graphql.faults import DocumentError
from svc.graphql.operation import Operation, known_operation, selected_operation


def fault(text: str, name: str | None = None, *, extended: bool = False) -> str:
    with pytest.raises(DocumentError) as caught:
        Operation(parse_document(text), name, extended=extended)
    assert caught.value.code == "QUERY_SYNTAX"
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("{", None, "Syntax Error: Expected Name, found <EOF>."),
        ("{ a { } }", None, "Syntax Error: Expected Name, found '}'."),
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
        (
            "{ ...F0 } " + " ".join(f"fragment F{n} on A {{ ...F{n + 1} }}" for n in range(3000)),
            None,
            "The fragments are nested deeper than 200 levels.",
        ),
        ("{ a { } }", None, "Syntax Error: Expected Name, found '}'."),
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


def test_fragments_and_inline_fragments_are_nested_deep() -> None:
    inline = "... { " * 90, " }" * 90
    chain = " ".join(f"fragment F{n} on A {{ {inline[0]} ...F{n + 1} {inline[1]} }}" for n in range(100))
    operation = Operation(parse_document("{ ...F0 } " + chain + " fragment F100 on A { a }"), None, extended=False)
    assert [field.key for field in operation.fields({})] == ["a"]


def test_the_arguments_of_a_field_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[Node] = []

    def print_counted(node: Node) -> str:
        printed.append(node)
        return print_ast(node)

    monkeypatch.setattr(selection, "print_ast", print_counted)
    text = "{ " + "...F " * 1000 + "a(x: {y: 1}, z: 2) { c } } fragment F on A { a(z: 2, x: {y: 1}) { b } }"
    (field,) = Operation(parse_document(text), None, extended=False).fields({})
    assert field.nested is not None and [each.key for each in field.nested] == ["b", "c"]
    assert len(printed) == 4


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
    documents.keep(parse_document("{ a } #" + "x" * 200_000))
    assert len(documents) == 1
    documents.keep(parse_document("{ " + "a " * 40_000 + "}"))
    assert len(documents) == 1
    long = parse_document(f"{{ {'b ' * 2001} }}")
    for number in range(64):
        documents.keep(Document(f"as long {number}", long.operations, long.fragments, long.weight))
    assert 30 < len(documents) < 60


def test_what_is_made_of_a_document_takes_its_room() -> None:
    names = [f"A{number}" for number in range(30)]
    fragments = "fragment F on A { " + " ".join(f"a{n} {{ ...G }}" for n in range(90)) + " } fragment G on A { " + "b c d e f " + "}"
    document = parse_document(" ".join(f"query {name} {{ ...F }}" for name in names) + fragments)
    documents = Documents()
    documents.keep(parse_document("{ a }"))
    documents.keep(document)
    for number, name in enumerate(names):
        before = document.weight
        selected_operation(document, name, extended=False)
        assert document.weight - before > 500_000
        assert selected_operation(document, name, extended=False) is known_operation(document, name, extended=False)
        documents.keep(document)
        assert len(documents) == (2 if document.weight <= 16 << 20 else 1), number
    assert documents.find(document.text) is None and documents.find("{ a }") is not None


def test_wide_operations_keep_few_plans() -> None:
    def most_plans(text: str) -> set[int]:
        return {field.most_plans for field in selected_operation(parse_document(text), None, extended=False).fields({})}

    assert most_plans("{ a { b c } }") == {16}
    assert most_plans("{ " + " ".join(f"a{n} {{ b }}" for n in range(20)) + " }") == {3}
    assert most_plans("{ " + " ".join(f"a{n} {{ b }}" for n in range(500)) + " }") == {1}
    assert most_plans("{ a { " + " ".join(f"b{n}" for n in range(1500)) + " } }") == {2}
