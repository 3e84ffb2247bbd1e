"""Cross-origin requests (contract: http §9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svc.messages import HeaderBlock, HeaderPairs, Request, Response

METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, QUERY"
EXPOSED = "ETag, Last-Modified, Link, Location, Server-Timing, X-Deleted-Count, X-Svc-Session"
OPERATIONS_METHODS = "POST, GET, PUT, DELETE, PATCH, OPTIONS"
MAX_AGE = "600"  # seconds a browser may keep a preflight's answer


@dataclass(frozen=True)
class Cors:
    """`origins`: None = all."""

    enabled: bool = True
    origins: frozenset[str] | None = None
    allow_headers: str = "Accept, Content-Type, Authorization"
    credentials: bool = True
    methods: str = METHODS

    @classmethod
    def from_list(
        cls, enabled: bool, access_list: Sequence[str | None] | None, allow_headers: str, credentials: bool, methods: str = METHODS
    ) -> Cors:
        """`access_list` null, `[null]` or with `*`: every origin."""
        every = not access_list or list(access_list) == [None] or "*" in access_list
        return cls(enabled, None if every else frozenset(str(o) for o in access_list or ()), allow_headers, credentials, methods)

    def admits(self, origin: str) -> bool:
        return self.enabled and (self.origins is None or origin in self.origins)

    def preflight(self, request: Request) -> Response | None:
        """The answer to a preflight, before authentication; None if the request is none."""
        fields = request.block.fields
        origin = fields.get("origin")
        if request.method != "OPTIONS" or origin is None or "access-control-request-method" not in fields or not self.admits(origin):
            return None
        response = Response(status=200)
        pairs = response.pairs
        pairs.append(("Access-Control-Allow-Origin", origin))
        if self.credentials:
            pairs.append(("Access-Control-Allow-Credentials", "true"))
        pairs += [
            ("Access-Control-Allow-Methods", self.methods),
            ("Access-Control-Allow-Headers", self.allow_headers),
            ("Access-Control-Max-Age", MAX_AGE),
            ("Vary", "Origin"),
        ]
        return response

    def decorate(self, block: HeaderBlock, pairs: HeaderPairs) -> None:
        """Add the fields of an actual answer, errors included."""
        origin = block.fields.get("origin")
        if origin is None or not self.admits(origin):
            return
        pairs.append(("Access-Control-Allow-Origin", origin))
        if self.credentials:
            pairs.append(("Access-Control-Allow-Credentials", "true"))
        pairs.append(("Access-Control-Expose-Headers", EXPOSED))
        for position, (name, value) in enumerate(pairs):
            if name == "Vary":
                pairs[position] = ("Vary", value + ", Origin")
                return
        pairs.append(("Vary", "Origin"))
