"""Hints for the messages of query errors: what was probably meant. Called only after an error, so nothing here need be fast.

Each function returns a phrase for the parentheses after a message, "" if there is no hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

CALLS = ("select", "sort", "limit", "count", "facet", "group", "after", "live")
PARAMETERS = ("_select", "_sort", "_limit", "_offset", "_after", "_count", "_live", "_facet", "_group", "_where")
FIQL = ("eq", "ne", "lt", "le", "gt", "ge", "ct", "sw", "ew")

_MAX_NAME = 64  # characters of a name that is compared with others: the time grows with the product of both lengths
_MAX_CANDIDATES = 250
_MAX_SHOWN = 24  # characters of what is quoted
_MAX_ALTERNATIVES = 4

_TWICE = re.compile("%25(?:20|21|22|25|26|28|29|2C|3A|3C|3D|3E|5B|5D|7B|7C|7D)", re.IGNORECASE)
_ENCODED_OPERATOR = re.compile("%3D|%26", re.IGNORECASE)
_SPACE = r"(?:\s|\+|%20)"
_JOINED_BY_WORD = re.compile(rf"{_SPACE}(?:and|or){_SPACE}", re.IGNORECASE)
_SPELT_OPERATOR = re.compile(rf"([^\s+%]+){_SPACE}+(not{_SPACE}+)?(eq|ne|gt|ge|lt|le|like|ilike|in|is|between|contains)\b", re.IGNORECASE)
_ENCODED_FIQL = re.compile("=?(?:eq|ne|lt|le|gt|ge|ct|sw|ew)=|[<>!=]=?")
_DOTTED_FIQL = re.compile(r"(eq|lt|gt|le|ge|ct|sw|ew|ne)[.:]")
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_LIST = re.compile(r"[(\[]?[^,()\[\]]+(?:,[^,()\[\]]+)+[)\]]?")
_SPACE_FOR_PLUS = re.compile(r"[0-9T:.-]+[0-9] [0-9]{2}:?[0-9]{2}")
_LOOKS_LIKE_DATE = re.compile(r"[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]{1,4}")

# Names of operators elsewhere -> ours. Compared in lower case, without - and _.
_OPERATORS = {
    **dict.fromkeys(("equal", "equals", "is", "exact"), "=="),
    **dict.fromkeys(("not", "neq", "nq", "notequal", "isnot"), "!="),
    **dict.fromkeys(("gte", "min", "from", "greaterthanequal"), "=ge="),
    **dict.fromkeys(("lte", "max", "to", "lessthanequal"), "=le="),
    **dict.fromkeys(("greater", "greaterthan", "after"), "=gt="),
    **dict.fromkeys(("less", "lessthan", "before"), "=lt="),
    **dict.fromkeys(("contains", "has", "includes", "substring", "search", "any", "all"), "=ct="),
    **dict.fromkeys(("startswith", "starts", "prefix", "begins", "beginswith"), "=sw="),
    **dict.fromkeys(("endswith", "ends", "suffix"), "=ew="),
}
_PATTERNS = frozenset(("like", "ilike", "match", "matches", "regex", "re", "rx", "glob"))
_JOINED_HINT = "conditions are joined with & and |"
_PATTERN_HINT = "=sw= finds the beginning of a text, =ct= a part, =ew= the end"
_OTHER_CALLS = {
    **dict.fromkeys(("order", "orderby", "sortby", "orderasc", "orderdesc"), "sort"),
    **dict.fromkeys(("fields", "field", "columns", "project", "attributes", "pick", "include"), "select"),
    **dict.fromkeys(("top", "first", "take", "head", "max", "page"), "limit"),
    **dict.fromkeys(("groupby", "aggregate"), "group"),
    **dict.fromkeys(("distinct", "unique", "values", "countby"), "facet"),
    **dict.fromkeys(("total", "size", "length"), "count"),
    **dict.fromkeys(("cursor", "next", "continue"), "after"),
    **dict.fromkeys(("subscribe", "watch", "observe", "listen", "follow", "changes", "realtime"), "live"),
}
_CALL_PHRASES = {
    **dict.fromkeys(("skip", "offset"), "limit(start,end) skips the first records"),
    **dict.fromkeys(("sum", "avg", "min"), "functions stand inside group(a;sum(x))"),
    **dict.fromkeys(("and", "or"), _JOINED_HINT),
    **dict.fromkeys(("where", "filter", "find"), "conditions stand by themselves: a=1&b=2"),
    **dict.fromkeys(FIQL, "a condition is written a=gt=1"),
    **dict.fromkeys(("in", "out", "nin"), "alternatives are written [a=1|a=2]"),
    "not": "there is !=, but no negation of groups",
    "between": "a range is written a=ge=1&le=2",
    "contains": "a part of a text is found with a=ct=text",
    "like": _PATTERN_HINT,
}
# Parameters of other APIs -> ours. Compared in lower case, without $, - and _.
_PARAMETERS = {
    **dict.fromkeys(("limit", "top", "pagesize", "perpage", "size", "first", "take"), "_limit=10"),
    **dict.fromkeys(("offset", "skip", "start"), "_offset=20"),
    **dict.fromkeys(("page", "pagenumber"), "_limit=10&_offset=20"),
    **dict.fromkeys(("sort", "order", "orderby", "sortby", "ordering"), "_sort=a,-b"),
    **dict.fromkeys(("select", "fields", "columns", "expand", "include"), "_select=a,b"),
    **dict.fromkeys(("filter", "where"), "_where=a==1|b=gt=2"),
    **dict.fromkeys(("after", "cursor", "next"), "_after=cursor"),
    **dict.fromkeys(("groupby", "group"), "_group=a;count"),
    **dict.fromkeys(("count", "inlinecount", "total"), "_count=exact"),
    **dict.fromkeys(("facet", "facets"), "_facet=a"),
    **dict.fromkeys(("live", "follow", "watch"), "_live=true"),
}
_NUMBER, _NAMES = re.compile(r"[0-9]{1,9}"), re.compile(r"-?[A-Za-z_]\w{0,39}(?:,-?[A-Za-z_]\w{0,39}){0,5}", re.ASCII)
_VALUES = {"_limit": _NUMBER, "_offset": _NUMBER, "_sort": _NAMES, "_select": _NAMES}
"""What hints repeat of the value of a parameter."""
_FILTER = re.compile(r"(?:filter|where|q)\[([^\[\]]+)\].*")  # filter[name], filter[name][gt]
_AMPERSAND = "& in a value is written %26"


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was probably meant to be.

    >>> nearest("prise", ["name", "price"]), nearest("PRICE", ["name", "price"]), nearest("x", ["name"])
    ('price', 'price', None)
    """
    if not name or len(name) > _MAX_NAME:
        return None
    known = list(islice(candidates, _MAX_CANDIDATES))
    folded = name.strip().casefold()
    for candidate in known:
        if candidate.casefold() == folded:
            return candidate
    found = get_close_matches(name, [candidate for candidate in known if len(candidate) <= _MAX_NAME], 1)
    return found[0] if found else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    found = nearest(name, candidates)
    return f'did you mean "{found}"?' if found is not None else ""


