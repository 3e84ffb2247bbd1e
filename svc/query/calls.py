"""The calls of the URL query language, `select(...)` and its like, and the pieces that they share with conditions (spec: query §1, §8).

    call       = "select(" , selection , ")" | "limit(" , int , [ "," , [ int ] ] , ")" | "sort(" , sort-key , { "," , sort-key } , ")"
               | "count()" | "facet(" , path , ")" | "group(" , path , { "," , path } , [ ";" , [ functions ] ] , ")"
               | "group(;" , functions , ")"                     (* all records are one group *)
               | "after(" , cursor , ")" | "live()" ;            (* count to live: only of the whole query, not of a relation filter *)
    functions  = function , { "," , function } ;
    function   = "count" | ( "sum" | "avg" | "min" | "max" ) , "(" , path , ")" ;
    cursor     = cchar , { cchar } ;                             (* letters, digits, - and _; at most MAX_CURSOR *)

Of calls of one kind the last counts, but a query has at most one of count, facet and group, and neither select nor after beside it. Beside
live there is no after, for what is live has no pages.
Inside the parentheses `%2C %7B %7D %2B`, in a group `%2C %3B`, equal their characters.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable

from svc.query import hints
from svc.query.lexer import Scanner
from svc.query.nodes import (
    AGGREGATE_FUNCTIONS,
    MAX_GROUP_FUNCTIONS,
    MAX_GROUP_KEYS,
    MAX_SORT_KEYS,
    Aggregate,
    Filter,
    Query,
    Select,
    SelectItem,
    SortKey,
)

MAX_DEPTH = 32  # groups, relation filters, calls and braces inside each other
MAX_PATH = 64  # names in a path: each may be a join
MAX_CURSOR = 4096  # characters

_INTEGER = re.compile(r"[0-9]+")
_MAX_DIGITS = 18
_CURSOR = re.compile(r"[A-Za-z0-9_-]+")
_SUSPECT_IN_NAME = re.compile(r"[()\[\]{}|<>!]")
_OF_ONE_TABLE = frozenset(("select", "sort", "limit"))


class Calls:
    """What the calls of one level said; the last of each kind counts."""

    __slots__ = ("after", "aggregate", "counted", "limit", "live", "offset", "select", "sort", "whole")

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole  # calls of the whole query, not of a relation filter
        self.select: Select | None = None
        self.sort: tuple[SortKey, ...] = ()
        self.offset = 0
        self.limit: int | None = None
        self.aggregate: Aggregate | None = None
        self.after: str | None = None
        self.live = False
        self.counted = False

    def query(self, where: Filter | None) -> Query:
        return Query(
            where,
            self.select,
            self.sort,
            self.offset,
            self.limit,
            aggregate=self.aggregate,
            after=self.after,
            live=self.live,
            counted=self.counted,
        )


class CallReader(ABC):
    """A scanner, the brackets that are open in it, and one method for each rule of the grammar of calls."""

    __slots__ = ("_open", "_parentheses", "_scanner", "suspect_name")

    def __init__(self, text: str) -> None:
        self._scanner = Scanner(text)
        self._open: list[tuple[str, int]] = []  # brackets and where they stand
        self._parentheses = 0  # open ones, calls included: values then end at a parenthesis
        self.suspect_name = False  # a decoded attribute name holds an operator character

    @abstractmethod
    def _relation_query(self) -> Query:
        """`[...]` of a relation filter: conditions and calls of its own."""

    def _call(self, name: str, position: int, calls: Calls | None) -> None:
        """Read the call `name`, whose parenthesis comes next, into `calls`; None: there can be none here."""
        scanner = self._scanner
        if name not in hints.CALLS:
            raise scanner.error(f"unknown call '{_short(name)}'", position, hints.for_call(name))
        if calls is None:
            raise scanner.error(f"'{name}(...)' inside a group", position, "join calls to the whole query with &")
        if not calls.whole and name not in _OF_ONE_TABLE:
            raise scanner.error(f"'{name}(...)' inside a relation filter", position, "it belongs to the whole query")
        self._enter("(")
        if name == "limit":
            calls.offset, calls.limit = self._limit()
        elif name == "select":
            calls.select = self._selection()
        elif name == "sort":
            calls.sort = self._sort_keys()
        elif name == "after":
            calls.after = self._cursor()
        elif name == "live":
            if scanner.peek() != ")":
                raise scanner.unexpected("')'", "live() takes nothing")
            calls.live = True
        else:
            if calls.aggregate is not None:
                raise scanner.error(f"a second aggregate, '{name}(...)'", position, "a query has one of count, facet and group")
            calls.aggregate = self._aggregate(name)
        self._leave(")")
        if calls.aggregate is not None and (calls.select is not None or calls.after is not None):
            other = "select" if calls.select is not None else "after"
            raise scanner.error(f"'{calls.aggregate.kind}(...)' together with '{other}(...)'", position, "an aggregate has rows of its own")
        if calls.live and calls.after is not None:
            raise scanner.error("'live()' together with 'after(...)'", position, "what is live has no pages")

    def _limit(self) -> tuple[int, int | None]:
        """`limit(n)`: the first n. `limit(a,b)`: skip a, up to position b; `limit(a,)`: skip a. Returns (offset, limit)."""
        first = self._integer()
        if not self._scanner.take_encodable(","):
            return 0, first
        if self._scanner.peek() == ")":
            return first, None
        position = self._scanner.position
        end = self._integer()
        if end < first:
            raise self._scanner.error("the end of a limit before its start", position, "limit(start,end)")
        return first, end - first

    def _integer(self) -> int:
        scanner = self._scanner
        found = _INTEGER.match(scanner.text, scanner.position)
        if found is None:
            raise scanner.unexpected("a number that is not negative", "limit(count) or limit(start,end)")
        if found.end() - found.start() > _MAX_DIGITS:
            raise scanner.error(f"a number of more than {_MAX_DIGITS} digits")
        scanner.position = found.end()
        return int(found.group())

    def _sort_keys(self) -> tuple[SortKey, ...]:
        scanner = self._scanner
        keys: list[SortKey] = []
        while True:
            if len(keys) == MAX_SORT_KEYS:
                raise scanner.error(f"more than {MAX_SORT_KEYS} attributes to sort by")
            position = scanner.position
            descending = scanner.take("-")
            if not descending:
                scanner.take_encodable("+")
            keys.append(SortKey(self._path_in_call(), descending, position))
            if not scanner.take_encodable(","):
                return tuple(keys)

    def _selection(self) -> Select:
        scanner = self._scanner
        if scanner.peek() == "[":
            self._enter("[")
            items, _ = self._items("")
            self._leave("]")
            return Select(items, "array")
        items, trailing_comma = self._items(")")
        bare = len(items) == 1 and not trailing_comma and items[0].path != ("*",)
        return Select(items, "value" if bare else "object")

    def _items(self, closing: str) -> tuple[tuple[SelectItem, ...], bool]:
        """Items up to `closing` (not consumed), and whether a comma stood before it, where one may."""
        scanner = self._scanner
        items = []
        while True:
            items.append(self._item())
            if not scanner.take_encodable(","):
                return tuple(items), False
            if closing and (scanner.at_encodable(closing) if closing == "}" else scanner.peek() == closing):
                return tuple(items), True

    def _item(self) -> SelectItem:
        scanner = self._scanner
        position = scanner.position
        path = self._path_in_call()
        braces = scanner.at_encodable("{")
        if not braces and scanner.peek() != "[":
            return SelectItem(path, position=position)
        if len(path) > 1:
            raise scanner.unexpected("',' or ')'", "nested selections are nested: a{b{...}}")
        if not braces:
            return SelectItem(path, query=self._relation_query(), position=position)
        self._enter("{")
        items, _ = self._items("}")
        self._leave("}")
        return SelectItem(path, nested=Select(items), position=position)

    def _aggregate(self, kind: str) -> Aggregate:
        """What stands in the parentheses of `count()`, `facet(a)` and `group(a,b;count,sum(x))`."""
        scanner = self._scanner
        if kind == "count":
            if scanner.peek() != ")":
                raise scanner.unexpected("')'", "facet(a) counts by the values of an attribute")
            return Aggregate("count")
        if kind == "facet":
            return Aggregate("facet", (self._path(scanner.name),))
        keys: list[tuple[str, ...]] = []
        total = scanner.at_encodable(";") > 0  # no keys: all records are one group
        while not total and (not keys or scanner.take_encodable(",")):
            position = scanner.position
            path = self._path(scanner.name_in_group)
            if path in keys:
                raise scanner.error(f"'{_short('.'.join(path))}' a second time", position)
            if len(keys) == MAX_GROUP_KEYS:
                raise scanner.error(f"more than {MAX_GROUP_KEYS} attributes to group by", position)
            keys.append(path)
        functions: list[tuple[str, tuple[str, ...] | None]] = []
        if scanner.take_encodable(";") and (total or scanner.peek() != ")"):
            while not functions or scanner.take_encodable(","):
                position = scanner.position
                function = self._function()
                if function in functions:
                    raise scanner.error(f"'{function[0]}' a second time", position)
                if len(functions) == MAX_GROUP_FUNCTIONS:
                    raise scanner.error(f"more than {MAX_GROUP_FUNCTIONS} functions", position)
                functions.append(function)
        return Aggregate("group", tuple(keys), tuple(functions) or (("count", None),))

    def _function(self) -> tuple[str, tuple[str, ...] | None]:
        scanner = self._scanner
        position = scanner.position
        name = scanner.name_in_group()
        if name not in AGGREGATE_FUNCTIONS:
            known = f"functions are {', '.join(AGGREGATE_FUNCTIONS)}"
            if not name:
                raise scanner.unexpected("a function", known)
            raise scanner.error(f"unknown function '{_short(name)}'", position, hints.did_you_mean(name, AGGREGATE_FUNCTIONS) or known)
        if name == "count":
            if scanner.peek() == "(":
                raise scanner.unexpected("',' or ')'", "count counts records and takes no attribute")
            return name, None
        if scanner.peek() != "(":
            raise scanner.unexpected("'('", f"{name} needs an attribute: {name}(a)")
        self._enter("(")
        path = self._path(scanner.name_in_group)
        self._leave(")")
        return name, path

    def _cursor(self) -> str:
        scanner = self._scanner
        found = _CURSOR.match(scanner.text, scanner.position)
        if found is None or not is_cursor(found.group()):
            raise scanner.error("expected a cursor", hint=f"at most {MAX_CURSOR} of A-Z a-z 0-9 _ -, exactly as the server returned it")
        scanner.position = found.end()
        return found.group()

    # pieces

    def _path_in_call(self) -> tuple[str, ...]:
        return self._path(self._scanner.name_in_call)

    def _path(self, read_name: Callable[[], str]) -> tuple[str, ...]:
        first = self._required_name(read_name)
        if self._scanner.peek() != ".":
            return (first,)
        return self._rest_of_path(first, read_name)

    def _rest_of_path(self, first: str, read_name: Callable[[], str]) -> tuple[str, ...]:
        scanner = self._scanner
        names = [first]
        while scanner.take("."):
            if len(names) == MAX_PATH:
                raise scanner.error(f"a path of more than {MAX_PATH} names")
            names.append(self._required_name(read_name))
        return tuple(names)

    def _required_name(self, read_name: Callable[[], str]) -> str:
        scanner = self._scanner
        position = scanner.position
        raw = read_name()
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
        """Consume an opening bracket that comes next."""
        scanner = self._scanner
        if len(self._open) == MAX_DEPTH:
            raise scanner.error(f"nesting deeper than {MAX_DEPTH} levels")
        self._open.append((opening, scanner.position))
        if opening == "(":
            self._parentheses += 1
        if opening == "{":
            scanner.take_encodable("{")
        else:
            scanner.position += 1

    def _leave(self, closing: str) -> None:
        """Consume the closing bracket that must come next."""
        scanner = self._scanner
        if not (scanner.take_encodable(closing) if closing == "}" else scanner.take(closing)):
            raise scanner.unexpected(self._closing())
        self._open.pop()
        if closing == ")":
            self._parentheses -= 1

    def _closing(self) -> str:
        """What closes the innermost open bracket, and which one that is, as an error says it."""
        opening, position = self._open[-1]
        return f"'{_CLOSING[opening]}' to close the '{opening}' at position {position}"


_CLOSING = {"(": ")", "[": "]", "{": "}"}


def is_cursor(text: str) -> bool:
    """Whether the text has the form of a cursor."""
    return len(text) <= MAX_CURSOR and _CURSOR.fullmatch(text) is not None


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "..."
