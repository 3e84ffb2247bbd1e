"""The options of an entry `static` (spec: http §13.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from svc.listeners.step import AUTHENTICATION

_KNOWN = ("files", "urlPath", "index", "extensions", "fallthrough", "notFound", "before", "after")
_NOT_FOUND_KEYS = ("file", "statusCode")
EXTENSIONS_MAX = 16  # each is a look at the disk for a request that finds nothing


@dataclass(frozen=True, slots=True)
class StaticOptions:
    """`extensions`: without dots. `not_found`: the file that answers where there is none, by its address or its name, with `not_found_status`; "" = none.
    `before`, `after`: names of listeners."""

    index: bool = False
    extensions: tuple[str, ...] = ()
    fallthrough: bool = True
    not_found: str = ""
    not_found_status: int = 404
    before: str | None = AUTHENTICATION
    after: str | None = None

    @property
    def unused(self) -> str:
        """What has no effect as the options are, "" if nothing."""
        return "notFound has no effect without fallthrough: false" if self.not_found and self.fallthrough else ""


def read_options(options: Mapping[str, Any]) -> StaticOptions:
    """Raises ValueError, saying what is wrong and what is right."""
    for key in options:
        if key not in _KNOWN:
            raise ValueError(f"static has no option {key!r}; it has {', '.join(_KNOWN)}")
    not_found, status = _not_found(options.get("notFound"))
    after = _name(options, "after")
    return StaticOptions(
        index=_flag(options, "index", False),
        extensions=_extensions(options.get("extensions")),
        fallthrough=_flag(options, "fallthrough", True),
        not_found=not_found,
        not_found_status=status,
        before=_name(options, "before") or (None if after else AUTHENTICATION),
        after=after,
    )


def _flag(options: Mapping[str, Any], key: str, default: bool) -> bool:
    value = options.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ValueError(f"{key} is true or false, not {value!r:.60}")
    return value


def _name(options: Mapping[str, Any], key: str) -> str | None:
    value = options.get(key)
    if value is None or value is False:
        return None
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} is the name of a listener, such as rest, not {value!r:.60}")
    return value


def _extensions(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    given = value if isinstance(value, list) else [value]
    names = [each.removeprefix(".") if isinstance(each, str) else "" for each in given]
    if not all(name and "/" not in name and "\0" not in name for name in names):
        raise ValueError(f"extensions is a list of extensions, such as [html], not {value!r:.60}")
    if len(names) > EXTENSIONS_MAX:
        raise ValueError(f"extensions has at most {EXTENSIONS_MAX} members")
    return tuple(dict.fromkeys(names))


def _not_found(value: Any) -> tuple[str, int]:
    status: Any = 404
    if isinstance(value, Mapping):
        unknown = [key for key in value if key not in _NOT_FOUND_KEYS]
        if unknown:
            raise ValueError(f"notFound has no option {unknown[0]!r}; it has {' and '.join(_NOT_FOUND_KEYS)}")
        status = value.get("statusCode", 404)
        value = value.get("file")
        if value is None:
            raise ValueError("notFound needs file, the name of the file that answers")
    if value is None or value is False:
        return "", 404
    if not isinstance(value, str) or not value.strip("/") or ".." in value.split("/") or "\0" in value:
        raise ValueError(f"notFound is the name of a file of the entry, or {{file, statusCode}}, not {value!r:.60}")
    if type(status) is not int or not 200 <= status <= 599 or status in (204, 205, 304):
        raise ValueError(f"notFound: statusCode is a status with a body, from 200 to 599, not {status!r:.60}")
    return value.removeprefix("./").strip("/"), status
