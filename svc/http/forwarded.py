"""What proxies say of the client before them: `ForwardedAddress` (RFC 7239), `X-Forwarded-For`, `-Proto`, `-Host` and `-Prefix` (spec: http §14.1).

Each proxy adds to the right what it knows of the peer that it got the request from; what stands to the left of that came with the request, so from the
client or from a proxy before. Read from the right, the client is the first address that is not itself a trusted proxy; nothing to the left of it counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv6Address, ip_address

from svc.errors import ClientError
from svc.protocol.request_head import HOST

MAX_HOPS = 64  # proxies that are looked at
MAX_PREFIX = 200  # characters

_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*/?")
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_PAIR = re.compile(rf'[ \t]*({_TOKEN})=(?:"((?:[^"\\]|\\.)*)"|([A-Za-z0-9!#$%&\'*+.^_`|~:\[\]-]+))[ \t]*')


@dataclass(frozen=True, slots=True)
class ForwardedAddress:
    """`client`: its address, None if the proxies hide it; `scheme`, `host`: of the address that it used. None: not said. `prefix`: the path that a proxy has
    removed from the front of that address, as `/svc`."""

    client: str | None = None
    scheme: str | None = None
    host: str | None = None
    prefix: str = ""


def read_forwarded(fields: Mapping[str, str], is_trusted: Callable[[str], bool]) -> ForwardedAddress:
    """The client as the fields of a request from a trusted proxy describe it. `fields`: lower-case names, repeated ones joined by commas.

    Raises ClientError for a value that is malformed where a proxy must have written it, and for the two kinds of fields that disagree: a proxy sets one
    kind, so the other is from the client.
    """
    standard = _read_standard(fields["forwarded"], is_trusted) if "forwarded" in fields else None
    common = _read_common(fields, is_trusted)
    if standard is not None and common is not None and standard != common:
        raise ClientError("Forwarded and X-Forwarded-* disagree: the proxy has to set the one and to remove the other")
    found = standard or common or ForwardedAddress()
    prefix = _prefix(fields.get("x-forwarded-prefix", ""))
    return replace(found, prefix=prefix) if prefix else found


def _read_common(fields: Mapping[str, str], is_trusted: Callable[[str], bool]) -> ForwardedAddress | None:
    """`X-Forwarded-*`; None without any."""
    clients, schemes, hosts = (_items(fields.get(f"x-forwarded-{name}", "")) for name in ("for", "proto", "host"))
    if not (clients or schemes or hosts):
        return None
    position, client = _find_client(clients, is_trusted)

    def beside(values: list[str]) -> str | None:
        """The value that the proxy which named the client has added; where there are not as many as clients, that of the last proxy."""
        if not values:
            return None
        return values[position] if len(values) == len(clients) else values[-1]

    return ForwardedAddress(client, _scheme(beside(schemes), "X-Forwarded-Proto"), _host(beside(hosts), "X-Forwarded-Host"))


def _read_standard(value: str, is_trusted: Callable[[str], bool]) -> ForwardedAddress:
    elements = _elements(value)
    if not elements:
        return ForwardedAddress()
    position, client = _find_client([element.get("for", "") for element in elements], is_trusted)
    element = elements[position]
    return ForwardedAddress(client, _scheme(element.get("proto"), "Forwarded"), _host(element.get("host"), "Forwarded"))


def _find_client(nodes: list[str], is_trusted: Callable[[str], bool]) -> tuple[int, str | None]:
    """The position of the client, and its address. A node that is not an address (`unknown`, `_hidden`) hides the client: then the address is that of the
    proxy which hides it, None if that is the peer."""
    found: str | None = None
    for position in range(len(nodes) - 1, max(-1, len(nodes) - 1 - MAX_HOPS), -1):
        address = node_address(nodes[position])
        if address is None:
            return position, found
        found = address
        if not is_trusted(address):
            return position, found
    return max(0, len(nodes) - MAX_HOPS), found


def node_address(text: str) -> str | None:
    """The address of `192.0.2.7`, `192.0.2.7:80`, `2001:db8::7`, `[2001:db8::7]` or `[2001:db8::7]:80`; None for what is not one.

    >>> node_address("[2001:DB8::7]:80"), node_address("::ffff:192.0.2.7"), node_address("unknown")
    ('2001:db8::7', '192.0.2.7', None)
    """
    host = text
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            return None
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def _items(value: str) -> list[str]:
    return [item for part in value.split(",") if (item := part.strip())]


def _elements(value: str) -> list[dict[str, str]]:
    """The elements of `ForwardedAddress`, their parameters by lower-case name. Raises ClientError.

    >>> _elements('for="[2001:db8::7]:80";Proto=https, for=192.0.2.7')
    [{'for': '[2001:db8::7]:80', 'proto': 'https'}, {'for': '192.0.2.7'}]
    """
    found: list[dict[str, str]] = []
    element: dict[str, str] = {}
    position = 0
    while position < len(value):
        if value[position] in " \t":
            position += 1
            continue
        if value[position] not in ",;":
            match = _PAIR.match(value, position)
            if match is None or (name := match[1].lower()) in element:
                raise _malformed("Forwarded")
            element[name] = match[3] if match[2] is None else re.sub(r"\\(.)", r"\1", match[2])
            position = match.end()
            if position < len(value) and value[position] not in ",;":
                raise _malformed("Forwarded")
        if position < len(value) and value[position] == ",":
            found += [element] if element else []
            element = {}
        position += 1
    return [*found, element] if element else found


def _scheme(value: str | None, name: str) -> str | None:
    if value is None:
        return None
    scheme = _SCHEMES.get(value.lower())
    if scheme is None:
        raise _malformed(name)
    return scheme


def _host(value: str | None, name: str) -> str | None:
    if value is not None and (not value or HOST.fullmatch(value) is None):
        raise _malformed(name)
    return value


def _prefix(value: str) -> str:
    """Of several values the last. What could lead to another server, or out of the prefix, is refused.

    >>> _prefix("/outer, /svc/"), _prefix("/")
    ('/svc', '')
    """
    prefix = value.rpartition(",")[2].strip()
    if len(prefix) > MAX_PREFIX or _PREFIX.fullmatch(prefix) is None:
        raise _malformed("X-Forwarded-Prefix")
    return prefix.rstrip("/")


def _malformed(name: str) -> ClientError:
    return ClientError(f"The field {name} of a proxy is malformed")
