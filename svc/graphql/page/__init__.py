"""The page that a browser gets at `/graphql`: an editor for queries, without a build step and without other hosts (spec: graphql §9).

The files lie beside this module and are read once. `files/page.html` is the page; what it needs has addresses below `ADDRESS`. Nothing in them depends
on who asks: what a user may see comes with the answers to the queries that the page sends.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from svc.http.compression import Compression
from svc.http.conditional import CODINGS, coded_tag, parse_tags
from svc.messages import HeaderPairs, Request, Response

ADDRESS = "/graphql/assets/"

_PAGE = "page.html"
_FILES = Path(__file__).parent / "files"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_TAG_LENGTH = 32  # characters


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page. `media_type`: with its charset. `tag`: the entity tag without quotes. `vary`: which fields of a request decide that it is sent."""

    body: bytes
    media_type: str
    tag: str
    vary: str

    def pairs(self) -> HeaderPairs:
        """The header fields of an answer that has no body, or this one. The files of a page belong together, so a browser asks whether they are as before."""
        return [("ETag", f'"{self.tag}"'), ("Cache-Control", "no-cache"), ("Vary", self.vary), *_SECURITY]

    def is_known_to(self, request: Request) -> bool:
        """Whether the client has this version (RFC 9110 §13.1.2), with a content coding or without one."""
        tags = parse_tags(request.block.get("if-none-match") or "", weak_counts=True)
        return tags == "*" or any(tag in tags for tag in (self.tag, *(coded_tag(self.tag, name) for name in CODINGS)))

    def response(self, request: Request, compression: Compression) -> Response:
        """The answer to a GET or HEAD."""
        if self.is_known_to(request):
            return Response(None, 304, pairs=self.pairs())
        return compression.apply(request, Response(self.body, 200, pairs=[("Content-Type", self.media_type), *self.pairs()]))


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    is_page = path.name == _PAGE
    return Asset(
        body,
        f"{_TYPES[path.suffix]}; charset=utf-8",
        sha256(body).hexdigest()[:_TAG_LENGTH],
        "Accept, Accept-Encoding" if is_page else "Accept-Encoding",  # at the address of the page there are queries, too
    )


_ASSETS = {ADDRESS + path.name: _read(path) for path in sorted(_FILES.iterdir()) if path.suffix in _TYPES}
_THE_PAGE = _ASSETS.pop(ADDRESS + _PAGE)

PATHS = tuple(_ASSETS)
"""Of the files that the page needs."""


def page() -> Asset:
    """The page itself, for requests without a query that prefer HTML."""
    return _THE_PAGE


def asset(path: str) -> Asset | None:
    """The file at an address of `PATHS`; None elsewhere."""
    return _ASSETS.get(path)
