"""What a request asks for: `query`, `operationName`, `variables` of its address or of its body (spec: graphql §1)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from svc.content.json_type import decode_json
from svc.errors import BadBody
from svc.graphql.faults import RequestFault

_MOST_FIELDS = 100  # of an address; those that have no meaning are ignored
_KEPT_LENGTH = 2048  # characters of a field that is kept


class Parameters:
    """`operation_name` None: the only operation. `variables` None: none are given."""

    __slots__ = ("operation_name", "query", "variables")

    def __init__(self, query: Any, operation_name: Any, variables: Any) -> None:
        """Raises RequestFault for values of other types."""
        if not isinstance(query, str) or not query:
            what = "is missing" if query is None or query == "" else "must be a string"
            raise RequestFault(f"'query' {what}: it is the GraphQL document")
        if operation_name is not None and not isinstance(operation_name, str):
            raise RequestFault("'operationName' must be a string or null")
        if variables is not None and not isinstance(variables, Mapping):
            raise RequestFault("'variables' must be an object or null")
        self.query = query
        self.operation_name: str | None = operation_name
        self.variables: Mapping[str, Any] | None = variables


def from_address(query_string: str | None) -> Parameters:
    """Of a GET. Raises RequestFault."""
    fields = [field for field in (query_string or "").split("&") if field]
    if len(fields) > _MOST_FIELDS:
        raise RequestFault(f"The query string has more than {_MOST_FIELDS} fields")
    found: dict[str, str] = {}
    try:
        for field in fields:
            name, value = _kept_field(field) if len(field) <= _KEPT_LENGTH else _decoded_field(field)
            if name in found:
                raise RequestFault(f"'{name[:40]}' is given twice")
            found[name] = value
    except UnicodeDecodeError:
        raise RequestFault("The query string is not UTF-8 after percent-decoding") from None
    variables = _json_object(found, "variables")
    _json_object(found, "extensions")
    return Parameters(found.get("query"), found.get("operationName"), variables)


def _decoded_field(field: str) -> tuple[str, str]:
    """(name, value). Raises UnicodeDecodeError.

    >>> _decoded_field("query=%7Ba%7D+%C3%A4"), _decoded_field("query")
    (('query', '{a} ä'), ('query', ''))
    """
    name, _, value = field.replace("+", " ").partition("=")
    return unquote(name, errors="strict"), unquote(value, errors="strict")


# Decoding takes as long as a look-up of a record, and clients send the same documents again, with other variables.
_kept_field = lru_cache(512)(_decoded_field)


def is_query_given(query_string: str | None) -> bool:
    """Whether an address has the parameter `query`, if only an empty one.

    >>> is_query_given("operationName=A&query={a}"), is_query_given("query"), is_query_given("q=query"), is_query_given(None)
    (True, True, False, False)
    """
    return query_string is not None and any(field.partition("=")[0] == "query" for field in query_string.split("&"))


def _json_object(fields: Mapping[str, str], name: str) -> Any:
    """The value of a field that holds JSON; None if it is not there, or empty."""
    text = fields.get(name)
    if not text:
        return None
    try:
        return decode_json(text.encode("utf-8", "surrogatepass"))
    except BadBody as error:
        raise RequestFault(f"'{name}' is no JSON: {error.message}") from None


def from_body(value: Any) -> Parameters:
    """Of the decoded body of a POST. Raises RequestFault."""
    if type(value) is not dict:
        raise RequestFault(
            "The body must be an object with 'query'" + ("; a list of requests is not supported" if type(value) is list else "")
        )
    return Parameters(value.get("query"), value.get("operationName"), value.get("variables"))
