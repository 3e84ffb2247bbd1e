"""The URL query language: raw query text -> nodes (spec: query §1-§3, §8).

A recursive descent parser, one method per rule of the grammar. Three things are not in the grammar itself:

- A chained range (`price=gt=100&lt=200`) becomes one condition with two ends.
- What a converting value says about its own type (`null`, `number:5`, a wildcard) is settled here, where the raw text is known:
  an encoded `%2A` or `%3A` is data, which cannot be distinguished after decoding.
- What forms and HTTP libraries send is put into the language before (`form`). Clients that percent-encode brackets and operators are tolerated: a
  query that does not parse is parsed once more with these characters decoded (spec: query §2 rule 3).

`svc/query/printer.py` is the inverse.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from svc.errors import QueryError, QuerySyntaxError
from svc.query import hints
from svc.query.calls import CallReader, Calls
from svc.query.convert import forced_value
from svc.query.form import maybe_form
from svc.query.nodes import Bound, Comparator, Condition, Conversion, Filter, Group, Query, RelationFilter, grouped

MAX_TEXT = 1 << 14  # characters of a query; a longer one would hold up others while it is parsed

CHAIN = {
    "gt": Comparator.GREATER_THAN,
    "ge": Comparator.GREATER_THAN_EQUAL,
    "lt": Comparator.LESS_THAN,
    "le": Comparator.LESS_THAN_EQUAL,
}

# Compared with the empty text these hold for every text, or for none.
_NEEDS_VALUE = frozenset(
    {
        Comparator.LESS_THAN,
        Comparator.LESS_THAN_EQUAL,
        Comparator.GREATER_THAN,
        Comparator.GREATER_THAN_EQUAL,
        Comparator.STARTS_WITH,
        Comparator.CONTAINS,
        Comparator.ENDS_WITH,
    }
)
OPERATORS: dict[str, tuple[Comparator, Conversion]] = {
    "==": (Comparator.EQUALS, Conversion.CONVERTING),
    "=eq=": (Comparator.EQUALS, Conversion.CONVERTING),
    "=": (Comparator.EQUALS, Conversion.STRICT),
    "===": (Comparator.EQUALS, Conversion.STRICT),
    "!=": (Comparator.NOT_EQUAL, Conversion.CONVERTING),
    "=ne=": (Comparator.NOT_EQUAL, Conversion.CONVERTING),
    "!==": (Comparator.NOT_EQUAL, Conversion.STRICT),
    "<": (Comparator.LESS_THAN, Conversion.CONVERTING),
    "<=": (Comparator.LESS_THAN_EQUAL, Conversion.CONVERTING),
    ">": (Comparator.GREATER_THAN, Conversion.CONVERTING),
    ">=": (Comparator.GREATER_THAN_EQUAL, Conversion.CONVERTING),
    **{f"={name}=": (comparator, Conversion.CONVERTING) for name, comparator in CHAIN.items()},
    "=sw=": (Comparator.STARTS_WITH, Conversion.TEXT),
    "=ct=": (Comparator.CONTAINS, Conversion.TEXT),
    "=ew=": (Comparator.ENDS_WITH, Conversion.TEXT),
}

# (low end is excluded, high end is excluded) -> the comparator of the closed range
RANGES: dict[tuple[bool, bool], Comparator] = {
    (False, False): Comparator.BETWEEN,
    (False, True): Comparator.GELT,
    (True, False): Comparator.GTLE,
    (True, True): Comparator.GTLT,
}

_LOW_ENDS = {Comparator.GREATER_THAN_EQUAL: False, Comparator.GREATER_THAN: True}
_HIGH_ENDS = {Comparator.LESS_THAN_EQUAL: False, Comparator.LESS_THAN: True}
_TYPE_PREFIX = re.compile(r"(number|boolean|string|date):")
_TOLERATED = re.compile("%(?:7C|7B|7D|3C|3E|5B|5D|28|29|21)", re.IGNORECASE)


def _nothing_declared(name: str) -> bool:
    return False


def parse_query(text: str, is_declared: Callable[[str], bool] = _nothing_declared) -> Query:
    """Parse the raw query `text` (without `?`). `is_declared` tells whether the table has an attribute of that name: it decides
    whether `lt=5` is a chained range or a condition on `lt`.

    >>> parse_query("price=gt=20&lt=60&sort(-price)&limit(2,5)").where.comparator
    <Comparator.GTLT: 'gtlt'>
    >>> parse_query("price=gt=20&&limit(2,5)").limit
    3

    Raises QueryError: QUERY_SYNTAX (with the position), UNUSABLE_OPERATOR or BAD_VALUE. Linear in the length of the text.
    """
    if len(text) > MAX_TEXT:
        raise QuerySyntaxError(f"more than {MAX_TEXT} characters", MAX_TEXT, text)
    _check_unicode(text)
    form = maybe_form(text, is_declared)
    if form is None:
        return _parse(text, is_declared)
    try:
        return form.locate(_parse(form.text, is_declared))
    except QueryError as error:
        raise form.located(error) from None


def _check_unicode(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            readable = text.encode("ascii", "backslashreplace").decode()
            raise QuerySyntaxError("a character that is not Unicode text", error.start, readable) from None


def _parse(text: str, is_declared: Callable[[str], bool]) -> Query:
    parser = _Parser(text, is_declared)
    try:
        query = parser.query()
        if not parser.suspect_name:
            return query
    except QueryError:
        if _TOLERATED.search(text) is None:
            raise
        retried = _maybe_parse_tolerantly(text, is_declared)
        if retried is None:
            raise
        return retried
    return _maybe_parse_tolerantly(text, is_declared) or query


def maybe_parse_plainly(text: str, is_declared: Callable[[str], bool]) -> Query | None:
    """The same for a text in the language (`form`) that needs no tolerance, else None. Raises QueryError, also for what `parse_query` would tolerate."""
    parser = _Parser(text, is_declared)
    query = parser.query()
    return None if parser.suspect_name else query


def _maybe_parse_tolerantly(text: str, is_declared: Callable[[str], bool]) -> Query | None:
    decoded = _TOLERATED.sub(_decode_escape, text)
    if decoded == text:
        return None
    try:
        return _Parser(decoded, is_declared).query()
    except QueryError:
        return None


def _decode_escape(found: re.Match[str]) -> str:
    return chr(int(found.group()[1:], 16))


class _Parser(CallReader):
    __slots__ = ("_is_declared",)

    def __init__(self, text: str, is_declared: Callable[[str], bool]) -> None:
        super().__init__(text)
        self._is_declared = is_declared

    def query(self) -> Query:
        scanner = self._scanner
        text = scanner.text
        _check_unicode(text)
        calls = Calls(whole=True)
        where = self._or_expression("", calls, may_be_empty=True)
        if scanner.peek():
            raise self._trailing()
        if calls.counted and (calls.aggregate is not None or calls.live):
            other = "live" if calls.aggregate is None else calls.aggregate.kind
            raise scanner.error(
                f"'_count' together with '{other}(...)'", text.find("_count=exact"), "it counts the records of a result that has pages"
            )
        return calls.query(where)

    # conditions

    def _or_expression(self, closing: str, calls: Calls | None, *, may_be_empty: bool) -> Filter | None:
        """Terms up to `closing` (not consumed). `calls` collects calls, None where there can be none. None: no condition at all."""
        scanner = self._scanner
        start = scanner.position
        first = self._and_expression(closing, calls)
        if scanner.peek() != "|":
            if first is None and not may_be_empty:
                raise scanner.unexpected("a condition")
            return first
        branches = []
        operand = first
        while True:
            if operand is None:
                raise scanner.unexpected("a condition", "each side of | needs one")
            branches.append(operand)
            if not scanner.take("|"):
                return Group("or", tuple(branches), start)
            operand = self._and_expression(closing, calls)

    def _and_expression(self, closing: str, calls: Calls | None) -> Filter | None:
        scanner = self._scanner
        start = scanner.position
        terms: list[Filter] = []
        chainable = False  # the last term is a range that a second end may follow
        while True:
            while scanner.take("&"):
                pass
            next_ = scanner.peek()
            if not next_ or next_ == "|" or (closing and next_ == closing):
                break
            chained = self._maybe_chain_start(bool(terms))
            if chained is not None:
                position, comparator = chained
                last = terms[-1] if chainable else None
                if type(last) is not Condition:
                    name = scanner.text[position : scanner.position].strip("=")
                    raise _unusable(
                        "A chained range must follow a range condition of one attribute",
                        position,
                        scanner.text,
                        f"a=gt=1&{name}=2; {name} alone is an attribute only if the table declares it",
                    )
                terms[-1] = self._chain(last, comparator, position)
                chainable = False
            else:
                grouped = next_ in "(["
                term = self._term(calls)
                chainable = not grouped and type(term) is Condition and term.comparator in _RANGE_COMPARATORS
                if term is not None:
                    terms.append(term)
            next_ = scanner.peek()
            if next_ and next_ not in "&|" and next_ != closing:
                raise self._trailing()
        if not terms:
            return None
        return terms[0] if len(terms) == 1 else Group("and", tuple(terms), start)

    def _maybe_chain_start(self, has_term: bool) -> tuple[int, Comparator] | None:
        """Consume `lt=` or `=lt=` where a term may begin, if it continues a range."""
        scanner = self._scanner
        position = scanner.position
        text = scanner.text
        if text[position] == "=":
            name = text[position + 1 : position + 3]
            if name in CHAIN and text[position + 3 : position + 4] == "=":
                scanner.position = position + 4
                return position, CHAIN[name]
            raise scanner.unexpected("a condition", "" if has_term else "a condition begins with the name of an attribute")
        name = text[position : position + 2]
        if name in CHAIN and text[position + 2 : position + 3] == "=" and not self._is_declared(name):
            operator_end = position + 3
            if text.startswith("=", operator_end) or _FIQL_AFTER_NAME.match(text, position + 2):
                return None  # `lt==5`, `lt=gt=5`: an attribute of that name, which the planner will not know
            scanner.position = operator_end
            return position, CHAIN[name]
        return None

    def _chain(self, first: Condition, comparator: Comparator, position: int) -> Condition:
        operator = self._scanner.text[position : self._scanner.position]
        second = self._condition(first.path, operator, comparator, Conversion.CONVERTING, position)
        low, high = (first, second) if first.comparator in _LOW_ENDS else (second, first)
        if low.comparator not in _LOW_ENDS or high.comparator not in _HIGH_ENDS:
            raise _unusable("A chained range needs one of gt, ge and one of lt, le", position, self._scanner.text)
        range_ = RANGES[_LOW_ENDS[low.comparator], _HIGH_ENDS[high.comparator]]
        if low.conversion is high.conversion:
            return Condition(first.path, range_, (low.value, high.value), low.conversion, first.position)
        ends = (Bound(low.value, low.conversion), Bound(high.value, high.conversion))
        return Condition(first.path, range_, ends, Conversion.CONVERTING, first.position)

    def _term(self, calls: Calls | None) -> Filter | None:
        """One group, condition, relation filter, or call; a call is noted in `calls` and gives None."""
        scanner = self._scanner
        position = scanner.position
        opening = scanner.peek()
        if opening == "(":
            self._enter("(")
            group = self._or_expression(")", None, may_be_empty=False)
            self._leave(")")
            return None if group is None else grouped(group)
        if opening == "[":
            self._enter("[")
            group = self._or_expression("]", None, may_be_empty=False)
            self._leave("]")
            return None if group is None else grouped(group)
        raw = scanner.name()
        if not raw:
            raise scanner.unexpected("the name of an attribute")
        if scanner.peek() == "(":
            self._call(raw, position, calls)
            return None
        if raw == "_count" and self._counts(calls):
            return None
        first = self._name(raw, position)
        path = self._rest_of_path(first, scanner.name) if scanner.peek() == "." else (first,)
        if scanner.peek() == "[":
            if scanner.take("[]="):
                return self._condition(path, "[]=", Comparator.EQUALS, Conversion.STRICT, position)
            if len(path) > 1:
                raise scanner.unexpected("an operator", "relation filters are nested: a[b[...]]")
            return RelationFilter(path, self._relation_query(), position)
        operator_position = scanner.position
        operator = scanner.operator()
        if not operator:
            at_end = not scanner.peek() or scanner.peek() in "&|)]"
            name = scanner.text[position:operator_position]
            follows = scanner.text[position - 1 : position] == "&" and position > 1
            hint = hints.for_name_without_operator(name, follows) if at_end else self._hint_for_character("name")
            raise scanner.unexpected("an operator", hint)
        found = OPERATORS.get(operator)
        if found is None:
            hint = hints.for_operator(operator[1:-1], scanner.text[position:operator_position], scanner.text[scanner.position :])
            raise _unusable(f"Unknown query comparator '{operator[1:-1][:40]}'", operator_position, scanner.text, hint)
        comparator, conversion = found
        return self._condition(path, operator, comparator, conversion, position)

    def _counts(self, calls: Calls | None) -> bool:
        """Consume the rest of `_count=exact` where a call can stand, unless it is an attribute."""
        if calls is None or not calls.whole or self._is_declared("_count") or not self._scanner.take("=exact"):
            return False
        calls.counted = True
        return True

    def _condition(self, path: tuple[str, ...], operator: str, comparator: Comparator, conversion: Conversion, position: int) -> Condition:
        """Read the value that comes next, behind `operator`, and build the condition of it."""
        scanner = self._scanner
        start = scanner.position
        raw = scanner.value(in_parentheses=self._parentheses > 0)
        if not raw and comparator in _NEEDS_VALUE:
            # Most likely a value that turned out empty in the client. Taken as the empty text, `id=gt=` would be every record.
            hint = self._hint_for_character() if scanner.peek() not in ("", "&") else "string: alone is the empty text"
            raise scanner.error(f"expected a value after '{operator.lstrip('&')}'", start, hint)
        if conversion is Conversion.CONVERTING:
            typed = _TYPE_PREFIX.match(raw)
            if typed is not None and (typed.group(1) != "string" or not raw.endswith("*")):
                text = scanner.decode(raw[typed.end() :], start + typed.end())
                try:
                    return Condition(path, comparator, forced_value(typed.group(1), text, path), Conversion.FORCED, position)
                except QueryError as error:
                    error.position = start
                    raise
            if "*" in raw and operator in _WITH_WILDCARD:
                if raw.index("*") < len(raw) - 1:
                    raise _unusable("wildcard can only be used at the end of a string", start, scanner.text, "%2A is a literal star")
                prefix = raw.removeprefix("string:")[:-1]
                return Condition(path, Comparator.STARTS_WITH, scanner.decode(prefix, start), Conversion.TEXT, position)
            if "*" in raw and comparator is Comparator.NOT_EQUAL:  # taken literally, it would find what it is meant to leave out
                raise _unusable("wildcard can only be used with == and =eq=", start, scanner.text, "%2A is a literal star")
            if raw == "null":
                return Condition(path, comparator, None, Conversion.FORCED, position)
        value = scanner.decode(raw, start, plus_is_space=operator in _FORM_OPERATORS)
        return Condition(path, comparator, value, conversion, position)

    def _relation_query(self) -> Query:
        """`[...]` of a relation filter: conditions and calls of its own."""
        self._enter("[")
        calls = Calls(whole=False)
        where = self._or_expression("]", calls, may_be_empty=True)
        self._leave("]")
        query = calls.query(where)
        if query == Query():
            raise self._scanner.error("an empty relation filter", self._scanner.position - 1, "a value list is written a[]=1")
        return query

    def _trailing(self) -> QuerySyntaxError:
        """What follows a complete term is neither a joint nor an end."""
        expected = f"'&', '|' or {self._closing()}" if self._open else "'&' or '|'"
        return self._scanner.unexpected(expected, self._hint_for_character())

    def _hint_for_character(self, where: str = "value") -> str:
        """For a character that cannot stand where it stands, in a name or a value."""
        scanner = self._scanner
        found = scanner.peek()
        if found == "=":
            return hints.for_equals_in_value(scanner.text[: scanner.position])
        return f"{found} in a {where} is written %{ord(found):02X}" if found and found in "[]{}(),!" else ""


def _unusable(what: str, position: int, text: str, hint: str = "") -> QueryError:
    """The error for an operator that cannot be used where it stands."""
    return QuerySyntaxError(what, position, text, hint, code="UNUSABLE_OPERATOR")


_RANGE_COMPARATORS = frozenset(CHAIN.values())
_FIQL_AFTER_NAME = re.compile("=[A-Za-z]+=")
_WITH_WILDCARD = frozenset(("==", "=eq="))
_FORM_OPERATORS = frozenset(("=", "[]="))  # a form writes a space as a plus sign behind these
