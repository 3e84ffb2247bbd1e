"""What the section `replication` may say: rules that concern several of its keys, or what is in its lists (spec: configuration §2.11)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

MAX_NAME = 200  # characters of a node
MAX_SHARD = 65_535
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_URL = re.compile(rf"(?:wss?|https?)://{_HOST}(?::\d{{1,5}})?/?", re.ASCII)
_ROUTE = re.compile(rf"(?:(?:wss?|https?)://)?{_HOST}(?::\d{{1,5}})?/?|[0-9A-Fa-f:]+", re.ASCII)
_SERVER = re.compile(rf"(?:(?:tls|nats)://)?{_HOST}(?::\d{{1,5}})?", re.ASCII)
_RESIDENCY = "asks for records that only some nodes have: this version keeps every record on every node"
_DATABASE_KEYS = frozenset(("name", "replicateTo", "sharded"))
_ROUTE_KEYS = frozenset(("name", "hostname", "host", "port", "shard", "startTime", "replicates", "revokedCertificates"))

Fault = tuple[str, str]
"""(sentence, dotted name of the value at fault)."""


def replication_faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    """`values`: of the settings, by dotted name.

    >>> [text for text, _ in replication_faults({"replication.hostname": "a b"})]
    ["'replication.hostname' must be a name such as that of a host: letters, digits, '.', '_' and '-'"]
    """

    def value(key: str) -> Any:
        return values.get(f"replication.{key}")

    def fault(key: str, text: str) -> Fault:
        return f"'replication.{key}' {text}", f"replication.{key}"

    name, url, shard = value("hostname"), value("url"), value("shard")
    if not (isinstance(name, str) and len(name) <= MAX_NAME and _NAME.fullmatch(name)):
        yield fault("hostname", "must be a name such as that of a host: letters, digits, '.', '_' and '-'")
    if url is not None and not _URL.fullmatch(url):
        yield fault("url", "must be an address such as wss://server-two:9933")
    if shard is not None and not _is_integer(shard, 0, MAX_SHARD):
        yield fault("shard", f"must be an integer from 0 to {MAX_SHARD}")
    if value("replicateTo") is not None:
        yield fault("replicateTo", _RESIDENCY)
    yield from (fault(f"databases{place}", text) for place, text in _databases(value("databases")))
    yield from (fault(f"routes[{number}]", text) for number, route in enumerate(value("routes") or ()) if (text := _route(route)))
    servers = value("servers")
    for number, server in enumerate(servers or ()):
        if not isinstance(server, str) or not _SERVER.fullmatch(server):
            yield fault(f"servers[{number}]", "must be an address of an engine, such as tls://engine.example:4222")
    if servers == ():
        yield fault("servers", "must have an address; leave it out to let each node run its own engine")
    if not servers:
        for key in ("credentials", "streamReplicas"):
            if value(key) is not None:
                yield fault(key, "is for engines that run elsewhere: 'replication.servers' is missing")


def _databases(given: Any) -> Iterator[Fault]:
    """(place in the list, what is wrong)."""
    if given is None or given == "*":
        return
    if not isinstance(given, list | tuple):
        yield "", "must be '*', or a list of names or of mappings with 'name'"
        return
    for number, entry in enumerate(given):
        place = f"[{number}]"
        if isinstance(entry, str) and entry:
            continue
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str) or not entry["name"]:
            yield place, "must be the name of a database, or a mapping with 'name'"
        elif unknown := [str(key) for key in entry if key not in _DATABASE_KEYS]:
            yield place, f"has the unknown key '{unknown[0][:100]}'; there are {', '.join(sorted(_DATABASE_KEYS))}"
        elif entry.get("replicateTo") is not None or entry.get("sharded"):
            yield place, _RESIDENCY


def _route(route: Any) -> str:
    """What is wrong with it, "" for nothing."""
    if isinstance(route, str):
        return "" if _ROUTE.fullmatch(route) else "must be the name of a host, with its port if that is not 9933"
    if not isinstance(route, Mapping):
        return "must be the name of a host, or a mapping with 'hostname'"
    host, port = route.get("hostname") or route.get("host"), route.get("port")
    if not isinstance(host, str) or not _ROUTE.fullmatch(host):
        return "must have a 'hostname' that is the name of a host"
    if port is not None and not _is_integer(port, 1, 65_535):
        return "must have a 'port' from 1 to 65535"
    if route.get("name") is not None and not (isinstance(route["name"], str) and _NAME.fullmatch(route["name"])):
        return "must have a 'name' such as that of a host"
    if route.get("shard") is not None and not _is_integer(route["shard"], 0, MAX_SHARD):
        return f"must have a 'shard' from 0 to {MAX_SHARD}"
    serials = route.get("revokedCertificates")
    if serials is not None and not (isinstance(serials, list | tuple) and all(isinstance(each, str) for each in serials)):
        return "must have 'revokedCertificates' that are a list of serial numbers"
    unknown = [str(key) for key in route if key not in _ROUTE_KEYS]
    return f"has the unknown key '{unknown[0][:100]}'" if unknown else ""


def _is_integer(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
