"""Terms that an HTTP library has encoded (spec: query §2 rule 3): the keys of its parameters are language, their values are values.

    {"select(id,name)": ""}     select%28id%2Cname%29=      select(id,name)
    {"price=gt": "a b"}         price%3Dgt=a+b              price=gt=a%20b
    {"[a=1|b=2]": ""}           %5Ba%3D1%7Cb%3D2%5D=        [a=1|b=2]

Libraries differ in what they encode: all but letters and digits (httpx, requests, URLSearchParams), not the parentheses (axios), only `<` and `>`
(browsers, in an address). A key whose value is empty is decoded once, and is then the term; of a key with a value only the operator at its end is decoded.
The value stays as it is, encoded, so it is read as data.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote, unquote_plus

from svc.query.terms import is_one_bracket

_NAME = "[^&|=<>!()\\[\\]{}]"
_OPERATOR_IN_KEY = re.compile(rf"({_NAME}*?)(%3D(?:[A-Za-z]+|%3D)?|%21(?:%3D)?|%3C|%3E|%5B%5D)", re.IGNORECASE)
_CHAINED_IN_KEY = re.compile("%3D(?:lt|le|gt|ge)", re.IGNORECASE)
_CHAINED = re.compile("(?:lt|le|gt|ge)=[^=]*")
_COMPARED_BY_SIGN = re.compile(rf"({_NAME}+?)(%3C|%3E)((?:%3D)?)({_NAME}+)", re.IGNORECASE)
_CALL = re.compile(rf"([a-z]+)%28({_NAME}*)%29", re.IGNORECASE)
_BRACKETED = re.compile(rf"{_NAME}*[(\[].*[)\]]", re.DOTALL)
_SORT_SIGN = re.compile(r"(sort(?:\(|%28)|,|%2C)\+", re.IGNORECASE)
_SAYS_SOMETHING = re.compile("[=<>(]")


def language_of(term: str, is_declared: Callable[[str], bool]) -> str | None:
    """The term as the language writes it; None if it is not encoded in one of these ways, or a declared attribute has this name.

    >>> language_of("select%28id%2Cname%29=", str.isspace), language_of("price%3Dgt=a+b", str.isspace), language_of("price%3Cx=5", str.isspace)
    ('select(id,name)', 'price=gt=a%20b', None)
    """
    key, mark, value = term.partition("=")
    if not mark:
        return _without_value(key)
    if "+" in key and not is_declared(unquote(key)) and is_declared(unquote_plus(key)):
        return f"{spaces(key)}={value}"
    if "=" in value or is_declared(unquote_plus(key)):
        return None
    if not value:
        bracketed = _bracketed(key)
        if bracketed is not None:
            return bracketed
    found = _OPERATOR_IN_KEY.fullmatch(key)
    if found is None or not (found[1] or _CHAINED_IN_KEY.fullmatch(key)):
        return None
    operator = unquote(found[2])
    name = spaces(found[1])
    # Browsers encode these two on their own, and leave the plus sign of a date beside its colons; libraries encode the colons too.
    if operator == "[]" or (operator in "<>" and ":" in value):
        return f"{name}{operator}={value}"
    return f"{name}{operator}={spaces(value)}"


def chained_language_of(term: str) -> str:
    """The same for the term behind an encoded one, whose range it may continue: `lt=5`."""
    return spaces(term) if _CHAINED.fullmatch(term) is not None else term


def spaces(value: str) -> str:
    """The plus signs of a form are spaces."""
    return value.replace("+", "%20")


def decoded_once(text: str) -> str | None:
    """None if the bytes are not UTF-8."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None


def _without_value(key: str) -> str | None:
    found = _CALL.fullmatch(key)
    if found is not None:
        return f"{found[1]}({found[2]})"
    found = _COMPARED_BY_SIGN.fullmatch(key)
    return None if found is None else f"{found[1]}{unquote(found[2] + found[3])}{found[4]}"


def _bracketed(key: str) -> str | None:
    """A key that is a call, a group or a relation filter."""
    text = decoded_once(_SORT_SIGN.sub(r"\1%2B", key).replace("+", "%20"))
    if text is None or _BRACKETED.fullmatch(text) is None or not is_one_bracket(text):
        return None
    if "(" not in text and _SAYS_SOMETHING.search(text) is None:  # `a[]`, `a[b]`
        return None
    return text
