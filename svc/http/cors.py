"""Cross-origin requests (CORS): the header fields that allow pages of other origins to send requests and read answers (spec: http §9).

listed            its name, with credentials if there are sessions
foreign, admitted `*`: the answers to anonymous requests, and to those with a Bearer token
own, others       no fields: browsers then block the page
"""

from __future__ import annotations

from svc.auth.origin_policy import OriginPolicy, Relation
from svc.messages import HeaderPairs, Request, Response

METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, QUERY"
EXPOSED = "ETag, Location, Link, Last-Modified, Server-Timing, X-Total-Count, X-Deleted-Count, X-Svc-Session"
OPERATIONS_METHODS = "POST, GET, PUT, DELETE, PATCH, OPTIONS"
_DECISION = len("Access-Control-Allow-Origin")
MAX_AGE = "600"  # seconds a browser may keep a preflight's answer


class Cors:
    """`credentials`: whether there are sessions, whose cookies the pages of listed origins may send."""

    def __init__(self, origins: OriginPolicy, allow_headers: str = "", *, credentials: bool = True, methods: str = METHODS) -> None:
        self._origins = origins
        self._allow_headers = allow_headers
        self._credentials = credentials
        self._methods = methods

    def preflight(self, request: Request) -> Response | None:
        """The answer to a preflight, before authentication; None if the request is not a preflight, or its origin is not admitted."""
        fields = request.block.fields
        if request.method != "OPTIONS" or "origin" not in fields or "access-control-request-method" not in fields:
            return None
        response = Response(status=200)
        pairs = response.pairs
        if not self._admit(request, pairs):
            return None
        pairs += [
            ("Access-Control-Allow-Methods", self._methods),
            ("Access-Control-Allow-Headers", self._allow_headers),
            ("Access-Control-Max-Age", MAX_AGE),
        ]
        if self._origins.lists_any:
            pairs.append(("Vary", "Origin"))
        return response

    def decorate(self, request: Request, pairs: HeaderPairs) -> None:
        """Add the fields of an actual answer, errors included, to a request with an `Origin`; none if code of an application has decided."""
        if any(len(name) == _DECISION and name.lower() == "access-control-allow-origin" for name, _ in pairs):
            return
        if self._admit(request, pairs):
            pairs.append(("Access-Control-Expose-Headers", EXPOSED))
        if not self._origins.lists_any:
            return
        for position, (name, value) in enumerate(pairs):
            if name == "Vary":
                pairs[position] = ("Vary", value + ", Origin")
                return
        pairs.append(("Vary", "Origin"))

    def _admit(self, request: Request, pairs: HeaderPairs) -> bool:
        relation = self._origins.relation(request)
        if relation is Relation.LISTED:
            pairs.append(("Access-Control-Allow-Origin", request.block.fields["origin"]))
            if self._credentials:
                pairs.append(("Access-Control-Allow-Credentials", "true"))
            return True
        if relation is Relation.FOREIGN and self._origins.admits_foreign:
            pairs.append(("Access-Control-Allow-Origin", "*"))
            return True
        return False
