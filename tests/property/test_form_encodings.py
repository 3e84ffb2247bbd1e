"""Queries whose terms are sent as parameters, encoded as HTTP libraries do it, beside the same terms in the language: the nodes are the same."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import parse_qsl, quote, unquote, urlencode

import httpx
import requests
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.query import parse_query, print_query
from svc.query.nodes import Query
from svc.query.plain_parameters import PARAMETERS
from svc.query.terms import iter_terms
from tests.property.test_query import whole_queries
from tests.support.profile import examples, half_by_day

CONDITION = re.compile(r"([^&|=<>!()\[\]{}]*?)((?:=[a-z]{2}|=|=|!|==|<|>|!=|))=([^=|()\[\]{}]*)")
KEPT_BY_AXIOS = {"%3A": ":", "%24": "$", "%2C": ",", "%20": "+", "%5B": "[", "%5D": "]"}


def by_httpx(pairs: list[tuple[str, str]]) -> str:
    return httpx.URL("http://x/", params=pairs).query.decode()


def by_requests(pairs: list[tuple[str, str]]) -> str:
    return (requests.Request("GET", "http://x/", params=pairs).prepare().url or "").partition("?")[2]


def by_url_search_params(pairs: list[tuple[str, str]]) -> str:
    """The serializer of WHATWG: all but letters, digits and `*-._`."""
    return urlencode(pairs, safe="*-._").replace("~", "%7E")


def by_axios(pairs: list[tuple[str, str]]) -> str:
    """`encodeURIComponent`, some of it undone."""

    def encoded(text: str) -> str:
        return re.sub("|".join(KEPT_BY_AXIOS), lambda found: KEPT_BY_AXIOS[found[0]], quote(text, safe="-_.!~*'()"))

    return "&".join([f"{encoded(name)}={encoded(value)}" for name, value in pairs])


ENCODERS = [by_httpx, by_requests, by_url_search_params, urlencode, by_axios]


def parameters_of(text: str) -> list[tuple[str, str]]:
    """What a user of a library writes for a query: a parameter for each term."""
    pairs = []
    for start, end in iter_terms(text):
        term = text[start:end]
        found = CONDITION.fullmatch(term)
        pairs.append((term, "") if found is None else (unquote(found[1]) + found[2], unquote(found[3])))
    return pairs


def is_plain(text: str) -> bool:
    """Whether its names can be parameters, and its values have no type in front of them: that is language, which libraries encode."""
    terms = [CONDITION.fullmatch(text[start:end]) for start, end in iter_terms(text)]
    names = [unquote(found[1]) for found in terms if found is not None]
    if not text:
        return False
    values = [found[3] for found in terms if found is not None]
    return not any(re.search(r"[=&|<>!()\[\]{}.+%*,]", name) for name in names) and not any(
        re.match("(?:number|boolean|string|date):|%6Eull", value) or value.endswith("*") for value in values
    )


@given(whole_queries().map(print_query).filter(is_plain), st.sampled_from(ENCODERS))
@example("price=gt=5&name==a%26b%20%2B&sort(-a,b)&limit(3,5)&select(id,brand{name})", by_httpx)
@example("[a=1|b==x%5D]&c!=1&select(a,)", by_requests)
@example("a=ge=1&=lt=2&group(a;count,sum(b))", by_axios)
@example("a[b=1&limit(2)]&select([a,b])", urlencode)
@settings(max_examples=half_by_day(150))
def test_parameters_say_what_the_query_says(text, encode):
    sent = encode(parameters_of(text))
    assert parse_query(sent) == parse_query(text), sent


def plain_parameters(query: Query) -> list[tuple[str, str]]:
    """The calls of a query as plain parameters, its conditions as one `_where`."""
    pairs = []
    if query.where is not None:
        pairs.append(("_where", print_query(Query(query.where))))
    if query.limit is not None or query.offset:
        pairs.append(("_offset", str(query.offset)))
        pairs += [] if query.limit is None else [("_limit", str(query.limit))]
    rest = print_query(Query(None, query.select, query.sort, aggregate=query.aggregate, after=query.after, live=query.live))
    for start, end in iter_terms(rest):
        call, _, inside = rest[start:end].partition("(")
        if call == "count":
            pairs.append(("count()", ""))
        elif call:
            pairs.append((f"_{call}", "true" if call == "live" else inside[:-1]))
    return pairs


@given(whole_queries(), st.sampled_from(ENCODERS))
@settings(max_examples=half_by_day(100))
def test_plain_parameters_say_what_the_query_says(query, encode):
    pairs = plain_parameters(query)
    where = None if query.where is None else parse_query(f"[{print_query(Query(query.where))}]").where
    assert parse_query(encode(pairs)) == replace(query, where=where), pairs


SANE = st.sampled_from(["a", "price", "first name", "brand.name", "é"])
OPERATORS = st.sampled_from(["", "=", "==", "=eq", "=sw", "=ct", "=ne", "!", "!="])


VALUES = st.text(min_size=1, max_size=12).filter(lambda text: text != "null")


@given(st.lists(st.tuples(SANE, OPERATORS, VALUES), min_size=1, max_size=4, unique_by=lambda condition: condition[:2]), st.data())
@settings(max_examples=examples(150))
def test_no_value_says_anything_but_itself(conditions, data):
    """Whatever an application puts into the values of its parameters: there are as many conditions as parameters, with these values."""
    calls = data.draw(st.lists(st.sampled_from([("_limit", "3"), ("select(id,name)", ""), ("sort(-price)", "")]), unique=True))
    encode = data.draw(st.sampled_from([by_httpx, by_requests, urlencode]))  # of several pairs with one name httpx moves the later ones
    pairs = [(name + operator, value) for name, operator, value in conditions] + calls
    sent = encode(pairs)
    assert len(parse_qsl(sent, keep_blank_values=True)) == len(pairs)
    where = parse_query(sent, {"first name"}.__contains__).where
    members = where.members if len(conditions) > 1 else (where,)
    assert [(member.path, member.value) for member in members] == [(tuple(name.split(".")), value) for name, _, value in conditions]


def test_all_parameters_are_tried():
    query = parse_query("a=1&sort(a)&limit(1,2)&select(a)&after(x)")
    names = {name for name, _ in plain_parameters(query)}
    names |= {name for text in ("facet(a)", "group(a)", "live()") for name, _ in plain_parameters(parse_query(text))}
    assert names == set(PARAMETERS) - {"_count"}
