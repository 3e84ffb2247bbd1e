"""Addresses of other ports of this server, as the reader of a page has to write them."""

from __future__ import annotations

from collections.abc import Iterable

from svc.auth.identify import host_name
from svc.messages import Request

_LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))
_ANYWHERE = frozenset(("*", "0.0.0.0", "::", ""))


def neighbour(addresses: Iterable[str], request: Request) -> str:
    """The root of a port that listens at these addresses (`http://127.0.0.1:9925`, `https://*:9927`), seen from where the reader of a page is: at the same
    host; "" where it is not known to be reachable: it listens for programs of this machine only and the reader is elsewhere, or the pages are below a path of a
    proxy. Of several one with the scheme of the page.

    >>> from svc.messages import HeaderBlock
    >>> at = lambda host: Request("GET", "/", HeaderBlock([("host", host)]), b"")
    >>> [neighbour(["http://127.0.0.1:9925"], at(host)) for host in ("localhost:9926", "db.example.org:9926")]
    ['http://localhost:9925/', '']
    >>> neighbour(["https://*:9927", "http://*:9925"], at("db.example.org:9926")), neighbour(["mqtt://*:1883"], at("localhost"))
    ('http://db.example.org:9925/', '')
    """
    reader = host_name(request.host or "")
    if request.prefix or not reader or not all(mark.isalnum() or mark in "-.:_" for mark in reader):
        return ""
    found: list[tuple[bool, str]] = []
    for address in addresses:
        scheme, _, place = address.partition("://")
        host, _, port = place.rpartition(":")
        host = host.strip("[]")
        if scheme not in ("http", "https") or not port.isdigit() or (host in _LOCAL and reader not in _LOCAL):
            continue
        seen = host if host not in _ANYWHERE and host not in _LOCAL and reader in _LOCAL else reader
        found.append((scheme != request.scheme, f"{scheme}://{f'[{seen}]' if ':' in seen else seen}:{port}/"))
    return min(found, default=(False, ""), key=lambda each: each[0])[1]
