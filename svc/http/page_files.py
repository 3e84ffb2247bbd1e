"""Files that pages in a browser need: style, scripts, pictures, whole pages. They lie in the package and are read once.

Nothing in them depends on who asks. What they are sent with keeps a page from loading or running anything else (Content Security Policy, Level 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from svc.http.compression import Compression
from svc.http.conditional import CODINGS, coded_tag, parse_tags
from svc.messages import HeaderPairs, Request, Response

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
REVALIDATED = "no-cache"
"""`Cache-Control` of a file whose address stays when its content changes."""
IMMUTABLE = "public, max-age=31536000, immutable"
"""`Cache-Control` of a file whose address names its content."""
_TAG_LENGTH = 32  # characters


def security_pairs(policy: str, *, referrer: str = "no-referrer") -> HeaderPairs:
    """The header fields that say what a page may do. `policy`: a Content-Security-Policy. `referrer`: what it tells other addresses of its own."""
    return [
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", referrer),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ]


@dataclass(frozen=True, slots=True)
class PageFile:
    """`media_type`: with its charset. `tag`: the entity tag without quotes. `fields`: of an answer with or without the body, besides `ETag`."""

    body: bytes
    media_type: str
    tag: str
    fields: tuple[tuple[str, str], ...]

    def pairs(self) -> HeaderPairs:
        """The header fields of an answer that has no body, or this one."""
        return [("ETag", f'"{self.tag}"'), *self.fields]

    def is_known_to(self, request: Request) -> bool:
        """Whether the client has this version (RFC 9110 §13.1.2), with a content coding or without one."""
        tags = parse_tags(request.block.get("if-none-match") or "", weak_counts=True)
        return tags == "*" or any(tag in tags for tag in (self.tag, *(coded_tag(self.tag, name) for name in CODINGS)))

    def response(self, request: Request, compression: Compression) -> Response:
        """The answer to a GET or HEAD."""
        if self.is_known_to(request):
            return Response(None, 304, pairs=self.pairs())
        return compression.apply(request, Response(self.body, 200, pairs=[("Content-Type", self.media_type), *self.pairs()]))


def read_file(path: Path, security: HeaderPairs, *, vary: str = "Accept-Encoding", cache: str = REVALIDATED) -> PageFile:
    """`vary`: which fields of a request decide that it is sent. `cache`: its `Cache-Control`."""
    return page_file(path.read_bytes(), path.suffix, security, vary=vary, cache=cache)


def page_file(body: bytes, suffix: str, security: HeaderPairs, *, vary: str = "Accept-Encoding", cache: str = REVALIDATED) -> PageFile:
    """`suffix`: of a name, which says its type. The others: as of `read_file`."""
    fields = (("Cache-Control", cache), ("Vary", vary), *security)
    return PageFile(body, f"{TYPES[suffix]}; charset=utf-8", sha256(body).hexdigest()[:_TAG_LENGTH], fields)
