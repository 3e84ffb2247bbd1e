"""Which requests a listener of an application is for: those of a host, of a path, of a scheme (spec: http §12.3).

Paths are compared segment by segment and percent-decoded, so that no other spelling of a segment gets past a listener that guards it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from svc.messages import Request


@dataclass(frozen=True, slots=True)
class Route:
    """`host`: in lower case, without port and brackets, "" for all. `segments`: of the path, decoded. `scheme`: "http", "https", "" for both."""

    host: str = ""
    segments: tuple[str, ...] = ()
    scheme: str = ""

    @property
    def is_open(self) -> bool:
        """Whether all requests match."""
        return not (self.host or self.segments or self.scheme)

    @property
    def particular(self) -> tuple[int, ...]:
        """A larger one is more particular: host and path, host, longer path, shorter path. () without either."""
        return (bool(self.host), len(self.segments)) if self.host or self.segments else ()

    def rest_of(self, request: Request) -> str | None:
        """The path without that of the route, or None if the request is not for it."""
        if self.scheme and request.scheme != self.scheme:
            return None
        if self.host and host_name(request.host) != self.host:
            return None
        return rest_of_path(request.pathname, self.segments)

    def is_extended(self, request: Request) -> bool:
        """Whether the path is that of the route with an extension, `/Product.csv`: where resources answer that is another spelling of it."""
        segments = self.segments
        path = request.pathname
        if not segments or ("." not in path and "%" not in path) or (self.scheme and request.scheme != self.scheme):
            return False
        found = path[1:].split("/", len(segments))
        last = unquote(found[-1])
        size = len(segments[-1])
        if len(found) != len(segments) or not last.startswith(f"{segments[-1]}.") or last[size + 1 : size + 2].isdigit():
            return False
        return all(map(str.__eq__, segments[:-1], map(unquote, found))) and (not self.host or host_name(request.host) == self.host)

    def may_match(self, request: Request) -> bool:
        """Whether the request is for it, or may be found to be."""
        return self.rest_of(request) is not None or self.is_extended(request)

    def path_inside(self, request: Request, knows: Callable[[Request], bool]) -> str | None:
        """The path that a listener for it sees, or None if the request is not for it. `knows`: whether a resource answers at the whole path."""
        rest = self.rest_of(request)
        return "/" if rest is None and self.is_extended(request) and knows(request) else rest


ANYWHERE = Route()


def make_route(host: object = None, url_path: object = None, scheme: str = "", *, base: Route = ANYWHERE, app: str = "") -> Route:
    """A route of options. `base`: where the application is mounted: its host wins, the path is appended to its path. `app`: what `.` in a path means.

    Raises TypeError or ValueError.

    >>> make_route("[::1]:80", "/shop/").host, make_route(None, "./x", app="boxoffice").segments
    ('::1', ('boxoffice', 'x'))
    """
    if host is not None and not isinstance(host, str):
        raise TypeError(f"host must be a string, not {host!r}")
    if url_path is not None and not isinstance(url_path, str):
        raise TypeError(f"url_path must be a string, not {url_path!r}")
    path = (url_path or "").strip()
    if "?" in path or "#" in path:
        raise ValueError(f"url_path is a path alone, without query: {url_path!r}")
    if path == "." or path.startswith("./"):
        path = app + path[1:]
    segments = tuple(unquote(segment) for segment in path.strip("/").split("/")) if path.strip("/") else ()
    if any(segment in ("", ".", "..") or "/" in segment for segment in segments):
        raise ValueError(f"url_path must have no empty segments, and neither '.' nor '..': {url_path!r}")
    name = base.host or host_name((host or "").strip())
    return Route(name, base.segments + segments, scheme)


def host_name(host: str) -> str:
    """The name or address of `name[:port]`, in lower case, without brackets; an IPv6 address may also come bare.

    >>> host_name("[::1]:9926"), host_name("::1"), host_name("Shop.Example.:80"), host_name("shop")
    ('::1', '::1', 'shop.example', 'shop')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    if host.count(":") > 1:
        return host.lower()
    return host.partition(":")[0].rstrip(".").lower()


def rest_of_path(path: str, segments: tuple[str, ...]) -> str | None:
    """What follows `segments` in a raw path, "/" if that is nothing; None if it does not begin with them.

    >>> rest_of_path("/shop/a/b", ("shop",)), rest_of_path("/sh%6Fp", ("shop",)), rest_of_path("/shopping", ("shop",))
    ('/a/b', '/', None)
    """
    if not segments:
        return path
    if path[:1] != "/":
        return None
    found = path[1:].split("/", len(segments))
    if len(found) < len(segments):
        return None
    for wanted, segment in zip(segments, found, strict=False):
        if wanted != segment and wanted != unquote(segment):
            return None
    return "/" + found[len(segments)] if len(found) > len(segments) else "/"
