"""What bodies of cluster operations say about other nodes: names, addresses, subscriptions, routes (spec: operations §12).

Two vocabularies mean the same: `hostname` and `url` of the one, `node_name` and `host` of the other, which is also recognised by its answers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from svc.operations.fields import Field, bad_request, fault_of

PORT = 9933  # of the exchange between nodes
MAX_SHARD = 65_535
NAME_NEEDED = "'url' or 'hostname' is required for this operation"

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]{2,45}", re.ASCII)
_SERIAL = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,40}")
_NAME = Field("name", "name", "Of a database or table.")
_SCHEMES = ("wss", "ws", "https", "http")
_ROUTE_FIELDS = ("name", "shard", "startTime", "replicates", "revokedCertificates")

Route = str | dict[str, Any]
Identity = tuple[str, int | None]


# --- names and addresses ----------------------------------------------------------------------------------------------------------------


def split_address(text: Any) -> Identity | None:
    """(host in lower case, port or None) of `host`, `host:port`, `[::1]:port` or a URL; None for what is no address.

    >>> split_address("wss://server-two:9933"), split_address("server-two"), split_address("[::1]:80"), split_address("a b")
    (('server-two', 9933), ('server-two', None), ('::1', 80), None)
    """
    if not isinstance(text, str) or len(text) > 300:
        return None
    scheme, colons, rest = text.partition("://")
    if colons and scheme.lower() not in _SCHEMES:
        return None
    if not colons and text.count(":") > 1 and not text.startswith("["):
        rest = f"[{text}]"  # a bare IPv6 address
    try:
        parts = urlsplit(f"//{rest if colons else rest or text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or not _HOST.fullmatch(host) or parts.username is not None or parts.query or parts.fragment or port == 0:
        return None
    return None if parts.path not in ("", "/") else (host.lower(), port)


def node_url(host: str, port: int | None = None) -> str:
    """The address of a node's exchange port."""
    return f"wss://{f'[{host}]' if ':' in host else host}:{port or PORT}"


def same_address(one: str, other: str) -> bool:
    """Whether two URLs of exchange ports lead to one.

    >>> same_address("wss://B", "wss://b:9933/"), same_address("wss://b", "wss://c")
    (True, False)
    """
    found = [split_address(url) for url in (one, other)]
    hosts = [None if each is None else (each[0], each[1] or PORT) for each in found]
    return hosts[0] == hosts[1] is not None or one == other


def is_nats(body: Mapping[str, Any]) -> bool:
    """Whether a body names the node in the other vocabulary."""
    return body.get("node_name") is not None and body.get("hostname") is None and body.get("url") is None


def node_of(arguments: Mapping[str, Any], prefix: str = "") -> tuple[str, str]:
    """(name, url) of the node that checked arguments are about. Raises 400. `prefix`: before the names of fields in messages."""
    url, name = arguments.get("url"), arguments.get("hostname") or arguments.get("node_name") or arguments.get("name")
    if url is None and name is None:
        raise bad_request(prefix + NAME_NEEDED)
    address = split_address(name) if name is not None else None
    if name is not None and address is None:
        field = next(field for field in ("hostname", "node_name", "name") if arguments.get(field))
        raise bad_request(f"{prefix}'{field}' must be a host name")
    if url is None:
        assert address is not None
        return address[0], node_url(*address)
    target = split_address(url)
    if target is None or "://" not in url:
        raise bad_request(f"{prefix}'url' must be an address such as {node_url('server-two')}")
    return (target if address is None else address)[0], url


# --- records ----------------------------------------------------------------------------------------------------------------------------