def for_operator(name: str, path: str, following: str) -> str:
    """For `=name=` that is no operator. `path`, `following`: the raw text before and behind it.

    >>> for_operator("in", "name", "(a,b)&c=1")
    'alternatives are written [name=a|name=b]'
    """
    folded = _folded(name)
    if folded in FIQL:
        return f"did you mean ={folded}=?"
    if folded in ("in", "anyof", "oneof"):
        return "alternatives are written [" + "|".join([f"{_short(path)}={value}" for value in _alternatives(following)]) + "]"
    if folded in ("out", "nin", "notin"):
        return "this is written " + "&".join([f"{_short(path)}!={value}" for value in _alternatives(following)])
    if folded in ("between", "bt", "range"):
        low, high = (*_alternatives(following), "2")[:2]
        return f"a range is written {_short(path)}=ge={low}&le={high}"
    if folded in ("null", "isnull", "exists", "notnull", "isempty"):
        return f"{_short(path)}==null finds what is missing, {_short(path)}!=null what is there"
    if folded in _PATTERNS:
        return _PATTERN_HINT
    meant = _OPERATORS.get(folded)
    if meant is None:
        close = nearest(folded, [*FIQL, *_OPERATORS])
        meant = f"={close}=" if close in FIQL else _OPERATORS.get(close or "")
    return f"did you mean {meant}?" if meant else "operators are " + " ".join([f"={known}=" for known in FIQL])


