"""How soon a request to a port of the applications is refused under overload (spec: http §14.2): from its first bytes, for nothing else is known of it."""

from __future__ import annotations

from svc.connection.load_shedding import RequestClass
from svc.rest.sql_endpoint import ADDRESS as SQL_ADDRESS

HEALTH = frozenset({"/health", "/ready", "/metrics"})  # exactly: what is below them are others
GRAPHQL = "/graphql"
LONG = 64 * 1024  # bytes of a body, from which on a write is as much work as many
_WRITES = frozenset({"PUT", "POST", "PATCH", "DELETE"})


def class_of_request(method: str, target: str, content: bytes) -> RequestClass:
    """`content`: of the body what is here.

    >>> class_of_request("GET", "/Product/?price=gt=20", b"").name, class_of_request("PUT", "/Product/1", b"{}").name
    ('READ', 'WRITE')
    >>> class_of_request("DELETE", "/Product/?price=gt=20", b"").name, class_of_request("POST", "/sql", b"").name
    ('BULK', 'BULK')
    """
    path, mark, _ = target.partition("?")
    if path in HEALTH:
        return RequestClass.HEALTH
    if path == SQL_ADDRESS:
        return RequestClass.BULK
    if method not in _WRITES:
        return RequestClass.READ
    if path == GRAPHQL:
        return RequestClass.WRITE if b"mutation" in content[:LONG] else RequestClass.READ
    if len(content) > LONG or (mark and method != "POST"):
        return RequestClass.BULK
    return RequestClass.WRITE
