"""A query as HTTP libraries, forms and generated clients build it -> the same as the language writes it (spec: query §2 rule 3, §8.7).

Both are strings, so everything behind it, shapes and caches too, knows one way to write a query. Positions are led back to what was sent.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

from svc.errors import QueryError, QuerySyntaxError
from svc.query import plain_parameters
from svc.query.encoded_terms import chained_language_of, language_of
from svc.query.nodes import Condition, Filter, Group, Query, Select
from svc.query.plain_parameters import CACHE_BUSTER, PARAMETER, PARAMETERS, QueryParameter
from svc.query.terms import iter_terms, operands

_MAYBE = re.compile(rf"(?:^|&)(?:{'|'.join(PARAMETERS)}|_)=|%28|%3[CDE]|%21|%5[BD]=|[)\]]=(?:&|$)|(?:^|&)[^&=]*\+[^&=]*=", re.IGNORECASE)
_CALL = re.compile(r"(select|sort|limit|after|live|facet|group)\(")


class Form:
    """`text`: the query in the language. `sent`: as it came."""

    __slots__ = ("_begins", "_origins", "sent", "text")

    def __init__(self, sent: str, terms: list[tuple[int, str, bool]]) -> None:
        """`terms`: (where it stands in `sent`, the term in the language, whether it is the same there)."""
        self.sent = sent
        self.text = "&".join([term for _, term, _ in terms])
        self._begins: list[int] = []
        self._origins: list[tuple[int, bool]] = []
        begin = 0
        for position, term, same in terms:
            self._begins.append(begin)
            self._origins.append((position, same))
            begin += len(term) + 1

    def position(self, position: int) -> int:
        """Where in `sent` stands what is at `position` in `text`: the beginning of its term, if that was written otherwise."""
        at = bisect_right(self._begins, position) - 1
        if at < 0:
            return position
        origin, same = self._origins[at]
        return origin + position - self._begins[at] if same else origin

    def located(self, error: QueryError) -> QueryError:
        """An error in `text`, as one in `sent`."""
        if error.position is None:
            return error
        position = self.position(error.position)
        if isinstance(error, QuerySyntaxError):
            return QuerySyntaxError(error.what, position, self.sent, error.hint, code=error.code)
        error.position = position
        return error

    def locate(self, query: Query) -> Query:
        """Lead the positions of all nodes of `query` back, which was made of `text` and nothing else refers to yet."""
        if query.where is not None:
            self._locate_filter(query.where)
        for key in query.sort:
            key.position = self.position(key.position)
        if query.select is not None:
            self._locate_select(query.select)
        return query

    def _locate_filter(self, node: Filter) -> None:
        node.position = self.position(node.position)
        if isinstance(node, Group):
            for member in node.members:
                self._locate_filter(member)
        elif not isinstance(node, Condition):
            self.locate(node.query)

    def _locate_select(self, select: Select) -> None:
        for item in select.items:
            item.position = self.position(item.position)
            if item.nested is not None:
                self._locate_select(item.nested)
            if item.query is not None:
                self.locate(item.query)


def may_be_form(text: str) -> bool:
    """Whether there is something in it that the language does not write so."""
    return ("%" in text or "_" in text or "+" in text or ")=" in text or "]=" in text) and _MAYBE.search(
        text
    ) is not None  # the first costs a twentieth


def maybe_form(text: str, is_declared: Callable[[str], bool]) -> Form | None:
    """None for a query that is in the language already. Raises QuerySyntaxError, with positions in `text`.

    >>> maybe_form("select%28id%2Cname%29=&price%3Dgt=5&_limit=20&_offset=40", str.isspace).text
    'select(id,name)&price=gt=5&limit(40,60)'
    """
    if not may_be_form(text):
        return None
    terms: list[tuple[int, str, bool]] = []
    given: dict[str, QueryParameter] = {}
    places: dict[str, int] = {}  # in `terms`
    called: set[str] = set()
    chainable = changed = False
    for start, end in iter_terms(text):
        found = PARAMETER.match(text, start)
        if found is not None:
            name = found[1]
            if name not in given:
                given[name] = QueryParameter(name, start, text)
                plain_parameters.refuse_declared(given[name], is_declared)
                places[name] = len(terms)
                terms.append((start, "", False))
            given[name].add(found[2])
            chainable = False
            continue
        term = text[start:end]
        if CACHE_BUSTER.fullmatch(term) is not None and not is_declared("_"):
            changed = True
            chainable = False
            continue
        read = language_of(term, is_declared) or (chained_language_of(term) if chainable else term)
        chainable = read != term
        changed = changed or chainable
        terms.append((start, read, read == term))
        called.update(call[1] for operand in operands(read) if (call := _CALL.match(operand)) is not None)
    if not given:
        return Form(text, terms) if changed else None
    for name, parameter in given.items():
        if PARAMETERS[name] in called:
            raise parameter.error(f"{name} beside {PARAMETERS[name]}(...)", "one of them says it")
    for name, term in plain_parameters.language_of(given).items():
        terms[places[name]] = (terms[places[name]][0], term, False)
    return Form(text, [term for term in terms if term[1]])
