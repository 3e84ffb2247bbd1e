"""SEARCH_JSON: a JSONata expression, applied to a value (spec: sql §11.6; JSONata 2.0).

Expressions are the callers', so an evaluation is counted: how much it does and makes (`values.Work`), how deep it goes, and the time of the statement. That
is why it is done here: what libraries have lets a few lines make values whose parts are shared, and takes longer than the universe exists to write one down.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from svc.content.json_type import decode_json, encode_json
from svc.errors import BadBody, QueryError
from svc.sql.functions.exact import exact_face
from svc.sql.functions.function import Function, OwnFunction, Scalar, bad_argument
from svc.sql.functions.jsonata.compiler import Evaluation, Outer, Scope, compile_node
from svc.sql.functions.jsonata.parser import parse
from svc.sql.functions.jsonata.values import UNDEFINED, Callback, Fault, Work, plain
from svc.sql.functions.meter import WorkMeter
from svc.store.values.conversion import shown
from svc.store.values.records import decode_payload_json

_KEPT = 32  # expressions: of the longest ones about 1 MB each
_INT64 = 1 << 63
_SHORT = 400  # characters of an expression that is compiled at once
_SECONDS = 5e-6  # for a character of others
_AROUND = 20  # characters of an expression before a fault, and behind it


@lru_cache(maxsize=_KEPT)
def compile_expression(text: str) -> Evaluation:
    """Raises QueryError with what is wrong with it, and where."""
    try:
        return compile_node(parse(text))
    except Fault as error:
        raise _problem(text, error) from None
    except RecursionError:
        raise bad_argument(f"the search json expression {shown(text)} is nested too deeply") from None


def _problem(text: str, error: Fault) -> QueryError:
    if error.position < 0:
        return bad_argument(f"the search json expression {shown(text)} cannot be evaluated: {error}")
    near = text[max(0, error.position - _AROUND) : error.position + _AROUND]
    return bad_argument(f"the search json expression has a fault at position {error.position}, near {shown(near)}: {error}")


def search_json(text: Any, face: Any, meter: WorkMeter) -> Any:
    """The result as data; None if there is none. `face`: the exact face of the value; text that begins like JSON and is JSON stands for that."""
    if type(text) is not str or not text.strip():
        raise bad_argument("search json expression must be a non-empty string")
    if len(text) > _SHORT:
        meter.expect(len(text) * _SECONDS)
    evaluate = compile_expression(text)
    value, size = face, 0
    if type(face) is bytes or type(face) is str:
        size = len(face)
        meter.admit(size)
    if type(face) is bytes:
        value = decode_payload_json(face)
    elif type(face) is str:
        if face[:1] in ("{", "["):
            try:
                value = decode_json(face.encode())
            except BadBody:
                pass
    elif face is None:
        value = UNDEFINED
    work = Work(meter, size)
    try:
        found = evaluate(Outer((value,)) if type(value) is list else value, Scope(value, work))
        return None if found is UNDEFINED or type(found) is Callback else plain(found, work)
    except Fault as error:
        raise _problem(text, error) from None
    except RecursionError:
        raise bad_argument(
            f"the search json expression {shown(text)} goes too deep: a function calls itself, or values lie within very many others"
        ) from None


def _search(meter: WorkMeter) -> Scalar:
    def search(text: Any, face: Any) -> Any:
        found = search_json(text, face, meter)
        kind = type(found)
        if kind is list or kind is dict:
            return encode_json(found).decode()
        if kind is bool:
            return int(found)
        return str(found) if kind is int and not -_INT64 <= found < _INT64 else found

    return search


def _search_exact(meter: WorkMeter) -> Callable[[Any, Any], Any]:
    return lambda text, face: exact_face(search_json(text, face, meter))


JSON_FUNCTIONS = (
    OwnFunction(
        Function(
            "SEARCH_JSON",
            2,
            2,
            takes_exact=(1,),
            has_bytes=True,
            summary="a JSONata expression applied to a value: `SEARCH_JSON('$[age > 3].name', pets)`",
        ),
        _search,
        _search_exact,
    ),
)  # fmt: skip
