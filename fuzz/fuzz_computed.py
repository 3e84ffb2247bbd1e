"""Expressions of computed attributes: any text is compiled or refused, and what is compiled does no harm.

Invariant, for any text:

1. `compile_expression` returns, or raises SchemaError with a message that can be sent and a place that is in the text. Nothing else.
2. The compiled code has no names but those of `expression_values`, and attributes of nothing.
3. A computed attribute gives a value for any record, which can be stored and indexed; the record stays as it was.
4. The value is the same at each evaluation, and for the record that has only the properties that the expression names.
5. No evaluation does more than its budget allows: the sizes of what comes out are bounded.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Sequence
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from types import CodeType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.errors import SchemaError
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.computed import computed_attributes
from svc.store.values.expression import _ENVIRONMENT, Expression, compile_expression
from svc.store.values.expression_functions import BUDGET
from svc.store.values.keys import index_keys
from svc.store.values.records import encode_payload

CORPUS = Path(__file__).parent / "corpus" / "computed"

TOKENS = b"""a b code place place.hall tags lines when big long re max missing x y . , : ; ( ) [ ] { } + - * / // % ** & | ^ ~ << >> @ = == !=
< > <= >= -> := ! not and or is in if else for lambda await async yield import from None True False ... 0 1 -1 5 1.5 1e308 1_0 0xff 9999999999 1j 'a'
"b" '' b'c' f'{a}' f'{x!r:>9}' f'{a:{b}}' f'{when:%Y}' 'x'*9 len( str( int( float( round( min( max( sum( abs( sorted( any( all( open( eval( type(
getattr( __import__( re.split( '[,;]' .upper() .join( .replace( .split( .get( .items() .values() .keys() .count( .format( .zfill( .append(
.__class__ .__globals__ reverse=True default= *tags **place \\ # \\n \xc3\xa9 \xff \x00""".split()
TOKENS += [b"[x for x in tags]", b" for x in tags", b" for y in lines if y", b" if a else b", b"9**9**9", b"*10**9", b"\n", b" ", b"\t"]

RECORDS: tuple[dict[str, Any], ...] = (
    {},
    {
        "a": 3,
        "b": 4.5,
        "code": "x1",
        "place": {"hall": "A", "row": {"number": 7}},
        "tags": ["usb", "red", "usb"],
        "lines": [{"price": 2, "count": 3}, {"price": 5}],
        "when": datetime(2026, 1, 5, 20, 7, tzinfo=UTC),
        "big": -(2**900),
        "long": "abc, " * 4_000,
    },
    {
        "a": "text",
        "b": None,
        "code": True,
        "place": [1, [2, {"hall": 1}]],
        "tags": {"k": "v"},
        "lines": {1, 2},
        "when": b"\xff",
        "big": 1e308,
    },
    {"a": [], "b": "é\U0001f600", "code": "", "place": None, "tags": list(range(5_000)), "x": 1, "y": 2, "long": ["x" * 10_000] * 50},
)
ATTRIBUTES = tuple(
    Attribute(f"c{number}", kind, elements=elements, computed_from="")
    for number, (kind, elements) in enumerate((("Any", False), ("String", False), ("Float", True), ("Date", False), ("Int", False)))
)


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.8:
        return mutate(source, source.choice(corpus), TOKENS)
    return source.choice((b"", b" ")).join([source.choice(TOKENS) for _ in range(source.randint(1, 15))])


def check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        expression = compile_expression(text)
    except SchemaError as error:
        error.message.encode("utf-8", "backslashreplace")
        lines = re.split(r"\r\n|[\n\r]", text)
        assert 1 <= error.line <= len(lines), error
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1, error
        return
    check_code(expression.function.__code__)
    source = random.Random(data)
    for record in (RECORDS[1], source.choice(RECORDS)):
        check_evaluation(expression, text, record, source.choice(ATTRIBUTES))


def check_code(code: CodeType) -> None:
    names = [name for name in code.co_names if not re.fullmatch(r"split_\d+", name)]
    assert set(names) <= _ENVIRONMENT.keys(), names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            check_code(constant)


def check_evaluation(expression: Expression, text: str, record: dict[str, Any], attribute: Attribute) -> None:
    definition = TableDefinition("T", attributes=(Attribute("id", primary_key=True), replaced(attribute, text)))
    if not text.strip():
        return
    computed = computed_attributes(definition, {}, "T")[attribute.name]
    before = deepcopy(record)
    value = computed(record)
    assert record == before
    stored = encode_payload(value)
    assert len(stored) <= 32 * BUDGET + 1_000_000
    index_keys(value)
    assert encode_payload(computed({name: record[name] for name in expression.names if name in record})) == stored
    assert encode_payload(computed(record)) == stored


def replaced(attribute: Attribute, text: str) -> Attribute:
    return Attribute(attribute.name, attribute.type, elements=attribute.elements, computed_from=text)


if __name__ == "__main__":
    sys.exit(run("computed", generate, check, CORPUS))
