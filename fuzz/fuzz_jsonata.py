"""Expressions of SEARCH_JSON: any text is compiled or refused, and what is compiled does no harm.

Invariant, for any text:

1. `search_json` gives a value for any document, or raises QueryError with a message that can be sent. Nothing else.
2. The value can be stored and written as JSON, and is the same at each evaluation; the document stays as it was.
3. No evaluation does more than its units allow: the size of what comes out is bounded.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.clock import FakeClock
from svc.content.json_type import encode_json
from svc.errors import QueryError
from svc.sql.functions import WorkMeter
from svc.sql.functions.exact import exact_face
from svc.sql.functions.jsonata.library import LIBRARY
from svc.sql.functions.jsonata.search import search_json
from svc.sql.functions.jsonata.values import BASE_UNITS

CORPUS = Path(__file__).parent / "corpus" / "jsonata"

TOKENS = b"""a b c d name $ $$ $x $y := ; , : ? ( ) [ ] { } . .. * ** + - / % & = != < <= > >= ~> ?: ?? ^ @ # | and or in true false null
function( 'x' "y" `a b`
0 1 -1 2.5 1e300 [0] [-1] [] [a=1] [$>1] {'k': {a: ^(a) ^(>b) .( /a/ /(a)+/i [1..9] [1..99999] 'a'&""".split()
TOKENS += [f"${name}(".encode() for name in LIBRARY] + [
    b"function($x){$x}",
    b"function($x,$y){[$x,$y]}",
    b" ",
    b"\xc3\xa9",
    b"\xff",
    b"\\u0041",
    b"\\ud800",
]

DOCUMENTS: tuple[Any, ...] = (
    None,
    {"a": 1, "b": [1, 2, 3], "c": {"a": 2, "b": [{"a": 1}, {"a": "x"}, {}], "d": None}, "d": [[1, [2]], [], "s"], "name": "é\U0001f600"},
    [{"a": 1, "b": True}, {"a": 2**70}, {"a": -1.5e300}, b"\xff", "text"],
    "a b a",
)


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.8:
        return mutate(source, source.choice(corpus), TOKENS)
    return source.choice((b"", b" ")).join([source.choice(TOKENS) for _ in range(source.randint(1, 20))])


def check(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for document in DOCUMENTS:
        face = exact_face(document)
        found = outcome(text, face)
        assert found == outcome(text, face), text
        assert face == exact_face(document)


def outcome(text: str, face: Any) -> bytes:
    meter = WorkMeter(FakeClock())
    meter.max_length = 1 << 20
    try:
        value = search_json(text, face, meter)
    except QueryError as error:
        return error.message.encode()
    exact_face(value)
    written = encode_json(value)
    assert len(written) <= 100 * BASE_UNITS, len(written)
    return written


if __name__ == "__main__":
    sys.exit(run("jsonata", generate, check, CORPUS))
