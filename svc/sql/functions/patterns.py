r"""Regular expressions: `x REGEXP pattern`, REGEXP_LIKE (spec: sql §11.2).

They are RE2's: as in Perl, but without what takes exponential time, references back (`\1`) and assertions (`(?=x)`, `(?<!x)`), and a repetition has at most
1000 times. RE2 takes time that is proportional to the length of the text and the size of the pattern, and while it searches other threads run; but it
cannot be interrupted, so what may take long has to fit in the time of the statement.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import re2

from svc.errors import QueryError
from svc.sql.functions.function import Function, OwnFunction, bad_argument, text_of
from svc.sql.functions.meter import WorkMeter
from svc.store.values.conversion import shown

MAX_PATTERN = 4000  # characters: compiles in about 1 ms at most
_MEMORY = 1 << 20  # bytes of one compiled pattern
_KEPT = 32
_SHORT = 0.0005  # seconds that need not be weighed
_STEP = 3e-9  # seconds, for a byte of the text and an instruction of the pattern, where RE2 can remember no states


class Pattern(NamedTuple):
    """`step`: seconds at most for each byte. `compiled`: of the library."""

    search: Callable[[bytes], Any]
    step: float
    compiled: Any


def _options(has_groups: bool) -> Any:
    options = re2.Options()
    options.max_mem = _MEMORY
    options.never_capture = not has_groups
    options.log_errors = False
    return options


@lru_cache(maxsize=_KEPT)
def compile_pattern(text: str, has_groups: bool = False) -> Pattern:
    """`has_groups`: matches have those of the pattern. Raises QueryError."""
    if len(text) > MAX_PATTERN:
        raise bad_argument(f"a regular expression has at most {MAX_PATTERN} characters")
    try:
        compiled = re2.compile(text, _options(has_groups))
    except re2.error as error:
        raise bad_pattern(text, error)
    return Pattern(compiled.search, _STEP * compiled.programsize, compiled)


def bad_pattern(text: str, error: Exception) -> QueryError:
    reason = error.args[0] if error.args else ""
    if isinstance(reason, bytes):
        reason = reason.decode("utf-8", "replace")
    return bad_argument(f"the regular expression {shown(text)} cannot be used: {reason}")


def _regexp_like(meter: WorkMeter) -> Callable[[Any, Any], int | None]:
    def regexp_like(value: Any, pattern: Any) -> int | None:
        if value is None or pattern is None:
            return None
        search, step, _ = compile_pattern(pattern if type(pattern) is str else text_of(pattern))
        text = (value if type(value) is str else text_of(value)).encode()
        seconds = step * len(text)
        if seconds > _SHORT:
            meter.expect(seconds)
        return 0 if search(text) is None else 1

    return regexp_like


def _regexp(meter: WorkMeter) -> Callable[[Any, Any], int | None]:
    regexp_like = _regexp_like(meter)
    return lambda pattern, value: regexp_like(value, pattern)


_LIKE = "whether a regular expression is found in a text: those of RE2, without references and assertions"

PATTERN_FUNCTIONS = (
    OwnFunction(Function("REGEXP_LIKE", 2, 2, result="boolean", summary=_LIKE), _regexp_like),
    OwnFunction(Function("REGEXP", 2, 2, result="boolean", summary="`REGEXP(pattern, text)`: REGEXP_LIKE the other way round"), _regexp),
)