def record_of(arguments: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The record of `svc_nodes` for the body of `add_node`, without what was not given. Credentials are kept only if that is asked for."""
    name, url = node_of(arguments, prefix)
    record: dict[str, Any] = {"name": name, "url": url}
    for field in ("shard", "revoked_certificates"):
        if arguments.get(field) is not None:
            record[field] = arguments[field]
    for number, serial in enumerate(record.get("revoked_certificates") or ()):
        if not _SERIAL.fullmatch(serial.replace(":", "")):
            raise bad_request(f"{prefix}'revoked_certificates[{number}]' must be a serial number: hexadecimal digits")
    if arguments.get("subscriptions") is not None:
        record["subscriptions"] = checked_subscriptions(arguments["subscriptions"], prefix)
    if arguments.get("start_time") is not None:
        record["start_time"] = checked_time(arguments["start_time"], f"{prefix}'start_time'")
    if arguments.get("authorization") is not None and arguments.get("retain_authorization"):
        given = arguments["authorization"]
        record["authorization"] = {name: given[name] for name in ("username", "password")} if isinstance(given, dict) else given
    return record


def checked_time(value: Any, label: str) -> float:
    """ms since the epoch of an ISO date or a number of ms."""
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
            return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000
        except (ValueError, OverflowError):
            pass
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 8.64e15:
        return float(value)
    raise bad_request(f"{label} must be a date")


def checked_subscriptions(given: Any, prefix: str = "") -> list[dict[str, Any]]:
    """Subscriptions with today's names and whole. Raises a 400 with all that is wrong."""
    faults: list[str] = []
    result = []
    for number, item in enumerate(given):
        label = f"{prefix}'subscriptions[{number}]"
        found: dict[str, Any] = {"database": item.get("database") or item.get("schema") or "data"}
        if item.get("table") is not None:
            found["table"] = item["table"]
        faults += [
            f"{label}.{field}' must be a string"
            for field in ("database", "table")
            if field in found and fault_of(found[field], _NAME.but(name=field)) is not None
        ]
        for field in ("subscribe", "publish"):
            found[field] = item[field] if item.get(field) is not None else False
            if not isinstance(found[field], bool):
                faults.append(f"{label}.{field}' must be a boolean")
        if item.get("start_time") is not None:
            found["start_time"] = checked_time(item["start_time"], f"{label}.start_time'")
        result.append(found)
    if faults:
        raise bad_request(*faults)
    return result


def merged_subscriptions(known: Iterable[Mapping[str, Any]], given: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those that are known with the given ones over them; one per table."""
    found = {(item.get("database"), item.get("table")): dict(item) for item in known}
    for item in given:
        found[(item.get("database"), item.get("table"))] = dict(item)
    return list(found.values())


# --- routes -----------------------------------------------------------------------------------------------------------------------------


def checked_routes(given: Iterable[Any]) -> list[tuple[Route, Identity]]:
    """Each route as the configuration holds it, and what makes it different from others. Raises a 400 with all that is wrong."""
    faults: list[str] = []
    found: list[tuple[Route, Identity]] = []
    for number, item in enumerate(given):
        if isinstance(item, str):
            address = split_address(item)
            if address is not None:
                found.append((item, address))
                continue
        elif isinstance(item, dict):
            host, port = item.get("hostname") or item.get("host"), item.get("port")
            address = split_address(host)
            if address is not None and "://" not in str(host) and address[1] is None and _is_port(port):
                port = None if port is None else int(port)
                route: dict[str, Any] = {"hostname": host} if port is None else {"hostname": host, "port": port}
                route |= {field: item[field] for field in _ROUTE_FIELDS if item.get(field) is not None}
                found.append((route, (address[0], port)))
                continue
        faults.append(f"'routes[{number}]' must be a host name, or an object with 'hostname' and 'port'")
    if faults:
        raise bad_request(*faults[:20])
    return found


def _is_port(value: Any) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value == int(value)
        and 0 < value < 65536
    )


def identity_of(route: Any) -> Identity | None:
    """The same for a route of the file, which is not checked; None if it is invalid."""
    if isinstance(route, dict):
        address = split_address(route.get("hostname") or route.get("host"))
        port = route.get("port")
        if address is None:
            return None
        return (address[0], port if isinstance(port, int) else address[1])
    return split_address(route)


def nodes_of_routes(routes: Iterable[Any]) -> list[dict[str, Any]]:
    """The nodes that routes lead to, as the registry has them: called as the route says, else as its host. Those that are wrong are left out.

    >>> nodes_of_routes(["b", {"hostname": "c", "port": 9944, "revokedCertificates": ["1A"]}, 5])
    [{'name': 'b', 'url': 'wss://b:9933'}, {'name': 'c', 'url': 'wss://c:9944', 'revoked_certificates': ['1A']}]
    """
    found = []
    for route in routes:
        address = identity_of(route)
        if address is None:
            continue
        record: dict[str, Any] = {"name": address[0], "url": node_url(*address)}
        if isinstance(route, Mapping):
            if isinstance(route.get("name"), str) and route["name"]:
                record["name"] = route["name"]
            given = {"shard": "shard", "startTime": "start_time", "replicates": "replicates", "revokedCertificates": "revoked_certificates"}
            record |= {field: route[key] for key, field in given.items() if route.get(key) is not None}
        found.append(record)
    return found
