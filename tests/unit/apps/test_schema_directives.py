from __future__ import annotations

from typing import Any

import pytest

from svc.apps import schema_directives as directives
from svc.apps.schema_directives import FIELD_DIRECTIVES, TYPE_DIRECTIVES, read_directives, vector_index
from svc.apps.schema_syntax import Directive, SourcePosition, Value
from svc.store.schema import VectorIndex


class Notes:
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.errors: list[str] = []

    def warn(self, message: str, position: SourcePosition, *, unknown: bool = False) -> None:
        self.warnings.append(f"{position.line}: {message}")

    def fail(self, message: str, position: SourcePosition) -> None:
        self.errors.append(f"{position.line}: {message}")


@pytest.mark.parametrize(
    ("reader", "value", "meaning"),
    [
        (directives.text, "x", "x"),
        (directives.text, 2, "2"),
        (directives.text, True, "true"),
        (directives.text, ["x"], "x"),
        (directives.name_list, "a", ("a",)),
        (directives.name_list, ["a", "b"], ("a", "b")),
        (directives.flag, False, False),
        (directives.flag, "TRUE", True),
        (directives.number, 300, 300),
        (directives.number, "300", 300),
        (directives.number, "1.5", 1.5),
        (directives.number, 2.0, 2),
        (directives.share, "0.5", 0.5),
        (directives.count, 16.0, 16),
        (directives.stored_name, "my-db.2", "my-db.2"),
    ],
)
def test_lenient_in_form(reader: directives.Reader, value: Value, meaning: object) -> None:
    found = reader(value)
    assert found == meaning
    assert type(found) is type(meaning)


@pytest.mark.parametrize(
    ("reader", "value", "must"),
    [
        (directives.text, ["x", "y"], "must be a string"),
        (directives.text, {}, "must be a string"),
        (directives.name, "", "must not be empty"),
        (directives.flag, 1, "must be true or false"),
        (directives.flag, "yes", "must be true or false"),
        (directives.number, "soon", "must be a number"),
        (directives.number, True, "must be a number"),
        (directives.number, "nan", "must be a number"),
        (directives.number, "1e999", "must be a number"),
        (directives.number, 1e300, "is too large"),
        (directives.not_negative, -1, "must not be negative"),
        (directives.positive, 0, "must be greater than 0"),
        (directives.count, 1.5, "must be a whole number"),
        (directives.share, 2, "must be between 0 and 1"),
        (directives.one_of("a", "b"), "c", "must be one of a, b"),
        (directives.stored_name, "..", "must be a name"),
        (directives.stored_name, "a/b", "must be a name"),
        (directives.stored_name, "a`b", "must be a name"),
        (directives.stored_name, "é", "must be a name"),
        (directives.stored_name, "x" * 251, "must be a name"),
    ],
)
def test_strict_in_sense(reader: directives.Reader, value: Value, must: str) -> None:
    with pytest.raises(ValueError, match=must):
        reader(value)


def read(known: directives.Specification, *given: tuple[str, dict[str, Any]]) -> tuple[dict[str, Any], Notes]:
    notes = Notes()
    other = FIELD_DIRECTIVES if known is TYPE_DIRECTIVES else TYPE_DIRECTIVES
    found = read_directives(
        [Directive(name, arguments, SourcePosition(number, 1)) for number, (name, arguments) in enumerate(given, 1)], known, other, notes
    )
    return found, notes


def test_what_is_not_known_is_a_warning() -> None:
    found, notes = read(
        TYPE_DIRECTIVES, ("table", {"colour": "red", "audit": None, "expiration": "300"}), ("shiny", {}), ("indexed", {}), ("table", {})
    )
    assert found == {"table": {"expiration": 300}}
    assert not notes.errors
    assert notes.warnings == [
        "1: @table has no argument colour: it was ignored",
        "2: the directive @shiny is not known and was ignored",
        "3: the directive @indexed has no effect here",
        "4: @table is repeated: the first counts",
    ]


def test_what_is_known_and_wrong_is_an_error() -> None:
    found, notes = read(FIELD_DIRECTIVES, ("indexed", {"type": "HNSW", "M": "many", "distance": "far"}))
    assert found == {"indexed": {"type": "HNSW"}}
    assert notes.errors == ["1: @indexed: M must be a number", "1: @indexed: distance must be one of cosine, euclidean, dotProduct"]


def test_vector_index() -> None:
    assert vector_index({"type": "HNSW"}) == VectorIndex()
    given = {
        "type": "HNSW", "distance": "dotProduct", "M": "32", "efConstruction": 200, "efConstructionSearch": 60, "mL": 0.5, "optimizeRouting": 1,
        "quantization": "int8", "filterExpansion": 10,
    }  # fmt: skip
    found, notes = read(FIELD_DIRECTIVES, ("indexed", given))
    assert not notes.errors
    assert vector_index(found["indexed"]) == VectorIndex("dotProduct", 32, 200, 60, 0.5, 1, "int8", 10)