def for_equals_in_value(before: str) -> str:
    """For an equals sign in a value. `before`: the raw text up to it.

    >>> for_equals_in_value("a=starts_with"), for_equals_in_value("a==b")
    ('did you mean =sw=?', '= in a value is written %3D')
    """
    before = before[-_MAX_NAME:]
    found = re.search("=([A-Za-z_-]+)$", before)
    if found is not None:
        folded = _folded(found.group(1))
        if folded in _OPERATORS:
            return f"did you mean {_OPERATORS[folded]}?"
    if _JOINED_BY_WORD.search(re.split("[&|]", before)[-1]) is not None:
        return _JOINED_HINT
    return "= in a value is written %3D"


def for_name_without_operator(raw: str, follows: bool = False) -> str:
    """For the raw name of a condition that ends behind it. `follows`: it comes behind another condition.

    >>> for_name_without_operator("price%3Dgt%3D5"), for_name_without_operator("price%20gt%205")
    ('an operator must not be percent-encoded: = is %3D only inside a value', 'a condition is written price=gt=value')
    """
    if _TWICE.search(raw) is not None:
        return "the query is percent-encoded twice"
    if _ENCODED_OPERATOR.search(raw) is not None:
        return "an operator must not be percent-encoded: = is %3D only inside a value"
    spelt = _for_spelt_operator(raw)
    if spelt:
        return spelt
    if ":" in raw:
        return "a condition is written " + _short(raw.partition(":")[0]) + "==value"
    return f"a condition is written {_short(raw)}==value" + (f"; {_AMPERSAND}" if follows else "")


def for_call(name: str) -> str:
    """For a call that does not exist.

    >>> for_call("order-by"), for_call("selekt"), for_call("x")
    ('did you mean sort(...)?', 'did you mean select(...)?', 'calls are select, sort, limit, count, facet, group, after, live')
    """
    folded = _folded(name)
    phrase = _CALL_PHRASES.get(folded)
    if phrase is not None:
        return phrase
    spelt = _for_spelt_operator(name)
    if spelt:
        return spelt
    meant = _OTHER_CALLS.get(folded) or nearest(name, CALLS)
    return f"did you mean {meant}(...)?" if meant is not None else f"calls are {', '.join(CALLS)}"


