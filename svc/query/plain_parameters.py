"""Plain parameters: the calls as forms and generated clients can send them, `_limit=20` for `limit(20)` (spec: query §8.7).

A value is decoded as a form has it: `+` is a space. An empty one counts as not given, as forms send every field.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote_plus

from svc.errors import QuerySyntaxError
from svc.query.lexer import BAD_ESCAPE
from svc.query.terms import is_one_bracket

PARAMETERS = {
    "_select": "select", "_sort": "sort", "_limit": "limit", "_offset": "limit", "_after": "after", "_count": "", "_live": "live", "_facet": "facet",
    "_group": "group", "_where": "",
}  # fmt: skip
"""name -> the call that it stands for, "" for none."""

COUNT = "_count=exact"  # has no form as a call: the language has it as it is

_NAMES = "|".join(PARAMETERS)
_CONDITION = "=|(?:eq|ne|lt|le|gt|ge|ct|sw|ew)="  # behind the first equals sign: of an attribute that has such a name
CACHE_BUSTER = re.compile("_=[0-9]*")  # what jQuery and others add to the address of a GET so that no cache answers it
PARAMETER = re.compile(f"({_NAMES})=(?!{_CONDITION})([^&]*)")
_EMPTY = re.compile(f"(?:^|&)({_NAMES})=(?=&|$)")
_LISTS = frozenset(("_select", "_sort", "_facet", "_group"))
_JOINED = frozenset(("_select", "_sort", "_where"))  # which forms and generated clients send once for each element
_DIGITS = re.compile("[0-9]{1,18}")
_MAX_ROWS = 10**18
_SPACES = re.compile(r"\s*,\s*")


class QueryParameter:
    """A parameter of a query, and where it stands."""

    __slots__ = ("name", "position", "text", "values")

    def __init__(self, name: str, position: int, text: str) -> None:
        self.name = name
        self.position = position
        self.text = text  # of the whole query
        self.values: list[str] = []  # decoded

    def error(self, what: str, hint: str = "") -> QuerySyntaxError:
        return QuerySyntaxError(what, self.position, self.text, hint)

    def add(self, raw: str) -> None:
        if self.values and self.name not in _JOINED:
            raise self.error(f"{self.name} a second time")
        bad = BAD_ESCAPE.search(raw)
        if bad is not None:
            raise self.error(f"bad percent-encoding in {self.name}", "a percent sign is written %25")
        try:
            value = unquote_plus(raw, errors="strict")
        except UnicodeDecodeError:
            raise self.error(f"percent-encoded bytes that are not UTF-8 in {self.name}") from None
        if self.name in _LISTS and "[" not in value:
            value = _SPACES.sub(",", value.strip())
        if value:
            self.values.append(value)


def maybe_empty_parameter(text: str) -> str | None:
    """The name of a plain parameter that has no value in the query `text`."""
    found = _EMPTY.search(text)
    return None if found is None else found[1]


def refuse_declared(given: QueryParameter, is_declared: Callable[[str], bool]) -> None:
    """Raise QuerySyntaxError if the table has an attribute of that name: nobody could tell which of the two is meant."""
    name = given.name
    if is_declared(name):
        call = PARAMETERS[name]
        instead = f"{call}(...) for the call" if call else "Prefer: count=exact for the count" if name == "_count" else "[...] for a group"
        raise given.error(f"the table has an attribute {name}", f"write {name}==value for the attribute, {instead}")


def language_of(given: dict[str, QueryParameter]) -> dict[str, str]:
    """name -> what the language has for it, for all parameters with values. `_limit` and `_offset` are one call, which stands under either name.

    Raises QuerySyntaxError for values that are none of the parameter.
    """
    found: dict[str, str] = {}
    for name, parameter in given.items():
        if not parameter.values:
            continue
        value = ",".join(parameter.values)
        if name in ("_limit", "_offset"):
            _check_digits(parameter, value)
        elif name == "_where":
            found[name] = "&".join([_group(parameter, value) for value in parameter.values])
        elif name == "_count":
            if value != "exact":
                raise parameter.error(
                    f"_count is {_shown(value)}", "_count=exact is all that there is; count() counts instead of the records"
                )
            found[name] = COUNT
        elif name == "_live":
            if value not in ("true", "false"):
                raise parameter.error(f"_live is {_shown(value)}", "true or false")
            if value == "true":
                found[name] = "live()"
        else:
            found[name] = _call(parameter, value)
    limit, offset = [given[name] if name in given and given[name].values else None for name in ("_limit", "_offset")]
    if offset is not None:
        start = int(offset.values[0])
        if limit is not None and start + int(limit.values[0]) >= _MAX_ROWS:
            raise offset.error("_offset and _limit together are too large")
        found["_offset" if limit is None else "_limit"] = f"limit({start},{'' if limit is None else start + int(limit.values[0])})"
    elif limit is not None:
        found["_limit"] = f"limit({limit.values[0]})"
    return found


def _check_digits(parameter: QueryParameter, value: str) -> None:
    if _DIGITS.fullmatch(value) is None:
        raise parameter.error(f"{parameter.name} is {_shown(value)}", "a number that is not negative, of at most 18 digits")


def _group(parameter: QueryParameter, value: str) -> str:
    text = f"[{value}]"
    if not is_one_bracket(text):
        raise parameter.error(
            "brackets in _where that are not in pairs", "a bracket in a value is written %5B, and % in _where is written %25"
        )
    return text


def _call(parameter: QueryParameter, value: str) -> str:
    text = f"{PARAMETERS[parameter.name]}({value})"
    if not is_one_bracket(text):
        raise parameter.error(f"brackets in {parameter.name} that are not in pairs", "& in a value is written %26" if "[" in value else "")
    return text


def _shown(value: str) -> str:
    return f"'{value if len(value) <= 40 else value[:40] + '...'}'"
