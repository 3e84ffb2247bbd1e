"""The URL query language: raw query text -> nodes (contract: http §6.1-§6.3, §6.8).

A recursive descent parser, one method per rule of the grammar. Three things are not in the grammar itself:

- A chained range (`price=gt=100&lt=200`) becomes one condition with two ends.
- What a converting value says about its own type (`null`, `number:5`, a wildcard) is settled here, where the raw text is known:
  an encoded `%2A` or `%3A` is data, and nobody could tell after decoding.
- Clients that encode brackets and operators on their own are met half-way: a text that does not parse is parsed once more with these
  characters decoded (§6.2, number 3).

`svc/query/printer.py` is the inverse.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from svc.errors import QueryError, QuerySyntaxError
from svc.query.convert import forced_value
from svc.query.lexer import Scanner
from svc.query.nodes import (
    AGGREGATE_FUNCTIONS,
    Aggregate,
    Bound,
    Comparator,
    Condition,
    Conversion,
    Filter,
    Group,
    Query,
    RelationFilter,
    Select,
    SelectItem,
    SortKey,
)

MAX_DEPTH = 32  # groups, relation filters and braces inside each other

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
_CALLS = ("select", "sort", "limit", "count", "facet", "group", "after")
_CALL_HINTS = {
    "group-by": "group",
    "groupby": "group",
    "order": "sort",
    "orderby": "sort",
    "order-by": "sort",
    "fields": "select",
    "top": "limit",
    "Select": "select",
    "Sort": "sort",
}
_TYPE_PREFIX = re.compile(r"(number|boolean|string|date):")
_TOLERATED = re.compile("%(?:7C|7B|7D|3C|3E|5B|5D|28|29|21)", re.IGNORECASE)
_TOLERATED_IN_CALL = re.compile("%(?:7B|7D|2C|2B)", re.IGNORECASE)
_TOLERATED_IN_GROUP = re.compile("%(?:2C|3B)", re.IGNORECASE)
_SUSPECT_IN_NAME = re.compile(r"[()\[\]{}|<>!]")
_INTEGER = re.compile(r"[0-9]{1,18}")
_CURSOR = re.compile(r"[A-Za-z0-9_-]+")
MAX_CURSOR = 4096  # characters


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


class _Calls:
    """What the calls of one level said; the last of each kind counts."""

    __slots__ = ("after", "aggregate", "limit", "offset", "select", "sort", "whole")

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole  # calls of the whole query, not of a relation filter
        self.select: Select | None = None
        self.sort: tuple[SortKey, ...] = ()
        self.offset = 0
        self.limit: int | None = None
        self.aggregate: Aggregate | None = None
        self.after: str | None = None

    def query(self, where: Filter | None) -> Query:
        return Query(where, self.select, self.sort, self.offset, self.limit, aggregate=self.aggregate, after=self.after)


class _Parser:
    __slots__ = ("_depth", "_is_declared", "_parentheses", "_scanner", "suspect_name")

    def __init__(self, text: str, is_declared: Callable[[str], bool]) -> None:
        self._scanner = Scanner(text)
        self._is_declared = is_declared
        self._depth = 0
        self._parentheses = 0  # open ones, calls included: values then end at a parenthesis
        self.suspect_name = False  # a decoded attribute name holds an operator character

    def query(self) -> Query:
        scanner = self._scanner
        text = scanner.text
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                readable = text.encode("ascii", "backslashreplace").decode()
                raise QuerySyntaxError("a character that is not Unicode text", error.start, readable) from None
        calls = _Calls(whole=True)
        where = self._or_expression("", calls, may_be_empty=True)
        if scanner.peek():
            raise self._trailing()
        return calls.query(where)

    # conditions

    def _or_expression(self, closing: str, calls: _Calls | None, *, may_be_empty: bool) -> Filter | None:
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

    def _and_expression(self, closing: str, calls: _Calls | None) -> Filter | None:
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
                    raise QueryError(
                        f"A chained range must follow a range condition of one attribute (at position {position} in '{scanner.text}')",
                        code="UNUSABLE_OPERATOR",
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
        second = self._condition(first.path, comparator, Conversion.CONVERTING, position)
        low, high = (first, second) if first.comparator in _LOW_ENDS else (second, first)
        if low.comparator not in _LOW_ENDS or high.comparator not in _HIGH_ENDS:
            raise QueryError(
                "A chained range needs one of gt, ge and one of lt, le "
                f"({first.comparator} and {comparator} cannot be combined for {'.'.join(first.path)})",
                code="UNUSABLE_OPERATOR",
            )
        range_ = RANGES[_LOW_ENDS[low.comparator], _HIGH_ENDS[high.comparator]]
        if low.conversion is high.conversion:
            return Condition(first.path, range_, (low.value, high.value), low.conversion, first.position)
        ends = (Bound(low.value, low.conversion), Bound(high.value, high.conversion))
        return Condition(first.path, range_, ends, Conversion.CONVERTING, first.position)

    def _term(self, calls: _Calls | None) -> Filter | None:
        """One group, condition, relation filter, or call; a call is noted in `calls` and gives None."""
        scanner = self._scanner
        position = scanner.position
        opening = scanner.peek()
        if opening == "(":
            self._enter("(")
            self._parentheses += 1
            group = self._or_expression(")", None, may_be_empty=False)
            self._parentheses -= 1
            self._leave(")")
            return group
        if opening == "[":
            self._enter("[")
            group = self._or_expression("]", None, may_be_empty=False)
            self._leave("]")
            return group
        raw = scanner.name()
        if not raw:
            raise scanner.unexpected("the name of an attribute")
        if scanner.peek() == "(":
            self._call(raw, position, calls)
            return None
        path: tuple[str, ...] = (self._name(raw, position),)
        while scanner.take("."):
            path = (*path, self._required_name())
        if scanner.peek() == "[":
            if scanner.take("[]="):
                return self._condition(path, Comparator.EQUALS, Conversion.STRICT, position, plus_is_space=True)
            if len(path) > 1:
                raise scanner.unexpected("an operator", "relation filters are nested: a[b[...]]")
            return RelationFilter(path, self._relation_query(), position)
        operator_position = scanner.position
        operator = scanner.operator()
        if not operator:
            raise scanner.unexpected("an operator", f"{raw}==value" if not scanner.peek() or scanner.peek() == "&" else "")
        found = OPERATORS.get(operator)
        if found is None:
            raise QueryError(
                f"Unknown query comparator '{operator[1:-1]}' at position {operator_position} in '{scanner.text[:200]}'",
                code="UNUSABLE_OPERATOR",
            )
        comparator, conversion = found
        return self._condition(path, comparator, conversion, position, wildcard=operator in ("==", "=eq="), plus_is_space=operator == "=")

    def _condition(
        self,
        path: tuple[str, ...],
        comparator: Comparator,
        conversion: Conversion,
        position: int,
        *,
        wildcard: bool = False,
        plus_is_space: bool = False,
    ) -> Condition:
        """Read the value that comes next and build the condition of it."""
        scanner = self._scanner
        start = scanner.position
        raw = scanner.value(in_parentheses=self._parentheses > 0)
        if not raw and comparator in _NEEDS_VALUE:
            # Most likely a value that turned out empty in the client. Taken as the empty text, `id=gt=` would be every record.
            raise scanner.error(f"expected a value for {comparator}", start, "string: alone is the empty text")
        if conversion is Conversion.CONVERTING:
            if wildcard and "*" in raw:
                if raw.index("*") < len(raw) - 1:
                    raise QueryError(
                        f"wildcard can only be used at the end of a string (at position {start} in '{scanner.text[:200]}')",
                        code="UNUSABLE_OPERATOR",
                    )
                prefix = raw.removeprefix("string:")[:-1]
                return Condition(path, Comparator.STARTS_WITH, scanner.decode(prefix, start), Conversion.TEXT, position)
            if raw == "null":
                return Condition(path, comparator, None, Conversion.FORCED, position)
            typed = _TYPE_PREFIX.match(raw)
            if typed is not None:
                text = scanner.decode(raw[typed.end() :], start + typed.end())
                return Condition(path, comparator, forced_value(typed.group(1), text, path), Conversion.FORCED, position)
        value = scanner.decode(raw, start, plus_is_space=plus_is_space)
        return Condition(path, comparator, value, conversion, position)

    def _relation_query(self) -> Query:
        """`[...]` of a relation filter: conditions and calls of its own."""
        self._enter("[")
        calls = _Calls(whole=False)
        where = self._or_expression("]", calls, may_be_empty=True)
        self._leave("]")
        query = calls.query(where)
        if query == Query():
            raise self._scanner.error("an empty relation filter", self._scanner.position - 1)
        return query

    # calls

    def _call(self, name: str, position: int, calls: _Calls | None) -> None:
        scanner = self._scanner
        if name not in _CALLS:
            near = _CALL_HINTS.get(name)
            raise scanner.error(
                f"unknown call '{name}'", position, f"did you mean {near}(...)?" if near else f"calls are {', '.join(_CALLS)}"
            )
        if calls is None:
            raise scanner.error(f"'{name}(...)' inside a group", position, "join calls to the whole query with &")
        if not calls.whole and name not in ("select", "sort", "limit"):
            raise scanner.error(f"'{name}(...)' inside a relation filter", position, "it belongs to the whole query")
        self._enter("(")
        self._parentheses += 1
        if name == "limit":
            calls.offset, calls.limit = self._limit()
        elif name == "select":
            self._decode_call(_TOLERATED_IN_CALL)
            calls.select = self._selection()
        elif name == "sort":
            self._decode_call(_TOLERATED_IN_CALL)
            calls.sort = self._sort_keys()
        elif name == "after":
            calls.after = self._cursor()
        else:
            if calls.aggregate is not None:
                raise scanner.error(f"a second aggregate, '{name}(...)'", position, "a query has one of count, facet and group")
            calls.aggregate = self._aggregate(name)
        self._parentheses -= 1
        self._leave(")")
        if calls.aggregate is not None and (calls.select is not None or calls.after is not None):
            other = "select" if calls.select is not None else "after"
            raise scanner.error(f"'{calls.aggregate.kind}(...)' together with '{other}(...)'", position, "an aggregate has rows of its own")

    def _decode_call(self, tolerated: re.Pattern[str]) -> None:
        """Inside select and sort `%7B %7D %2C %2B` equal their characters: put these in their place up to the closing parenthesis."""
        scanner = self._scanner
        text = scanner.text
        start = position = scanner.position
        depth = 1
        while position < len(text) and depth:
            if text[position] in "()":
                depth += 1 if text[position] == "(" else -1
            position += 1
        inside = text[start:position]
        if "%" in inside:
            scanner.text = text[:start] + tolerated.sub(_decode_escape, inside) + text[position:]

    def _aggregate(self, kind: str) -> Aggregate:
        """What stands in the parentheses of `count()`, `facet(a)` and `group(a,b;count,sum(x))`."""
        scanner = self._scanner
        if kind == "count":
            if scanner.peek() != ")":
                raise scanner.unexpected("')'", "facet(a) counts by the values of an attribute")
            return Aggregate("count")
        if kind == "facet":
            return Aggregate("facet", (self._path(),))
        self._decode_call(_TOLERATED_IN_GROUP)
        keys: list[tuple[str, ...]] = []
        while not keys or scanner.take(","):
            position = scanner.position
            path = self._path(in_group=True)
            if path in keys:
                raise scanner.error(f"'{'.'.join(path)}' a second time", position)
            keys.append(path)
        functions: list[tuple[str, tuple[str, ...] | None]] = []
        if scanner.take(";") and scanner.peek() != ")":
            while not functions or scanner.take(","):
                position = scanner.position
                function = self._function()
                if function in functions:
                    raise scanner.error(f"'{function[0]}' a second time", position)
                functions.append(function)
        return Aggregate("group", tuple(keys), tuple(functions) or (("count", None),))

    def _function(self) -> tuple[str, tuple[str, ...] | None]:
        scanner = self._scanner
        position = scanner.position
        name = scanner.name_in_group()
        if name not in AGGREGATE_FUNCTIONS:
            hint = f"functions are {', '.join(AGGREGATE_FUNCTIONS)}"
            raise scanner.error(f"unknown function '{name}'", position, hint) if name else scanner.unexpected("a function", hint)
        if name == "count":
            return name, None
        if not scanner.take("("):
            raise scanner.unexpected("'('", f"{name} needs an attribute: {name}(a)")
        path = self._path(in_group=True)
        if not scanner.take(")"):
            raise scanner.unexpected("')'")
        return name, path

    def _cursor(self) -> str:
        scanner = self._scanner
        found = _CURSOR.match(scanner.text, scanner.position)
        if found is None or found.end() - found.start() > MAX_CURSOR:
            raise scanner.error("expected a cursor", hint=f"at most {MAX_CURSOR} of A-Z a-z 0-9 _ -, as it was given")
        scanner.position = found.end()
        return found.group()

    def _limit(self) -> tuple[int, int]:
        """`limit(n)`: the first n. `limit(a,b)`: skip a, up to position b. Returns (offset, limit)."""
        first = self._integer()
        if not self._scanner.take(","):
            return 0, first
        position = self._scanner.position
        end = self._integer()
        if end < first:
            raise self._scanner.error("the end of a limit before its start", position)
        return first, end - first

    def _integer(self) -> int:
        scanner = self._scanner
        found = _INTEGER.match(scanner.text, scanner.position)
        if found is None:
            raise scanner.unexpected("a number that is not negative", "limit(count) or limit(start,end)")
        scanner.position = found.end()
        return int(found.group())

    def _sort_keys(self) -> tuple[SortKey, ...]:
        scanner = self._scanner
        keys = []
        while True:
            position = scanner.position
            descending = scanner.take("-")
            if not descending:
                scanner.take("+")
            keys.append(SortKey(self._path(), descending, position))
            if not scanner.take(","):
                return tuple(keys)

    def _selection(self) -> Select:
        scanner = self._scanner
        if scanner.take("["):
            items, _ = self._items("]")
            if not scanner.take("]"):
                raise scanner.unexpected("']' or ','")
            return Select(items, "array")
        items, trailing_comma = self._items(")")
        bare = len(items) == 1 and not trailing_comma and items[0].path != ("*",)
        return Select(items, "value" if bare else "object")

    def _items(self, closing: str) -> tuple[tuple[SelectItem, ...], bool]:
        """Items up to `closing` (not consumed), and whether a comma stood before it."""
        scanner = self._scanner
        items = []
        while True:
            items.append(self._item())
            if not scanner.take(","):
                return tuple(items), False
            if closing != "]" and scanner.peek() == closing:
                return tuple(items), True

    def _item(self) -> SelectItem:
        scanner = self._scanner
        position = scanner.position
        path = self._path()
        opening = scanner.peek()
        if opening not in ("{", "[") or not opening:
            return SelectItem(path, position=position)
        if len(path) > 1:
            raise scanner.unexpected("',' or ')'", "nested selections are nested: a{b{...}}")
        if opening == "{":
            self._enter("{")
            items, _ = self._items("}")
            self._leave("}")
            return SelectItem(path, nested=Select(items), position=position)
        return SelectItem(path, query=self._relation_query(), position=position)

    def _path(self, *, in_group: bool = False) -> tuple[str, ...]:
        path: tuple[str, ...] = (self._required_name(in_group=in_group),)
        while self._scanner.take("."):
            path = (*path, self._required_name(in_group=in_group))
        return path

    # pieces

    def _required_name(self, *, in_group: bool = False) -> str:
        scanner = self._scanner
        position = scanner.position
        raw = scanner.name_in_group() if in_group else scanner.name()
        if not raw:
            raise scanner.unexpected("the name of an attribute")
        return self._name(raw, position)

    def _name(self, raw: str, position: int) -> str:
        if "%" not in raw:
            return raw
        name = self._scanner.decode(raw, position)
        if _SUSPECT_IN_NAME.search(name) is not None:
            self.suspect_name = True
        return name

    def _enter(self, opening: str) -> None:
        if self._depth == MAX_DEPTH:
            raise self._scanner.error(f"nesting deeper than {MAX_DEPTH} levels")
        self._depth += 1
        self._scanner.take(opening)

    def _leave(self, closing: str) -> None:
        self._depth -= 1
        if not self._scanner.take(closing):
            raise self._scanner.unexpected(f"'{closing}'")

    def _trailing(self) -> QuerySyntaxError:
        """What follows a complete term is neither a joint nor an end."""
        found = self._scanner.peek()
        hint = f"{found} in a value is written %{ord(found):02X}" if found in "=[]{}()" else ""
        return self._scanner.unexpected("'&' or '|'", hint)


_RANGE_COMPARATORS = frozenset(CHAIN.values())
_FIQL_AFTER_NAME = re.compile("=[A-Za-z]+=")