def for_attribute(name: str, declared: Iterable[str], value: object = None) -> str:
    """For the decoded name of an attribute that is not declared. `value`: what it was compared with.

    >>> for_attribute("order_by", ["name"]), for_attribute("nmae", ["name"]), for_attribute("_limt", ["name"])
    ('did you mean _sort=a,-b?', 'did you mean "name"?', 'did you mean _limit=10?')
    >>> for_attribute("limit", [], "2"), for_attribute("order", [], "-price"), for_attribute("limit", [], "many")
    ('did you mean _limit=2?', 'did you mean _sort=-price?', 'did you mean _limit=10?')
    """
    if name in PARAMETERS:
        return f"{name} is written with a single =, beside the conditions: {_plain(name)}"
    if _ESCAPE.search(name) is not None:
        return "is the query percent-encoded twice?"
    parameter = _PARAMETERS.get(_folded(name).lstrip("$"))
    if parameter is None and not name.startswith("$"):  # with it: metadata, which can only be selected, or a parameter of OData
        found = did_you_mean(name, declared)
        if found:
            return found
    if parameter is None and name.startswith("_"):
        meant = nearest(name, PARAMETERS)
        parameter = None if meant is None else _plain(meant)
    if parameter is not None:
        return f"did you mean {_with_value(parameter, value)}?"
    filtered = _FILTER.fullmatch(name)
    if filtered is not None:
        return f"a condition is written {_short(filtered[1])}==value"
    if "=" in name and _ENCODED_FIQL.search(name) is not None:
        return "is an operator percent-encoded?"
    if "+" in name:
        return "a space in a name is written %20"
    if _JOINED_BY_WORD.search(name) is not None:
        return _JOINED_HINT
    return ""


def for_value(text: str, expected: str) -> str:
    """For the decoded text of a value that does not fit its type.

    >>> for_value("5 and stock<3", "Float"), for_value("gt=5", "Float"), for_value("1,2", "Int")
    ('conditions are joined with & and |', 'is an operator percent-encoded?', 'alternatives are written [a=1|a=2]')
    """
    if len(text) > 4 * _MAX_NAME:
        return ""
    if _JOINED_BY_WORD.search(text) is not None:
        return _JOINED_HINT
    if _ENCODED_FIQL.match(text) is not None:
        return "is an operator percent-encoded?"
    operator = _DOTTED_FIQL.match(text)
    if operator is not None:
        return f"a condition is written name={operator[1]}=value"
    if _ESCAPE.search(text) is not None:
        return "is the value percent-encoded twice?"
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return "values are written without quotes"
    if expected == "Date":
        if _SPACE_FOR_PLUS.search(text) is not None:
            return "+ is a space in a value behind a single =, write %2B"
        if _LOOKS_LIKE_DATE.search(text) is not None:
            return "dates are written as 2024-01-05, 2024-01-05T20:07:27Z or milliseconds"
    if "+" in text:
        return "+ is a space behind a single = only, a space is written %20"
    if "*" in text:
        return "wildcards are for text and stand at the end"
    if _LIST.fullmatch(text) is not None:
        return "alternatives are written [a=1|a=2]"
    return ""


def _for_spelt_operator(raw: str) -> str:
    """For `price gt 5` and `name not in (a,b)`."""
    spelt = _SPELT_OPERATOR.match(raw)
    if spelt is None:
        return ""
    name, negated, word = spelt.groups()
    word = word.lower()
    if word in FIQL:
        return f"a condition is written {_short(name)}={word}=value"
    return for_operator(f"not{word}" if negated else word, name, raw[spelt.end() :].replace("%20", " ").strip(" +"))


def _with_value(example: str, value: object) -> str:
    """The parameter as the caller meant it; the example where that is not plain."""
    name, _, shown = example.partition("=")
    pattern = _VALUES.get(name)
    is_plain = pattern is not None and isinstance(value, str) and "&" not in shown and pattern.fullmatch(value) is not None
    return f"{name}={value}" if is_plain else example


def _plain(name: str) -> str:
    """An example of a plain parameter."""
    return next(example for example in _PARAMETERS.values() if example.startswith(f"{name}="))


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").replace("%20", "").strip().lower()


def _alternatives(following: str) -> list[str]:
    """The values of a list behind an operator, `1` and `2` if they are not short and plain."""
    found = re.match(r"[(\[]?([A-Za-z0-9_.:%,-]+)[)\]]?(?=[&|)\]]|$)", following)
    values = [value for value in found.group(1).split(",") if value] if found is not None else []
    if len(values) < 2 or any(len(value) > _MAX_SHOWN for value in values) or len(values) > _MAX_ALTERNATIVES:
        return ["1", "2"]
    return values


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
