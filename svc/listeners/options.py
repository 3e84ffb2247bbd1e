"""The options of `server.http`, `ws`, `upgrade`, `mount` and `socket`: keyword arguments or one mapping, in both spellings (spec: http §12.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from svc.protocol.websocket import MAX_PAYLOAD

ALIASES = {"runFirst": "run_first", "securePort": "secure_port", "maxPayload": "max_payload", "urlPath": "url_path"}
"""Names in the other spelling."""

_PLACING = ("run_first", "name", "before", "after", "host", "url_path")
_PORTS = ("port", "secure_port")
KNOWN = {
    "http": (*_PORTS, *_PLACING),
    "ws": (*_PORTS, *_PLACING, "max_payload"),
    "upgrade": (*_PORTS, *_PLACING),
    "mount": (*_PORTS, "run_first", "name", "before", "after", "host"),
    "socket": _PORTS,
}


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """`before`, `after`: names of steps. `host`, `url_path`: make a route (`routes.make_route`). `max_payload`: of the messages of a WebSocket that the
    listener is the first to use, in bytes."""

    port: int | None = None
    secure_port: int | None = None
    run_first: bool = False
    name: str | None = None
    before: str | None = None
    after: str | None = None
    host: str | None = None
    url_path: str | None = None
    max_payload: int = MAX_PAYLOAD


DEFAULTS = ListenerOptions()


def read_options(kind: str, options: Mapping[str, Any] | None, named: Mapping[str, Any]) -> ListenerOptions:
    """`kind`: a key of KNOWN. Raises TypeError or ValueError, saying what is wrong."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"server.{kind}: options are a mapping or keyword arguments, not {type(options).__name__}")
    found: dict[str, Any] = {}
    for given in (options or {}, named):
        for key, value in given.items():
            name = ALIASES.get(key, key)
            if name not in KNOWN[kind]:
                raise TypeError(f"server.{kind} has no option {key!r}; it has {', '.join(KNOWN[kind])}")
            if name in found:
                raise TypeError(f"server.{kind}: {name} is given twice")
            if value is not None:
                found[name] = _checked(kind, name, value)
    return ListenerOptions(**found)


def _checked(kind: str, name: str, value: Any) -> Any:
    if name in _PORTS:
        if type(value) is not int or not 0 <= value <= 65535:
            raise ValueError(f"server.{kind}: {name} must be a port number from 0 to 65535, not {value!r}")
    elif name == "run_first":
        if type(value) is not bool:
            raise TypeError(f"server.{kind}: {name} must be True or False, not {value!r}")
    elif name == "max_payload":
        if type(value) is not int or value < 1:
            raise ValueError(f"server.{kind}: {name} must be a number of bytes above 0, not {value!r}")
    elif not isinstance(value, str) or (not value and name in ("name", "before", "after")):
        raise TypeError(f"server.{kind}: {name} must be a string, not {value!r}")
    return value
